"""What client, JobManager and TaskManagers say to each other: plain values.

Flink: the RPC interfaces DispatcherGateway, JobMasterGateway, ResourceManagerGateway and
TaskExecutorGateway.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.graph.execution import ExecutionState

PROTOCOL_VERSION = 1


@dataclass(frozen=True, slots=True)
class Hello:
    """First on every connection: who speaks, and that it belongs to the cluster.

    Attributes:
        role: "client" or "task manager".
        token: the secret of the cluster, which only its own processes and its owner know.
    """

    version: int
    role: str
    token: str


@dataclass(frozen=True, slots=True)
class Refused:
    """JobManager: the connection ends, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class SubmitJob:
    """Client: run this program. JobManager and TaskManagers build its graphs themselves.

    Attributes:
        path: of the file, for messages and so that modules beside it are found.
        source: its text, as it was when the job was submitted.
        settings: Flink's keys.
        is_attached: the job ends with the client.
        duration_ns: after which generated sources end; None: they do not.
    """

    path: str
    source: str
    arguments: tuple[str, ...]
    settings: dict[str, str]
    is_attached: bool
    duration_ns: int | None
    warmup_ns: int
    records_trace: bool
    seed: int


@dataclass(frozen=True, slots=True)
class JobAccepted:
    """JobManager: the job is known and will be scheduled."""

    job_id: str
    name: str


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """Client: tell me where the job stands."""


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Client: end the job."""


@dataclass(frozen=True, slots=True)
class VertexStatus:
    """A vertex of the running job: how many subtasks are in which state."""

    name: str
    parallelism: int
    state: str
    attempt: int
    records_in: int = 0
    records_in_per_s: float = 0.0
    records_out: int = 0
    records_out_per_s: float = 0.0
    busy: float = 0.0
    idle: float = 0.0
    back_pressured: float = 0.0


@dataclass(frozen=True, slots=True)
class TaskManagerStatus:
    """A TaskManager as the JobManager knows it."""

    index: int
    pid: int
    state: str
    slots: int
    slots_in_use: int
    heard_ns: int


@dataclass(frozen=True, slots=True)
class JobStatus:
    """JobManager: where the job stands.

    Attributes:
        state: as Flink names those of jobs.
        reason: why it failed, or last restarted.
        elapsed_ns: since it was submitted.
    """

    job_id: str
    name: str
    state: str
    reason: str
    restarts: int
    elapsed_ns: int
    checkpoints: int
    vertices: tuple[VertexStatus, ...]
    task_managers: tuple[TaskManagerStatus, ...]
    latency_ns_p50: float | None = None
    latency_ns_p99: float | None = None


@dataclass(frozen=True, slots=True)
class JobEnded:
    """JobManager: the job is over; the result is in the run directory.

    Attributes:
        state: FINISHED, CANCELED or FAILED.
        exit_code: 0 well, 1 failed while it ran, 2 it could not be understood.
    """

    state: str
    reason: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class RegisterTaskManager:
    """TaskManager: I am here, with so many slots; data is to be had at this address."""

    index: int
    pid: int
    slots: int
    data_host: str
    data_port: int


@dataclass(frozen=True, slots=True)
class InitializeJob:
    """JobManager: load the program and be ready for its tasks.

    Attributes:
        run: what the ids of this run follow from.
        channels: number of channels of one attempt at everything.
    """

    job: SubmitJob
    run: str
    trace_path: str | None
    output_path: str
    channels: int
    timestamp_epoch_ns: int


@dataclass(frozen=True, slots=True)
class JobInitialized:
    """TaskManager: the program is loaded."""


@dataclass(frozen=True, slots=True)
class SubmitTask:
    """JobManager: run an attempt (Flink: TaskExecutorGateway.submitTask).

    Attributes:
        task: a `jobs.TaskDeploymentDescriptor` as JSON has it.
        addresses: data ports of the TaskManagers that it reads from.
        readers: index of the channel, by receiver id (hexadecimal), of those that will read its
            partitions from other TaskManagers.
        start_ns: when generated sources begin; `end_ns` when they stop.
    """

    task: dict[str, Any]
    addresses: dict[int, tuple[str, int]]
    readers: dict[str, int]
    start_ns: int
    measured_from_ns: int
    end_ns: int | None


@dataclass(frozen=True, slots=True)
class CancelTask:
    """JobManager: end an attempt and tell when it is gone."""

    attempt_id: ExecutionAttemptID


@dataclass(frozen=True, slots=True)
class ReleasePartitions:
    """JobManager: nobody needs what these attempts wrote any more."""

    attempt_ids: tuple[ExecutionAttemptID, ...]


@dataclass(frozen=True, slots=True)
class TaskStateChanged:
    """TaskManager: an attempt has another state (Flink: updateTaskExecutionState)."""

    attempt_id: ExecutionAttemptID
    state: ExecutionState
    error: str = ""


@dataclass(frozen=True, slots=True)
class Trigger:
    """JobManager: begin a checkpoint; sources write its barrier."""

    checkpoint_id: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Abort:
    """JobManager: a checkpoint was given up."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """TaskManager: a task's part of a checkpoint is done (see
    tasks.checkpoint_coordinator.AcknowledgeCheckpoint).
    """

    task: str
    checkpoint_id: int
    written_ns: dict[int, int]
    read_ns: dict[int, int]
    start_delay_ns: int | None
    alignment_ns: int | None
    overtaken_bytes: int
    processed_bytes: int
    is_unaligned: bool


@dataclass(frozen=True, slots=True)
class Decline:
    """TaskManager: a task cannot take part in a checkpoint."""

    task: str
    checkpoint_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """JobManager: are you there?"""

    number: int


@dataclass(frozen=True, slots=True)
class ChannelCounts:
    """One channel so far: what its consumer read, and what its producer saw; -1: the other side
    knows.
    """

    channel: int
    records: int = -1
    bytes_in: int = -1
    buffers: int = -1
    backlog_sum: int = -1
    backlog_max: int = -1
    backlog_now: int = -1
    credit_now: int = -1
    starved_ns: int = -1


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """One attempt so far: its metrics under Flink's names, and the latency its sinks measured."""

    attempt_id: ExecutionAttemptID
    metrics: dict[str, float]
    latency: bytes = b""


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """TaskManager: I am, and this is how far (Flink: TaskExecutorHeartbeatPayload)."""

    number: int
    at_ns: int
    tasks: tuple[TaskCounts, ...] = ()
    channels: tuple[ChannelCounts, ...] = ()
    memory: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CloseTrace:
    """JobManager: the job is over; end the trace and tell."""


@dataclass(frozen=True, slots=True)
class TraceClosed:
    """TaskManager: the trace is whole, or `error` says why not."""

    error: str | None
    buffers: int = 0
    events: int = 0
    reasons: tuple[int, ...] = ()
    credit_announced: int = 0
    credit_messages: int = 0


@dataclass(frozen=True, slots=True)
class Disconnect:
    """JobManager: end."""


MESSAGES = {
    each.__name__: each
    for each in (
        *(Hello, Refused, SubmitJob, JobAccepted, RequestStatus, CancelJob, JobStatus, JobEnded),
        *(RegisterTaskManager, InitializeJob, JobInitialized, SubmitTask, CancelTask),
        *(ReleasePartitions, TaskStateChanged, Trigger, Abort, Acknowledge, Decline),
        *(Heartbeat, HeartbeatAnswer, CloseTrace, TraceClosed, Disconnect),
    )
}
"""Every message by the name it has on the wire."""
