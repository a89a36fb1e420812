"""Ids of operators and data sets: golden values of the real classes, and what follows from them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.flink.distribution import class_path, flink_home, java
from flinknet.core.wire.lineage import ancestors, murmur3_128
from flinknet.errors import ConfigError
from flinknet.graph import JobGraph, job_graph_of
from tests.graph.programs import (
    BC,
    environment,
    hashes_of,
    same,
    shuffle_example,
    twice,
    two_paths,
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


EXPECTED = Path(__file__).parent / "expected" / "two_paths_of_flink.json"
HARNESS = Path(__file__).parents[1] / "interop" / "java" / "PlanOf.java"


@pytest.fixture
def of_flink() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(EXPECTED.read_text())
    return found


@pytest.mark.row("S168")
def test_the_plan_for_the_visualizer_is_that_of_flink(of_flink: dict[str, Any]) -> None:
    plan = json.loads(two_paths().get_execution_plan())
    assert plan == of_flink["plan"]
    assert [list(each) for each in plan["nodes"]] == [
        list(each) for each in of_flink["plan"]["nodes"]
    ]


@pytest.mark.row("S138")
def test_data_sets_have_the_ids_that_flink_gives_them(of_flink: dict[str, Any]) -> None:
    job = job_graph_of(two_paths().get_stream_graph())
    found = {
        (str(each.id), each.producer.name, each.consumers[0].target.name)
        for vertex in job.vertices.values()
        for each in vertex.results
    }
    assert found == {(each["id"], each["from"], each["to"]) for each in of_flink["data_sets"]}


@pytest.mark.interop
def test_flink_itself_answers_what_is_stored(of_flink: dict[str, Any], tmp_path: Path) -> None:
    home, runner, compiler = flink_home("2.3.0"), java(), java("javac")
    if home is None or runner is None or compiler is None:
        pytest.skip("the jars of Flink 2.3.0 are not here (make flink), or there is no JDK")
    paths = class_path(home, tmp_path)
    subprocess.run([compiler, "-nowarn", "-d", tmp_path, "-cp", paths, HARNESS], check=True)
    ended = subprocess.run(
        [runner, "-cp", paths, "PlanOf"], capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(ended.stdout) == of_flink


def vertices_of(job: JobGraph) -> list[bytes]:
    """The ids of the vertices of a job, the sources first."""
    return [vertex.id.raw for vertex in job.sorted_vertices()]


def test_a_chain_of_vertices_shows_in_any_order() -> None:
    vertices = vertices_of(job_graph_of(shuffle_example()))
    expected = {each: tuple(reversed(vertices[:at])) for at, each in enumerate(vertices)}
    assert ancestors(vertices) == expected
    assert ancestors(reversed(vertices)) == expected


def test_operators_chained_in_between_do_not_hide_who_feeds_whom() -> None:
    env = environment()
    stream = env.from_sequence(1, 9).map(same).map(same).map(same)
    stream.rebalance().map(same).filter(bool).rebalance().print()
    first, second, third = vertices_of(job_graph_of(env.execute()))
    assert ancestors([third, second, first])[third] == (second, first)


def test_branches_of_one_source_are_not_behind_each_other() -> None:
    env = environment()
    source = env.from_sequence(1, 9)
    source.rebalance().map(same).rebalance().print()
    source.rebalance().map(same).rebalance().print()
    vertices = vertices_of(job_graph_of(env.execute()))
    found = ancestors(vertices)
    assert sorted(len(each) for each in found.values()) == [0, 1, 1, 2, 2]
    assert all(each[-1] == vertices[0] for each in found.values() if each)


def test_what_has_two_inputs_shows_no_origin_and_neither_does_what_is_behind_it() -> None:
    env = environment()
    both = env.from_sequence(1, 9).union(env.from_sequence(1, 9))
    both.rebalance().map(same).rebalance().print()
    vertices = vertices_of(job_graph_of(env.execute()))
    assert ancestors(vertices) == {vertices[0]: (), vertices[1]: ()}


def test_a_chosen_uid_shows_no_origin() -> None:
    env = environment()
    env.from_sequence(1, 9).rebalance().map(same).uid("chosen").rebalance().print()
    source, chosen, last = vertices_of(job_graph_of(env.execute()))
    assert ancestors([source, chosen, last]) == {source: ()}
