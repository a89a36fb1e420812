# mypyc
"""SortMergeResultPartitionReadScheduler: reads one file for all readers of a partition, in file
order.

What is read waits for its reader in a buffer of the read pool, until its consumer has recycled it.
A slow reader keeps its buffers; the others continue as long as the partition may have more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from flinknet.core.buffers import BufferSlice, DataType, MemorySegment
from flinknet.core.buffers.buffer import Recycler
from flinknet.core.buffers.read_buffer_pool import BatchShuffleReadBufferPool
from flinknet.core.channel_types import BufferAvailabilityListener
from flinknet.core.wire.buffer_response import INDEX_ENTRY, STORED_HEADER
from flinknet.errors import LocalTransportError

from .bounded_data import BoundedData, StoredBuffer, read_stored
from .subpartition import UNLIMITED_BYTES

_BROADCAST = 0
"""The subpartition that broadcast data is written for."""


class PartitionedFile:
    """A file that is written completely, then read by subpartition (Flink: PartitionedFile)."""

    def __init__(self, subpartitions: int, data: BoundedData, index: BoundedData) -> None:
        self.regions = 0
        self.data = data
        self._index = index
        self._written_bytes = 0
        self._offsets = [0] * subpartitions
        self._sizes = [0] * subpartitions
        self._current = -1
        self._stored: list[dict[int, list[StoredBuffer]]] = [{}]
        self._is_shared = [False]

    def start_region(self, *, is_broadcast: bool) -> None:
        self._end_region()
        self._is_shared[-1] = is_broadcast

    def write(self, buffers: Sequence[tuple[int, StoredBuffer, bytes | memoryview]]) -> None:
        """Append buffers, whose memory may be reused afterwards. Raises: LocalTransportError."""
        region = self._stored[-1]
        pieces: list[bytes | memoryview] = []
        for subpartition, each, payload in buffers:
            if subpartition != self._current:
                assert subpartition not in region, "a subpartition's buffers lie together"
                region[subpartition] = []
                self._offsets[subpartition] = self._written_bytes
                self._current = subpartition
            region[subpartition].append(each)
            size_bytes = STORED_HEADER.size + each.size_bytes
            self._sizes[subpartition] += size_bytes
            self._written_bytes += size_bytes
            pieces += (each.header(), payload)
        self.data.write(pieces)

    def finish(self) -> None:
        """End the file. Raises: LocalTransportError."""
        self._end_region()
        self.data.finish()
        self._index.finish()

    def region_of(self, region: int, subpartition: int) -> tuple[int, int, Sequence[StoredBuffer]]:
        """The offset, size in bytes and buffers of a subpartition's part of a region. Raises:
        LocalTransportError if the index file does not contain them.
        """
        entry = bytearray(INDEX_ENTRY.size)
        place = (region * len(self._sizes) + subpartition) * INDEX_ENTRY.size
        self._index.read(place, (memoryview(entry),))
        offset, size_bytes = INDEX_ENTRY.unpack(entry)
        owner = _BROADCAST if self._is_shared[region] else subpartition
        found: Sequence[StoredBuffer] = self._stored[region].get(owner, ())
        written_bytes = sum([STORED_HEADER.size + each.size_bytes for each in found])
        if size_bytes != written_bytes or offset < 0:
            raise LocalTransportError(
                f"{size_bytes} bytes from offset {offset} on by an index file, at {place}, where"
                f" {written_bytes} were written; was it changed?"
            )
        return offset, size_bytes, found

    def release(self) -> None:
        self.data.release()
        self._index.release()

    def _end_region(self) -> None:
        if self._current < 0:
            return
        count = len(self._sizes)
        places = [_BROADCAST] * count if self._is_shared[-1] else list(range(count))
        self._index.write(
            [INDEX_ENTRY.pack(self._offsets[each], self._sizes[each]) for each in places]
        )
        self.regions += 1
        self._stored.append({})
        self._is_shared.append(False)
        self._sizes = [0] * count
        self._current = -1


REQUESTS_MAX = 4
"""Most requests of the read pool whose buffers one partition may hold."""

_DATA = int(DataType.DATA_BUFFER)


class SortMergeSubpartition:
    """The data of one consumer channel, a part of each region, and its readers; Flink has no such
    class.

    Args:
        holds_data: whether the partition has data in memory, of any subpartition.

    Attributes:
        data_buffers: data buffers written so far.
        data_bytes: payload of all data buffers before compression.
        stored_data_bytes: the same payload as stored and sent.
    """

    is_acknowledged = True
    """A blocking producer does not wait for its consumers."""
    is_data_available = False
    """Nothing can be read except through a view."""

    def __init__(
        self,
        index: int,
        scheduler: SortMergeResultPartitionReadScheduler,
        holds_data: Callable[[], bool],
    ) -> None:
        self.index = index
        self.buffer_size_bytes = UNLIMITED_BYTES
        self.is_finished = False
        self.is_released = False
        self.data_buffers = self.data_bytes = self.stored_data_bytes = 0
        self._scheduler = scheduler
        self._holds_data = holds_data
        self._readers: list[SortMergeSubpartitionReader] = []
        self._was_read = False

    @property
    def queued_elements(self) -> int:
        return 0

    @property
    def buffers_in_backlog(self) -> int:
        """Number of written data buffers, plus one if there is data in memory."""
        return self.data_buffers + self._holds_data()

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

    def create_read_view(self, listener: BufferAvailabilityListener) -> SortMergeSubpartitionReader:
        """Create a reader from the beginning. Raises: RuntimeError before the end, and after the
        release.
        """
        if self.is_released:
            raise RuntimeError(f"subpartition {self.index} is released")
        if not self.is_finished:
            raise RuntimeError(
                f"subpartition {self.index} is not finished; a blocking one can be read only when"
                " it is complete"
            )
        reader = self._scheduler.create_reader(self, listener)
        if not reader.is_released:
            self._readers.append(reader)
        return reader

    def release(self) -> None:
        self.is_released = True

    def release_reader(self, reader: SortMergeSubpartitionReader, *, is_at_end: bool) -> None:
        if reader in self._readers:
            self._readers.remove(reader)
        self._was_read = self._was_read or is_at_end


class SortMergeSubpartitionReader:
    """One pass over a subpartition, from its beginning (Flink: SortMergeSubpartitionReader with
    PartitionedFileReader); what was read from the file waits in a queue. As in Flink, its backlog
    does not count what is still in the file.
    """

    has_priority_events = False
    queued_bytes = 0

    def __init__(
        self,
        scheduler: SortMergeResultPartitionReadScheduler,
        file: PartitionedFile,
        subpartition: SortMergeSubpartition,
        listener: BufferAvailabilityListener,
    ) -> None:
        self.index = subpartition.index
        self.buffers_in_backlog = 0
        self.is_released = False
        self.failure_cause: str | None = None
        self.next_offset = 0
        self._scheduler = scheduler
        self._file = file
        self._subpartition = subpartition
        self._listener = listener
        self._queue: deque[BufferSlice] = deque()
        self._sequence_number = 0
        self._next_region = 0
        self._remaining_bytes = 0
        self._region: Sequence[StoredBuffer] = ()
        self._position = 0

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

    def poll_run(self, buffers_max: int, bytes_max: int) -> list[BufferSlice]:
        run: list[BufferSlice] = []
        queue = self._queue
        while queue and bytes_max > 0:
            is_data = queue[0].data_type == _DATA
            if (run and not is_data) or (is_data and len(run) >= buffers_max):
                break
            piece = self.poll()
            assert piece is not None
            run.append(piece)
            if not is_data:
                break
            bytes_max -= piece.size_bytes
        return run

    def release(self) -> None:
        if self.is_released:
            return
        self.is_released = True
        is_at_end = not self._queue and not self._remaining_bytes and self.failure_cause is None
        self._scheduler.remove(self)
        while self._queue:
            self._queue.popleft().recycle()
        self.buffers_in_backlog = 0
        self._subpartition.release_reader(self, is_at_end=is_at_end)

    def fail(self, cause: str) -> None:
        self.failure_cause = cause
        self.release()
        self._listener()

    def move_to_next_region(self) -> bool:
        """Move to the next region with data for it, if the current one is done. Returns: whether
        anything is left to read. Raises: LocalTransportError.
        """
        while not self._remaining_bytes and self._next_region < self._file.regions:
            self.next_offset, self._remaining_bytes, self._region = self._file.region_of(
                self._next_region, self.index
            )
            self._position = 0
            self._next_region += 1
        return self._remaining_bytes > 0

    def read(self, segments: list[MemorySegment], recycler: Recycler) -> bool:
        """Read the rest of its region, or as much as there are segments, taken from the end of the
        list. Returns: whether anything is left to read. Raises: LocalTransportError.
        """
        start = self._position
        run = self._region[start : start + len(segments)]
        taken = segments[: -len(run) - 1 : -1]
        into = [each.view for each in taken]
        end = read_stored(self._file.data, self.next_offset, run, into)
        del segments[-len(run) :]
        was_empty = not self._queue
        for each, segment in zip(run, taken, strict=True):
            self._queue.append(each.slice_of(segment, recycler))
            self.buffers_in_backlog += each.is_buffer
        self._position = start + len(run)
        self._remaining_bytes -= end - self.next_offset
        self.next_offset = end
        if was_empty:
            self._listener()
        return self.move_to_next_region()


class SortMergeResultPartitionReadScheduler:
    """Decides which reader reads next (Flink: SortMergeResultPartitionReadScheduler). A disk error
    fails only the reader for which it occurred.

    Attributes:
        requested_buffers: buffers of the read pool that wait for their reader or its consumer.
    """

    def __init__(
        self, subpartitions: int, file: PartitionedFile, pool: BatchShuffleReadBufferPool
    ) -> None:
        self.requested_buffers = 0
        self.is_released = False
        self._file = file
        self._pool = pool
        self._buffers_max = max(REQUESTS_MAX * pool.buffers_per_request, subpartitions)
        self._readers: list[SortMergeSubpartitionReader] = []
        self._is_reading = False

    def create_reader(
        self, subpartition: SortMergeSubpartition, listener: BufferAvailabilityListener
    ) -> SortMergeSubpartitionReader:
        """Create a reader; it has failed already if the index cannot be read."""
        reader = SortMergeSubpartitionReader(self, self._file, subpartition, listener)
        try:
            has_more = reader.move_to_next_region()
        except LocalTransportError as error:
            reader.fail(str(error))
            return reader
        if has_more:
            self._readers.append(reader)
            self._pool.register(self.read_if_possible)
            self.read_if_possible()
        return reader

    def read_if_possible(self) -> None:
        """Read while a reader has something left and buffers are available."""
        pool = self._pool
        while (
            self._readers
            and not self._is_reading
            and self.requested_buffers + pool.buffers_per_request <= self._buffers_max
            and self.requested_buffers < pool.average_buffers_per_requester
        ):
            segments = pool.try_request(self.read_if_possible)
            if not segments:
                return
            self._is_reading = True
            self.requested_buffers += len(segments)
            while segments and self._readers:
                first = self._readers[0]  # its data comes first in the file
                for each in self._readers:
                    if each.next_offset < first.next_offset:
                        first = each
                try:
                    has_more = first.read(segments, self.recycle)
                except LocalTransportError as error:
                    first.fail(str(error))
                    continue
                if not has_more:
                    self.remove(first)
            self._is_reading = False
            self.requested_buffers -= len(segments)
            if segments:
                pool.recycle(segments)

    def recycle(self, segment: MemorySegment) -> None:
        self.requested_buffers -= 1
        self._pool.recycle((segment,))
        self.read_if_possible()

    def remove(self, reader: SortMergeSubpartitionReader) -> None:
        if reader in self._readers:
            self._readers.remove(reader)
        if not self._readers:
            self._pool.unregister(self.read_if_possible)

    def release(self) -> None:
        """Fail all readers that have something left, and remove the file."""
        if self.is_released:
            return
        self.is_released = True
        for reader in list(self._readers):
            reader.fail("Result partition has been already released.")
        self._file.release()
