# mypyc
"""FrameDecoder: decodes a stream of bytes, split anywhere, into messages.

What a Flink peer would reject raises an error here. Magic number and id are checked as soon as they
have arrived, before the length is used. Differs from Flink in that frames are bounded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from flinknet.errors import FrameCorruptedError, LocalProtocolError, UnknownMessageError

from .buffer_response import BufferResponse, body_bytes
from .ids import Bytes
from .layout import (
    BUFFER_RESPONSE_HEADER_BYTES,
    BUFFER_RESPONSE_ID,
    BUFFER_RESPONSE_START,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    LAYOUT_2_X,
    LAYOUTS,
    MAGIC,
    PLAUSIBLE_BYTES_MAX,
    Direction,
    Layout,
    detect_layout,
)
from .messages import MESSAGE_CLASSES, Message
from .response_decoder import LARGEST_FRAME_BYTES, ResponseDecoder, ResponseSink, does_not_fit

FRAME_BYTES_MAX: Final = 64 << 20
"""Far above any segment size in use; events and exceptions are smaller."""


class FrameDecoder:
    """Decodes one direction of one connection. After an error it must not be fed again.

    Mirrors NettyMessage.NettyMessageDecoder at the producer and NettyMessageClientDecoderDelegate
    at the consumer, which uses the length of the frame for all messages except BufferResponse, and
    there the sizes inside.

    Invariant: holds less than one frame, and never more than frame_bytes_max.

    Args:
        layout: its name; None: that of the first BufferResponse, whose length must be right.

    Attributes:
        rest: bytes after the message that `messages` yielded last.
    """

    def __init__(
        self,
        direction: Direction,
        layout: str | None = "2.x",
        *,
        frame_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        if layout is not None and layout not in LAYOUTS:
            raise LocalProtocolError(f"layout {layout!r} is not one of {', '.join(LAYOUTS)}")
        self.direction = direction
        self.layout: Layout | None = None if layout is None else LAYOUTS[layout]
        self.frame_bytes_max = frame_bytes_max
        self.rest = memoryview(b"")
        self._frame = bytearray()
        self._wanted_bytes = FRAME_HEADER_BYTES

    @property
    def pending_bytes(self) -> int:
        return len(self._frame)

    def feed(self, data: bytes | memoryview) -> list[Message]:
        """Decode the next bytes of the stream into all messages that they complete; the view may be
        reused after the call.

        Raises: FrameCorruptedError or UnknownMessageError; earlier messages of the same call are
        lost, unlike with `messages`.
        """
        return list(self.messages(data))

    def messages(self, data: bytes | memoryview) -> Iterator[Message]:
        """Like `feed`, but yields each message before it decodes the next. To be exhausted before
        the next bytes are fed and before the view is reused.
        """
        view = memoryview(data)
        while view:
            taken = view[: self._wanted_bytes - len(self._frame)]
            self._frame += taken
            view = view[len(taken) :]
            if len(self._frame) < self._wanted_bytes:
                break
            self._wanted_bytes = self._next_wanted_bytes()
            if len(self._frame) == self._wanted_bytes:
                message = self._decode()
                self._frame = bytearray()
                self._wanted_bytes = FRAME_HEADER_BYTES
                self.rest = view
                yield message

    def _next_wanted_bytes(self) -> int:
        """Length at which the frame can be decoded further; its length if it is complete."""
        length: int
        length, magic, message_id = FRAME_HEADER.unpack_from(self._frame)
        if magic != MAGIC:
            raise FrameCorruptedError(f"magic number {magic.hex()} instead of {MAGIC.hex()}")
        message_class = MESSAGE_CLASSES.get(message_id)
        if message_class is None or message_class.DIRECTION is not self.direction:
            raise UnknownMessageError(message_id, self.direction.value)
        if message_id == BUFFER_RESPONSE_ID and self.layout is not None:
            if length < 0:
                raise FrameCorruptedError(f"frame length {length} is negative")
            body = memoryview(self._frame)[FRAME_HEADER_BYTES:]
            length = FRAME_HEADER_BYTES + (body_bytes(body, self.layout) or self.layout.header.size)
        if not FRAME_HEADER_BYTES <= length <= self.frame_bytes_max:
            raise FrameCorruptedError(
                f"a frame of {length} bytes, not {FRAME_HEADER_BYTES} to {self.frame_bytes_max}"
            )
        return length

    def _decode(self) -> Message:
        message_class = MESSAGE_CLASSES[self._frame[FRAME_HEADER_BYTES - 1]]
        body = memoryview(self._frame)[FRAME_HEADER_BYTES:]
        if message_class is BufferResponse:
            if self.layout is None:
                self.layout = detect_layout(self._frame)
            if self.layout is None:
                known, header = ", ".join(LAYOUTS), self._frame[: LAYOUT_2_X.header_bytes].hex()
                raise FrameCorruptedError(
                    f"a BufferResponse of no layout that flinknet knows ({known}): {header}"
                )
            return BufferResponse.decode(body, self.layout.name)
        return message_class.decode(body)


class LayoutDetectingDecoder:
    """A ResponseDecoder for any layout; that is None until a BufferResponse shows it."""

    def __init__(self, sink: ResponseSink) -> None:
        self._sink = sink
        self._frames = FrameDecoder(
            Direction.PRODUCER_TO_CONSUMER, None, frame_bytes_max=LARGEST_FRAME_BYTES
        )
        self._hot: ResponseDecoder | None = None

    @property
    def layout(self) -> str | None:
        layout = self._frames.layout
        return None if layout is None else layout.name

    def memory_to_fill(self) -> Sequence[memoryview]:
        """See ResponseDecoder; empty unless the layout is known to be "2.x"."""
        return self._hot.memory_to_fill() if self._hot is not None else ()

    def memory_filled(self, count: int) -> None:
        assert self._hot is not None
        self._hot.memory_filled(count)

    def receive(self, data: memoryview) -> None:
        if self._hot is not None:
            self._hot.receive(data)
            return
        for message in self._frames.messages(data):
            if isinstance(message, BufferResponse) and not message.partial_buffer_sizes:
                self._receive_buffer(message)
            else:
                self._sink.receive_message(message)
            if self._frames.layout is LAYOUT_2_X:
                self._hot = ResponseDecoder(self._sink)
                self._hot.receive(self._frames.rest)
                return

    def _receive_buffer(self, message: BufferResponse) -> None:
        size = message.buffer_size
        header = (
            BUFFER_RESPONSE_HEADER_BYTES + size,
            BUFFER_RESPONSE_START,
            message.receiver_id,
            message.subpartition_id,
            0,
            message.sequence_number,
            message.backlog,
            int(message.data_type),
            int(message.is_compressed),
            size,
        )
        target = self._sink.take_buffer(header)
        if target is not None:
            if len(target) < size:
                raise does_not_fit(header, target)
            target[:size] = message.buffer
        self._sink.receive_payload(header)


MAGIC_OFFSET: Final = 4
"""Bytes of a frame before the magic number."""


_USUAL_BYTES: Final = {2: 97, 4: 25, 5: 9, 6: 29, 7: 25, 8: 25, 9: 29, 10: 29, 11: 33}
"""Frame lengths of the messages of constant size, by message id."""

_LEAST_BYTES: Final = {1: 16, 3: 93}
"""Smallest frame lengths of the other messages."""

_IDS_OF = {
    direction: frozenset(
        each for each, cls in MESSAGE_CLASSES.items() if cls.DIRECTION is direction
    )
    for direction in Direction
}


def peek_frame(view: Bytes, offset: int, direction: Direction) -> tuple[int, int, bool] | None:
    """Length, message id, and whether it belongs to this direction; None for no frame header."""
    length, magic, message_id = FRAME_HEADER.unpack_from(view, offset)
    if magic != MAGIC or not FRAME_HEADER_BYTES <= length <= PLAUSIBLE_BYTES_MAX:
        return None
    return length, message_id, message_id in _IDS_OF[direction]


def is_usual(length: int, message_id: int) -> bool:
    """Whether a frame other than a BufferResponse has the length that Flink gives it."""
    usual_bytes = _USUAL_BYTES.get(message_id)
    return length == usual_bytes if usual_bytes else length >= _LEAST_BYTES.get(message_id, 9)


def peek_sizes(view: Bytes, offset: int, count: int) -> tuple[int, ...]:
    return struct.unpack_from(f">{count}i", view, offset)
