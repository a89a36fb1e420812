"""ResponseDecoder: the consumer's half of the stream, with payloads laid straight into the
receiver's buffers.

The header is read before a buffer is taken, so a payload is copied once, from the bytes the driver
received to the memory where the record reader will find it (Flink:
NettyMessageClientDecoderDelegate). Everything that is not a plain BufferResponse is rare and goes
through whole frames.
"""

from __future__ import annotations

from typing import Protocol

from flinknet.errors import FrameCorruptedError, UnknownMessageError

from .buffer_response import (
    BUFFER_RESPONSE_HEADER_BYTES,
    Header,
    decode_buffer_response_header,
)
from .layout import FRAME_HEADER, FRAME_HEADER_BYTES, MAGIC, Direction
from .messages import MESSAGE_CLASSES, Message

LARGEST_FRAME_BYTES = 16 * 1024 * 1024
"""No ErrorResponse or event is larger; a frame that claims more is not believed."""


class ResponseSink(Protocol):
    """Who owns the receivers."""

    def take_buffer(self, header: Header) -> memoryview | None:
        """Where the payload of this BufferResponse goes; None to skip it. The stream is corrupt if
        the payload does not fit.
        """

    def receive_payload(self, header: Header) -> None:
        """The payload is complete."""

    def receive_message(self, message: Message) -> None:
        """A message of another kind, or a BufferResponse of several partial buffers."""


class ResponseDecoder:
    """Bytes from the producer in, cut anywhere; buffers and messages out.

    Invariant: `_rest` is the start of one frame, shorter than a header unless the frame must be
        read whole.
    """

    __slots__ = (
        "_filled",
        "_header",
        "_missing",
        "_rest",
        "_sink",
        "_target",
        "_whole_frame_bytes",
    )

    def __init__(self, sink: ResponseSink) -> None:
        self._sink = sink
        self._rest = bytearray()
        self._whole_frame_bytes = 0
        self._header: Header | None = None
        self._target: memoryview | None = None
        self._filled = 0
        self._missing = 0

    def receive(self, data: memoryview) -> None:
        """Decode what `data` completes.

        Raises: FrameCorruptedError, UnknownMessageError; the stream cannot be followed any further
            then.
        """
        take_buffer, receive_payload = self._sink.take_buffer, self._sink.receive_payload
        position, end = 0, len(data)
        while position < end:
            if self._missing:
                position = self._fill(data, position, end)
                continue
            start = position + BUFFER_RESPONSE_HEADER_BYTES
            if self._rest or start > end or data[position + 8]:
                position = self._gather(data, position, end)
                continue
            header = decode_buffer_response_header(data, position)
            stop = start + header[7]
            if header[2]:
                position = self._gather(data, position, end)
            elif stop > end:
                self._begin(header)
                position = start
            else:
                target = take_buffer(header)
                if target is not None:
                    try:
                        target[: header[7]] = data[start:stop]
                    except ValueError:  # of what is too large for it
                        raise _does_not_fit(header, target) from None
                receive_payload(header)
                position = stop

    def _begin(self, header: Header) -> None:
        """Take a header whose payload is still to come."""
        self._target = self._sink.take_buffer(header)
        if self._target is not None and len(self._target) < header[7]:
            raise _does_not_fit(header, self._target)
        self._header = header
        self._filled = 0
        self._missing = header[7]
        if not self._missing:
            self._sink.receive_payload(header)

    def _fill(self, data: memoryview, position: int, end: int) -> int:
        filled = self._filled
        count = min(self._missing, end - position)
        if self._target is not None:
            self._target[filled : filled + count] = data[position : position + count]
        self._filled = filled + count
        self._missing -= count
        if not self._missing:
            assert self._header is not None
            self._target = None
            self._sink.receive_payload(self._header)
        return position + count

    def _gather(self, data: memoryview, position: int, end: int) -> int:
        """Collect a header that is cut, or a frame that must be read whole. Returns: the new
        position.
        """
        rest = self._rest
        wanted = self._whole_frame_bytes or (
            FRAME_HEADER_BYTES if len(rest) < FRAME_HEADER_BYTES else BUFFER_RESPONSE_HEADER_BYTES
        )
        count = min(wanted - len(rest), end - position)
        rest += data[position : position + count]
        position += count
        if len(rest) < wanted:
            return position
        if not self._whole_frame_bytes:
            frame_bytes, magic, message_id = FRAME_HEADER.unpack_from(rest)
            if magic != MAGIC:
                raise FrameCorruptedError(f"magic number {magic.hex()}: stream corrupted")
            if message_id:
                self._want_whole(frame_bytes)
            elif len(rest) < BUFFER_RESPONSE_HEADER_BYTES:
                return position
            else:
                header = decode_buffer_response_header(rest, 0)
                if header[2]:
                    self._want_whole(BUFFER_RESPONSE_HEADER_BYTES + 4 * header[2] + header[7])
                else:
                    rest.clear()
                    self._begin(header)
                    return position
        if len(rest) < self._whole_frame_bytes:
            return position
        frame, self._rest = self._rest, bytearray()
        self._whole_frame_bytes = 0
        self._sink.receive_message(_decode_frame(frame))
        return position

    def _want_whole(self, frame_bytes: int) -> None:
        if not FRAME_HEADER_BYTES <= frame_bytes <= LARGEST_FRAME_BYTES:
            raise FrameCorruptedError(f"a frame of {frame_bytes} bytes")
        self._whole_frame_bytes = frame_bytes


def _does_not_fit(header: Header, target: memoryview) -> FrameCorruptedError:
    return FrameCorruptedError(
        f"a payload of {header[7]} bytes does not fit a buffer of {len(target)} bytes"
    )


def _decode_frame(frame: bytearray) -> Message:
    message_id = frame[8]
    kind = MESSAGE_CLASSES.get(message_id)
    if kind is None or kind.DIRECTION is not Direction.PRODUCER_TO_CONSUMER:
        raise UnknownMessageError(message_id, Direction.PRODUCER_TO_CONSUMER.value)
    return kind.decode(memoryview(frame)[FRAME_HEADER_BYTES:])
