"""The connections of a capture: sorts segments by connection and gives Flink's to observers.

Sans-IO. The magic number of frames shows which connections are Flink's, and messages that only a
producer sends show which end is the producer; port numbers are not used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from flinknet.core.wire.frames import MAGIC_OFFSET, is_usual, peek_frame
from flinknet.core.wire.layout import FRAME_HEADER_BYTES, MAGIC, Direction

from ..observer import ConnectionObserver
from .segments import Endpoint, TcpSegment
from .streams import StreamData, StreamGap, TcpStream

UNDECIDED_BYTES_MAX: Final = 4 << 20
"""Bytes of a connection without a frame after which it is not Flink's. A capture that begins in the
middle may have many packets before the first one with the beginning of a frame."""

UNDECIDED_ITEMS_MAX: Final = 1 << 16
"""Pieces and gaps of a connection without a frame after which it is not Flink's, as in a capture
whose snap length leaves no payload."""

OPEN_MAX: Final = 10_000
"""Most connections that are remembered at a time, of other protocols or ended."""

SILENT_NS: Final = 24 * 3600 * 1_000_000_000
"""Age of the last packet of a connection, in ns, at which its end is taken to be missing in the
capture."""

REPLACED_NS: Final = 600 * 1_000_000_000
"""This age, in ns, if one end has sent a FIN, or if the consumer's host has opened another
connection to the producer since."""

LOOK_NS: Final = 300 * 1_000_000_000
"""Time between two searches for such connections, in ns."""

STALLS_KEPT: Final = 10_000
"""Most zero windows of a connection that are listed; all count in the total time."""

Side = int
"""0 for the end that a connection names first, 1 for the other."""

ZeroWindow = tuple[int, int | None]
"""First and last instant in ns; None: the capture ended first."""

ObserverFactory = Callable[[Endpoint, Endpoint, bool], ConnectionObserver]
"""Makes an observer for a producer's end, a consumer's end, and whether the first bytes of both
directions are in the capture."""


class CapturedConnection:
    """One TCP connection, both directions; pairs have one item for each end."""

    def __init__(
        self, first: TcpSegment, observe: Callable[[CapturedConnection], ConnectionObserver]
    ) -> None:
        self.ends = first.source, first.target
        self.streams = TcpStream(), TcpStream()
        self.observer: ConnectionObserver | None = None  # None unless it is known to be Flink's
        self.is_foreign = False  # enough was captured to rule Flink out
        self.is_ended = False  # no end will send more than copies
        self.is_finished = False  # nothing of it is followed any more
        # when an end's kernel had no room, TCP's own back pressure, and how long in all
        self.zero_windows: tuple[list[ZeroWindow], list[ZeroWindow]] = [], []
        self.zero_window_ns = [0, 0]
        self.first_ns = self.last_ns = first.at_ns
        self._create_observer = observe
        self._undecided: list[tuple[Side, StreamData | StreamGap]] = []
        self._undecided_bytes = 0
        self._tail = [b"", b""]  # last bytes of each side while undecided
        self.server: Side = 0  # the producer's end, once it is known
        self._no_room_since: list[int | None] = [None, None]
        self._has_begun = [False, False]
        self.has_fin = [False, False]

    @property
    def producer(self) -> Endpoint:
        return self.ends[self.server]

    @property
    def consumer(self) -> Endpoint:
        return self.ends[1 - self.server]

    @property
    def missing_direction(self) -> str | None:
        """The direction that the capture lacks: "data" from the producer, "credit" from the
        consumer; None if it has both."""
        if all(self._has_begun):
            return None
        return "credit" if self._has_begun[self.server] else "data"

    def opens_another(self, segment: TcpSegment) -> bool:
        side = self.ends.index(segment.source)
        return (
            segment.is_syn
            and self._has_begun[side]
            and not self.streams[side].is_start(segment.sequence_number)
        )

    def add(self, segment: TcpSegment) -> None:
        side = self.ends.index(segment.source)
        self.last_ns = max(self.last_ns, segment.at_ns)
        self._has_begun[side] = True
        if segment.acknowledged is not None:
            self.streams[1 - side].acknowledge(segment.acknowledged)
        has_room, had_room = segment.window > 0, self._no_room_since[side] is None
        if has_room != had_room and not segment.is_reset and not segment.is_syn:
            if has_room:
                self._end_stall(side, segment.at_ns)
            else:
                self._no_room_since[side] = segment.at_ns
        for item in self.streams[side].add(segment):
            self._pass_on(side, item)
        self.has_fin[side] |= segment.is_fin
        if segment.is_fin and self.has_fin == self._has_begun:
            self._end()

    def finish(self) -> None:
        """End the connection and its streams, as nothing of it will be captured any more."""
        for side in (0, 1):
            for item in self.streams[side].finish():
                self._pass_on(side, item)
            self._end_stall(side, None)
        self._undecided.clear()
        self.is_finished = True
        self._end()

    def _end(self) -> None:
        """End the channels, though after the last FIN copies of earlier data may come."""
        self.is_ended = True
        if self.observer is not None:
            self.observer.close(self.last_ns)

    def _pass_on(self, side: Side, item: StreamData | StreamGap) -> None:
        """Pass data and gaps to the observer, once a frame has shown which end is the consumer."""
        if self.observer is not None:
            self._observe(side, item)
        if self.observer is not None or self.is_foreign:
            return
        self._undecided.append((side, item))
        data = item.data if isinstance(item, StreamData) else b""
        direction = _direction_of(self._tail[side] + data)
        self._tail[side] = (self._tail[side] + data)[1 - FRAME_HEADER_BYTES :]
        self._undecided_bytes += len(data)
        if direction is not None:
            self.server = side if direction is Direction.PRODUCER_TO_CONSUMER else 1 - side
            self.observer = self._create_observer(self)
            for its_side, item in self._undecided:
                self._observe(its_side, item)
            self._undecided.clear()
            return
        items = len(self._undecided)
        if self._undecided_bytes > UNDECIDED_BYTES_MAX or items > UNDECIDED_ITEMS_MAX:
            self.is_foreign = True
            self._undecided.clear()

    def _observe(self, side: Side, item: StreamData | StreamGap) -> None:
        observer = self.observer
        assert observer is not None
        feed, miss = observer.from_client, observer.missing_from_client
        if side == self.server:
            feed, miss = observer.from_server, observer.missing_from_server
        if isinstance(item, StreamData):
            feed(item.data, item.at_ns)
        else:
            miss(item.missing_bytes, item.at_ns)

    def _end_stall(self, side: Side, to_ns: int | None) -> None:
        from_ns, self._no_room_since[side] = self._no_room_since[side], None
        if from_ns is not None:
            self.zero_window_ns[side] += (self.last_ns if to_ns is None else to_ns) - from_ns
            if sum(map(len, self.zero_windows)) < STALLS_KEPT:
                self.zero_windows[side].append((from_ns, to_ns))


class CapturedConnections:
    """All connections of a capture; segments must come in the order of the file."""

    def __init__(self, create_observer: ObserverFactory) -> None:
        self.count = self.flink_count = 0
        self.silent = 0  # connections of Flink that ended by silence, not by a FIN or a reset
        self.of_flink: list[CapturedConnection] = []  # without those that were taken
        self._next_look_ns = 0
        self._open: dict[frozenset[Endpoint], CapturedConnection] = {}
        self._create_observer = create_observer

    def take_finished(self) -> list[CapturedConnection]:
        """Take the connections of Flink that are not followed any more."""
        finished = [each for each in self.of_flink if each.is_finished]
        self.of_flink = [each for each in self.of_flink if not each.is_finished]
        return finished

    def add(self, segment: TcpSegment) -> None:
        key = frozenset((segment.source, segment.target))
        connection = self._open.get(key)
        if connection is not None and connection.opens_another(segment):
            self._open.pop(key).finish()
            connection = None
        if connection is None:
            if not segment.data and not segment.cut_bytes and not segment.is_syn:
                return  # the last segment of a connection that has ended
            if len(self._open) >= OPEN_MAX:
                for other, known in self._open.items():
                    if known.observer is None or known.is_ended:
                        self._open.pop(other).finish()
                        break
            connection = self._open[key] = CapturedConnection(segment, self._observe)
            self.count += 1
        connection.add(segment)
        if segment.is_reset:
            self._open.pop(key).finish()
        if segment.at_ns >= self._next_look_ns:
            self._next_look_ns = segment.at_ns + LOOK_NS
            self._finish_silent(segment.at_ns)

    def finish(self) -> None:
        for connection in self._open.values():
            connection.finish()
        self._open.clear()

    def _observe(self, connection: CapturedConnection) -> ConnectionObserver:
        self.flink_count += 1
        self.of_flink.append(connection)
        is_from_start = all(stream.is_from_start for stream in connection.streams)
        return self._create_observer(connection.producer, connection.consumer, is_from_start)

    def _finish_silent(self, now_ns: int) -> None:
        """Finish connections whose end the capture may lack, and those whose last copies came."""
        latest: dict[tuple[str, Endpoint], int] = {}
        for each in self.of_flink:
            ends = each.consumer.host, each.producer
            latest[ends] = max(each.first_ns, latest.get(ends, 0))
        for key, each in list(self._open.items()):
            quiet_ns, ends = now_ns - each.last_ns, (each.consumer.host, each.producer)
            is_over = any(each.has_fin) or latest.get(ends, 0) > each.last_ns
            if quiet_ns >= (REPLACED_NS if is_over else SILENT_NS):
                self.silent += each.observer is not None and not each.is_ended
                self._open.pop(key).finish()


def _direction_of(data: bytes) -> Direction | None:
    at = data.find(MAGIC, MAGIC_OFFSET)
    while 0 <= at <= len(data) - (FRAME_HEADER_BYTES - MAGIC_OFFSET):
        for direction in Direction:
            frame = peek_frame(data, at - MAGIC_OFFSET, direction)
            if frame is not None and frame[2] and is_usual(frame[0], frame[1]):
                return direction
        at = data.find(MAGIC, at + 1)
    return None
