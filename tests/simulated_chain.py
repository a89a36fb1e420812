"""A source, relays and a sink run in virtual time on the real core, and what a tap sees of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flinknet.config import NetworkConfig, RecordSize, Scenario, WorkloadConfig
from flinknet.histogram import LogLinearHistogram
from flinknet.job.load.plan import LoadPlan, load_plan_of
from flinknet.options import effective_flink_keys
from flinknet.results import CheckpointSummary
from flinknet.simulator.cluster import START_NS
from flinknet.simulator.cost_model import CostModel
from flinknet.trace import ProcessInfo, TraceWriter, open_run
from flinknet.trace.job_names import Edge
from flinknet.trace.metrics import METRICS_NAME
from tests.load_cluster import load_cluster
from tests.recorded_run import channel_info, manifest_of, rows_of
from tests.simulated_scenario import plan_sources
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
    checkpoints: CheckpointSummary | None

    def messages(self, edge: int) -> int:
        own = {each.index for each in self.load.channels if each.edge == edge}
        return sum(row.channel in own for row in self.rows.buffers())


def simulated(scenario: Scenario) -> Simulated:
    load, rows = load_plan_of(scenario), Rows()
    plans = [
        replace(each, end_ns=each.end_ns + max(scenario.network.buffer_timeout_ns, 0))
        for each in plan_sources(load, start_ns=START_NS)
    ]
    cluster = load_cluster(load, plans, COSTS, probes=(rows,) * load.task_managers)
    cluster.run_until_idle()
    assert cluster.error is None
    latency, records = LogLinearHistogram(), 0
    for task in cluster.sinks:
        for sink in task.receivers:
            sink.settle()
            latency.merge(sink.latency)
            records += sink.records
    checkpoints = None if cluster.checkpoints is None else cluster.checkpoints.coordinator.summary()
    return Simulated(load, rows, latency, records, checkpoints)


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


def edge(source: int, target: int) -> Edge:
    """An edge between two vertices."""
    return Edge(target, source, source, target, f"stage-{source}", f"stage-{target}")


def write_tapped_chain(
    directory: Path,
    run: Simulated,
    vertices: tuple[str, ...] = (SOURCE, SECOND, THIRD),
    unseen: frozenset[int] = frozenset(),
) -> Path:
    """What a tap between all stages records.

    Args:
        unseen: channels that it does not see, for they are within a TaskManager.
    """
    directory.mkdir(parents=True)
    process = ProcessInfo("tap", "tap-0001.fnt", 1)
    with TraceWriter(directory / process.file, process) as writer:
        seen = [row for row in run.rows.rows if row.channel not in unseen]
        writer.write_events(rows_of([each for row in seen for each in in_passing(row)]))
    sent_ns = [row.at_ns for row in run.rows.buffers()]
    manifest_of(
        (process,),
        (
            channel_info(
                each.index,
                each.producer,
                each.subpartition,
                f"stage {each.edge + 1}",
                upstream=f"stage {each.edge}",
                partition=partition_of(TappedChannel(vertices[each.edge], each.producer)),
                edge=each.edge,
            )
            for each in run.load.channels
            if each.index not in unseen
        ),
        min(sent_ns),
        max(sent_ns) + 1,
        flink_keys=dict(effective_flink_keys(run.load.scenario.network)),
        origin="tap",
    ).save(directory)
    return directory


def add_plan_and_counters(
    directory: Path, run: Simulated, places: Sequence[Sequence[str]], partitioners: Sequence[str]
) -> None:
    """What Flink says of the job that a tap recorded: its plan, and counters of tasks.

    Args:
        places: TaskManager of each subtask of each vertex.
        partitioners: of each edge.
    """
    edges = range(len(partitioners))
    names = [f"stage-{n}" for n in range(len(places))]
    tasks = [
        [f"{name} ({at + 1}/{len(own)})" for at in range(len(own))]
        for name, own in zip(names, places, strict=True)
    ]
    channels = [[each for each in run.load.channels if each.edge == edge] for edge in edges]
    local = {
        each.index
        for edge in edges
        for each in channels[edge]
        if places[edge][each.producer] == places[edge + 1][each.consumer]
    }
    job = {
        "vertices": [
            {
                "index": n,
                "job": "job",
                "id": f"v{n}",
                "name": name,
                "parallelism": len(places[n]),
                "tasks": tasks[n],
                "task_managers": list(places[n]),
            }
            for n, name in enumerate(names)
        ],
        "edges": [
            {
                "index": edge,
                "source": edge,
                "target": edge + 1,
                "partitioner": partitioners[edge],
                "channels": len(channels[edge]),
                "local_channels": sum(each.index in local for each in channels[edge]),
            }
            for edge in edges
        ],
    }
    manifest = open_run(directory).manifest
    assert manifest is not None
    consumer_of = {each.index: each.consumer for each in run.load.channels}
    replace(
        manifest,
        scenario={**manifest.scenario, "job": job},
        channels=tuple(
            replace(each, consumer=consumer_of[each.index]) for each in manifest.channels
        ),
    ).save(directory)
    buffers = run.rows.buffers()
    first_ns, last_ns = (each(row.at_ns for row in buffers) for each in (min, max))
    with (directory / METRICS_NAME).open("w", encoding="utf-8") as file:
        for at_ns in range(first_ns, last_ns, (last_ns - first_ns) // 20):
            records, sizes = Counter[int](), Counter[int]()
            for row in buffers:
                if row.at_ns <= at_ns:
                    records[row.channel] += max(row.records, 0)
                    sizes[row.channel] += row.payload_bytes
            for vertex, own in enumerate(tasks):
                for at, task in enumerate(own):
                    into = channels[vertex - 1] if vertex else []
                    out = channels[vertex] if vertex < len(channels) else []
                    taken = [each.index for each in into if each.consumer == at]
                    sent = [each.index for each in out if each.producer == at]
                    line = {
                        "at_ns": at_ns,
                        "task": task,
                        "task_manager": places[vertex][at],
                        "job": "job",
                        "vertex": f"v{vertex}",
                        "accumulateBusyTimeMs": 0,
                        "numRecordsIn": sum(records[each] for each in taken),
                        "numRecordsOut": sum(records[each] for each in sent),
                        "numBytesInLocal": sum(sizes[each] for each in taken if each in local),
                        "numBytesInRemote": sum(sizes[each] for each in taken if each not in local),
                        "numBuffersInLocal": 1,
                    }
                    file.write(json.dumps(line) + "\n")
