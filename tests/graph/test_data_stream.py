"""The words of a program, the transformations they leave behind, and laws for any program."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet import graph
from flinknet.errors import ConfigError
from flinknet.graph import documents
from flinknet.graph.failover import SchedulingTopology, subtasks_to_restart
from flinknet.graph.operators import (
    BatchGroupedReduce,
    CoMap,
    MultipleInputOperator,
    ProcessOperator,
    SourceOperator,
    StreamFilter,
    StreamFlatMap,
    StreamGroupedReduce,
    StreamMap,
    StreamOperator,
    StreamProject,
    StreamSink,
    StreamSource,
    UserFunctionOperator,
    factory,
)
from flinknet.graph.stream_graph import is_chainable, is_source_chainable
from flinknet.graph.transformations import (
    OneInputTransformation,
    PartitionTransformation,
    SinkTransformation,
    SourceTransformation,
)
from flinknet.graph.tree import execution_tree, job_tree, physical_tree, stream_tree
from flinknet.plain_values import from_plain, to_plain
from tests.graph.programs import chain_of, environment, first, process, same, twice


class Collected:
    """An output that keeps what it gets."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.sides: list[tuple[str, Any]] = []

    def collect(self, value: Any) -> None:
        self.values.append(value)

    def collect_batch(self, values: Any) -> None:
        self.values += list(values)

    def collect_side(self, tag: graph.OutputTag, value: Any) -> None:
        self.sides.append((tag.id, value))


@pytest.mark.row("S118")
def test_each_call_leaves_a_transformation_that_points_to_its_input() -> None:
    env = environment()
    stream = env.from_sequence(1, 9).flat_map(twice).shuffle().filter(same)
    sink = stream.print().transformation
    chain = [sink]
    while chain[-1].inputs:
        (up,) = chain[-1].inputs
        chain.append(up)
    kinds = [
        *(SourceTransformation, OneInputTransformation, PartitionTransformation),
        *(OneInputTransformation, SinkTransformation),
    ]
    assert [type(each) for each in reversed(chain)] == kinds
    assert [each.id for each in reversed(chain)] == [1, 2, 3, 4, 5]
    # the environment keeps those with an operator; a partition is found through its consumer
    assert [each.id for each in env.transformations] == [1, 2, 4, 5]


@pytest.mark.row("S119")
def test_a_missing_type_is_an_error_at_the_next_use() -> None:
    env = environment()
    nameless = env.from_sequence(1, 9).map(lambda value: value)  # no error yet
    message = r"Map: the type of its records is not known.*annotate.*output_type"
    for use in (
        lambda: nameless.map(same),
        lambda: nameless.print(),
        lambda: nameless.shuffle(),
        lambda: nameless.key_by(first),
        lambda: nameless.union(env.from_sequence(1, 2)),
        lambda: nameless.connect(nameless).map(same, same),
    ):
        with pytest.raises(ConfigError, match=message):
            use()
    with pytest.raises(ConfigError, match=message):
        env.execute()  # the end of the program is a use too
    nameless.returns(int).print()
    env.execute()


@pytest.mark.row("S119")
def test_types_come_from_annotations_or_are_given() -> None:
    class Parity:
        def __call__(self, value: int) -> bool:
            return value % 2 == 0

    def letters(value: int) -> Iterator[str]:
        yield from str(value)

    source = environment().from_sequence(1, 9)
    assert source.output_type is int
    assert source.map(same).output_type is int
    assert source.map(Parity()).output_type is bool
    assert source.map(str).output_type is str
    assert source.map(lambda value: value, output_type=bytes).output_type is bytes
    assert source.flat_map(letters).output_type is str
    assert source.filter(lambda value: True).output_type is int
    assert source.key_by(first).reduce(max).output_type is int


