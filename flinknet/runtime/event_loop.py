# mypyc
"""EventLoop: sockets, deadlines and tasks of one TaskManager, in turns, on one thread. Worker
threads of its tasks wake it, and use nothing else of it.
"""

from __future__ import annotations

import os
import select
import selectors
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from flinknet.config import STEPS_PER_TURN
from flinknet.core.connection import RECEIVE_BYTES, Connection
from flinknet.job.times import TaskTimes

from .clock import monotonic_ns
from .sockets import create_selector
from .transport import TcpTransport

SPIN_NS = 200_000
"""During traffic the loop polls this long before it sleeps: the wake-up of a sleeping
process takes longer than most waits, on virtual machines up to milliseconds."""

SHORT_WAIT_NS = 500_000
"""The loop polls while its mean wait is shorter than this: traffic is going on."""

IDLE_WAIT_NS = 200_000_000
"""The longest sleep; the control pipe ends it earlier."""


class Task(Protocol):
    """A task that the loop steps (job.StreamTask; runtime.cluster.Attempt)."""

    @property
    def is_blocked(self) -> bool:
        """Whether it waits for buffers that sending returns."""

    @property
    def is_ready(self) -> bool:
        """Whether a step would make progress, as another task of this turn made possible."""

    @property
    def times(self) -> TaskTimes:
        """Its busy, idle and back-pressured time."""

    def rest(self, *, now_ns: int) -> None:
        """Account for idle time: no step is needed now; called while `times.is_busy`."""

    def step(self, *, now_ns: int) -> int | None:
        """Do a bounded piece of work; returns when to call again, None: when data has moved."""


