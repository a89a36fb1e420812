"""Jobs whose stages are deployed together or one after the other, in virtual time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flinknet.config import NetworkConfig, Scenario, WorkloadConfig
from flinknet.job.load.plan import load_plan_of
from flinknet.simulator.cluster import START_NS, Cluster
from flinknet.simulator.source_plan import SourcePlan

MS = 1_000_000
RECORDS = 200


def scenario_of(partition_type: str, scheduling: str | None, **workload: object) -> Scenario:
    """200 records in 200 ms, from the second millisecond on."""
    return Scenario(
        network=NetworkConfig(segment_size_bytes=4096, buffer_timeout_ns=-1),
        workload=replace(
            WorkloadConfig(
                rate_per_s=1000.0,
                records=RECORDS,
                warmup_ns=0,
                partition_type=partition_type,
                scheduling=scheduling,
            ),
            **workload,  # type: ignore[arg-type]
        ),
        task_managers=5,
    )


def finished(cluster: Cluster) -> Cluster:
    """The cluster at its end, with every record where it belongs."""
    cluster.run_until_idle()
    assert cluster.error is None
    assert sum(sink.records for task in cluster.sinks for sink in task.receivers) == sum(
        source.emitted_records for source in cluster.sources
    )
    return cluster


@pytest.mark.row("S018")
@pytest.mark.row("S019")
def test_all_at_once_deploys_every_stage_before_the_first_record() -> None:
    cluster = finished(Cluster.of_scenario(scenario_of("pipelined", "all-at-once", relays=1)))
    assert cluster.stages is not None
    deployed = cluster.stages.deployed_ns
    assert sorted(deployed) == [0, 1, 2]
    assert len(set(deployed.values())) == 1
    assert deployed[2] < START_NS < cluster.stages.first_record_ns[0]


@pytest.mark.row("S018")
@pytest.mark.row("S019")
def test_on_first_output_each_stage_is_deployed_with_the_first_record_of_the_one_before() -> None:
    scenario = scenario_of("pipelined-bounded", "first-output", relays=1)
    stages = finished(Cluster.of_scenario(scenario)).stages
    assert stages is not None
    assert stages.deployed_ns[1] == stages.first_record_ns[0]
    assert stages.deployed_ns[2] == stages.first_record_ns[1]
    assert START_NS <= stages.deployed_ns[1] < START_NS + 2 * MS
    assert stages.deployed_ns[1] < stages.deployed_ns[2] < stages.finished_ns[0]


@pytest.mark.row("S018")
@pytest.mark.row("S019")
def test_on_complete_output_each_stage_is_deployed_when_the_one_before_has_ended() -> None:
    scenario = scenario_of("blocking", "complete-output", relays=1)
    stages = finished(Cluster.of_scenario(scenario)).stages
    assert stages is not None
    assert stages.deployed_ns[1] == stages.finished_ns[0]
    assert stages.deployed_ns[2] == stages.finished_ns[1]
    assert stages.finished_ns[0] >= START_NS + 199 * MS
    assert stages.first_record_ns[0] < START_NS + 2 * MS
    assert stages.first_record_ns[1] >= stages.deployed_ns[1]


def test_a_blocking_exchange_waits_for_its_end_without_being_asked() -> None:
    stages = finished(Cluster.of_scenario(scenario_of("blocking", None))).stages
    assert stages is not None
    assert stages.deployed_ns[1] == stages.finished_ns[0]


@pytest.mark.row("S017")
@pytest.mark.parametrize(
    "partition_type", ["pipelined", "pipelined-bounded", "pipelined-approximate"]
)
def test_a_pipelined_exchange_is_deployed_at_once_without_being_asked(partition_type: str) -> None:
    assert finished(Cluster.of_scenario(scenario_of(partition_type, None))).stages is None


def test_the_first_output_of_one_producer_is_enough() -> None:
    load = load_plan_of(scenario_of("pipelined-bounded", "first-output", producers=2))
    plans = [
        SourcePlan(None, begin_ns + np.arange(10) * MS, 10, begin_ns + 9 * MS)
        for begin_ns in (START_NS, START_NS + 50 * MS)
    ]
    stages = finished(Cluster.of_load(load, plans)).stages
    assert stages is not None
    assert START_NS <= stages.deployed_ns[1] < START_NS + 20 * MS
