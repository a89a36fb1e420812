"""JobManager: the process that has the cluster of a job in its hands. Dispatcher, job master and
resource manager in one (Flink: a per-job ClusterEntrypoint).

It starts the TaskManagers, takes one job from a client, lets `JobMaster` decide what happens to it,
writes the results, and leaves no process behind.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import sys
import traceback
from collections.abc import Iterable
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from flinknet.errors import FlinknetError
from flinknet.graph import execution_graph_of, job_graph_of, load_program
from flinknet.graph.job_config import job_config
from flinknet.job.checkpoint_coordinator import Answer, CheckpointCoordinator, Command
from flinknet.results import JobStatus, Strangers, Warning
from flinknet.trace.run_directory import seal_run

from ..clock import monotonic_ns, timestamp_epoch_ns, wall_clock_iso
from ..event_loop import EventLoop
from ..metrics_log import MetricsLog
from . import control_messages as say
from .child import JobManagerSpec
from .cluster_process import TaskManagerProcess, TaskManagerState
from .control_connection import ControlConnection
from .control_server import LOOPBACK, ControlServer
from .job_files import (
    CONTACT_NAME,
    Contact,
    Instants,
    result_of,
    save_manifest,
    save_result,
    spill_directory,
)
from .job_master import Deployment, JobMaster
from .job_state import Failure, JobState
from .job_status import status_of
from .measurements import Measurements
from .outbox import Outbox
from .resource_manager import ResourceManager

START_DELAY_NS = 100_000_000
"""From the deployment to the first generated record, so that every task runs by then."""

CLIENT_WAIT_NS = 60_000_000_000
"""How long a JobManager waits for a job before it gives up."""

CLOSE_WAIT_NS = 10_000_000_000
"""How long TaskManagers may take to end their traces."""

FAULTS_LOGGED = 100
"""Connections that broke the protocol; anybody on this machine can make more of them."""

TURN_NS = 200_000_000
"""A process that ends without a word is noticed this late at most."""


@dataclass(slots=True)
class _Job:
    """The job that was submitted."""

    submission: say.SubmitJob
    master: JobMaster
    run: str
    submitted_ns: int
    epoch_ns: int
    warnings: tuple[Warning, ...]
    checkpoints: CheckpointCoordinator | None = None
    first_deployed_ns: int | None = None
    start_ns: int = 0
    ended_ns: int | None = None


class JobManager:
    """Everything the process owns."""

    def __init__(self, spec: JobManagerSpec) -> None:
        self._spec = spec
        self._run_dir = Path(spec.run_dir)
        self._config, _ = job_config(spec.settings)
        self._loop = EventLoop(may_spin=False)
        self._server = ControlServer(self._loop, spec.token)
        self.port = self._server.port
        self._task_managers = ResourceManager(spec, self._config)
        self._outbox = Outbox(lambda index, message: self._task_managers[index].send(message))
        self._job: _Job | None = None
        self._submitter: ControlConnection | None = None
        self._measurements = Measurements()
        self._closing_since_ns: int | None = None
        self._end: say.JobEnded | None = None
        self._began_ns = monotonic_ns()
        self._started_at = wall_clock_iso()
        self._is_terminated = False
        self._closed: list[say.TraceClosed] = []
        self._faults = 0
        self._metrics_log = MetricsLog(self._run_dir) if spec.records_trace else None

    def run(self) -> None:
        """From the first TaskManager to the last."""
        signal.signal(signal.SIGTERM, self._terminate)
        try:
            spill_directory(self._run_dir).mkdir(exist_ok=True)
            self._task_managers.start(self._server.port)
            while self._end is None:
                self._loop.run_once(until_ns=self._next_deadline_ns())
                self._turn(monotonic_ns())
        finally:
            self._shut_down()

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self._is_terminated = True

    def _next_deadline_ns(self) -> int:
        due = [monotonic_ns() + TURN_NS]
        wanted = [self._task_managers.next_deadline_ns()]
        if self._job is not None:
            wanted.append(self._job.master.next_deadline_ns())
            if self._job.checkpoints is not None and self._job.master.is_running:
                wanted.append(self._job.checkpoints.next_deadline_ns())
        due += [each for each in wanted if each is not None]
        return min(due)

    def _turn(self, now_ns: int) -> None:
        for connection in list(self._server.connections):
            self._read(connection, now_ns)
        self._server.forget_unknown(now_ns=now_ns)
        for task_manager, reason in self._task_managers.advance(now_ns=now_ns):
            self._lose(task_manager, reason, now_ns)
        if self._is_terminated:
            self._cancel("the JobManager was told to end", now_ns)
        job = self._job
        if job is not None:
            job.master.handle_deadline(now_ns=now_ns)
            if job.checkpoints is not None:
                self._lead_checkpoints(job.checkpoints, job.master, now_ns)
            self._carry_out(job, now_ns)
            if job.master.state.is_terminal:
                self._close(job, now_ns)
        elif self._end is None and now_ns - self._began_ns > CLIENT_WAIT_NS:
            self._end = say.JobEnded("FAILED", "no client has submitted a job", 1)

    def _read(self, connection: ControlConnection, now_ns: int) -> None:
        while connection.received:
            message = connection.received.popleft()
            if connection.peer_role == "client":
                self._receive_from_client(connection, message, now_ns)
            else:
                self._receive_from_task_manager(connection, message, now_ns)
        if connection.loss is not None:
            self._server.connections.remove(connection)
            if connection.fault is not None:
                self._log_fault(connection.peer, connection.fault)
            job = self._job
            if connection is self._submitter and job is not None and job.submission.is_attached:
                self._cancel("its client has gone", now_ns)

    def _receive_from_client(
        self, connection: ControlConnection, message: Any, now_ns: int
    ) -> None:
        if isinstance(message, say.SubmitJob):
            if self._job is not None:
                connection.send(say.Refused("this cluster has a job already"))
                connection.close()
                return
            self._submitter = connection
            self._submit(connection, message, now_ns)
        elif isinstance(message, say.RequestStatus):
            connection.send(self._status(now_ns))
        elif isinstance(message, say.CancelJob):
            self._cancel("it was canceled", now_ns)

    def _submit(self, connection: ControlConnection, message: say.SubmitJob, now_ns: int) -> None:
        run = secrets.token_hex(8)
        try:
            with redirect_stdout(sys.stderr):  # what the program prints is no part of the protocol
                program = load_program(
                    Path(message.path), message.settings, message.arguments, source=message.source
                )
            graph = execution_graph_of(job_graph_of(program.stream_graph), run)
            master = JobMaster(graph, self._spec.task_managers, self._spec.slots, now_ns=now_ns)
        except FlinknetError as error:
            self._end = say.JobEnded("FAILED", str(error), error.exit_code)
            return
        epoch_ns = timestamp_epoch_ns()
        self._job = _Job(message, master, run, now_ns, epoch_ns, program.warnings)
        name = graph.job.name
        Contact(LOOPBACK, self.port, os.getpid(), self._spec.token, run, name).save(self._run_dir)
        connection.send(say.JobAccepted(run, name))
        for task_manager in self._task_managers:
            if task_manager.state is TaskManagerState.REGISTERED:
                self._initialize(task_manager)

    def _initialize(self, task_manager: TaskManagerProcess) -> None:
        job = self._job
        assert job is not None
        task_manager.send(say.InitializeJob(job.submission, job.run, job.epoch_ns))

    def _receive_from_task_manager(
        self, connection: ControlConnection, message: Any, now_ns: int
    ) -> None:
        job = self._job
        if isinstance(message, say.RegisterTaskManager):
            registered = self._task_managers.register(connection, message, now_ns=now_ns)
            if registered is not None and job is not None:
                self._initialize(registered)
            return
        task_manager = self._task_managers.speaker(connection, message, now_ns=now_ns)
        if task_manager is None:
            return
        if isinstance(message, say.TraceClosed):
            task_manager.has_closed_trace = True
            self._closed.append(message)
            self._measurements.close(message)
        if job is None:
            return
        if isinstance(message, say.JobInitialized):
            task_manager.state = TaskManagerState.READY
            job.master.register(task_manager.index, now_ns=now_ns)
        elif isinstance(message, say.ReadersExpected):
            self._outbox.answered(task_manager.index)
        elif isinstance(message, say.TaskStateChanged):
            self._task_state_changed(job, message, now_ns)
        elif isinstance(message, say.Statistics):
            self._measurements.add(task_manager.index, message)
            if self._metrics_log is not None and message.tasks:
                named = self._measurements.named(job.master.graph, message)
                self._metrics_log.add(task_manager.index, named, now_ns=message.at_ns)
        elif isinstance(message, Answer) and job.checkpoints is not None:
            self._tell_tasks(job.checkpoints.receive(message, now_ns=now_ns))

    def _task_state_changed(self, job: _Job, message: say.TaskStateChanged, now_ns: int) -> None:
        failure = Failure(message.error, message.is_consequence) if message.error else None
        job.master.update_state(message.attempt_id, message.state, failure, now_ns=now_ns)

    def _lead_checkpoints(
        self, checkpoints: CheckpointCoordinator, master: JobMaster, now_ns: int
    ) -> None:
        """Checkpoints begin while every task runs or has finished; one that is pending when tasks
        begin again is given up.
        """
        if master.is_running:
            self._tell_tasks(checkpoints.advance(now_ns=now_ns, finished=master.finished))
        else:
            self._tell_tasks(checkpoints.give_up())

    def _tell_tasks(self, commands: Iterable[Command]) -> None:
        for command in commands:
            self._task_managers.tell_all(command)

    def _lose(self, task_manager: TaskManagerProcess, reason: str, now_ns: int) -> None:
        """A TaskManager is gone: the process too, whatever it still does."""
        self._log(reason)
        self._task_managers.lose(task_manager)
        self._outbox.lose(task_manager.index)
        if self._job is not None:
            self._job.master.lose(task_manager.index, reason, now_ns=now_ns)
        else:
            self._end = say.JobEnded("FAILED", f"{reason}; see {task_manager.name}.log", 1)

    def _carry_out(self, job: _Job, now_ns: int) -> None:
        """Do what the parts that decide have decided."""
        master = job.master
        for index, reason in _taken(master.to_end):
            self._lose(self._task_managers[index], reason, now_ns)
        for deployment in _taken(master.deployments):
            self._deploy(job, deployment, now_ns)
        for index, message in _taken(master.to_tell):
            self._outbox.tell(index, message)

    def _deploy(self, job: _Job, deployment: Deployment, now_ns: int) -> None:
        tasks = deployment.tasks
        if job.first_deployed_ns is None:
            self._begin(job, deployment, now_ns)
        self._measurements.deploy(deployment.plan, tasks)
        self._save_manifest(job)
        readers: dict[int, dict[str, int]] = {}
        for task in tasks:
            for gate in task.inputs:
                for channel in gate.channels:
                    if not channel.is_local:
                        told = readers.setdefault(channel.task_manager, {})
                        told[channel.receiver_id.hex()] = channel.index
        for index, told in readers.items():
            self._outbox.announce(index, told)
        duration_ns = job.submission.duration_ns
        begin_ns = job.start_ns + job.submission.warmup_ns
        for task in tasks:
            sources = {
                channel.task_manager for gate in task.inputs for channel in gate.channels
            } - {task.task_manager}
            self._outbox.tell(
                task.task_manager,
                say.SubmitTask(
                    task,
                    {at: self._task_managers[at].address for at in sources},
                    max(job.start_ns, now_ns),
                    begin_ns,
                    None if duration_ns is None else begin_ns + duration_ns,
                ),
            )

    def _begin(self, job: _Job, deployment: Deployment, now_ns: int) -> None:
        job.first_deployed_ns = now_ns
        job.start_ns = now_ns + START_DELAY_NS
        measured_from_ns = job.start_ns + job.submission.warmup_ns
        self._measurements.deployed_ns = now_ns
        self._measurements.start_ns = job.start_ns
        self._measurements.measured_from_ns = measured_from_ns
        config = job.master.graph.job.config
        if config.checkpoint_interval_ns is not None and deployment.plan.stages == 1:
            job.checkpoints = CheckpointCoordinator(
                [str(each.id) for each in job.master.graph.subtasks()],
                interval_ns=config.checkpoint_interval_ns,
                timeout_ns=config.network.checkpoint_timeout_ns,
                start_ns=job.start_ns,
                epoch_ns=job.epoch_ns,
            )

    def _cancel(self, reason: str, now_ns: int) -> None:
        if self._job is not None:
            self._job.master.cancel(reason, now_ns=now_ns)
        elif self._end is None:
            self._end = say.JobEnded("CANCELED", reason, 1)

    def _close(self, job: _Job, now_ns: int) -> None:
        """The job is over: let traces be closed, then save everything."""
        if self._closing_since_ns is None:
            self._closing_since_ns = job.ended_ns = now_ns
            self._task_managers.tell_all(say.CloseTrace())
        waiting = [
            each
            for each in self._task_managers
            if each.is_alive and each.connection is not None and not each.has_closed_trace
        ]
        if waiting and now_ns - self._closing_since_ns < CLOSE_WAIT_NS:
            return
        master = job.master
        text = "" if master.state is JobState.FINISHED else master.reason
        is_well = master.state is JobState.FINISHED
        fault = self._save_all(job)
        if fault is not None:
            is_well = False
            text = f"{text}; {fault}".lstrip("; ")
        self._end = say.JobEnded(master.state.name, text, int(not is_well))

    def _save_manifest(self, job: _Job) -> None:
        if self._spec.records_trace:
            save_manifest(
                self._run_dir,
                job.submission,
                job.master,
                self._measurements,
                self._task_managers,
                self._instants(job),
            )

    def _save_all(self, job: _Job) -> str | None:
        """Save what the job left. Returns: what went wrong."""
        try:
            self._save_result(job)
        except (FlinknetError, OSError) as error:
            return f"the results could not be saved: {error}"
        if self._spec.records_trace and job.first_deployed_ns is not None:
            try:
                seal_run(self._run_dir)
            except (FlinknetError, OSError) as error:
                return f"its trace is not complete: {error}"
        return None

    def _save_result(self, job: _Job) -> None:
        if job.first_deployed_ns is not None:
            self._save_manifest(job)
        faults = [each.error for each in self._closed if each.error is not None]
        if self._metrics_log is not None and self._metrics_log.error is not None:
            faults.append(self._metrics_log.error)
        strangers = sum((each.strangers for each in self._closed), Strangers())
        visited = [each for each in (strangers.warning(),) if each is not None]
        result = result_of(
            job.submission,
            job.run,
            job.master,
            self._measurements,
            self._task_managers,
            self._spec.slots,
            None if job.checkpoints is None else job.checkpoints.summary(),
            self._instants(job),
            [*job.warnings, *visited, *(Warning("trace-incomplete", each) for each in faults)],
            str(self._run_dir) if self._spec.records_trace else None,
        )
        save_result(self._run_dir, result)

    def _instants(self, job: _Job) -> Instants:
        return Instants(
            self._started_at,
            job.first_deployed_ns,
            self._measurements.measured_from_ns,
            job.ended_ns,
        )

    def _status(self, now_ns: int) -> JobStatus:
        job = self._job
        master = None if job is None else job.master
        task_managers = self._task_managers.status(
            (lambda index: 0) if master is None else master.slots_in_use, now_ns=now_ns
        )
        if job is None:
            return JobStatus("", "", "CREATED", "", 0, 0, 0, (), task_managers)
        return status_of(
            job.run,
            job.master,
            self._measurements,
            task_managers,
            elapsed_ns=(job.ended_ns or now_ns) - job.submitted_ns,
            checkpoints=0 if job.checkpoints is None else job.checkpoints.completed,
        )

    def _shut_down(self) -> None:
        """End every process, and tell the clients how it ended."""
        self._task_managers.tell_all(say.Disconnect())
        self._flush()
        self._task_managers.end()
        if self._metrics_log is not None:
            self._metrics_log.close()
        shutil.rmtree(spill_directory(self._run_dir), ignore_errors=True)
        for pattern in ("*.log", "*.out"):
            for path in self._run_dir.glob(pattern):
                with suppress(OSError):
                    if not path.stat().st_size:  # nobody said anything
                        path.unlink()
        with suppress(OSError):
            (self._run_dir / CONTACT_NAME).unlink(missing_ok=True)
        end = self._end or say.JobEnded("FAILED", "the JobManager failed; see jobmanager.log", 1)
        for connection in self._server.connections:
            if connection.peer_role == "client":
                connection.send(end)
                connection.close()
        self._flush()
        self._server.close()
        self._loop.close()

    def _flush(self) -> None:
        """Send what waits to be sent, as far as sockets take it now."""
        for transport in list(self._loop.transports):
            transport.pump()

    def _log_fault(self, peer: str, fault: str) -> None:
        """Note what was refused, as long as the log does not grow by it without end."""
        self._faults += 1
        if self._faults <= FAULTS_LOGGED:
            last = "; further ones are not logged" if self._faults == FAULTS_LOGGED else ""
            self._log(f"closed the control connection from {peer}: {fault}{last}")

    def _log(self, text: str) -> None:
        print(f"{wall_clock_iso()} {text}", file=sys.stderr, flush=True)


def _taken(items: list[Any]) -> list[Any]:
    """What is in a list, which is empty afterwards."""
    found = list(items)
    items.clear()
    return found


def run_job_manager(spec: JobManagerSpec) -> None:
    """Entry of the process: tells its port on standard output, then runs."""
    try:
        manager = JobManager(spec)
    except (FlinknetError, OSError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    print(json.dumps({"port": manager.port}), flush=True)
    try:
        manager.run()
    except Exception:  # a bug; the log shows it
        traceback.print_exc()
