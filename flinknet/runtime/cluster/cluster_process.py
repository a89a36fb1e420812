"""Processes of a cluster: how they start (child processes with their specifications), a TaskManager
as the JobManager knows it, and the error of a bench whose TaskManager ended early."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO, Any

from flinknet import errors
from flinknet.config import NetworkConfig
from flinknet.plain_values import to_plain
from flinknet.trace.manifest import ProcessInfo

from ..clock import wall_clock_iso
from .control_connection import ControlConnection

GRACE_S = 5
KILL_WAIT_S = 2.0
"""How long a worker may take to report the end of a process that it kills."""


def log(text: str) -> None:
    print(f"{wall_clock_iso()} {text}", file=sys.stderr, flush=True)


SAMPLE_INTERVAL_NS = 200_000_000

JOB_MANAGER, TASK_MANAGER = "jobmanager", "taskmanager"


@dataclass(frozen=True, slots=True)
class WorkersSpec:
    """The workers that TaskManagers run on.

    Attributes:
        secret: what they share; empty where certificates decide alone.
        producers_on, consumers_on: the worker of the sources, and of the sinks, by its number; None
            for the first, and for all others.
    """

    addresses: tuple[tuple[str, int], ...]
    secret: str
    producers_on: int | None = None
    consumers_on: int | None = None


@dataclass(frozen=True, slots=True)
class JobManagerSpec:
    """The specification of a JobManager. Its run directory receives the logs, and the output of the
    job that the cluster is started for; a session is started for future jobs, and stays up without
    any. Without workers TaskManagers run on this host.
    """

    token: str
    run_dir: str
    task_managers: int
    slots: int
    settings: dict[str, str]
    is_session: bool = False
    workers: WorkersSpec | None = None


@dataclass(frozen=True, slots=True)
class TaskManagerProcessSpec:
    """The specification of a TaskManager: up to `sample_interval_ns`, the pause between statistics,
    that of all in a cluster, the rest its own.

    Attributes:
        token: the secret of the cluster.
        silence_max_ns: the JobManager is lost if it sends nothing for this long, and the
            TaskManager if it does not answer for as long.
        has_own_core: there is a CPU core for each TaskManager.
        control_host: address of the JobManager, as a worker reaches it; empty: loopback.
        work_dir: directory of its traces on a worker; None: those of its jobs.
        takes_code: it may run programs.
        core: number of the core that it stays on, if it has its own.
        clock_offset_ns: what the clock of its host is ahead of the JobManager's.
    """

    token: str
    task_managers: int
    slots: int
    network: NetworkConfig
    flow_control: str
    silence_max_ns: int
    sample_interval_ns: int = SAMPLE_INTERVAL_NS
    index: int = 0
    control_port: int = 0
    has_own_core: bool = False
    module_path: tuple[str, ...] = ()
    control_host: str = ""
    work_dir: str | None = None
    takes_code: bool = True
    core: int = 0
    clock_offset_ns: int = 0

    @property
    def name(self) -> str:
        return f"tm-{self.index}"


def start_child(
    role: str,
    spec: Any,
    log_dir: Path | None,
    name: str,
    *,
    has_answer: bool = False,
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process; its standard output goes to NAME.out and its standard error to NAME.log.

    Args:
        log_dir: the directory of these files; None: both streams are inherited.
        has_answer: standard output is a pipe instead, for its first line.
        variables: of its environment, besides those of this process.
    """
    with ExitStack() as files:
        out: IO[bytes] | int | None = subprocess.PIPE if has_answer else None
        log = None
        if log_dir is not None:
            log = files.enter_context(open(log_dir / f"{name}.log", "ab"))
            if not has_answer:
                out = files.enter_context(open(log_dir / f"{name}.out", "ab"))
        process = subprocess.Popen(
            [sys.executable, "-P", "-u", "-m", __package__, role, name],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=log,
            start_new_session=role == JOB_MANAGER,
            env=None if variables is None else {**os.environ, **variables},
        )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(json.dumps(to_plain(spec)).encode())
    return process


