"""An emulated link: the shaping of one direction, without sockets and clocks.

A Wire is shared by all connections of a direction between two TaskManagers; it serialises their
bytes at its bandwidth. A Flow holds the bytes of one connection until they arrive.
"""

from __future__ import annotations

from collections import deque
from random import Random

from flinknet.config import Link

SLICE_NS = 200_000
"""Pieces that take longer at the bandwidth are cut, so that their parts arrive in turn, in ns."""

SLICE_MIN_BYTES = 1500
"""Smallest piece that is cut off: a packet of Ethernet, in bytes."""

HELD_MAX_BYTES = 16 * 1024 * 1024
"""Most bytes that a wire without a limited bandwidth holds: TCP windows are rarely larger."""


class Wire:
    """One direction of a link, shared by its connections.

    Attributes:
        held_bytes: bytes that have been accepted and not delivered.
        held_max_bytes: most of them before nothing is accepted.
        step_bytes: room in the queue from which it is worth reading.
    """

    def __init__(self, link: Link, seed: int) -> None:
        self.held_bytes = 0
        self._delay_ns = link.rtt_ns // 2
        self._jitter_ns = link.jitter_ns
        self._ns_per_byte = 1e9 / link.bandwidth_bytes_per_s if link.bandwidth_bytes_per_s else 0.0
        self._queue_bytes = link.queue_bytes
        self.held_max_bytes = self._slice_bytes = HELD_MAX_BYTES
        if self._ns_per_byte:
            self._slice_bytes = max(SLICE_MIN_BYTES, int(SLICE_NS / self._ns_per_byte))
            under_way_bytes = int((self._delay_ns + self._jitter_ns) / self._ns_per_byte)
            self.held_max_bytes = link.queue_bytes + under_way_bytes + 2 * self._slice_bytes
        self.step_bytes = min(self._slice_bytes, link.queue_bytes // 2)
        if not self._ns_per_byte:
            self.step_bytes = 1
        self._free_ns = 0.0
        self._random = Random(seed)

    def room_bytes(self, now_ns: int) -> int:
        """Bytes that may be accepted now."""
        room_bytes = self.held_max_bytes - self.held_bytes
        if self._ns_per_byte and self._free_ns > now_ns:
            waiting_bytes = int((self._free_ns - now_ns) / self._ns_per_byte)
            room_bytes = min(room_bytes, self._queue_bytes - waiting_bytes)
        return room_bytes

    def room_at_ns(self) -> int | None:
        """Instant from which the queue has room for a step; None while delivery must go first."""
        if self.held_bytes + self.step_bytes > self.held_max_bytes:
            return None
        return int(self._free_ns - (self._queue_bytes - self.step_bytes) * self._ns_per_byte) + 1

    def accept(self, data: bytes, at_ns: int) -> list[tuple[int, memoryview]]:
        """Take bytes that came at an instant. Returns: their pieces, each with its arrival."""
        self.held_bytes += len(data)
        view, size_bytes = memoryview(data), self._slice_bytes
        delay_ns = self._delay_ns
        if self._jitter_ns:
            delay_ns += self._random.randint(-self._jitter_ns, self._jitter_ns)
        if not self._ns_per_byte:
            return [(at_ns + delay_ns, view)]
        free_ns = max(self._free_ns, at_ns)
        pieces = []
        for begin in range(0, len(data), size_bytes):
            piece = view[begin : begin + size_bytes]
            free_ns += len(piece) * self._ns_per_byte
            pieces.append((int(free_ns) + delay_ns, piece))
        self._free_ns = free_ns
        return pieces

    def end_ns(self, at_ns: int) -> int:
        """Arrival of the end of a connection that was closed at an instant."""
        return int(max(self._free_ns, at_ns)) + self._delay_ns


class Flow:
    """The bytes of one direction of a connection that are under way, in their order; it is ended
    when the sender has closed the connection.
    """

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.is_ended = False
        self._pieces: deque[tuple[int, memoryview]] = deque()
        self._last_ns = 0

    @property
    def next_ns(self) -> int | None:
        return self._pieces[0][0] if self._pieces else None

    def add(self, data: bytes, at_ns: int) -> None:
        """Take bytes that the sender sent at an instant; empty ones mark its end."""
        if data:
            pieces = self.wire.accept(data, at_ns)
        else:
            self.is_ended, pieces = True, [(self.wire.end_ns(at_ns), memoryview(b""))]
        for arrival_ns, piece in pieces:
            self._last_ns = max(self._last_ns, arrival_ns)
            self._pieces.append((self._last_ns, piece))

    def due(self, now_ns: int, limit: int) -> list[memoryview]:
        """The pieces that have arrived, at most `limit`; they stay until `delivered`."""
        found: list[memoryview] = []
        for arrival_ns, piece in self._pieces:
            if arrival_ns > now_ns or len(found) == limit:
                break
            found.append(piece)
        return found

    def delivered(self, size_bytes: int) -> None:
        """Remove bytes that the receiver's socket has taken."""
        self.wire.held_bytes -= size_bytes
        pieces = self._pieces
        while size_bytes:
            arrival_ns, piece = pieces[0]
            if len(piece) > size_bytes:
                pieces[0] = (arrival_ns, piece[size_bytes:])
                return
            size_bytes -= len(piece)
            pieces.popleft()

    def drop_end(self) -> None:
        """Remove the mark of the sender's end, which is first, as the receiver was closed."""
        self._pieces.popleft()

    def clear(self) -> None:
        self.wire.held_bytes -= sum(len(piece) for _, piece in self._pieces)
        self._pieces.clear()
