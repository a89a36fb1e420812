"""Flow control with and without credit, between the same tasks, in virtual time."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from bench.link_credit import ROUND_TRIPS, simulated_per_s
from flinknet.config import CREDIT, TCP, Link, NetworkConfig, Scenario, SlowConsumer
from flinknet.core.buffers import LocalBufferPool
from flinknet.core.buffers.data_type import DataType
from flinknet.core.consumer import RemoteInputChannel
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.core.wire.checkpoint_barrier import CheckpointBarrier
from flinknet.job.load.load_tasks import run_input_of
from flinknet.results import FillLevels, FillSample
from flinknet.simulator.cluster import START_NS, Cluster
from flinknet.simulator.link import LinkSettings
from tests.checkers import check_memory, check_records
from tests.driving import run_until
from tests.faults import FaultPlan, Interval
from tests.simulated_fill_levels import fill_bounds, fill_sample
from tests.simulated_scenario import cluster_of
from tests.simulation import FREE, MS, US, Rows, S, finished, received_records, scenario

SOCKETS = LinkSettings(capacity_bytes=1 << 20)
PAUSED = SlowConsumer(1, -1)
RATE_PER_S = 20_000.0


def one_on_one(flow_control: str, *, delay_ns: int = 100 * US, records: int = 20_000) -> Scenario:
    """A producer makes two records while its consumer takes one, at 20 MB/s."""
    return replace(
        scenario(
            10 * MS,
            rate_per_s=RATE_PER_S,
            records=records,
            size_bytes=1000,
            slow_consumers=(SlowConsumer(0, delay_ns),) if delay_ns else (),
        ),
        flow_control=flow_control,
    )


def two_on_two(flow_control: str, *slow: SlowConsumer, records: int = 20_000) -> Scenario:
    """A.1 feeds B.3 and A.2 feeds B.4, over the one connection of their two TaskManagers."""
    return replace(
        scenario(
            10 * MS,
            rate_per_s=RATE_PER_S,
            records=records,
            size_bytes=1000,
            producers=2,
            consumers=2,
            partitioner="forward",
            slow_consumers=slow,
        ),
        flow_control=flow_control,
    )


def history(cluster: Cluster) -> list[FillSample]:
    """Fill levels after every step to the end; no place ever holds more than its bound."""
    bounds = fill_bounds(cluster)
    samples = []
    while cluster.step():
        sample = fill_sample(cluster)
        samples.append(sample)
        for place in fields(FillLevels):
            level, bound = getattr(sample.levels, place.name), getattr(bounds, place.name)
            assert level <= bound, place.name
        assert sample.levels.total_bytes <= bounds.total_bytes
    assert cluster.error is None
    check_records(cluster)
    check_memory(cluster)
    return samples


def first(samples: Sequence[FillSample], is_so: Callable[[FillSample], bool]) -> int:
    return next(number for number, sample in enumerate(samples) if is_so(sample))


def last(samples: Sequence[FillSample], is_so: Callable[[FillSample], bool]) -> int:
    return max(number for number, sample in enumerate(samples) if is_so(sample))


def taken_until(cluster: Cluster, consumer: int, at_ns: int) -> int:
    """Records that a consumer has taken at an instant after the start."""
    run_until(cluster, START_NS + at_ns)
    return received_records(cluster, consumer)


def release(cluster: Cluster) -> None:
    """Let the paused consumers read again, and run to the end."""
    for sink in cluster.sinks:
        run_input_of(sink).unpause()
    for task_manager in cluster.task_managers:
        task_manager.wake(cluster.now_ns)
    finished(cluster)
    check_records(cluster)


@pytest.mark.row("S102")
def test_tcp_places_fill_from_the_consumers_end_and_empty_from_the_producers() -> None:
    cluster = cluster_of(one_on_one(TCP), link=SOCKETS)
    samples = history(cluster)
    marks: list[Callable[[FillSample], bool]] = [
        lambda sample: sample.levels.input_channel_bytes > 7 * 32 * 1024,  # of ten buffers
        lambda sample: not sample.is_reading,
        lambda sample: sample.levels.socket_receive_bytes == 1 << 19,
        lambda sample: sample.levels.socket_send_bytes == 1 << 19,
        lambda sample: not sample.is_writable,
        lambda sample: sample.levels.subpartition_bytes > 4 * 32 * 1024,
        lambda sample: not sample.is_writing,
    ]
    onsets = [first(samples, mark) for mark in marks]
    assert onsets == sorted(onsets)
    log = [
        first(samples, lambda sample: not sample.is_reading),
        first(samples, lambda sample: not sample.is_writable),
        first(samples, lambda sample: not sample.is_writing),
    ]
    assert log[0] < log[1] < log[2]  # auto-read off, not writable, the writer waits
    recovery = [
        last(samples, lambda sample: not sample.is_writing),
        last(samples, lambda sample: sample.levels.subpartition_bytes > 32 * 1024),
        last(samples, lambda sample: not sample.is_writable),
        last(samples, lambda sample: sample.levels.socket_send_bytes > 0),
        last(samples, lambda sample: sample.levels.socket_receive_bytes > 32 * 1024),
        last(samples, lambda sample: not sample.is_reading),
        last(samples, lambda sample: sample.levels.input_channel_bytes > 0),
    ]
    assert recovery[0] < recovery[2] < recovery[3] < recovery[4] <= recovery[5] < recovery[6]


@pytest.mark.row("S102")
def test_tcp_the_trace_tells_when_reading_stops_and_when_the_writer_waits() -> None:
    rows = Rows()
    finished(cluster_of(one_on_one(TCP), link=SOCKETS, probes=(rows, rows)))
    log = [row.point for row in rows.rows if row.point >= TracePoint.WRITER_WAITS]
    assert log.index(TracePoint.READING_STOPS) < log.index(TracePoint.WRITER_WAITS)
    assert log[::-1].index(TracePoint.WRITER_RESUMES) > log[::-1].index(TracePoint.READING_RESUMES)


@pytest.mark.row("S102")
def test_tcp_the_producer_comes_down_to_the_rate_of_its_consumer() -> None:
    cluster = cluster_of(one_on_one(TCP, records=40_000), link=SOCKETS)
    run_until(cluster, START_NS + S)  # every place is full
    emitted = cluster.sources[0].emitted_records
    run_until(cluster, START_NS + 2 * S)
    assert cluster.sources[0].emitted_records - emitted == pytest.approx(10_000, rel=0.1)
    finished(cluster)
    check_records(cluster)


@pytest.mark.row("S101")
@pytest.mark.parametrize("flow_control", [CREDIT, TCP])
def test_the_six_places_never_hold_more_than_their_bounds(flow_control: str) -> None:
    pauses = FaultPlan(pauses=(Interval(1, 100 * MS, 400 * MS),))
    cluster = cluster_of(two_on_two(flow_control), link=SOCKETS, faults=pauses)
    samples = history(cluster)
    assert max(sample.levels.total_bytes for sample in samples) > 500_000


@pytest.mark.row("S101")
def test_with_credit_only_the_first_and_the_last_place_hold_more_than_what_passes() -> None:
    cluster = cluster_of(one_on_one(CREDIT), link=SOCKETS)
    samples = history(cluster)
    assert all(sample.is_reading and sample.is_writable for sample in samples)
    assert max(sample.levels.netty_inbound_bytes for sample in samples) == 0
    assert max(sample.levels.socket_send_bytes for sample in samples) == 0
    full = [sample.levels for sample in samples if not sample.is_writing]
    assert sorted(each.socket_receive_bytes for each in full)[len(full) // 2] < 2 * 32 * 1024
    assert min(each.subpartition_bytes for each in full[:100]) > 3 * 32 * 1024
    assert min(each.input_channel_bytes for each in full[:100]) > 3 * 32 * 1024


def neighbours_share(flow_control: str) -> float:
    """What the neighbour of a paused consumer takes of what it takes alone, while that pauses."""
    alone = cluster_of(one_on_one(flow_control, delay_ns=0), link=SOCKETS)
    beside = cluster_of(two_on_two(flow_control, PAUSED), link=SOCKETS)
    from_ns, to_ns = 100 * MS, 900 * MS
    counts = []
    for cluster in (alone, beside):
        before = taken_until(cluster, 0, from_ns)
        counts.append(taken_until(cluster, 0, to_ns) - before)
    assert received_records(beside, 1) == 0
    release(beside)
    return counts[1] / counts[0]


@pytest.mark.row("S107")
def test_tcp_a_paused_consumer_starves_its_neighbour_on_the_shared_connection() -> None:
    assert neighbours_share(TCP) < 0.1


@pytest.mark.row("S108")
def test_credit_a_paused_consumer_leaves_its_neighbour_alone() -> None:
    assert neighbours_share(CREDIT) > 0.9


@pytest.mark.row("S074")
def test_add_credits_or_reading_that_stops_and_equal_results() -> None:
    seen, taken = [], []
    for flow_control in (CREDIT, TCP):
        rows = Rows()
        pauses = FaultPlan(pauses=(Interval(1, 100 * MS, 400 * MS),))
        cluster = finished(
            cluster_of(two_on_two(flow_control), link=SOCKETS, faults=pauses, probes=(rows, rows))
        )
        check_records(cluster)
        taken.append([received_records(cluster, consumer) for consumer in (0, 1)])
        kinds = {row.kind for row in rows.rows}
        points = {row.point for row in rows.rows}
        seen.append((MessageKind.ADD_CREDIT in kinds, TracePoint.READING_STOPS in points))
    assert seen == [(True, False), (False, True)]
    assert taken == [[20_000, 20_000]] * 2


def barrier_travel_ns(flow_control: str) -> int:
    """How long a barrier takes from its writing to a slow consumer's task, all places full."""
    rows = Rows()
    cluster = cluster_of(
        one_on_one(flow_control, records=40_000), link=SOCKETS, probes=(rows, rows)
    )
    run_until(cluster, START_NS + S)
    written_ns = cluster.now_ns
    written_records = cluster.sources[0].emitted_records
    cluster.partitions[0].broadcast_event(CheckpointBarrier(1, 0))
    cluster.task_managers[0].wake(cluster.now_ns)
    finished(cluster)
    check_records(cluster)
    consumed = [row for row in rows.rows if row.point == TracePoint.CONSUMED]
    (number,) = (
        number
        for number, row in enumerate(consumed)
        if row.data_type == DataType.ALIGNED_CHECKPOINT_BARRIER and row.value == 1
    )
    records = sum(row.records for row in consumed[:number] if row.data_type == 1)
    # It has overtaken no data of its own channel; what the writer had not laid down is behind it.
    assert written_records - 300 < records <= written_records
    return consumed[number].at_ns - written_ns


