"""WorkerProcess: hosts TaskManagers for launchers on other hosts (`flinknet worker`).

It listens, starts TaskManagers for those who know the secret, answers heartbeats with its clock,
and hands over the files that its TaskManagers leave. TaskManagers end with their connection to the
JobManager; the worker ends them when the connection of their launcher ends.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigError, FlinknetError
from flinknet.plain_values import from_plain
from flinknet.whole_files import temporary_base

from ..clock import UNCHANGED, VARIABLE, clock_name, monotonic_ns
from ..event_loop import EventLoop
from ..host import available_cores, environment, host_id
from ..signals import interrupts_held
from . import control_messages as messages
from .cluster_process import GRACE_S, TASK_MANAGER, TaskManagerProcessSpec, log, start_child
from .control_connection import ControlConnection, ControlServer, proof_of
from .control_messages import FILE_NAME, LAUNCHER, PART_BYTES

TURN_NS = 200_000_000

SESSIONS_MAX = 16
"""The most launchers at once."""

SILENCE_MAX_NS = 60_000_000_000
"""How long a launcher that has started no TaskManager may say nothing."""

TASK_MANAGERS_MAX = 256
"""The most TaskManagers of a launcher."""

PEERS_LOGGED = 1000
"""The most strangers that are logged, each once."""

ARRIVALS_NAME = re.compile(messages.ARRIVALS + r"/[a-z]{1,20}-\d{1,6}\.npy", re.ASCII)
"""Paths of the files of recorded arrivals."""

JOB_NAME = re.compile("(spill-)?[0-9a-f]{32}")
"""Folders of a job: of its traces, and of its program's files and blocking results."""

CODE_NAME = re.compile(
    rf"spill-[0-9a-f]{{32}}/({messages.CACHED}|{messages.MODULES})(/(?!\.\.?(/|$))[^/\0]+)+"
)
"""Paths of the cached files and modules of a program."""


@dataclass(slots=True, eq=False)
class _Session:
    """The TaskManagers of one launcher, and their files."""

    directory: Path
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    silence_max_ns: int = SILENCE_MAX_NS
    kill_ns: int = 0


