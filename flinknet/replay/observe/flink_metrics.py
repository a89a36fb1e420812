"""Flink's own metrics of the ends of an edge, from the metrics file of a trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from flinknet import results
from flinknet.predict.fit import queued
from flinknet.predict.local_channels import BROADCAST, partitioner_of
from flinknet.trace import RunManifest
from flinknet.trace.job_names import Edge, named_edges
from flinknet.trace.metrics import Series
from flinknet.trace.recordings import series_within

from ..read import RecordedRun

_TIMES = (queued.BUSY_TIME, queued.IDLE_TIME, "accumulateBackPressuredTimeMs")
_COUNTERS = (queued.RECORDS_IN, queued.RECORDS_OUT)
_LEVELS = ("inPoolUsage", "outPoolUsage", "inputQueueLength")

_NO_SERIES = Series(None, None, None, None, np.zeros(0, np.int64), {})


def recorded_edge(run: RecordedRun) -> Edge | None:
    """The edge of all recorded channels; None for an unknown job, or several edges."""
    numbers = {each.edge for each in run.manifest.channels}
    return named_edges(run.manifest).get(numbers.pop()) if len(numbers) == 1 else None


def flink_metrics(run: RecordedRun, measured: results.Measured) -> results.FlinkMetrics | None:
    """Flink's metrics during the used part; None for an unknown job and runs of flinknet."""
    edge, edges = recorded_edge(run), named_edges(run.manifest)
    if edge is None or not run.manifest.is_from_between:
        return None
    series = series_of(run)
    vertices: Sequence[Mapping[str, Any]] = run.manifest.scenario["job"]["vertices"]
    of_index = {each["index"]: each for each in vertices}
    source, target, *others = (
        vertex_metrics(of_index[each], series) for each in (edge.source, edge.target, *run.others)
    )
    records_per_s = _records_per_s(run.manifest, edge, edges.values(), source, target)
    recorded = measured.throughput_records_per_s
    share = results.EdgeShare(
        edge.channels,
        edge.local_channels,
        records_per_s,
        None if not records_per_s or recorded is None else min(recorded / records_per_s, 1.0),
        _local_bytes_share(of_index[edge.target], edge, edges.values(), series),
    )
    task_managers = []
    for each in (each for each in series if each.task is None):
        segments, used = each.mean("TotalMemorySegments"), each.mean("UsedMemorySegments")
        cpu_ns_per_s = each.increase_per_s("JVM.CPU.Time")
        cores = None if cpu_ns_per_s is None else cpu_ns_per_s / 1e9
        whole = None if segments is None else round(segments)
        found = results.TaskManagerMetrics(each.task_manager or "", cores, whole, used)
        task_managers.append(found)
    return results.FlinkMetrics((source, target, *others), tuple(task_managers), share)


def series_of(run: RecordedRun) -> list[Series]:
    return series_within(run.place, run.from_ns, run.to_ns)


def task_shares(run: RecordedRun) -> dict[str | None, list[float | None]]:
    """Shares of the time in which tasks were busy, idle and back-pressured, by their own metrics to
    the end of the run, or of the part that was asked for."""
    series = series_within(run.place, run.from_ns, run.to_ns if run.is_asked_part else 1 << 62)
    return {each.task: [_share(each, name) for name in _TIMES] for each in series}


def vertex_metrics(vertex: Mapping[str, Any], series: Iterable[Series]) -> results.VertexMetrics:
    own = queued.tasks_of(vertex, series)
    tasks = tuple(
        results.TaskMetrics(
            name,
            place,
            *(_share(own.get(name, _NO_SERIES), each) for each in _TIMES),
            *(own.get(name, _NO_SERIES).increase_per_s(each) for each in _COUNTERS),
            *(own.get(name, _NO_SERIES).mean(each) for each in _LEVELS),
        )
        for name, place in zip(vertex["tasks"], vertex["task_managers"], strict=False)
    )
    sums: dict[str, float | None] = {}
    for name in ("busy", "idle", "back_pressured", "records_in_per_s", "records_out_per_s"):
        values = [getattr(each, name) for each in tasks]
        count = 1 if name.startswith("records") else len(tasks)
        sums[name] = float(sum(values)) / count if values and None not in values else None
    return results.VertexMetrics(
        vertex["name"], vertex["parallelism"] or len(tasks), **sums, tasks=tasks
    )


def records_in(vertex: Mapping[str, Any], series: Iterable[Series]) -> dict[str, float]:
    """Records that tasks of a vertex have read since they were started, by Flink's counters."""
    found = {}
    for name, each in queued.tasks_of(vertex, series).items():
        column = each.values.get(queued.RECORDS_IN)
        if name is not None and column is not None and not np.isnan(column).all():
            found[name] = float(np.nanmax(column))
    return found


def _records_per_s(
    manifest: RunManifest,
    edge: Edge,
    edges: Iterable[Edge],
    source: results.VertexMetrics,
    target: results.VertexMetrics,
) -> float | None:
    """Records on all channels of an edge: what its consumers read if they read nothing else, or
    what its producers write if they write nothing else."""
    others = [each for each in edges if each.index != edge.index]
    if not any(each.target == edge.target for each in others):
        return target.records_in_per_s
    if any(each.source == edge.source for each in others):
        return None
    is_broadcast = partitioner_of(manifest, edge.index) == BROADCAST
    return None if is_broadcast else source.records_out_per_s


def _local_bytes_share(
    target: Mapping[str, Any], edge: Edge, edges: Iterable[Edge], series: Iterable[Series]
) -> float | None:
    if any(each.target == edge.target for each in edges if each.index != edge.index):
        return None
    own = queued.tasks_of(target, series).values()
    local, remote = (
        [each.increase_per_s(name) for each in own]
        for name in (queued.BYTES_IN_LOCAL, queued.BYTES_IN_REMOTE)
    )
    known = [each for each in (*local, *remote) if each is not None]
    if not own or len(known) < 2 * len(own) or not sum(known):
        return None
    return sum(each for each in local if each is not None) / sum(known)


def _share(series: Series, name: str) -> float | None:
    ms_per_s = series.increase_per_s(name)
    return None if ms_per_s is None else min(ms_per_s / 1000, 1.0)
