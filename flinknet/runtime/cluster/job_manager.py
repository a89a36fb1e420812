"""JobManager: coordinates the TaskManagers of a cluster. It sends what the JobMaster of each job
decides, and routes their messages back to it (Flink: JobMaster and ResourceManager as endpoints).

Its owner drives it and uses the measurements: the process of a cluster (`job_process`), or the
launcher of a bench.

Messages to two TaskManagers go over two connections, so they can arrive in another order than they
were sent. A deployed consumer could request its partition before the TaskManager of the partition
knows the number of that channel, and the trace would not name it. Outbox orders them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinknet.core.wire.ids import ExecutionGraphID
from flinknet.graph.execution_graph import ExecutionState
from flinknet.job.checkpoint_coordinator import CheckpointCoordinator, Command
from flinknet.job.descriptor import TaskDeploymentDescriptor, deployed_channels
from flinknet.job.scheduling import RequestPartitionState
from flinknet.job.sources import NextInputSplit, RequestNextInputSplit
from flinknet.results import CheckpointSummary, TaskManagerDump
from flinknet.whole_files import temporary_base

from ..clock import monotonic_ns
from ..event_loop import EventLoop
from . import control_messages as messages
from .cluster_process import TaskManagerProcess, TaskManagerState, log
from .control_connection import ControlConnection, ControlServer
from .control_messages import ExpectReaders
from .job_master import JobMaster
from .placement import Deployment, SharedCluster
from .resource_manager import ClusterSpec, ResourceManager

if TYPE_CHECKING:
    from .workers import Workers


class JobLead:
    """One job of a JobManager: the base class of a bench (`launcher`) and of a client's job
    (`submitted_job`), which differ in how they start and end.

    Attributes:
        message: the message by which TaskManagers prepare for it.
        start: the instants of the run; None: deployed tasks wait for them.
        is_stopping: whether its sources are to end, those of restarted tasks, too.
    """

    def __init__(self, message: messages.InitializeJob, master: JobMaster) -> None:
        self.id = message.job
        self.message = message
        self.master = master
        self.start: messages.Start | None = None
        self.is_deployed = self.is_stopping = False
        self.stopped_at_restarts: int | None = None
        self.checkpoints: CheckpointCoordinator | None = None
        self._informed: set[tuple[int, int | None]] = set()

    def without_known(self, task: TaskDeploymentDescriptor) -> TaskDeploymentDescriptor:
        """The descriptor without the information that its TaskManager has from earlier tasks."""
        known = self._informed
        job, vertex = (task.task_manager, None), (task.task_manager, task.vertex)
        sent = replace(
            task,
            job_information=None if job in known else task.job_information,
            task_information=None if vertex in known else task.task_information,
        )
        known |= {job, vertex}
        return sent

    def receive(self, task_manager: TaskManagerProcess, message: Any, now_ns: int) -> None:
        """Handle statistics, open channels, or the final report of a TaskManager."""
        raise NotImplementedError

    def deploy(self, deployments: Sequence[Deployment], now_ns: int) -> None:
        """Note the tasks that are deployed now."""
        raise NotImplementedError

    def begin_checkpoints(self, start: messages.Start, *, is_batch: bool, is_bench: bool) -> None:
        """Begin the checkpoints of the job, if it wants any; a batch job has none, as in Flink.
        Those of a bench end with its sources, and count in its measured part.
        """
        graph, network = self.master.graph, self.master.graph.job.config.network
        if network.checkpoint_interval_ns is None or is_batch:
            return
        self.checkpoints = CheckpointCoordinator(
            {str(each.id) for each in graph.subtasks()},
            interval_ns=network.checkpoint_interval_ns,
            timeout_ns=network.checkpoint_timeout_ns,
            start_ns=start.start_ns,
            end_ns=start.end_ns if is_bench else None,
            measured_from_ns=start.measured_from_ns if is_bench else 0,
            measured_to_ns=start.measured_to_ns,
            epoch_ns=start.timestamp_epoch_ns,
        )

    def checkpoint_summary(self) -> CheckpointSummary | None:
        return None if self.checkpoints is None else self.checkpoints.summary()

    def next_deadline_ns(self) -> int | None:
        """When its master or its checkpoints are due, None for never."""
        due = [self.master.next_deadline_ns()]
        if self.checkpoints is not None and self.master.is_running:
            due.append(self.checkpoints.next_deadline_ns())
        return min((each for each in due if each is not None), default=None)


class Outbox:
    """Holds messages until every TaskManager has confirmed the readers announced before them."""

    def __init__(self, send: Callable[[int, Any], None]) -> None:
        self._send = send
        self._unanswered: Counter[int] = Counter()
        self._held: deque[tuple[int, Any]] = deque()
        self._lost: set[int] = set()

    def announce(
        self, index: int, job: ExecutionGraphID, readers: dict[str, tuple[int, int]]
    ) -> None:
        """Announce to a TaskManager the channels of a job that will be requested; sent at once."""
        if index not in self._lost:
            self._unanswered[index] += 1
        self._send(index, ExpectReaders(job, readers))

    def send(self, index: int, message: Any) -> None:
        """Send a message after all earlier messages and announcements."""
        self._held.append((index, message))
        self._send_released()

    def answered(self, index: int) -> None:
        self._unanswered -= Counter({index: 1})
        self._send_released()

    def lose(self, index: int) -> None:
        self._lost.add(index)
        del self._unanswered[index]
        self._send_released()

    def _send_released(self) -> None:
        while self._held and not self._unanswered:
            self._send(*self._held.popleft())


FAULTS_LOGGED = 100
"""The most protocol violations logged; any process on this machine can cause more."""

TURN_NS = 200_000_000
"""The end of a process without a message is noticed this late at most."""


class JobManager:
    """The TaskManagers of a cluster, and the jobs they run.

    Attributes:
        jobs: jobs that have not ended, by id, in order of submission.
        clients: connections that are not a TaskManager's.
        dumps, lost, failed: consumed by the owner: dumps of TaskManagers, lost ones with the
            reason, and failed attempts and TaskManagers that cannot continue.
    """

    def __init__(self, spec: ClusterSpec) -> None:
        """Raises: FlinknetError without loopback, temporary files, or one of its workers."""
        temporary_base()  # TaskManagers spill long records there
        self._loop, common = EventLoop(may_spin=False), spec.task_manager
        self.workers: Workers | None = None
        self._servers: list[ControlServer] = []
        if spec.workers is not None:
            from .workers import Workers

            self.workers = Workers(self._loop, spec.workers, common.network, common.silence_max_ns)
            self._servers += self.workers.servers.values()
        self._server = ControlServer(self._loop, common.token)
        self._servers.append(self._server)
        self.port = self._server.port
        self.task_managers = ResourceManager(spec, self.workers)
        self.jobs: dict[ExecutionGraphID, JobLead] = {}
        self.shared = SharedCluster(common.slots)
        self.clients: list[ControlConnection] = []
        self.dumps: list[TaskManagerDump] = []
        self.lost: list[tuple[TaskManagerProcess, str]] = []
        self.failed: list[tuple[TaskManagerProcess, Any]] = []
        self._outbox = Outbox(lambda index, message: self.task_managers[index].send(message))
        self._faults = 0

    def submit(self, job: JobLead) -> None:
        """Run a job on all TaskManagers, including those that register later."""
        self.jobs[job.id] = job
        for task_manager in self.task_managers:
            if task_manager.is_registered:
                task_manager.send(job.message)

    def begin(self, job: JobLead, start: messages.Start) -> None:
        """Set the instants of the run of a job; from now on its workers have traces."""
        job.start = start
        if self.workers is not None and job.message.trace_dir is not None:
            for worker in self.workers.each:
                worker.recorded.add(job.id)

    def end(self, job: JobLead, now_ns: int) -> None:
        """Free the slots of a job that has ended for other jobs."""
        job.master.release_slots()
        for other in self.jobs.values():
            if other is not job:
                other.master.slots_changed(now_ns=now_ns)

    def run_once(self, *, until_ns: int | None = None) -> int:
        """Wait until a message comes or a deadline is due, and handle it. Returns: the instant."""
        due = [monotonic_ns() + TURN_NS, until_ns, self.task_managers.next_deadline_ns()]
        due += [each.next_deadline_ns() for each in self.jobs.values()]
        self._loop.run_once(until_ns=min(each for each in due if each is not None))
        now_ns = monotonic_ns()
        for server in self._servers:
            for connection in list(server.connections):
                self._read(server, connection, now_ns)
        self.lost += self.task_managers.advance(now_ns=now_ns)
        return now_ns

    def advance(self, job: JobLead, now_ns: int) -> None:
        """Let the master of a job decide what is due, and send that to the TaskManagers."""
        job.master.handle_deadline(now_ns=now_ns)
        for index, reason in take_all(job.master.to_end):
            self.lost.append((self.task_managers[index], reason))
        deployments = take_all(job.master.deployments)
        if deployments:
            job.deploy(deployments, now_ns)
        if job.checkpoints is not None:
            if job.master.is_running:
                finished = job.master.finished
                commands = job.checkpoints.advance(now_ns=now_ns, finished=finished)
            else:  # tasks restart
                commands = job.checkpoints.abort_pending()
            self._send_commands(job, commands)
        for deployment in deployments:
            self._deploy(job, deployment)
        for index, message in take_all(job.master.to_send):
            self._outbox.send(index, message)
        restarts = job.master.restarts
        if job.is_stopping and job.stopped_at_restarts != restarts and job.master.is_running:
            job.stopped_at_restarts = restarts
            self.send_to_all(messages.StopTasks(job.id))

    def send_to_all(self, message: Any) -> None:
        """Send a message to every TaskManager, after all earlier ones."""
        for task_manager in self.task_managers:
            if task_manager.is_alive:
                self._outbox.send(task_manager.index, message)

    def lose(self, task_manager: TaskManagerProcess, reason: str, now_ns: int) -> None:
        """Remove a lost TaskManager, for the first reason given, and kill its process."""
        if not task_manager.is_alive:
            return
        log(reason)
        self.task_managers.lose(task_manager)
        self._outbox.lose(task_manager.index)
        for job in self.jobs.values():
            job.master.lose(task_manager.index, reason, now_ns=now_ns)

    def fail(self, message: messages.TaskStateChanged, now_ns: int) -> None:
        if (job := self._job_of(message)) is not None:
            job.master.update_state(message, now_ns=now_ns)

    def end_task_managers(self) -> None:
        self.task_managers.send_to_all(messages.Disconnect())
        self._loop.pump()
        self.task_managers.end()

    def fetch(self, job: ExecutionGraphID, directory: Path | None) -> list[str]:
        """Copy the files of a job from its workers, if there are any. Returns: the faults."""
        if self.workers is None or directory is None:
            return []
        return self.workers.fetch(job, directory)

    def write_files(self, folder: str, files: Mapping[str, Path]) -> None:
        """Copy files to its workers, while heartbeats go on. Raises: TransportError, OSError."""
        assert self.workers is not None
        for _ in self.workers.write_files(folder, files):
            self.lost += self.task_managers.advance(now_ns=monotonic_ns())

    def close(self) -> None:
        self._loop.pump()
        if self.workers is not None:
            self.workers.close()
        self._server.close()
        self._loop.close()

    def _read(self, server: ControlServer, connection: ControlConnection, now_ns: int) -> None:
        if connection.peer_role == "client":
            if connection not in self.clients:
                self.clients.append(connection)
        else:
            while connection.received:
                self._receive(connection, connection.received.popleft(), now_ns)
        if connection.loss is not None:
            server.connections.remove(connection)
            if connection.fault is not None and self._faults < FAULTS_LOGGED:
                self._faults += 1
                last = "; further ones are not logged" if self._faults == FAULTS_LOGGED else ""
                peer = connection.peer
                log(f"closed the control connection from {peer}: {connection.fault}{last}")

    def _receive(self, connection: ControlConnection, message: Any, now_ns: int) -> None:
        if isinstance(message, messages.RegisterTaskManager):
            registered = self.task_managers.register(connection, message, now_ns=now_ns)
            if registered is not None:
                for each in self.jobs.values():
                    registered.send(each.message)
        elif isinstance(message, messages.TaskManagerFailed):
            connection.close()
            if (failed := self.task_managers.failed(message)) is not None:
                self.failed.append((failed, message))
        elif (task_manager := self.task_managers.sender(connection)) is None:
            return
        elif isinstance(message, messages.HeartbeatAnswer):
            task_manager.heartbeats += 1
        elif isinstance(message, messages.ReadersExpected):
            self._outbox.answered(task_manager.index)
        elif isinstance(message, TaskManagerDump):
            self.dumps.append(message)
        elif (job := self._job_of(message)) is not None:
            self._receive_of(job, task_manager, message, now_ns)

    def _job_of(self, message: Any) -> JobLead | None:
        attempt_id = getattr(message, "attempt_id", None)
        if attempt_id is not None:
            return self.jobs.get(attempt_id.execution_graph_id)
        return self.jobs.get(getattr(message, "job", None))  # type: ignore[arg-type]

    def _receive_of(
        self, job: JobLead, task_manager: TaskManagerProcess, message: Any, now_ns: int
    ) -> None:
        master = job.master
        if isinstance(message, messages.JobInitialized):
            if message.error:
                master.fail(f"{task_manager.name}: {message.error}", now_ns=now_ns)
                return
            task_manager.state = TaskManagerState.READY
            master.register(task_manager.index, now_ns=now_ns)
        elif isinstance(message, messages.TaskStateChanged):
            if message.state is ExecutionState.FAILED:
                self.failed.append((task_manager, message))
            else:
                master.update_state(message, now_ns=now_ns)
        elif isinstance(message, messages.OutputConsumable):
            master.schedule_consumers(message.attempt_id, message.output, now_ns=now_ns)
        elif isinstance(message, RequestPartitionState):
            task_manager.send(master.partition_state(message))
        elif isinstance(message, RequestNextInputSplit):
            splits = master.splits.next(message.attempt_id, message.operator_id)
            task_manager.send(NextInputSplit(message.attempt_id, message.operator_id, splits))
        elif isinstance(message, messages.JobAnswer):
            if job.checkpoints is not None:
                self._send_commands(job, job.checkpoints.receive(message.answer, now_ns=now_ns))
        else:
            job.receive(task_manager, message, now_ns)

    def _send_commands(self, job: JobLead, commands: Iterable[Command]) -> None:
        for command in commands:
            self.task_managers.send_to_all(messages.JobCommand(job.id, command))

    def _deploy(self, job: JobLead, deployment: Deployment) -> None:
        tasks = deployment.tasks
        job.is_deployed = True
        readers: dict[int, dict[str, tuple[int, int]]] = {}
        for channel in deployed_channels(tasks):
            if not channel.is_local:
                expected = readers.setdefault(channel.producer_task_manager, {})
                expected[channel.receiver_id.hex()] = channel.index, channel.consumer_task_manager
        for index, expected in readers.items():
            self._outbox.announce(index, job.id, expected)
        for task in tasks:
            reader, channels = task.task_manager, deployed_channels([task])
            sources = {each.producer_task_manager for each in channels if not each.is_local}
            addresses = {at: self.task_managers.address_of(at, reader) for at in sources}
            sent = messages.SubmitTask(job.without_known(task), addresses, job.start)
            self._outbox.send(task.task_manager, sent)


def take_all(items: list[Any]) -> list[Any]:
    found = list(items)
    items.clear()
    return found
