"""One run of a job: its status, its measurements, and its tasks in detail."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .bottleneck import Bottleneck
from .measures import BacklogSummary, CheckpointSummary, LatencySummary, RunWarning, VertexTimes


@dataclass(frozen=True, slots=True)
class VertexFigures:
    """A vertex of a job: records of all attempts, and shares of the time, which are means over its
    tasks; None where no task has reported any."""

    index: int
    name: str
    parallelism: int
    records_in: int
    records_out: int
    busy: float | None
    idle: float | None
    back_pressured: float | None


@dataclass(frozen=True, slots=True)
class VertexStatus(VertexFigures):
    """A vertex of a running job; its shares are those of the last minute."""

    state: str
    attempt: int
    records_in_per_s: float = 0.0
    times: VertexTimes | None = None


@dataclass(frozen=True, slots=True)
class PriorAttempt:
    """A finished attempt at a task that has a later attempt, with the reason of its failure; empty
    if it ended because another one failed."""

    task: str
    attempt: int
    state: str
    task_manager: str | None
    failure: str


@dataclass(frozen=True, slots=True)
class TaskManagerStatus:
    """A TaskManager in the view of the JobManager: with the number of heartbeats that it has
    answered, and the time since its last message."""

    index: int
    pid: int
    state: str
    slots: int
    slots_in_use: int
    heartbeats: int
    silent_ns: int


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """A TCP connection between two TaskManagers that a job uses, named "tm-0->tm-1": from the
    producers' TaskManager to the consumers', which has opened it; later ones end with "#1" and so
    on."""

    name: str
    channels: int  # number of open channels of the job
    shared_with: tuple[str, ...] = ()  # names of other jobs with channels on it
    jobs_before: int = 0  # number of ended jobs that used it


@dataclass(frozen=True, slots=True)
class ClusterJob:
    job_id: str
    name: str
    state: str
    run_dir: str
    slots: int


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The status of a cluster, with the jobs that have not ended. One in session mode was started
    for later jobs, and continues without any."""

    is_session: bool
    slots_each: int
    settings: dict[str, str]
    jobs: tuple[ClusterJob, ...]
    task_managers: tuple[TaskManagerStatus, ...]


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The status of a running job."""

    job_id: str
    name: str
    state: str  # Flink's name of it
    reason: str  # why it failed or last restarted
    restarts: int
    elapsed_ns: int  # time since it was submitted
    checkpoints: int
    vertices: tuple[VertexStatus, ...]
    task_managers: tuple[TaskManagerStatus, ...]
    latency_ns_p50: float | None = None
    latency_ns_p99: float | None = None
    failed_attempts: tuple[PriorAttempt, ...] = ()  # the last ones that are kept
    connections: tuple[ConnectionStatus, ...] = ()  # connections over which it reads
    other_jobs: tuple[ClusterJob, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskMeasured:
    """One subtask of a job: its last attempt, its TaskManager, Flink's metrics of it, and earlier
    attempts (at most jobmanager.execution.attempts-history-size). Shares are of the running time;
    None if nothing was reported."""

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
class VertexMeasured(VertexFigures):
    """A vertex of a job that is over; its shares are those of the measured part."""

    latency_ns: LatencySummary | None  # of records that its sinks measured
    tasks: tuple[TaskMeasured, ...]
    times: VertexTimes | None = None


@dataclass(frozen=True, slots=True)
class EdgeMeasured:
    """All channels between two vertices. Records and bytes are those that were read, of all
    attempts; rates are of the measured part, or of the whole run where that ended before. The time
    without credit is summed over the remote channels."""

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
    edge_number: int = 1  # in the direction of flow

    @property
    def name(self) -> str:
        return f"{self.source} → {self.target}"


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
    """One run of a job."""

    job_id: str
    name: str
    path: str
    arguments: tuple[str, ...]
    state: str  # finished, canceled or failed, with the `reason` if it did not just finish
    reason: str
    restarts: int
    duration_ns: int  # from the first deployment to the end
    measured_ns: int | None  # measured time after the warm-up; None if the job ended before
    config: dict[str, Any]
    vertices: tuple[VertexMeasured, ...]
    edges: tuple[EdgeMeasured, ...]
    connections: dict[str, int]  # number of channels that shared each TCP connection
    task_managers: tuple[TaskManagerMeasured, ...]
    checkpoints: CheckpointSummary | None
    limited_by: str
    warnings: tuple[RunWarning, ...]
    trace: str | None
    verdict: Bottleneck | None = None  # None if no task reported its times; text: `limited_by`
    latency_ns: LatencySummary | None = None  # of records that all sinks measured; None without any

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "job", **asdict(self)}


@dataclass(frozen=True, slots=True)
class PartitionDump:
    id: str
    type: str
    subpartitions: int


@dataclass(frozen=True, slots=True)
class GateDump:
    """An InputGate: number of its edge from 1, exclusive buffers of all its remote channels, and
    partition, subpartition and whether it is local, of each InputChannel."""

    edge_number: int
    data_set: str
    exclusive_buffers: int
    channels: tuple[tuple[int, int, bool], ...]


@dataclass(frozen=True, slots=True)
class TaskDump:
    """A Task with its partitions and gates."""

    name: str
    attempt_id: str
    slot: int
    partitions: tuple[PartitionDump, ...]
    gates: tuple[GateDump, ...]


@dataclass(frozen=True, slots=True)
class TaskManagerDump:
    """Tasks of a TaskManager, and the partitions that it keeps of ended tasks."""

    index: int
    tasks: tuple[TaskDump, ...]
    kept_partitions: tuple[PartitionDump, ...]


@dataclass(frozen=True, slots=True)
class JobDump:
    job_id: str
    name: str
    task_managers: tuple[TaskManagerDump, ...]
