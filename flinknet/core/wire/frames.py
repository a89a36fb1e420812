# mypyc
"""FrameDecoder: decodes a stream of bytes, split anywhere, into messages.

What a Flink peer would reject raises an error here (a Flink producer answers with a fatal
ErrorResponse and closes; a consumer closes). Magic number and id are checked as soon as they have
arrived, before the length is used.

Differs from Flink in that frames are bounded. Flink accepts any length up to 2 GiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flinknet.errors import FrameCorruptedError, LocalProtocolError, UnknownMessageError

from .buffer_response import BufferResponse, body_bytes
from .header import BUFFER_RESPONSE_ID, FRAME_HEADER, FRAME_HEADER_BYTES, MAGIC
from .layout import LAYOUTS, Direction
from .messages import MESSAGE_CLASSES, Message

FRAME_BYTES_MAX: Final = 64 << 20
"""Far above any segment size in use; events and exceptions are smaller."""


class FrameDecoder:
    """Decodes one direction of one connection. After an error it must not be fed again.

    Mirrors NettyMessage.NettyMessageDecoder at the producer and NettyMessageClientDecoderDelegate
    at the consumer, which uses the length of the frame for all messages except BufferResponse, and
    there the sizes inside.

    Invariant: holds less than one frame, and never more than frame_bytes_max.
    """

    def __init__(
        self,
        direction: Direction,
        layout: str = "2.x",
        *,
        frame_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        if layout not in LAYOUTS:
            raise LocalProtocolError(f"layout {layout!r} is not one of {', '.join(LAYOUTS)}")
        self.direction = direction
        self.layout = LAYOUTS[layout]
        self.frame_bytes_max = frame_bytes_max
        self._frame = bytearray()
        self._wanted_bytes = FRAME_HEADER_BYTES

    @property
    def pending_bytes(self) -> int:
        """Bytes of an incomplete frame."""
        return len(self._frame)

    def feed(self, data: bytes | memoryview) -> list[Message]:
        """Decode the next bytes of the stream; the view may be reused after the call.

        Returns: all messages completed by them, in order.

        Raises: FrameCorruptedError or UnknownMessageError; earlier messages of the same call are
            lost, unlike with `messages`.
        """
        return list(self.messages(data))

    def messages(self, data: bytes | memoryview) -> Iterator[Message]:
        """Like `feed`, but yields each message before it decodes the next.

        The iterator must be exhausted before the next bytes are fed and before the view is reused.
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
        if message_id == BUFFER_RESPONSE_ID:
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
            return BufferResponse.decode(body, self.layout.name)
        return message_class.decode(body)
