# mypyc
"""NetworkBufferPool: the network memory of a TaskManager. LocalBufferPool: the share of one
partition or gate in it.

Where Flink waits on futures, these pools return None or False: nothing in the core blocks, and the
event loop asks again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from flinknet.errors import BufferPoolDestroyedError, BufferPoolError, InsufficientBuffersError

from .buffer import MemorySegment, NetworkBuffer
from .builder import BufferSlice

UNLIMITED_BUFFERS = 2**31 - 1
"""Maximum of an unlimited pool."""


class BufferListener(Protocol):
    """Waits for a buffer of a pool (Flink: BufferListener); one call per registration."""

    def receive_buffer(self, buffer: NetworkBuffer) -> bool:
        """Take the buffer, or refuse it (False), so that the next listener is called."""

    def handle_pool_destroyed(self) -> None:
        """Handle that the pool is destroyed; no more buffers will come."""


class LocalBufferPool:
    """The buffers of one result partition or one input gate (Flink: LocalBufferPool).

    Invariant: it holds at most `size_buffers + max_overdraft_buffers` segments, once segments above
        its size have been recycled.
    """

    def __init__(
        self,
        global_pool: NetworkBufferPool,
        required_buffers: int,
        max_buffers: int,
        *,
        channels: int = 0,
        max_buffers_per_channel: int = UNLIMITED_BUFFERS,
        max_overdraft_buffers: int = 0,
    ) -> None:
        self._global = global_pool
        self.required_buffers = required_buffers
        self.max_buffers = max_buffers
        self.size_buffers = required_buffers
        self.max_buffers_per_channel = max_buffers_per_channel
        self.max_overdraft_buffers = max_overdraft_buffers
        self.is_destroyed = False
        self.requested_buffers = 0
        self._free: deque[MemorySegment] = deque()
        self._listeners: deque[BufferListener] = deque()
        self._channel_buffers = [0] * channels
        self._channels_at_quota = 0
        self._channel_recyclers = [
            partial(self._recycle_of, channel) for channel in range(channels)
        ]

    @property
    def is_available(self) -> bool:
        """Whether a new record may be begun: a segment is free and no channel is at its quota,
        which is soft: such a channel still gets segments.
        """
        if self._channels_at_quota:
            return False
        if self._free:
            return True
        return self._prefetch()

    @property
    def available_buffers(self) -> int:
        """Number of buffers that the pool can still provide within its size."""
        unrequested = self.size_buffers - self.requested_buffers
        return len(self._free) + unrequested if unrequested > 0 else len(self._free)

    @property
    def segment_size_bytes(self) -> int:
        return self._global.segment_size_bytes

    @property
    def used_buffers(self) -> int:
        return self.requested_buffers - len(self._free)

    def try_request(self, channel: int = -1) -> NetworkBuffer | None:
        """A buffer charged to `channel` (-1: to none), if necessary from overdraft; None if there
        is none. Raises: BufferPoolDestroyedError.
        """
        if self.is_destroyed:
            raise BufferPoolDestroyedError("buffer pool is destroyed")
        if self._free:
            segment = self._free.popleft()
        elif self.requested_buffers < self.size_buffers + self.max_overdraft_buffers:
            taken = self._global.try_request_segment()
            if taken is None:
                return None
            self.requested_buffers += 1
            assert self.requested_buffers <= self.size_buffers + self.max_overdraft_buffers
            segment = taken
        else:
            return None
        if channel < 0:
            return NetworkBuffer(segment, self.recycle)
        count = self._channel_buffers[channel] + 1
        self._channel_buffers[channel] = count
        if count == self.max_buffers_per_channel:
            self._channels_at_quota += 1
        return NetworkBuffer(segment, self._channel_recyclers[channel])

    def request_while_available(
        self, channel: int, buffers_max: int, *, and_last: bool = False
    ) -> list[NetworkBuffer]:
        """Up to `buffers_max` buffers charged to `channel`, so few that the pool is available after
        each: requesting them one by one would never have to wait. With `and_last` the pool may be
            unavailable after the last one.
        """
        if self._channels_at_quota:
            return []
        counts, free = self._channel_buffers, self._free
        spare = 0 if and_last else 1
        count = self.max_buffers_per_channel - spare - counts[channel]
        if count > buffers_max:
            count = buffers_max
        while len(free) < count + spare and self._prefetch():
            pass
        if count > len(free) - spare:
            count = len(free) - spare
        if count <= 0:
            return []
        counts[channel] = charged = counts[channel] + count
        if charged == self.max_buffers_per_channel:
            self._channels_at_quota += 1
        recycler = self._channel_recyclers[channel]
        taken = [NetworkBuffer(free.popleft(), recycler) for _ in range(count)]
        assert and_last or (free and not self._channels_at_quota), "the pool is not available"
        return taken

    def recycle_slices(self, channel: int, slices: Sequence[BufferSlice]) -> None:
        """Recycle all slices; buffers charged to `channel` return together."""
        if self._listeners or self.is_destroyed or self.requested_buffers > self.size_buffers:
            for piece in slices:
                piece.buffer.recycle()
            return
        recycler, free, freed_buffers = self._channel_recyclers[channel], self._free, 0
        for piece in slices:
            buffer = piece.buffer
            if buffer.references == 1 and buffer.recycler is recycler:
                buffer.references = 0
                free.append(buffer.segment)
                freed_buffers += 1
            else:
                buffer.recycle()
        before = self._channel_buffers[channel]
        self._channel_buffers[channel] = after = before - freed_buffers
        if after < self.max_buffers_per_channel <= before:
            self._channels_at_quota -= 1

    def add_listener(self, listener: BufferListener) -> bool:
        """Queue for the next recycled buffer; False if one is free, or the pool destroyed."""
        if self.is_destroyed or self._free or self._prefetch():
            return False
        self._listeners.append(listener)
        if self.requested_buffers < self.size_buffers:  # the global pool has none
            self._global.wait_for_segment(self)
        return True

    def is_awaited_only_by(self, listener: BufferListener) -> bool:
        """Whether the next recycled segment is this listener's, and there is no other to have."""
        listeners = self._listeners
        return (
            len(listeners) == 1
            and listeners[0] is listener
            and self.requested_buffers == self.size_buffers
            and not self.is_destroyed
        )

    def handle_segment_available(self) -> None:
        """Take a segment that the global pool has again, for the first listener that accepts it.

        Differs from LocalBufferPool.onGlobalPoolAvailable, which only prefetches.
        """
        if not self._listeners or not self._prefetch():
            return
        self.recycle(self._free.popleft())
        if self._listeners and self.requested_buffers < self.size_buffers:
            self._global.wait_for_segment(self)

    def resize(self, size_buffers: int) -> None:
        """Set the current size; free segments above it return now, others as they are recycled."""
        self.size_buffers = min(size_buffers, self.max_buffers)
        while self._free and self.requested_buffers > self.size_buffers:
            self._give_back(self._free.popleft())

    def destroy(self) -> None:
        """Return free segments, and the rest as it is recycled (Flink: lazyDestroy)."""
        if self.is_destroyed:
            return
        self.is_destroyed = True
        while self._free:
            self._give_back(self._free.popleft())
        while self._listeners:
            self._listeners.popleft().handle_pool_destroyed()
        self._global.destroy_buffer_pool(self)

    def recycle(self, segment: MemorySegment) -> None:
        """Return a segment charged to no channel, to the first listener that accepts it."""
        if self.is_destroyed or self.requested_buffers > self.size_buffers:
            self._give_back(segment)
            return
        while self._listeners:
            if self._listeners.popleft().receive_buffer(NetworkBuffer(segment, self.recycle)):
                return
        self._free.append(segment)

    @property
    def waits_for_segment(self) -> bool:
        """Whether a listener waits for a buffer that only the global pool can provide."""
        return bool(self._listeners) and self.requested_buffers < self.size_buffers

    def _prefetch(self) -> bool:
        """Hold one segment while the size permits: "available" means that one can be had."""
        if self.is_destroyed or self.requested_buffers >= self.size_buffers:
            return False
        segment = self._global.try_request_segment()
        if segment is None:
            return False
        self.requested_buffers += 1
        self._free.append(segment)
        return True

    def _give_back(self, segment: MemorySegment) -> None:
        self.requested_buffers -= 1
        self._global.recycle_segment(segment)

    def _recycle_of(self, channel: int, segment: MemorySegment) -> None:
        count = self._channel_buffers[channel]
        self._channel_buffers[channel] = count - 1
        if count == self.max_buffers_per_channel:
            self._channels_at_quota -= 1
        if self._listeners or self.is_destroyed or self.requested_buffers > self.size_buffers:
            self.recycle(segment)
        else:
            self._free.append(segment)


