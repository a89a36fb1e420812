"""From transformations to the StreamGraph."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.errors import ConfigError
from flinknet.graph import OutputTag, job_graph_of
from flinknet.graph.documents import stream_document
from flinknet.graph.operators import BatchGroupedReduce, StreamFilter, StreamGroupedReduce
from flinknet.graph.stream_graph import StreamGraph
from flinknet.graph.transformations import (
    BROADCAST,
    REBALANCE,
    SHUFFLE,
    PartitionTransformation,
    StreamExchangeMode,
)
from tests.graph.programs import environment, first, plan_of, same, shuffle_example, twice


def edges_of(graph: StreamGraph) -> list[str]:
    return [str(edge) for edge in graph.edges]


@pytest.mark.row("S129")
def test_the_worked_example_has_exactly_these_edges() -> None:
    assert edges_of(shuffle_example()) == ["1 -> 2 REBALANCE", "2 -> 4 SHUFFLE", "4 -> 5 FORWARD"]


@pytest.mark.row("S126")
def test_a_partition_becomes_a_virtual_node_that_edges_see_through() -> None:
    graph = shuffle_example()
    assert list(graph.nodes) == [1, 2, 4, 5]  # 3 is the partition
    ((virtual_id, (behind, made)),) = graph.virtual.items()
    assert virtual_id == 6  # a new id, from the same count
    assert behind == 2
    assert isinstance(made, PartitionTransformation)
    assert (made.partitioner, made.exchange_mode) == (SHUFFLE, None)
    (edge,) = graph.nodes[2].out_edges
    assert (edge.target_id, edge.partitioner) == (4, SHUFFLE)


@pytest.mark.row("S121")
def test_union_partition_and_side_output_make_no_node() -> None:
    env = environment()
    tag = OutputTag("late", int)
    one = env.from_sequence(1, 9).process(lambda value, output: None, output_type=int)
    two = env.from_sequence(1, 9)
    one.get_side_output(tag).rescale().union(two.broadcast()).map(same).print()
    graph = env.execute()
    names = [node.operator_name for node in graph.nodes.values()]
    assert names == [
        *("Source: Sequence Source", "Process", "Source: Sequence Source", "Map"),
        "Sink: Print to Std. Out",
    ]
    (mapped,) = (node for node in graph.nodes.values() if node.operator_name == "Map")
    actual = [(e.source_id, e.partitioner.name, e.output_tag) for e in mapped.in_edges]
    assert actual == [(2, "RESCALE", tag), (3, "BROADCAST", None)]


@pytest.mark.row("S122")
def test_a_transformation_on_two_paths_is_translated_once_and_inputs_come_first() -> None:
    env = environment()
    shared = env.from_sequence(1, 9).map(same)
    left, right = shared.map(same), shared.filter(same)
    left.union(right).print()
    env.transformations.reverse()  # the sink first: its inputs are translated before it
    graph = env.execute()
    order = list(graph.nodes)
    assert sorted(order) == [1, 2, 3, 4, 6]
    assert all(order.index(e.source_id) < order.index(e.target_id) for e in graph.edges)
    assert len(graph.nodes[2].out_edges) == 2


@pytest.mark.row("S123")
def test_what_is_not_set_is_that_of_the_job_and_what_is_set_stays() -> None:
    env = environment()
    env.set_parallelism(3)
    env.set_max_parallelism(64)
    env.set_buffer_timeout("5ms")
    plain = env.from_sequence(1, 9)
    own = plain.map(same).set_parallelism(2).set_max_parallelism(32).set_buffer_timeout(0)
    own.print()
    source, mapped, sink = env.execute().nodes.values()
    actual = [
        (n.parallelism, n.max_parallelism, n.buffer_timeout_ns) for n in (source, mapped, sink)
    ]
    assert actual == [(3, 64, 5_000_000), (2, 32, 0), (3, 64, 5_000_000)]


def test_keys_set_what_the_program_does_not() -> None:
    env = environment(
        {
            "parallelism.default": "4",
            "pipeline.max-parallelism": "256",
            "execution.buffer-timeout.enabled": "false",
        }
    )
    env.from_sequence(1, 9).print().set_parallelism(2)
    source, sink = env.execute().nodes.values()
    assert (source.parallelism, sink.parallelism) == (4, 2)
    assert (source.max_parallelism, source.buffer_timeout_ns) == (256, -1)


@pytest.mark.row("S123")
def test_the_output_type_is_asked_for_when_it_is_translated() -> None:
    env = environment()
    env.from_sequence(1, 9).map(lambda value: value)
    with pytest.raises(ConfigError, match="the type of its records is not known"):
        env.get_stream_graph()


@pytest.mark.row("S124")
@pytest.mark.parametrize(
    ("groups", "own", "expected"),
    [
        (("red", "red"), None, "red"),  # that of all inputs
        (("red", "blue"), None, "default"),  # inputs that differ
        (("red", "red"), "green", "green"),  # its own
    ],
)
def test_slot_sharing_group(groups: tuple[str, str], own: str | None, expected: str) -> None:
    env = environment()
    one, two = (env.from_sequence(1, 9).slot_sharing_group(group) for group in groups)
    mapped = one.rebalance().union(two).map(same)  # seen through virtual nodes
    if own:
        mapped.slot_sharing_group(own)
    mapped.print()
    graph = env.execute()
    assert graph.nodes[mapped.transformation.id].slot_sharing_group == expected


@pytest.mark.row("S125")
def test_the_same_program_as_a_stream_and_as_a_batch() -> None:
    actual: dict[str, Any] = {}
    for mode in ("STREAMING", "BATCH"):
        env = environment({"execution.runtime-mode": mode})
        env.enable_checkpointing("1s")
        env.generate(records=9).key_by(first).reduce(max).print()
        graph = env.execute()
        job = job_graph_of(graph)
        reduce = next(n for n in graph.nodes.values() if n.operator_name == "Keyed Reduce")
        assert reduce.operator_factory is not None
        actual[mode] = {
            "name": graph.job_name,
            "timeouts": {edge.buffer_timeout_ns for edge in graph.edges},
            "types": {edge.source.partition_type.name for edge in job.edges},
            "reduce": reduce.operator_factory.kind,
            "checkpoints": bool(job.checkpoints),
            "schedule": job.schedule,
        }
    assert actual["STREAMING"] == {
        "name": "Flink Streaming Job",
        "timeouts": {100_000_000},
        "types": {"PIPELINED_BOUNDED"},
        "reduce": StreamGroupedReduce,
        "checkpoints": True,
        "schedule": "all at once",
    }
    assert actual["BATCH"] == {
        "name": "Flink Batch Job",
        "timeouts": {-1},
        "types": {"BLOCKING"},
        "reduce": BatchGroupedReduce,
        "checkpoints": False,
        "schedule": "by pipelined region",
    }


def test_automatic_is_batch_if_all_sources_end() -> None:
    for unbounded in (False, True):
        env = environment({"execution.runtime-mode": "AUTOMATIC"})
        streams = [env.from_sequence(1, 9).map(str)]
        if unbounded:
            streams.append(env.socket_text_stream("127.0.0.1", 9999))
        for stream in streams:
            stream.print()
        assert env.execute().is_batch is not unbounded


def test_batch_refuses_a_source_that_never_ends() -> None:
    env = environment({"execution.runtime-mode": "BATCH"})
    env.socket_text_stream("127.0.0.1", 9999).print()
    with pytest.raises(ConfigError, match=r"Socket Stream never ends.*AUTOMATIC"):
        env.execute()


@pytest.mark.parametrize("mode", ["ALL_EXCHANGES_HYBRID_FULL", "ALL_EXCHANGES_HYBRID_SELECTIVE"])
def test_hybrid_exchanges_are_refused(mode: str) -> None:
    env = environment({"execution.runtime-mode": "BATCH", "execution.batch-shuffle-mode": mode})
    env.from_sequence(1, 9).print()
    with pytest.raises(ConfigError, match=rf"flinknet has no {mode}"):
        env.execute()


@pytest.mark.row("S127")
@pytest.mark.parametrize(
    ("up", "down", "partitioner"),
    [
        *((1, 1, "FORWARD"), (4, 4, "FORWARD")),
        *((1, 4, "REBALANCE"), (4, 1, "REBALANCE"), (2, 4, "REBALANCE")),
    ],
)
def test_forward_between_equal_parallelism_else_rebalance(
    up: int, down: int, partitioner: str
) -> None:
    env = environment()
    env.from_sequence(1, 9).set_parallelism(up).map(same).set_parallelism(down).print()
    edge = env.execute().nodes[1].out_edges[0]
    assert edge.partitioner.name == partitioner
    assert edge.exchange_mode is StreamExchangeMode.UNDEFINED


@pytest.mark.row("S127")
def test_forward_between_different_parallelism_is_refused_with_both_names() -> None:
    env = environment()
    source = env.from_sequence(1, 9).set_parallelism(2)
    source.forward().map(same).name("Twice").set_parallelism(4).print()
    with pytest.raises(ConfigError, match=r"Source: Sequence Source has 2, Twice has 4"):
        env.execute()


@pytest.mark.row("S127")
def test_the_partitioner_next_to_the_consumer_and_the_mode_next_to_the_producer_hold() -> None:
    env = environment()
    source = env.from_sequence(1, 9)
    near = PartitionTransformation(source.transformation, BROADCAST, StreamExchangeMode.BATCH)
    far = PartitionTransformation(near, REBALANCE, StreamExchangeMode.PIPELINED)
    mapped = source.map(same)
    mapped.transformation.inputs = (far,)
    mapped.print()
    edge = env.execute().nodes[1].out_edges[0]
    assert edge.partitioner is REBALANCE
    assert edge.exchange_mode is StreamExchangeMode.BATCH


@pytest.mark.row("S127")
def test_a_side_output_gives_its_tag_to_the_edge() -> None:
    env = environment()
    tag = OutputTag("late", int)
    stream = env.from_sequence(1, 9).process(lambda value, output: None, output_type=int)
    stream.get_side_output(tag).print()
    stream.print()
    assert [edge.output_tag for edge in env.execute().nodes[2].out_edges] == [tag, None]


@pytest.mark.row("S128")
def test_what_nodes_and_edges_show() -> None:
    env = environment()
    numbers = env.from_sequence(1, 9)
    both = numbers.filter(same).connect(numbers.rebalance()).map(same, same)
    both.print()
    graph = env.execute()
    node = graph.nodes[2]
    assert (node.operator_name, node.operator_factory.kind) == ("Filter", StreamFilter)
    assert node.parallelism == 1
    assert ([str(e) for e in node.in_edges], [str(e) for e in node.out_edges]) == (
        ["1 -> 2 FORWARD"],
        ["2 -> 4 FORWARD"],
    )
    one, two = graph.nodes[4].in_edges
    assert (one.source, one.target, one.type_number) == (graph.nodes[2], graph.nodes[4], 1)
    assert (two.source, two.target, two.type_number) == (graph.nodes[1], graph.nodes[4], 2)
    assert (one.partitioner.name, two.partitioner.name) == ("FORWARD", "REBALANCE")
    assert (one.output_tag, one.unique_id) == (None, 0)
    assert one.id == "Filter-2_Co-Map-4_1_FORWARD_0"


def test_edges_between_the_same_two_nodes_are_distinguished() -> None:
    env = environment()
    numbers = env.from_sequence(1, 9)
    numbers.union(numbers).print()
    assert [edge.unique_id for edge in env.execute().edges] == [0, 1]


def test_one_input_without_unaligned_checkpoints_takes_them_from_the_others() -> None:
    env = environment()
    numbers = env.from_sequence(1, 9)
    numbers.broadcast().union(numbers.rebalance()).print()
    assert not any(edge.supports_unaligned_checkpoints for edge in env.execute().edges)


def test_without_generated_uids_every_operator_needs_one() -> None:
    env = environment({"pipeline.auto-generate-uids": "false"})
    env.from_sequence(1, 9).uid("src").flat_map(twice).print()
    with pytest.raises(ConfigError, match="Flat Map has no uid"):
        env.execute()


RESTORED = {
    "execution.state-recovery.path": "/savepoints/1",
    "execution.state-recovery.claim-mode": "CLAIM",
    "execution.state-recovery.ignore-unclaimed-state": "true",
}


@pytest.mark.row("S167")
def test_savepoint_restore_settings_are_part_of_the_graph_and_warn_that_nothing_is_restored() -> (
    None
):
    env = environment(RESTORED)
    env.from_sequence(1, 9).print()
    assert stream_document(env.execute())["savepoint_restore"] == {
        "path": "/savepoints/1",
        "claim_mode": "CLAIM",
        "ignores_unclaimed_state": True,
    }
    found = [each.text for each in env.warnings if each.code == "option-not-acted-on"]
    assert found == [
        f"{key}: not acted on by flinknet, whose checkpoints store no state" for key in RESTORED
    ]


@pytest.mark.row("S167")
@pytest.mark.parametrize("enabled", [False, True])
def test_approximate_local_recovery_is_part_of_the_graph_and_chooses_the_partitions(
    enabled: bool,
) -> None:
    key = "execution.state-recovery.approximate-local-recovery"
    env = environment({key: str(enabled).lower()})
    env.from_sequence(1, 9).shuffle().print()
    graph = env.execute()
    assert stream_document(graph)["approximate_local_recovery"] is enabled
    (edge,) = job_graph_of(graph).edges
    wanted = "PIPELINED_APPROXIMATE" if enabled else "PIPELINED_BOUNDED"
    assert edge.source.partition_type.name == wanted
    assert plan_of(graph, 1, 2).stages == 1  # the reader does not wait for the writer's end
    assert not env.warnings


@pytest.mark.row("S167")
def test_approximate_local_recovery_does_not_go_with_unaligned_checkpoints() -> None:
    env = environment({"execution.state-recovery.approximate-local-recovery": "true"})
    env.enable_checkpointing("1s", unaligned=True)
    env.from_sequence(1, 9).print()
    with pytest.raises(ConfigError, match="do not go together"):
        env.execute()


@pytest.mark.row("S169")
@pytest.mark.parametrize("name", ["iterate", "closeWith", "close_with"])
def test_iterations_are_refused_by_name(name: str) -> None:
    stream = environment().from_sequence(1, 9)
    with pytest.raises(ConfigError, match=f"has no {name}: iterations .* were removed in Flink 2"):
        getattr(stream, name)
