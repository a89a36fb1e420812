# mypyc
"""ResponseDecoder: decodes the stream of a producer, with payloads copied directly into the
receivers' buffers (Flink: NettyMessageClientDecoderDelegate).

The header is read before a buffer is taken, so a payload is copied once. Anything but a plain
BufferResponse is rare and is decoded as a whole frame.

At the highest rate, full buffers of one channel follow each other: a *run*. During a run the driver
gets the memory of the channel's next buffers, with space for their headers in between, and reads
into it directly: no copy at all. The headers show afterwards whether the run continued; other bytes
are moved and decoded as usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from flinknet.core.buffers.data_type import DataType
from flinknet.errors import FrameCorruptedError, UnknownMessageError

from . import layout
from .layout import Direction, Header
from .messages import MESSAGE_CLASSES, Message

_DATA_BUFFER = int(DataType.DATA_BUFFER)

LARGEST_FRAME_BYTES = 16 * 1024 * 1024
"""Largest plausible ErrorResponse or event; a longer frame is rejected."""


RUN_BUFFERS: Final = 6
"""Most buffers of a run received at once. What was received is then still in the cache when it is
read, and credit for it returns while more is on its way."""


class ResponseSink(Protocol):
    """The owner of the receivers."""

    def take_buffer(self, header: Header) -> memoryview | None:
        """Memory for this payload, which must fit; None to skip it."""

    def receive_payload(self, header: Header) -> None:
        """Handle a complete payload."""

    def free_memory(self, header: Header) -> Sequence[memoryview]:
        """Memory of the buffers that `take_buffer` would return for messages like this one, in
        order; empty if their payloads would not fill it.
        """

    def receive_run(self, header: Header, backlogs: Sequence[int]) -> None:
        """Handle as many messages like this one as there are backlogs, with consecutive numbers
        starting at its number. Their payloads are in the free memory already.
        """

    def receive_message(self, message: Message) -> None:
        """Handle a message of another kind, or a BufferResponse with several partial buffers."""


class ResponseDecoder:
    """Decodes bytes from a producer, split anywhere, into buffers and messages.

    Invariant: `_rest` is the start of one frame, shorter than a header unless the frame must be
        read whole; `_run` is the header of the last buffer of a run that may continue.
    """

    def __init__(self, sink: ResponseSink) -> None:
        self._sink = sink
        self._rest = bytearray()
        self._whole_frame_bytes = 0
        self._header: Header | None = None
        self._target: memoryview | None = None
        self._filled = 0
        self._missing = 0
        self._run: Header | None = None
        self._common = (b"", b"")
        self._headers = memoryview(bytearray(RUN_BUFFERS * layout.BUFFER_RESPONSE_HEADER_BYTES))
        self._header_views = tuple(
            self._headers[start : start + layout.BUFFER_RESPONSE_HEADER_BYTES]
            for start in range(0, len(self._headers), layout.BUFFER_RESPONSE_HEADER_BYTES)
        )
        self._payloads: Sequence[memoryview] = ()

    def memory_to_fill(self) -> Sequence[memoryview]:
        """Memory for the next bytes, in order; empty if there is no run."""
        run = self._run
        if run is None or self._whole_frame_bytes or (self._missing and self._target is None):
            return ()
        self._payloads = self._sink.free_memory(run)[:RUN_BUFFERS]
        memory: list[memoryview] = []
        for header, payload in zip(self._header_views, self._payloads, strict=False):
            memory += (header, payload)
        if self._missing:
            assert self._target is not None
            memory.insert(0, self._target[self._filled : self._filled + self._missing])
        elif self._rest and memory:
            begun = len(self._rest)
            memory[0][:begun] = self._rest
            memory[0] = memory[0][begun:]
        return memory

    def memory_filled(self, count: int) -> None:
        """Decode `count` bytes in the memory that `memory_to_fill` just returned; see `receive`."""
        run = self._run
        assert run is not None
        if self._missing:
            assert self._header is not None
            lacked = min(count, self._missing)
            self._filled += lacked
            self._missing -= lacked
            if self._missing:
                return
            count -= lacked
            self._target = None
            self._sink.receive_payload(self._header)
        count += len(self._rest)
        self._rest.clear()
        payload_bytes = run[layout.SIZE]
        frame_bytes = layout.BUFFER_RESPONSE_HEADER_BYTES + payload_bytes
        headers = (count + payload_bytes) // frame_bytes
        backlogs = layout.decode_backlogs(
            self._headers[: headers * layout.BUFFER_RESPONSE_HEADER_BYTES],
            self._common,
            run[layout.SEQUENCE_NUMBER] + 1,
        )
        whole = min(count // frame_bytes, len(backlogs))
        if whole:
            self._sink.receive_run(_later(run, 1, backlogs[0]), backlogs[:whole])
            count -= whole * frame_bytes
        begun = b""
        if headers == whole and count:
            begun = bytes(self._header_views[whole][:count])
        start = self._common[0]
        if len(backlogs) < headers or not start.startswith(begun[: len(start)]):
            self._move(whole, count)
            return
        if headers:
            self._run = run = _later(run, headers, backlogs[-1])
        if headers > whole:
            self._begin(run)
            self._filled = count - layout.BUFFER_RESPONSE_HEADER_BYTES
            self._missing -= self._filled
        else:
            self._rest += begun

    def _move(self, first: int, count: int) -> None:
        """End the run: decode the `count` bytes in its memory, which start with a header."""
        laid = zip(self._header_views[first:], self._payloads[first:], strict=False)
        data = b"".join(piece for pair in laid for piece in pair)
        self._run = None
        self.receive(memoryview(data)[:count])

    def receive(self, data: memoryview) -> None:
        """Decode all that `data` completes. Raises: FrameCorruptedError, UnknownMessageError."""
        take_buffer, receive_payload = self._sink.take_buffer, self._sink.receive_payload
        position, end = 0, len(data)
        before: Header | None = None
        header: Header | None = None
        while position < end:
            if self._missing:
                position = self._fill(data, position, end)
                continue
            start = position + layout.BUFFER_RESPONSE_HEADER_BYTES
            if self._rest or start > end or data[position + 8]:
                position = self._gather(data, position, end)
                continue
            before, header = header, layout.decode_buffer_response_header(data, position)
            stop = start + header[layout.SIZE]
            if header[layout.PARTIAL_BUFFERS]:
                position = self._gather(data, position, end)
            elif stop > end:
                self._begin(header)
                position = start
            else:
                target = take_buffer(header)
                if target is not None:
                    try:
                        target[: header[layout.SIZE]] = data[start:stop]
                    except ValueError:  # if it is too large
                        raise does_not_fit(header, target) from None
                receive_payload(header)
                position = stop
        self._run = None
        if (  # two plain buffers are consecutive
            before is not None
            and header is not None
            and header == _later(before, 1, header[layout.BACKLOG])
            and before[layout.DATA_TYPE] == _DATA_BUFFER
            and not before[layout.IS_COMPRESSED]
        ):
            self._run = header
            self._common = layout.alike(header)

    def _begin(self, header: Header) -> None:
        self._target = self._sink.take_buffer(header)
        if self._target is not None and len(self._target) < header[layout.SIZE]:
            raise does_not_fit(header, self._target)
        self._header = header
        self._filled = 0
        self._missing = header[layout.SIZE]
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
        """Collect a split header, or a frame that must be read whole. Returns: the new position."""
        rest = self._rest
        wanted = self._whole_frame_bytes or layout.FRAME_HEADER_BYTES
        if not self._whole_frame_bytes and len(rest) >= wanted:
            wanted = layout.BUFFER_RESPONSE_HEADER_BYTES
        count = min(wanted - len(rest), end - position)
        rest += data[position : position + count]
        position += count
        if len(rest) < wanted:
            return position
        if not self._whole_frame_bytes:
            frame_bytes, magic, message_id = layout.FRAME_HEADER.unpack_from(rest)
            if magic != layout.MAGIC:
                raise FrameCorruptedError(f"magic number {magic.hex()}: stream corrupted")
            if message_id:
                self._want_whole(frame_bytes)
            elif len(rest) < layout.BUFFER_RESPONSE_HEADER_BYTES:
                return position
            else:
                header = layout.decode_buffer_response_header(rest, 0)
                if header[layout.PARTIAL_BUFFERS]:
                    self._want_whole(
                        layout.BUFFER_RESPONSE_HEADER_BYTES
                        + layout.PARTIAL_SIZE_BYTES * header[layout.PARTIAL_BUFFERS]
                        + header[layout.SIZE]
                    )
                else:
                    rest.clear()
                    self._begin(header)
                    return position
        if len(rest) < self._whole_frame_bytes:
            return position
        frame, self._rest = self._rest, bytearray()
        self._whole_frame_bytes = 0
        message_id = frame[8]
        kind = MESSAGE_CLASSES.get(message_id)
        if kind is None or kind.DIRECTION is not Direction.PRODUCER_TO_CONSUMER:
            raise UnknownMessageError(message_id, Direction.PRODUCER_TO_CONSUMER.value)
        self._sink.receive_message(kind.decode(memoryview(frame)[layout.FRAME_HEADER_BYTES :]))
        return position

    def _want_whole(self, frame_bytes: int) -> None:
        if not layout.FRAME_HEADER_BYTES <= frame_bytes <= LARGEST_FRAME_BYTES:
            raise FrameCorruptedError(f"a frame of {frame_bytes} bytes")
        self._whole_frame_bytes = frame_bytes


def _later(header: Header, buffers: int, backlog: int) -> Header:
    frame_bytes, start, receiver_id, subpartition_id, partial_buffers, number, *_ = header
    return (
        *(frame_bytes, start, receiver_id, subpartition_id, partial_buffers, number + buffers),
        *(backlog, header[layout.DATA_TYPE], header[layout.IS_COMPRESSED], header[layout.SIZE]),
    )


def does_not_fit(header: Header, target: memoryview) -> FrameCorruptedError:
    return FrameCorruptedError(
        f"a payload of {header[layout.SIZE]} bytes does not fit a buffer of {len(target)} bytes"
    )
