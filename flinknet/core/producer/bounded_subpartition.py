# mypyc
"""BoundedData: where the bytes of blocking partitions are; StoredBuffer: metadata of one buffer or
event there. BoundedBlockingSubpartition: a subpartition with a file of its own, written completely
before it is read, any number of times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from flinknet.core.buffers import (
    BufferConsumer,
    BufferSlice,
    DataType,
    MemorySegment,
    NetworkBuffer,
    free_memory,
)
from flinknet.core.buffers.buffer import Recycler
from flinknet.core.channel_types import BufferAvailabilityListener, ResultSubpartitionView
from flinknet.core.probe import FlushReason
from flinknet.core.wire.buffer_response import STORED_HEADER
from flinknet.core.wire.compression import CompressionCodec, compress
from flinknet.errors import LocalTransportError

from .data_buffer import Piece
from .subpartition import UNLIMITED_BYTES

_DATA, _EVENT = int(DataType.DATA_BUFFER), int(DataType.EVENT_BUFFER)
_FULL, _OF_EVENT = int(FlushReason.FULL), int(FlushReason.EVENT)


class BoundedData(Protocol):
    """Bytes that are written once, then read at any offset, then removed (Flink: BoundedData).
    Every method raises TransportError if the storage fails.
    """

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Append bytes; the memory may be reused after the call."""

    def finish(self) -> None:
        """End writing."""

    def read(self, offset: int, into: Sequence[memoryview]) -> int:
        """Fill the memory pieces in order with the bytes from an offset on. Returns: bytes read;
        fewer than requested only at the end of the data.
        """

    def release(self) -> None:
        """Remove the bytes. Idempotent."""


class StoredBuffer:
    """Metadata of a stored buffer, for readers and for the trace; `size_bytes` is that as stored.
    As in Flink, stored events lose their type: none of them blocks or has priority.
    """

    def __init__(
        self,
        piece: BufferSlice | Piece,
        size_bytes: int,
        reason: int,
        *,
        is_event: bool,
        is_compressed: bool,
    ) -> None:
        self.size_bytes = size_bytes
        self.data_type = _EVENT if is_event else _DATA
        self.is_compressed = is_compressed
        self.records = piece.records
        self.first_record_ns = piece.first_record_ns
        self.last_record_ns = piece.last_record_ns
        self.reason = _OF_EVENT if is_event else reason or _FULL

    @property
    def is_buffer(self) -> bool:
        return self.data_type == _DATA

    def header(self) -> bytes:
        return STORED_HEADER.pack(not self.is_buffer, self.is_compressed, self.size_bytes)

    def slice_of(self, segment: MemorySegment, recycler: Recycler) -> BufferSlice:
        """The buffer to pass on to a consumer, with its bytes in `segment`."""
        buffer = NetworkBuffer(segment, recycler, self.data_type, self.size_bytes)
        buffer.is_compressed = int(self.is_compressed)
        return BufferSlice(
            buffer,
            segment.view[: self.size_bytes],
            self.size_bytes,
            self.records,
            self.first_record_ns,
            self.last_record_ns,
            self.reason,
        )


def stored(
    codec: CompressionCodec, piece: BufferSlice | Piece, reason: int, *, is_event: bool
) -> tuple[StoredBuffer, bytes | memoryview]:
    """A buffer or event and its bytes as stored: data is compressed if that makes it smaller."""
    payload = piece.payload
    compressed = None if is_event else compress(codec, payload)
    data: bytes | memoryview = payload if compressed is None else compressed
    is_compressed = compressed is not None
    found = StoredBuffer(piece, len(data), reason, is_event=is_event, is_compressed=is_compressed)
    return found, data


def read_stored(
    data: BoundedData, offset: int, run: Sequence[StoredBuffer], into: Sequence[memoryview]
) -> int:
    """Read adjacent buffers, each into its own memory. Returns: the offset of the next buffer.
    Raises: LocalTransportError if the file does not contain them.
    """
    headers = [bytearray(STORED_HEADER.size) for _ in run]
    pieces: list[memoryview] = []
    end = offset
    for header, each, memory in zip(headers, run, into, strict=True):
        pieces += (memoryview(header), memory[: each.size_bytes])
        end += STORED_HEADER.size + each.size_bytes
    read_bytes = data.read(offset, pieces)
    if read_bytes != end - offset:
        raise LocalTransportError(
            f"{read_bytes} bytes at {offset} of a spill file where {end - offset} were written; was"
            " it changed?"
        )
    for header, each in zip(headers, run, strict=True):
        if header != each.header():
            raise LocalTransportError(
                f"the header {header.hex()} in a spill file, after {offset}, where"
                f" {each.header().hex()} was written; was it changed?"
            )
    return end


