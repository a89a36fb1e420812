"""The parallel form of a job: subtasks, partitions, attempts, regions, and who reads what."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.producer.partition_type import ResultPartitionType
from flinknet.core.wire.ids import IntermediateDataSetID, JobVertexID
from flinknet.core.wiring import DistributionPattern, Wiring
from flinknet.errors import ConfigError, LocalProtocolError
from flinknet.graph import JobGraph, execution_graph_of, failover, job_graph_of
from flinknet.graph.execution_graph import (
    TRANSITIONS,
    ExecutionGraph,
    ExecutionState,
    ExecutionVertex,
    IntermediateResultPartition,
    aggregate_state,
    initialize_on_master,
)
from flinknet.graph.job_config import JobConfig
from flinknet.graph.job_graph import JobVertex
from tests.graph.programs import all_to_all, environment, execution_of, same, word_count

S = ExecutionState
ALL_TO_ALL = DistributionPattern.ALL_TO_ALL


def id_of(number: int) -> bytes:
    return number.to_bytes(16, "big")


def hand_made(*edges: tuple[int, int], vertices: int, parallelism: int = 1) -> JobGraph:
    """A job of numbered vertices and pipelined all-to-all edges."""
    job = JobGraph("hand-made", JobConfig(), is_batch=False)
    made = [
        JobVertex(JobVertexID(id_of(each)), f"v{each}", parallelism, invokable="Task")
        for each in range(vertices)
    ]
    for number, (source, target) in enumerate(edges):
        made[target].connect_to(
            made[source],
            IntermediateDataSetID(id_of(100 + number)),
            ALL_TO_ALL,
            ResultPartitionType.PIPELINED_BOUNDED,
        )
    for vertex in made:
        job.add_vertex(vertex)
    return job


def run_to(vertex: ExecutionVertex, *states: ExecutionState) -> None:
    for state in states:
        vertex.current.switch_to(state)


RUNNING = (S.SCHEDULED, S.DEPLOYING, S.INITIALIZING, S.RUNNING)


@pytest.mark.row("S140")
def test_the_plan_for_display_lists_all_vertices() -> None:
    job = job_graph_of(word_count())
    plan = json.loads(execution_graph_of(job).json_plan)
    assert plan["name"] == "Socket Word Count"
    assert [node["description"] for node in plan["nodes"]] == [
        vertex.name for vertex in job.sorted_vertices()
    ]
    assert [len(node["inputs"]) for node in plan["nodes"]] == [0, 1, 1]


@pytest.mark.row("S140")
def test_a_job_without_a_plan_for_display_runs_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(job: JobGraph) -> str:
        raise ValueError("no ink")

    monkeypatch.setattr(JobGraph, "json_plan", fails)
    said: list[str] = []
    graph = execution_graph_of(job_graph_of(word_count()), warn=said.append)
    assert graph.json_plan == "{}"
    assert said == ["the job has no plan for display: no ink"]
    subtask = next(graph.subtasks())
    run_to(subtask, *RUNNING, S.FINISHED)
    assert subtask.state is S.FINISHED


@pytest.mark.row("S140")
@pytest.mark.parametrize(("size", "kept"), [("16", 16), ("3", 3), ("0", 0)])
def test_as_many_prior_attempts_are_kept_as_asked(size: str, kept: int) -> None:
    env = environment({"jobmanager.execution.attempts-history-size": size})
    env.from_sequence(1, 9).print()
    graph = execution_of(env.execute())
    subtask = next(graph.subtasks())
    for _ in range(17):
        run_to(subtask, S.SCHEDULED, S.FAILED)
        subtask.reset_for_new_execution()
    assert subtask.current.attempt_number == 17
    prior = [each.attempt_number for each in subtask.prior]
    assert prior == list(range(17))[17 - kept :]


@pytest.mark.row("S141")
def test_a_vertex_without_invokable_class_is_refused() -> None:
    job = hand_made(vertices=2)
    list(job.vertices.values())[1].invokable = None
    with pytest.raises(ConfigError, match="v1: the vertex has no invokable class"):
        execution_graph_of(job)


@pytest.mark.row("S141")
def test_master_hooks_are_called_once_for_each_vertex_and_may_refuse() -> None:
    called: list[int] = []

    def refuse(parallelism: int) -> None:
        raise OSError("no output directory")

    job = hand_made((0, 1), vertices=2, parallelism=3)
    for vertex in job.vertices.values():
        vertex.master_hooks.append(called.append)
    execution_graph_of(job)
    assert called == []  # only on the master
    initialize_on_master(job)
    assert called == [3, 3]
    list(job.vertices.values())[1].master_hooks.append(refuse)
    with pytest.raises(ConfigError, match="v1: it cannot be initialized on the master: no output"):
        initialize_on_master(job)


@pytest.mark.row("S142")
def test_topological_order() -> None:
    job = hand_made((0, 3), (3, 4), (1, 4), (4, 2), (0, 2), vertices=6)
    order = [vertex.name for vertex in job.sorted_vertices()]
    # sources as they were added, then depth first what has all that it reads
    assert order == ["v0", "v1", "v5", "v3", "v4", "v2"]


@pytest.mark.row("S142")
def test_a_cycle_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"cycle, with v1, v2"):
        execution_graph_of(hand_made((0, 1), (1, 2), (2, 1), vertices=3))


@pytest.mark.row("S142")
def test_two_vertices_or_data_sets_of_one_id_are_refused() -> None:
    job = hand_made(vertices=1)
    twin = JobVertex(JobVertexID(id_of(0)), "twin", 1, invokable="Task")
    with pytest.raises(ConfigError, match="twin and v0 have the same vertex id"):
        job.add_vertex(twin)
    job = hand_made((0, 1), vertices=2)
    other = hand_made((0, 1), vertices=2)
    writer, reader = other.vertices.values()
    writer.id, reader.id = JobVertexID(id_of(8)), JobVertexID(id_of(9))
    graph = execution_graph_of(job)
    with pytest.raises(ConfigError, match="v0 and v0 write the same data set"):
        graph.attach([writer, reader])


@pytest.mark.row("S143")
def test_what_is_read_must_stand_before() -> None:
    job = hand_made((0, 1), vertices=2)
    graph = ExecutionGraph(job, execution_graph_of(job).id)
    with pytest.raises(ConfigError, match=r"v1: it reads data set 0+64, which no vertex before"):
        graph.attach(list(reversed(job.vertices.values())))


def test_parallelism_above_its_maximum_is_refused_with_all_three() -> None:
    env = environment()
    env.from_sequence(1, 9).set_parallelism(4).set_max_parallelism(2).print().set_parallelism(4)
    with pytest.raises(ConfigError, match=r"Sequence Source.*parallelism 4 is above.*2"):
        execution_of(env.execute())


@pytest.mark.parametrize(("parallelism", "expected"), [(1, 128), (85, 128), (86, 256), (200, 512)])
def test_default_max_parallelism(parallelism: int, expected: int) -> None:
    graph = execution_of(all_to_all(parallelism))
    assert {vertex.max_parallelism for vertex in graph.vertices.values()} == {expected}


@pytest.mark.row("S144")
@pytest.mark.parametrize(("producers", "consumers"), [(1, 1), (4, 4), (2, 5), (5, 2)])
@pytest.mark.parametrize("is_pointwise", [False, True])
def test_relations_and_counts(producers: int, consumers: int, is_pointwise: bool) -> None:
    env = environment()
    source = env.from_sequence(1, 9).set_parallelism(producers)
    dealt = source.rescale() if is_pointwise else source.rebalance()
    dealt.print().set_parallelism(consumers)
    graph = execution_of(env.execute())
    source_vertex, sink_vertex = graph.vertices.values()
    assert len(source_vertex.task_vertices) == producers
    assert len(sink_vertex.task_vertices) == consumers
    (result,) = source_vertex.results
    assert len(result.partitions) == producers
    assert [each.producer for each in result.partitions] == source_vertex.task_vertices
    assert [each.id.partition_number for each in result.partitions] == list(range(producers))
    (edge,) = sink_vertex.inputs
    assert (edge.result, edge.target) == (result, sink_vertex)
    edges = list(edge.execution_edges())
    expected = max(producers, consumers) if is_pointwise else producers * consumers
    assert len(edges) == graph.channels == expected
    for each in edges:
        assert each.source in result.partitions
        assert each.target in sink_vertex.task_vertices
    for partition in result.partitions:
        read = [each.subpartition for each in edges if each.source is partition]
        assert sorted(read) == list(range(partition.subpartitions))


@pytest.mark.row("S144")
def test_names_and_ids_of_subtasks() -> None:
    graph = execution_of(word_count())
    names = [subtask.name for subtask in graph.subtasks()]
    assert names == [
        "Source: Socket Stream (1/1)",
        *("Flat Map (1/2)", "Flat Map (2/2)"),
        "Keyed Aggregation -> Sink: Unnamed (1/2)",
        "Keyed Aggregation -> Sink: Unnamed (2/2)",
    ]
    attempt = list(graph.subtasks())[2].current.attempt_id
    assert (attempt.execution_vertex_id.subtask_index, attempt.attempt_number) == (1, 0)
    assert attempt.execution_graph_id == graph.id
    assert execution_graph_of(graph.job, "again").id != graph.id


@pytest.mark.row("S145")
def test_a_new_attempt_has_ids_of_its_own() -> None:
    graph = execution_of(word_count())
    subtask = next(graph.subtasks())
    old = subtask.current
    partition = next(iter(graph.results.values())).partitions[0]
    assert partition.result_partition_id.producer_id == old.attempt_id
    run_to(subtask, *RUNNING, S.FAILED)
    new = subtask.reset_for_new_execution()
    assert (new.attempt_number, subtask.state) == (1, S.CREATED)
    assert new.attempt_id != old.attempt_id
    assert partition.result_partition_id.producer_id == new.attempt_id
    run_to(subtask, *RUNNING, S.FINISHED)
    assert old.state is S.FAILED


@pytest.mark.row("S145")
def test_an_attempt_that_has_not_ended_is_not_replaced() -> None:
    graph = execution_of(word_count())
    subtask = next(graph.subtasks())
    assert subtask.reset_for_new_execution().attempt_number == 0  # not begun
    run_to(subtask, S.SCHEDULED)
    with pytest.raises(LocalProtocolError, match="attempt 0 has not ended"):
        subtask.reset_for_new_execution()


def test_states_of_an_execution() -> None:
    graph = execution_of(word_count())
    subtask = next(graph.subtasks())
    with pytest.raises(LocalProtocolError, match="cannot go from created to running"):
        subtask.current.switch_to(S.RUNNING)
    run_to(subtask, *RUNNING, S.CANCELING)
    run_to(subtask, S.FAILED)
    assert subtask.state is S.CANCELED  # it was to end anyway
    assert {state for state in S if state.is_terminal} == {S.FINISHED, S.CANCELED, S.FAILED}
    assert set(TRANSITIONS) == set(S)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((S.RUNNING, S.FAILED, S.CANCELING), S.FAILED),
        ((S.CANCELED, S.CANCELING), S.CANCELING),
        ((S.CANCELED, S.RUNNING), S.CANCELED),
        ((S.RUNNING, S.INITIALIZING), S.INITIALIZING),
        ((S.RUNNING, S.FINISHED), S.RUNNING),
        ((S.FINISHED, S.FINISHED), S.FINISHED),
        ((S.CREATED, S.FINISHED), S.RUNNING),
        ((S.CREATED, S.SCHEDULED, S.DEPLOYING), S.CREATED),
    ],
)
def test_state_of_a_vertex(states: tuple[ExecutionState, ...], expected: ExecutionState) -> None:
    assert aggregate_state(states) is expected


@pytest.mark.row("S146")
def test_the_number_of_subtasks_is_the_sum_of_parallelisms() -> None:
    graph = execution_of(word_count())
    assert graph.total_vertices == 1 + 2 + 2 == len(list(graph.subtasks()))


@pytest.mark.row("S146")
def test_one_failing_subtask_restarts_its_connected_region_and_no_other() -> None:
    env = environment()
    env.set_parallelism(2)
    for _ in range(2):  # each with a sink of its own: pointwise within, nothing in between
        env.from_sequence(1, 9).forward().map(same).disable_chaining().print()
    graph = execution_of(env.execute())
    topology = failover.SchedulingTopology(graph)
    assert len(topology.regions) == 4  # forward joins subtask i to subtask i only
    failed = next(iter(graph.vertices.values())).task_vertices[1]
    restarted = failover.subtasks_to_restart(topology, failed)
    assert {each.id for each in restarted} == {
        each.id
        for vertex in graph.vertices.values()
        for each in vertex.task_vertices
        if each.subtask_index == 1 and topology.region_of(each) is topology.region_of(failed)
    }
    assert len(restarted) == 3
    for subtask in restarted:
        run_to(subtask, S.SCHEDULED, S.FAILED)
    failover.restart(restarted)
    numbers = {each.id: each.current.attempt_number for each in graph.subtasks()}
    assert numbers == {each.id: int(each in restarted) for each in graph.subtasks()}


@pytest.mark.row("S146")
def test_all_to_all_makes_one_region_of_a_stream() -> None:
    topology = failover.SchedulingTopology(execution_of(word_count()))
    (region,) = topology.regions
    assert len(region.subtasks) == 5


def kept_partitions(graph: ExecutionGraph) -> list[IntermediateResultPartition]:
    partitions = [each for result in graph.results.values() for each in result.partitions]
    return [each for each in partitions if not each.is_released]


@pytest.mark.row("S146")
def test_results_that_nobody_needs_are_released_and_written_again_after_a_failure() -> None:
    env = environment({"execution.runtime-mode": "BATCH"})
    env.set_parallelism(2)
    env.from_sequence(1, 9).rebalance().map(same).rebalance().print()
    graph = execution_of(env.execute())
    topology = failover.SchedulingTopology(graph)
    source, mapped, sink = graph.vertices.values()
    regions = [topology.region_of(each) for each in mapped.task_vertices]
    assert failover.releasable_partitions(topology, regions[:1]) == []  # the other one still reads
    (result,) = source.results
    assert failover.releasable_partitions(topology, regions) == result.partitions
    for each in result.partitions:
        each.is_released = True
    assert kept_partitions(graph) == mapped.results[0].partitions
    assert failover.releasable_partitions(topology, regions) == []
    # a sink reads what is still there: it restarts alone
    assert failover.subtasks_to_restart(topology, sink.task_vertices[0]) == [sink.task_vertices[0]]
    # the map must read again what was released
    restarted = set(failover.subtasks_to_restart(topology, mapped.task_vertices[0]))
    assert restarted == {*source.task_vertices, *mapped.task_vertices, *sink.task_vertices}
    for subtask in restarted:
        run_to(subtask, S.SCHEDULED, S.FAILED)
    failover.restart(restarted)
    assert len(kept_partitions(graph)) == 4


def test_a_pipelined_result_has_one_consumer() -> None:
    job = hand_made(vertices=3)
    writer, one, two = job.vertices.values()
    for reader in (one, two):
        reader.connect_to(
            writer,
            IntermediateDataSetID(id_of(7)),
            ALL_TO_ALL,
            ResultPartitionType.PIPELINED_BOUNDED,
        )
    with pytest.raises(ConfigError, match="v1 and v2 both read it"):
        execution_graph_of(job)


POINTWISE = DistributionPattern.POINTWISE

TABLES = {
    (5, 2): ["p0/0 p1/0", "p2/0 p3/0 p4/0"],
    (2, 5): ["p0/0", "p0/1", "p0/2", "p1/1", "p1/0"],
    (3, 5): ["p0/0", "p0/1", "p1/0", "p1/1", "p2/0"],
    (3, 7): ["p0/0", "p0/1", "p0/2", "p1/1", "p1/0", "p2/1", "p2/0"],
    (4, 6): ["p0/0", "p0/1", "p1/0", "p2/1", "p2/0", "p3/0"],
}
"""Producers and consumers -> what each consumer reads, pointwise."""

subtasks = st.integers(1, 40)
wirings = st.builds(Wiring, st.sampled_from(DistributionPattern), subtasks, subtasks)


@pytest.mark.row("S143")
@pytest.mark.parametrize(("numbers", "table"), TABLES.items())
def test_pointwise_tables(numbers: tuple[int, int], table: list[str]) -> None:
    wiring = Wiring(POINTWISE, *numbers)
    actual = [
        " ".join(f"p{p}/{wiring.subpartition(p, consumer)}" for p in wiring.partitions_of(consumer))
        for consumer in range(numbers[1])
    ]
    assert actual == table


@pytest.mark.row("S143")
def test_all_to_all_reads_its_own_subpartition_of_every_partition() -> None:
    wiring = Wiring(ALL_TO_ALL, 2, 3)
    assert list(wiring) == [(0, 0, 0), (0, 1, 1), (0, 2, 2), (1, 0, 0), (1, 1, 1), (1, 2, 2)]
    assert wiring.channels == 6


@given(wirings)
def test_both_sides_show_the_same_channels_and_read_each_subpartition_once(wiring: Wiring) -> None:
    read = {(p, c) for c in range(wiring.consumers) for p in wiring.partitions_of(c)}
    assert {(p, c) for p, c, _ in wiring} == read
    assert len(read) == wiring.channels
    for producer in range(wiring.producers):
        own = sorted(subpartition for p, _, subpartition in wiring if p == producer)
        assert own == list(range(wiring.subpartitions(producer)))
    assert {consumer for _, consumer, _ in wiring} == set(range(wiring.consumers))
    for many, count in (
        (wiring.partitions_of, wiring.consumers),
        (wiring.consumers_of, wiring.producers),
    ):
        numbers = [len(many(each)) for each in range(count)]
        assert max(numbers) - min(numbers) <= 1
