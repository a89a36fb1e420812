# mypyc
"""NetworkBufferPool: the global memory of a TaskManager, shared by local pools and exclusive
buffers.

Invariants:
- every segment is free in the global pool, or owned by exactly one local pool or exclusive holder;
- the required buffers of all local pools plus the exclusive ones never exceed the total.

Where Flink waits on futures, these pools return None or False: nothing in the core blocks, and the
event loop asks again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from flinknet.errors import BufferPoolError, InsufficientBuffersError

from .buffer import MemorySegment
from .local_buffer_pool import UNLIMITED_BUFFERS, LocalBufferPool, SegmentSource


class NetworkBufferPool(SegmentSource):
    """All network memory of one TaskManager, allocated at once (Flink: NetworkBufferPool). Each
    segment of it becomes an object when it is first requested.

    Raises: BufferPoolError if the system does not have enough memory.
    """

    def __init__(self, total_buffers: int, segment_size_bytes: int) -> None:
        super().__init__(segment_size_bytes)
        self.total_buffers = total_buffers
        required_bytes = total_buffers * segment_size_bytes
        try:  # one block for all segments: either the whole block or none
            if total_buffers > UNLIMITED_BUFFERS:
                raise OverflowError
            self._memory = memoryview(bytearray(required_bytes))
        except (MemoryError, OverflowError):
            raise BufferPoolError(
                f"network memory cannot be allocated: required {required_bytes >> 20} MB"
                f" ({total_buffers} buffers of {segment_size_bytes} bytes), allocated 0 MB, missing"
                f" {required_bytes >> 20} MB; lower taskmanager.memory.network.min, or"
                " taskmanager.memory.network.max where a fraction of a total size is taken"
            ) from None
        self._requested_buffers = 0  # at least once
        self._free: deque[MemorySegment] = deque()
        self._pools: list[LocalBufferPool] = []
        self._waiting_pools: deque[LocalBufferPool] = deque()
        self._required_buffers = 0

    @property
    def available_buffers(self) -> int:
        return self.total_buffers - self._requested_buffers + len(self._free)

    @property
    def pools(self) -> Sequence[LocalBufferPool]:
        return tuple(self._pools)

    def create_buffer_pool(
        self,
        required_buffers: int,
        max_buffers: int,
        *,
        channels: int = 0,
        max_buffers_per_channel: int = UNLIMITED_BUFFERS,
        max_overdraft_buffers: int = 0,
    ) -> LocalBufferPool:
        """Create a local pool with `required_buffers` guaranteed, which may grow to `max_buffers`.

        Raises: InsufficientBuffersError with the numbers and the keys that help.
        """
        self._reserve(required_buffers)
        pool = LocalBufferPool(
            self,
            required_buffers,
            max(max_buffers, required_buffers),
            channels=channels,
            max_buffers_per_channel=max_buffers_per_channel,
            max_overdraft_buffers=max_overdraft_buffers,
        )
        self._pools.append(pool)
        self._redistribute()
        return pool

    def destroy_buffer_pool(self, pool: LocalBufferPool) -> None:
        if pool in self._pools:
            self._pools.remove(pool)
            self._required_buffers -= pool.required_buffers
            self._redistribute()

    def request_exclusive_segments(self, count: int) -> list[MemorySegment]:
        """Segments outside all local pools, for the exclusive buffers of a channel; they must be
        free now. Raises: InsufficientBuffersError with the numbers and the keys that help.
        """
        promised = self.reserve_exclusive_segments(count)
        if not promised.collect():
            promised.cancel()
            raise InsufficientBuffersError(
                count, self.available_buffers, self.total_buffers, self.segment_size_bytes
            )
        return promised.segments

    def reserve_exclusive_segments(self, count: int) -> ExclusiveReservation:
        """Count exclusive segments as required from now on, so that local pools return what they
        hold above their share. The segments are collected as they become free (Flink:
        requestUnpooledMemorySegments, whose thread sleeps meanwhile).

        Raises: InsufficientBuffersError if they are reserved by others.
        """
        self._reserve(count)
        self._redistribute()
        return ExclusiveReservation(self, count)

    def recycle_exclusive_segments(
        self, segments: Sequence[MemorySegment], uncollected: int = 0
    ) -> None:
        """Return exclusive segments, and cancel the reservation of some that were not collected."""
        self._free.extend(segments)
        self._required_buffers -= len(segments) + uncollected
        self._redistribute()

    def try_request_segment(self) -> MemorySegment | None:
        index, size_bytes = self._requested_buffers, self.segment_size_bytes
        if index < self.total_buffers:
            self._requested_buffers = index + 1
            return MemorySegment(self._memory[index * size_bytes : (index + 1) * size_bytes], index)
        return self._free.popleft() if self._free else None

    def recycle_segment(self, segment: MemorySegment) -> None:
        self._free.append(segment)
        if self._waiting_pools:
            self._serve_waiting_pools()

    def wait_for_segment(self, pool: LocalBufferPool) -> None:
        if pool not in self._waiting_pools:
            self._waiting_pools.append(pool)

    def _serve_waiting_pools(self) -> None:
        while self._waiting_pools and self.available_buffers:
            self._waiting_pools.popleft().handle_segment_available()

    def _reserve(self, count: int) -> None:
        available = self.total_buffers - self._required_buffers
        if count > available:
            raise InsufficientBuffersError(
                count, available, self.total_buffers, self.segment_size_bytes
            )
        self._required_buffers += count

    def _redistribute(self) -> None:
        """Distribute the buffers that nobody requires among the pools that may grow, in proportion,
        without rounding loss.

        The order decides who gets the remainders; in Flink it is that of a hash set, here the pool
        that may grow most is first.
        """
        available = self.total_buffers - self._required_buffers
        resizable = sorted(
            (pool for pool in self._pools if pool.max_buffers > pool.required_buffers),
            key=lambda pool: pool.required_buffers - pool.max_buffers,
        )
        excesses = [min(available, pool.max_buffers - pool.required_buffers) for pool in resizable]
        capacity = sum(excesses)
        to_distribute = min(available, capacity)
        used = given = 0
        for pool, excess in zip(resizable, excesses, strict=True):
            used += excess
            share = to_distribute * used // capacity - given if capacity else 0
            given += share
            pool.resize(pool.required_buffers + share)
            if pool.waits_for_segment:
                self.wait_for_segment(pool)
        self._serve_waiting_pools()


class ExclusiveReservation:
    """Exclusive segments reserved for one channel, and those collected so far."""

    def __init__(self, pool: NetworkBufferPool, count: int) -> None:
        self._pool = pool
        self._count = count
        self.segments: list[MemorySegment] = []

    def collect(self) -> bool:
        """Take free segments. Returns: whether all are collected."""
        while len(self.segments) < self._count:
            segment = self._pool.try_request_segment()
            if segment is None:
                return False
            self.segments.append(segment)
        return True

    def cancel(self) -> None:
        """Return all segments and cancel the reservation."""
        collected, self.segments = self.segments, []
        self._pool.recycle_exclusive_segments(collected, self._count - len(collected))
        self._count = 0


REQUEST_BYTES = 4 * 1024 * 1024
"""Bytes per request: large, so that reading is sequential."""


BufferRequester = Callable[[], None]
"""A reader of a partition (SortMergeResultPartitionReadScheduler.read_if_possible); called when
buffers have been recycled."""


class BatchShuffleReadBufferPool:
    """A pool outside network memory (Flink: BatchShuffleReadBufferPool), allocated at the first
    request.

    Differs from Flink, where an unsuccessful request waits, and fails after 5 minutes without
    recycled buffers: here its requester is called when enough buffers are free.

    Args:
        total_bytes: at least one buffer.
    """

    def __init__(
        self, total_bytes: int, buffer_size_bytes: int, *, request_bytes: int = REQUEST_BYTES
    ) -> None:
        self.total_buffers = total_bytes // buffer_size_bytes
        self.buffer_size_bytes = buffer_size_bytes
        self.buffers_per_request = min(
            self.total_buffers, max(1, request_bytes // buffer_size_bytes)
        )
        self._memory: NetworkBufferPool | None = None
        self._requesters: list[BufferRequester] = []
        self._waiting: deque[BufferRequester] = deque()

    @property
    def available_buffers(self) -> int:
        return self.total_buffers if self._memory is None else self._memory.available_buffers

    @property
    def average_buffers_per_requester(self) -> int:
        return max(1, self.total_buffers // max(1, len(self._requesters)))

    def register(self, requester: BufferRequester) -> None:
        if requester not in self._requesters:
            self._requesters.append(requester)

    def unregister(self, requester: BufferRequester) -> None:
        """Remove a requester that has nothing left to read. Idempotent."""
        if requester in self._requesters:
            self._requesters.remove(requester)
        if requester in self._waiting:
            self._waiting.remove(requester)

    def try_request(self, requester: BufferRequester) -> list[MemorySegment]:
        """The buffers of a request; none if there are too few: its requester is called later."""
        if self.available_buffers < self.buffers_per_request:
            if requester not in self._waiting:
                self._waiting.append(requester)
            return []
        if self._memory is None:
            self._memory = NetworkBufferPool(self.total_buffers, self.buffer_size_bytes)
        return self._memory.request_exclusive_segments(self.buffers_per_request)

    def recycle(self, segments: Sequence[MemorySegment]) -> None:
        assert self._memory is not None
        self._memory.recycle_exclusive_segments(segments)
        while self._waiting and self.available_buffers >= self.buffers_per_request:
            self._waiting.popleft()()
