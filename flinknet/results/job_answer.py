"""The answer of a replay about a whole job of several exchanges."""

from __future__ import annotations

from dataclasses import dataclass

from .measures import LatencySummary
from .prediction import CpuCost, ModelError, TradeOffPoint
from .replay import Choice

TAKEN_ALONE = (
    "predictions for this edge alone take its records to come as recorded under any setting; the"
    " job from end to end counts what other settings do to the edges before it"
)
"""Remark on an edge behind another one."""


@dataclass(frozen=True, slots=True)
class JobEdgePoint:
    """Prediction for one edge of a job; None where unknown.

    Attributes:
        number: number of the edge in its job, from 1 in the direction of flow.
        latency_ns: latency from the arrival of a record at the edge.
        since_source_ns: latency from the arrival of a record at the job.
        why_unknown: None if it is known.
    """

    number: int
    edge: str
    buffer_timeout_ns: int
    throughput_records_per_s: float | None
    latency_ns: LatencySummary
    since_source_ns: LatencySummary
    buffers_per_s: float | None
    why_unknown: str | None = None


@dataclass(frozen=True, slots=True)
class JobPoint:
    """What is predicted for a job under one setting.

    Attributes:
        timeouts_ns: buffer timeout of each edge.
        total: of the job: records that leave it; latency from when a record came to it until the
            last task on its way was done; buffers over all edges; and the ends of their 90%
            intervals, by how the beats of the flushers lie to each other, and where that was not
            recorded by when records came.
        why_unknown: None if it is known.
    """

    timeouts_ns: tuple[int, ...]
    total: TradeOffPoint
    edges: tuple[JobEdgePoint, ...]
    why_unknown: str | None = None


@dataclass(frozen=True, slots=True)
class JobObserved:
    """The job as recorded; None where the trace does not say.

    Attributes:
        throughput_records_per_s: that left the job.
        buffers_per_s: over all edges.
    """

    throughput_records_per_s: float | None
    latency_ns: LatencySummary
    buffers_per_s: float | None


@dataclass(frozen=True, slots=True)
class JobAnswer:
    """The answer about a job of several exchanges.

    Attributes:
        edges: their names, in the direction of flow.
        feeding: of each edge the place of the one before it; None behind a source.
        model_error: of the recorded setting, where it was observed.
        simulated_ns: length of what was simulated, for each phase.
        is_whole: all of the part that is used.
        notes: what was assumed, as lines.
        cpu_cost: of a message, for the price of each setting; None where there are no prices.
        choice: the setting that meets the targets, by its place among the points; None without
            targets, and where none can be chosen.
    """

    path: str
    edges: tuple[str, ...]
    feeding: tuple[int | None, ...]
    observed: JobObserved
    model_error: ModelError
    points: tuple[JobPoint, ...]
    simulated_ns: int
    is_whole: bool
    notes: tuple[str, ...]
    cpu_cost: CpuCost | None = None
    choice: Choice | None = None
