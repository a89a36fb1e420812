"""From the StreamGraph to the JobGraph: chaining, names, data sets, groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flinknet.core.producer.partition_type import ResultPartitionType
from flinknet.core.wire.ids import JobVertexID
from flinknet.core.wiring import DistributionPattern
from flinknet.errors import ConfigError
from flinknet.graph import (
    OutputTag,
    PhysicalPlan,
    ResourceSpec,
    execution_graph_of,
    job_graph_of,
    physical_plan_of,
)
from flinknet.graph.documents import job_document, physical_document
from flinknet.graph.job_config import TASK_TIMEOUTS
from flinknet.graph.job_graph_generator import data_set_id_of
from flinknet.graph.operators import ChainingStrategy, StreamMap, StreamSource
from flinknet.graph.stream_graph import StreamGraph, is_chainable
from flinknet.graph.transformations import REBALANCE, PartitionTransformation, StreamExchangeMode
from flinknet.graph.tree import job_tree, physical_tree
from tests.graph.programs import (
    environment,
    first,
    same,
    shuffle_example,
    vertex_named,
    word_count,
)

STEPS = [
    *("validate", "schedule mode", "hashes", "chaining", "physical edges", "slot sharing"),
    *("managed memory", "checkpoints", "artifacts", "configuration"),
]


def names_of(graph: StreamGraph) -> list[str]:
    return [vertex.name for vertex in job_graph_of(graph).sorted_vertices()]


@pytest.mark.row("S117")
def test_a_batch_program_gives_the_job_graph_of_a_streaming_one_but_for_its_exchanges() -> None:
    made = {}
    for mode in ("STREAMING", "BATCH"):
        env = environment({"execution.runtime-mode": mode})
        env.from_sequence(1, 9).rebalance().map(same).forward().print()
        made[mode] = job_document(job_graph_of(env.execute()))
    own: dict[str, list[str]] = {mode: [] for mode in made}
    for mode, document in made.items():
        own[mode] += [document.pop("job_name"), document.pop("job_type"), document.pop("schedule")]
        for edge in document["edges"]:
            own[mode].append(edge.pop("partition_type"))
            del edge["data_set"]  # its id follows from the edge
        assert document["execution_config"].pop("runtime_mode") == mode
        for vertex in document["vertices"]:
            del vertex["slot_sharing_group"]  # one for each region, whose numbers are not the point
    assert made["STREAMING"] == made["BATCH"]
    assert len(made["BATCH"]["vertices"]) == 2
    assert own == {
        "STREAMING": ["Flink Streaming Job", "STREAMING", "all at once", "PIPELINED_BOUNDED"],
        "BATCH": ["Flink Batch Job", "BATCH", "by pipelined region", "BLOCKING"],
    }


@pytest.mark.row("S130")
def test_the_steps_come_in_order() -> None:
    assert job_graph_of(shuffle_example()).steps == STEPS


@pytest.mark.row("S130")
def test_each_step_shows_in_the_dump() -> None:
    env = environment({"pipeline.vertex-name-include-index-prefix": "true"})
    env.enable_checkpointing("2s", unaligned=True)
    env.register_cached_file("words.txt", "words")
    heavy = env.from_sequence(1, 9).rebalance().map(same).name("Heavy")
    heavy.transformation.managed_memory_weight = 3
    light = heavy.map(same).name("Light")
    light.transformation.managed_memory_weight = 1
    light.print()
    job = job_graph_of(env.execute())
    dump = job_document(job)
    source, chain = dump["vertices"]
    assert dump["schedule"] == "all at once"  # schedule mode
    assert source["id"] == "bc764cd8ddf7a0cff126f51c16239658"  # hashes
    assert chain["name"].endswith("Heavy -> Light -> Sink: Print to Std. Out")  # chaining
    (edge,) = dump["edges"]  # physical edges
    assert (edge["source"], edge["target"]) == (source["id"], chain["id"])
    assert {each["slot_sharing_group"] for each in dump["vertices"]} == {"default"}  # slot sharing
    config = job.sorted_vertices()[1].config  # managed memory
    light_config = next(c for c in config.chained.values() if c.operator_name == "Light")
    assert (config.managed_memory_fraction, light_config.managed_memory_fraction) == (0.75, 0.25)
    assert dump["checkpoints"] == {  # checkpoints
        "interval_ns": 2_000_000_000,
        "mode": "EXACTLY_ONCE",
        "is_unaligned": True,
    }
    assert config.has_checkpoints
    assert dump["artifacts"] == {"words": "words.txt"}  # artifacts
    assert dump["execution_config"]["parallelism"] == 1  # configuration
    assert (source["name"][:10], chain["name"][:10]) == ("[vertex-0]", "[vertex-1]")
    env.from_sequence(1, 9).partition_custom(lambda key, channels: 0, same).print()
    with pytest.raises(ConfigError, match="unaligned checkpoints do not go with a custom"):
        job_graph_of(env.execute())  # validate
    env.config.network = replace(env.config.network, forced_unaligned_checkpoints=True)
    job_graph_of(env.execute())


Change = Callable[[Any], None]


def _set(name: str, value: Any) -> Change:
    return lambda graph: setattr(graph.nodes[2], name, value)


def _factory(graph: StreamGraph, node_id: int, **fields: Any) -> None:
    made = graph.nodes[node_id].operator_factory
    assert made is not None
    graph.nodes[node_id].operator_factory = replace(made, **fields)


class YieldingMap(StreamMap):
    is_yielding = True


def _yields_behind_legacy_source(graph: StreamGraph) -> None:
    _factory(graph, 1, kind=StreamSource)
    _factory(graph, 2, kind=YieldingMap)


def _edge(name: str, value: Any) -> Change:
    return lambda graph: setattr(graph.nodes[1].out_edges[0], name, value)


def _different_max_parallelism(graph: StreamGraph) -> None:
    graph.config.chains_different_max_parallelism = False
    graph.nodes[2].max_parallelism = 64


def _strategy(node_id: int, name: str) -> Change:
    return lambda graph: setattr(graph.nodes[node_id], "chaining_strategy", ChainingStrategy[name])


BROKEN: dict[str, tuple[Change, bool]] = {
    "1 another input": (lambda g: g.add_edge(1, 2, 1), True),  # only the count is against it
    "2 chaining is off": (lambda g: setattr(g.config, "is_chaining_enabled", False), False),
    "3 another slot sharing group": (_set("slot_sharing_group", "other"), False),
    "4 no operator": (_set("operator_factory", None), False),
    "4 yields behind a legacy source": (_yields_behind_legacy_source, True),
    "5 nothing may follow": (_strategy(1, "NEVER"), True),
    "6 it follows none: NEVER": (_strategy(2, "NEVER"), False),
    "6 it follows none: HEAD": (_strategy(2, "HEAD"), True),
    "7 another parallelism": (_set("parallelism", 3), False),
    "8 another max parallelism": (_different_max_parallelism, False),
    "9 not forward": (_edge("partitioner", REBALANCE), True),
    "9 asks for batch": (_edge("exchange_mode", StreamExchangeMode.BATCH), True),
}
"""Condition of chaining -> how it is broken between nodes 1 and 2, and whether 2 and 3 still are
chained.
"""


def chained_program() -> StreamGraph:
    env = environment()
    env.set_parallelism(2)
    env.from_sequence(1, 9).map(same).filter(same).print()
    return env.execute()


@pytest.mark.row("S133")
def test_all_conditions_hold_and_everything_is_chained() -> None:
    assert names_of(chained_program()) == [
        "Source: Sequence Source -> Map -> Filter -> Sink: Print to Std. Out"
    ]


@pytest.mark.row("S133")
@pytest.mark.parametrize(("broken", "is_next_chained"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_condition_breaks_the_chain_exactly_there(
    broken: Change, is_next_chained: bool
) -> None:
    graph = chained_program()
    here, behind = graph.nodes[1].out_edges[0], graph.nodes[2].out_edges[0]
    assert is_chainable(here, graph)
    assert is_chainable(behind, graph)
    broken(graph)
    assert not is_chainable(here, graph)
    assert is_chainable(behind, graph) is is_next_chained


@pytest.mark.row("S133")
def test_different_max_parallelism_is_chained_unless_forbidden() -> None:
    for key, vertices in (("true", 1), ("false", 2)):
        env = environment(
            {
                "pipeline.operator-chaining.chain-operators-with-different-max-parallelism": key,
            }
        )
        env.from_sequence(1, 9).set_max_parallelism(64).print()
        assert len(job_graph_of(env.execute()).vertices) == vertices


@pytest.mark.row("S133")
@pytest.mark.parametrize(("united", "name"), [(False, "M [Source: A]"), (True, "M")])
def test_10_a_source_is_not_taken_in_where_its_input_is_a_union(united: bool, name: str) -> None:
    env = environment()
    one, two = env.from_sequence(1, 9).name("A"), env.from_sequence(1, 9).name("B")
    inputs = [one.union(two)] if united else [one, two.rebalance()]
    made = env.multiple_inputs("M", inputs, same, output_type=int, chains_sources=True)
    made.rebalance().print()
    assert name in names_of(env.execute())


@pytest.mark.row("S133")
def test_a_source_that_others_read_too_is_not_taken_in() -> None:
    env = environment()
    one, two = env.from_sequence(1, 9).name("A"), env.from_sequence(1, 9).name("B")
    env.multiple_inputs("M", [one, two], same, output_type=int, chains_sources=True).discard()
    one.rebalance().discard()
    assert names_of(env.execute()) == [
        "Source: A",
        "M [Source: B] -> Sink: Discard",
        "Sink: Discard",
    ]


@pytest.mark.row("S133")
def test_api_and_keys_that_break_chains() -> None:
    env = environment()
    stream = env.from_sequence(1, 9).map(same).disable_chaining().map(same).map(same)
    stream.start_new_chain().print()
    assert names_of(env.execute()) == [
        *("Source: Sequence Source", "Map", "Map", "Map -> Sink: Print to Std. Out")
    ]
    env = environment({"pipeline.operator-chaining.enabled": "false"})
    env.from_sequence(1, 9).map(same).print()
    assert len(names_of(env.execute())) == 3


@pytest.mark.row("S134")
def test_a_fork_on_two_levels() -> None:
    """S -> M -> (L -> sink 1, R -> [network] -> T -> sink 2), M -> [network] -> U."""
    env = environment()
    mapped = env.from_sequence(1, 9).name("S").map(same).name("M")
    mapped.map(same).name("L").add_sink(same).name("1")
    right = mapped.map(same).name("R")
    right.rebalance().map(same).name("T").add_sink(same).name("2")
    mapped.rebalance().add_sink(same).name("U")
    job = job_graph_of(env.execute())
    head, *others = job.sorted_vertices()
    assert head.name == "Source: S -> M -> (L -> Sink: 1, R)"
    assert [vertex.name for vertex in others] == ["T -> Sink: 2", "Sink: U"]
    members = [head.config, *head.config.chained.values()]
    actual = {each.operator_name: each.chain_index for each in members}
    assert actual == {
        "Source: S": 1,
        "M": 2,
        "L": 3,
        "Sink: 1": 4,
        "R": 3,
    }
    # edges that leave the chain, those of children first
    names = {each.operator_id: each.operator_name for each in members}
    assert [names[each.operator_id] for each in head.config.outputs] == ["R", "M"]
    assert [
        (edge.source.producer.name, edge.target.name, edge.ship_strategy) for edge in job.edges
    ] == [
        (head.name, "T -> Sink: 2", "REBALANCE"),
        (head.name, "Sink: U", "REBALANCE"),
    ]


@pytest.mark.row("S134")
def test_vertices_are_made_children_first() -> None:
    made = [vertex.name for vertex in job_graph_of(shuffle_example()).vertices.values()]
    assert made == [*("Filter -> Sink: Print to Std. Out", "Flat Map", "Source: Sequence Source")]


@pytest.mark.row("S135")
def test_names_of_chains() -> None:
    assert names_of(word_count()) == [
        *("Source: Socket Stream", "Flat Map", "Keyed Aggregation -> Sink: Unnamed")
    ]
    assert names_of(shuffle_example()) == [
        *("Source: Sequence Source", "Flat Map", "Filter -> Sink: Print to Std. Out")
    ]
    env = environment()
    mapped = env.from_sequence(1, 9).map(same)
    mapped.map(same).name("L").print()
    mapped.map(same).name("R").print()
    assert names_of(env.execute()) == [
        "Source: Sequence Source -> Map -> (L -> Sink: Print to Std. Out,"
        " R -> Sink: Print to Std. Out)"
    ]


@pytest.mark.row("S135")
def test_names_of_chained_sources() -> None:
    env = environment()
    streams = [env.from_sequence(1, 9).name(name) for name in ("A", "B")]
    env.multiple_inputs("Join", streams, same, output_type=int, chains_sources=True).print()
    job = job_graph_of(env.execute())
    (vertex,) = job.vertices.values()
    assert vertex.name == "Join [Source: A, Source: B] -> Sink: Print to Std. Out"
    indices = {
        each.operator_name: each.chain_index
        for each in (vertex.config, *vertex.config.chained.values())
    }
    assert indices == {
        "Source: A": 0,
        "Source: B": 0,
        "Join": 1,
        "Sink: Print to Std. Out": 2,
    }


@pytest.mark.parametrize(
    ("mode", "description"),
    [
        ("TREE", "Source: S\n:- L\n:  +- Sink: 1\n+- Sink: 2"),
        ("CASCADING", "Source: S -> (L -> Sink: 1, Sink: 2)"),
    ],
)
def test_descriptions(mode: str, description: str) -> None:
    env = environment({"pipeline.vertex-description-mode": mode})
    source = env.from_sequence(1, 9).name("S")
    source.map(same).name("L").add_sink(same).name("1")
    source.add_sink(same).name("2")
    (vertex,) = job_graph_of(env.execute()).vertices.values()
    assert vertex.description == description


@pytest.mark.row("S136")
def test_resources_of_a_chain_are_added_up() -> None:
    env = environment()
    source = env.from_sequence(1, 9).set_resources(ResourceSpec(1.0, 10), ResourceSpec(2.0, 20))
    source.map(same).set_resources(ResourceSpec(2.0, 5)).rebalance().print()
    job = job_graph_of(env.execute())
    head, sink = job.sorted_vertices()
    assert head.min_resources == ResourceSpec(3.0, 15)
    assert head.preferred_resources == ResourceSpec(4.0, 25)
    assert sink.min_resources == ResourceSpec()  # nobody said
    found = [
        (each["min_resources"], each["preferred_resources"])
        for each in job_document(job)["vertices"]
    ]
    assert found[0] == (
        {"cpu_cores": 3.0, "heap_bytes": 15},
        {"cpu_cores": 4.0, "heap_bytes": 25},
    )
    assert "needs 3 CPU cores, 15b heap (preferred: 4 CPU cores, 25b heap)" in job_tree(job)
    with pytest.raises(ConfigError, match="minimum resources are more than its preferred"):
        source.set_resources(ResourceSpec(2.0), ResourceSpec(1.0))


@pytest.mark.row("S136")
def test_a_slot_needs_what_its_tasks_need_together_and_must_have_it() -> None:
    def plan_with(cores: str) -> PhysicalPlan:
        env = environment({"taskmanager.cpu.cores": cores})
        one = env.from_sequence(1, 9).set_resources(ResourceSpec(1.0))
        mapped = one.map(same).set_resources(ResourceSpec(2.0)).rebalance().map(same)
        mapped.set_resources(ResourceSpec(0.5)).rebalance().print()
        graph = execution_graph_of(job_graph_of(env.execute()))
        return physical_plan_of(graph, slots_per_task_manager=2)

    plan = plan_with("7")
    (slot,) = physical_document(plan)["slots"]
    assert slot["min_resources"] == {"cpu_cores": 3.5, "heap_bytes": None}
    assert "; needs 3.5 CPU cores" in physical_tree(plan)
    with pytest.raises(ConfigError, match=r"needs 3\.5 CPU cores, but each .* has 3 CPU"):
        plan_with("6")


@pytest.mark.row("S138")
def test_each_physical_edge_is_a_data_set_with_a_producer_and_a_consumer() -> None:
    job = job_graph_of(word_count())
    source, flat_map, total = job.sorted_vertices()
    assert [len(v.results) for v in (source, flat_map, total)] == [1, 1, 0]
    assert [len(v.inputs) for v in (source, flat_map, total)] == [0, 1, 1]
    for producer, consumer, strategy in (
        (source, flat_map, "REBALANCE"),
        (flat_map, total, "HASH"),
    ):
        (data_set,) = producer.results
        (edge,) = consumer.inputs
        assert data_set.producer is producer
        assert data_set.consumers == [edge]
        assert (edge.source, edge.target) == (data_set, consumer)
        assert (edge.pattern, edge.ship_strategy) == (DistributionPattern.ALL_TO_ALL, strategy)
        assert data_set.partition_type is ResultPartitionType.PIPELINED_BOUNDED
    assert len(job.edges) == 2


@pytest.mark.row("S138")
def test_inputs_of_a_vertex_are_in_the_order_of_what_writes_them() -> None:
    env = environment()
    streams = [env.from_sequence(1, 9).name(name).rebalance() for name in ("A", "B", "C")]
    streams[0].union(*streams[1:]).print()
    sink = vertex_named(job_graph_of(env.execute()), "Sink: Print to Std. Out")
    assert [edge.source.producer.name for edge in sink.inputs] == [
        *("Source: A", "Source: B", "Source: C")
    ]
    assert [each.data_set_id for each in sink.config.inputs] == [
        str(edge.source.id) for edge in sink.inputs
    ]


@pytest.mark.row("S138")
@pytest.mark.parametrize(
    ("partition", "pattern"),
    [
        ("forward", "POINTWISE"),
        ("rescale", "POINTWISE"),
        ("rebalance", "ALL_TO_ALL"),
        ("shuffle", "ALL_TO_ALL"),
        ("global_", "ALL_TO_ALL"),
        ("broadcast", "ALL_TO_ALL"),
    ],
)
def test_distribution_of_each_partitioner(partition: str, pattern: str) -> None:
    env = environment()
    getattr(env.from_sequence(1, 9), partition)().map(same).disable_chaining().print()
    assert job_graph_of(env.execute()).edges[0].pattern.name == pattern


@pytest.mark.row("S138")
def test_the_id_of_a_data_set_follows_from_its_producer_and_its_edge() -> None:
    """The frame of a real cluster, in which both halves differ from the vertex by one number."""
    vertex_id = JobVertexID(bytes.fromhex("bc764cd8ddf7a0cff126f51c16239658"))
    data_set = data_set_id_of(vertex_id, -0x5B67F399)
    assert str(data_set) == "f126f51bbabba2bfbc764cd8828fad36"


def test_blocking_outputs_that_are_alike_are_one_data_set_and_pipelined_ones_are_not() -> None:
    for mode, data_sets in (("BATCH", 1), ("STREAMING", 2)):
        env = environment({"execution.runtime-mode": mode})
        dealt = env.from_sequence(1, 9).rebalance()
        dealt.print()
        dealt.discard()
        job = job_graph_of(env.execute())
        source = vertex_named(job, "Source: Sequence Source")
        assert len(source.results) == data_sets
        assert len(job.edges) == 2


def test_timeouts_of_tasks_replace_those_that_the_program_sets() -> None:
    env = environment({TASK_TIMEOUTS: '{"Map": 3000000}'})
    made = env.from_sequence(1, 9).set_buffer_timeout("5ms").rebalance()
    made.map(same).set_buffer_timeout("20ms").rebalance().print()
    found = {}
    for edge in job_graph_of(env.execute()).edges:
        (output,) = edge.source.producer.config.outputs
        found[edge.source.producer.name] = output.buffer_timeout_ns
    assert found == {"Source: Sequence Source": 5_000_000, "Map": 3_000_000}


def test_a_blocking_edge_with_a_timeout_is_refused() -> None:
    env = environment({"execution.runtime-mode": "BATCH"})
    env.from_sequence(1, 9).set_buffer_timeout("5ms").rebalance().print()
    with pytest.raises(ConfigError, match="blocking exchange has no buffer timeout"):
        job_graph_of(env.execute())


@pytest.mark.parametrize(
    ("mode", "kind"), [("PIPELINED", "PIPELINED_BOUNDED"), ("BATCH", "BLOCKING")]
)
def test_an_edge_may_ask_for_its_mode(mode: str, kind: str) -> None:
    env = environment()
    env.set_buffer_timeout(-1)
    source = env.from_sequence(1, 9)
    sink = source.print()
    sink.transformation.inputs = (
        PartitionTransformation(
            source.transformation,
            REBALANCE,
            StreamExchangeMode[mode],
        ),
    )
    (edge,) = job_graph_of(env.execute()).edges
    assert edge.source.partition_type.name == kind


@pytest.mark.row("S139")
def test_vertices_of_a_group_share_one_object() -> None:
    env = environment()
    one = env.from_sequence(1, 9).slot_sharing_group("red").rebalance().map(same)
    one.rebalance().map(same).slot_sharing_group("blue").rebalance().print()
    source, red, blue, sink = job_graph_of(env.execute()).sorted_vertices()
    assert source.slot_sharing_group is red.slot_sharing_group
    assert blue.slot_sharing_group is sink.slot_sharing_group
    assert red.slot_sharing_group is not blue.slot_sharing_group
    assert source.slot_sharing_group.vertices == [red, source]


@pytest.mark.row("S139")
def test_in_batch_each_pipelined_region_has_a_group() -> None:
    env = environment({"execution.runtime-mode": "BATCH"})
    env.from_sequence(1, 9).rebalance().map(same).rebalance().print()
    groups = [v.slot_sharing_group for v in job_graph_of(env.execute()).sorted_vertices()]
    assert len({id(group) for group in groups}) == 3


@pytest.mark.row("S139")
@pytest.mark.parametrize("is_same_group", [True, False])
def test_co_located_vertices_share_a_slot_sharing_group(is_same_group: bool) -> None:
    env = environment()
    source = env.from_sequence(1, 9)
    sink = source.rebalance().print()
    for operator in (source, sink):
        operator.transformation.co_location_group_key = "pair"
    if not is_same_group:
        sink.slot_sharing_group("other")
        with pytest.raises(ConfigError, match=r"must share their slots .co-location pair."):
            job_graph_of(env.execute())
        return
    one, two = job_graph_of(env.execute()).sorted_vertices()
    assert one.co_location_group is two.co_location_group
    assert one.co_location_group is not None


def test_keyed_state_and_side_outputs_are_in_the_configuration() -> None:
    tag = OutputTag("late", int)
    env = environment()
    stream = env.from_sequence(1, 9).key_by(same).process(first, output_type=int)
    stream.get_side_output(tag).rebalance().print()
    head = vertex_named(job_graph_of(env.execute()), "Process")
    (leaving,) = head.config.outputs
    assert (leaving.output_tag, leaving.partitioner) == ("late", "REBALANCE")


@pytest.mark.row("S170")
def test_a_keyed_operator_has_key_selector_key_type_and_state_backend_in_its_configuration() -> (
    None
):
    vertices = job_document(job_graph_of(word_count()))["vertices"]
    names = ("key_selector", "key_type", "state_backend")
    found = {
        each["name"]: tuple(each.get(name) for name in names)
        for vertex in vertices
        for each in vertex["operators"]
    }
    keyed = found.pop("Keyed Aggregation")
    assert keyed == ("first", "Any", "hashmap")
    assert set(found.values()) == {(None, None, None)}