@pytest.mark.row("S111")
def test_with_credit_a_barrier_reaches_a_slow_consumer_sooner() -> None:
    assert barrier_travel_ns(CREDIT) < 0.7 * barrier_travel_ns(TCP)


@pytest.mark.row("S112")
@pytest.mark.parametrize(("flow_control", "is_stuck"), [(TCP, True), (CREDIT, False)])
def test_a_neighbours_barrier_is_stuck_behind_a_paused_consumer_without_credit_only(
    flow_control: str, is_stuck: bool
) -> None:
    rows = Rows()
    cluster = cluster_of(two_on_two(flow_control, PAUSED), link=SOCKETS, probes=(rows, rows))

    def arrived() -> int:
        return sum(
            row.point == TracePoint.CONSUMED and row.channel == 0 and row.value == 1
            for row in rows.rows
        )

    run_until(cluster, START_NS + 300 * MS)
    cluster.partitions[0].broadcast_event(CheckpointBarrier(1, 0))
    cluster.task_managers[0].wake(cluster.now_ns)
    run_until(cluster, START_NS + 900 * MS)
    assert arrived() == (0 if is_stuck else 1)
    release(cluster)
    assert arrived() == 1


@pytest.mark.row("S115")
def test_credit_runs_out_and_data_stops_until_credit_comes_back() -> None:
    rows = Rows()
    cluster = cluster_of(two_on_two(CREDIT, PAUSED), link=SOCKETS, probes=(rows, Rows()))

    def of_channel(since: int) -> list[tuple[int, int]]:
        """Data that left on the paused channel, and credit that came."""
        return [
            (row.point, row.kind)
            for row in rows.rows[since:]
            if row.channel == 1
            and (row.kind == MessageKind.ADD_CREDIT or (row.kind == 0 and row.data_type == 1))
            and row.point in (TracePoint.SENT, TracePoint.RECEIVED)
        ]

    run_until(cluster, START_NS + 300 * MS)
    (reader,) = (
        reader
        for reader in cluster.channels.producer_connections[0].queue.readers.values()
        if reader.channel == 1
    )
    assert reader.credits_available == 0
    since = len(rows.rows)
    run_until(cluster, START_NS + 900 * MS)
    assert of_channel(since) == []
    assert reader.subpartition is not None
    assert reader.subpartition.backlog() > 0
    release(cluster)
    resumed = of_channel(since)
    assert resumed[0] == (TracePoint.RECEIVED, MessageKind.ADD_CREDIT)
    assert (TracePoint.SENT, MessageKind.BUFFER_RESPONSE) in resumed


