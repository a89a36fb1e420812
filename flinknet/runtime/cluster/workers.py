"""Workers: the hosts of a cluster's TaskManagers, as the JobManager knows them (see
`worker_process`): connections to them, their clocks, and the files that they hand over.
"""

from __future__ import annotations

import secrets
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from flinknet.config import NetworkConfig
from flinknet.core.wire.ids import ExecutionGraphID
from flinknet.errors import FlinknetError, TransportError
from flinknet.plain_values import to_plain
from flinknet.units import format_address

from ..clock import monotonic_ns
from ..event_loop import EventLoop
from ..host import host_id
from ..signals import raise_dropped_termination
from ..sockets import unacknowledged_bytes
from ..tls import Tls, create_tls
from . import control_messages as messages
from .cluster_process import RemoteProcess, TaskManagerProcessSpec, WorkersSpec, log
from .control_connection import ControlConnection, ControlServer, proof_of
from .control_messages import FILE_NAME, LAUNCHER, PART_BYTES
from .host_clock import ClockLine, ClockOfHost, HostClock

CONNECT_WAIT_S = 5.0
ANSWER_WAIT_NS = 10_000_000_000
"""How long nothing may move while an answer is awaited."""

ANSWER_MAX_NS = 120_000_000_000
"""How long an answer may take, however slowly bytes move: the largest has 8 MiB."""

IP_MTU = 14
"""Linux's option, which Python's socket does not name."""

ROUND_TRIPS = 40
"""Number of round trips at once, before and after a run."""

PROBE_INTERVAL_NS = 100_000_000
"""Between round trips during a run, where clocks differ."""

ADJUST_INTERVAL_NS = 1_000_000_000
"""Between corrections of the clocks of TaskManagers."""

HEARTBEAT_MAX_NS = 1_000_000_000
"""The longest pause between heartbeats."""

QUIET_NS = 5_000_000_000
"""A worker that has said nothing for so long is named; it may come back."""

PARTS_AHEAD = 16
"""Parts of a file that are asked for before the first has come."""


