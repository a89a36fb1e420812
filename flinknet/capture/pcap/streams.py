"""Reassembly: the bytes of one direction of a TCP connection, in order, out of its segments.

Sans-IO. Bytes missing from the capture are reported as a gap at their place; the decoder of the
bytes must resynchronise after it.
"""

from __future__ import annotations

from bisect import insort
from typing import NamedTuple

from .segments import TcpSegment

HELD_BYTES_MAX = 16 << 20
"""Most bytes that wait for an earlier segment, more than any default receive window; beyond it the
segment counts as missing."""

PATIENCE_SEGMENTS = 32
"""Most segments between an acknowledgement and the bytes that it acknowledges, as a capture with
several queues is not written in order; after them the bytes count as missing."""

_WRAP = 1 << 32


class StreamData(NamedTuple):
    at_ns: int  # of the segment that made them readable
    data: bytes


class StreamGap(NamedTuple):
    """Bytes that were sent but are not in the capture."""

    at_ns: int
    missing_bytes: int


class _Held(NamedTuple):
    """A segment that is waiting; sorts by position."""

    position: int
    data: bytes
    cut_bytes: int
    at_ns: int

    @property
    def end(self) -> int:
        return self.position + len(self.data) + self.cut_bytes


class TcpStream:
    """One direction of a connection.

    Positions count bytes from the first captured one, and do not wrap. Without a SYN the stream
    begins with its first segment.
    """

    def __init__(self) -> None:
        self.retransmitted_segments = self.retransmitted_bytes = 0
        self.out_of_order_segments = 0  # captured before one that they follow
        self.gaps = self.missing_bytes = 0  # data that the capture lacks
        self.bytes = 0  # returned
        self.is_from_start = False
        self._next: int | None = None  # position of the next byte
        self._origin = 0  # sequence number of position 0
        self._held: list[_Held] = []
        self._held_bytes = 0
        self._acknowledged = 0  # position
        self._segments_since_ack = 0
        self._last_ns = 0

    def is_start(self, sequence_number: int) -> bool:
        """Whether a SYN with this number opened this stream."""
        return self.is_from_start and (sequence_number + 1 - self._origin) % _WRAP == 0

    def add(self, segment: TcpSegment) -> list[StreamData | StreamGap]:
        """Add a segment of this direction. Returns: data and gaps that follow in order, if any."""
        first, self._last_ns = segment.sequence_number, segment.at_ns
        if segment.is_syn:
            first += 1
            if self._next is None:
                self.is_from_start = True
        length = len(segment.data) + segment.cut_bytes
        if self._next is None:
            if not length and not segment.is_syn:
                return []
            self._origin, self._next = first % _WRAP, 0
        position = self._position(first)
        if not length:
            return []
        if position + length <= self._next or any(
            each.position <= position and position + length <= each.end for each in self._held
        ):
            if length > 1 or position + 1 != self._next:  # else it is a keep-alive
                self.retransmitted_segments += 1
                self.retransmitted_bytes += length
            return []
        if position > self._next:
            self.out_of_order_segments += 1
        elif position < self._next:
            self.retransmitted_segments += 1
            self.retransmitted_bytes += self._next - position
        insort(self._held, _Held(position, segment.data, segment.cut_bytes, segment.at_ns))
        self._held_bytes += length
        items = self._read(segment.at_ns)
        while self._held and self._is_missing():
            items += self._read_held()
        return items

    def acknowledge(self, sequence_number: int) -> None:
        """Note that the other side has all bytes before this one, so none will be sent again."""
        if self._next is not None:
            position = self._position(sequence_number)
            if position > self._acknowledged:
                self._acknowledged = position
                self._segments_since_ack = 0

    def finish(self) -> list[StreamData | StreamGap]:
        """End the stream. Returns: the waiting data with the gaps before it, and a last gap up to
        the last acknowledged byte."""
        items: list[StreamData | StreamGap] = []
        while self._held:
            items += self._read_held()
        # A FIN is acknowledged as one byte.
        if self._next is not None and self._acknowledged > self._next + 1:
            items.append(self._skip_to(self._acknowledged, self._last_ns))
        return items

    def _position(self, sequence_number: int) -> int:
        """The position of a sequence number, which wraps: the one nearest to the next byte."""
        assert self._next is not None
        distance = (sequence_number - self._origin - self._next) % _WRAP
        return self._next + (distance if distance < _WRAP // 2 else distance - _WRAP)

    def _read(self, at_ns: int) -> list[StreamData | StreamGap]:
        """Take the data that follows without a gap, with instants of at least `at_ns`."""
        assert self._next is not None
        items: list[StreamData | StreamGap] = []
        while self._held and self._held[0].position <= self._next:
            held = self._held.pop(0)
            self._held_bytes -= len(held.data) + held.cut_bytes
            if held.end <= self._next:
                continue
            at_ns = max(at_ns, held.at_ns)
            data = held.data[self._next - held.position :]
            if data:
                items.append(StreamData(at_ns, data))
                self.bytes += len(data)
                self._next += len(data)
            if held.end > self._next:
                items.append(self._skip_to(held.end, at_ns))
        return items

    def _read_held(self) -> list[StreamData | StreamGap]:
        """Take the gap before the first held segment, and the data behind it."""
        return [self._skip_to(self._held[0].position, self._held[0].at_ns), *self._read(0)]

    def _is_missing(self) -> bool:
        """Whether to stop waiting for the bytes before the first held segment."""
        if self._held_bytes > HELD_BYTES_MAX:
            return True
        if self._acknowledged < self._held[0].position:
            return False
        self._segments_since_ack += 1
        return self._segments_since_ack > PATIENCE_SEGMENTS

    def _skip_to(self, position: int, at_ns: int) -> StreamGap:
        assert self._next is not None
        gap = StreamGap(at_ns, position - self._next)
        self.gaps += 1
        self.missing_bytes += gap.missing_bytes
        self._next = position
        return gap
