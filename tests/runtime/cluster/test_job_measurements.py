"""The reports of TaskManagers, aggregated by vertex and by edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.graph import execution_graph_of, job_graph_of
from flinknet.graph.execution_graph import ExecutionState
from flinknet.histogram import LogLinearHistogram
from flinknet.results import BacklogSummary, EdgeMeasured, TaskMeasured, VertexMeasured, VertexTimes
from flinknet.runtime.cluster.job_master import JobMaster
from flinknet.runtime.cluster.job_measurements import Measurements
from flinknet.runtime.cluster.measured_ledger import verdict_on_job
from flinknet.runtime.cluster.placement import SharedCluster
from flinknet.runtime.cluster.reports import (
    ProducerChannelReport,
    ReadChannel,
    Report,
    Statistics,
    TaskCounts,
    WrittenChannel,
)
from tests.graph.programs import all_to_all

S = 1_000_000_000


def deployed() -> tuple[Measurements, dict[str, ExecutionAttemptID]]:
    """Two producers and two consumers on two TaskManagers, from second 0 on, measured from 1."""
    graph = execution_graph_of(job_graph_of(all_to_all(2)))
    master = JobMaster(graph, 2, SharedCluster(1), now_ns=0)
    master.register(0, now_ns=0)
    master.register(1, now_ns=0)
    (deployment,) = master.deployments
    measurements = Measurements(deployed_ns=0, start_ns=0, measured_from_ns=S)
    measurements.deploy(deployment.plan, deployment.tasks)
    return measurements, {task.name: task.attempt_id for task in deployment.tasks}


def times(busy: float, idle: float, waiting: float) -> dict[str, float]:
    return {
        "accumulateBusyTimeMs": busy,
        "accumulateIdleTimeMs": idle,
        "accumulateBackPressuredTimeMs": waiting,
        "numRecordsOut": 10.0,
    }


def read(at_ns: int, *records: int) -> Statistics:
    """Nothing of it in the measured part."""
    channels = tuple(
        ReadChannel(at, count, 8 * count, last_read_ns=at_ns) for at, count in enumerate(records)
    )
    return Statistics(at_ns, read=channels)


def measured(last_read_ns: int, *records: int, since_ns: int = S) -> Statistics:
    """Records of each channel, as many as there were in the warm-up, 100."""
    channels = (
        ReadChannel(at, 100 + count, 800 + 8 * count, count, since_ns, 3 * S - 1, last_read_ns)
        for at, count in enumerate(records)
    )
    return Statistics(9 * S, read=tuple(channels))


@pytest.mark.parametrize(
    ("since_ns", "last_read_ns", "per_s"),
    [
        (S, 3 * S, 200),
        (S, 3 * S + S // 50, 400 / 2.02),  # without time left
        (S - S // 10, 3 * S, 400 / 2.1),  # 0.1 s of records waited for the flusher
        (S - S // 10, 5 * S, 100),  # more is due than can be read
    ],
)
def test_records_that_waited_when_the_measured_part_began_count_from_when_they_were_due(
    since_ns: int, last_read_ns: int, per_s: float
) -> None:
    measurements, _ = deployed()
    measurements.end_ns = 3 * S
    measurements.add(0, read(S // 2, 50, 50, 50, 50))
    measurements.add(0, measured(last_read_ns, 200, 100, 0, 100, since_ns=since_ns))
    (edge,) = measurements.edges()
    assert (edge.records, edge.bytes) == (800, 6400)
    assert edge.throughput_records_per_s == pytest.approx(per_s)
    assert edge.throughput_bytes_per_s == pytest.approx(8 * per_s)
    assert (edge.channels, edge.local_channels) == (4, 2)


@pytest.mark.parametrize(
    ("end_ns", "ended_ns", "part"),
    [
        (3 * S, 4 * S, (S, 3 * S)),
        (None, 4 * S, (S, 4 * S)),
        (2 * S, 4 * S, (S, 4 * S)),  # a file is read for longer
        (3 * S, S // 2, (0, S // 2)),
        (3 * S, None, (S, None)),
    ],
)
def test_the_measured_part_ends_with_generated_records(
    end_ns: int | None, ended_ns: int | None, part: tuple[int, int | None]
) -> None:
    measurements, _ = deployed()
    measurements.end_ns = end_ns
    measurements.add(0, measured(3 * S, 200, 200, 200, 200))
    measurements.ended_ns = ended_ns
    assert measurements.measured_part == part


def test_all_of_a_job_counts_whose_sources_ended_in_the_warm_up() -> None:
    measurements, _ = deployed()
    assert measurements.plan is not None
    for execution in measurements.plan.vertices[0].vertex.task_vertices:
        execution.current.timestamps_ns[ExecutionState.FINISHED] = S // 2
    measurements.ended_ns = 4 * S
    assert measurements.measured_part == (0, 4 * S)


def test_a_job_shorter_than_its_warm_up_has_the_rates_of_all_of_it() -> None:
    measurements, _ = deployed()
    measurements.add(0, read(S // 2, 50, 50, 0, 0))
    (edge,) = measurements.edges()
    assert edge.throughput_records_per_s == pytest.approx(200)


def test_text_that_is_read_before_generated_records_begin_has_a_rate() -> None:
    measurements, _ = deployed()
    measurements.start_ns = S // 10
    measurements.add(0, read(S // 20, 5, 5, 0, 0))
    (edge,) = measurements.edges()
    assert edge.throughput_records_per_s == pytest.approx(200)


def test_backlog_and_credit_of_remote_channels_are_those_of_their_edge() -> None:
    measurements, _ = deployed()
    for index, sent in enumerate(((1, 0, 0, 4, 8, 5), (2, 0, 0, 4, 4, 2))):
        report = Report(producer_channels=(ProducerChannelReport(*sent),))
        measurements.reports[index] = report
    starved = (WrittenChannel(1, 0, 2, 30), WrittenChannel(2, 0, 2, 40))
    measurements.add(0, Statistics(S, written=starved))
    (edge,) = measurements.edges()
    assert edge.buffers == 8
    assert edge.backlog_buffers == BacklogSummary(1.5, 5)
    assert edge.starved_ns == 70
    assert measurements.connections() == {"tm-0->tm-1": 1, "tm-1->tm-0": 1}


def test_shares_are_those_of_the_measured_part() -> None:
    measurements, attempts = deployed()
    name = "Source: A (1/2)"
    for at_ns, found in ((S, times(900, 100, 0)), (2 * S, times(1000, 100, 300))):
        counts = (TaskCounts(attempts[name], name, found),)
        measurements.add(0, Statistics(at_ns, counts))
    source, sink = measurements.vertices()
    assert (source.tasks[0].busy, source.tasks[0].back_pressured) == (0.25, 0.75)
    assert source.tasks[1].busy is None
    assert source.busy == 0.25
    assert sink.busy is None
    assert source.records_out == 10


def test_latencies_of_all_subtasks_of_a_vertex_are_one_distribution() -> None:
    measurements, attempts = deployed()
    for name, value in (("Sink: B (1/2)", 10), ("Sink: B (2/2)", 30)):
        ages = LogLinearHistogram()
        ages.add([value])
        counts = TaskCounts(attempts[name], name, times(1, 0, 0), ages.to_bytes())
        measurements.add(0, Statistics(S, (counts,)))
    source, sink = measurements.vertices()
    assert source.latency_ns is None
    assert sink.latency_ns is not None
    assert (sink.latency_ns.count, sink.latency_ns.min, sink.latency_ns.max) == (2, 10, 30)


def limited_by(vertices: Sequence[VertexMeasured], edges: Sequence[EdgeMeasured]) -> str:
    found = verdict_on_job(vertices, edges)
    assert found is not None
    return f"{found.text}."


def vertex(name: str, busy: float, pressed: float) -> VertexMeasured:
    return VertexMeasured(0, name, 1, 0, 0, busy, 1 - busy - pressed, pressed, None, ())


def edge(index: int, source: str, target: str) -> EdgeMeasured:
    none = BacklogSummary(None, None)
    return EdgeMeasured(index, source, target, "hash", 1, 0, 0, 0, None, None, 0, none, None)


def test_the_bottleneck_is_the_task_behind_the_last_that_waits() -> None:
    vertices = [vertex("A", 0.1, 0.9), vertex("B", 0.2, 0.8), vertex("C", 1.0, 0.0)]
    found = limited_by(vertices, [edge(0, "A", "B"), edge(1, "B", "C")])
    assert found.startswith("C is busy 100% of the time")
    assert found.endswith("Back-pressured before it: B 80% and A 90%.")


@pytest.mark.parametrize(
    ("busy", "finished_s", "said"),
    [
        ((0.3, 0.2), (3, 3), "nothing holds the job up"),
        ((0.3, 0.6), (3, 3), "B is busiest, 60%; room for 1.7 times the rate"),
        ((0.3, 0.97), (3, 3), "B is busy 97% of the time; a higher parallelism"),
        ((0.97, 0.3), (3, 3), "A is busy 97% of the time; a higher parallelism"),
        ((0.3, 0.77), (1, 4), "The job goes on for 3.00 s after its sources have ended."),
        ((0.3, 0.2), (1, 4), "nothing holds the job up"),
    ],
)
def test_where_nobody_waits_nothing_is_the_limit_unless_a_task_is_busy(
    busy: tuple[float, float], finished_s: tuple[int, int], said: str
) -> None:
    vertices = [
        replace(vertex(name, share, 0.05), times=VertexTimes(0, None, second * S))
        for name, share, second in zip("AB", busy, finished_s, strict=True)
    ]
    found = limited_by(vertices, [edge(0, "A", "B")])
    assert said in found
    assert found.startswith("nothing holds the job up") == (max(busy) <= 0.6)


@pytest.mark.parametrize(
    ("shares", "named"),
    [
        # busy and back-pressured, of A -> B -> C
        ([(0.7, 0.25), (0.02, 0.101), (0.9, 0.0)], "C is busy 90%"),
        ([(0.0, 0.9), (0.9, 0.099), (0.4, 0.0)], "B is busy 90%"),
        ([(0.1, 0.9), (0.5, 0.5), (0.45, 0.0)], "B is busy 50%"),
        ([(0.1, 0.9), (0.2, 0.5), (0.45, 0.0)], "C is busy 45%"),
        ([(0.1, 0.9), (0.05, 0.0), (0.01, 0.0)], "few buffers behind A"),
        ([(0.2, 0.0), (0.96, 0.02), (0.02, 0.0)], "B is busy 96% of the time"),
        ([(0.75, 0.25), (0.02, 0.2), (0.7, 0.0)], "nothing holds the job up"),
    ],
)
def test_the_busiest_of_those_behind_who_waits_is_the_limit(
    shares: list[tuple[float, float]], named: str
) -> None:
    vertices = [vertex(name, *each) for name, each in zip("ABC", shares, strict=True)]
    assert limited_by(vertices, [edge(0, "A", "B"), edge(1, "B", "C")]).startswith(named)


def test_one_busy_task_among_idle_ones_is_the_limit() -> None:
    """On average its vertex is less busy than the one in front of it."""
    tasks = tuple(
        TaskMeasured(
            f"C ({number}/4)", 0, "finished", "tm-0", busy, 1 - busy, 0.0, {"numRecordsIn": records}
        )
        for number, busy, records in (
            (1, 0.02, 10.0),
            (2, 0.95, 970.0),
            (3, 0.02, 10.0),
            (4, 0.02, 10.0),
        )
    )
    slow = replace(vertex("C", 0.25, 0.0), tasks=tasks)
    vertices = [vertex("A", 0.1, 0.9), vertex("B", 0.3, 0.5), slow]
    assert limited_by(vertices, [edge(0, "A", "B"), edge(1, "B", "C")]) == (
        "skew: C (2/4) is busy 95% of the time, its siblings 2%, with 97% of the records of C;"
        " other keys or a rebalance help. Back-pressured before it: B 50% and A 90%."
    )


def test_a_task_that_ended_before_it_reported_is_not_blamed() -> None:
    vertices = [vertex("A", 0.1, 0.9), replace(vertex("B", 0.0, 0.0), busy=None)]
    found = limited_by(vertices, [edge(0, "A", "B")])
    assert "no task is saturated; A waits for its output 90% of the time" in found
