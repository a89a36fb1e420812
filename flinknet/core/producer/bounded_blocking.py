# mypyc
"""Bounded blocking partitions: a file for each subpartition, in which buffers are written to their
end before anybody reads, and may be read again.

Flink has them below `taskmanager.network.sort-shuffle.min-parallelism` subpartitions, 2.x never.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flinknet.core.buffers import (
    BufferConsumer,
    BufferSlice,
    DataType,
    LocalBufferPool,
    MemorySegment,
    free_memory,
)
from flinknet.core.channel_types import BufferAvailabilityListener
from flinknet.core.probe import FlushReason
from flinknet.core.wire.compression import CompressionCodec
from flinknet.core.wire.ids import ResultPartitionID

from .bounded_data import BoundedData
from .buffer_writing_partition import BufferWritingResultPartition
from .key_groups import DEFAULT_MAX_PARALLELISM
from .partition_type import ResultPartitionType
from .stored_buffer import StoredBuffer, read_stored, stored
from .subpartition import UNLIMITED_BYTES

_FULL = int(FlushReason.FULL)


class BoundedBlockingSubpartition:
    """Writes its buffers away as the next ones come, and gives readers when all are there (Flink:
    BoundedBlockingSubpartition).

    Attributes:
        data_bytes: payload of all data buffers before compression.
        stored_data_bytes: what became of it.
    """

    is_acknowledged = True
    """A blocking producer does not wait for its consumers."""
    is_data_available = False
    """Nothing can be read without a view of one's own."""
    takes_ahead = False
    """Its buffers are looked at when they are complete."""

    def __init__(self, index: int, data: BoundedData, codec: CompressionCodec) -> None:
        self.index = index
        self.buffer_size_bytes = UNLIMITED_BYTES
        self.is_finished = False
        self.is_released = False
        self.data_bytes = 0
        self.stored_data_bytes = 0
        self.stored: list[StoredBuffer] = []
        self.data_buffers = 0
        self._data = data
        self._codec = codec
        self._current: BufferConsumer | BufferSlice | None = None
        self._readers: set[BoundedBlockingSubpartitionReader] = set()
        self._was_read = False

    @property
    def has_view(self) -> bool:
        """Whether a reader is attached."""
        return bool(self._readers)

    @property
    def is_consumed(self) -> bool:
        """Whether a reader came to the end, and none is there."""
        return self.is_released or (self._was_read and not self._readers)

    @property
    def buffers_in_backlog(self) -> int:
        """Data buffers that are there, the open one too."""
        return self.data_buffers + (self._current is not None and self._current.is_buffer)

    @property
    def queued_elements(self) -> int:
        """Buffers in memory: the one that is not written yet."""
        return int(self._current is not None)

    @property
    def queued_bytes(self) -> int:
        """Bytes in memory."""
        return self._current.unread_bytes if self._current is not None else 0

    @property
    def buffers_out(self) -> int:
        """Data buffers that were written."""
        return self.data_buffers

    def add(self, consumer: BufferConsumer | BufferSlice, *, is_last: bool = False) -> int:
        """Take a buffer or event; the one before is complete now and is written.

        Returns: that the consumer side wishes for no buffer size; -1 if nothing more is taken.
        """
        if self.is_finished or self.is_released:
            consumer.close()
            return -1
        self.flush()
        self._current = consumer
        if is_last:
            self.flush()
            self._data.finish()
            self.is_finished = True
        return self.buffer_size_bytes

    def add_complete(self, slices: Sequence[BufferSlice]) -> None:
        """Take whole buffers."""
        for each in slices:
            self.add(each)

    def flush(self) -> None:
        """Write the buffer that is complete, which does not make it readable."""
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
        """One more reader, from the beginning; it must ask by itself whether there is data.

        Raises: RuntimeError before the end, and after the release.
        """
        if self.is_released:
            raise RuntimeError(f"subpartition {self.index} is released")
        if not self.is_finished:
            raise RuntimeError(
                f"subpartition {self.index} is not finished; a blocking one can be read only when"
                " it is complete"
            )
        reader = BoundedBlockingSubpartitionReader(self)
        self._readers.add(reader)
        return reader

    def read(self, offset: int, position: int) -> tuple[BufferSlice, int]:
        """The stored buffer of a position, and the offset of the next one.

        Raises: LocalTransportError when the file does not hold it.
        """
        found = self.stored[position]
        segment = MemorySegment(memoryview(bytearray(found.size_bytes)))
        end = read_stored(self._data, offset, (found,), (segment.view,))
        return found.slice_of(segment, free_memory), end

    def release_reader(self, reader: BoundedBlockingSubpartitionReader, *, is_at_end: bool) -> None:
        """A reader is gone."""
        self._readers.discard(reader)
        self._was_read = self._was_read or is_at_end
        self._forget_unread()

    def release(self) -> None:
        """Nobody may begin to read any more; the bytes go when the last reader does."""
        if self.is_released:
            return
        self.is_released = True
        if self._current is not None:
            self._current.close()
            self._current = None
        self._forget_unread()

    def _forget_unread(self) -> None:
        if self.is_released and not self._readers:
            self._data.release()

    def _write(self, piece: BufferSlice, *, is_event: bool) -> None:
        found, payload = stored(
            self._codec,
            piece.view,
            piece.records,
            piece.first_record_ns,
            piece.last_record_ns,
            piece.reason,
            is_event=is_event,
        )
        if not is_event:
            self.data_buffers += 1
            self.data_bytes += piece.size_bytes
            self.stored_data_bytes += found.size_bytes
        self._data.write((found.header(), payload))
        self.stored.append(found)


