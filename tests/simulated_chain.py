"""A source, relays and a sink run in virtual time on the real core, and what a tap sees of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from flinknet.config import NetworkConfig, RecordSize, Scenario, WorkloadConfig
from flinknet.histogram import LogLinearHistogram
from flinknet.job.load.plan import LoadPlan, load_plan_of
from flinknet.options import effective_flink_keys
from flinknet.simulator.cluster import START_NS, Cluster
from flinknet.simulator.cost_model import CostModel
from flinknet.simulator.source_plan import plan_sources
from flinknet.trace import ChannelInfo, ClockInfo, ProcessInfo, RunManifest, TraceWriter
from tests.recorded_run import rows_of
from tests.simulation import Rows
from tests.tapped_job import SECOND, SOURCE, THIRD, TappedChannel, partition_of
from tests.tapped_run import in_passing

COSTS = CostModel(12_000.0, 0.15, 50_000.0, 9_000.0, 100.0, ())


@dataclass(frozen=True)
class Simulated:
    """A job as the simulator ran it."""

    load: LoadPlan
    rows: Rows
    latency: LogLinearHistogram
    records: int

    def messages(self, edge: int) -> int:
        own = {each.index for each in self.load.channels if each.edge == edge}
        return sum(row.channel in own for row in self.rows.buffers())


def simulated(scenario: Scenario) -> Simulated:
    load, rows = load_plan_of(scenario), Rows()
    plans = [
        replace(each, end_ns=each.end_ns + max(scenario.network.buffer_timeout_ns, 0))
        for each in plan_sources(load, start_ns=START_NS)
    ]
    cluster = Cluster.of_load(load, plans, COSTS, probes=(rows,) * load.task_managers)
    cluster.run_until_idle()
    assert cluster.error is None
    latency, records = LogLinearHistogram(), 0
    for task in cluster.sinks:
        for sink in task.receivers:
            sink.settle()
            latency.merge(sink.latency)
            records += sink.records
    return Simulated(load, rows, latency, records)


def steady(relays: int = 1, size_bytes: int = 100) -> Scenario:
    """One task in each stage, records at even distances."""
    return Scenario(
        network=NetworkConfig(buffer_timeout_ns=0),
        workload=WorkloadConfig(
            relays=relays,
            rate_per_s=2_000.0,
            records=300,
            record_size=RecordSize(size_bytes, size_bytes),
        ),
        task_managers=relays + 2,
    )


def write_tapped_chain(
    directory: Path, run: Simulated, vertices: tuple[str, ...] = (SOURCE, SECOND, THIRD)
) -> Path:
    """What a tap between all stages records."""
    directory.mkdir(parents=True)
    process = ProcessInfo("tap", "tap-0001.fnt", 1)
    with TraceWriter(directory / process.file, process) as writer:
        writer.write_events(rows_of([each for row in run.rows.rows for each in in_passing(row)]))
    sent_ns = [row.at_ns for row in run.rows.buffers()]
    RunManifest(
        scenario={},
        flink_keys=dict(effective_flink_keys(run.load.scenario.network)),
        host={},
        versions={},
        seed=0,
        clock=ClockInfo(),
        started_at="2030-01-01T00:00:00+00:00",
        measured_from_ns=min(sent_ns),
        measured_to_ns=max(sent_ns) + 1,
        processes=(process,),
        channels=tuple(
            ChannelInfo(
                index=each.index,
                receiver_id=f"{each.index:032x}",
                producer=each.producer,
                consumer=each.subpartition,
                producer_process=f"stage {each.edge}",
                consumer_process=f"stage {each.edge + 1}",
                connection=f"stage {each.edge}->stage {each.edge + 1}",
                subpartition=each.subpartition,
                partition=partition_of(TappedChannel(vertices[each.edge], each.producer)),
                is_local=False,
                edge=each.edge,
            )
            for each in run.load.channels
        ),
        origin="tap",
    ).save(directory)
    return directory
