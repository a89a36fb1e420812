"""Back pressure travels, and a writer without buffers waits until there are some again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from flinknet.config import Scenario, SlowConsumer
from flinknet.core.buffers import NetworkBufferPool
from flinknet.errors import RemoteTransportError
from flinknet.job.load.run_input import PAUSED_NS
from flinknet.job.stream_task import TaskState
from flinknet.job.task_metrics import TaskMetrics, back_pressure_level, memory_metrics
from flinknet.simulator.cluster import START_NS, Cluster
from flinknet.simulator.cost_model import CostModel
from tests.checkers import check_memory, check_records
from tests.driving import run_until, set_delay
from tests.simulated_scenario import cluster_of
from tests.simulation import MS, US, S, finished, scenario

OFFERED_PER_S = 20_000
COSTS = CostModel(0.0, 0.0, 50_000.0, 0.0, 10_000.0, ())
"""A task can emit 100 000 records/s; nothing else takes time but the way through the wire."""


def chain(*, relays: int = 1, is_spread: bool = False, records: int) -> Scenario:
    """X -> A -> B, each in a TaskManager of its own, or all in one."""
    return replace(
        scenario(10 * MS, rate_per_s=OFFERED_PER_S, records=records, relays=relays),
        task_managers=1 if is_spread else relays + 2,
        placement="spread" if is_spread else "split",
    )


class Watch:
    """Runs a cluster in steps of 10 ms, and looks at it after each."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.at_ns = START_NS
        self.emitted: list[int] = []
        self.consumed: list[int] = []
        self.used_buffers: list[int] = []
        self.first: dict[str, int] = {}

    def run_for(self, duration_ns: int, **marks: Callable[[], bool]) -> None:
        """Note, for each mark, when it was first true."""
        for _ in range(duration_ns // (10 * MS)):
            self.at_ns += 10 * MS
            run_until(self.cluster, self.at_ns)
            self.emitted.append(self.cluster.sources[0].emitted_records)
            self.consumed.append(sum(s.records for s in self.cluster.sinks[0].receivers))
            self.used_buffers.append(
                sum(m.total_buffers - m.available_buffers for m in self._memories())
            )
            for name, is_so in marks.items():
                if name not in self.first and is_so():
                    self.first[name] = self.at_ns
            for memory in self._memories():
                for pool in memory.pools:
                    most = pool.max_buffers + pool.max_overdraft_buffers
                    assert pool.requested_buffers <= most

    def rate(self, counts: list[int], from_s: float, to_s: float) -> float:
        """Records per second between two instants, counted from the start."""
        first, last = round(from_s * 100) - 1, round(to_s * 100) - 1
        return (counts[last] - counts[first]) / (to_s - from_s)

    def _memories(self) -> list[NetworkBufferPool]:
        return [task_manager.memory for task_manager in self.cluster.task_managers]


@pytest.mark.row("S104")
@pytest.mark.row("S106")
@pytest.mark.parametrize("is_spread", [False, True])
def test_the_source_falls_to_the_rate_of_the_last_task_and_recovers_when_it_is_freed(
    is_spread: bool,
) -> None:
    cluster = cluster_of(chain(is_spread=is_spread, records=400_000), COSTS)
    watch = Watch(cluster)
    run_until(cluster, START_NS)
    relay, source = cluster.relays[0], cluster.sources[0]
    watch.run_for(5 * S)
    baseline = watch.rate(watch.emitted, 1, 5)
    assert baseline == pytest.approx(OFFERED_PER_S, rel=0.01)

    set_delay(cluster, 0, 200 * US)  # 5000 records/s
    watch.run_for(
        10 * S,
        relay_waits=lambda: relay.is_blocked,
        source_waits=lambda: source.is_blocked,
        relay_input_is_full=lambda: all(
            channel.buffers.available_buffers == 0 for channel in relay.gate.remote_channels
        ),
    )
    consumed = watch.rate(watch.consumed, 8, 15)
    assert consumed == pytest.approx(5000, rel=0.1)
    assert watch.rate(watch.emitted, 8, 15) == pytest.approx(consumed, rel=0.1)
    # pressure goes upstream: the output of A, the input of A, the output of X; where all run in
    # one TaskManager the input of A is the output of X
    first = watch.first
    if is_spread:
        first["relay_input_is_full"] = first["source_waits"]
    assert first["relay_waits"] <= first["relay_input_is_full"] <= first["source_waits"]
    slow = watch.used_buffers[800:1500]
    assert max(slow) - min(slow) <= 4

    set_delay(cluster, 0, 0)
    watch.run_for(5 * S)
    for from_s in (16, 17, 18, 19):
        assert watch.rate(watch.emitted, from_s, from_s + 1) >= 0.95 * baseline
        assert watch.rate(watch.consumed, from_s, from_s + 1) >= 0.95 * baseline

    finished(cluster)
    assert source.emitted_records == 400_000
    check_records(cluster)
    check_memory(cluster)


@pytest.mark.row("S104")
def test_a_task_that_cannot_write_keeps_the_buffer_it_has_read_from() -> None:
    """It is no credit for its producer as long as its records are not written."""
    cluster = cluster_of(chain(records=100_000), COSTS)
    run_until(cluster, START_NS)
    set_delay(cluster, 0, 100 * S)
    run_until(cluster, START_NS + 5 * S)
    (relay,) = cluster.relays
    assert relay.is_blocked
    (channel,) = relay.gate.remote_channels
    buffers = channel.buffers
    filled = channel.initial_credit + buffers.pool.used_buffers - buffers.available_buffers
    assert filled == buffers.pool.max_buffers + channel.initial_credit
    assert filled == channel.queued_elements + 1
    cluster.cancel(RemoteTransportError("the job ends early"))
    check_memory(cluster)


def test_a_task_ends_when_all_that_it_has_written_was_read() -> None:
    cluster = cluster_of(chain(records=10), COSTS)
    run_until(cluster, START_NS)
    set_delay(cluster, 0, S)
    (relay,) = cluster.relays
    run_until(cluster, START_NS + 5 * S)
    assert relay.emitted_records == 10
    assert relay.state is TaskState.AWAITING_ACKNOWLEDGEMENT
    assert not cluster.partition_of[relay.outputs.each[0].edge, 0].is_finished
    finished(cluster)
    assert relay.is_finished


@pytest.mark.row("S103")
def test_in_one_task_manager_the_writer_waits_when_its_own_pool_is_used_up() -> None:
    """The consumer reads the producer's subpartition; there is no socket and no credit."""
    cluster = cluster_of(chain(relays=0, is_spread=True, records=200_000), COSTS)
    assert not cluster.links
    assert all(channel.is_local for gate in cluster.gates for channel in gate.channels)
    watch = Watch(cluster)
    run_until(cluster, START_NS)
    source, pool = cluster.sources[0], cluster.partitions[0].pool
    watch.run_for(2 * S)
    baseline = watch.rate(watch.emitted, 0.5, 2)
    set_delay(cluster, 0, 200 * US)
    watch.run_for(
        8 * S,
        pool_is_full=lambda: pool.used_buffers >= pool.size_buffers,
        source_waits=lambda: source.is_blocked,
    )
    assert watch.first["pool_is_full"] <= watch.first["source_waits"]
    assert watch.rate(watch.emitted, 4, 10) == pytest.approx(5000, rel=0.1)
    assert max(watch.used_buffers) <= pool.max_buffers + pool.max_overdraft_buffers
    set_delay(cluster, 0, 0)
    watch.run_for(S)
    assert watch.rate(watch.emitted, 10.2, 11) >= 0.95 * baseline
    finished(cluster)
    check_records(cluster)


@pytest.mark.row("S105")
def test_a_source_reads_what_it_is_offered_as_slowly_as_the_sink_takes_it() -> None:
    """Records come to the source from outside, 20 000 a second, as they would from a log."""
    cluster = cluster_of(chain(records=10 * OFFERED_PER_S), COSTS)
    run_until(cluster, START_NS)
    set_delay(cluster, 0, 200 * US)
    watch = Watch(cluster)
    watch.run_for(10 * S)
    assert watch.rate(watch.emitted, 4, 10) == pytest.approx(5000, rel=0.1)
    unread = [(number + 1) * OFFERED_PER_S // 100 - n for number, n in enumerate(watch.emitted)]
    # by the second, as far as that can be told of a source that writes some thousand at a time
    growth = [unread[second * 100] - unread[(second - 1) * 100] for second in range(4, 10)]
    assert growth == pytest.approx([OFFERED_PER_S - 5000] * 6, rel=0.25)
    assert sum(growth) == pytest.approx(6 * (OFFERED_PER_S - 5000), rel=0.05)
    slow = watch.used_buffers[400:]
    assert max(slow) - min(slow) <= 4
    finished(cluster)
    check_records(cluster)


@pytest.mark.row("S014")
def test_a_producer_ten_times_faster_for_a_minute_fills_its_pools_and_no_more() -> None:
    drawn = replace(
        scenario(
            10 * MS,
            rate_per_s=10_000.0,
            records=600_000,
            slow_consumers=(SlowConsumer(0, 1000 * US),),
        )
    )
    cluster = cluster_of(drawn, COSTS)
    run_until(cluster, START_NS)
    watch = Watch(cluster)
    watch.run_for(60 * S)
    full = watch.used_buffers[2000:]
    assert max(full) - min(full) <= 4
    most = sum(
        pool.max_buffers + pool.max_overdraft_buffers
        for task_manager in cluster.task_managers
        for pool in task_manager.memory.pools
    )
    exclusive = sum(
        channel.initial_credit for gate in cluster.gates for channel in gate.remote_channels
    )
    assert max(watch.used_buffers) <= most + exclusive
    assert watch.rate(watch.emitted, 30, 60) == pytest.approx(1000, rel=0.1)
    finished(cluster)
    assert cluster.sources[0].emitted_records == 600_000
    check_records(cluster)
    check_memory(cluster)


@pytest.mark.row("S039")
@pytest.mark.parametrize("rate_per_s", [0.0, 20_000.0])
def test_the_time_of_a_waiting_writer_is_back_pressure_until_its_consumer_goes_on(
    rate_per_s: float,
) -> None:
    cluster = cluster_of(scenario(10 * MS, records=60_000, rate_per_s=rate_per_s))
    run_until(cluster, START_NS)
    set_delay(cluster, 0, PAUSED_NS)
    run_until(cluster, START_NS + 1 * S)
    (source,) = cluster.sources
    soft, hard = source.times.soft_back_pressured, source.times.hard_back_pressured
    emitted = source.emitted_records
    waited_ns = soft.accumulated_until(cluster.now_ns) + hard.accumulated_until(cluster.now_ns)
    assert source.is_blocked
    steps = cluster.scheduler.now_ns
    run_until(cluster, START_NS + 11 * S)
    assert source.emitted_records == emitted  # it stands still, and the whole time is counted
    now_ns = START_NS + 11 * S
    grown_ns = soft.accumulated_until(now_ns) + hard.accumulated_until(now_ns) - waited_ns
    assert grown_ns == now_ns - steps
    source.times.update(now_ns=now_ns)
    metrics = source.times.metrics(now_ns=now_ns)
    assert back_pressure_level(metrics) == "HIGH"

    set_delay(cluster, 0, 0)
    woken_ns = now_ns
    while source.emitted_records == emitted and cluster.step():
        woken_ns = cluster.now_ns
    assert woken_ns - now_ns < 100 * MS
    finished(cluster)
    check_records(cluster)
    total_ns = soft.accumulated_until(cluster.now_ns) + hard.accumulated_until(cluster.now_ns)
    assert total_ns < waited_ns + grown_ns + 4 * S


@pytest.mark.row("S104")
def test_each_task_of_a_chain_says_what_holds_it_up() -> None:
    """X -> A -> B and B is slow: B is busy, A and X wait for their outputs, and both pools are
    full; the reading guide of Flink's documentation.
    """
    asked = scenario(
        10 * MS,
        rate_per_s=20_000.0,
        records=100_000,
        size_bytes=1000,
        relays=1,
        slow_consumers=(SlowConsumer(0, 200 * US),),
    )
    cluster = cluster_of(replace(asked, task_managers=3))
    run_until(cluster, START_NS)
    tasks = (*cluster.sources, *cluster.relays, *cluster.sinks)
    metrics = [TaskMetrics(each, now_ns=cluster.now_ns) for each in tasks]
    run_until(cluster, START_NS + 5 * S)
    for each in metrics:
        each.start_window(now_ns=cluster.now_ns)
    run_until(cluster, START_NS + 10 * S)
    found = {each.name: each.sample(now_ns=START_NS + 10 * S) for each in metrics}
    source, relay, sink = found["source 0"], found["relay 1.0"], found["sink 0"]
    assert sink["busyTimeMsPerSecond"] > 950
    assert relay["backPressuredTimeMsPerSecond"] > 900
    assert source["backPressuredTimeMsPerSecond"] > 900
    assert [back_pressure_level(each) for each in (source, relay, sink)] == ["HIGH", "HIGH", "OK"]
    assert min(each["outPoolUsage"] for each in (source, relay)) >= 0.9
    assert min(each["inPoolUsage"] for each in (relay, sink)) >= 0.8
    rates = [source["numRecordsOutPerSecond"], sink["numRecordsInPerSecond"]]
    assert rates == pytest.approx([5000, 5000], rel=0.1)


@pytest.mark.row("S105")
def test_a_source_that_waits_reads_less_and_its_backlog_outside_grows() -> None:
    cluster = cluster_of(
        scenario(
            10 * MS,
            rate_per_s=20_000.0,
            records=200_000,
            size_bytes=1000,
            slow_consumers=(SlowConsumer(0, 200 * US),),
        )
    )
    run_until(cluster, START_NS)
    (source,), memory = cluster.sources, cluster.task_managers[0].memory
    metrics = TaskMetrics(source, now_ns=cluster.now_ns)
    unread, used = [], []
    for second in range(2, 10):
        run_until(cluster, START_NS + second * S)
        found = metrics.sample(now_ns=START_NS + second * S)
        unread.append(20_000 * second - found["numRecordsOut"])
        used.append(memory_metrics(memory)["UsedMemorySegments"])
        metrics.start_window(now_ns=START_NS + second * S)
    growth = [later - sooner for sooner, later in pairwise(unread)]
    assert growth == pytest.approx([15_000] * 7, rel=0.1)
    assert found["numRecordsOutPerSecond"] == pytest.approx(5000, rel=0.1)
    assert max(used) - min(used) <= 1
