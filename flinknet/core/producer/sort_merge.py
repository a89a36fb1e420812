# mypyc
"""Sort-merge partitions, the default for blocking exchanges: collect records in the partition's
pool, and write them sorted by subpartition to one file whenever the pool is full.
"""

from __future__ import annotations

from collections.abc import Callable

from flinknet.core.buffers import LocalBufferPool, NetworkBuffer
from flinknet.core.buffers.read_buffer_pool import BatchShuffleReadBufferPool
from flinknet.core.probe import FlushReason
from flinknet.core.wire.compression import CompressionCodec
from flinknet.core.wire.events import Event, encode_pipelined
from flinknet.core.wire.ids import ResultPartitionID

from .bounded_data import StoredBuffer, stored
from .data_buffer import HashBasedDataBuffer, Piece, SerializedRecords, SortBasedDataBuffer
from .partition_type import ResultPartitionType
from .read_scheduler import (
    PartitionedFile,
    SortMergeResultPartitionReadScheduler,
    SortMergeSubpartition,
)
from .result_partition import BROADCAST, ResultPartition

WRITE_BYTES = 8 * 1024 * 1024
"""Memory reserved for output buffers, if records are sorted."""

WRITE_BATCH_BUFFERS = 512
"""Buffers written at once."""

_FULL = int(FlushReason.FULL)


