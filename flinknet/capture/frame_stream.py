"""FrameStream: splits one direction of a connection, cut anywhere, into frames.

It is not a peer and must not fail: from bytes that are no frame it searches for the magic number of
the next frame, and accepts it only if another frame follows directly. It never allocates a length
that it read: it holds a header, a small message, or, while searching, CONFIRM_BYTES_MAX.
"""

from __future__ import annotations

from typing import Final

from flinknet.core.wire.frames import MAGIC_OFFSET, is_usual, peek_frame, peek_sizes
from flinknet.core.wire.layout import (
    BUFFER_RESPONSE_ID,
    FRAME_HEADER_BYTES,
    LAYOUTS,
    MAGIC,
    PARTIAL_BUFFERS,
    PARTIAL_SIZE_BYTES,
    SIZE,
    Direction,
    Header,
    Layout,
    detect_layout,
)

from .observed_connection import ObservedConnection

MESSAGE_BYTES_MAX: Final = 1 << 20
"""Size of the largest message that is read whole (an exception with its stack trace); larger ones
are skipped."""

PARTIAL_BUFFERS_MAX: Final = 1 << 18
"""Most partial buffers in a message; a message with more is skipped."""

CONFIRM_BYTES_MAX: Final = 256 << 10
"""Longest frame that a search accepts, in bytes: the frame after it must confirm it."""

TLS_NOTE: Final = "this is TLS"
"""Note about a stream that begins with a TLS handshake."""

_TLS_HANDSHAKE: Final = b"\x16\x03"
"""Record type and major version of a handshake; a frame of this length would have 369 MB."""

_HEADER_BYTES_MAX = max(each.header_bytes for each in LAYOUTS.values())


