"""JobClient: submits a job to a cluster of its own or to a running one, watches it, and queries
running jobs (Flink: CliFrontend with its ClusterClient).
"""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

import psutil

from flinknet.errors import ConfigError, RunFailedError, TransportError
from flinknet.loopback import loopback
from flinknet.results import ClusterStatus, JobDump, JobStatus
from flinknet.starting import EXIT_INTERRUPTED

from ..clock import monotonic_ns
from ..event_loop import EventLoop
from ..signals import interrupts_noted, raise_dropped_termination, terminations_unwind
from . import control_messages as messages
from .cluster_process import GRACE_S, JOB_MANAGER, JobManagerSpec, start_child
from .control_connection import ControlConnection
from .job_files import CONTACT_NAME, Contact, spill_directory

START_WAIT_S = 30.0
ANSWER_WAIT_S = 10.0
STATUS_INTERVAL_NS = 250_000_000
POLL_S = 0.02
END_WAIT_S = 10.0
"""How long a JobManager may take to end its job before all its processes are killed."""

CANCELING_SAID_NS = 1_000_000_000
"""How long a cancelled job may take before its client says what it waits for."""

DEATH_WAIT_S = 1.0
"""How long to wait for the end of a process after its connection broke."""

_Answer = TypeVar("_Answer")

Watch = Callable[[JobStatus], None]


class RefusedError(TransportError):
    """The JobManager refuses a connection or a command."""


