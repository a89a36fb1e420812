"""Laws of the real system, which a simulated one must obey as well."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinknet.config import Link, NetworkConfig, SlowConsumer
from flinknet.core.probe import FlushReason, TracePoint
from flinknet.core.wire.records import OVERHEAD_BYTES
from flinknet.simulator.cluster import START_NS, TYPICAL_COSTS, Cluster
from flinknet.simulator.faults import NO_FAULTS, Faults
from flinknet.simulator.link import LinkSettings
from tests.driving import run_until
from tests.faults import FaultPlan, Interval
from tests.simulated_scenario import cluster_of
from tests.simulation import (
    FREE,
    MS,
    NEVER,
    US,
    Rows,
    S,
    finished,
    latency_of,
    received_records,
    scenario,
)

SEGMENT_BYTES = NetworkConfig().segment_size_bytes
SIZE_BYTES = 100
RATE_PER_S = 20_000.0
FILL_NS = SEGMENT_BYTES / ((SIZE_BYTES + OVERHEAD_BYTES) * RATE_PER_S) * S
"""Period in which one channel fills a segment at RATE_PER_S: 15.6 ms."""


def run_free(timeout_ns: int, records: int = 40_000, **workload: object) -> tuple[Cluster, Rows]:
    """Run at RATE_PER_S where nothing but waiting takes time."""
    rows = Rows()
    cluster = cluster_of(
        scenario(timeout_ns, rate_per_s=RATE_PER_S, records=records, **workload),  # type: ignore[arg-type]
        FREE,
        probes=(rows, rows),
    )
    return finished(cluster), rows


@pytest.mark.parametrize("timeout_ns", [MS, 5 * MS, 13 * MS, 37 * MS, 230 * MS])
def test_a_record_leaves_with_the_beat_or_with_the_full_segment_whichever_is_first(
    timeout_ns: int,
) -> None:
    cluster, rows = run_free(timeout_ns)
    a, b = min(timeout_ns, FILL_NS), max(timeout_ns, FILL_NS)
    mean_ns = latency_of(cluster).mean
    assert mean_ns == pytest.approx(a / 2 - a * a / (6 * b), rel=0.03)
    sent = rows.buffers()
    seconds = (sent[-1].at_ns - START_NS) / S
    assert len(sent) / seconds == pytest.approx(S / timeout_ns + S / FILL_NS, rel=0.02)


def test_beyond_the_time_to_fill_the_timeout_does_not_matter() -> None:
    means = [latency_of(run_free(timeout_ns)[0]).mean for timeout_ns in (400 * MS, S, NEVER)]
    assert means == pytest.approx([FILL_NS / 2] * 3, rel=0.02)


def test_with_timeout_0_each_record_leaves_alone_and_at_once() -> None:
    cluster, rows = run_free(0, records=2000)
    sent = rows.buffers()
    carrying = [row for row in sent if row.records]
    assert [row.records for row in carrying] == [1] * 2000
    assert all(row.at_ns == row.first_record_ns for row in carrying)
    assert len(sent) - len(carrying) == 2000 * 105 // SEGMENT_BYTES  # the cut ones' first halves
    assert latency_of(cluster).max == 0


def test_with_timeout_0_records_share_messages_where_the_sender_is_busy() -> None:
    rows = Rows()
    cluster = cluster_of(scenario(0, rate_per_s=200_000.0, records=20_000), probes=(rows, rows))
    finished(cluster)
    sent = rows.buffers()
    busy_ns = len(sent) * TYPICAL_COSTS.send_ns_per_message
    assert len(sent) < 20_000 / 2
    assert busy_ns <= rows.rows[-1].at_ns - START_NS
    latency = latency_of(cluster).percentile(0.99)
    assert latency is not None
    assert latency < MS


def test_without_a_timeout_only_full_buffers_leave_until_the_end() -> None:
    _, rows = run_free(NEVER, records=5000)
    *full, last = rows.buffers()
    assert {row.reason for row in full} == {FlushReason.FULL}
    assert {row.payload_bytes for row in full} == {SEGMENT_BYTES}
    assert last.reason == FlushReason.END
    assert sum(row.payload_bytes for row in (*full, last)) == 5000 * 105


@pytest.mark.row("S029")
def test_slow_sources_keep_the_timeout_and_fast_ones_fill_their_buffers() -> None:
    slow = scenario(100 * MS, rate_per_s=1.0, records=200, arrivals="poisson")
    latency = latency_of(finished(cluster_of(slow, FREE)))
    assert latency.mean == pytest.approx(50 * MS, rel=0.1)
    assert 90 * MS < (latency.max or 0) <= 100 * MS
    rows = Rows()
    fast = scenario(100 * MS, rate_per_s=500_000.0, records=100_000)
    finished(cluster_of(fast, probes=(rows, rows)))
    fill = [row.payload_bytes / SEGMENT_BYTES for row in rows.buffers()]
    assert sum(fill) / len(fill) > 0.9


def test_four_channels_fill_four_times_slower() -> None:
    one, _ = run_free(NEVER, consumers=1)
    four, _ = run_free(NEVER, consumers=4)
    assert latency_of(one).mean == pytest.approx(FILL_NS / 2, rel=0.02)
    assert latency_of(four).mean == pytest.approx(4 * FILL_NS / 2, rel=0.02)


def buffers_in_the_pipe(cluster: Cluster) -> int:
    """Buffers that hold data, at both ends of all channels."""
    at_producers = sum(partition.pool.used_buffers for partition in cluster.partitions)
    at_consumers = sum(
        len(channel.received) for gate in cluster.gates for channel in gate.channels
    ) + len(cluster.sinks)  # and the one that each sink is busy with
    return at_producers + at_consumers


@pytest.mark.parametrize("timeout_ns", [0, MS, 100 * MS, NEVER])
def test_a_slow_sink_fills_the_pipe_with_twenty_segments_whatever_the_timeout(
    timeout_ns: int,
) -> None:
    slow = scenario(timeout_ns, records=1_000_000, slow_consumers=(SlowConsumer(0, 50 * US),))
    cluster = cluster_of(slow)
    for at_ms in (400, 500, 600):
        run_until(cluster, START_NS + at_ms * MS)
        assert 19 <= buffers_in_the_pipe(cluster) <= 22


@pytest.mark.row("S014")
def test_memory_stays_bounded_for_a_minute_of_a_producer_that_is_much_too_fast() -> None:
    slow = scenario(records=1_200_000, slow_consumers=(SlowConsumer(0, 50 * US),))
    cluster = cluster_of(slow)
    producer = cluster.partitions[0].pool
    consumer = cluster.gates[0].channels[0].buffers.pool
    for at_s in range(1, 60):
        run_until(cluster, START_NS + at_s * S)
        assert 0 < producer.used_buffers <= producer.max_buffers
        assert 0 < consumer.used_buffers <= consumer.max_buffers
        assert not producer.is_available, "pressure has reached the source"
    finished(cluster)
    assert received_records(cluster, 0) == 1_200_000


@pytest.mark.row("S106")
def test_rates_recover_when_a_consumer_that_stood_still_goes_on() -> None:
    cluster = cluster_of(
        scenario(records=2_000_000), faults=FaultPlan(pauses=(Interval(0, 100 * MS, 200 * MS),))
    )
    seen = []
    for at_ms in (10, 90, 110, 190, 210, 290):
        run_until(cluster, START_NS + at_ms * MS)
        seen.append(received_records(cluster, 0))
    before, paused, after = seen[1] - seen[0], seen[3] - seen[2], seen[5] - seen[4]
    assert paused == 0
    assert after >= 0.95 * before > 0


def test_round_robin_to_a_slow_and_a_fast_sink_holds_both_at_the_rate_of_the_slow_one() -> None:
    uneven = scenario(records=1_000_000, consumers=2, slow_consumers=(SlowConsumer(0, 20 * US),))
    cluster = cluster_of(uneven)
    run_until(cluster, START_NS + 500 * MS)
    before = [received_records(cluster, consumer) for consumer in (0, 1)]
    run_until(cluster, START_NS + 1500 * MS)
    slow, fast = (received_records(cluster, consumer) - before[consumer] for consumer in (0, 1))
    assert slow == pytest.approx(50_000, rel=0.02)
    assert fast == pytest.approx(slow, rel=0.02)


PAUSED = FaultPlan(pauses=(Interval(0, MS, 2 * S),))
"""Consumer 0 reads nothing from a millisecond after the start on. (One that never reads at all gets
no data: the producer waits for the answer to its first event.)"""


def with_neighbours(faults: Faults = NO_FAULTS) -> Cluster:
    four = scenario(
        5 * MS, rate_per_s=20_000.0, records=10_000, producers=4, consumers=4, partitioner="forward"
    )
    return cluster_of(four, faults=faults)


def test_a_paused_consumer_does_not_slow_its_neighbours_on_the_same_connection() -> None:
    free, paused = finished(with_neighbours()), with_neighbours(PAUSED)
    assert len(paused.links) == 1
    run_until(paused, START_NS + S)
    assert received_records(paused, 0) < 100
    for consumer in (1, 2, 3):
        assert received_records(paused, consumer) == 10_000
        assert latency_of(paused, consumer).percentile(0.99) == pytest.approx(
            latency_of(free, consumer).percentile(0.99), rel=0.05
        )


def test_a_paused_consumer_goes_on_where_it_stopped() -> None:
    cluster = finished(with_neighbours(PAUSED))
    assert received_records(cluster, 0) == 10_000
    assert latency_of(cluster, 0).max == pytest.approx(2 * S, rel=0.01)


def test_no_more_leaves_for_a_paused_consumer_than_it_has_buffers() -> None:
    rows = Rows()
    cluster = cluster_of(
        scenario(MS, rate_per_s=1e6, records=100_000), probes=(rows, rows), faults=PAUSED
    )
    run_until(cluster, START_NS + S)
    ahead = len(rows.buffers()) - len(rows.buffers(TracePoint.CONSUMED))
    assert ahead == 10  # two exclusive and eight floating buffers


def test_the_flushers_overhead_lengthens_its_period() -> None:
    def flushes(overhead_ns: int) -> int:
        rows = Rows()
        slow = scenario(MS, rate_per_s=5000.0, records=5000)
        cluster = cluster_of(slow, FREE, probes=(rows, rows), flush_overhead_ns=overhead_ns)
        finished(cluster)
        return sum(row.reason == FlushReason.FLUSH for row in rows.buffers())

    assert flushes(0) == pytest.approx(1000, rel=0.01)
    assert flushes(250 * US) == pytest.approx(800, rel=0.01)


def test_a_link_of_little_bandwidth_sets_the_pace() -> None:
    rows = Rows()
    cluster = cluster_of(
        scenario(records=20_000), probes=(rows, rows), link=LinkSettings(bandwidth_bytes_per_s=10e6)
    )
    finished(cluster)
    last_ns = rows.buffers(TracePoint.CONSUMED)[-1].at_ns
    assert last_ns - START_NS == pytest.approx(20_000 * 105 / 10e6 * S, rel=0.02)


def test_latency_grows_by_what_the_steps_take() -> None:
    light = scenario(0, rate_per_s=1000.0, records=500)
    costs = replace(TYPICAL_COSTS, transit_ns=80_000.0, consume_ns_per_record=(7000.0,))
    latency = latency_of(finished(cluster_of(light, costs)))
    expected_ns = 100 + 80_000 + 0.15 * 152 + 12_000 + 7000
    assert latency.min == pytest.approx(expected_ns, abs=100)


@pytest.mark.parametrize(("exclusive", "round_trip_ns"), [(10, 20 * MS), (30, 20 * MS)])
def test_a_round_trip_of_an_emulated_link_carries_the_credit_that_there_is(
    exclusive: int, round_trip_ns: int
) -> None:
    network = NetworkConfig(
        exclusive_buffers=exclusive, floating_buffers=1, buffer_timeout_ns=NEVER
    )
    law_per_s = (exclusive + 1) * SEGMENT_BYTES / round_trip_ns * S / (SIZE_BYTES + OVERHEAD_BYTES)
    times_ns = []
    for records in (80_000, 160_000):
        workload = replace(scenario(NEVER).workload, records=records)
        asked = replace(
            scenario(NEVER), network=network, workload=workload, link=Link(round_trip_ns)
        )
        times_ns.append(finished(cluster_of(asked, FREE)).now_ns)
    assert 80_000 / (times_ns[1] - times_ns[0]) * S == pytest.approx(law_per_s, rel=0.1)
