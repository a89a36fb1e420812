"""One run of a job: what it measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .job_status import PriorAttempt
from .latency_markers import LatencyMarkersMeasured
from .measures import BacklogSummary, CheckpointSummary, LatencySummary, RunWarning, VertexTimes


@dataclass(frozen=True, slots=True)
class TaskMeasured:
    """One subtask of a job: its last attempt, where that ran, Flink's metrics of it, and the
    attempts before it (as many as jobmanager.execution.attempts-history-size keeps).

    Shares are of the time that it ran; None if nothing was reported.
    """

    name: str
    attempt: int
    state: str
    task_manager: str | None
    busy: float | None
    idle: float | None
    back_pressured: float | None
    metrics: dict[str, float]
    prior_attempts: tuple[PriorAttempt, ...] = ()


@dataclass(frozen=True, slots=True)
class VertexMeasured:
    """One vertex of a job. Records are those of all attempts; rates are of the measured part,
    shares the mean over its tasks.
    """

    index: int
    name: str
    parallelism: int
    records_in: int
    records_out: int
    busy: float | None
    idle: float | None
    back_pressured: float | None
    latency_ns: LatencySummary | None  # of records that its sinks measured
    tasks: tuple[TaskMeasured, ...]
    times: VertexTimes | None = None


@dataclass(frozen=True, slots=True)
class EdgeMeasured:
    """One edge of a job: all channels between two vertices, and what went over them.

    Records and bytes are those that were read, of all attempts; the rates are of the measured part,
    or of the whole run where that ended before.
    The time without credit is that of remote channels, summed over them.
    """

    index: int
    source: str
    target: str
    partitioner: str
    channels: int
    local_channels: int
    records: int
    bytes: int
    throughput_records_per_s: float | None
    throughput_bytes_per_s: float | None
    buffers: int
    backlog_buffers: BacklogSummary
    starved_ns: int | None


@dataclass(frozen=True, slots=True)
class TaskManagerMeasured:
    """One TaskManager of a job: how it ended, and the metrics of its network memory."""

    name: str
    pid: int
    state: str
    slots: int
    memory: dict[str, float]


@dataclass(frozen=True, slots=True)
class JobResult:
    """One run of a job.

    Attributes:
        state: finished, canceled or failed; `reason` says why if it did not just finish.
        duration_ns: from the first deployment to the end.
        measured_ns: the part of it behind the warm-up; None if it ended before.
        connections: channels that shared each TCP connection.
        latency_markers: None if sources emit none.
    """

    job_id: str
    name: str
    path: str
    arguments: tuple[str, ...]
    state: str
    reason: str
    restarts: int
    duration_ns: int
    measured_ns: int | None
    config: dict[str, Any]
    vertices: tuple[VertexMeasured, ...]
    edges: tuple[EdgeMeasured, ...]
    connections: dict[str, int]
    task_managers: tuple[TaskManagerMeasured, ...]
    checkpoints: CheckpointSummary | None
    latency_markers: LatencyMarkersMeasured | None
    limited_by: str
    warnings: tuple[RunWarning, ...]
    trace: str | None

    def to_dict(self) -> dict[str, Any]:
        """The job as JSON-ready plain data."""
        return {"kind": "job", **asdict(self)}
