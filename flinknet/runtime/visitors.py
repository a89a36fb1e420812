"""Visitors: accepted connections that have not requested anything of the run yet."""

from __future__ import annotations

from dataclasses import dataclass

from flinknet.core.producer import ProducerConnection
from flinknet.results import Strangers

from .transport import TcpTransport

VISITORS_MAX = 128
"""The most visitors at once; another one closes the oldest."""

SILENCE_NS = 10_000_000_000
"""How long a visitor may be silent while none of its requests waits."""


@dataclass(slots=True)
class _Visitor:
    connection: ProducerConnection
    received_bytes: int
    received_ns: int


class Visitors:
    """Bounds the connections of a data port until they request something of the run, and counts
    those that end before they do (Flink has no such bounds).
    """

    def __init__(self) -> None:
        self._visitors: dict[TcpTransport, _Visitor] = {}
        self._gone = Strangers()

    def __len__(self) -> int:
        return len(self._visitors)

    def add(self, transport: TcpTransport, connection: ProducerConnection, *, now_ns: int) -> None:
        """Add an accepted connection; the oldest visitor is closed if there are too many."""
        if len(self._visitors) >= VISITORS_MAX:
            self._forget_consumers()
        if len(self._visitors) >= VISITORS_MAX:
            self.close_oldest()
        self._visitors[transport] = _Visitor(connection, 0, now_ns)

    def handle_closed(self, transport: TcpTransport, connection: ProducerConnection) -> None:
        """Count a closed connection if it was a stranger's, and its requests that were not of the
        run.
        """
        self._visitors.pop(transport, None)
        self._gone += _strangeness(transport, connection)

    def close_oldest(self) -> bool:
        """Close the oldest visitor. Returns: whether there was one."""
        self._forget_consumers()
        for transport in self._visitors:
            transport.close()
            return True
        return False

    def close_silent(self, *, now_ns: int) -> None:
        """Close visitors that have been silent for too long; call this regularly."""
        self._forget_consumers()
        for transport, visitor in list(self._visitors.items()):
            if (
                transport.received_bytes != visitor.received_bytes
                or visitor.connection.waiting_requests
            ):
                visitor.received_bytes, visitor.received_ns = transport.received_bytes, now_ns
            elif now_ns - visitor.received_ns >= SILENCE_NS:
                transport.close()

    def strangers(self) -> Strangers:
        """Counts of all strangers, gone and still connected."""
        present = (
            _strangeness(transport, visitor.connection)
            for transport, visitor in self._visitors.items()
        )
        return sum(present, self._gone)

    def _forget_consumers(self) -> None:
        """Remove connections that have requested something of the run."""
        self._visitors = {
            transport: visitor
            for transport, visitor in self._visitors.items()
            if not visitor.connection.is_of_run
        }


def _strangeness(transport: TcpTransport, connection: ProducerConnection) -> Strangers:
    if connection.is_of_run:
        return Strangers(requests=connection.strange_requests)
    return Strangers(1, connection.strange_requests, transport.received_bytes)