class BoundedBlockingSubpartitionReader:
    """One reading of a blocking subpartition, from its beginning (Flink:
    BoundedBlockingSubpartitionReader).

    It looks one buffer ahead.
    """

    failure_cause: str | None = None
    is_acknowledged = True
    buffer_size_bytes = UNLIMITED_BYTES
    """Neither means anything where everything is written already; both may be set."""

    def __init__(self, subpartition: BoundedBlockingSubpartition) -> None:
        self._subpartition = subpartition
        self.index = subpartition.index
        self.buffers_in_backlog = subpartition.data_buffers
        self.is_released = False
        self._position = 0
        self._offset = 0
        self._next = self._read_next()

    @property
    def queued_elements(self) -> int:
        """Buffers and events that were not read yet."""
        return len(self._subpartition.stored) - self._position + (self._next is not None)

    @property
    def is_data_available(self) -> bool:
        """Whether a reader with credit may poll."""
        return self._next is not None

    @property
    def is_event_available(self) -> bool:
        """Whether an event is next."""
        return self._next is not None and self._next.data_type != DataType.DATA_BUFFER

    def poll(self) -> BufferSlice | None:
        """The next buffer or event; None at the end."""
        piece = self._next
        if piece is None:
            return None
        if piece.data_type == DataType.DATA_BUFFER:
            self.buffers_in_backlog -= 1
        following = self._read_next()
        self._next = following
        piece.backlog_buffers = self.buffers_in_backlog
        piece.next_data_type = following.data_type if following is not None else 0
        return piece

    def poll_run(self, buffers_max: int, bytes_max: int) -> list[BufferSlice]:
        """The next buffer or event; none at the end."""
        piece = self.poll()
        return [] if piece is None else [piece]

    def backlog(self) -> int:
        """Data buffers that were not read yet."""
        return self.buffers_in_backlog

    def resume_consumption(self) -> None:
        """Raises: RuntimeError, for nothing ever blocks."""
        raise RuntimeError("Should be blocked by checkpoint.")

    def release(self) -> None:
        """The reader is done, or gave up."""
        if not self.is_released:
            self.is_released = True
            is_at_end = self._next is None
            self._next = None
            self._subpartition.release_reader(self, is_at_end=is_at_end)

    def _read_next(self) -> BufferSlice | None:
        position = self._position
        if position == len(self._subpartition.stored):
            return None
        piece, self._offset = self._subpartition.read(self._offset, position)
        self._position = position + 1
        piece.sequence_number = position
        return piece


class BoundedBlockingResultPartition(BufferWritingResultPartition):
    """A partition that is read when it is complete, any number of times (Flink:
    BoundedBlockingResultPartition). Who scheduled it releases it.

    Args:
        data: where each subpartition keeps its bytes.
        codec: of its data buffers; one that does not get smaller stays as it is.
    """

    subpartitions: Sequence[BoundedBlockingSubpartition]

    def __init__(
        self,
        partition_id: ResultPartitionID,
        data: Sequence[BoundedData],
        pool_supplier: Callable[[], LocalBufferPool],
        *,
        codec: CompressionCodec,
        target_key_groups: int = DEFAULT_MAX_PARALLELISM,
    ) -> None:
        super().__init__(
            partition_id,
            ResultPartitionType.BLOCKING,
            tuple(BoundedBlockingSubpartition(i, each, codec) for i, each in enumerate(data)),
            pool_supplier,
            target_key_groups=target_key_groups,
        )

    @property
    def data_bytes(self) -> int:
        """Payload of all data buffers before compression."""
        return sum(each.data_bytes for each in self.subpartitions)

    @property
    def stored_data_bytes(self) -> int:
        """Payload of all data buffers as it is stored, and sent."""
        return sum(each.stored_data_bytes for each in self.subpartitions)

    def flush(self, channel: int) -> None:
        """End the open buffers and write them."""
        self._finish_broadcast(_FULL)
        builder = self._builders[channel]
        if builder is not None:
            builder.finish(_FULL)
            builder.close()
            self._builders[channel] = None
        super().flush(channel)

    def flush_all(self) -> None:
        """End all open buffers and write them."""
        self._finish_broadcast(_FULL)
        self._finish_unicast(_FULL)
        super().flush_all()