@pytest.mark.row("S074")
def test_tcp_gates_have_all_their_buffers_in_one_pool() -> None:
    network = NetworkConfig(exclusive_buffers=3, floating_buffers=5)
    cluster = cluster_of(
        replace(
            scenario(records=10, rate_per_s=1000.0, producers=4, network=network), flow_control=TCP
        )
    )
    (gate,) = cluster.gates
    pool = gate.channels[0].buffers.pool
    assert (pool.required_buffers, pool.max_buffers) == (4, 4 * 3 + 5)
    assert all(channel.buffers.available_buffers == 0 for channel in gate.channels)
    finished(cluster)


BENCH = Path(__file__).parents[2] / "bench"
LATENCY_NS = 1_000_000


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The benchmark's own names."""
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.setattr(sys, "argv", ["flow_control.py"])
    return runpy.run_path(str(BENCH / "flow_control.py"))


@pytest.mark.row("S113")
def test_credit_costs_messages_and_a_round_trip_and_shows_pressure_earlier(
    bench: dict[str, Any],
) -> None:
    slow = (SlowConsumer(0, 100_000),)
    burst, slowed = (
        {mode: bench["run"](mode, LATENCY_NS, rate_per_s=rate, slow=who) for mode in (CREDIT, TCP)}
        for rate, who in ((0.0, ()), (20_000.0, slow))
    )
    assert 0 < bench["add_credits_per_buffer"](burst[CREDIT]) < 1
    assert bench["add_credits_per_buffer"](burst[TCP]) == 0
    full_speed_ns = {mode: bench["time_to_full_speed_ns"](burst[mode]) for mode in burst}
    extra_ns = full_speed_ns[CREDIT] - full_speed_ns[TCP]
    assert LATENCY_NS < extra_ns < 4 * LATENCY_NS  # a round trip, with what sending takes
    trips = bench["round_trips"](burst[CREDIT], LATENCY_NS)
    assert 5 < sum(trips[2:12]) / 10 < 7  # half of 10 buffers of the producer and 2 exclusive ones
    assert len(bench["round_trips"](burst[TCP], LATENCY_NS)) == 1
    waits_ns = {mode: bench["time_until_the_writer_waits_ns"](slowed[mode]) for mode in slowed}
    assert waits_ns[CREDIT] < waits_ns[TCP]


