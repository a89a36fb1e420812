"""Laws that hold for any program, over programs drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.graph import StreamGraph, execution_graph_of, job_graph_of, physical_plan_of
from flinknet.graph.documents import (
    execution_document,
    job_document,
    physical_document,
    stream_document,
)
from flinknet.graph.failover import SchedulingTopology, subtasks_to_restart
from flinknet.graph.stream_graph import is_chainable, is_source_chainable
from flinknet.graph.tree import execution_tree, job_tree, physical_tree, stream_tree
from tests.graph.programs import environment, same

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


def build(program: list[Step], sources: int, mode: str) -> StreamGraph:
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
    job = job_graph_of(stream)

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
        assert vertex.config is not None
        assert [each.stream_edge_id for each in vertex.inputs] == [
            each.edge_id for each in vertex.config.inputs
        ]
    # ids do not depend on what the process built before
    again = job_graph_of(build(program, sources, mode))
    assert list(again.vertices) == list(job.vertices)

    execution = execution_graph_of(job)
    assert execution.total_vertices == sum(v.parallelism for v in job.vertices.values())
    topology = SchedulingTopology(execution)
    in_regions = [each.id for region in topology.regions for each in region.subtasks]
    assert sorted(map(str, in_regions)) == sorted(str(each.id) for each in execution.subtasks())
    for region in topology.regions:
        assert set(region.subtasks) <= set(subtasks_to_restart(topology, region.subtasks[0]))

    plan = physical_plan_of(execution, slots_per_task_manager=slots)
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
        (stream_tree(stream), stream_document(stream)),
        (job_tree(job), job_document(job)),
        (execution_tree(execution), execution_document(execution)),
        (physical_tree(plan), physical_document(plan)),
    ):
        assert text
        assert document
