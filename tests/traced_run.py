"""Jobs and loads in virtual time that leave a run directory, as the runtime's do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from flinknet.config import Scenario
from flinknet.graph import StreamGraph, execution_graph_of, job_graph_of
from flinknet.histogram import LogLinearHistogram
from flinknet.job.load.load_tasks import run_input_of
from flinknet.job.load.plan import LoadPlan, load_plan_of, task_name
from flinknet.results import Bottleneck, ProcessorUse
from flinknet.results.ledger import Ledger
from flinknet.results.verdict import verdict
from flinknet.runtime.cluster.collected import channel_infos, manifest_of
from flinknet.runtime.cluster.control_messages import SubmitJob
from flinknet.runtime.cluster.job_files import save_manifest
from flinknet.runtime.cluster.job_master import JobMaster
from flinknet.runtime.cluster.job_measurements import Measurements
from flinknet.runtime.cluster.measured_ledger import ledger_of_load, verdict_on_job
from flinknet.runtime.cluster.placement import SharedCluster
from flinknet.runtime.cluster.reports import (
    ProducerChannelReport,
    Report,
    Statistics,
    TaskCounts,
)
from flinknet.simulator.cluster import START_NS, Cluster
from flinknet.simulator.cost_model import TYPICAL_COSTS, CostModel
from flinknet.trace import ProcessInfo, RunManifest, TraceRecorder, TraceWriter
from tests.driving import run_on
from tests.job_cluster import job_cluster
from tests.load_cluster import load_cluster
from tests.made_results import measured
from tests.simulated_job import COSTS
from tests.simulated_scenario import plan_sources


def trace_job(
    directory: Path,
    graph: StreamGraph,
    *,
    task_managers: int = 2,
    slots: int = 1,
    submission: SubmitJob | None = None,
    costs: CostModel = COSTS,
    for_ns: int | None = None,
    look: Callable[[Cluster], object] = lambda _: None,
    judge: Callable[[Bottleneck | None], object] = lambda _: None,
    **options: Any,
) -> Path:
    """The run directory of a job.

    Args:
        for_ns: the measured part; None until the end.
        look: takes the cluster at the end.
        judge: takes the verdict by the times of the tasks, as `job run` has it.
        options: of job_cluster.
    """
    directory.mkdir(parents=True, exist_ok=True)
    execution_graph = execution_graph_of(job_graph_of(graph))
    master = JobMaster(execution_graph, task_managers, SharedCluster(slots), now_ns=0)
    for index in range(task_managers):
        master.register(index, now_ns=0)
    (deployment,) = master.deployments
    measurements = Measurements(started_at="now", deployed_ns=START_NS, measured_from_ns=START_NS)
    measurements.deploy(deployment.plan, deployment.tasks)
    processes, recorders = _recorders(directory, task_managers)
    cluster = job_cluster(deployment.plan, execution_graph.job, costs, probes=recorders, **options)
    run_on(cluster, until_ns=for_ns)
    look(cluster)
    counts = [
        TaskCounts(each.attempt_id, each.name, _metrics_of(cluster, each.key))
        for each in deployment.tasks
    ]
    measurements.add(0, Statistics(START_NS, tuple(counts)))
    vertices = measurements.vertices()
    judge(verdict_on_job(vertices, measurements.edges()))
    for recorder in recorders:
        recorder.close()
    submission = submission or SubmitJob("", "", (), {}, True, None, 0, 1)
    measurements.ended_ns = cluster.now_ns if for_ns is None else START_NS + for_ns
    save_manifest(directory, submission, master, measurements, [])
    replace(RunManifest.load(directory), processes=processes).save(directory)
    return directory


def trace_load(
    directory: Path,
    scenario: Scenario,
    costs: CostModel = TYPICAL_COSTS,
    *,
    for_ns: int | None = None,
    judge: Callable[[Bottleneck | None], object] = lambda _: None,
    **options: Any,
) -> Path:
    """The run directory of a bench scenario whose workload says how many records there are.

    Args:
        for_ns: the measured part; None until the end.
        judge: takes the verdict by the times of the tasks, as a bench has it.
        options: of `load_cluster`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    load = load_plan_of(scenario)
    processes, recorders = _recorders(directory, load.task_managers)
    cluster = load_cluster(
        load, plan_sources(load, start_ns=START_NS), costs, probes=recorders, **options
    )
    run_on(cluster, until_ns=for_ns)
    judge(verdict(_ledger_of(cluster, load)))
    for recorder in recorders:
        recorder.close()
    manifest_of(
        scenario.to_dict(),
        scenario.network,
        processes,
        channel_infos(load.tasks),
        seed=scenario.seed,
        host=_HOST,
        started_at="now",
        measured_from_ns=START_NS,
        measured_to_ns=cluster.now_ns if for_ns is None else START_NS + for_ns,
    ).save(directory)
    return directory


def _ledger_of(cluster: Cluster, load: LoadPlan) -> Ledger:
    """The ledger of a load in virtual time, from its start until now."""
    latency = LogLinearHistogram()
    for each in load.sinks:
        for sink in run_input_of(cluster.tasks[each.key]).receivers:
            sink.settle()
            latency.merge(sink.latency)
    channels = [
        ProducerChannelReport(channel.channel, 0, channel.starved_ns, 0, 0, 0)
        for each in cluster.channels.producer_connections
        for channel in each.snapshot(now_ns=cluster.now_ns)
    ]
    report = Report(
        producer_channels=tuple(channels),
        tasks={task_name(each): _metrics_of(cluster, each.key) for each in load.tasks},
    )
    parts = (
        part
        for each in load.tasks
        for output in cluster.tasks[each.key].outputs.each
        for part in output.partition.subpartitions
    )
    within_ns = cluster.now_ns - START_NS
    figures = measured(
        records=latency.count,
        buffers=sum(each.buffers_out for each in parts),
        duration_ns=within_ns,
        latency_ns=latency.summary(),
        latency_uncorrected_ns=latency.summary(),
    )
    processors = ProcessorUse(busy_share={}, lacked_share={})
    return ledger_of_load(load, [report], figures, processors, within_ns=within_ns, is_behind=False)


def _metrics_of(cluster: Cluster, key: tuple[int, int]) -> dict[str, float]:
    task = cluster.tasks[key]
    for receiver in task.receivers:
        receiver.settle()
    records = sum(receiver.records for receiver in task.receivers)
    times = task.times.metrics(now_ns=cluster.now_ns)
    whole_ms = (cluster.now_ns - START_NS) / 1e6
    for name in ("Busy", "Idle", "BackPressured"):
        per_s = times[f"accumulate{name}TimeMs"] / whole_ms * 1000
        times[f"{name[0].lower()}{name[1:]}TimeMsPerSecond"] = per_s
    return {**times, "numRecordsIn": max(records, task.processed_records)}


_HOST: Mapping[str, Any] = dict.fromkeys(("flinknet", "python", "core"), "")


def _recorders(directory: Path, count: int) -> tuple[tuple[ProcessInfo, ...], list[TraceRecorder]]:
    processes = tuple(
        ProcessInfo(f"tm-{index}", f"tm-{index}.fnt", index + 1) for index in range(count)
    )
    return processes, [
        TraceRecorder(TraceWriter(directory / each.file, each)) for each in processes
    ]
