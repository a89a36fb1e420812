"""Relay: one connection through the tap, in both directions.

Bytes are forwarded first and then given to the observer, before anything else is received, so an
answer is never recorded before its request. Bytes that the target does not take at once are held,
and nothing more is received from the source until they are sent: a direction holds at most one
chunk, and back pressure passes through.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from flinknet.errors import TlsError
from flinknet.histogram import LogLinearHistogram
from flinknet.results import LatencySummary
from flinknet.runtime.clock import monotonic_ns

from ..observer import ConnectionObserver
from .ends import End

CHUNK_BYTES: Final = 256 * 1024
"""Most bytes received at once, and held in each direction."""


class Turn:
    """State that the event loop shares with its relays.

    The delay of a chunk is from its earliest possible arrival until the other socket has taken the
    last byte: if the loop was busy, from the poll before. An upper bound, except for the time the
    kernel takes to wake the tap."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(CHUNK_BYTES))  # for one chunk, reused for the next one
        self.since_ns = monotonic_ns()  # earliest possible arrival of bytes received now
        self.chunks = 0
        self._total = LogLinearHistogram()
        self._recent = LogLinearHistogram()
        self._new = array("q")
        self.add_delay = self._new.append  # on the hot path

    def fold(self) -> None:
        """Move added delays into the histograms; to be called now and then."""
        values = np.array(self._new, dtype=np.int64)
        del self._new[:]
        self._total.add(values)
        self._recent.add(values)

    def take_recent(self) -> LogLinearHistogram:
        self.fold()
        recent, self._recent = self._recent, LogLinearHistogram()
        return recent

    def summary(self) -> LatencySummary:
        self.fold()
        return self._total.summary()


@dataclass(slots=True, eq=False)
class RelayDirection:
    """Forwards bytes from one end to the other."""

    source: End
    target: End
    observe: Callable[[memoryview, int], None] | None
    held: memoryview | None = None
    held_since_ns: int = 0
    is_ended: bool = False  # the source sends no more, and the target knows
    bytes: int = 0

    @property
    def wants_to_read(self) -> bool:
        return self.held is None and not self.is_ended

    def flow(self, turn: Turn) -> None:
        """Receive one chunk and forward it. Raises: OSError of either socket, except
        BlockingIOError."""
        buffer = turn.buffer
        try:
            count = self.source.receive_into(buffer)
        except BlockingIOError:
            return
        if not count:
            self.is_ended = True
            self.target.finish()
            return
        at_ns = monotonic_ns()
        self.bytes += count
        turn.chunks += 1
        chunk = buffer[:count]
        rest = self._send(chunk)
        if rest is None:
            turn.add_delay(monotonic_ns() - turn.since_ns)
        else:
            self.held = memoryview(bytes(rest))
            self.held_since_ns = turn.since_ns
        if self.observe is not None:
            self.observe(chunk, at_ns)

    def drain(self, turn: Turn) -> None:
        if self.held is not None:
            self.held = self._send(self.held)
            if self.held is None:
                turn.add_delay(monotonic_ns() - self.held_since_ns)

    def _send(self, view: memoryview) -> memoryview | None:
        try:
            while view:
                view = view[self.target.send(view) :]
        except BlockingIOError:
            return view
        return None


@dataclass(eq=False)
class Relay:
    """One connection through the tap, with its observer."""

    name: str
    client: End  # of the consuming TaskManager
    server: End  # of the producing one
    observer: ConnectionObserver
    is_tls: bool
    opened_ns: int
    failure: str | None = None  # why it ended, if it was broken off
    observer_failure: str | None = None  # why it is not observed any more
    is_connected: bool = False
    is_established: bool = False
    is_closed: bool = False
    is_known_tls: bool = False  # its ends use TLS, which the tap forwards unread
    watched: dict[End, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        client, server, observer = self.client, self.server, self.observer
        self.from_client = RelayDirection(client, server, self._guarded(observer.from_client))
        self.from_server = RelayDirection(server, client, self._guarded(observer.from_server))
        self._unshaken = [client, server]

    def shake(self) -> None:
        """Continue the handshakes of both sides; without TLS they complete at once. Raises:
        TlsError naming the side."""
        for end, side in ((self.client, "the consumer"), (self.server, "the upstream")):
            if end not in self._unshaken or (end is self.server and not self.is_connected):
                continue
            try:
                if end.shake():
                    self._unshaken.remove(end)
            except TlsError as error:
                raise TlsError(f"with {side} {error}") from None
        self.is_established = not self._unshaken

    def handle_readable(self, end: End, turn: Turn) -> None:
        direction = self.from_client if end is self.client else self.from_server
        if direction.wants_to_read:
            direction.flow(turn)
            while end.has_more and direction.wants_to_read:
                direction.flow(turn)

    def handle_writable(self, end: End, turn: Turn) -> None:
        direction = self.from_server if end is self.client else self.from_client
        direction.drain(turn)
        while direction.wants_to_read and direction.source.has_more:
            direction.flow(turn)

    @property
    def is_over(self) -> bool:
        """Whether both directions have ended; TLS ends them together."""
        ends = self.from_client.is_ended, self.from_server.is_ended
        return any(ends) if self.is_tls else all(ends)

    def wanted(self, end: End) -> tuple[bool, bool]:
        """Whether to wait until an end is readable, and until it is writable."""
        if not self.is_connected:
            return False, end is self.server
        if not self.is_established:
            return end in self._unshaken, end.wants_to_write
        reading, writing = self.from_client, self.from_server
        if end is not self.client:
            reading, writing = writing, reading
        return reading.wants_to_read, writing.held is not None

    def _guarded(
        self, observe: Callable[[memoryview, int], None]
    ) -> Callable[[memoryview, int], None]:
        """Wrap an observer, so that its errors end the observation and not the connection."""

        def observed(chunk: memoryview, at_ns: int) -> None:
            try:
                observe(chunk, at_ns)
            except Exception as error:  # fails open: bytes are forwarded without observation
                self.observer_failure = f"{type(error).__name__}: {error}"
                self.from_client.observe = self.from_server.observe = None

        return observed