@pytest.mark.row("S119")
def test_a_wrapped_operator_calls_the_function_once_for_each_record() -> None:
    calls = []

    def noted(value: int) -> int:
        calls.append(value)
        return -value

    stream = environment().from_sequence(1, 9).map(noted)
    operator = stream.transformation.operator_factory.create()
    output = Collected()
    for value in (3, 1, 3):
        operator.process(value, output)
    assert isinstance(operator, StreamMap)
    assert (calls, output.values) == ([3, 1, 3], [-3, -1, -3])


@pytest.mark.row("S120")
def test_operators_of_user_functions_share_a_base_and_projection_does_not() -> None:
    env = environment()
    pairs = env.generate(records=5)
    numbers = env.from_sequence(1, 9)
    made = {
        pairs: SourceOperator,
        env.socket_text_stream("127.0.0.1", 9999): StreamSource,
        numbers.map(same): StreamMap,
        numbers.filter(same): StreamFilter,
        numbers.flat_map(twice): StreamFlatMap,
        numbers.process(lambda value, output: None, output_type=int): ProcessOperator,
        numbers.connect(numbers).map(same, same): CoMap,
        env.multiple_inputs("M", [numbers, numbers], same, output_type=int): MultipleInputOperator,
        numbers.print(): StreamSink,
    }
    for stream, kind in made.items():
        operator = stream.transformation.operator_factory.create()
        assert type(operator) is kind
        assert isinstance(operator, UserFunctionOperator)
    projection = pairs.project(1, 0).transformation.operator_factory.create()
    assert isinstance(projection, StreamProject)
    assert isinstance(projection, StreamOperator)
    assert not isinstance(projection, UserFunctionOperator)
    output = Collected()
    projection.process(("a", "b"), output)
    assert output.values == [("b", "a")]


@pytest.mark.row("S120")
def test_open_and_close_are_called_once_around_the_records() -> None:
    calls: list[Any] = []

    class Noted:
        def __init__(self, name: str) -> None:
            self.name = name

        def open(self) -> None:
            calls.append(("open", self.name))

        def close(self) -> None:
            calls.append(("close", self.name))

        def __call__(self, value: int) -> int:
            calls.append((self.name, value))
            return value

    env = environment()
    env.from_sequence(1, 9).rebalance().map(Noted("a")).map(Noted("b")).add_sink(same)
    chain = chain_of(env)
    chain.open()
    process(chain, [1])
    process(chain, [2])
    chain.finish()
    chain.close()
    assert calls == [
        *(("open", "b"), ("open", "a")),  # the last one first: each finds those behind it open
        *(("a", 1), ("b", 1), ("a", 2), ("b", 2)),
        *(("close", "b"), ("close", "a")),
    ]


def test_reduce_shows_each_step_and_in_batch_the_last_one() -> None:
    def add(one: tuple[str, int], other: tuple[str, int]) -> tuple[str, int]:
        return one[0], one[1] + other[1]

    records = [("a", 1), ("b", 5), ("a", 2), ("a", 4)]
    actual = {}
    for kind in (StreamGroupedReduce, BatchGroupedReduce):
        operator, output = factory(kind, add, first).create(), Collected()
        operator.process_batch(records, output)
        operator.finish(output)
        actual[kind] = output.values
    assert actual[StreamGroupedReduce] == [("a", 1), ("b", 5), ("a", 3), ("a", 7)]
    assert actual[BatchGroupedReduce] == [("a", 7), ("b", 5)]


def test_sum_adds_one_field_of_each_key() -> None:
    env = environment()
    env.generate(records=9).key_by(first).sum(1).print()
    job = graph.job_graph_of(env.execute())
    config = job.sorted_vertices()[1].config
    operator, output = job.factories[config.operator_id].create(), Collected()
    operator.process_batch([("a", 1, "x"), ("a", 2, "y")], output)
    assert output.values == [("a", 1, "x"), ("a", 3, "x")]


