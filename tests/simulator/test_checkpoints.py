"""Checkpoints in virtual time: barriers through pressure, faults, relays and local channels."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import pytest

from flinknet.config import AT_LEAST_ONCE, Scenario, SlowConsumer
from flinknet.core.probe import TracePoint
from flinknet.job.checkpoint_coordinator import DeclineCheckpoint
from flinknet.job.load.plan import load_plan_of, placed_load_plan
from flinknet.results import CheckpointSummary
from flinknet.simulator.cluster import START_NS, Cluster
from tests.checkers import check_records, run_checked
from tests.driving import run_until
from tests.load_cluster import load_cluster
from tests.protocol_checker import ProtocolChecker
from tests.simulated_scenario import cluster_of, plan_sources
from tests.simulation import MS, US, Rows, disturbed_scenario, finished, scenario

MODES = {
    "aligned": {},
    "unaligned": {"unaligned_checkpoints": True},
    "timeout": {"unaligned_checkpoints": True, "aligned_checkpoint_timeout_ns": 2 * MS},
    "at-least-once": {"checkpoint_mode": AT_LEAST_ONCE},
}


def with_checkpoints(each: Scenario, mode: str, interval_ns: int = 10 * MS) -> Scenario:
    network = replace(each.network, checkpoint_interval_ns=interval_ns, **MODES[mode])  # type: ignore[arg-type]
    return replace(each, network=network)


def run(each: Scenario) -> tuple[Cluster, CheckpointSummary]:
    if each.flow_control == "tcp":  # the checker follows credit
        cluster = finished(cluster_of(each))
        check_records(cluster)
    else:
        checker = ProtocolChecker(each.seed)
        cluster = cluster_of(each, probes=(checker,) * each.task_managers)
        run_checked(cluster, checker)
    assert cluster.checkpoints is not None
    return cluster, cluster.checkpoints.coordinator.summary()


@cache
def behind_a_slow_consumer(
    mode: str, flow_control: str = "credit", placement: str = "split"
) -> CheckpointSummary:
    """2 x 2 at the highest rate; consumer 0 takes 20 us for each record."""
    loaded = scenario(
        records=30_000, producers=2, consumers=2, slow_consumers=(SlowConsumer(0, 20 * US),)
    )
    loaded = replace(loaded, flow_control=flow_control, placement=placement)
    _, summary = run(with_checkpoints(loaded, mode, 20 * MS))
    assert summary.completed >= 2
    assert summary.aborted == 0
    return summary


def test_aligned_barriers_wait_behind_the_data_of_a_slow_consumer() -> None:
    summary = behind_a_slow_consumer("aligned")
    assert summary.unaligned == 0
    assert summary.overtaken_bytes_max == 0
    assert summary.travel_ns.max is not None
    assert summary.travel_ns.max > 50 * MS


def test_unaligned_barriers_overtake_it() -> None:
    aligned, unaligned = map(behind_a_slow_consumer, ("aligned", "unaligned"))
    assert unaligned.unaligned == unaligned.completed
    assert unaligned.travel_ns.max is not None
    assert aligned.travel_ns.max is not None
    assert unaligned.travel_ns.max < 5 * MS < aligned.travel_ns.max / 10
    assert unaligned.overtaken_bytes_mean is not None
    assert unaligned.overtaken_bytes_mean > 10 * 32 * 1024


def test_unaligned_barriers_overtake_the_data_of_local_channels_too() -> None:
    aligned, unaligned = (
        behind_a_slow_consumer(mode, placement="spread") for mode in ("aligned", "unaligned")
    )
    assert unaligned.travel_ns.max is not None
    assert aligned.travel_ns.max is not None
    assert unaligned.travel_ns.max < 5 * MS < aligned.travel_ns.max / 10


def test_with_a_timeout_barriers_overtake_what_they_waited_behind_for_too_long() -> None:
    aligned, timed = map(behind_a_slow_consumer, ("aligned", "timeout"))
    assert timed.unaligned > 0
    assert timed.travel_ns.max is not None
    assert aligned.travel_ns.max is not None
    assert 2 * MS <= timed.travel_ns.max < aligned.travel_ns.max / 5


def test_without_pressure_nothing_times_out() -> None:
    calm = scenario(rate_per_s=20_000.0, timeout_ns=MS, records=2000, producers=2, consumers=2)
    for mode in MODES:
        _, summary = run(with_checkpoints(calm, mode))
        assert summary.completed >= 8
        assert summary.unaligned == (summary.completed if mode == "unaligned" else 0)


def test_a_run_ends_with_its_last_message_and_not_with_the_timeout_of_a_checkpoint() -> None:
    calm = scenario(rate_per_s=20_000.0, timeout_ns=MS, records=2000)
    for mode in MODES:
        cluster, summary = run(with_checkpoints(calm, mode))
        assert summary.completed >= 8
        assert cluster.now_ns < START_NS + 120 * MS


@pytest.mark.row("S111")
def test_with_credit_a_barrier_travels_faster_than_without() -> None:
    credit, tcp = (behind_a_slow_consumer("aligned", flow) for flow in ("credit", "tcp"))
    assert credit.travel_ns.mean is not None
    assert tcp.travel_ns.mean is not None
    assert credit.travel_ns.mean < tcp.travel_ns.mean


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("placement", ["split", "spread"])
def test_barriers_go_through_relays_and_local_channels(mode: str, placement: str) -> None:
    chain = scenario(
        records=1200,
        rate_per_s=30_000.0,
        timeout_ns=MS,
        producers=2,
        consumers=2,
        relays=1,
        relay_delay_ns_per_record=(10 * US,),
    )
    chain = replace(chain, placement=placement, task_managers=3 if placement == "split" else 2)
    _, summary = run(with_checkpoints(chain, mode, 5 * MS))
    assert summary.completed >= 5
    assert summary.aborted == 0


@pytest.mark.parametrize("mode", ["unaligned", "timeout"])
def test_a_relay_that_cannot_write_reads_barriers_all_the_same(mode: str) -> None:
    """Its records wait for the slow consumer behind it; what overtakes them does not."""
    loaded = scenario(
        records=15_000,
        producers=2,
        consumers=2,
        relays=1,
        slow_consumers=(SlowConsumer(0, 100 * US), SlowConsumer(1, 100 * US)),
    )
    loaded = with_checkpoints(loaded, mode, 100 * MS)
    load = placed_load_plan(loaded, ("rebalance", "rebalance"), ((0, 0), (1, 1), (2, 2)))
    checker = ProtocolChecker(loaded.seed)
    plans = plan_sources(load, start_ns=START_NS)
    cluster = load_cluster(load, plans, probes=(checker,) * 3)
    run_checked(cluster, checker)
    assert cluster.checkpoints is not None
    summary = cluster.checkpoints.coordinator.summary()
    assert summary.unaligned == summary.completed >= 5
    assert summary.travel_ns.max is not None
    assert summary.travel_ns.max < 5 * MS  # a buffer takes a consumer 31 ms


@pytest.mark.parametrize("mode", MODES)
def test_a_checkpoint_that_one_task_declines_is_begun_by_no_other(mode: str) -> None:
    """The relays are told before its barriers come to them; what they forward cancels it."""
    chain = scenario(records=3000, rate_per_s=30_000.0, producers=2, consumers=2, relays=1)
    chain = with_checkpoints(replace(chain, task_managers=3), mode)
    rows = Rows()
    checker = ProtocolChecker(chain.seed, rows)
    cluster = cluster_of(chain, probes=(checker,) * 3)
    assert cluster.checkpoints is not None
    run_until(cluster, START_NS + 10 * MS)  # the first barriers are written
    cluster.checkpoints.receive(DeclineCheckpoint("sink 1", 1, "has no room for it"))
    run_checked(cluster, checker)
    edges = [each.edge for each in load_plan_of(chain).channels]
    read = {
        (edges[row.channel], row.value)
        for row in rows.rows
        if row.point == TracePoint.CONSUMED and row.value > 0
    }
    assert {(0, 1), (0, 2), (1, 2)} <= read
    assert (1, 1) not in read
    assert not any(each.is_blocked for part in cluster.partitions for each in part.subpartitions)
    assert cluster.checkpoints.coordinator.summary().aborted == 1


@pytest.mark.parametrize("partitioner", ["forward", "broadcast"])
def test_edges_that_data_may_not_be_overtaken_on_stay_aligned(partitioner: str) -> None:
    each = scenario(records=5000, producers=2, consumers=2, partitioner=partitioner)
    _, summary = run(with_checkpoints(each, "unaligned", 100 * US))
    assert summary.completed > 0
    assert summary.unaligned == 0
    assert summary.overtaken_bytes_max == 0


def test_a_checkpoint_that_takes_too_long_is_aborted_and_the_run_goes_on() -> None:
    stuck = scenario(
        records=15_000, producers=2, consumers=2, slow_consumers=(SlowConsumer(0, 20 * US),)
    )
    stuck = with_checkpoints(stuck, "aligned", 20 * MS)
    stuck = replace(stuck, network=replace(stuck.network, checkpoint_timeout_ns=30 * MS))
    _, summary = run(stuck)
    assert summary.aborted > 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(40))
def test_disturbed_runs_with_checkpoints_lose_nothing(mode: str, seed: int) -> None:
    drawn, faults = disturbed_scenario(seed)
    interval_ns = random.Random(seed).choice([MS // 2, 3 * MS])
    drawn = with_checkpoints(drawn, mode, interval_ns)
    checker = ProtocolChecker(seed)
    cluster = cluster_of(drawn, probes=(checker,) * drawn.task_managers, faults=faults)
    run_checked(cluster, checker)
    if cluster.error is None:
        assert not any(
            each.is_blocked for part in cluster.partitions for each in part.subpartitions
        )