class WorkerProcess:
    """The state of a worker.

    Args:
        secret: what launchers must know; empty where certificates decide alone.
        network: TLS settings of this host.
        takes_code: its TaskManagers may run programs.

    Raises: ConfigError for TLS settings that cannot be used, and for an address that stands for all
        addresses; TransportError if it cannot listen.
    """

    def __init__(
        self,
        address: tuple[str, int],
        secret: str,
        network: NetworkConfig,
        *,
        takes_code: bool = True,
    ) -> None:
        tls = None
        if network.ssl_internal_enabled:
            from ..tls import create_tls

            tls = create_tls(network)
        self.directory = Path(tempfile.mkdtemp(prefix="flinknet-worker-", dir=temporary_base()))
        self._loop = EventLoop(may_spin=False)
        self._secret = secret
        self._network = network
        self._takes_code = takes_code
        facts = {
            "host_id": host_id(),
            "cores": available_cores(),
            "directory": str(self.directory),
            "environment": environment(),
        }
        try:
            self._server = ControlServer(self._loop, secret, address=address, tls=tls, facts=facts)
            if ip_address(self._server.host).is_unspecified:
                self._server.close()
                raise ConfigError(
                    "--bind: name one address of this host, by which the others reach it"
                )
        except FlinknetError:
            self.directory.rmdir()
            raise
        self.port = self._server.port
        self._sessions: dict[ControlConnection, _Session] = {}
        self._ending: list[_Session] = []
        self._strangers: set[str] = set()
        self._count = 0

    def run(self, noted: list[int]) -> None:
        """Serve launchers until a signal is noted; then end every TaskManager."""
        try:
            while not noted:
                self.turn()
        finally:
            self.close()

    def turn(self) -> None:
        """Wait for messages for some time, and handle them."""
        self._loop.run_once(until_ns=monotonic_ns() + TURN_NS)
        now_ns = monotonic_ns()
        for connection in list(self._server.connections):
            self._read(connection, now_ns)
        for session in list(self._ending):
            self._end(session, now_ns)

    def close(self) -> None:
        for session in [*self._sessions.values(), *self._ending]:
            self._leave(session)
        self._server.close()
        self._loop.close()
        with suppress(OSError):  # files that were not fetched stay
            self.directory.rmdir()

    def _read(self, connection: ControlConnection, now_ns: int) -> None:
        try:
            self._serve(connection, now_ns)
        except Exception as error:  # the others need not suffer from it
            connection.give_up(f"{type(error).__name__}: {error}")
        if connection.loss is None:
            return
        if connection.transport is not None:
            connection.transport.close()  # what it has not read would keep it open
        self._server.connections.remove(connection)
        session = self._sessions.pop(connection, None)
        if session is not None:
            if connection.fault is not None:
                log(f"launcher {connection.peer}: {connection.fault}")
            session.kill_ns = now_ns + GRACE_S * 1_000_000_000
            self._ending.append(session)
            self._end(session, now_ns)
            return
        host = connection.peer.rpartition(":")[0]
        if host not in self._strangers and len(self._strangers) < PEERS_LOGGED:
            self._strangers.add(host)  # each host is logged once
            why = connection.fault or f"the connection {connection.loss}"
            log(f"refused {connection.peer}: {why}; further refusals of {host} are not logged")

    def _serve(self, connection: ControlConnection, now_ns: int) -> None:
        """Handle what a launcher has sent, or has not sent for too long."""
        session = self._sessions.get(connection)
        if session is None and connection.peer_role is not None and not connection.is_closing:
            session = self._begin(connection)
        if session is None:
            return
        while connection.received:
            self._receive(connection, session, connection.received.popleft())
        for index, process in list(session.processes.items()):
            code = process.poll()
            if code is not None:
                del session.processes[index]
                reason = _last_line(session.directory / f"tm-{index}.log") if code > 0 else ""
                connection.send(messages.TaskManagerExited(index, process.pid, code, reason))
        silence_ns = session.silence_max_ns
        if now_ns - connection.heard_ns > silence_ns:
            connection.give_up(f"it has said nothing for {silence_ns / 1e9:g} s")

    def _begin(self, connection: ControlConnection) -> _Session | None:
        """Begin the session of a launcher. Returns: None for one that is refused."""
        if connection.peer_role != LAUNCHER:
            _refuse(connection, "it serves launchers only")
            return None
        if len(self._sessions) >= SESSIONS_MAX:
            _refuse(connection, "it has too many launchers")
            return None
        self._count += 1
        directory = self.directory / f"{self._count:06d}"
        directory.mkdir(mode=0o700)
        session = self._sessions[connection] = _Session(directory)
        return session

    def _receive(self, connection: ControlConnection, session: _Session, message: Any) -> None:
        if isinstance(message, messages.Heartbeat):
            connection.send(messages.HeartbeatAnswer(message.number, monotonic_ns()))
        elif isinstance(message, messages.StartTaskManager):
            self._start(connection, session, message)
        elif isinstance(message, messages.WriteFile):
            fault = ""
            if may_write(message.name, takes_code=self._takes_code):  # who misses it says so
                path = session.directory / message.name
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with open(path, "ab") as file:
                        file.write(message.data)
                except OSError as error:
                    fault = str(error)
            connection.send(messages.FileWritten(fault))
        elif isinstance(message, messages.RemoveFiles):
            if JOB_NAME.fullmatch(message.folder):
                shutil.rmtree(session.directory / message.folder, ignore_errors=True)
        elif isinstance(message, messages.EndTaskManager):
            if process := session.processes.get(message.index):
                process.kill()
        elif isinstance(message, messages.ListFiles):
            connection.send(messages.Files(sizes_in(session.directory / str(message.job))))
        elif isinstance(message, messages.ReadFile):
            connection.send(part_of(session.directory / str(message.job), message))
        else:
            _refuse(connection, "no message for a worker")

    def _start(
        self, connection: ControlConnection, session: _Session, message: messages.StartTaskManager
    ) -> None:
        index = -1
        try:
            spec = from_plain(TaskManagerProcessSpec, message.spec)
            index = spec.index
            if index in session.processes or len(session.processes) >= TASK_MANAGERS_MAX:
                raise FlinknetError("it has that TaskManager, or too many")
            names = [each.name for each in fields(NetworkConfig) if each.name.startswith("ssl_")]
            own = {x: getattr(self._network, x) for x in names if not x.endswith("_enabled")}
            spec = replace(  # what this host decides: addresses, directories, certificates
                spec,
                token=proof_of(self._secret, "cluster", spec.token),
                network=replace(spec.network, bind_host=connection.local_host, **own),
                control_host=connection.peer.rpartition(":")[0],
                control_port=message.port,
                module_path=tuple(sys.path),
                work_dir=str(session.directory),
                takes_code=self._takes_code,
            )
            session.silence_max_ns = spec.silence_max_ns
            variables = {} if clock_name() or not message.has_own_clock else {VARIABLE: UNCHANGED}
            with interrupts_held():
                process = start_child(
                    TASK_MANAGER, spec, session.directory, spec.name, variables=variables
                )
        except (FlinknetError, OSError) as error:
            connection.send(messages.TaskManagerExited(index, 0, 1, str(error)))
            return
        session.processes[index] = process
        connection.send(messages.TaskManagerExited(index, process.pid, None))

    def _end(self, session: _Session, now_ns: int) -> None:
        """End the TaskManagers of a launcher that is gone: those that do not end by themselves are
        killed.
        """
        alive = [each for each in session.processes.values() if each.poll() is None]
        if not alive or now_ns >= session.kill_ns:
            self._ending.remove(session)
            self._leave(session)

    def _leave(self, session: _Session) -> None:
        """Kill the rest of a session, and remove its files, unless they hold something that was
        not fetched.
        """
        for process in session.processes.values():
            process.kill()
            process.wait()
        kept = any(session.directory.glob("*/*.fnt"))
        for each in session.directory.glob("spill-*"):
            shutil.rmtree(each, ignore_errors=True)
        if kept:
            log(f"what was not fetched stays in {session.directory}")
        else:
            shutil.rmtree(session.directory, ignore_errors=True)


