"""The process of an emulated link: it accepts the data connections between TaskManagers, and
forwards their bytes as late and as slowly as the link says.

For every two TaskManagers it listens on one port for each direction of connecting. Each socket is
watched once, edge-triggered, so that holding a sender up takes no system call: it is simply not
read, and TCP does the rest.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from itertools import permutations

from flinknet.config import Link
from flinknet.errors import RunFailedError
from flinknet.loopback import family_of, loopback

from .clock import monotonic_ns, timestamp_epoch_ns
from .link import Flow, Wire
from .signals import ignore_end_signals, interrupts_held

READ_BYTES = 128 * 1024
"""Most bytes taken from a socket at once."""

PIECES_MAX = 64
"""Most pieces in one gathered write."""

SOCKET_BYTES = 256 * 1024
"""Size of the emulator's own socket buffers: they are no part of the link, so they are small."""

LEAD_MIN_NS, LEAD_MAX_NS = 20_000, 300_000
"""Bounds of the time before an arrival at which the process is to wake up, in ns: it is woken late,
after long sleep on a virtual machine by hundreds of microseconds."""

IDLE_NS = 1_000_000_000
"""Longest sleep, in ns."""

AGE_MAX_NS = 50_000_000
"""Largest age of received bytes that is believed."""

_CLOSING = select.EPOLLHUP | select.EPOLLERR | select.EPOLLRDHUP
_READABLE = select.EPOLLIN | _CLOSING
_WRITABLE = select.EPOLLOUT | select.EPOLLHUP | select.EPOLLERR
_RESET_ON_CLOSE = (1).to_bytes(4, sys.byteorder) + bytes(4)
_SO_TIMESTAMPNS = 35
_PR_SET_TIMERSLACK = 29
_TIMESTAMP_BYTES = socket.CMSG_SPACE(16)
_END_S = 2.0


class _Side:
    """One socket of a forwarded connection: the flow that is read from it, and whether the kernel
    would give and take bytes."""

    __slots__ = ("flow", "is_closing", "is_readable", "is_writable", "other", "sock")

    def __init__(self, sock: socket.socket, wire: Wire) -> None:
        self.sock = sock
        self.flow = Flow(wire)
        self.other = self
        self.is_readable = self.is_writable = self.is_closing = False


