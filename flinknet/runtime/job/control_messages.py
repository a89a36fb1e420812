"""What client, JobManager and TaskManagers say to each other: plain values.

Flink: the RPC interfaces DispatcherGateway, JobMasterGateway, ResourceManagerGateway and
TaskExecutorGateway.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.graph.execution import ExecutionState
from flinknet.job.checkpoint_coordinator import (
    AbortCheckpoint,
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    TriggerCheckpoint,
)
from flinknet.job.descriptor import TaskDeploymentDescriptor
from flinknet.results import JobDump, JobStatus, Strangers, TaskManagerDump

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
class RequestDump:
    """Client: describe the tasks of the job as they run; the answer is a JobDump."""


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Client: end the job."""


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
        timestamp_epoch_ns: the instant at which timestamps of barriers are 0.
    """

    job: SubmitJob
    run: str
    timestamp_epoch_ns: int


@dataclass(frozen=True, slots=True)
class JobInitialized:
    """TaskManager: the program is loaded."""


@dataclass(frozen=True, slots=True)
class SubmitTask:
    """JobManager: run an attempt (Flink: TaskExecutorGateway.submitTask).

    Attributes:
        addresses: data ports of the TaskManagers that it reads from.
        start_ns: when generated sources begin; `end_ns` when they stop.
    """

    task: TaskDeploymentDescriptor
    addresses: dict[int, tuple[str, int]]
    start_ns: int
    measured_from_ns: int
    end_ns: int | None


@dataclass(frozen=True, slots=True)
class ExpectReaders:
    """JobManager: these channels will read partitions of this TaskManager from others; number of
    each by its receiver id (hexadecimal), for the trace.
    """

    readers: dict[str, int]


@dataclass(frozen=True, slots=True)
class ReadersExpected:
    """TaskManager: it knows the channels of one ExpectReaders."""


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
    is_consequence: bool = False


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """JobManager: are you there?"""

    number: int


@dataclass(frozen=True, slots=True)
class ReadChannel:
    """A channel so far, as its consumer sees it: records and bytes that it has taken."""

    channel: int
    records: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class WrittenChannel:
    """A channel now, as the producer of a remote one sees it.

    Attributes:
        starved_ns: how long it had data and no credit so far.
    """

    channel: int
    backlog_buffers: int
    credits_available: int
    starved_ns: int


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """One attempt so far: its metrics under Flink's names, and the latency its sinks measured."""

    attempt_id: ExecutionAttemptID
    metrics: dict[str, float]
    latency: bytes = b""


@dataclass(frozen=True, slots=True)
class Statistics:
    """TaskManager: how far it is; several times a second, less often with many channels."""

    at_ns: int
    tasks: tuple[TaskCounts, ...] = ()
    read: tuple[ReadChannel, ...] = ()
    written: tuple[WrittenChannel, ...] = ()
    memory: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """TaskManager: I am. What Flink sends along (TaskExecutorHeartbeatPayload) comes more often, as
    Statistics.
    """

    number: int


@dataclass(frozen=True, slots=True)
class DescribeTasks:
    """JobManager: describe your tasks as they run; the answer is a TaskManagerDump."""


@dataclass(frozen=True, slots=True)
class CloseTrace:
    """JobManager: the job is over; end the trace and tell what was recorded."""


@dataclass(frozen=True, slots=True)
class SentChannel:
    """Data buffers that the producer of a remote channel sent, and their backlog."""

    channel: int
    buffers: int
    backlog_sum: int
    backlog_max: int


_NOBODY = Strangers()


@dataclass(frozen=True, slots=True)
class TraceClosed:
    """TaskManager: the trace is whole, or `error` says why not. `strangers` came to the data port
    and did not belong to the job.
    """

    error: str | None
    sent: tuple[SentChannel, ...] = ()
    buffers: int = 0
    events: int = 0
    reasons: tuple[int, ...] = ()
    credit_announced: int = 0
    credit_messages: int = 0
    strangers: Strangers = _NOBODY


@dataclass(frozen=True, slots=True)
class Disconnect:
    """JobManager: end."""


MESSAGES = {
    each.__name__: each
    for each in (
        *(Hello, Refused, SubmitJob, JobAccepted, RequestStatus, CancelJob, JobStatus, JobEnded),
        *(
            RegisterTaskManager,
            InitializeJob,
            JobInitialized,
            ExpectReaders,
            ReadersExpected,
            SubmitTask,
            CancelTask,
        ),
        *(ReleasePartitions, TaskStateChanged),
        *(RequestDump, DescribeTasks, TaskManagerDump, JobDump),
        *(TriggerCheckpoint, AbortCheckpoint, AcknowledgeCheckpoint, DeclineCheckpoint),
        *(Heartbeat, HeartbeatAnswer, Statistics, CloseTrace, TraceClosed, Disconnect),
    )
}
"""Every message by the name it has on the wire."""
