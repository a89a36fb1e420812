"""Flink's own metrics of an edge of a job, while a trace was recorded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """One subtask, over the used part of the trace; None where nothing was reported.

    `busy`, `idle` and `back_pressured` are shares of the time. Pool usages and the length of the
    input queues are means of the reports.
    """

    name: str
    task_manager: str | None
    busy: float | None
    idle: float | None
    back_pressured: float | None
    records_in_per_s: float | None
    records_out_per_s: float | None
    in_pool_usage: float | None
    out_pool_usage: float | None
    input_queue_buffers: float | None = None


@dataclass(frozen=True, slots=True)
class VertexMetrics:
    """One vertex: means of shares and sums of rates over its tasks; None unless all reported it."""

    name: str
    parallelism: int
    busy: float | None
    idle: float | None
    back_pressured: float | None
    records_in_per_s: float | None
    records_out_per_s: float | None
    tasks: tuple[TaskMetrics, ...]


@dataclass(frozen=True, slots=True)
class TaskManagerMetrics:
    """One TaskManager.

    Attributes:
        cpu_cores: that its process used on average.
        network_segments, network_segments_used: of its network memory, the latter on average.
    """

    name: str
    cpu_cores: float | None
    network_segments: int | None
    network_segments_used: float | None


@dataclass(frozen=True, slots=True)
class EdgeShare:
    """How much of an edge a trace shows that was recorded between TaskManagers: local channels are
    never on the wire.

    Attributes:
        records_per_s: of the whole edge, local channels too.
        recorded_share: of these records that the trace has.
        local_bytes_share: of what its consumers read.
    """

    channels: int | None
    local_channels: int | None
    records_per_s: float | None
    recorded_share: float | None
    local_bytes_share: float | None


@dataclass(frozen=True, slots=True)
class FlinkMetrics:
    """Flink's own metrics of the two ends of an edge, and of all TaskManagers.

    Attributes:
        vertices: who writes, and who reads.
    """

    vertices: tuple[VertexMetrics, ...]
    task_managers: tuple[TaskManagerMetrics, ...]
    share: EdgeShare