class RemoteProcess:
    """A process that a Worker has started, with those parts of subprocess.Popen that its JobManager
    uses. Its pid is 0 until it is named; the reason is the last line of its log if it has failed.
    """

    def __init__(self, worker: Any, index: int) -> None:
        self.worker = worker
        self.pid = 0
        self.returncode: int | None = None
        self.reason = ""
        self._index = index

    @property
    def worker_loss(self) -> str | None:
        """Why the worker was lost while the process ran; None if it was not."""
        loss: str | None = self.worker.loss
        return loss if self.returncode is None else None

    def poll(self) -> int | None:
        return self.returncode

    def kill(self) -> None:
        self.worker.end(self._index)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises: TimeoutExpired if the worker has not reported it in time; not
        after the loss of the worker, whose processes end without it.
        """
        self.worker.await_exit(self, KILL_WAIT_S if timeout is None else timeout)
        if self.returncode is None and self.worker_loss is None and timeout is not None:
            raise subprocess.TimeoutExpired(self.worker.name, timeout)
        return self.returncode or 0


class TaskManagerState(Enum):
    """State of a TaskManager as the JobManager knows it."""

    STARTING = "starting"
    REGISTERED = "registered"
    READY = "ready"
    LOST = "lost"


class TaskManagerProcess:
    """One TaskManager; its data port has an address once it has registered."""

    connection: ControlConnection | None = None
    address: tuple[str, int] = ("", 0)
    state = TaskManagerState.STARTING
    heartbeats = 0

    def __init__(self, index: int, process: subprocess.Popen[bytes] | RemoteProcess) -> None:
        self.index = index
        self.name = f"tm-{index}"
        self.process = process

    @property
    def info(self) -> ProcessInfo:
        return ProcessInfo(self.name, f"{self.name}.fnt", self.process.pid)

    @property
    def is_registered(self) -> bool:
        return self.state in (TaskManagerState.REGISTERED, TaskManagerState.READY)

    @property
    def is_alive(self) -> bool:
        return self.state is not TaskManagerState.LOST

    @property
    def heard_ns(self) -> int:
        """When its last bytes came; 0 before it has registered."""
        return 0 if self.connection is None else self.connection.heard_ns

    def send(self, message: Any) -> None:
        if self.connection is not None:
            self.connection.send(message)

    @property
    def worker_loss(self) -> str | None:
        """Why its worker is lost; None if it is not, or there is none."""
        process = self.process
        return process.worker_loss if isinstance(process, RemoteProcess) else None

    @property
    def process_name(self) -> str:
        process = self.process
        where = f" on worker {process.worker.name}" if isinstance(process, RemoteProcess) else ""
        return f"{self.name} (pid {process.pid}{where})"

    @property
    def reason(self) -> str:
        """What the process wrote last before it failed on its worker; else empty."""
        return self.process.reason if isinstance(self.process, RemoteProcess) else ""

    def death(self) -> str | None:
        """How the process ended; None while it or its connection is alive."""
        if self.is_alive and self.worker_loss is not None:
            return self.worker_loss
        is_connected = self.connection is not None and self.connection.loss is None
        if is_connected or not self.is_alive:
            return None
        if self.connection is None and self.process.poll() is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1)  # the connection breaks a little before the process ends
        code = self.process.returncode
        if code is None:
            return f"{self.process_name} has closed its control connection"
        if code < 0:
            with suppress(ValueError):
                name = signal.Signals(-code).name
                return f"{self.process_name} was ended by {name}"
        why = f": {self.reason}" if self.reason else ""
        return f"{self.process_name} ended with exit code {code}{why}"

    def kill(self) -> None:
        """Kill the process, even if it is stopped."""
        with suppress(OSError):
            self.process.kill()
        self.process.wait()


_SELF_EXPLANATORY = (
    errors.ConfigError,
    errors.LocalTransportError,
    errors.PartitionConnectionError,
    errors.TraceError,
)
"""Errors whose text says everything, whichever TaskManager raised them."""

_CONSEQUENCES = (
    errors.RemoteTransportError,
    errors.ProducerFailedError,
    errors.PartitionConnectionError,
)
"""Errors of a TaskManager that lost another one."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The premature end of a TaskManager: its exit code if it died without a message; else why it
    ended, and the class name of that FlinknetError, empty for a bug.
    """

    index: int
    pid: int | None
    exit_code: int | None = None
    error: str = ""
    kind: str = ""

    @property
    def is_death(self) -> bool:
        return self.exit_code is not None

    @property
    def is_consequence(self) -> bool:
        """Whether it ended because it lost another TaskManager."""
        return not self.is_death and issubclass(kind_of(self.kind), _CONSEQUENCES)

    def __str__(self) -> str:
        if not self.is_death:
            return f"tm-{self.index}: {self.error}"
        code = self.exit_code or 0
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        why = f": {self.error}" if self.error else ""
        return f"tm-{self.index} (pid {self.pid}) died in mid-run, {how}{why}"


def error_of(endings: Sequence[Ending], trace_dir: object | None) -> Exception:
    """Combine the endings into one error: deaths first, then own failures, then consequences."""
    first, *others = sorted(endings, key=lambda each: (not each.is_death, each.is_consequence))
    if not first.is_death:
        kind = kind_of(first.kind)
        if kind is errors.FlinknetError:
            return RuntimeError(f"tm-{first.index} failed:\n{first.error}")
        if kind in _SELF_EXPLANATORY:
            return kind(first.error)
        if issubclass(kind, errors.BufferPoolError):
            return errors.ConfigError(first.error)
    sentences = [str(each) for each in (first, *others)]
    if trace_dir is not None:
        sentences.append(f"What was recorded is in {trace_dir}")
    return errors.RunFailedError(". ".join(sentences))


def kind_of(name: str) -> type[errors.FlinknetError]:
    """The class of an error by its name; FlinknetError itself for any other (a bug)."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, errors.FlinknetError):
        return kind
    return errors.FlinknetError