class EventLoop:
    """Runs tasks, sends, waits and receives in turns. `waited_ns` is the time spent waiting,
    `slept_ns` the part of it spent asleep. While threads of tasks are working (`working_threads`),
    it does not poll, which would take the interpreter from them.

    Args:
        may_spin: there is a core for each process, so polling takes nothing from the others.
        transport: nio, epoll or auto (see `sockets.create_selector`).
    """

    def __init__(self, *, may_spin: bool, transport: str = "auto") -> None:
        self._selector = create_selector(transport)
        self._is_exact = isinstance(self._selector, selectors.SelectSelector)
        self.transports: list[TcpTransport] = []
        self.receive_buffer = memoryview(bytearray(RECEIVE_BYTES))
        self.tasks: Sequence[Task] = ()
        self.has_local_channels = False
        self._may_spin = may_spin
        self._mean_wait_ns = IDLE_WAIT_NS
        self.waited_ns = 0
        self.slept_ns = 0
        self._has_closed = False
        self._calls: list[tuple[int, Callable[[], None]]] = []
        self.working_threads = 0
        self._wake_pipe: tuple[int, int] | None = None
        self._waking = threading.Lock()  # so that the pipe is not closed under a thread that writes

    def add_reader(self, sock: socket.socket | int, callback: Callable[[], None]) -> None:
        """Call back when a descriptor other than a transport's is readable."""
        self._selector.register(sock, selectors.EVENT_READ, callback)

    def add_writer(self, sock: socket.socket, callback: Callable[[], None]) -> None:
        """Call back when a socket without a transport is writable: connected or failed."""
        self._selector.register(sock, selectors.EVENT_WRITE, callback)

    def remove(self, sock: socket.socket | int) -> None:
        self._selector.unregister(sock)

    def add_transport(
        self,
        sock: socket.socket,
        connection: Connection,
        closed: Callable[[TcpTransport], None] | None = None,
    ) -> TcpTransport:
        """Drive a connection over a connected socket; `closed` as in TcpTransport."""
        transport = TcpTransport(
            sock, connection, self.receive_buffer, self._watch, self._forget, closed
        )
        self._watch(transport)
        self.transports.append(transport)
        return transport

    def make_wakeable(self) -> None:
        if self._wake_pipe is None:
            self._wake_pipe = reads, writes = os.pipe()
            for each in reads, writes:
                os.set_blocking(each, False)
            self.add_reader(reads, self._drain)

    def wake(self) -> None:
        """End the current wait, or the next one, at once; for other threads."""
        with self._waking:
            if self._wake_pipe is not None:
                with suppress(BlockingIOError):  # the pipe is full of wake-ups
                    os.write(self._wake_pipe[1], b"!")

    def _drain(self) -> None:
        assert self._wake_pipe is not None
        os.read(self._wake_pipe[0], 4096)

    def call_at(self, at_ns: int, callback: Callable[[], None]) -> None:
        """Call back once, at an instant of the clock or somewhat later."""
        self._calls.append((at_ns, callback))

    def run_once(self, *, until_ns: int | None = None) -> None:
        """Run one turn; sleeps until there is work, but not beyond `until_ns`."""
        wake_ns = until_ns
        for task in self.tasks:
            next_ns = self._step(task)
            if next_ns is not None and (wake_ns is None or next_ns < wake_ns):
                wake_ns = next_ns
        if self.has_local_channels and any(task.is_ready for task in self.tasks):
            wake_ns = 0  # a later task has enabled an earlier one
        if self._calls:
            wake_ns = self._call(wake_ns)
        ready = self._selector.select(0)
        if ready:  # receive first, then send the responses
            self._take(ready)
            self._serve(wake_ns)
        else:
            self._take(self._wait(self._serve(wake_ns)))
        if self._has_closed:
            self._has_closed = False
            self.transports = [each for each in self.transports if not each.is_closed]

    def _call(self, wake_ns: int | None) -> int | None:
        """Make the calls that are due. Returns: when to wake up."""
        calls, self._calls, now_ns = self._calls, [], monotonic_ns()
        for at_ns, callback in calls:
            if at_ns <= now_ns:
                callback()
            else:
                self._calls.append((at_ns, callback))
        due = [at_ns for at_ns, _ in self._calls]
        return min(due if wake_ns is None else [wake_ns, *due], default=None)

    def _serve(self, wake_ns: int | None) -> int | None:
        """Handle the deadlines of connections, and send their data. Returns: when to wake up."""
        has_sent = False
        for transport in self.transports:
            deadline_ns = transport.connection.next_deadline_ns()
            if deadline_ns is not None:
                if deadline_ns <= monotonic_ns():
                    transport.connection.handle_deadline(now_ns=monotonic_ns())
                    transport.follow_wants_data()
                    wake_ns = 0  # tasks may have new input
                elif wake_ns is None or deadline_ns < wake_ns:
                    wake_ns = deadline_ns
            sent_bytes = transport.sent_bytes
            transport.pump()
            has_sent = has_sent or transport.sent_bytes != sent_bytes
        if wake_ns != 0 and self._may_go_on(has_sent or self._has_closed):
            wake_ns = 0
        return wake_ns

    def _may_go_on(self, has_sent: bool) -> bool:
        """Whether a task or connection that had its turn may have waited for memory that was freed
        since, by sending or by a connection that failed.
        """
        has_local_channels = self.has_local_channels
        for task in self.tasks:
            is_blocked = task.is_blocked
            if has_sent and is_blocked:
                return True
            if (is_blocked or has_local_channels) and task.is_ready:
                return True
        transports = self.transports
        return len(transports) > 1 and any(each.is_ready for each in transports)

    def _take(self, ready: Sequence[tuple[selectors.SelectorKey, int]]) -> None:
        """Read from and write to the sockets that are ready. Responses are sent at once: credit for
        a backlog is announced before the records that came with it are read (1.2 of the rate).
        """
        for key, events in ready:
            target = key.data
            if isinstance(target, TcpTransport):
                if events & selectors.EVENT_WRITE and not target.is_closed:
                    target.handle_writable()
                if events & selectors.EVENT_READ and not target.is_closed:
                    target.handle_readable()
                    target.pump()
            else:
                target()

    def pump(self) -> None:
        """Send queued bytes, as far as sockets accept them now."""
        for transport in list(self.transports):
            transport.pump()

    def close(self) -> None:
        self._calls.clear()
        for transport in self.transports:
            transport.close()
        self._selector.close()
        with self._waking:
            pipe: tuple[int, ...] = self._wake_pipe or ()
            self._wake_pipe = None
            for each in pipe:
                os.close(each)

    def _step(self, task: Task) -> int | None:
        next_ns: int | None = None
        for _ in range(STEPS_PER_TURN):
            now_ns = monotonic_ns()
            next_ns = task.step(now_ns=now_ns)
            if next_ns is None or next_ns > now_ns:
                if task.times.is_busy:
                    task.rest(now_ns=monotonic_ns())
                break
        return next_ns

    def _wait(self, wake_ns: int | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for sockets with microsecond precision; an epoll wait rounds up to a millisecond."""
        ready = self._selector.select(0)
        begun_ns = monotonic_ns()
        timeout_ns = IDLE_WAIT_NS if wake_ns is None else min(wake_ns - begun_ns, IDLE_WAIT_NS)
        if ready or timeout_ns <= 0:
            return ready
        now_ns = begun_ns
        if self._may_spin and not self.working_threads and self._mean_wait_ns < SHORT_WAIT_NS:
            until_ns = begun_ns + min(SPIN_NS, timeout_ns)
            while not ready and now_ns < until_ns:
                ready = self._selector.select(0)
                now_ns = monotonic_ns()
        timeout_ns -= now_ns - begun_ns
        if not ready and timeout_ns > 0:
            if self._is_exact:
                ready = self._selector.select(timeout_ns / 1e9)
            else:
                select.select([self._selector.fileno()], [], [], timeout_ns / 1e9)  # type: ignore[attr-defined]
                ready = self._selector.select(0)
            asleep_ns, now_ns = now_ns, monotonic_ns()
            self.slept_ns += now_ns - asleep_ns
        waited_ns = now_ns - begun_ns
        self.waited_ns += waited_ns
        # one long wait among short ones does not end the traffic
        self._mean_wait_ns += (min(waited_ns, 2 * SHORT_WAIT_NS) - self._mean_wait_ns) // 8
        return ready

    def _watch(self, transport: TcpTransport) -> None:
        """Watch a transport for reading or writing, as it wants; for neither, do not watch it."""
        events = selectors.EVENT_READ if transport.wants_to_read else 0
        events |= selectors.EVENT_WRITE if transport.wants_to_write else 0
        is_watched = transport.sock in self._selector.get_map()
        if not events:
            self._selector.unregister(transport.sock)
        elif is_watched:
            self._selector.modify(transport.sock, events, transport)
        else:
            self._selector.register(transport.sock, events, transport)

    def _forget(self, transport: TcpTransport) -> None:
        if transport.sock in self._selector.get_map():
            self._selector.unregister(transport.sock)
        self._has_closed = True
