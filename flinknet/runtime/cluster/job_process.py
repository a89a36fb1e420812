"""JobManagerProcess: the process of a JobManager (Flink: ClusterEntrypoint with its Dispatcher).

It starts the TaskManagers, accepts jobs from clients, and leaves no process behind. A cluster that
was started for a job ends with it, or with the last job that joined it; a session ends on command.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from flinknet.core.wire.ids import ExecutionGraphID
from flinknet.errors import FlinknetError
from flinknet.graph.job_config import job_config
from flinknet.loopback import loopback
from flinknet.results import ClusterStatus, JobDump, TaskManagerDump

from ..clock import monotonic_ns
from . import control_messages as messages
from .cluster_process import JobManagerSpec, TaskManagerProcess, TaskManagerProcessSpec, log
from .control_connection import ControlConnection
from .job_files import CONTACT_NAME, Contact, joined_settings
from .job_manager import JobManager, take_all
from .job_master import NEVER_NS
from .resource_manager import ClusterSpec
from .submitted_job import SubmittedJob, remove_empty

CLIENT_WAIT_NS = 60_000_000_000
"""How long a JobManager without a session waits for a job before it gives up."""


CANCEL_WAIT_NS = 3_000_000_000
"""How long functions may take to return when the cluster ends, or the client of its only job has
gone; then their TaskManagers are ended."""


TERMINATED = "the JobManager received a request to end"


class DumpRound:
    """One client's request for a dump, until every TaskManager alive has answered."""

    def __init__(
        self, client: ControlConnection, task_managers: Iterable[TaskManagerProcess]
    ) -> None:
        self.client = client
        self.answers: dict[int, TaskManagerDump] = {}
        self._asked = [each for each in task_managers if each.is_alive and each.connection]
        for each in self._asked:
            each.send(messages.DescribeTasks())

    def answer(self, graph: ExecutionGraphID) -> tuple[TaskManagerDump, ...] | None:
        """The job's part of all dumps; None while an answer is missing."""
        if any(each.is_alive and each.index not in self.answers for each in self._asked):
            return None
        found, job = [], str(graph)
        for _, dump in sorted(self.answers.items()):
            tasks = (x for x in dump.tasks if x.attempt_id.startswith(job))
            kept = (x for x in dump.kept_partitions if x.id.partition("@")[2].startswith(job))
            found.append(replace(dump, tasks=tuple(tasks), kept_partitions=tuple(kept)))
        return tuple(found)


