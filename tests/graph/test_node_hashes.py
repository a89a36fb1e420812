"""Ids of operators: golden values of the real classes, and what they follow from."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.core.wire.lineage import murmur3_128
from flinknet.errors import ConfigError
from flinknet.graph import JobGraph, job_graph_of
from tests.graph.programs import (
    BC,
    environment,
    hashes_of,
    same,
    shuffle_example,
    twice,
    word_count,
)

A_SOURCE, B_SOURCE = BC, "feca28aff5a3958840bee985ee7de4d3"
SHUFFLE_HASHES = [
    BC,
    "0a448493b4782967b150582570326227",
    "e70bbd798b564e0a50e10e343f1ac56b",
    "604ee7bed040266218075078a35a4449",
]


def union(first: str, second: str, *, parallelism: int = 1, uids: bool = False) -> JobGraph:
    """A.union(B) into a sink; the sources are declared in this order."""
    env = environment()
    env.set_parallelism(parallelism)
    made: dict[str, Any] = {}
    for name in (first, second):
        made[name] = env.from_sequence(1, 9).name(name)
        if uids:
            made[name].uid(name)
    sink = made["A"].union(made["B"]).print().name("out")
    if uids:
        sink.uid("sink")
    return job_graph_of(env.execute())


def hash_list(job: JobGraph) -> list[str]:
    return [
        operator_id for vertex in job.sorted_vertices() for operator_id, _ in vertex.operator_ids
    ]


def test_murmur3_of_known_values() -> None:
    assert murmur3_128(b"").hex() == "0" * 32
    assert murmur3_128(b"hello").hex() == "029bbd41b3a7d8cb191dae486a901e5b"
    fox = b"The quick brown fox jumps over the lazy dog"
    assert murmur3_128(fox).hex() == "6c1b07bc7bbc4be347939ac4a93c437a"


@pytest.mark.row("S131")
def test_golden_ids_of_the_worked_examples() -> None:
    assert hash_list(job_graph_of(shuffle_example())) == SHUFFLE_HASHES
    assert hash_list(job_graph_of(word_count())) == SHUFFLE_HASHES


@pytest.mark.row("S131")
def test_golden_ids_of_a_union_and_of_a_fork() -> None:
    env = environment()
    both = env.from_sequence(1, 9).union(env.from_sequence(1, 9))
    both.map(same).print()
    union_hashes = hashes_of(job_graph_of(env.execute()))
    assert union_hashes["Map"] == "4bf7c1955ffe56e2106d666433eaf137"
    env = environment()
    mapped = env.from_sequence(1, 9).map(same)
    mapped.map(same).name("L").print()
    mapped.map(same).name("R").print()
    fork_hashes = hashes_of(job_graph_of(env.execute()))
    assert fork_hashes["Source: Sequence Source"] == "cbc357ccb763df2852fee8c4fc7d55f2"
    assert fork_hashes["Map"] == "8b66bce9f80f19736cb554745e27f15e"


@pytest.mark.row("S131")
def test_the_same_program_has_the_same_ids_and_names_do_not_matter() -> None:
    assert hash_list(job_graph_of(shuffle_example())) == hash_list(job_graph_of(shuffle_example()))
    env = environment()
    env.set_parallelism(7)
    source = env.from_sequence(1, 5).set_parallelism(1).name("Numbers")
    source.flat_map(twice).name("Double").shuffle().filter(bool).name("Some").print().name("Out")
    assert hash_list(job_graph_of(env.execute())) == SHUFFLE_HASHES


@pytest.mark.row("S131")
def test_another_node_changes_the_ids_behind_it() -> None:
    env = environment()
    env.set_parallelism(4)
    source = env.from_sequence(1, 9).set_parallelism(1)
    source.flat_map(twice).shuffle().filter(same).rebalance().map(same).print()
    hashes = hashes_of(job_graph_of(env.execute()))
    assert hashes["Flat Map"] == SHUFFLE_HASHES[1]  # before it
    assert hashes["Filter"] != SHUFFLE_HASHES[2]  # nothing is chained to it any more
    assert hashes["Sink: Print to Std. Out"] != SHUFFLE_HASHES[3]


@pytest.mark.row("S131")
def test_a_node_on_paths_of_different_length_is_hashed_when_all_its_inputs_are() -> None:
    env = environment()
    source = env.from_sequence(1, 9)
    far = source.rebalance().map(same).name("1").rebalance().map(same).name("2")
    source.rebalance().union(far.rebalance()).print()
    hashes = hashes_of(job_graph_of(env.execute()))
    assert len(hashes) == len(set(hashes.values())) == 4


@pytest.mark.row("S132")
def test_ids_of_nodes_count_over_the_process_and_hashes_do_not() -> None:
    graphs = []
    for first, second in (("A", "B"), ("B", "A"), ("A", "B")):
        env = environment()
        made = {name: env.from_sequence(1, 9).name(name) for name in (first, second)}
        made["A"].union(made["B"]).print()
        graphs.append(env.execute())
    assert [list(graph.nodes) for graph in graphs] == [[1, 2, 4], [5, 6, 8], [9, 10, 12]]
    one, _, three = (hash_list(job_graph_of(graph)) for graph in graphs)
    assert one == three


@pytest.mark.row("S132")
def test_the_order_of_declaration_exchanges_the_ids_of_sources() -> None:
    a_first, b_first = hashes_of(union("A", "B")), hashes_of(union("B", "A"))
    assert a_first == {
        "Source: A": A_SOURCE,
        "Source: B": B_SOURCE,
        "Sink: out": "b27f31f3e3a199a9981d185a455185be",
    }
    assert b_first == {
        "Source: B": A_SOURCE,
        "Source: A": B_SOURCE,
        "Sink: out": "ea37e9ff53f14dbd7cbd100e25894db2",
    }
    assert hashes_of(union("A", "B", parallelism=3)) == a_first


@pytest.mark.row("S132")
def test_with_uids_nothing_changes() -> None:
    assert hashes_of(union("A", "B", uids=True)) == hashes_of(union("B", "A", uids=True))


@pytest.mark.row("S131")
def test_a_uid_is_hashed_alone() -> None:
    env = environment()
    env.from_sequence(1, 9).rebalance().map(same).uid("m").print()
    hashes = hashes_of(job_graph_of(env.execute()))
    assert hashes["Map"] == "719700179e681491ace836959fad0846"


def test_a_uid_belongs_to_one_operator() -> None:
    env = environment()
    env.from_sequence(1, 9).uid("m").map(same).uid("m").print()
    with pytest.raises(ConfigError, match="uid 'm' of Map is that of another operator"):
        job_graph_of(env.execute())


@pytest.mark.row("S131")
def test_hashes_that_the_user_gave_stand_next_to_it() -> None:
    older = "0123456789abcdef0123456789abcdef"
    env = environment()
    env.from_sequence(1, 9).set_uid_hash(older).rebalance().print()
    vertex = job_graph_of(env.execute()).sorted_vertices()[0]
    assert vertex.operator_ids == ((BC, older),)
