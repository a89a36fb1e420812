"""LayoutDetectingDecoder: decodes the stream of a producer of unknown release.

There is no version on the wire. The first BufferResponse reveals its layout; all messages before it
are the same in all releases. Layout "2.x" then goes through the decoder of the hot path; "1.20" is
read frame by frame, which costs one more copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.errors import FrameCorruptedError

from .buffer_response import BufferResponse
from .frames import FrameDecoder
from .header import (
    BUFFER_RESPONSE_ID,
    BUFFER_RESPONSE_START,
    FRAME_HEADER,
    FRAME_HEADER_BYTES,
    MAGIC,
)
from .layout import LAYOUT_2_X, LAYOUTS, Direction, detect_layout
from .response_decoder import LARGEST_FRAME_BYTES, ResponseDecoder, ResponseSink


class LayoutDetectingDecoder:
    """Decodes like ResponseDecoder, once it has detected the layout.

    Attributes:
        layout: name of the layout; None until the first BufferResponse.
    """

    __slots__ = ("_frames", "_hot", "_rest", "_sink", "layout")

    def __init__(self, sink: ResponseSink) -> None:
        self._sink = sink
        self._rest = bytearray()
        self._frames = _frame_decoder(LAYOUT_2_X.name)
        self._hot: ResponseDecoder | None = None
        self.layout: str | None = None

    def memory_to_fill(self) -> Sequence[memoryview]:
        """See ResponseDecoder; empty unless the layout is known to be "2.x"."""
        return self._hot.memory_to_fill() if self._hot is not None else ()

    def memory_filled(self, count: int) -> None:
        """See ResponseDecoder."""
        assert self._hot is not None
        self._hot.memory_filled(count)

    def receive(self, data: memoryview) -> None:
        """Decode all that `data` completes.

        Raises: FrameCorruptedError, UnknownMessageError; the stream is unusable then.
        """
        if self.layout is not None:
            self._decode(data)
            return
        self._rest += data
        while self.layout is None and (frame := self._take_frame()) is not None:
            if frame[FRAME_HEADER_BYTES - 1] == BUFFER_RESPONSE_ID:
                self._choose(frame)
            self._decode(memoryview(frame))
        if self.layout is not None and self._rest:
            rest, self._rest = self._rest, bytearray()
            self._decode(memoryview(rest))

    def _take_frame(self) -> bytearray | None:
        """The next complete frame; None if it is incomplete."""
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
        layout = detect_layout(frame)
        if layout is None:
            known, header = ", ".join(LAYOUTS), frame[: LAYOUT_2_X.header_bytes].hex()
            raise FrameCorruptedError(
                f"a BufferResponse of no layout that flinknet knows ({known}): {header}"
            )
        self.layout = layout.name
        if layout is LAYOUT_2_X:
            self._hot = ResponseDecoder(self._sink)
        else:
            self._frames = _frame_decoder(layout.name)

    def _decode(self, data: memoryview) -> None:
        if self._hot is not None:
            self._hot.receive(data)
            return
        for message in self._frames.messages(data):
            if isinstance(message, BufferResponse) and not message.partial_buffer_sizes:
                self._hand_on(message)
            else:
                self._sink.receive_message(message)

    def _hand_on(self, message: BufferResponse) -> None:
        size = message.buffer_size
        header = (
            self._frames.layout.header_bytes + size,
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


def _frame_decoder(layout: str) -> FrameDecoder:
    return FrameDecoder(Direction.PRODUCER_TO_CONSUMER, layout, frame_bytes_max=LARGEST_FRAME_BYTES)
