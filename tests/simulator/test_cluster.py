"""Cluster: same inputs, same bytes; short cuts that change nothing; stages; an end that is one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flinknet.config import NetworkConfig, RecordSize, Scenario, SlowConsumer, WorkloadConfig
from flinknet.errors import ConfigError, StalledError
from flinknet.job.load.plan import load_plan_of
from flinknet.simulator.cluster import START_NS, Cluster
from flinknet.simulator.source_plan import SourcePlan, beat_phase_ns
from flinknet.trace.manifest import ProcessInfo
from flinknet.trace.reader import TraceReader
from flinknet.trace.recorder import TraceRecorder
from flinknet.trace.writer import TraceWriter
from tests.faults import FaultPlan, Interval
from tests.load_cluster import load_cluster, stages_of
from tests.simulated_scenario import cluster_of, plan_sources
from tests.simulation import (
    FREE,
    MS,
    NEVER,
    Row,
    Rows,
    S,
    finished,
    latency_of,
    received_records,
    scenario,
)

EXCHANGE = {"producers": 2, "consumers": 3, "arrivals": "poisson"}


def trace_of(directory: Path, seed: int, faults: FaultPlan) -> list[bytes]:
    """The trace files of a run, one for each TaskManager."""
    directory.mkdir()
    files = [directory / f"tm-{index}.fnt" for index in (0, 1)]
    recorders = [
        TraceRecorder(TraceWriter(file, ProcessInfo(file.stem, file.name, 1))) for file in files
    ]
    drawn = scenario(MS, rate_per_s=20_000.0, records=2000, seed=seed, **EXCHANGE)  # type: ignore[arg-type]
    finished(cluster_of(drawn, probes=recorders, faults=faults))
    for recorder in recorders:
        recorder.close()
    return [file.read_bytes() for file in files]


@pytest.mark.parametrize(
    "faults",
    [
        FaultPlan(),
        FaultPlan(
            seed=3,
            piece_bytes_max=100,
            delay_ns_max=MS,
            stalls=(Interval(0, MS, 5 * MS),),
            exhaustions=(Interval(0, 0, 20 * MS),),
        ),
    ],
    ids=["calm", "disturbed"],
)
def test_the_same_seed_gives_the_same_trace_byte_for_byte(
    tmp_path: Path, faults: FaultPlan
) -> None:
    first = trace_of(tmp_path / "first", 7, faults)
    assert first == trace_of(tmp_path / "second", 7, faults)
    assert first != trace_of(tmp_path / "third", 8, faults)


def test_a_simulated_trace_reads_like_a_recorded_one(tmp_path: Path) -> None:
    trace_of(tmp_path / "run", 1, FaultPlan())
    with TraceReader(tmp_path / "run" / "tm-1.fnt") as reader:
        blocks = list(reader.events(("point", "records")))
    consumed = sum(int(block["records"][block["point"] == 2].sum()) for block in blocks)
    assert consumed == 4000


class LookedAtOneByOne(SourcePlan):
    """A plan that stops for every record."""

    def segment_instants(self, size: RecordSize, segment_bytes: int) -> list[int] | None:
        return None


@pytest.mark.parametrize("timeout_ns", [MS, 7 * MS, NEVER])
@pytest.mark.parametrize("partitioner", ["rebalance", "hash", "broadcast"])
@pytest.mark.parametrize("size_bytes", [8, 100, 1019])
def test_stopping_for_every_record_shows_the_same_events(
    timeout_ns: int, partitioner: str, size_bytes: int
) -> None:
    """1019 bytes make records of 1024, which fill segments to the byte."""
    drawn = scenario(
        timeout_ns,
        rate_per_s=50_000.0,
        records=1500,
        size_bytes=size_bytes,
        partitioner=partitioner,
        network=NetworkConfig(segment_size_bytes=4096),
        **EXCHANGE,  # type: ignore[arg-type]
    )

    def events(*, is_one_by_one: bool) -> list[Row]:
        load, rows = load_plan_of(drawn), Rows()
        plans = plan_sources(load, start_ns=START_NS)
        if is_one_by_one:
            plans = [
                LookedAtOneByOne(
                    plan.subpartitions, plan.instants_ns, plan.records, plan.end_ns, plan.only
                )
                for plan in plans
            ]
        finished(load_cluster(load, plans, FREE, probes=(rows, rows)))
        return rows.rows

    assert events(is_one_by_one=False) == events(is_one_by_one=True)


@pytest.mark.parametrize("partitioner", ["rebalance", "hash", "broadcast", "forward"])
def test_every_partitioner_brings_every_record_to_its_channel(partitioner: str) -> None:
    drawn = scenario(
        MS, rate_per_s=50_000.0, records=1000, producers=3, consumers=3, partitioner=partitioner
    )
    cluster = finished(cluster_of(drawn))
    received = [received_records(cluster, consumer) for consumer in range(3)]
    if partitioner == "broadcast":
        assert received == [3000] * 3
    elif partitioner == "hash":
        assert sum(received) == 3000
        assert max(received) < 2 * min(received)
    else:
        assert received == [1000] * 3


def test_records_longer_than_segments_arrive() -> None:
    drawn = scenario(
        MS,
        rate_per_s=1000.0,
        records=50,
        size_bytes=10_000,
        network=NetworkConfig(segment_size_bytes=4096),
    )
    assert received_records(finished(cluster_of(drawn)), 0) == 50


def test_records_that_come_while_others_are_being_emitted_are_not_forgotten() -> None:
    """Emitting a record takes longer than the next one, and with it the end, is away."""
    costs = replace(FREE, emit_ns_per_record=1e6)
    drawn = scenario(NEVER, rate_per_s=10_000.0, records=500)
    cluster = finished(cluster_of(drawn, costs))
    assert received_records(cluster, 0) == 500
    assert (latency_of(cluster).max or 0) > 300 * MS


def test_flushers_start_at_phases_of_their_own() -> None:
    phases = [beat_phase_ns(seed, producer, 100 * MS) for seed in range(20) for producer in (0, 1)]
    assert len(set(phases)) == len(phases)
    assert min(phases) >= 0
    assert max(phases) < 100 * MS
    assert sum(phases) / len(phases) == pytest.approx(50 * MS, rel=0.3)


def test_a_run_that_cannot_come_to_its_end_stalls() -> None:
    paused = scenario(NEVER, rate_per_s=1000.0, records=10, slow_consumers=(SlowConsumer(0, -1),))
    with pytest.raises(StalledError, match=r"records are left \(seed 1\)"):
        cluster_of(paused).run_until_idle()


def test_a_livelock_fails_instead_of_running_for_ever() -> None:
    paused = scenario(MS, rate_per_s=1000.0, records=10, slow_consumers=(SlowConsumer(0, -1),))
    with pytest.raises(StalledError, match="after 1000 steps"):
        cluster_of(paused).run_until_idle(limit=1000)


def test_a_scenario_must_say_how_many_records_there_are() -> None:
    with pytest.raises(ConfigError, match="number of records"):
        cluster_of(Scenario())


def test_a_duration_and_a_rate_make_a_number_of_records() -> None:
    drawn = scenario(MS, rate_per_s=1000.0, records=None, duration_ns=2 * S)  # type: ignore[arg-type]
    assert received_records(finished(cluster_of(drawn)), 0) == 2000


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


def whole(cluster: Cluster) -> Cluster:
    """The cluster at its end, with every record where it belongs."""
    cluster.run_until_idle()
    assert cluster.error is None
    assert sum(sink.records for task in cluster.sinks for sink in task.receivers) == sum(
        source.emitted_records for source in cluster.sources
    )
    return cluster


def test_all_at_once_deploys_every_stage_before_the_first_record() -> None:
    cluster = whole(cluster_of(scenario_of("pipelined", "all-at-once", relays=1)))
    stages = stages_of(cluster)
    assert stages is not None
    deployed = stages.deployed_ns
    assert sorted(deployed) == [0, 1, 2]
    assert len(set(deployed.values())) == 1
    assert deployed[2] < START_NS < stages.first_record_ns[0]


def test_on_first_output_each_stage_is_deployed_with_the_first_record_of_the_one_before() -> None:
    scenario = scenario_of("pipelined-bounded", "first-output", relays=1)
    stages = stages_of(whole(cluster_of(scenario)))
    assert stages is not None
    assert stages.deployed_ns[1] == stages.first_record_ns[0]
    assert stages.deployed_ns[2] == stages.first_record_ns[1]
    assert START_NS <= stages.deployed_ns[1] < START_NS + 2 * MS
    assert stages.deployed_ns[1] < stages.deployed_ns[2] < stages.finished_ns[0]


def test_on_complete_output_each_stage_is_deployed_when_the_one_before_has_ended() -> None:
    scenario = scenario_of("blocking", "complete-output", relays=1)
    stages = stages_of(whole(cluster_of(scenario)))
    assert stages is not None
    assert stages.deployed_ns[1] == stages.finished_ns[0]
    assert stages.deployed_ns[2] == stages.finished_ns[1]
    assert stages.finished_ns[0] >= START_NS + 199 * MS
    assert stages.first_record_ns[0] < START_NS + 2 * MS
    assert stages.first_record_ns[1] >= stages.deployed_ns[1]


def test_a_blocking_exchange_waits_for_its_end_without_being_asked() -> None:
    stages = stages_of(whole(cluster_of(scenario_of("blocking", None))))
    assert stages is not None
    assert stages.deployed_ns[1] == stages.finished_ns[0]


@pytest.mark.row("S017")
@pytest.mark.parametrize(
    "partition_type", ["pipelined", "pipelined-bounded", "pipelined-approximate"]
)
def test_a_pipelined_exchange_is_deployed_at_once_without_being_asked(partition_type: str) -> None:
    assert stages_of(whole(cluster_of(scenario_of(partition_type, None)))) is None


def test_the_first_output_of_one_producer_is_enough() -> None:
    load = load_plan_of(scenario_of("pipelined-bounded", "first-output", producers=2))
    plans = [
        SourcePlan(None, begin_ns + np.arange(10) * MS, 10, begin_ns + 9 * MS)
        for begin_ns in (START_NS, START_NS + 50 * MS)
    ]
    stages = stages_of(whole(load_cluster(load, plans)))
    assert stages is not None
    assert START_NS <= stages.deployed_ns[1] < START_NS + 20 * MS