@pytest.mark.row("S113")
def test_the_benchmark_prints_all_three_for_both_modes(
    bench: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    bench["main"]()
    header, *rows = capsys.readouterr().out.splitlines()
    for name in ("AddCredits per buffer", "burst at full speed after", "writer first waits after"):
        assert name in header
    assert [row.split()[0] for row in rows] == [CREDIT, TCP]
    assert rows[1].split()[1] == "0.000"


DELAY = replace(FREE, transit_ns=10 * MS)
RECORDS = 4000
CHANNELS = 2


def burst(**network: int) -> tuple[Cluster, float]:
    """The cluster of a burst, and its throughput in records per second."""
    drawn = scenario(
        records=RECORDS,
        network=NetworkConfig(segment_size_bytes=4096, **network),  # type: ignore[arg-type]
        consumers=CHANNELS,
        warmup_ns=0,
    )
    cluster = finished(cluster_of(drawn, DELAY))
    taken = sum(sink.records for task in cluster.sinks for sink in task.receivers)
    assert taken == RECORDS
    return cluster, RECORDS / (cluster.now_ns - START_NS) * 1e9


@pytest.mark.row("S114")
@pytest.mark.parametrize(
    ("name", "exclusive", "output_pools", "gate_pools"),
    [
        ("exclusive_buffers", (1, 2, 8), [(3, 10), (3, 12), (3, 24)], [(1, 8)] * 3),
        ("floating_buffers", (2, 2, 2), [(3, 5), (3, 6), (3, 12)], [(1, 1), (1, 2), (1, 8)]),
    ],
)
def test_a_burst_over_a_slow_link_is_faster_with_more_buffers(
    name: str,
    exclusive: tuple[int, ...],
    output_pools: list[tuple[int, int]],
    gate_pools: list[tuple[int, int]],
) -> None:
    throughputs = []
    for index, count in enumerate((1, 2, 8)):
        cluster, throughput = burst(**{name: count})
        throughputs.append(throughput)
        (partition,) = cluster.partitions
        assert sizes_of(partition.pool) == output_pools[index]
        for gate in cluster.gates:
            (channel,) = gate.channels
            assert isinstance(channel, RemoteInputChannel)
            assert channel.initial_credit == exclusive[index]
            assert sizes_of(channel.buffers.pool) == gate_pools[index]
    assert throughputs[0] * 1.1 < throughputs[1]
    assert throughputs[1] * 1.1 < throughputs[2]


def sizes_of(pool: LocalBufferPool) -> tuple[int, int]:
    """Required and largest size of a pool."""
    return pool.required_buffers, pool.max_buffers


@pytest.mark.parametrize(
    ("rtt_ms", "exclusive", "floating", "measured_per_s"),
    [
        *((10, 10, 1, 327e3), (10, 2, 8, 225e3), (10, 2, 64, 178e3)),
        *((50, 10, 1, 65e3), (50, 2, 64, 34e3)),
    ],
)
def test_rates_over_long_links_are_within_a_tenth_of_those_over_sockets(
    rtt_ms: int, exclusive: int, floating: int, measured_per_s: float
) -> None:
    """Measured by `bench/link_credit.py` on idle cores; see docs/links.md."""
    found_per_s = far_rate_per_s(rtt_ms, exclusive, floating, measured_per_s)
    assert found_per_s == pytest.approx(measured_per_s, rel=0.1)


def test_eight_floating_buffers_over_50_ms_lie_between_what_was_measured_and_the_law() -> None:
    """From 33 to 45 k records/s, by how long loops take to wake up; the law allows 62.4 k."""
    assert 33e3 < far_rate_per_s(50, 2, 8, 35e3) < 62.4e3


def far_rate_per_s(rtt_ms: int, exclusive: int, floating: int, about_per_s: float) -> float:
    network = NetworkConfig(exclusive_buffers=exclusive, floating_buffers=floating)
    far = replace(one_on_one(CREDIT), network=network, link=Link(rtt_ms * MS))
    return simulated_per_s(far, max(20_000, int(about_per_s * ROUND_TRIPS * rtt_ms / 1000)))


@pytest.mark.parametrize(
    ("rtt_ns", "before"), [(10 * MS, TracePoint.RECEIVED), (0, TracePoint.CONSUMED)]
)
def test_loops_that_sleep_announce_credit_for_a_backlog_before_they_read_its_records(
    rtt_ns: int, before: TracePoint
) -> None:
    consumer = Rows()
    far = replace(scenario(10 * MS, records=100_000), link=Link(rtt_ns))
    finished(cluster_of(far, probes=[Rows(), consumer]))
    kinds = [each.kind for each in consumer.rows]
    granted = [at for at, kind in enumerate(kinds) if kind == MessageKind.ADD_CREDIT]
    assert consumer.rows[granted[0] - 1].point == before
