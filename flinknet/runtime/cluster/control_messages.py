"""What client, JobManager and TaskManagers say to each other: plain values.

Flink: the RPC interfaces DispatcherGateway, JobMasterGateway, ResourceManagerGateway and
TaskExecutorGateway.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flinknet.config import Scenario
from flinknet.core.wire.ids import ExecutionAttemptID
from flinknet.graph.execution import ExecutionState
from flinknet.job.checkpoint_coordinator import (
    AbortCheckpoint,
    AcknowledgeCheckpoint,
    DeclineCheckpoint,
    TriggerCheckpoint,
)
from flinknet.job.descriptor import TaskDeploymentDescriptor
from flinknet.job.latency_stats import MarkedLatency
from flinknet.job.load.counting import MEASURED
from flinknet.job.producer_states import PartitionState, RequestPartitionState
from flinknet.results import (
    DebloatingSample,
    FillLevels,
    FillSample,
    JobDump,
    JobStatus,
    Strangers,
    TaskManagerDump,
)

PROTOCOL_VERSION = 2

Metrics = dict[str, bool | int | float]
"""Values by Flink's names, which keep their types."""


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
class SubmitLoad:
    """Launcher: generate the load of a scenario. Every process makes the same plan of it.

    Attributes:
        records: what sinks take the records for: MEASURED, or what Flink has written: STAMPED or
            COUNTED.
    """

    scenario: Scenario
    records: str = MEASURED


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
class TaskManagerFailed:
    """TaskManager: it cannot go on. `error` is a FlinknetError by name and text, or a traceback
    (without a `kind`).
    """

    index: int
    pid: int
    error: str
    kind: str


@dataclass(frozen=True, slots=True)
class InitializeJob:
    """JobManager: load the program, or the load, and be ready for its tasks."""

    job: SubmitJob | SubmitLoad


@dataclass(frozen=True, slots=True)
class JobInitialized:
    """TaskManager: the program is loaded."""


@dataclass(frozen=True, slots=True)
class Start:
    """JobManager: the instants of a run, for tasks that wait for them.

    Attributes:
        start_ns: when generated records begin.
        end_ns: when their sources stop; None: never, or by their number.
        timestamp_epoch_ns: the instant at which timestamps of barriers are 0.
        give_up_ns: when sources drop what is due and has not been sent; None: never.
    """

    start_ns: int
    measured_from_ns: int
    measured_to_ns: int | None
    end_ns: int | None
    timestamp_epoch_ns: int = 0
    give_up_ns: int | None = None


@dataclass(frozen=True, slots=True)
class SubmitTask:
    """JobManager: run an attempt (Flink: TaskExecutorGateway.submitTask).

    Attributes:
        addresses: data ports of the TaskManagers that it reads from.
        start: None: open its channels, and wait for the start.
    """

    task: TaskDeploymentDescriptor
    addresses: dict[int, tuple[str, int]]
    start: Start | None


@dataclass(frozen=True, slots=True)
class AwaitChannels:
    """JobManager: tell when every channel of the tasks that wait for the start is open."""


@dataclass(frozen=True, slots=True)
class ChannelsOpen:
    """TaskManager: they are."""


@dataclass(frozen=True, slots=True)
class ExpectReaders:
    """JobManager: these channels will read partitions of this TaskManager from others; number of
    each, for the trace, and its TaskManager, by its receiver id (hexadecimal).
    """

    readers: dict[str, tuple[int, int]]


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
    """TaskManager: an attempt has another state (Flink: updateTaskExecutionState).

    Attributes:
        kind: of the error, the name of a FlinknetError.
    """

    attempt_id: ExecutionAttemptID
    state: ExecutionState
    error: str = ""
    is_consequence: bool = False
    kind: str = ""


@dataclass(frozen=True, slots=True)
class OutputConsumable:
    """TaskManager: there is something to read in a partition of an attempt that runs (Flink:
    scheduleOrUpdateConsumers).

    Attributes:
        output: which of its partitions.
    """

    attempt_id: ExecutionAttemptID
    output: int