class SortMergeResultPartition(ResultPartition):
    """A partition that is read any number of times, once it is complete (Flink:
    SortMergeResultPartition). The scheduler releases it.

    It takes its required buffers at setup, and as many more as available for each region. A record
    is never split between two regions; one that does not fit into all buffers is a region of its
    own. Broadcast and other records never share a region.

    Differs from Flink in the first subpartition of a region, which is random there: partitions of
    one task start with different ones, so that their readers do not all wait for the same.

    Args:
        codec: of its data buffers; a buffer that does not shrink is stored uncompressed.
    """

    def __init__(
        self,
        partition_id: ResultPartitionID,
        subpartitions: int,
        file: PartitionedFile,
        pool_supplier: Callable[[], LocalBufferPool],
        read_pool: BatchShuffleReadBufferPool,
        *,
        codec: CompressionCodec,
        first_subpartition: int = 0,
    ) -> None:
        scheduler = SortMergeResultPartitionReadScheduler(subpartitions, file, read_pool)
        own = tuple(
            [SortMergeSubpartition(at, scheduler, self._holds_data) for at in range(subpartitions)]
        )
        super().__init__(partition_id, ResultPartitionType.BLOCKING, own, pool_supplier)
        self.scheduler = scheduler
        self._file = file
        self._codec = codec
        self._own = own
        self._order = [(first_subpartition + each) % subpartitions for each in range(subpartitions)]
        self._buffers: list[NetworkBuffer] = []
        self._data_buffer: HashBasedDataBuffer | SortBasedDataBuffer | None = None
        self._is_broadcast = False
        self._batch_buffers = WRITE_BATCH_BUFFERS

    def setup(self) -> None:
        super().setup()
        self._request(self.pool.required_buffers)

    @property
    def is_available(self) -> bool:
        """Whether a new record may be begun: always, once it has its required buffers."""
        if self.is_closed or self._data_buffer is not None:
            return not self.is_closed
        return self._request(self.pool.required_buffers)

    def emit(self, channel: int, batch: SerializedRecords, position: int = 0) -> int:
        """Collect records, and write them whenever memory is full. Raises: LocalTransportError."""
        if self.is_finished:
            raise RuntimeError("emit on a finished partition")
        is_broadcast = channel == BROADCAST
        subpartition = 0 if is_broadcast else channel
        total = len(batch.data)
        while position < total:
            if self._data_buffer is not None and self._is_broadcast != is_broadcast:
                self._write_region()
            if self._data_buffer is None:
                if not self._request(self.pool.required_buffers):
                    return position
                self._create_data_buffer(is_broadcast=is_broadcast)
            data_buffer = self._data_buffer
            assert data_buffer is not None
            position = data_buffer.append(subpartition, batch, position)
            if position == total:
                break
            if data_buffer.is_empty:
                position = self._write_large_record(subpartition, batch, position)
            else:
                self._write_region()
        return position

    def broadcast_event(
        self, event: Event, *, is_last: bool = False, is_priority: bool = False
    ) -> int:
        """Collect an event for all; after the last one, write the rest. Raises:
        LocalTransportError.
        """
        if self._data_buffer is not None and not self._is_broadcast:
            self._write_region()
        if self._data_buffer is None:
            self._create_data_buffer(is_broadcast=True)
        data_buffer = self._data_buffer
        assert data_buffer is not None
        data_buffer.append_event(0, encode_pipelined(event))
        if is_last:
            self._write_region()
            self._file.finish()
            for each in self._own:
                each.is_finished = True
        return 0

    def close(self) -> None:
        if not self.is_closed:
            self._data_buffer = None
            self._release_buffers()
            super().close()

    def release(self) -> None:
        """Drop all data; active readers fail."""
        if not self.is_released:
            super().release()
            self.scheduler.release()

    def _holds_data(self) -> bool:
        return self._data_buffer is not None

    def _request(self, count: int) -> bool:
        """Take buffers up to this number. Returns: whether all are there."""
        while len(self._buffers) < count:
            buffer = self.pool.try_request()
            if buffer is None:
                return False
            self._buffers.append(buffer)
        return True

    def _create_data_buffer(self, *, is_broadcast: bool) -> None:
        """Take all further available buffers, and choose the kind of data buffer."""
        self._request(self.pool.max_buffers)
        views = [each.view for each in self._buffers]
        count, subpartitions = len(views), len(self._own)
        self._is_broadcast = is_broadcast
        if count >= 2 * subpartitions or count < 2:  # events need none
            self._batch_buffers = WRITE_BATCH_BUFFERS
            self._data_buffer = HashBasedDataBuffer(views, subpartitions)
        else:
            wanted = min(WRITE_BATCH_BUFFERS, max(1, WRITE_BYTES // len(views[0])))
            self._batch_buffers = for_writing = min(count // 2, wanted)
            self._data_buffer = SortBasedDataBuffer(
                views[for_writing:], views[:for_writing], subpartitions
            )

    def _write_region(self) -> None:
        data_buffer = self._data_buffer
        assert data_buffer is not None
        self._file.start_region(is_broadcast=self._is_broadcast)
        batch: list[tuple[int, StoredBuffer, bytes | memoryview]] = []
        for subpartition, piece in data_buffer.pieces(self._order):
            batch.append(self._store(subpartition, piece))
            if len(batch) == self._batch_buffers:
                self._file.write(batch)
                batch = []
        if batch:
            self._file.write(batch)
        self._data_buffer = None
        self._release_buffers()

    def _write_large_record(
        self, subpartition: int, batch: SerializedRecords, position: int
    ) -> int:
        """Write a record that does not fit into all buffers. Returns: its end."""
        _, record_end = batch.locate(position)
        size = self.pool.segment_size_bytes
        self._file.start_region(is_broadcast=self._is_broadcast)
        while position < record_end:
            end = min(position + size, record_end)
            piece = Piece(batch.data[position:end], end - position)
            mark = batch.ended_between(position, end)
            if mark is not None:
                piece.add_records(*mark)
            self._file.write((self._store(subpartition, piece),))
            position = end
        self._data_buffer = None
        self._release_buffers()
        return position

    def _store(
        self, subpartition: int, piece: Piece
    ) -> tuple[int, StoredBuffer, bytes | memoryview]:
        found, payload = stored(self._codec, piece, _FULL, is_event=piece.is_event)
        if not piece.is_event:
            own = self._own[subpartition]
            own.data_bytes += piece.size_bytes
            own.stored_data_bytes += found.size_bytes
            for each in self._own if self._is_broadcast else (own,):
                each.data_buffers += 1
        return subpartition, found, payload

    def _release_buffers(self) -> None:
        for buffer in self._buffers:
            buffer.recycle()
        self._buffers.clear()
