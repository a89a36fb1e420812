"""A writer without buffers waits, its back-pressured time grows, and it goes on when there are
some again; in virtual time.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from flinknet.config import SlowConsumer
from flinknet.job.load.run_input import PAUSED_NS
from flinknet.job.task_metrics import TaskMetrics, back_pressure_level, memory_metrics
from flinknet.simulator.cluster import START_NS, Cluster
from tests.checkers import check_records
from tests.simulation import MS, US, S, finished, scenario


@pytest.mark.row("S039")
@pytest.mark.parametrize("rate_per_s", [0.0, 20_000.0])
def test_the_time_of_a_waiting_writer_is_back_pressure_until_its_consumer_goes_on(
    rate_per_s: float,
) -> None:
    cluster = Cluster.of_scenario(scenario(10 * MS, records=60_000, rate_per_s=rate_per_s))
    cluster.run_until(START_NS)
    cluster.set_delay(0, PAUSED_NS)
    cluster.run_until(START_NS + 1 * S)
    (source,) = cluster.sources
    soft, hard = source.times.soft_back_pressured, source.times.hard_back_pressured
    emitted = source.emitted_records
    waited_ns = soft.accumulated_until(cluster.now_ns) + hard.accumulated_until(cluster.now_ns)
    assert source.is_blocked
    steps = cluster.scheduler.now_ns
    cluster.run_until(START_NS + 11 * S)
    assert source.emitted_records == emitted  # it stands still, and the whole time is counted
    now_ns = START_NS + 11 * S
    grown_ns = soft.accumulated_until(now_ns) + hard.accumulated_until(now_ns) - waited_ns
    assert grown_ns == now_ns - steps
    source.times.update(now_ns=now_ns)
    metrics = source.times.metrics(now_ns=now_ns)
    assert back_pressure_level(metrics) == "HIGH"

    cluster.set_delay(0, 0)
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
    cluster = Cluster.of_scenario(replace(asked, task_managers=3))
    cluster.run_until(START_NS)
    tasks = (*cluster.sources, *cluster.relays, *cluster.sinks)
    metrics = [TaskMetrics(each, now_ns=cluster.now_ns) for each in tasks]
    cluster.run_until(START_NS + 5 * S)
    for each in metrics:
        each.start_window(now_ns=cluster.now_ns)
    cluster.run_until(START_NS + 10 * S)
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
    cluster = Cluster.of_scenario(
        scenario(
            10 * MS,
            rate_per_s=20_000.0,
            records=200_000,
            size_bytes=1000,
            slow_consumers=(SlowConsumer(0, 200 * US),),
        )
    )
    cluster.run_until(START_NS)
    (source,), memory = cluster.sources, cluster.task_managers[0].memory
    metrics = TaskMetrics(source, now_ns=cluster.now_ns)
    unread, used = [], []
    for second in range(2, 10):
        cluster.run_until(START_NS + second * S)
        found = metrics.sample(now_ns=START_NS + second * S)
        unread.append(20_000 * second - found["numRecordsOut"])
        used.append(memory_metrics(memory)["UsedMemorySegments"])
        metrics.start_window(now_ns=START_NS + second * S)
    growth = [later - sooner for sooner, later in pairwise(unread)]
    assert growth == pytest.approx([15_000] * 7, rel=0.1)
    assert found["numRecordsOutPerSecond"] == pytest.approx(5000, rel=0.1)
    assert max(used) - min(used) <= 1