class LinkForwarder:
    """Listeners, connections and their event loop; between each two TaskManagers are two wires."""

    def __init__(self, link: Link, task_managers: int, seed: int) -> None:
        self._epoll = select.epoll()
        self._lead_ns = LEAD_MAX_NS // 4
        self._sides: dict[int, _Side] = {}
        self._listeners: dict[int, tuple[socket.socket, int, int]] = {}
        self._targets: dict[int, tuple[str, int]] = {}
        self._wires = {
            ends: Wire(link, seed * 1_000_003 + ends[0] * 1009 + ends[1])
            for ends in permutations(range(task_managers), 2)
        }
        self.ports: dict[str, int] = {}
        host = loopback()
        for connecting, listening in self._wires:
            sock = socket.socket(family_of(host))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
            sock.bind((host, 0))
            sock.listen()
            sock.setblocking(False)
            self._epoll.register(sock.fileno(), select.EPOLLIN)
            self._listeners[sock.fileno()] = (sock, connecting, listening)
            self.ports[f"{connecting} {listening}"] = sock.getsockname()[1]

    def run(self, commands: int) -> None:
        """Forward until the command pipe, which has the addresses line by line, is closed."""
        self._epoll.register(commands, select.EPOLLIN)
        unread = b""
        while True:
            for number, events in self._wait():
                if number == commands:
                    data = os.read(commands, 65536)
                    if not data:
                        return
                    *lines, unread = (unread + data).split(b"\n")
                    for line in lines:
                        index, host, port = json.loads(line)
                        self._targets[index] = host, port
                elif number in self._listeners:
                    self._accept(*self._listeners[number])
                elif (side := self._sides.get(number)) is not None:
                    side.is_closing = side.is_closing or bool(events & _CLOSING)
                    side.is_readable = side.is_readable or bool(events & _READABLE)
                    side.is_writable = side.is_writable or bool(events & _WRITABLE)
            self._forward()

    def _wait(self) -> list[tuple[int, int]]:
        """Wait for a socket, or until something is to be done. The process sleeps until
        shortly before that instant, since its sleeps end late, and polls for the rest.
        """
        found = self._epoll.poll(0)
        next_ns = None if found else self._next_ns()
        while not found:
            now_ns = monotonic_ns()
            left_ns = IDLE_NS if next_ns is None else next_ns - now_ns
            if left_ns <= 0:
                break
            sleep_ns = left_ns - self._lead_ns
            if sleep_ns > 0:
                ready, _, _ = select.select([self._epoll.fileno()], [], [], sleep_ns / 1e9)
                if not ready:
                    late_ns = monotonic_ns() - now_ns - sleep_ns
                    self._lead_ns += (min(late_ns + LEAD_MIN_NS, LEAD_MAX_NS) - self._lead_ns) // 4
            found = self._epoll.poll(0)
        return found

    def _next_ns(self) -> int | None:
        """The next arrival at a socket that takes bytes, or room for a sender that is held up."""
        due = []
        for side in self._sides.values():
            flow = side.flow
            if side.other.is_writable and flow.next_ns is not None:
                due.append(flow.next_ns)
            if side.is_readable and not flow.is_ended:
                room_ns = flow.wire.room_at_ns()
                if room_ns is not None:
                    due.append(room_ns)
        return min(due, default=None)

    def _forward(self) -> None:
        """Deliver what has arrived, then read as much as the wires have room for."""
        for side in list(self._sides.values()):
            if side.sock.fileno() < 0:
                continue
            try:
                self._deliver(side)
                if side.is_readable and not side.flow.is_ended:
                    self._read(side)
                    self._deliver(side)
            except OSError:
                self._break(side)

    def _read(self, side: _Side) -> None:
        wire, sock, add = side.flow.wire, side.sock, side.flow.add
        for _ in range(4):
            now_ns = monotonic_ns()
            room_bytes = wire.room_bytes(now_ns)
            if room_bytes < wire.step_bytes:
                return
            wanted_bytes = min(room_bytes, READ_BYTES)
            try:
                data, ancillary, _, _ = sock.recvmsg(wanted_bytes, _TIMESTAMP_BYTES)
            except BlockingIOError:
                side.is_readable = False
                return
            add(data, _received_ns(ancillary))
            if len(data) < wanted_bytes and not side.is_closing:
                side.is_readable = False  # the next bytes are reported
            if not data or not side.is_readable:
                return

    def _deliver(self, side: _Side) -> None:
        """Send what has arrived at the other socket."""
        flow, other = side.flow, side.other
        while other.is_writable:
            pieces = flow.due(monotonic_ns(), PIECES_MAX)
            if not pieces:
                return
            if not pieces[0]:
                flow.drop_end()
                other.sock.shutdown(socket.SHUT_WR)
                if other.flow.is_ended and other.flow.next_ns is None:
                    self._close(side)
                return
            try:
                flow.delivered(other.sock.sendmsg(pieces))
            except BlockingIOError:
                other.is_writable = False

    def _accept(self, listener: socket.socket, connecting: int, listening: int) -> None:
        try:
            accepted, _ = listener.accept()
        except OSError:
            return
        target = self._targets.get(listening)
        if target is None:
            accepted.close()
            return
        opened = socket.socket(family_of(target[0]))
        there, back = self._wires[connecting, listening], self._wires[listening, connecting]
        sides = _Side(accepted, there), _Side(opened, back)
        sides[0].other, sides[1].other = sides[1], sides[0]
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
        for each in sides:
            each.sock.setblocking(False)
            each.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            each.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
            with suppress(OSError):
                each.sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        code = opened.connect_ex(target)
        if code not in (0, errno.EINPROGRESS):
            accepted.close()
            opened.close()
            return
        for each in sides:
            self._sides[each.sock.fileno()] = each
            mask = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
            self._epoll.register(each.sock.fileno(), mask)

    def _break(self, side: _Side) -> None:
        for each in (side, side.other):
            with suppress(OSError):
                each.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._close(side)

    def _close(self, side: _Side) -> None:
        for each in (side, side.other):
            each.flow.clear()
            if each.sock.fileno() >= 0:
                del self._sides[each.sock.fileno()]
                each.sock.close()


def _received_ns(ancillary: list[tuple[int, int, bytes]]) -> int:
    """The instant at which the kernel received the latest of the bytes that were read, so that it
    does not matter how late this process was woken."""
    now_ns = monotonic_ns()
    if not ancillary:
        return now_ns
    stamp, order = ancillary[0][2], sys.byteorder
    seconds, ns = (int.from_bytes(stamp[at : at + 8], order) for at in (0, 8))
    received_ns = timestamp_epoch_ns() + seconds * 1_000_000_000 + ns
    return received_ns if 0 < now_ns - received_ns < AGE_MAX_NS else now_ns


class LinkEmulator:
    """The process of an emulated link, for the process that starts it; it ends with that one."""

    def __init__(self, link: Link, task_managers: int, seed: int) -> None:
        spec = json.dumps([asdict(link), task_managers, seed])
        with interrupts_held():
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, spec],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        self._ports: dict[str, int] = {}

    def set_target(self, task_manager: int, address: tuple[str, int]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps([task_manager, *address]).encode() + b"\n")
            self._process.stdin.flush()

    def address_of(self, task_manager: int, connecting: int) -> tuple[str, int]:
        """The address at which one TaskManager reaches another. Raises: as `check`."""
        if not self._ports:
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
            self.check()
            self._ports = json.loads(line or "{}")
        return loopback(), self._ports[f"{connecting} {task_manager}"]

    def check(self) -> None:
        """Raises: RunFailedError if the process has ended."""
        code = self._process.poll()
        if code is not None:
            raise RunFailedError(
                f"the process of the emulated link (pid {self._process.pid}) ended with {code}"
            )

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main(spec: str) -> None:
    """Run the process; its output is the ports."""
    ignore_end_signals()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    with suppress(OSError, AttributeError):  # a user may not; then it takes turns like others
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    link, task_managers, seed = json.loads(spec)
    forwarder = LinkForwarder(Link(**link), task_managers, seed)
    print(json.dumps(forwarder.ports), flush=True)
    forwarder.run(0)


if __name__ == "__main__":
    main(sys.argv[1])