class JobClient:
    """A connection to a JobManager, the `process` if this one has started it. Queries are about the
    job of the contact, or the one that this connection submits. Raises: TransportError if it cannot
    be reached.
    """

    def __init__(self, contact: Contact, process: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = contact.pid
        self.process = process
        self._job_id = contact.job_id
        self._log = contact.log
        self._name = f"the JobManager at {contact.host}:{contact.port} (pid {contact.pid})"
        self._loop = EventLoop(may_spin=False)
        self._connection = ControlConnection(contact.token, role="client")
        try:
            sock = socket.create_connection((contact.host, contact.port), timeout=5)
        except OSError as error:
            self._loop.close()
            raise self._lost(f"cannot be reached ({error.strerror or error})") from error
        self._loop.add_transport(sock, self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.close()

    def send(self, message: Any) -> None:
        self._connection.send(message)

    def receive(self, *, until_ns: int) -> Any:
        """Return the next message, or None if none came in time. Raises: TransportError if the
        JobManager is gone, refuses, or has closed the connection.
        """
        received = self._connection.received
        while not received:
            raise_dropped_termination()
            if self._connection.loss is not None:
                raise self._lost(f"does not answer: the connection {self._connection.loss}")
            if monotonic_ns() >= until_ns:
                return None
            self._loop.run_once(until_ns=until_ns)
        message = received.popleft()
        if isinstance(message, messages.Refused):
            raise RefusedError(f"the JobManager refuses: {message.reason}")
        return message

    def status(self) -> JobStatus:
        return self._ask(messages.JobRequest(messages.STATUS, self._job_id), JobStatus)

    def dump(self) -> JobDump:
        return self._ask(messages.JobRequest(messages.DUMP, self._job_id), JobDump)

    def cluster(self) -> ClusterStatus:
        return self._ask(messages.RequestCluster(), ClusterStatus)

    def _ask(
        self, question: object, kind: type[_Answer], wait_s: float = 0.0, what: str = "answered"
    ) -> _Answer:
        self.send(question)
        wait_s = wait_s or ANSWER_WAIT_S
        until_ns = _after_ns(wait_s)
        while (message := self.receive(until_ns=until_ns)) is not None:
            if isinstance(message, kind):
                return message
        raise self._lost(f"has not {what} within {wait_s:g} s")

    def cancel(
        self, waits: Callable[[str], None] | None = None, *, is_own: bool = False
    ) -> messages.JobEnded:
        """Cancel the job and wait for its end. A Ctrl-C meanwhile ends an own job without waiting
        for functions to return. `waits` is called once if the job does not end soon, with what it
        waits for. Raises: TransportError; KeyboardInterrupt of a further Ctrl-C.
        """
        return self._end(messages.CANCEL, waits, is_own=is_own)

    def stop(self, waits: Callable[[str], None] | None = None) -> messages.JobEnded:
        """Stop the job's sources; see `cancel`. Raises: ConfigError, too, if that is impossible."""
        try:
            return self._end(messages.STOP, waits)
        except RefusedError as error:
            raise ConfigError(str(error)) from None

    def _end(
        self, command: str, waits: Callable[[str], None] | None, *, is_own: bool = False
    ) -> messages.JobEnded:
        self.send(messages.JobRequest(command, self._job_id))
        heard_ns = next_ns = monotonic_ns()
        said_ns, patience_ns = heard_ns + CANCELING_SAID_NS, round(END_WAIT_S * 2e9)
        with interrupts_noted(and_terminations=False) as interrupts:
            while (now_ns := monotonic_ns()) - heard_ns < patience_ns:
                if now_ns >= next_ns:
                    self.send(messages.JobRequest(messages.STATUS, self._job_id))
                    next_ns = now_ns + STATUS_INTERVAL_NS
                message = self.receive(until_ns=next_ns)
                if isinstance(message, messages.JobEnded):
                    return message
                heard_ns = heard_ns if message is None else monotonic_ns()
                if isinstance(message, JobStatus) and waits is not None and heard_ns > said_ns:
                    waits(message.reason or "has not processed all records yet")
                    waits = None
                if interrupts:
                    if not is_own:
                        raise KeyboardInterrupt
                    self.send(messages.JobRequest(messages.HURRY, self._job_id))
                    interrupts.clear()
                    is_own = False
        raise self._lost(f"has not ended the job within {END_WAIT_S * 2:g} s")

    def stop_cluster(self) -> messages.ClusterStopped:
        """Stop a session with its jobs and wait for the end. Raises: TransportError."""
        kind = messages.ClusterStopped
        return self._ask(messages.StopCluster(), kind, END_WAIT_S * 2, "ended the cluster")

    def _lost(self, what: str) -> TransportError:
        """The error for a missing answer: the process has died, or it runs and `what` happened."""
        if _wait(lambda: not _is_job_manager(self.pid), DEATH_WAIT_S):
            return TransportError(
                f"the JobManager (pid {self.pid}) has died; its TaskManagers end with it. See"
                f" {self._log}"
            )
        again = "try again"
        if self._connection.welcome is None:
            again += " (or it runs another release of flinknet: stop it with that one)"
        return TransportError(
            f"{self._name} {what}; its process runs: {again}, and see {self._log}"
        )


@contextmanager
def _cluster(place: JobManagerSpec | Contact, *, is_kept: bool) -> Iterator[JobClient]:
    """A client of a running cluster, or of one that is started. At the end, everything left of a
    started one is killed, with the process group of its TaskManagers, unless it is to be kept and
    no error occurred. Raises: TransportError.
    """
    with terminations_unwind(), ExitStack() as stack:
        if isinstance(place, Contact):
            yield stack.enter_context(JobClient(replace(place, job_id="")))
            return
        run_dir = Path(place.run_dir)
        process = start_child(JOB_MANAGER, place, run_dir, "jobmanager", has_answer=True)
        stack.callback(shutil.rmtree, spill_directory(run_dir), ignore_errors=True)
        stack.callback((run_dir / CONTACT_NAME).unlink, missing_ok=True)
        stack.callback(_end, process)
        contact = Contact(loopback(), _port_of(process), process.pid, place.token, "", "")
        with JobClient(contact, process) as client:
            yield client
        if is_kept:
            stack.pop_all()


def run_job(
    place: JobManagerSpec | Contact,
    submission: messages.SubmitJob,
    *,
    watch: Watch,
    waits: Callable[[str], None],
) -> messages.JobEnded:
    """Submit a job to a cluster of its own, or to a running one, and wait for its end.

    If this process receives a request to end, it ends the job; if it is killed, the JobManager
    notices. A Ctrl-C cancels the job (see `JobClient.cancel`). A second one ends functions that do
    not return, of a job with a cluster of its own, and leaves any other job.

    Raises: TransportError if it could not start; RunFailedError if its JobManager has died;
        KeyboardInterrupt (of a further Ctrl-C) and SystemExit when every process has ended.
    """
    with _cluster(place, is_kept=False) as client:
        client.send(submission)
        try:
            while True:
                client.send(messages.JobRequest(messages.STATUS))
                next_ns = _after_ns(STATUS_INTERVAL_NS / 1e9)
                while (message := client.receive(until_ns=next_ns)) is not None:
                    if isinstance(message, messages.JobEnded):
                        return message
                    if isinstance(message, JobStatus):
                        watch(message)
        except TransportError as error:
            raise RunFailedError(str(error)) from error
        except KeyboardInterrupt:
            ended = client.cancel(waits, is_own=isinstance(place, JobManagerSpec))
            return replace(ended, exit_code=EXIT_INTERRUPTED)


@dataclass(frozen=True, slots=True)
class DetachedJob:
    """A job without its client, with the process of the JobManager if one was started for it."""

    job_id: str
    name: str
    job_manager: subprocess.Popen[bytes] | None


def submit_job(place: JobManagerSpec | Contact, submission: messages.SubmitJob) -> DetachedJob:
    """Submit a job to a cluster of its own, or to a running one; return once it is accepted.
    Raises: TransportError; JobRefusedError if the job was not accepted.
    """
    with _cluster(place, is_kept=True) as client:
        client.send(submission)
        message = client.receive(until_ns=_after_ns(START_WAIT_S))
        if isinstance(message, messages.JobAccepted):
            return DetachedJob(message.job_id, message.name, client.process)
        if isinstance(message, messages.JobEnded):
            raise JobRefusedError(message)
        raise TransportError(f"the JobManager (pid {client.pid}) does not take the job")


def start_session(spec: JobManagerSpec) -> tuple[ClusterStatus, subprocess.Popen[bytes]]:
    """Start a cluster for future jobs. Returns: its status once all TaskManagers have registered,
    and the process of its JobManager. Raises: TransportError if a TaskManager does not register.
    """
    with _cluster(spec, is_kept=True) as client:
        until_ns = _after_ns(START_WAIT_S)
        while True:
            status = client.cluster()
            states = {each.state for each in status.task_managers}
            if states == {"registered"}:
                assert client.process is not None
                return status, client.process
            lost = [each for each in status.task_managers if each.state == "lost"]
            if lost or monotonic_ns() > until_ns:
                name = f"tm-{lost[0].index}.log" if lost else "jobmanager.log"
                raise TransportError(
                    f"not all TaskManagers of the cluster have started; see {spec.run_dir}/{name}"
                )
            client.receive(until_ns=_after_ns(POLL_S))


class JobRefusedError(RunFailedError):
    """The JobManager did not accept a job; carries the exit code."""

    def __init__(self, ended: messages.JobEnded) -> None:
        super().__init__(ended.reason)
        self.exit_code = ended.exit_code


def new_token() -> str:
    return secrets.token_hex(32)


def _after_ns(seconds: float) -> int:
    return monotonic_ns() + round(seconds * 1e9)


def _port_of(process: subprocess.Popen[bytes]) -> int:
    """Read the control port that a JobManager prints once it listens. Raises: TransportError."""
    assert process.stdout is not None
    with process.stdout as pipe:
        ready, _, _ = select.select([pipe], [], [], START_WAIT_S)
        line = pipe.readline() if ready else b""
    try:
        answer = json.loads(line)
    except ValueError:
        answer = {"error": "it ended without a message; see jobmanager.log"}
    if "port" not in answer:
        raise TransportError(f"the JobManager did not start: {answer['error']}")
    return int(answer["port"])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask a JobManager to end, which ends its TaskManagers; then kill the rest."""
    with suppress(OSError):
        process.terminate()
    try:
        _wait(lambda: not _is_alive(process.pid), END_WAIT_S)
        _wait(lambda: not _group_of(process.pid), GRACE_S)  # traces are being saved
    finally:
        with suppress(OSError):  # the group has the number of its first process
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(is_so: Callable[[], bool], timeout_s: float) -> bool:
    """Wait until something is so, at most for some time. Returns: whether it is."""
    until_ns = _after_ns(timeout_s)
    while not (found := is_so()) and monotonic_ns() < until_ns:
        select.select([], [], [], POLL_S)
    return found


def _is_alive(pid: int) -> bool:
    """Whether a process runs; a child that has ended stays a zombie until it is waited for."""
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def _is_job_manager(pid: int) -> bool:
    with suppress(psutil.Error):
        return _is_alive(pid) and JOB_MANAGER in psutil.Process(pid).cmdline()
    return False


def _group_of(pid: int) -> list[int]:
    found = []
    for each in psutil.pids():
        with suppress(OSError):
            if os.getpgid(each) == pid and _is_alive(each):
                found.append(each)
    return found
