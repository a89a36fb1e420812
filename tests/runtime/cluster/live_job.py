"""Jobs on real processes, for tests: submitted, followed by what the JobManager tells, ended."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from flinknet.results import JobStatus
from flinknet.runtime.clock import monotonic_ns
from flinknet.runtime.cluster.client import DetachedJob, JobClient, new_token, submit_job
from flinknet.runtime.cluster.cluster_process import JobManagerSpec
from flinknet.runtime.cluster.control_messages import JobEnded, SubmitJob
from flinknet.runtime.cluster.job_files import Contact

POLL_NS = 20_000_000
PATIENCE_NS = 120_000_000_000
"""A job that does not do what it should fails the test, in the end."""

QUICK_HEARTBEATS = {"heartbeat.interval": "100ms", "heartbeat.timeout": "3s"}
RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "3",
    "restart-strategy.fixed-delay.delay": "10ms",
}


class LiveJob:
    """A job that was submitted detached."""

    def __init__(self, job: DetachedJob, run_dir: Path) -> None:
        self.job = job
        self.run_dir = run_dir
        contact = Contact.load(run_dir)
        assert contact is not None
        self.contact = contact
        self.job_manager = psutil.Process(job.job_manager.pid)
        self.client: JobClient = JobClient(contact)
        try:
            self.client.status()  # says hello: the JobManager closes connections that stay silent
        except BaseException:
            self.kill()
            raise

    def until(self, is_so: Callable[[JobStatus], bool]) -> JobStatus:
        """Ask until it is so. Raises: AssertionError when it never is."""
        until_ns = monotonic_ns() + PATIENCE_NS
        while monotonic_ns() < until_ns:
            status = self.client.status()
            if is_so(status):
                return status
            message = self.client.receive(until_ns=monotonic_ns() + POLL_NS)
            assert message is None, message
        raise AssertionError(status)

    def until_running(self, records: int = 1) -> JobStatus:
        """Wait until every vertex runs and the last one has read so many records."""
        return self.until(
            lambda status: (
                bool(status.vertices)
                and all(each.state == "running" for each in status.vertices)
                and status.vertices[-1].records_in >= records
            )
        )

    def ended(self) -> JobEnded:
        """Wait for the end of the job, and of its JobManager."""
        until_ns = monotonic_ns() + PATIENCE_NS
        message = self.client.receive(until_ns=until_ns)
        while not isinstance(message, JobEnded):
            assert message is not None
            message = self.client.receive(until_ns=until_ns)
        self.job.job_manager.wait(PATIENCE_NS / 1e9)
        return message

    def result(self) -> dict[str, Any]:
        """What it left in its directory."""
        found: dict[str, Any] = json.loads((self.run_dir / "result.json").read_text())
        return found

    def task_managers(self) -> dict[int, psutil.Process]:
        """Processes of the TaskManagers, by index."""
        return {each.index: psutil.Process(each.pid) for each in self.client.status().task_managers}

    def kill(self) -> None:
        """End what is left."""
        self.client.__exit__()
        with suppress(OSError):
            os.killpg(self.job.job_manager.pid, signal.SIGKILL)
        self.job.job_manager.wait()


Start = Callable[..., LiveJob]
"""The fixtures that submit a job."""


def start_job(
    directory: Path,
    program: str,
    *arguments: object,
    task_managers: int = 2,
    slots: int = 1,
    settings: Mapping[str, str] | None = None,
    duration_ns: int | None = None,
    records_trace: bool = True,
) -> LiveJob:
    """Submit a program."""
    path = directory / "program.py"
    path.write_text(program)
    run_dir = directory / "run"
    run_dir.mkdir()
    known = {**QUICK_HEARTBEATS, **(settings or {})}
    spec = JobManagerSpec(new_token(), str(run_dir), task_managers, slots, known)
    submission = SubmitJob(
        *(str(path), program, tuple(map(str, arguments)), known, False, duration_ns, 0, 1),
        *(str(run_dir), records_trace),
    )
    return LiveJob(submit_job(spec, submission), run_dir)


def join_job(
    job: LiveJob, program: str, *arguments: object, settings: Mapping[str, str] | None = None
) -> LiveJob:
    """Submit another program to the cluster of a job."""
    run_dir = job.run_dir.parent / "joined"
    run_dir.mkdir(exist_ok=True)
    submission = SubmitJob(
        *(str(job.run_dir.parent / "joined.py"), program, tuple(map(str, arguments))),
        *(dict(settings or {}), False, None, 0, 1, str(run_dir), True),
    )
    accepted = submit_job(job.contact, submission)
    return LiveJob(DetachedJob(accepted.job_id, accepted.name, job.job.job_manager), run_dir)


class Child:
    """A process of a TaskManager that has been started, and does nothing."""

    pid = 1

    def poll(self) -> int | None:
        return None

    def kill(self) -> None:
        pass

    def wait(self, timeout_s: float | None = None) -> int:
        return 0


def gone(processes: Iterable[psutil.Process]) -> bool:
    """Whether all of them end, given some time."""
    _, alive = psutil.wait_procs(list(processes), timeout=PATIENCE_NS / 1e9)
    return not alive


def listening_port(process: psutil.Process) -> int:
    """The one port that a TaskManager listens on."""
    (port,) = {
        each.laddr.port
        for each in process.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    }
    return int(port)
