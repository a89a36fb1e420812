"""Relay: one connection through the tap, in both directions.

Bytes are forwarded first and then given to the observer, before anything else is received, so an
answer is never recorded before its request. Bytes that the target does not take at once are held,
and nothing more is received from the source until they are sent: a direction holds at most one
chunk, and back pressure passes through.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from flinknet.errors import TlsError
from flinknet.histogram import LogLinearHistogram
from flinknet.results import LatencySummary
from flinknet.runtime.clock import monotonic_ns

from ..observer import ConnectionObserver
from .ends import End


class AddedDelay:
    """Delays of chunks, from their earliest possible arrival until the other socket has taken the
    last byte.

    If the loop was busy before it found a chunk, the chunk may have arrived at any time since the
    sockets were polled before, and all this time counts as delay. The result is an upper bound,
    except for the time the kernel takes to wake the tap.
    """

    def __init__(self) -> None:
        self.total = LogLinearHistogram()
        self._recent = LogLinearHistogram()
        self._new = array("q")
        self.add = self._new.append  # on the hot path

    def fold(self) -> None:
        """Move added delays into the histograms; to be called now and then."""
        if not self._new:
            return
        values = np.array(self._new, dtype=np.int64)
        del self._new[:]
        self.total.add(values)
        self._recent.add(values)

    def take_recent(self) -> LogLinearHistogram:
        self.fold()
        recent, self._recent = self._recent, LogLinearHistogram()
        return recent

    def summary(self) -> LatencySummary:
        self.fold()
        return self.total.summary()


CHUNK_BYTES: Final = 256 * 1024
"""Most bytes received at once, and held in each direction."""


@dataclass(slots=True)
class Turn:
    """State that the event loop shares with its relays.

    Attributes:
        since_ns: earliest instant at which bytes received now can have arrived.
        buffer: space for one chunk, reused for the next one.
    """

    buffer: memoryview
    delay: AddedDelay
    since_ns: int = 0
    chunks: int = 0


@dataclass(slots=True, eq=False)
class RelayDirection:
    """Forwards bytes from one end to the other.

    Attributes:
        is_ended: the source sends no more, and the target knows.
    """

    source: End
    target: End
    observe: Callable[[memoryview, int], None] | None
    held: memoryview | None = None
    held_since_ns: int = 0
    is_ended: bool = False
    bytes: int = 0

    @property
    def wants_to_read(self) -> bool:
        return self.held is None and not self.is_ended

    def flow(self, turn: Turn) -> None:
        """Receive one chunk and forward it.

        Raises: OSError of either socket, except BlockingIOError.
        """
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
            turn.delay.add(monotonic_ns() - turn.since_ns)
        else:
            self.held = memoryview(bytes(rest))
            self.held_since_ns = turn.since_ns
        if self.observe is not None:
            self.observe(chunk, at_ns)

    def drain(self, turn: Turn) -> None:
        """Send held bytes, as the target takes bytes again."""
        if self.held is not None:
            self.held = self._send(self.held)
            if self.held is None:
                turn.delay.add(monotonic_ns() - self.held_since_ns)

    def _send(self, view: memoryview) -> memoryview | None:
        """Send as much as the target takes. Returns: the rest, if any."""
        try:
            while view:
                view = view[self.target.send(view) :]
        except BlockingIOError:
            return view
        return None


class Relay:
    """One connection through the tap, with its observer.

    Attributes:
        client: the consuming TaskManager's end; `server` the producing one's.
        failure: why it ended, if it was broken off.
        observer_failure: why it is not observed any more.
        is_silent: no message has passed, and the server has sent nothing.
    """

    def __init__(
        self,
        name: str,
        client: End,
        server: End,
        observer: ConnectionObserver,
        *,
        is_tls: bool,
        opened_ns: int,
    ) -> None:
        self.name = name
        self.client = client
        self.server = server
        self.observer = observer
        self.failure: str | None = None
        self.observer_failure: str | None = None
        self.is_connected = False
        self.is_established = False
        self.is_closed = False
        self.opened_ns = opened_ns
        self.is_silent = True
        self.watched: dict[End, int] = {}
        self.from_client = RelayDirection(client, server, self._guarded(observer.from_client))
        self.from_server = RelayDirection(server, client, self._guarded(observer.from_server))
        self._is_tls = is_tls
        self._unshaken = [client, server]

    def shake(self) -> None:
        """Continue the handshakes of both sides; without TLS they complete at once.

        Raises: TlsError naming the side.
        """
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
        """Forward data that one side has sent."""
        direction = self.from_client if end is self.client else self.from_server
        if direction.wants_to_read:
            direction.flow(turn)
            while end.has_more and direction.wants_to_read:
                direction.flow(turn)

    def handle_writable(self, end: End, turn: Turn) -> None:
        """Continue to send to a side that takes bytes again."""
        direction = self.from_server if end is self.client else self.from_client
        direction.drain(turn)
        while direction.wants_to_read and direction.source.has_more:
            direction.flow(turn)

    @property
    def is_over(self) -> bool:
        """Whether both directions have ended; TLS ends them together."""
        ends = self.from_client.is_ended, self.from_server.is_ended
        return any(ends) if self._is_tls else all(ends)

    def wanted(self, end: End) -> tuple[bool, bool]:
        """Whether to wait until an end is readable, and until it is writable."""
        if not self.is_connected:
            return False, end is self.server
        if not self.is_established:
            return end in self._unshaken, end.wants_to_write()
        reading, writing = (
            (self.from_client, self.from_server)
            if end is self.client
            else (self.from_server, self.from_client)
        )
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
