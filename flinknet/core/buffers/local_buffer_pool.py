# mypyc
"""LocalBufferPool: the share of one partition or gate in the memory of a TaskManager.

Invariant: it holds at most `size_buffers + max_overdraft_buffers` segments once what it owes has
    come back.
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
"""Maximum of a pool that has none."""


class BufferListener(Protocol):
    """Who waits for a buffer of a pool (Flink: BufferListener); called at most once for each
    registration.
    """

    def receive_buffer(self, buffer: NetworkBuffer) -> bool:
        """Take the buffer, or refuse it (False) so that the next listener is asked."""

    def handle_pool_destroyed(self) -> None:
        """The pool is gone; nothing more will come."""


class SegmentSource:
    """What a local pool needs of the memory it has a share in: NetworkBufferPool."""

    def __init__(self, segment_size_bytes: int) -> None:
        self.segment_size_bytes = segment_size_bytes

    def try_request_segment(self) -> MemorySegment | None:
        """A segment for a local pool, None if all are out."""
        raise NotImplementedError

    def recycle_segment(self, segment: MemorySegment) -> None:
        """Take a segment back from a local pool."""
        raise NotImplementedError

    def wait_for_segment(self, pool: LocalBufferPool) -> None:
        """Tell a pool when there is a segment; each pool waits once."""
        raise NotImplementedError

    def destroy_buffer_pool(self, pool: LocalBufferPool) -> None:
        """Forget a pool; its outstanding segments come back as they are recycled."""
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

        The quota is soft: a channel beyond it still gets segments, but the pool is not available
        while it is there.
        """
        if self._channels_at_quota:
            return False
        if self._free:
            return True
        return self._prefetch()

    @property
    def available_buffers(self) -> int:
        """Buffers this pool could still give within its size."""
        unrequested = self.size_buffers - self.requested_buffers
        return len(self._free) + unrequested if unrequested > 0 else len(self._free)

    @property
    def segment_size_bytes(self) -> int:
        """Size of each buffer."""
        return self._global.segment_size_bytes

    @property
    def used_buffers(self) -> int:
        """Buffers handed out."""
        return self.requested_buffers - len(self._free)

    def try_request(self, channel: int = -1) -> NetworkBuffer | None:
        """A buffer charged to `channel` (-1: to none), from overdraft if need be; None if there is
        none.

        Raises: BufferPoolDestroyedError.
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
        """Buffers charged to `channel`, at most `buffers_max`, and so few that the pool is
        available after each: whoever requested them one by one would never have to stop. With
        `and_last` the pool need not be available after the last of them.
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
        """Give up the reference of each slice, as its own `recycle` would; those whose buffers are
        charged to `channel` come back together.
        """
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
        """Queue for the next recycled buffer; False if one is free now or the pool is destroyed."""
        if self.is_destroyed or self._free or self._prefetch():
            return False
        self._listeners.append(listener)
        if self.requested_buffers < self.size_buffers:  # it is the global pool that has none
            self._global.wait_for_segment(self)
        return True

    def is_awaited_only_by(self, listener: BufferListener) -> bool:
        """Whether a segment that is recycled now goes to this listener, if it wants it, and none
        else can be had.
        """
        listeners = self._listeners
        return (
            len(listeners) == 1
            and listeners[0] is listener
            and self.requested_buffers == self.size_buffers
            and not self.is_destroyed
        )

    def handle_segment_available(self) -> None:
        """The global pool has a segment again: take one for the first listener that wants it.

        Differs from LocalBufferPool.onGlobalPoolAvailable, which only prefetches: its gates hold
        one segment from the start, and their listeners wait for that one.
        """
        if not self._listeners or not self._prefetch():
            return
        self.recycle(self._free.popleft())
        if self._listeners and self.requested_buffers < self.size_buffers:
            self._global.wait_for_segment(self)

    def resize(self, size_buffers: int) -> None:
        """Set the current size; free segments above it go back now, the others when they are
        recycled.
        """
        self.size_buffers = min(size_buffers, self.max_buffers)
        while self._free and self.requested_buffers > self.size_buffers:
            self._give_back(self._free.popleft())

    def destroy(self) -> None:
        """Give back what is free, tell who waits, and let the rest come back one by one (Flink:
        lazyDestroy).
        """
        if self.is_destroyed:
            return
        self.is_destroyed = True
        while self._free:
            self._give_back(self._free.popleft())
        while self._listeners:
            self._listeners.popleft().handle_pool_destroyed()
        self._global.destroy_buffer_pool(self)

    def recycle(self, segment: MemorySegment) -> None:
        """Take back a segment that was charged to no channel: to who waits first and wants it."""
        if self.is_destroyed or self.requested_buffers > self.size_buffers:
            self._give_back(segment)
            return
        while self._listeners:
            if self._listeners.popleft().receive_buffer(NetworkBuffer(segment, self.recycle)):
                return
        self._free.append(segment)

    @property
    def waits_for_segment(self) -> bool:
        """Whether somebody waits for a buffer that only the global pool can give."""
        return bool(self._listeners) and self.requested_buffers < self.size_buffers

    def is_awaited_by(self, listener: BufferListener) -> bool:
        """Whether a listener waits for a buffer."""
        return listener in self._listeners

    @property
    def free_segments(self) -> list[int]:
        """Identities of the segments that it has and has not handed out."""
        return [id(segment) for segment in self._free]

    def check_invariants(self) -> None:
        """Assert that what it holds, has handed out and is owed adds up."""
        free, requested = len(self._free), self.requested_buffers
        assert 0 <= free <= requested, f"{free} segments are free of {requested} requested"
        assert not free or requested <= self.size_buffers, (
            f"{free} segments are kept though {requested} exceed the size {self.size_buffers}"
        )
        charged, quota = self._channel_buffers, self.max_buffers_per_channel
        assert min(charged, default=0) >= 0, f"channels are charged {charged}"
        assert sum(charged) <= requested - free, (
            f"channels are charged {charged}, {requested - free} segments are out"
        )
        at_quota = len([count for count in charged if count >= quota])
        assert at_quota == self._channels_at_quota, (
            f"{at_quota} channels are at their quota, not {self._channels_at_quota}"
        )
        assert not self.is_destroyed or not (free or self._listeners), (
            "a destroyed pool has segments or listeners"
        )

    def _prefetch(self) -> bool:
        """Hold one segment while the size allows it; so that "available" means one can be had."""
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
