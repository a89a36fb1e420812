"""Visitors: the accepted connections of a port that have not shown yet that they belong here. Their
number is bounded, and how long they may be silent (Flink has no such bounds).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from flinknet.errors import TransportError

from .clock import monotonic_ns
from .event_loop import EventLoop
from .sockets import Listener, accept
from .transport import TcpTransport

VISITORS_MAX = 128
"""The most visitors of a port at once. Another one closes the oldest: who belongs here shows it at
once, and is never among the oldest.
"""

SILENCE_NS = 10_000_000_000
"""How long a visitor may be silent while none of its requests waits; on a port without renewal, how
long it has to become known.
"""

CHECK_INTERVAL_NS = 1_000_000_000
"""A silent visitor is noticed this late at most."""

ACCEPT_PAUSE_NS = 250_000_000
"""How long a port pauses after the process ran out of file descriptors."""

_Connection = TypeVar("_Connection")


@dataclass(slots=True)
class _Visitor(Generic[_Connection]):
    connection: _Connection
    received_bytes: int
    received_ns: int


class VisitedPort(Generic[_Connection]):
    """A listening port.

    Args:
        add: adds an accepted socket, with its address, to the event loop.
        is_known: whether a connection has shown that it belongs here, and is no visitor any more.
        is_waiting: whether requests of a visitor wait, so that it may be silent.
        has_renewal: whether bytes of a visitor renew its time.
    """

    def __init__(
        self,
        loop: EventLoop,
        sock: socket.socket,
        add: Callable[[socket.socket, str], tuple[TcpTransport, _Connection]],
        is_known: Callable[[_Connection], bool],
        is_waiting: Callable[[_Connection], bool] = lambda _: False,
        has_renewal: bool = True,
    ) -> None:
        self._loop = loop
        self._add = add
        self._is_known = is_known
        self._is_waiting = is_waiting
        self._has_renewal = has_renewal
        self._visitors: dict[TcpTransport, _Visitor[_Connection]] = {}
        self._check_ns: int | None = None
        self._listener = Listener(
            sock,
            watch=lambda: loop.add_reader(sock, self._accept),
            unwatch=lambda: loop.remove(sock),
        )

    @property
    def refusal(self) -> str | None:
        """Why no connection can be accepted now; None if one can."""
        return self._listener.refusal

    def visitors(self) -> list[tuple[TcpTransport, _Connection]]:
        """The open connections that are visitors, oldest first."""
        self._visitors = {
            transport: visitor
            for transport, visitor in self._visitors.items()
            if not transport.is_closed and not self._is_known(visitor.connection)
        }
        return [(transport, each.connection) for transport, each in self._visitors.items()]

    def close_silent(self, *, now_ns: int) -> None:
        """Close visitors that have been silent for too long."""
        for transport, connection in self.visitors():
            visitor = self._visitors[transport]
            has_sent = transport.received_bytes != visitor.received_bytes
            if (has_sent and self._has_renewal) or self._is_waiting(connection):
                visitor.received_bytes, visitor.received_ns = transport.received_bytes, now_ns
            elif now_ns - visitor.received_ns >= SILENCE_NS:
                transport.close(TransportError("was closed here: it has not said who it is"))

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        taken = self._listener.accept(accept)
        if taken is None:
            if self._listener.is_paused:
                if self._close_oldest():
                    self._listener.wake()
                else:
                    self._loop.call_at(monotonic_ns() + ACCEPT_PAUSE_NS, self._listener.wake)
            return
        if len(self._visitors) >= VISITORS_MAX and len(self.visitors()) >= VISITORS_MAX:
            self._close_oldest()
        transport, connection = self._add(*taken)
        self._visitors[transport] = _Visitor(connection, 0, monotonic_ns())
        self._schedule_check()

    def _close_oldest(self) -> bool:
        """Close the oldest visitor. Returns: whether there was one."""
        for transport, _ in self.visitors()[:1]:
            transport.close(TransportError("was closed here, to make room for another"))
            return True
        return False

    def _schedule_check(self) -> None:
        if self._check_ns is None:
            self._check_ns = monotonic_ns() + CHECK_INTERVAL_NS
            self._loop.call_at(self._check_ns, self._check)

    def _check(self) -> None:
        assert self._check_ns is not None
        now_ns = monotonic_ns()
        for visitor in self._visitors.values():  # nobody was heard while the process was busy
            visitor.received_ns += now_ns - self._check_ns
        self._check_ns = None
        self.close_silent(now_ns=now_ns)
        if self.visitors():
            self._schedule_check()