def _refuse(connection: ControlConnection, reason: str) -> None:
    connection.send(messages.Refused(reason))
    connection.close()


def sizes_in(directory: Path) -> dict[str, int]:
    """The files of a job, and the logs of its TaskManagers."""
    found: dict[str, int] = {}
    for path in (*directory.parent.glob("*.*"), *directory.glob("*.*")):
        with suppress(OSError):
            if FILE_NAME.fullmatch(path.name) and (size := path.stat().st_size):
                found[path.name] = size
    return found


def part_of(directory: Path, message: messages.ReadFile) -> messages.FilePart:
    """A part of a file of a job; none for a name that is no file of a TaskManager."""
    for each in (directory, directory.parent) if FILE_NAME.fullmatch(message.name) else ():
        with (
            suppress(OSError, ValueError, OverflowError),  # offsets that no file has, too
            open(each / message.name, "rb") as file,
        ):
            file.seek(message.offset)
            return messages.FilePart(file.read(PART_BYTES))
    return messages.FilePart(b"")


def may_write(name: str, *, takes_code: bool) -> bool:
    return bool(ARRIVALS_NAME.fullmatch(name) or (takes_code and CODE_NAME.fullmatch(name)))


def _last_line(path: Path) -> str:
    with suppress(OSError):
        lines = path.read_bytes()[-4096:].decode(errors="replace").splitlines()
        return lines[-1][:500] if lines else ""
    return ""