class NetworkBufferPool:
    """All network memory of one TaskManager, allocated at once (Flink: NetworkBufferPool). Each
    segment of it becomes an object when it is first requested.

    Invariants: every segment is free here, or owned by exactly one local pool or exclusive holder;
        the required buffers of all local pools plus the exclusive ones never exceed the total.

    Raises: BufferPoolError if the system does not have enough memory.
    """

    def __init__(self, total_buffers: int, segment_size_bytes: int) -> None:
        self.segment_size_bytes = segment_size_bytes
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
        """Create a pool with `required_buffers` guaranteed. Raises: InsufficientBuffersError."""
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
        """Segments outside local pools, which must be free. Raises: InsufficientBuffersError."""
        promised = self.reserve_exclusive_segments(count)
        if not promised.collect():
            promised.cancel()
            raise InsufficientBuffersError(
                count, self.available_buffers, self.total_buffers, self.segment_size_bytes
            )
        return promised.segments

    def reserve_exclusive_segments(self, count: int) -> ExclusiveReservation:
        """Count exclusive segments as required from now on; they are collected as they become free
        (Flink: requestUnpooledMemorySegments, whose thread sleeps meanwhile).

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
        """Distribute the buffers that nobody requires among the pools that may grow, in proportion.
        The pool that may grow most is the first to get remainders; in Flink a hash set decides.
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
