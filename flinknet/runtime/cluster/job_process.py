"""JobManagerProcess: the process that has the cluster of a job in its hands (Flink: a per-job
ClusterEntrypoint with its Dispatcher).

It starts the TaskManagers, takes one job from a client, writes the results, and leaves no process
behind.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import sys
import traceback
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from flinknet.errors import FlinknetError
from flinknet.graph import execution_graph_of, job_graph_of, load_program
from flinknet.graph.execution_graph import initialize_on_master
from flinknet.graph.job_config import job_config
from flinknet.job.checkpoint_coordinator import CheckpointCoordinator
from flinknet.results import JobStatus, RunWarning, TaskManagerDump
from flinknet.trace.run_directory import seal_run

from ..clock import monotonic_ns, timestamp_epoch_ns, wall_clock_iso
from ..metrics_log import MetricsLog
from . import control_messages as say
from .child import JobManagerSpec
from .cluster_process import TaskManagerProcess
from .control_connection import ControlConnection
from .control_server import LOOPBACK
from .dumps import DumpRound
from .job_files import (
    CONTACT_NAME,
    Contact,
    Instants,
    result_of,
    save_manifest,
    save_result,
    spill_directory,
)
from .job_manager import JobManager, log, taken
from .job_master import Deployment, JobMaster
from .job_state import JobState
from .job_status import status_of
from .measurements import Measurements
from .resource_manager import ClusterSpec

START_DELAY_NS = 100_000_000
"""From the deployment to the first generated record, so that every task runs by then."""

CLIENT_WAIT_NS = 60_000_000_000
"""How long a JobManager waits for a job before it gives up."""

CLOSE_WAIT_NS = 10_000_000_000
"""How long TaskManagers may take to end their traces."""


@dataclass(slots=True)
class _Job:
    """The job that was submitted."""

    submission: say.SubmitJob
    master: JobMaster
    run: str
    submitted_ns: int
    epoch_ns: int
    warnings: tuple[RunWarning, ...]
    first_deployed_ns: int | None = None
    ended_ns: int | None = None

    @property
    def name(self) -> str:
        """Of the program."""
        return self.master.graph.job.name


class JobManagerProcess:
    """Everything the process owns."""

    def __init__(self, spec: JobManagerSpec) -> None:
        self._spec = spec
        self._run_dir = Path(spec.run_dir)
        config, _ = job_config(spec.settings)
        self._manager = JobManager(
            ClusterSpec(
                spec.token,
                spec.task_managers,
                spec.slots,
                config.network,
                config.flow_control,
                config.heartbeat_interval_ns,
                config.heartbeat_timeout_ns,
                spill_directory(self._run_dir),
                self._run_dir if spec.records_trace else None,
                self._run_dir,
            )
        )
        self.port = self._manager.port
        self._task_managers = self._manager.task_managers
        self._job: _Job | None = None
        self._submitter: ControlConnection | None = None
        log = MetricsLog(self._run_dir) if spec.records_trace else None
        self._measurements = Measurements(log)
        self._closing_since_ns: int | None = None
        self._end: say.JobEnded | None = None
        self._began_ns = monotonic_ns()
        self._started_at = wall_clock_iso()
        self._is_terminated = False
        self._dumps: list[DumpRound] = []

    def run(self) -> None:
        """From the first TaskManager to the last."""
        signal.signal(signal.SIGTERM, self._terminate)
        try:
            spill_directory(self._run_dir).mkdir(exist_ok=True)
            self._manager.start_task_managers()
            while self._end is None:
                self._turn(self._manager.run_once())
        finally:
            self._shut_down()

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self._is_terminated = True

    def _turn(self, now_ns: int) -> None:
        for connection in list(self._manager.clients):
            self._read(connection, now_ns)
        for task_manager, message in taken(self._manager.received):
            self._receive(task_manager, message)
        for task_manager, message in taken(self._manager.failed):
            if isinstance(message, say.TaskStateChanged):
                self._manager.fail(message, now_ns)
            else:
                if not message.kind:  # the traceback of a bug
                    log(message.error)
                *_, text = message.error.splitlines()
                self._lose(task_manager, f"{task_manager.name}: {text}", "jobmanager.log", now_ns)
        for task_manager, reason in taken(self._manager.lost):
            self._lose(task_manager, reason, f"{task_manager.name}.log", now_ns)
        for dump in list(self._dumps):
            contact = ("", "") if self._job is None else (self._job.run, self._job.name)
            if (answer := dump.answer(*contact)) is not None:
                dump.client.send(answer)
                self._dumps.remove(dump)
        if self._is_terminated:
            self._cancel("the JobManager was told to end", now_ns)
        job = self._job
        if job is not None:
            for deployment in self._manager.advance(now_ns):
                self._deploy(job, deployment, now_ns)
            self._manager.carry_out(now_ns)
            if job.master.state.is_terminal:
                self._close(job, now_ns)
        elif self._end is None and now_ns - self._began_ns > CLIENT_WAIT_NS:
            self._end = say.JobEnded("FAILED", "no client has submitted a job", 1)

    def _read(self, connection: ControlConnection, now_ns: int) -> None:
        while connection.received:
            self._receive_from_client(connection, connection.received.popleft(), now_ns)
        if connection.loss is not None:
            self._manager.clients.remove(connection)
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
        elif isinstance(message, say.RequestDump):
            self._dumps.append(DumpRound(connection, self._task_managers))
        elif isinstance(message, say.CancelJob):
            self._cancel("it was canceled", now_ns)

    def _submit(self, connection: ControlConnection, message: say.SubmitJob, now_ns: int) -> None:
        run = secrets.token_hex(8)
        try:
            with redirect_stdout(sys.stderr):  # what the program prints is no part of the protocol
                program = load_program(
                    Path(message.path), message.settings, message.arguments, source=message.source
                )
            job_graph = job_graph_of(program.stream_graph)
            initialize_on_master(job_graph)
            warnings = list(program.warnings)
            graph = execution_graph_of(
                job_graph, run, warn=lambda text: warnings.append(RunWarning("no-json-plan", text))
            )
            master = JobMaster(graph, self._spec.task_managers, self._spec.slots, now_ns=now_ns)
        except FlinknetError as error:
            self._end = say.JobEnded("FAILED", str(error), error.exit_code)
            return
        self._job = _Job(message, master, run, now_ns, timestamp_epoch_ns(), tuple(warnings))
        name = graph.job.name
        Contact(LOOPBACK, self.port, os.getpid(), self._spec.token, run, name).save(self._run_dir)
        connection.send(say.JobAccepted(run, name))
        self._manager.submit(message, master)

    def _receive(self, task_manager: TaskManagerProcess, message: Any) -> None:
        job = self._job
        if isinstance(message, say.Report):
            task_manager.has_closed_trace = True
            self._measurements.close(task_manager.index, message)
        elif isinstance(message, TaskManagerDump):
            for each in self._dumps:
                each.take(message)
        elif isinstance(message, say.Statistics) and job is not None:
            self._measurements.add(task_manager.index, message)

    def _lose(
        self, task_manager: TaskManagerProcess, reason: str, log_name: str, now_ns: int
    ) -> None:
        self._manager.lose(task_manager, reason, now_ns)
        if self._job is None:
            self._end = say.JobEnded("FAILED", f"{reason}; see {log_name}", 1)

    def _deploy(self, job: _Job, deployment: Deployment, now_ns: int) -> None:
        if job.first_deployed_ns is None:
            self._begin(job, deployment, now_ns)
        self._measurements.deploy(deployment.plan, deployment.tasks)
        self._save_manifest(job)

    def _begin(self, job: _Job, deployment: Deployment, now_ns: int) -> None:
        job.first_deployed_ns = now_ns
        start_ns = now_ns + START_DELAY_NS
        measured_from_ns = start_ns + job.submission.warmup_ns
        duration_ns = job.submission.duration_ns
        end_ns = None if duration_ns is None else measured_from_ns + duration_ns
        self._manager.start = say.Start(start_ns, measured_from_ns, None, end_ns, job.epoch_ns)
        self._measurements.deployed_ns = now_ns
        self._measurements.start_ns = start_ns
        self._measurements.measured_from_ns = measured_from_ns
        config = job.master.graph.job.config
        if config.checkpoint_interval_ns is not None and deployment.plan.stages == 1:
            self._manager.checkpoints = CheckpointCoordinator(
                [str(each.id) for each in job.master.graph.subtasks()],
                interval_ns=config.checkpoint_interval_ns,
                timeout_ns=config.network.checkpoint_timeout_ns,
                start_ns=start_ns,
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
        checkpoints = self._manager.checkpoints
        result = result_of(
            job.submission,
            job.run,
            job.master,
            self._measurements,
            self._task_managers,
            self._spec.slots,
            None if checkpoints is None else checkpoints.summary(),
            self._instants(job),
            [*job.warnings, *self._measurements.warnings()],
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
        checkpoints = self._manager.checkpoints
        return status_of(
            job.run,
            job.master,
            self._measurements,
            task_managers,
            elapsed_ns=(job.ended_ns or now_ns) - job.submitted_ns,
            checkpoints=0 if checkpoints is None else checkpoints.completed,
        )

    def _shut_down(self) -> None:
        """End every process, and tell the clients how it ended."""
        self._manager.end_task_managers()
        if self._measurements.metrics_log is not None:
            self._measurements.metrics_log.close()
        shutil.rmtree(spill_directory(self._run_dir), ignore_errors=True)
        for pattern in ("*.log", "*.out"):
            for path in self._run_dir.glob(pattern):
                with suppress(OSError):
                    if not path.stat().st_size:  # nobody said anything
                        path.unlink()
        with suppress(OSError):
            (self._run_dir / CONTACT_NAME).unlink(missing_ok=True)
        end = self._end or say.JobEnded("FAILED", "the JobManager failed; see jobmanager.log", 1)
        for connection in self._manager.clients:
            connection.send(end)
            connection.close()
        self._manager.close()


def run_job_manager(spec: JobManagerSpec) -> None:
    """Entry of the process: tells its port on standard output, then runs."""
    try:
        process = JobManagerProcess(spec)
    except (FlinknetError, OSError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    print(json.dumps({"port": process.port}), flush=True)
    try:
        process.run()
    except Exception:  # a bug; the log shows it
        traceback.print_exc()