def test_batched_functions_take_arrays_and_give_the_same_as_plain_ones() -> None:
    batches: list[int] = []

    def doubled(values: Any) -> Any:
        batches.append(len(values))
        return values * 2

    env = environment()
    numbers = env.from_sequence(1, 9)
    mapped = numbers.map(doubled, output_type=int, batched=True)
    large = mapped.filter(lambda values: values > 4, batched=True)
    output = Collected()
    for stream, values in ((mapped, [1, 2, 3]), (large, [2, 4, 6, 8])):
        stream.transformation.operator_factory.create().process_batch(np.array(values), output)
    assert output.values == [2, 4, 6, 6, 8]
    assert batches == [3]
    mapped.transformation.operator_factory.create().process(7, output)
    assert output.values[-1] == 14


def test_side_outputs_reach_who_asked_for_them() -> None:
    late = graph.OutputTag("late", int)
    env = environment()
    got: dict[str, list[int]] = {"main": [], "late": []}

    def split(value: int, output: Any) -> None:
        if value > 5:
            output.collect_side(late, value)
        else:
            output.collect(value)

    stream = env.from_sequence(1, 9).rebalance().process(split, output_type=int)
    stream.add_sink(got["main"].append)
    stream.get_side_output(late).add_sink(got["late"].append)
    process(chain_of(env), [1, 9, 5, 6])
    assert got == {"main": [1, 5], "late": [9, 6]}
    with pytest.raises(ConfigError, match="side output 'late' of another type"):
        stream.get_side_output(graph.OutputTag("late", str))


