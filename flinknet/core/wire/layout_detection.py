"""LayoutDetectingDecoder: the consumer's half of the stream from a producer of unknown release.

No version travels on the wire. The first BufferResponse tells its layout, and until it has come
everything else is the same in all releases. What has layout "2.x" then goes through the decoder of
the hot path; "1.20" is read frame by frame, which costs a copy more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flinknet.errors import FrameCorruptedError

from .buffer_response import BufferResponse
from .frames import FrameDecoder
from .header import BUFFER_RESPONSE_START
from .layout import (
    BUFFER_RESPONSE_ID,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    LAYOUT_2_X,
    LAYOUTS,
    MAGIC,
    Direction,
    detect_layout,
)
from .response_decoder import LARGEST_FRAME_BYTES, ResponseDecoder, ResponseSink

_LONGEST_HEADER_BYTES: Final = FRAME_HEADER_BYTES + LAYOUT_2_X.header.size


class LayoutDetectingDecoder:
    """Takes bytes as ResponseDecoder does, and finds out how to read them.

    Attributes:
        layout: name of the layout, None until the first BufferResponse has come.
    """

    __slots__ = ("_decoder", "_rest", "_sink", "layout")

    def __init__(self, sink: ResponseSink) -> None:
        self._sink = sink
        self._rest = bytearray()
        self._decoder: ResponseDecoder | FrameResponseDecoder = FrameResponseDecoder(
            sink, LAYOUT_2_X.name
        )
        self.layout: str | None = None

    def memory_to_fill(self) -> Sequence[memoryview]:
        """As ResponseDecoder's, once it is known that the layout is its own."""
        decoder = self._decoder
        return decoder.memory_to_fill() if isinstance(decoder, ResponseDecoder) else ()

    def memory_filled(self, count: int) -> None:
        """As ResponseDecoder's."""
        assert isinstance(self._decoder, ResponseDecoder)
        self._decoder.memory_filled(count)

    def receive(self, data: memoryview) -> None:
        """Decode what `data` completes.

        Raises: FrameCorruptedError, UnknownMessageError; the stream cannot be followed any further
            then.
        """
        if self.layout is not None:
            self._decoder.receive(data)
            return
        self._rest += data
        while self.layout is None and (frame := self._take_frame()) is not None:
            if frame[FRAME_HEADER_BYTES - 1] == BUFFER_RESPONSE_ID:
                self._choose(frame)
            self._decoder.receive(memoryview(frame))
        if self.layout is not None and self._rest:
            rest, self._rest = self._rest, bytearray()
            self._decoder.receive(memoryview(rest))

    def _take_frame(self) -> bytearray | None:
        """The next whole frame, None while it is not there."""
        rest = self._rest
        if len(rest) < FRAME_HEADER_BYTES:
            return None
        frame_bytes, magic, _ = FRAME_HEADER.unpack_from(rest)
        if magic != MAGIC:
            raise FrameCorruptedError(f"magic number {magic.hex()}: stream corrupted")
        if not FRAME_HEADER_BYTES <= frame_bytes <= LARGEST_FRAME_BYTES:
            raise FrameCorruptedError(f"a frame of {frame_bytes} bytes")
        if len(rest) < frame_bytes:
            return None
        frame, self._rest = rest[:frame_bytes], rest[frame_bytes:]
        return frame

    def _choose(self, frame: bytearray) -> None:
        self.layout = detect_layout(frame)
        if self.layout is None:
            known, header = ", ".join(LAYOUTS), frame[:_LONGEST_HEADER_BYTES].hex()
            raise FrameCorruptedError(
                f"a BufferResponse of no layout that flinknet knows ({known}): {header}"
            )
        if self.layout == LAYOUT_2_X.name:
            self._decoder = ResponseDecoder(self._sink)
        else:
            self._decoder = FrameResponseDecoder(self._sink, self.layout)


class FrameResponseDecoder:
    """ResponseDecoder for any layout: whole frames are gathered first, then handed on."""

    __slots__ = ("_frames", "_header_bytes", "_sink")

    def __init__(self, sink: ResponseSink, layout: str) -> None:
        self._sink = sink
        self._header_bytes = FRAME_HEADER_BYTES + LAYOUTS[layout].header.size
        self._frames = FrameDecoder(
            Direction.PRODUCER_TO_CONSUMER, layout, frame_bytes_max=LARGEST_FRAME_BYTES
        )

    def receive(self, data: memoryview) -> None:
        """As ResponseDecoder.receive."""
        sink = self._sink
        for message in self._frames.messages(data):
            if isinstance(message, BufferResponse) and not message.partial_buffer_sizes:
                self._hand_on(message)
            else:
                sink.receive_message(message)

    def _hand_on(self, message: BufferResponse) -> None:
        size = message.buffer_size
        header = (
            self._header_bytes + size,
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
                raise FrameCorruptedError(
                    f"a payload of {size} bytes does not fit a buffer of {len(target)} bytes"
                )
            target[:size] = message.buffer
        self._sink.receive_payload(header)