class BlockingSubpartitionReader:
    """One pass over a blocking subpartition, from its beginning; what was read from the file waits
    in a queue. Its backlog are the data buffers not yet polled.
    """

    has_priority_events = False
    queued_bytes = 0

    def __init__(self, subpartition: BlockingSubpartition) -> None:
        self.index = subpartition.index
        self.buffers_in_backlog = 0
        self.is_released = False
        self.failure_cause: str | None = None
        self._subpartition = subpartition
        self._queue: deque[BufferSlice] = deque()
        self._sequence_number = 0

    @property
    def queued_elements(self) -> int:
        return len(self._queue)

    @property
    def is_data_available(self) -> bool:
        return bool(self._queue)

    @property
    def is_event_available(self) -> bool:
        return bool(self._queue) and self._queue[0].data_type != _DATA

    def poll(self) -> BufferSlice | None:
        queue = self._queue
        if not queue:
            return None
        self._read_ahead()
        piece = queue.popleft()
        if piece.data_type == _DATA:
            self.buffers_in_backlog -= 1
        piece.sequence_number = self._sequence_number
        self._sequence_number += 1
        piece.backlog_buffers = self.buffers_in_backlog
        piece.next_data_type = queue[0].data_type if queue else 0
        return piece

    def backlog(self) -> int:
        return self.buffers_in_backlog

    def acknowledge_all_data_processed(self) -> None:
        """Do nothing: the producer has ended."""

    def notify_new_buffer_size(self, size_bytes: int) -> None:
        """Do nothing: all buffers are written."""

    def resume_consumption(self) -> None:
        """Raises: RuntimeError, since nothing ever blocks."""
        raise RuntimeError("Should be blocked by checkpoint.")

    def _read_ahead(self) -> None:
        """Read the next buffer, if that is up to the reader."""