class FrameStream:
    """Follows one direction, and gives its frames to the methods of a subclass, up to `message`; in
    them views are valid during the call only. Only a producer's stream has buffers."""

    direction: Direction

    def __init__(self, connection: ObservedConnection, *, is_from_start: bool) -> None:
        self.connection = connection
        self.layout: Layout | None = None  # of BufferResponses; None until the first one shows it
        self.certain_from_ns: int | None = None  # since then every byte belongs to a frame
        self.skipped_bytes = 0  # received, but of no frame
        self._is_synced = is_from_start
        self._rest = bytearray()  # the start of a frame
        self._wanted = FRAME_HEADER_BYTES  # its length at which to look again
        self._holes: list[tuple[int, int]] = []  # places and lengths of lost bytes in `_rest`
        self._payload_left = 0
        self._skip_left = 0

    def buffer(self, header: Header, payload: memoryview, at_ns: int) -> None:
        """A whole BufferResponse without partial buffers."""

    def begin_buffer(self, header: Header, sizes: tuple[int, ...], at_ns: int) -> None:
        """The header of a BufferResponse whose payload comes in pieces, and the sizes of its
        partial buffers."""

    def payload(self, piece: memoryview, at_ns: int) -> None:
        """The next bytes of the payload begun last."""

    def missing_payload(self, lost_bytes: int, at_ns: int) -> None:
        """The next bytes of the payload begun last are missing."""

    def message(self, message_id: int, frame: memoryview, at_ns: int) -> None:
        """A whole frame of another kind."""

    def lose(self, lost_bytes: int | None, at_ns: int) -> None:
        """Note lost bytes; `lost_bytes` is None if their number is unknown.

        A loss within a payload loses only the records of this payload, also if a search has found
        the frame but not yet the one that confirms it.
        """
        if lost_bytes is not None and lost_bytes <= self._payload_left:
            self._payload_left -= lost_bytes
            self.missing_payload(lost_bytes, at_ns)
        elif lost_bytes is not None and lost_bytes <= self._skip_left:
            self._skip_left -= lost_bytes
        else:
            if lost_bytes is not None and not self._is_synced:
                # within the frame that the search waits to have confirmed?
                length = self._frame_bytes(bytes(self._rest), 0)
                if length is not None and 0 < len(self._rest) + lost_bytes <= length:
                    self._holes.append((len(self._rest), lost_bytes))
                    self._rest += bytes(lost_bytes)
                    return
            self._lose_sync("bytes are missing", at_ns)
            self._rest.clear()
            self._holes.clear()

    def receive(self, data: memoryview, at_ns: int) -> None:
        position, end = 0, len(data)
        if self.certain_from_ns is None and self._is_synced:
            self.certain_from_ns = at_ns
        while position < end:
            if self._payload_left:
                count = min(self._payload_left, end - position)
                self._payload_left -= count
                self.payload(data[position : position + count], at_ns)
                position += count
                continue
            if self._skip_left:
                count = min(self._skip_left, end - position)
                self._skip_left -= count
                position += count
                continue
            if not self._is_synced:
                self._search(data[position:], at_ns)
                return
            if self._rest or end - position < FRAME_HEADER_BYTES:
                position = self._gather(data, position, end, at_ns)
                continue
            if data[position + FRAME_HEADER_BYTES - 1] == BUFFER_RESPONSE_ID:
                layout = self.layout
                if layout is not None and end - position >= layout.header_bytes:
                    header = layout.read(data, position)
                    start = position + layout.header_bytes
                    stop = start + header[SIZE]
                    if not header[PARTIAL_BUFFERS] and stop <= end and layout.is_plausible(header):
                        self.buffer(header, data[start:stop], at_ns)
                        position = stop
                        continue
            else:
                frame = peek_frame(data, position, self.direction)
                if frame is not None and frame[2] and position + frame[0] <= end:
                    self.message(frame[1], data[position : position + frame[0]], at_ns)
                    position += frame[0]
                    continue
            position = self._gather(data, position, end, at_ns)

    def _gather(self, data: memoryview, position: int, end: int, at_ns: int) -> int:
        """Collect the wanted bytes of a frame. Returns: the new position."""
        rest = self._rest
        count = min(self._wanted - len(rest), end - position)
        rest += data[position : position + count]
        if len(rest) == self._wanted:
            self._look(at_ns)
        return position + count

    def _look(self, at_ns: int) -> None:
        """Look at the collected bytes: pass the frame on, skip it, or ask for more bytes."""
        rest = self._rest
        frame = peek_frame(rest, 0, self.direction)
        if frame is None:
            is_tls = rest.startswith(_TLS_HANDSHAKE)
            what = f"{rest[:FRAME_HEADER_BYTES].hex()} where a frame should start"
            self._lose_sync(TLS_NOTE if is_tls else what, at_ns)
            return
        length, message_id, is_known = frame
        if is_known and message_id == BUFFER_RESPONSE_ID:
            self._look_at_buffer(length, at_ns)
        elif not is_known or length > MESSAGE_BYTES_MAX:
            why = f"a message of {length} bytes" if is_known else f"message id {message_id}"
            self._skip(f"{why} from {self.direction.value}", length - len(rest))
        elif len(rest) < length:
            self._wanted = length
        else:
            self._restart()
            self.message(message_id, memoryview(rest), at_ns)

    def _look_at_buffer(self, length: int, at_ns: int) -> None:
        rest, layout = self._rest, self.layout
        header_bytes = layout.header_bytes if layout else min(max(length, 9), _HEADER_BYTES_MAX)
        if len(rest) < header_bytes:
            self._wanted = header_bytes
            return
        if layout is None:
            layout = self.layout = detect_layout(rest)
        if layout is None:  # the frame length contradicts the sizes, which a peer trusts
            layout = detect_layout(rest, Layout.is_plausible)
        if layout is not None and len(rest) < layout.header_bytes:
            layout = None
        header = layout.read(rest, 0) if layout is not None else None
        if layout is None or header is None or not layout.is_plausible(header):
            what = bytes(rest[FRAME_HEADER_BYTES:]).hex()
            self._skip(f"an invalid BufferResponse ({what})", length - len(rest))
            return
        start = layout.header_bytes + PARTIAL_SIZE_BYTES * header[PARTIAL_BUFFERS]
        left = start + header[SIZE] - len(rest)
        if header[PARTIAL_BUFFERS] > PARTIAL_BUFFERS_MAX:
            what = f"a BufferResponse of {header[PARTIAL_BUFFERS]} partial buffers"
            self._skip(what, left)
            return
        if len(rest) < start:
            self._wanted = start
            return
        sizes = peek_sizes(rest, layout.header_bytes, header[PARTIAL_BUFFERS])
        if sizes and (sum(sizes) != header[SIZE] or min(sizes) < 0):
            self._skip("partial buffers that do not add up", left)
            return
        held = bytes(rest[start:])  # the header of 1.20 is shorter than the largest, which was read
        self._restart()
        self._payload_left = header[SIZE]
        self.begin_buffer(header, sizes, at_ns)
        if held:
            self.receive(memoryview(held), at_ns)

    def _restart(self) -> None:
        self._rest = bytearray()
        self._wanted = FRAME_HEADER_BYTES

    def _skip(self, what: str, left: int) -> None:
        self._restart()
        self._skip_left = max(left, 0)
        self.connection.skip(what)

    def _lose_sync(self, what: str, at_ns: int) -> None:
        """Report the loss, and search for a frame from the held bytes on."""
        self._is_synced = False
        self.certain_from_ns = None
        self._payload_left = self._skip_left = 0
        self.connection.lose_all(what)

    def _search(self, data: memoryview, at_ns: int) -> None:
        """Search for a frame that is directly followed by another one."""
        held = bytes(self._rest) + data
        at = held.find(MAGIC, MAGIC_OFFSET)
        while at >= 0:
            start = at - MAGIC_OFFSET
            verdict = self._confirmed(held, start)
            if verdict is None:  # more bytes are needed
                self._keep(held, start)
                return
            if verdict:
                self._keep(held, start)
                found, holes = memoryview(bytes(self._rest)), self._holes
                self._restart()
                self._holes = []
                self._is_synced = True
                done = 0
                for place, lost_bytes in holes:
                    self.receive(found[done:place], at_ns)
                    self.lose(lost_bytes, at_ns)
                    done = place + lost_bytes
                self.receive(found[done:], at_ns)
                return
            at = held.find(MAGIC, at + 1)
        self._keep(held, max(0, len(held) - MAGIC_OFFSET - len(MAGIC) + 1))

    def _keep(self, held: bytes, start: int) -> None:
        """Skip what the search has passed, and keep the rest."""
        passed = sum(lost_bytes for place, lost_bytes in self._holes if place < start)
        self.skipped_bytes += max(0, start - passed)
        self._holes = [(place - start, lost) for place, lost in self._holes if place >= start]
        self._rest = bytearray(held[start:])

    def _confirmed(self, held: bytes, start: int) -> bool | None:
        """Whether a frame starts here and another one follows; None: more bytes are needed."""
        length = self._frame_bytes(held, start)
        if not length or length > CONFIRM_BYTES_MAX:
            return None if length is None else False
        following = self._frame_bytes(held, start + length)
        return None if following is None else bool(following)

    def _frame_bytes(self, held: bytes, start: int) -> int | None:
        """Bytes of the frame that starts here, 0 if none does; None: more bytes are needed."""
        left = len(held) - start
        if left < FRAME_HEADER_BYTES:
            return None
        frame = peek_frame(held, start, self.direction)
        if frame is None or not frame[2]:
            return 0
        length, message_id, _ = frame
        if message_id != BUFFER_RESPONSE_ID:
            return length if is_usual(length, message_id) else 0
        for layout in (self.layout,) if self.layout else LAYOUTS.values():
            if left < layout.header_bytes:
                if length >= layout.header_bytes:
                    return None
            elif layout.is_consistent(layout.read(held, start)):
                return length
        return 0
