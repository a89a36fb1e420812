"""What would run where: the classic figure, counts, buffers, large jobs, jobs of real clusters."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.wire.ids import JobVertexID
from flinknet.core.wiring import Traffic
from flinknet.errors import ConfigError
from flinknet.graph import (
    ExecutionGraph,
    JobGraph,
    PhysicalPlan,
    StreamGraph,
    documents,
    execution_graph_of,
    job_graph_of,
    physical_plan_of,
)
from flinknet.graph.job_config import job_config
from flinknet.graph.physical_plan import Connection
from flinknet.graph.picture import (
    execution_picture,
    job_picture,
    physical_picture,
    stream_picture,
    svg_of,
)
from flinknet.graph.planning import job_graph_of_running
from flinknet.graph.running_job import RunningInput, RunningJob, RunningVertex
from flinknet.graph.tree import execution_tree, job_tree, physical_tree, stream_tree
from tests.graph import programs


def figure() -> PhysicalPlan:
    """A and B with four subtasks each on two TaskManagers of two slots."""
    return programs.plan_of(programs.all_to_all(4), 2, 2)


@pytest.mark.row("S116")
def test_one_program_has_4_3_5_5_nodes_in_its_layers() -> None:
    stream = programs.word_count()
    job = job_graph_of(stream)
    execution = programs.execution_of(programs.word_count())
    plan = programs.plan_of(programs.word_count(), 2, 1)
    assert [type(each) for each in (stream, job, execution, plan)] == [
        *(StreamGraph, JobGraph, ExecutionGraph, PhysicalPlan)
    ]
    assert len(documents.stream_document(stream)["nodes"]) == 4
    assert len(documents.job_document(job)["vertices"]) == 3
    assert documents.execution_document(execution)["execution_vertices"] == 5
    assert len(documents.physical_document(plan)["tasks"]) == 5
    assert stream_tree(stream).startswith("StreamGraph")  # each prints alone
    assert job_tree(job).startswith("JobGraph")
    assert execution_tree(execution).startswith("ExecutionGraph")
    assert physical_tree(plan).startswith("PhysicalPlan")


def test_the_classic_figure() -> None:
    plan = figure()
    assert [vertex.task_managers for vertex in plan.vertices] == [(0, 0, 1, 1), (0, 0, 1, 1)]
    table = {(c.producer, c.consumer): c for c in plan.channels()}
    for producer in range(4):
        for consumer in range(4):
            here, there = producer // 2, consumer // 2
            assert table[producer, consumer].connection == Connection(here, there)
            assert table[producer, consumer].is_local == (here == there)
    assert (plan.channels_total, plan.local_channels) == (16, 8)
    actual = {str(connection): sum(n.values()) for connection, n in plan.connections()}
    assert actual == {"tm-0->tm-1": 4, "tm-1->tm-0": 4}
    for task in plan.tasks():
        for gate in task.gates:
            assert (gate.channels, gate.remote_channels) == (4, 2)
            assert gate.buffers.exclusive_per_channel == 2
            pool = gate.buffers.pool
            assert (pool.required_buffers, pool.max_buffers) == (1, 8)
        for partition in task.partitions:
            assert partition.subpartitions == 4
            pool = partition.pool
            assert (pool.required_buffers, pool.max_buffers) == (5, 16)
    for each in plan.buffers():
        assert each.exclusive_buffers == 2 * 4
        assert each.required_buffers == 2 * (1 + 5)
        assert each.optional_buffers == 2 * (7 + 11)
        assert each.overdraft_buffers == 2 * 20
        assert each.total_buffers == 2048


@pytest.mark.row("S147")
@pytest.mark.parametrize("partition", ["rebalance", "rescale"])
def test_objects_of_the_plan_stand_for_those_of_the_graph(partition: str) -> None:
    env = programs.environment()
    one = env.from_sequence(1, 9).set_parallelism(3)
    other = env.from_sequence(1, 9).set_parallelism(2)
    both = getattr(one, partition)().union(other.shuffle()).map(programs.same).set_parallelism(5)
    both.rebalance().print().set_parallelism(2)
    plan = programs.plan_of(env.execute(), 3, 2)
    document = documents.physical_document(plan)
    graph = plan.graph
    assert len(document["tasks"]) == graph.total_vertices
    tasks = list(plan.tasks())
    for task in tasks:
        vertex = plan.vertices[task.vertex].vertex
        # gates are the job edges that a subtask reads, partitions the results that it writes
        assert [gate.data_set_id for gate in task.gates] == [e.result.id for e in vertex.inputs]
        assert [p.id for p in task.partitions] == [
            result.partitions[task.subtask].result_partition_id for result in vertex.results
        ]
        assert task.attempt_id == vertex.task_vertices[task.subtask].current.attempt_id
        # subpartitions are consumers
        for partition_, result in zip(task.partitions, vertex.results, strict=True):
            readers = [
                e
                for e in result.edges[0].execution_edges()
                if e.source.producer.subtask_index == task.subtask
            ]
            assert partition_.subpartitions == len(readers)
    # channels are execution edges
    channels = sum(gate.channels for task in tasks for gate in task.gates)
    assert channels == graph.channels == sum(len(list(e.execution_edges())) for e in graph.edges)
    assert channels == len(list(plan.channels()))
    remote = sum(gate.remote_channels for task in tasks for gate in task.gates)
    assert remote == sum(not c.is_local for c in plan.channels())


parallelisms = st.integers(1, 7)


@given(parallelisms, parallelisms, st.integers(1, 3), st.sampled_from(["rebalance", "rescale"]))
def test_numbers_by_arithmetic_are_those_of_the_channels(
    producers: int, consumers: int, slots: int, partition: str
) -> None:
    env = programs.environment()
    source = env.from_sequence(1, 9).set_parallelism(producers)
    getattr(source, partition)().print().set_parallelism(consumers)
    plan = programs.plan_of(env.execute(), None, slots)
    channels = list(plan.channels())
    (edge,) = plan.edges
    counted = Counter((c.producer_task_manager, c.consumer_task_manager) for c in channels)
    assert {(p, c): n for p, c, n in plan.traffic(edge)} == dict(counted)
    assert plan.traffic(edge).pairs == len(counted)
    assert plan.channels_total == len(channels)
    assert plan.local_channels == sum(c.is_local for c in channels)
    shared = Counter(c.connection for c in channels if not c.is_local)
    assert {c: sum(n.values()) for c, n in plan.connections()} == dict(shared)


def test_a_blocking_result_sorts_in_its_own_buffers_and_stages_do_not_add_up() -> None:
    env = programs.environment({"execution.runtime-mode": "BATCH"})
    env.from_sequence(1, 9).rebalance().map(programs.same).rebalance().discard()
    plan = programs.plan_of(env.execute(), 1, 1)
    (need,) = plan.buffers()
    # the middle stage reads one channel and writes; nothing crosses a connection
    assert (need.stage, need.exclusive_buffers, need.required_buffers) == (1, 0, 512 + 1)
    env.config.network = replace(env.config.network, sort_shuffle_min_buffers=4096)
    assert "requires 4097" in str(programs.plan_of(env.execute(), 1, 1).shortage())


def test_two_readers_of_one_blocking_result_share_its_partition() -> None:
    env = programs.environment({"execution.runtime-mode": "BATCH"})
    dealt = env.from_sequence(1, 9).rebalance()
    dealt.print()
    dealt.discard()
    plan = programs.plan_of(env.execute(), 1, 2)
    assert [len(task.partitions) for task in plan.tasks()] == [1, 0, 0]


def test_several_connections_for_a_pair_before_2_0() -> None:
    env = programs.environment({"taskmanager.network.max-num-tcp-connections": "2"})
    env.set_parallelism(2)
    env.from_sequence(1, 9).rebalance().map(programs.same).rebalance().print()
    plan = programs.plan_of(env.execute(), 2, 1)
    assert [str(each) for each, _ in plan.connections()] == [
        *("tm-0->tm-1", "tm-0->tm-1#1", "tm-1->tm-0", "tm-1->tm-0#1")
    ]


def test_too_little_memory_is_reported_with_what_would_do() -> None:
    plan = programs.plan_of(
        programs.all_to_all(
            4,
            {
                "taskmanager.memory.network.min": "512kb",
                "taskmanager.memory.network.max": "512kb",
            },
        ),
        *(2, 2),
    )
    shortage = plan.shortage()
    assert shortage is not None
    assert "TaskManager 0 requires 20 (8 exclusive ones of channels and 12 of pools)" in shortage
    assert "has 16 of 32kb; set taskmanager.memory.network.min to 640kb" in shortage
    assert physical_tree(plan).endswith(f"the job would not start: {shortage}")


def test_a_million_channels_are_planned_without_making_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: object) -> None:
        raise AssertionError("channels were made one by one")

    monkeypatch.setattr("flinknet.core.wiring.Wiring.__iter__", refuse)
    plan = programs.plan_of(programs.all_to_all(1000), None, 100)
    assert (plan.task_managers, plan.channels_total) == (10, 1_000_000)
    assert plan.local_channels == 10 * 100 * 100
    assert plan.connections_total == 90
    text = physical_tree(plan)
    assert "1,000,000 channels (100,000 local, 900,000 remote), 90 TCP connections" in text
    assert len(json.dumps(documents.physical_document(plan))) > 1000
    assert len(execution_tree(plan.graph).splitlines()) < 50
    for picture in (physical_picture(plan), execution_picture(plan.graph)):
        assert len(picture.boxes) <= 10


def test_a_thousand_task_managers_are_reported_in_a_few_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = programs.plan_of(programs.all_to_all(1000), None, 1)
    pairs = Traffic.__iter__
    made = 0

    def counted(self: Traffic) -> Iterator[tuple[int, int, int]]:
        nonlocal made
        for each in pairs(self):
            made += 1
            yield each

    monkeypatch.setattr(Traffic, "__iter__", counted)
    text = physical_tree(plan)
    assert "1,000 TaskManagers with 1 slot each" in text
    assert "1,000,000 channels (1,000 local, 999,000 remote), 999,000 TCP connections" in text
    assert "… and 998984 more connections" in text
    assert len(text.splitlines()) < 100
    document = documents.physical_document(plan)
    assert (document["connections"], document["connections_total"]) == (None, 999_000)
    assert len(document["tasks"]) == 2000
    assert physical_picture(plan).arrows == ()
    assert made < 100


@given(st.lists(st.tuples(parallelisms, st.booleans()), min_size=2, max_size=4), st.integers(1, 3))
def test_connections_are_counted_as_they_are_listed(
    stages: list[tuple[int, bool]], connections: int
) -> None:
    env = programs.environment({"taskmanager.network.max-num-tcp-connections": str(connections)})
    stream: Any = env.from_sequence(1, 9).set_parallelism(stages[0][0])
    for parallelism, is_pointwise in stages[1:]:
        dealt = stream.rescale() if is_pointwise else stream.rebalance()
        stream = dealt.map(programs.same).set_parallelism(parallelism)
    stream.discard().set_parallelism(1)
    plan = programs.plan_of(env.execute(), None, 1)
    listed = [connection for connection, _ in plan.connections()]
    assert plan.connections_total == len(listed) == len(set(listed))
    assert listed == sorted(listed, key=lambda c: (c.producer, c.index, c.consumer))


def test_pictures_are_whole() -> None:
    plan = figure()
    job = plan.graph.job
    for picture in (
        stream_picture(programs.all_to_all()),
        job_picture(job),
        execution_picture(plan.graph),
        physical_picture(plan),
    ):
        known = {box.id for box in picture.boxes}
        assert all({arrow.source, arrow.target} <= known for arrow in picture.arrows)
        drawing = ET.fromstring(svg_of(picture))
        names = {element.tag.partition("}")[2] for element in drawing.iter()}
        assert {"rect", "text", "path"} <= names
        arrows = [
            element for element in drawing.iter() if element.get("class") in ("arrow", "strong")
        ]
        assert len(arrows) == len(picture.arrows)
    strong = [arrow for arrow in physical_picture(plan).arrows if arrow.is_strong]
    assert len(strong) == 8
    assert "red: over the network" in svg_of(physical_picture(plan))
    assert "red: over" not in svg_of(job_picture(job))


EXPECTED = Path(__file__).parent / "expected"


def test_dumps_of_the_word_count_are_the_expected_ones() -> None:
    stream = programs.word_count()
    job = job_graph_of(stream)
    execution = execution_graph_of(job)
    plan = physical_plan_of(execution, task_managers=2, slots_per_task_manager=1)
    layers = {
        "stream": stream_tree(stream),
        "job": job_tree(job),
        "execution": execution_tree(execution),
        "physical": physical_tree(plan),
    }
    for name, text in layers.items():
        expected = (EXPECTED / f"word_count_{name}.txt").read_text(encoding="utf-8")
        assert f"{text}\n" == expected


HERE, ELSEWHERE = JobVertexID(b"1" * 16), JobVertexID(b"2" * 16)


def test_an_input_from_a_vertex_that_the_job_does_not_have_is_refused() -> None:
    reads = RunningInput(ELSEWHERE, "REBALANCE", "pipelined_bounded")
    vertex = RunningVertex(HERE, "map", 1, 128, (reads,), ())
    job = RunningJob("00", "a job", "RUNNING", False, 0, (vertex,))
    with pytest.raises(ConfigError, match=f"map reads {ELSEWHERE}, which is not in the job"):
        job_graph_of_running(job, job_config({})[0])
