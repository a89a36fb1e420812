"""Control messages between client, JobManager and TaskManagers: plain values (Flink: the RPC
interfaces DispatcherGateway, JobMasterGateway, ResourceManagerGateway and TaskExecutorGateway).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, is_dataclass
from typing import Any

from flinknet.config import Scenario
from flinknet.core.wire.ids import ExecutionAttemptID, ExecutionGraphID
from flinknet.graph.execution_graph import ExecutionState
from flinknet.job.checkpoint_coordinator import Answer, Command
from flinknet.job.descriptor import Start as Start
from flinknet.job.descriptor import TaskDeploymentDescriptor
from flinknet.job.load.sink import MEASURED
from flinknet.job.scheduling import PartitionState, RequestPartitionState
from flinknet.job.sources import NextInputSplit, RequestNextInputSplit
from flinknet.results import ClusterStatus, JobDump, JobStatus, TaskManagerDump

from .host_clock import ClockLine
from .reports import Report as Report
from .reports import Statistics as Statistics

PROTOCOL_VERSION = 11

LAUNCHER = "launcher"
"""Role of a connection to a worker that may start TaskManagers."""

STATUS, DUMP, CANCEL, HURRY, STOP = "status", "dump", "cancel", "hurry", "stop"
"""Requests about a job (JobRequest)."""

PART_BYTES = 512 << 10
"""The most bytes of a file in one message; heartbeats go on between two parts."""

FILE_NAME = re.compile(r"tm-\d{1,6}\.(fnt|log|out)", re.ASCII)
"""Names of the files that TaskManagers leave on a worker."""

ARRIVALS = "arrivals"
"""Folder of recorded arrivals on a worker."""

CACHED, MODULES = "cached", "modules"
"""Folders, in the spill directory of a job, of cached files and of modules of its program."""


def spill_name(job: ExecutionGraphID) -> str:
    return f"spill-{job}"


@dataclass(frozen=True, slots=True)
class Hello:
    """The answer to a Challenge: a role, a nonce and, as `token`, the proof of the secret."""

    version: int
    role: str
    token: str


@dataclass(frozen=True, slots=True)
class Challenge:
    """The first message on a connection: prove that you know the secret. A nonce serves once."""

    version: int
    release: str
    nonce: str


@dataclass(frozen=True, slots=True)
class Welcome:
    """The answer to a proof: the other side knows the secret, too. The facts are a worker's."""

    proof: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Refused:
    """JobManager: the connection is refused."""

    reason: str


@dataclass(frozen=True, slots=True)
class SubmitJob:
    """Client: run this program. JobManager and TaskManagers build its graphs themselves.

    Attributes:
        path: path of the file, for error messages and for imports of modules next to it.
        settings: Flink's keys; they are applied on top of the cluster's.
        is_attached: the job ends with the client.
        duration_ns: how long generated sources run; None: without end.
        run_dir: receives the output of the job, with its traces if `records_trace` is set.
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
    """Launcher: generate the load of a scenario, from which every process derives the same plan.
    Sinks treat its `records` as MEASURED or, if Flink writes them, as STAMPED or COUNTED."""

    scenario: Scenario
    records: str = MEASURED


@dataclass(frozen=True, slots=True)
class JobAccepted:
    """JobManager: the job has been accepted and will be scheduled."""

    job_id: str
    name: str


@dataclass(frozen=True, slots=True)
class RequestCluster:
    """Client: describe the cluster and its jobs; the answer is a ClusterStatus."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Client: a request about a job; without an id, about the one that this connection submitted.

    STATUS is answered by a JobStatus; DUMP, its tasks as they run, by a JobDump; the others by
    JobEnded, when it is over. STOP ends the sources, and the job finishes what they have emitted;
    Refused names a source that cannot stop. HURRY cancels without task.cancellation.timeout:
    TaskManagers whose functions do not return end, if the cluster is the job's own.
    """

    what: str
    job_id: str = ""


@dataclass(frozen=True, slots=True)
class StopCluster:
    """Client: cancel every job of a session and stop it; the answer is ClusterStopped."""


@dataclass(frozen=True, slots=True)
class ClusterStopped:
    """JobManager: every other process of the session has ended; the jobs that were canceled."""

    canceled: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobEnded:
    """JobManager: the job is over; its result is in the run directory. The exit code is 1 if it
    failed while running, 2 if it was invalid."""

    state: str
    reason: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class RegisterTaskManager:
    """TaskManager: register with this many slots and this data address."""

    index: int
    pid: int
    slots: int
    data_host: str
    data_port: int


@dataclass(frozen=True, slots=True)
class TaskManagerFailed:
    """TaskManager: it cannot continue, for the error of this kind, or with a traceback."""

    index: int
    pid: int
    error: str
    kind: str


@dataclass(frozen=True, slots=True)
class InitializeJob:
    """JobManager: load a program, or a load, and prepare for its tasks.

    Attributes:
        spill_dir: of blocking results and, in CACHED and MODULES, of files of the program.
        out_dir: of printed lines; None: they go to standard output.
    """

    job: ExecutionGraphID
    submission: SubmitJob | SubmitLoad
    trace_dir: str | None
    spill_dir: str | None
    out_dir: str | None


@dataclass(frozen=True, slots=True)
class JobInitialized:
    """TaskManager: the program has been loaded, or could not be for this `error`."""

    job: ExecutionGraphID
    error: str = ""


@dataclass(frozen=True, slots=True)
class SubmitTask:
    """JobManager: run an attempt (Flink: TaskExecutorGateway.submitTask). Addresses are those of
    the TaskManagers that it reads from; without `start`, open the channels and wait for it."""

    task: TaskDeploymentDescriptor
    addresses: dict[int, tuple[str, int]]
    start: Start | None


@dataclass(frozen=True, slots=True)
class AwaitChannels:
    """JobManager: answer when every channel of the tasks that wait for the start is open."""

    job: ExecutionGraphID


@dataclass(frozen=True, slots=True)
class ChannelsOpen:
    """TaskManager: all channels are open; answers AwaitChannels."""

    job: ExecutionGraphID


@dataclass(frozen=True, slots=True)
class ExpectReaders:
    """JobManager: these channels of a job will request partitions of this TaskManager. By receiver
    id (hexadecimal): channel number, for the trace, and TaskManager of the reader."""

    job: ExecutionGraphID
    readers: dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ReadersExpected:
    """TaskManager: the channels of one ExpectReaders are registered."""


@dataclass(frozen=True, slots=True)
class CancelTask:
    """JobManager: cancel an attempt, and report its final state."""

    attempt_id: ExecutionAttemptID


@dataclass(frozen=True, slots=True)
class StopTasks:
    """JobManager: end the sources of a job (Flink: stop with drain)."""

    job: ExecutionGraphID


@dataclass(frozen=True, slots=True)
class ReleasePartitions:
    """JobManager: release the partitions of these attempts, which have no readers left."""

    attempt_ids: tuple[ExecutionAttemptID, ...]


@dataclass(frozen=True, slots=True)
class TaskStateChanged:
    """TaskManager: an attempt has changed its state (Flink: updateTaskExecutionState), perhaps
    because another one failed first. `kind` is the class name of a FlinknetError."""

    attempt_id: ExecutionAttemptID
    state: ExecutionState
    error: str = ""
    is_consequence: bool = False
    kind: str = ""


@dataclass(frozen=True, slots=True)
class OutputConsumable:
    """TaskManager: one of an attempt's partitions has output (Flink: scheduleOrUpdateConsumers)."""

    attempt_id: ExecutionAttemptID
    output: int


