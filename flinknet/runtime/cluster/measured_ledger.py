"""The ledger of a run, from what its tasks and TaskManagers reported, and the verdict on it: of a
job by its vertices and edges, of a load by its plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flinknet import results
from flinknet.job import TaskDeploymentDescriptor
from flinknet.job.load.plan import LoadPlan, task_name
from flinknet.results import ledger
from flinknet.results.verdict import verdict
from flinknet.trace.job_names import edges_of_load

from .reports import Metrics, Report

OVERTIME_SHARE = 0.2
"""Share of a job's time, after its sources have ended, from which they do not limit it."""


def verdict_on_job(
    vertices: Sequence[results.VertexMeasured], edges: Sequence[results.EdgeMeasured]
) -> results.Bottleneck | None:
    """The verdict on a job by the times of its tasks; None if no task reported any."""
    if all(each.busy is None for each in vertices):
        return None
    at = {each.name: place for place, each in enumerate(vertices)}
    return verdict(
        ledger.Ledger(
            {at[each.name]: ledger.VertexTime(each.name, _task_times(each)) for each in vertices},
            [ledger.EdgeTime(at[each.source], at[each.target], each.name) for each in edges],
            overtime_ns=_overtime_ns(vertices, edges),
        )
    )


def _task_times(vertex: results.VertexMeasured) -> list[ledger.TaskTime]:
    """The time of each subtask; of the vertex, if none reported any."""
    found = [
        ledger.TaskTime(
            each.name,
            each.task_manager,
            working=each.busy,
            waits_for_input=each.idle,
            waits_for_output=each.back_pressured,
            records=each.metrics.get("numRecordsIn"),
        )
        for each in vertex.tasks
    ]
    if any(each.working is not None for each in found):
        return found
    return [ledger.TaskTime(vertex.name, None, vertex.busy, vertex.idle, vertex.back_pressured)]


def _overtime_ns(
    vertices: Sequence[results.VertexMeasured], edges: Sequence[results.EdgeMeasured]
) -> int:
    """Time for which the job went on after its sources had ended; 0 if that is a small part."""
    targets = {each.target for each in edges}
    known = [(each.name, each.times.finished_ns) for each in vertices if each.times is not None]
    ends = {name: finished_ns for name, finished_ns in known if finished_ns is not None}
    sources = [finished_ns for name, finished_ns in ends.items() if name not in targets]
    last_ns = max(ends.values(), default=0)
    overtime_ns = last_ns - max(sources, default=last_ns)
    return overtime_ns if overtime_ns >= OVERTIME_SHARE * last_ns else 0


def ledger_of_load(
    load: LoadPlan,
    reports: Sequence[Report],
    measured: results.Measured,
    processors: results.ProcessorUse,
    *,
    within_ns: int,
    is_behind: bool,
) -> ledger.Ledger:
    """The ledger of a load. Tasks have the names that a replay gives them. It is behind if records
    were due faster than they were taken.
    """
    network, summary = load.scenario.network, measured.checkpoints
    edges = edges_of_load(range(load.last_vertex), load.last_vertex - 1)
    names = {each.source: each.source_name for each in edges}
    names |= {each.target: each.target_name for each in edges}
    metrics = {name: found for report in reports for name, found in report.tasks.items()}
    tasks: dict[int, list[ledger.TaskTime]] = {}
    for task in load.tasks:
        tasks.setdefault(task.vertex, []).append(_load_task(task, names[task.vertex], metrics))
    starved_ns = {x.channel: x.starved_ns for report in reports for x in report.producer_channels}
    flushing, aligning = _flushing_share(load, measured), _aligning_share(load, summary, within_ns)
    times = []
    for edge in edges:
        inputs = []
        for task in [each for each in load.tasks if each.vertex == edge.target]:
            own = [
                min(starved_ns.get(each.index, 0) / within_ns, 1.0)  # counted until the drain ends
                for each in load.channels
                if (each.edge, each.consumer) == (edge.index, task.subtask)
            ]
            most = {ledger.CREDIT: max(own), ledger.BARRIER: aligning if len(own) > 1 else 0.0}
            place = f"tm-{task.task_manager}"
            inputs.append(ledger.InputTime(task.subtask, place, len(own), 0, most))
        floating = network.floating_buffers * len(inputs) / sum(each.channels for each in inputs)
        buffers = network.exclusive_buffers + floating
        ends = edge.source, edge.target, edge.name
        times.append(ledger.EdgeTime(*ends, inputs=inputs, buffers=buffers, flushing=flushing))
    return ledger.Ledger(
        {vertex: ledger.VertexTime(names[vertex], own) for vertex, own in tasks.items()},
        times,
        ledger.CheckpointCounts()
        if summary is None
        else ledger.CheckpointCounts(summary.completed, 0, summary.aborted or 0),
        {
            name: ledger.HostTime(
                busy,
                processors.lacked_share[name],
                min(processors.stood_still_ns.get(name, 0) / measured.duration_ns, 1.0),
            )
            for name, busy in processors.busy_share.items()
        },
        is_unpaced=load.scenario.workload.is_max_rate,
        is_behind=is_behind,
    )


def _load_task(
    task: TaskDeploymentDescriptor, vertex: str, metrics: Mapping[str, Metrics]
) -> ledger.TaskTime:
    """The time of a task. Sources have no busy time, as in Flink."""
    found = metrics.get(task_name(task), {})
    shares: Mapping[str, float | None] = results.shares_of(found) if found else {}
    return ledger.TaskTime(
        ledger.task_of(vertex, task.subtask, task.parallelism),
        f"tm-{task.task_manager}",
        working=shares.get("busy") if task.inputs else None,
        waits_for_input=shares.get("idle") if task.inputs else None,
        waits_for_output=shares.get("back_pressured") if task.outputs else None,
        records=found.get("numRecordsIn") if task.inputs else None,
    )


def _flushing_share(load: LoadPlan, measured: results.Measured) -> float:
    """Share of the time in which the oldest record of a channel waits for the flusher, on average.

    It is the number of buffers of a channel in a second, times the wait of the first record in
    each. Of n records that come evenly, that one waits longer than all do on average, by half the
    time in which the n come; no record waits longer than the buffer timeout. At the highest rate
    latency is mostly time in queues and says nothing.
    """
    timeout_ns, mean_ns = load.scenario.network.buffer_timeout_ns, measured.latency_ns.mean
    if load.scenario.workload.is_max_rate or not measured.buffers or mean_ns is None:
        return 0.0
    edges, spent_ns = load.last_vertex, measured.duration_ns * len(load.channels)
    sent = measured.records * edges
    wait_ns = mean_ns / edges + max(sent / measured.buffers - 1, 0.0) * spent_ns / sent / 2
    if timeout_ns >= 0:
        wait_ns = min(wait_ns, timeout_ns)
    return min(measured.buffers * wait_ns / spent_ns, 1.0)


def _aligning_share(
    load: LoadPlan, summary: results.CheckpointSummary | None, within_ns: int
) -> float:
    """Share of the time in which a barrier blocked a channel of a task, on average over tasks."""
    if summary is None or summary.unaligned or summary.alignment_ns.mean is None:
        return 0.0
    readers = sum(bool(each.inputs) for each in load.tasks)
    return min(summary.alignment_ns.mean * summary.alignment_ns.count / readers / within_ns, 1.0)