def test_two_inputs_have_a_function_each() -> None:
    operator, output = factory(CoMap, same, str).create(), Collected()
    operator.process(1, output, 1)
    operator.process(1, output, 2)
    assert output.values == [1, "1"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda env: env.set_parallelism(0), "parallelism 0"),
        (lambda env: env.set_max_parallelism(40_000), "max parallelism 40000"),
        (lambda env: env.from_collection([]), "collection is empty"),
        (lambda env: env.socket_text_stream("h", 0), "0 is not a port"),
        (lambda env: env.socket_text_stream("h", 1).set_parallelism(2), "not parallel"),
        (lambda env: env.from_sequence(1, 2).set_parallelism(0), "parallelism 0"),
        (lambda env: env.from_sequence(1, 2).set_max_parallelism(0), "max parallelism 0"),
        (lambda env: env.from_sequence(1, 2).set_uid_hash("x"), "32 hexadecimal digits"),
        (lambda env: env.from_sequence(1, 2).set_buffer_timeout("5"), "buffer timeout"),
        (lambda env: env.from_sequence(1, 2).delay(-1), "cannot be negative"),
        (lambda env: env.from_sequence(1, 2).union(), "one or more other streams"),
        (lambda env: env.generate(keys=0), "begin at 1"),
        (
            lambda env: env.generate(keys=1 << 25, key_skew=1.0),
            "generate: keys: .*use 1 to 16777216",
        ),
        (lambda env: env.generate(arrivals="rarely"), "arrivals: 'rarely'"),
        (lambda env: env.set_runtime_mode("FAST"), "runtime mode 'FAST'"),
        (lambda env: env.execute(), "program is empty"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(wrong: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        wrong(environment())


def test_a_configuration_survives_the_journey_as_text() -> None:
    env = environment()
    env.enable_checkpointing("1s")
    source = env.from_sequence(1, 9)
    source.map(same).rebalance().map(same).print()
    for vertex in graph.job_graph_of(env.execute()).vertices.values():
        text = json.dumps(to_plain(vertex.config))
        assert from_plain(graph.StreamConfig, json.loads(text)) == vertex.config


Step = tuple[str, int, int, int]
"""What to do, to which of the streams so far (two of them for joins), with which parallelism."""

OPERATORS = ("map", "filter", "keyed", "union", "connect", "multiple", "new chain", "alone")
PARTITIONS = ("rebalance", "rescale", "shuffle", "broadcast", "global_")

steps = st.lists(
    st.tuples(
        st.sampled_from(OPERATORS + PARTITIONS),
        st.integers(0, 9),
        st.integers(0, 9),
        st.integers(1, 4),
    ),
    max_size=10,
)


def build(program: list[Step], sources: int, mode: str) -> graph.StreamGraph:
    """The same steps give the same program."""
    env = environment({"execution.runtime-mode": mode})
    env.set_parallelism(2)
    streams: list[Any] = [env.from_sequence(1, 9) for _ in range(sources)]

    def multiple(one: Any, other: Any) -> Any:
        return env.multiple_inputs("M", [one, other], same, output_type=int, chains_sources=True)

    make: dict[str, Callable[[Any, Any], Any]] = {
        "map": lambda one, other: one.map(same),
        "filter": lambda one, other: one.filter(same),
        "keyed": lambda one, other: one.key_by(same).reduce(max),
        "union": lambda one, other: one.union(other).map(same),
        "connect": lambda one, other: one.connect(other).map(same, same),
        "multiple": multiple,
        "new chain": lambda one, other: one.map(same).start_new_chain(),
        "alone": lambda one, other: one.map(same).disable_chaining(),
    }
    for name, one, other, parallelism in program:
        up, side = streams[one % len(streams)], streams[other % len(streams)]
        if name in PARTITIONS:
            streams.append(getattr(up, name)())
        else:
            streams.append(make[name](up, side).set_parallelism(parallelism))
    for stream in streams:
        stream.discard()
    return env.execute()


@settings(max_examples=60)
@given(steps, st.integers(1, 3), st.sampled_from(["STREAMING", "BATCH"]), st.integers(1, 3))
def test_every_layer_has_all_of_the_one_before(
    program: list[Step], sources: int, mode: str, slots: int
) -> None:
    stream = build(program, sources, mode)
    job = graph.job_graph_of(stream)

    # every operator is in one chain, under an id of its own
    operators = [each for v in job.vertices.values() for each, _ in v.operator_ids]
    assert len(operators) == len(set(operators)) == len(stream.nodes)
    # the edges between vertices are those that are not chained
    leaving = [
        edge
        for edge in stream.edges
        if not is_chainable(edge, stream) and not is_source_chainable(edge, stream)
    ]
    assert sorted(edge.stream_edge_id for edge in job.edges) == sorted(e.id for e in leaving)
    for vertex in job.vertices.values():
        assert [each.stream_edge_id for each in vertex.inputs] == [
            each.edge_id for each in vertex.config.inputs
        ]
    # ids do not depend on what the process built before
    again = graph.job_graph_of(build(program, sources, mode))
    assert list(again.vertices) == list(job.vertices)

    execution = graph.execution_graph_of(job)
    assert execution.total_vertices == sum(v.parallelism for v in job.vertices.values())
    topology = SchedulingTopology(execution)
    in_regions = [each.id for region in topology.regions for each in region.subtasks]
    assert sorted(map(str, in_regions)) == sorted(str(each.id) for each in execution.subtasks())
    for region in topology.regions:
        assert set(region.subtasks) <= set(subtasks_to_restart(topology, region.subtasks[0]))

    plan = graph.physical_plan_of(execution, slots_per_task_manager=slots)
    assert plan.tasks_total == execution.total_vertices
    assert sum(gate.channels for task in plan.tasks() for gate in task.gates) == execution.channels
    for edge in plan.edges:
        stages = (plan.vertices[edge.source].stage, plan.vertices[edge.target].stage)
        if edge.partition_type.must_be_pipelined_consumed:
            assert stages[0] == stages[1]
        else:
            assert stages[0] < stages[1]
    for task in plan.tasks():
        assert 0 <= task.slot < slots
    for text, document in (
        (stream_tree(stream), documents.stream_document(stream)),
        (job_tree(job), documents.job_document(job)),
        (execution_tree(execution), documents.execution_document(execution)),
        (physical_tree(plan), documents.physical_document(plan)),
    ):
        assert text
        assert document
