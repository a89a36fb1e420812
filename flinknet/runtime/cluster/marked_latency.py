"""The latency that markers of a job measured, aggregated by operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.graph.job_graph import JobVertex
from flinknet.graph.physical_plan import PhysicalPlan
from flinknet.job.latency_stats import MarkedLatency
from flinknet.results import (
    LatencyMarkersMeasured,
    LatencySummary,
    MarkedOperator,
    MarkerHistogram,
    MarkerSummary,
)


def markers_measured(
    plan: PhysicalPlan,
    marked: Mapping[ExecutionAttemptID, Sequence[MarkedLatency]],
    latency_of: Callable[[int], LatencySummary],
) -> LatencyMarkersMeasured:
    """Return the histograms of the current attempts, and each operator over its tasks.

    Args:
        marked: marked latencies, by attempt.
        latency_of: latency of the records that the sinks of a vertex measured.
    """
    job = plan.graph.job
    names = {
        operator_id: name
        for each in plan.vertices
        for operator_id, name in _operator_names(each.vertex.job_vertex)
    }
    histograms: list[MarkerHistogram] = []
    operators: list[MarkedOperator] = []
    for vertex in plan.vertices:
        found: dict[tuple[str, str], list[MarkedLatency]] = {}
        for subtask, execution in enumerate(vertex.vertex.task_vertices):
            for each in marked.get(execution.current.attempt_id, ()):
                histograms.append(_histogram(each, names, subtask))
                found.setdefault((each.operator_id, each.source_id), []).append(each)
        for (operator_id, source_id), of_tasks in found.items():
            measures_latency = job.factories[operator_id].measures_latency
            records = latency_of(vertex.index) if measures_latency else None
            operators.append(
                MarkedOperator(
                    names.get(source_id, ""),
                    names[operator_id],
                    sum(each.markers for each in of_tasks),
                    MarkerSummary.of([ms for each in of_tasks for ms in each.latencies_ms]),
                    records if records is not None and records.count else None,
                )
            )
    config = job.config
    return LatencyMarkersMeasured(
        config.latency_interval_ns,
        config.latency_granularity,
        config.latency_history,
        tuple(operators),
        tuple(histograms),
    )


def _operator_names(vertex: JobVertex) -> list[tuple[str, str]]:
    config = vertex.config
    assert config is not None
    return [(each.operator_id, each.operator_name) for each in (config, *config.chained.values())]


def _histogram(each: MarkedLatency, names: Mapping[str, str], subtask: int) -> MarkerHistogram:
    """The histogram under the name of Flink's scope (LatencyStats.Granularity)."""
    scope = f"source_id.{each.source_id}." if each.source_id else ""
    if each.source_subtask >= 0:
        scope += f"source_subtask_index.{each.source_subtask}."
    return MarkerHistogram(
        f"{scope}operator_id.{each.operator_id}.operator_subtask_index.{subtask}.latency",
        names.get(each.source_id, ""),
        each.source_subtask if each.source_subtask >= 0 else None,
        names[each.operator_id],
        subtask,
        each.markers,
        MarkerSummary.of(each.latencies_ms),
    )