class JobManagerProcess:
    """The state of the process."""

    def __init__(self, spec: JobManagerSpec) -> None:
        self._spec = spec
        self._run_dir = Path(spec.run_dir)
        config, _ = job_config(spec.settings)
        task_manager = TaskManagerProcessSpec(
            *(spec.token, spec.task_managers, spec.slots, config.network, config.flow_control),
            config.heartbeat_timeout_ns,
        )
        interval_ns, log_dir = config.heartbeat_interval_ns, self._run_dir
        self._manager = JobManager(
            ClusterSpec(task_manager, interval_ns, log_dir, workers=spec.workers)
        )
        self.port = self._manager.port
        here = loopback(), self.port, os.getpid(), spec.token
        self._contact = Contact(*here, "", "", spec.run_dir)
        self._jobs: dict[str, SubmittedJob] = {}
        self._first: SubmittedJob | None = None
        self._last: SubmittedJob | None = None
        self._dumps: list[tuple[DumpRound, SubmittedJob]] = []
        self._began_ns = monotonic_ns()
        self._is_terminated = False
        self._is_over = False
        self._end = messages.JobEnded("FAILED", "the JobManager failed; see jobmanager.log", 1)
        self._stoppers: list[ControlConnection] = []
        self._canceled: tuple[str, ...] = ()

    def run(self) -> None:
        """Start the TaskManagers, run the jobs, and end every process."""
        signal.signal(signal.SIGTERM, lambda *_: self._terminate())
        try:
            self._manager.task_managers.start(self.port)
            if self._spec.is_session:
                self._contact.save(self._run_dir)
            while not self._is_over:
                self._turn(self._manager.run_once())
        except Exception:  # a bug; shown before an empty log is removed
            traceback.print_exc()
        finally:
            self._shut_down()

    def _terminate(self) -> None:
        self._is_terminated = True

    def _turn(self, now_ns: int) -> None:
        for connection in list(self._manager.clients):
            self._read(connection, now_ns)
        for found in take_all(self._manager.dumps):
            for dump, _ in self._dumps:
                dump.answers.setdefault(found.index, found)
        for task_manager, message in take_all(self._manager.failed):
            if isinstance(message, messages.TaskStateChanged):
                self._manager.fail(message, now_ns)
            else:
                if not message.kind:  # the traceback of a bug
                    log(message.error)
                *_, text = message.error.splitlines()
                self._lose(task_manager, f"{task_manager.name}: {text}", "jobmanager.log", now_ns)
        for task_manager, reason in take_all(self._manager.lost):
            self._lose(task_manager, reason, f"{task_manager.name}.log", now_ns)
        for dump, job in list(self._dumps):
            if (found := dump.answer(job.id)) is not None:
                dump.client.send(JobDump(job.job_id, job.name, found))
                self._dumps.remove((dump, job))
        if self._is_terminated:
            self._cancel_all(TERMINATED, now_ns)
        for job in list(self._jobs.values()):
            job.turn(now_ns=now_ns)
            if job.end is not None:
                self._ended(job, job.end)
        if self._jobs:
            return
        if self._is_terminated or self._stoppers:
            self._is_over = True
            if self._first is None:
                self._end = messages.JobEnded("CANCELED", TERMINATED, 1)
        elif now_ns - self._began_ns > CLIENT_WAIT_NS:
            self._give_up("no client has submitted a job")

    def _give_up(self, reason: str, exit_code: int = 1) -> None:
        if not self._spec.is_session and not self._jobs:
            self._is_over, self._end = True, messages.JobEnded("FAILED", reason, exit_code)

    def _ended(self, job: SubmittedJob, end: messages.JobEnded) -> None:
        """Remove a job that has ended and been saved, and inform its clients."""
        del self._jobs[job.job_id]
        self._dumps = [each for each in self._dumps if each[1] is not job]
        if self._jobs or self._spec.is_session:
            job.tidy()
            for client in job.watchers:
                client.send(end)
            return
        self._is_over, self._end = True, end  # clients are informed when every process has ended
        self._last = job

    def _read(self, connection: ControlConnection, now_ns: int) -> None:
        while connection.received:
            self._receive(connection, connection.received.popleft(), now_ns)
        if connection.loss is not None:
            self._manager.clients.remove(connection)
            for job in self._jobs.values():
                if connection is job.submitter and job.submission.is_attached:
                    self._cancel(job, "its client has gone", CANCEL_WAIT_NS, now_ns)
                if connection in job.watchers:
                    job.watchers.remove(connection)

    def _receive(self, connection: ControlConnection, message: Any, now_ns: int) -> None:
        if isinstance(message, messages.SubmitJob):
            self._submit(connection, message, now_ns)
        elif isinstance(message, messages.RequestCluster):
            connection.send(self._status(now_ns))
        elif isinstance(message, messages.StopCluster):
            self._stop(connection, now_ns)
        elif isinstance(message, messages.JobRequest):
            own = (each for each in self._jobs.values() if each.submitter is connection)
            job = self._jobs.get(message.job_id) if message.job_id else next(own, None)
            if job is not None:
                self._answer(connection, job, message.what, now_ns)
            elif not self._is_over:
                self._refuse(connection, f"it has no job {message.job_id}".rstrip())

    def _answer(
        self, connection: ControlConnection, job: SubmittedJob, what: str, now_ns: int
    ) -> None:
        if connection not in job.watchers:
            job.watchers.append(connection)
        if what == messages.STATUS:
            connection.send(job.status(self._status(now_ns), now_ns=now_ns))
        elif what == messages.DUMP:
            self._dumps.append((DumpRound(connection, self._manager.task_managers), job))
        elif what == messages.STOP:
            if reason := job.stop():
                self._refuse(connection, reason)
        elif what in (messages.CANCEL, messages.HURRY):
            within_ns = 0 if what == messages.HURRY else NEVER_NS
            self._cancel(job, "it was canceled", within_ns, now_ns)
        else:
            self._refuse(connection, "no request about a job")

    def _refuse(self, connection: ControlConnection, reason: str) -> None:
        connection.send(messages.Refused(reason))
        connection.close()

    def _submit(
        self, connection: ControlConnection, message: messages.SubmitJob, now_ns: int
    ) -> None:
        is_joining = self._spec.is_session or self._first is not None
        if self._is_terminated or self._is_over or self._stoppers:
            self._refuse(connection, "its cluster ends")
            return
        first = None if self._spec.is_session else self._first
        if first is not None and first.submission.is_attached:
            self._refuse(
                connection,
                f"its cluster ends with the client of {first.name}, which waits for it; join"
                " that of a detached job, or start one with `flinknet job cluster start`",
            )
            return
        try:
            settings = joined_settings(self._spec.settings, message.settings)
            job = SubmittedJob(
                self._manager,
                replace(message, settings=settings),
                secrets.token_hex(8),
                connection,
                self._contact,
                is_joining=is_joining,
                now_ns=now_ns,
            )
        except Exception as error:  # also for a bug: other jobs go on
            code = error.exit_code if isinstance(error, FlinknetError) else 1
            reason = str(error)
            if not isinstance(error, FlinknetError | OSError):
                reason = f"{type(error).__name__}: {error}; see jobmanager.log"
                log(traceback.format_exc())
            if is_joining:
                connection.send(messages.JobEnded("FAILED", reason, code))
            else:
                self._give_up(reason, code)
            return
        self._first = self._first or job
        self._jobs[job.job_id] = job
        for each in self._jobs.values():
            names = (other.name for other in self._jobs.values() if other is not each)
            each.others.update(dict.fromkeys(names))
        connection.send(messages.JobAccepted(job.job_id, job.name))

    def _stop(self, connection: ControlConnection, now_ns: int) -> None:
        if not self._spec.is_session:
            self._refuse(connection, "its cluster ends with its jobs; cancel those")
            return
        if not self._stoppers:
            self._canceled = tuple(each.name for each in self._jobs.values())
        self._stoppers.append(connection)
        self._cancel_all("its cluster was stopped", now_ns)

    def _cancel(self, job: SubmittedJob, reason: str, within_ns: int, now_ns: int) -> None:
        """Cancel a job, in a shorter time if no other job needs its TaskManagers."""
        is_alone = len(self._jobs) == 1 and not self._spec.is_session
        within_ns = within_ns if is_alone else NEVER_NS
        job.master.cancel(reason, now_ns=now_ns, within_ns=within_ns)

    def _cancel_all(self, reason: str, now_ns: int) -> None:
        for job in self._jobs.values():
            job.master.cancel(reason, now_ns=now_ns, within_ns=CANCEL_WAIT_NS)

    def _lose(self, lost: TaskManagerProcess, reason: str, log_name: str, now_ns: int) -> None:
        self._manager.lose(lost, reason, now_ns)
        self._manager.shared.connections.lose(lost.index)
        self._give_up(f"{reason}; see {log_name}")

    def _status(self, now_ns: int) -> ClusterStatus:
        return ClusterStatus(
            self._spec.is_session,
            self._spec.slots,
            self._spec.settings,
            tuple(each.summary() for each in self._jobs.values()),
            self._manager.task_managers.status(self._manager.shared.slots_in_use, now_ns=now_ns),
        )

    def _shut_down(self) -> None:
        """End every process, and send the clients the final state."""
        self._manager.end_task_managers()
        for job in self._jobs.values():  # of a JobManager that has failed
            job.tidy()
        if self._last is not None:
            self._last.tidy()
        remove_empty(self._run_dir)
        with suppress(OSError):
            (self._run_dir / CONTACT_NAME).unlink(missing_ok=True)
        for connection in self._manager.clients:
            if connection in self._stoppers:
                connection.send(messages.ClusterStopped(self._canceled))
            elif self._jobs or not self._spec.is_session:
                connection.send(self._end)
            connection.close()
        self._manager.close()


def run_job_manager(spec: JobManagerSpec) -> None:
    """Run the process: print its port on standard output, then run."""
    try:
        process = JobManagerProcess(spec)
    except (FlinknetError, OSError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    print(json.dumps({"port": process.port}), flush=True)
    process.run()