@dataclass(frozen=True, slots=True)
class UpdatePartitions:
    """JobManager: these input edges have become readable (Flink: updatePartitions)."""

    attempt_id: ExecutionAttemptID
    edges: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """JobManager or launcher: answer this heartbeat, when so many bytes have come that follow it,
    are no message and are dropped."""

    number: int
    payload_bytes: int = 0


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """TaskManager or worker: answers a Heartbeat, a worker with the instant by its host's clock.
    Flink's payload (TaskExecutorHeartbeatPayload) is sent more often, as Statistics."""

    number: int
    at_ns: int = 0


@dataclass(frozen=True, slots=True)
class DescribeTasks:
    """JobManager: describe the tasks as they run; the answer is a TaskManagerDump."""


@dataclass(frozen=True, slots=True)
class JobCommand:
    """JobManager: a command of a job's checkpoint coordinator to its tasks."""

    job: ExecutionGraphID
    command: Command


@dataclass(frozen=True, slots=True)
class JobAnswer:
    """TaskManager: an answer of a task to the job's checkpoint coordinator."""

    job: ExecutionGraphID
    answer: Answer


@dataclass(frozen=True, slots=True)
class CloseJob:
    """JobManager: a job is over: end its trace, report, and forget it."""

    job: ExecutionGraphID


@dataclass(frozen=True, slots=True)
class JobClosed:
    """TaskManager: nothing of the job is left; this is its report."""

    job: ExecutionGraphID
    report: Report


@dataclass(frozen=True, slots=True)
class Disconnect:
    """JobManager: end the process."""


@dataclass(frozen=True, slots=True)
class StartTaskManager:
    """Launcher: start a TaskManager by the fields of its TaskManagerProcessSpec. The JobManager's
    control port is on the host that the connection comes from. A clock that is not the JobManager's
    will be corrected."""

    spec: dict[str, Any]
    port: int
    has_own_clock: bool


@dataclass(frozen=True, slots=True)
class TaskManagerExited:
    """Worker: a TaskManager has started, has ended, or could not be started for this reason."""

    index: int
    pid: int
    exit_code: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class EndTaskManager:
    """Launcher: kill a TaskManager."""

    index: int


@dataclass(frozen=True, slots=True)
class ListFiles:
    """Launcher: name the files that the TaskManagers of a job have left."""

    job: ExecutionGraphID


@dataclass(frozen=True, slots=True)
class Files:
    """Worker: sizes in bytes of the files of a job, by name."""

    sizes: dict[str, int]


@dataclass(frozen=True, slots=True)
class ReadFile:
    """Launcher: send a part of a file."""

    job: ExecutionGraphID
    name: str
    offset: int


@dataclass(frozen=True, slots=True)
class FilePart:
    """Worker: bytes of a file from an offset on; none behind its end, or if it cannot be read."""

    data: bytes


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Launcher: append bytes to a file, by its path below the launcher's directory on the worker:
    recorded arrivals (`RecordedLoad.save`), a cached file or a module of a program."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class FileWritten:
    """Worker: the bytes of a WriteFile are written, or could not be for this `fault`."""

    fault: str = ""


@dataclass(frozen=True, slots=True)
class RemoveFiles:
    """Launcher: remove the files of a job, which were fetched, or its cached files and modules."""

    folder: str


_DEFINED_ELSEWHERE = (
    *(ClusterStatus, JobStatus, JobDump, TaskManagerDump, Start, Statistics, ClockLine),
    *(RequestPartitionState, PartitionState, RequestNextInputSplit, NextInputSplit),
)

MESSAGES: dict[str, type] = {
    name: kind
    for name, kind in list(globals().items())
    if isinstance(kind, type) and is_dataclass(kind)
    if (kind.__module__ == __name__ and kind is not SubmitLoad) or kind in _DEFINED_ELSEWHERE
}
"""Every message by the name it has on the wire. A SubmitLoad is only sent within another one."""
