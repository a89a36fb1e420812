"""What client, JobManager and TaskManagers say to each other: plain values.

Flink: the RPC interfaces DispatcherGateway, JobMasterGateway, ResourceManagerGateway and
TaskExecutorGateway.
"""

from __future__ import annotations

from dataclasses import dataclass

from flinknet.config import Scenario
from flinknet.core.wire.ids import ExecutionAttemptID, ExecutionGraphID
from flinknet.graph.execution import ExecutionState
from flinknet.job.checkpoint_coordinator import Answer, Command
from flinknet.job.descriptor import TaskDeploymentDescriptor
from flinknet.job.load.counting import MEASURED
from flinknet.job.producer_states import PartitionState, RequestPartitionState
from flinknet.results import (
    ClusterStatus,
    JobDump,
    JobStatus,
    TaskManagerDump,
)

from .reports import Report as Report
from .reports import Statistics as Statistics

PROTOCOL_VERSION = 3


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
        settings: Flink's keys; those of the cluster stand behind them.
        is_attached: the job ends with the client.
        duration_ns: after which generated sources end; None: they do not.
        run_dir: gets what the job leaves, with its traces if it `records_trace`.
    """

    path: str
    source: str
    arguments: tuple[str, ...]
    settings: dict[str, str]
    is_attached: bool
    duration_ns: int | None
    warmup_ns: int
    seed: int
    run_dir: str = ""
    records_trace: bool = True


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
class RequestCluster:
    """Client: describe the cluster and its jobs; the answer is a ClusterStatus."""


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """Client: tell me where a job stands; the answer is a JobStatus. No id: the job that this
    connection has submitted.
    """

    job_id: str = ""


@dataclass(frozen=True, slots=True)
class RequestDump:
    """Client: describe the tasks of a job as they run; the answer is a JobDump."""

    job_id: str


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Client: end a job; the answer is JobEnded. No id: as for the status."""

    job_id: str = ""


@dataclass(frozen=True, slots=True)
class StopCluster:
    """Client: end every job of a session, and the session; the answer is ClusterStopped."""


@dataclass(frozen=True, slots=True)
class ClusterStopped:
    """JobManager: every process of the session has ended but this one, which ends now.

    Attributes:
        canceled: names of the jobs that ran.
    """

    canceled: tuple[str, ...]


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
    """JobManager: load a program, or a load, and be ready for its tasks.

    Attributes:
        job: its id, as that of all its attempts has it.
        trace_dir: gets the trace; None: there is none.
        spill_dir: where blocking results are written; None: there are none.
        out_dir: gets what its tasks print; None: that goes to standard output.
    """

    job: ExecutionGraphID
    submission: SubmitJob | SubmitLoad
    trace_dir: str | None
    spill_dir: str | None
    out_dir: str | None


@dataclass(frozen=True, slots=True)
class JobInitialized:
    """TaskManager: the program is loaded; or it cannot be, and why."""

    job: ExecutionGraphID
    error: str = ""


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

    job: ExecutionGraphID


@dataclass(frozen=True, slots=True)
class ChannelsOpen:
    """TaskManager: they are."""

    job: ExecutionGraphID


@dataclass(frozen=True, slots=True)
class ExpectReaders:
    """JobManager: these channels will read partitions of this TaskManager from others; number of
    each, for the trace, and its TaskManager, by its receiver id (hexadecimal). All are of one job.
    """

    job: ExecutionGraphID
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
class HeartbeatAnswer:
    """TaskManager: I am. What Flink sends along (TaskExecutorHeartbeatPayload) comes more often, as
    Statistics.
    """

    number: int


@dataclass(frozen=True, slots=True)
class DescribeTasks:
    """JobManager: describe your tasks as they run; the answer is a TaskManagerDump."""


@dataclass(frozen=True, slots=True)
class JobCommand:
    """JobManager: what the checkpoint coordinator of a job says to its tasks."""

    job: ExecutionGraphID
    command: Command


@dataclass(frozen=True, slots=True)
class JobAnswer:
    """TaskManager: what a task of a job says to its checkpoint coordinator."""

    job: ExecutionGraphID
    answer: Answer


@dataclass(frozen=True, slots=True)
class CloseJob:
    """JobManager: a job is over; end its trace, report, and forget it."""

    job: ExecutionGraphID


@dataclass(frozen=True, slots=True)
class JobClosed:
    """TaskManager: nothing of a job is left, and what it was."""

    job: ExecutionGraphID
    report: Report


@dataclass(frozen=True, slots=True)
class Disconnect:
    """JobManager: end."""


MESSAGES = {
    each.__name__: each
    for each in (
        *(Hello, Refused, SubmitJob, JobAccepted, RequestStatus, CancelJob, JobStatus, JobEnded),
        *(RequestCluster, ClusterStatus, StopCluster, ClusterStopped),
        *(RegisterTaskManager, TaskManagerFailed, InitializeJob, JobInitialized),
        *(ExpectReaders, ReadersExpected, SubmitTask, CancelTask, ReleasePartitions),
        *(AwaitChannels, ChannelsOpen, Start, TaskStateChanged, OutputConsumable, UpdatePartitions),
        *(RequestPartitionState, PartitionState),
        *(RequestDump, DescribeTasks, TaskManagerDump, JobDump),
        *(JobCommand, JobAnswer, CloseJob, JobClosed),
        *(Heartbeat, HeartbeatAnswer, Statistics, Disconnect),
    )
}
"""Every message by the name it has on the wire."""