@dataclass(frozen=True, slots=True)
class UpdatePartitions:
    """JobManager: what these edges bring to an attempt can be read now (Flink:
    TaskExecutorGateway.updatePartitions).
    """

    attempt_id: ExecutionAttemptID
    edges: tuple[int, ...]


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
        credits_available: -1: there is no credit.
        starved_ns: how long it had data and no credit so far.
    """

    channel: int
    backlog_buffers: int
    credits_available: int
    starved_ns: int


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """One attempt so far: its metrics under Flink's names (empty if they were not taken), and the
    latency, number and bytes of the records that its sinks have measured, and what latency markers
    told its operators (with the metrics).
    """

    attempt_id: ExecutionAttemptID
    name: str
    metrics: Metrics
    latency: bytes = b""
    measured_records: int = 0
    measured_bytes: int = 0
    marked: tuple[MarkedLatency, ...] = ()


@dataclass(frozen=True, slots=True)
class Statistics:
    """TaskManager: how far it is; several times a second, less often with many channels."""

    at_ns: int
    tasks: tuple[TaskCounts, ...] = ()
    read: tuple[ReadChannel, ...] = ()
    written: tuple[WrittenChannel, ...] = ()
    memory: Metrics = field(default_factory=dict)
    fill: FillSample | None = None


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
    """JobManager: the job is over; end the trace and report."""


@dataclass(frozen=True, slots=True)
class ConsumerChannelReport:
    """What the consumer of a channel saw in the whole run, and measured in its measured part.

    Attributes:
        value_bytes, other_elements: of what Flink has written; None for a load of our own.
    """

    channel: int
    records: int
    measured_records: int
    measured_bytes: int
    last_measured_ns: int
    latency: bytes
    uncorrected: bytes
    lost: int
    repeated: int
    reordered: int
    taken_records_per_s: float | None = None
    bytes_in: int = 0
    value_bytes: int | None = None
    other_elements: int | None = None


@dataclass(frozen=True, slots=True)
class ProducerChannelReport:
    """What the producer of a channel did in the whole run, and saw in its measured part."""

    channel: int
    sent_records: int
    starved_ns: int
    buffers: int
    backlog_sum: int
    backlog_max: int


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """What the partitions of a blocking exchange hold: the payload of all their buffers, and what
    compression left of it.
    """

    edge: int
    data_bytes: int
    stored_bytes: int


_EMPTY, _NOBODY = FillLevels(), Strangers()


@dataclass(frozen=True, slots=True)
class Report:
    """TaskManager: the end. Totals are of the measured part, shares of the whole run.

    Of the tasks of a program there are totals, producers' channels and strangers only.

    Attributes:
        trace_error: why the trace is not whole; None: it is.
        busy_share: time not spent waiting.
        stolen_share: time in which the process wanted a processor and had none.
        unread_share: part of the measured time in which a socket was not read, without credit and
            for want of a buffer.
        tasks, memory: metrics at the end of the measured part.
        debloating: the evaluations of each gate, at instants of the clock.
        strangers: who came to the data port and did not belong to the job.
    """

    consumer_channels: tuple[ConsumerChannelReport, ...] = ()
    producer_channels: tuple[ProducerChannelReport, ...] = ()
    buffers: int = 0
    events: int = 0
    reasons: tuple[int, ...] = ()
    credit_announced: int = 0
    credit_messages: int = 0
    late_ns_max: int = 0
    busy_share: float = 0.0
    stolen_share: float = 0.0
    trace_error: str | None = None
    fill_bounds: FillLevels = _EMPTY
    unread_share: float = 0.0
    tasks: dict[str, Metrics] = field(default_factory=dict)
    memory: Metrics = field(default_factory=dict)
    debloating: tuple[tuple[str, tuple[DebloatingSample, ...]], ...] = ()
    stored: tuple[StoredOutput, ...] = ()
    strangers: Strangers = _NOBODY


@dataclass(frozen=True, slots=True)
class Disconnect:
    """JobManager: end."""


MESSAGES = {
    each.__name__: each
    for each in (
        *(Hello, Refused, SubmitJob, JobAccepted, RequestStatus, CancelJob, JobStatus, JobEnded),
        *(RegisterTaskManager, TaskManagerFailed, InitializeJob, JobInitialized),
        *(ExpectReaders, ReadersExpected, SubmitTask, CancelTask, ReleasePartitions),
        *(AwaitChannels, ChannelsOpen, Start, TaskStateChanged, OutputConsumable, UpdatePartitions),
        *(RequestPartitionState, PartitionState),
        *(RequestDump, DescribeTasks, TaskManagerDump, JobDump),
        *(TriggerCheckpoint, AbortCheckpoint, AcknowledgeCheckpoint, DeclineCheckpoint),
        *(Heartbeat, HeartbeatAnswer, Statistics, CloseTrace, Report, Disconnect),
    )
}
"""Every message by the name it has on the wire."""