class Worker:
    """The connection to one worker.

    Args:
        timeout_ns: it is lost if it says nothing for so long.

    Attributes:
        facts: those of its host (`WorkerProcess`).
        local_host: address of this host, as the worker reaches it.
        mtu_bytes: largest packet on the way to it; None if the system does not say.
        recorded: jobs with traces that were not fetched yet.
        is_quiet: it has said nothing for QUIET_NS.
        next_adjustment_ns: when its TaskManagers are sent the next correction of their clock.
        loss: why it is lost; None if it is not.

    Raises: TransportError if it cannot be reached, refuses, or runs another flinknet.
    """

    def __init__(
        self,
        loop: EventLoop,
        address: tuple[str, int],
        secret: str,
        tls: Tls | None,
        timeout_ns: int,
    ) -> None:
        self.name = format_address(*address)
        self.loss: str | None = None
        self._loop = loop
        self._timeout_ns = timeout_ns
        self._heartbeat_ns = max(1, min(HEARTBEAT_MAX_NS, timeout_ns // 6))
        self.is_quiet = False
        self.recorded: set[ExecutionGraphID] = set()
        try:
            sock = socket.create_connection(address, CONNECT_WAIT_S)
        except OSError as error:
            raise TransportError(
                f"worker {self.name} cannot be reached ({error.strerror or error}); start one there"
                " with `flinknet worker`"
            ) from error
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.local_host: str = sock.getsockname()[0]
        self.mtu_bytes: int | None = None
        with suppress(OSError):
            self.mtu_bytes = sock.getsockopt(socket.IPPROTO_IP, IP_MTU)
        self._connection = ControlConnection(secret, role=LAUNCHER, peer=self.name)
        wrapped = self._connection
        self._transport = loop.add_transport(
            sock, wrapped if tls is None else tls.around(wrapped, is_server=False)
        )
        self.processes: dict[int, RemoteProcess] = {}
        self.clock = HostClock()
        self.has_own_clock = True
        self._sent_ns: dict[int, int] = {}
        self._number = 0
        self._next_probe_ns = self.next_adjustment_ns = 0
        self._answers = deque[Any](maxlen=PARTS_AHEAD)
        self._due = 0  # answers that have not come yet
        self.await_answer(lambda: self._connection.welcome is not None, "has not answered")
        assert self._connection.welcome is not None
        self.facts = self._connection.welcome
        self.measure_clock()
        line = self.clock.line()
        is_same_host = self.facts.get("host_id") == host_id()
        self.has_own_clock = not (is_same_host and abs(line.offset_ns) <= line.error_ns)
        self.offset_ns = self.clock.correction().offset_ns if self.has_own_clock else 0

    def await_answer(self, is_there: Callable[[], bool], what: str) -> None:
        """Let messages come in until the condition holds. Raises: TransportError if the worker is
        lost, if nothing arrives there or here for too long, or if the answer takes too long.
        """
        began_ns = now_ns = monotonic_ns()
        moved_ns, moved_bytes, transport = now_ns, -1, self._transport
        while True:
            self.read()
            if is_there():
                return
            if self.loss is not None:
                raise TransportError(self.loss)
            raise_dropped_termination()
            now_ns = monotonic_ns()
            arrived_bytes = transport.sent_bytes - unacknowledged_bytes(transport.sock)
            if transport.received_bytes + arrived_bytes > moved_bytes:
                moved_bytes, moved_ns = transport.received_bytes + arrived_bytes, now_ns
            for limit_ns, since_ns in (ANSWER_WAIT_NS, moved_ns), (ANSWER_MAX_NS, began_ns):
                if now_ns - since_ns > limit_ns:
                    seconds = f"{limit_ns / 1e9:g} s"
                    raise TransportError(f"worker {self.name} {what} within {seconds}")
            self._loop.run_once(until_ns=now_ns + PROBE_INTERVAL_NS)

    def measure_clock(self) -> None:
        """Measure the offset of its clock by round trips. Raises: TransportError if it is lost."""
        for _ in range(ROUND_TRIPS):
            number = self._probe()
            self.await_answer(lambda: number not in self._sent_ns, "has not answered")  # noqa: B023

    def start(self, spec: TaskManagerProcessSpec, port: int) -> RemoteProcess:
        plain = to_plain(replace(spec, clock_offset_ns=self.offset_ns))
        self._connection.send(messages.StartTaskManager(plain, port, self.has_own_clock))
        process = self.processes[spec.index] = RemoteProcess(self, spec.index)
        return process

    def end(self, index: int) -> None:
        self._connection.send(messages.EndTaskManager(index))

    def await_exit(self, process: RemoteProcess, limit_s: float) -> None:
        """Let messages come in until a process has ended, for at most so many seconds."""
        until_ns = monotonic_ns() + round(limit_s * 1e9)
        while process.returncode is None and self.loss is None and monotonic_ns() < until_ns:
            self._loop.run_once(until_ns=until_ns)
            self.read()

    def read(self) -> None:
        """Handle what has come."""
        connection = self._connection
        while connection.received:
            message = connection.received.popleft()
            if isinstance(message, messages.HeartbeatAnswer):
                sent_ns = self._sent_ns.pop(message.number, None)
                if sent_ns is not None:
                    self.clock.add(sent_ns, message.at_ns, connection.heard_ns)
            elif isinstance(message, messages.TaskManagerExited):
                process = self.processes.get(message.index)
                if process is not None:
                    process.pid = message.pid or process.pid
                    process.returncode, process.reason = message.exit_code, message.reason
            elif isinstance(message, messages.Refused):
                self._lose(f"worker {self.name} refuses: {message.reason}")
            elif self._due:
                self._due -= 1
                self._answers.append(message)
        if connection.loss is not None:
            why = f"was closed: {connection.fault}" if connection.fault else connection.loss
            self._lose(f"worker {self.name} is lost: the connection {why}")

    def advance(self, now_ns: int) -> ClockLine | None:
        """Send what is due. Returns: how its TaskManagers are to read their clocks from now on;
        None: as before.
        """
        self.read()
        if self.loss is not None:
            return None
        silence_ns, seconds = now_ns - self._connection.heard_ns, self._timeout_ns / 1e9
        if silence_ns > self._timeout_ns:
            self.lose_silent()
            return None
        if (silence_ns > QUIET_NS) != self.is_quiet:
            self.is_quiet = not self.is_quiet
            since = f"has not answered for {QUIET_NS // 10**9} s; it is lost after {seconds:g} s"
            log(f"worker {self.name} {since if self.is_quiet else 'answers again'}")
        if now_ns >= self._next_probe_ns:
            self._probe()
            most_ns = (
                PROBE_INTERVAL_NS if self.has_own_clock and self.processes else HEARTBEAT_MAX_NS
            )
            self._next_probe_ns = now_ns + min(most_ns, self._heartbeat_ns)
        if not self.has_own_clock or now_ns < self.next_adjustment_ns:
            return None
        self.next_adjustment_ns = now_ns + ADJUST_INTERVAL_NS
        return self.clock.correction()

    def next_deadline_ns(self) -> int:
        return min(self._next_probe_ns, self._connection.heard_ns + self._timeout_ns)

    def fetch(self, job: ExecutionGraphID, directory: Path) -> None:
        """Move the files of a job from the worker. Raises: TransportError, OSError."""
        (listed,) = self._ask(messages.ListFiles(job))
        for name, size in listed.sizes.items():
            if not FILE_NAME.fullmatch(name):
                raise TransportError(f"worker {self.name} names a file {name!r:.40}")
            offsets = range(0, size, PART_BYTES)
            with open(directory / name, "wb") as file:
                for at in range(0, len(offsets), PARTS_AHEAD):
                    some = offsets[at : at + PARTS_AHEAD]
                    for part in self._ask(*(messages.ReadFile(job, name, each) for each in some)):
                        file.write(part.data)
        self.recorded.discard(job)
        self.remove_files(str(job))

    def write_file(self, name: str, data: bytes) -> None:
        """Append to a file, and wait until it is written. Raises: TransportError."""
        (written,) = self._ask(messages.WriteFile(name, data), what="has not taken a file")
        if written.fault:
            raise TransportError(f"worker {self.name} cannot write a file: {written.fault}")

    def remove_files(self, folder: str) -> None:
        self._connection.send(messages.RemoveFiles(folder))

    def disconnect(self) -> None:
        self._connection.close()
        self._transport.pump()

    def bytes_per_s(self, size_bytes: int) -> float:
        """The bandwidth of the connection, by a payload of this size. Raises: TransportError."""
        began_ns = monotonic_ns()
        number = self._probe(size_bytes)
        self.await_answer(lambda: number not in self._sent_ns, "has not answered")
        return size_bytes * 1e9 / max(1, monotonic_ns() - began_ns)

    def _ask(self, *questions: Any, what: str = "has not sent its files") -> list[Any]:
        """Answers come in the order of all questions, also late ones to questions of before."""
        self._due += len(questions)
        for each in questions:
            self._connection.send(each)
        self.await_answer(lambda: not self._due, what)
        return list(self._answers)[-len(questions) :]

    def _probe(self, payload_bytes: int = 0) -> int:
        self._number += 1
        self._sent_ns[self._number] = monotonic_ns()
        if len(self._sent_ns) > ROUND_TRIPS:
            del self._sent_ns[next(iter(self._sent_ns))]
        self._connection.send(messages.Heartbeat(self._number, payload_bytes))
        self._transport.pump()
        return self._number

    def lose_silent(self) -> None:
        """Count it as lost, as it or one of its TaskManagers has been silent for too long."""
        seconds = self._timeout_ns / 1e9
        self._lose(f"worker {self.name} has not answered for {seconds:g} s and counts as lost")

    def _lose(self, reason: str) -> None:
        if self.loss is None:
            if self.processes and self.recorded and (directory := self.facts.get("directory")):
                reason += f"; its traces are still on that host, in {directory}"
            self.loss = reason
            self._connection.close()


class Workers:
    """The workers of a cluster, which are lost if they say nothing for `timeout_ns`, and control
    ports for their TaskManagers, by the address that they connect to. Raises: TransportError if one
    cannot be used; ConfigError for TLS settings.
    """

    def __init__(
        self, loop: EventLoop, spec: WorkersSpec, network: NetworkConfig, timeout_ns: int
    ) -> None:
        tls = create_tls(network) if network.ssl_internal_enabled else None
        self._nonce = secrets.token_hex(16)
        token = proof_of(spec.secret, "cluster", self._nonce)
        self.servers: dict[str, ControlServer] = {}
        try:
            self.each = [Worker(loop, x, spec.secret, tls, timeout_ns) for x in spec.addresses]
        except FlinknetError:
            loop.close()
            raise
        for host in {each.local_host for each in self.each}:
            self.servers[host] = ControlServer(loop, token, address=(host, 0), tls=tls)

    def start(self, spec: TaskManagerProcessSpec, place_of: Sequence[int]) -> RemoteProcess:
        worker = self.each[place_of[spec.index]]
        hosts = [self.each[each].facts["host_id"] for each in place_of]
        on_host = [at for at, host in enumerate(hosts) if host == worker.facts["host_id"]]
        placed = replace(
            spec,
            token=self._nonce,
            module_path=(),
            network=replace(
                spec.network,
                ssl_keystore_password=None,
                ssl_key_password=None,
                ssl_truststore_password=None,
            ),
            has_own_core=worker.facts["cores"] >= len(on_host),
            core=on_host.index(spec.index),
        )
        return worker.start(placed, self.servers[worker.local_host].port)

    def clocks(self, from_ns: int) -> list[ClockOfHost]:
        """Measure the clocks of all hosts once more, and the error of instants since `from_ns`."""
        for worker in self.each:
            with suppress(TransportError):
                if worker.loss is None and worker.has_own_clock:
                    worker.measure_clock()
        found, to_ns = [], monotonic_ns()
        for worker in self.each:
            figures: tuple[int, float, int] = (0, 0.0, 0)
            if worker.has_own_clock:
                line = worker.clock.line()
                offset_ns = round(line.offset_at(to_ns + line.offset_ns))
                error_ns = worker.clock.error_ns(from_ns, to_ns)
                figures = offset_ns, round(line.drift * 1e6, 3), error_ns
            found.append(ClockOfHost(worker.name, worker.facts["host_id"], *figures))
        return found

    def fetch(self, job: ExecutionGraphID, directory: Path) -> list[str]:
        """Move the files of a job from all workers. Returns: why some could not be copied."""
        faults = []
        for worker in self.each:
            if worker.processes and worker.loss is None:
                try:
                    worker.fetch(job, directory)
                except (FlinknetError, OSError) as error:
                    faults.append(str(error))
        return faults

    def write_files(self, folder: str, files: Mapping[str, Path]) -> Iterator[None]:
        """Copy files, by their path in a folder, to all that are not lost; yields between parts. If
        it fails, none is left.

        Raises: TransportError, OSError.
        """
        left = [each for each in self.each if each.loss is None]
        try:
            for name, path in files.items():
                with open(path, "rb") as file:
                    part = file.read(PART_BYTES)
                    while True:
                        for worker in left:
                            worker.write_file(f"{folder}/{name}", part)
                            yield
                        if not (part := file.read(PART_BYTES)):
                            break
        except (FlinknetError, OSError):
            for worker in left:
                worker.remove_files(folder)
            raise

    def close(self) -> None:
        for worker in self.each:
            worker.disconnect()
        for server in self.servers.values():
            server.close()


def check_reachable(spec: WorkersSpec, network: NetworkConfig) -> None:
    """Connect to all workers, and end the connections. Raises: TransportError if one cannot be
    used; ConfigError for TLS settings.
    """
    loop = EventLoop(may_spin=False)
    Workers(loop, spec, network, ANSWER_WAIT_NS).close()
    loop.close()