class BlockingSubpartition:
    """The data of one consumer channel: data buffers written so far, and its readers.

    Attributes:
        data_bytes: payload of all data buffers before compression.
        stored_data_bytes: the same payload as stored and sent.
    """

    is_acknowledged = True
    """A blocking producer does not wait for its consumers."""
    is_data_available = False
    """Nothing can be read except through a view."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.buffer_size_bytes = UNLIMITED_BYTES
        self.is_finished = False
        self.is_released = False
        self.data_buffers = self.data_bytes = self.stored_data_bytes = 0
        self._readers: list[BlockingSubpartitionReader] = []
        self._was_read = False

    @property
    def queued_elements(self) -> int:
        return 0

    @property
    def buffers_in_backlog(self) -> int:
        return self.data_buffers

    @property
    def queued_bytes(self) -> int:
        return 0

    @property
    def has_view(self) -> bool:
        return bool(self._readers)

    @property
    def is_consumed(self) -> bool:
        """Whether a reader reached the end, and none is attached."""
        return self.is_released or (self._was_read and not self._readers)

    @property
    def buffers_out(self) -> int:
        return self.data_buffers

    def create_read_view(self, listener: BufferAvailabilityListener) -> ResultSubpartitionView:
        """Create a reader from the beginning. Raises: RuntimeError, see `check_readable`."""
        raise NotImplementedError

    def release(self) -> None:
        self.is_released = True

    def check_readable(self) -> None:
        """Raises: RuntimeError before the end, and after the release."""
        if self.is_released:
            raise RuntimeError(f"subpartition {self.index} is released")
        if not self.is_finished:
            raise RuntimeError(
                f"subpartition {self.index} is not finished; a blocking one can be read only when"
                " it is complete"
            )

    def release_reader(self, reader: BlockingSubpartitionReader, *, is_at_end: bool) -> None:
        if reader in self._readers:
            self._readers.remove(reader)
        self._was_read = self._was_read or is_at_end


class BoundedBlockingSubpartition(BlockingSubpartition):
    """Writes each buffer when the next one arrives (Flink: BoundedBlockingSubpartition)."""

    takes_prefilled = False
    """Buffers are written only once they are complete."""

    def __init__(self, index: int, data: BoundedData, codec: CompressionCodec) -> None:
        super().__init__(index)
        self.stored: list[StoredBuffer] = []
        self.data = data
        self._codec = codec
        self._current: BufferConsumer | BufferSlice | None = None

    @property
    def buffers_in_backlog(self) -> int:
        return self.data_buffers + (self._current is not None and self._current.is_buffer)

    @property
    def queued_elements(self) -> int:
        """Number of buffers in memory: 1 if one is not written yet."""
        return int(self._current is not None)

    @property
    def queued_bytes(self) -> int:
        return self._current.unread_bytes if self._current is not None else 0

    def add(self, consumer: BufferConsumer | BufferSlice, *, is_last: bool = False) -> int:
        """Append a buffer or event, and write the previous one. Returns: as when pipelined."""
        if self.is_finished or self.is_released:
            consumer.close()
            return -1
        self.flush()
        self._current = consumer
        if is_last:
            self.flush()
            self.data.finish()
            self.is_finished = True
        return self.buffer_size_bytes

    def add_complete(self, slices: Sequence[BufferSlice]) -> None:
        for each in slices:
            self.add(each)

    def flush(self) -> None:
        """Write the complete buffer; it is not readable yet."""
        consumer, self._current = self._current, None
        if consumer is None:
            return
        piece = consumer.build()
        if piece.size_bytes:
            self._write(piece, is_event=not consumer.is_buffer)
        piece.recycle()
        if consumer is not piece:
            consumer.close()

    def create_read_view(
        self, listener: BufferAvailabilityListener
    ) -> BoundedBlockingSubpartitionReader:
        """Create a reader from the beginning. Raises: RuntimeError, see `check_readable`."""
        self.check_readable()
        reader = BoundedBlockingSubpartitionReader(self)
        self._readers.append(reader)
        return reader

    def release_reader(self, reader: BlockingSubpartitionReader, *, is_at_end: bool) -> None:
        super().release_reader(reader, is_at_end=is_at_end)
        self._forget_unread()

    def release(self) -> None:
        """Admit no more readers; the data is removed with the last active one."""
        if self.is_released:
            return
        self.is_released = True
        if self._current is not None:
            self._current.close()
            self._current = None
        self._forget_unread()

    def _forget_unread(self) -> None:
        if self.is_released and not self._readers:
            self.data.release()

    def _write(self, piece: BufferSlice, *, is_event: bool) -> None:
        found, payload = stored(self._codec, piece, piece.reason, is_event=is_event)
        if not is_event:
            self.data_buffers += 1
            self.data_bytes += piece.size_bytes
            self.stored_data_bytes += found.size_bytes
        self.data.write((found.header(), payload))
        self.stored.append(found)


class BoundedBlockingSubpartitionReader(BlockingSubpartitionReader):
    """Reads one buffer ahead (Flink: BoundedBlockingSubpartitionReader)."""

    def __init__(self, subpartition: BoundedBlockingSubpartition) -> None:
        super().__init__(subpartition)
        self.buffers_in_backlog = subpartition.data_buffers
        self._bounded = subpartition
        self._position = 0
        self._offset = 0
        self._read_ahead()

    @property
    def queued_elements(self) -> int:
        return len(self._bounded.stored) - self._position + len(self._queue)

    def poll_run(self, buffers_max: int, bytes_max: int) -> list[BufferSlice]:
        piece = self.poll()
        return [] if piece is None else [piece]

    def release(self) -> None:
        if not self.is_released:
            self.is_released = True
            is_at_end = not self._queue
            self._queue.clear()
            self._bounded.release_reader(self, is_at_end=is_at_end)

    def _read_ahead(self) -> None:
        if self._position < len(self._bounded.stored):
            found = self._bounded.stored[self._position]
            segment = MemorySegment(memoryview(bytearray(found.size_bytes)))
            self._offset = read_stored(self._bounded.data, self._offset, (found,), (segment.view,))
            self._position += 1
            self._queue.append(found.slice_of(segment, free_memory))
