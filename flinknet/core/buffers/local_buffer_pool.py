# mypyc
"""LocalBufferPool: the share of one partition or gate in a TaskManager's network memory.

Invariant: it holds at most `size_buffers + max_overdraft_buffers` segments, once segments above its
    size have been recycled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from flinknet.errors import BufferPoolDestroyedError

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


class SegmentSource:
    """The global memory, as local pools use it: NetworkBufferPool."""

    def __init__(self, segment_size_bytes: int) -> None:
        self.segment_size_bytes = segment_size_bytes

    def try_request_segment(self) -> MemorySegment | None:
        raise NotImplementedError

    def recycle_segment(self, segment: MemorySegment) -> None:
        raise NotImplementedError

    def wait_for_segment(self, pool: LocalBufferPool) -> None:
        """Notify a pool when there is a segment; each pool waits at most once."""
        raise NotImplementedError

    def destroy_buffer_pool(self, pool: LocalBufferPool) -> None:
        raise NotImplementedError


class LocalBufferPool:
    """The buffers of one result partition or one input gate (Flink: LocalBufferPool)."""

    def __init__(
        self,
        global_pool: SegmentSource,
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
        """Whether a new record may be begun: a segment is free and no channel is at its quota.

        The quota is soft: a channel at its quota still gets segments, but the pool is unavailable
        until it is below again.
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

        Differs from LocalBufferPool.onGlobalPoolAvailable, which only prefetches: Flink's gates
        hold one segment from the start, and their listeners wait for that one.
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
