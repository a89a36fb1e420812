# mypyc
"""NetworkBufferPool, the global memory of a TaskManager, and LocalBufferPool, the share of one
partition or gate.

Invariants:
- every segment of the global pool is free there, or owned by exactly one local pool or exclusive
  holder;
- the required buffers of all local pools and the exclusive ones never exceed the total;
- a local pool holds at most `size_buffers + max_overdraft_buffers` segments once what it owes has
  come back.

Flink waits on futures where these pools answer None or False: nothing in the core blocks, and the
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
"""Maximum of a pool that has none."""


class BufferListener(Protocol):
    """Who waits for a buffer of a pool (Flink: BufferListener); called at most once for each
    registration.
    """

    def receive_buffer(self, buffer: NetworkBuffer) -> bool:
        """Take the buffer, or refuse it (False) so that the next listener is asked."""

    def handle_pool_destroyed(self) -> None:
        """The pool is gone; nothing more will come."""


class NetworkBufferPool:
    """All network memory of one TaskManager, allocated at once (Flink: NetworkBufferPool).

    Raises: BufferPoolError when the system does not have so much memory.
    """

    def __init__(self, total_buffers: int, segment_size_bytes: int) -> None:
        self.total_buffers = total_buffers
        self.segment_size_bytes = segment_size_bytes
        memory = _allocate(total_buffers, segment_size_bytes)
        self._free = deque(
            MemorySegment(
                memory[index * segment_size_bytes : (index + 1) * segment_size_bytes], index
            )
            for index in range(total_buffers)
        )
        self._pools: list[LocalBufferPool] = []
        self._waiting_pools: deque[LocalBufferPool] = deque()
        self._required_buffers = 0

    @property
    def available_buffers(self) -> int:
        """Segments that lie free in the global pool."""
        return len(self._free)

    @property
    def free_segments(self) -> list[int]:
        """Identities of the segments that are free here and in the local pools."""
        free = [id(segment) for segment in self._free]
        for pool in self._pools:
            free += pool.free_segments
        return free

    @property
    def pools(self) -> Sequence[LocalBufferPool]:
        """The local pools that exist now."""
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
        """A local pool that can always get `required_buffers` and may grow to `max_buffers`.

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
        """Forget a pool; its outstanding segments come back as they are recycled."""
        if pool in self._pools:
            self._pools.remove(pool)
            self._required_buffers -= pool.required_buffers
            self._redistribute()

    def request_exclusive_segments(self, count: int) -> list[MemorySegment]:
        """Segments outside all local pools, for the exclusive buffers of a channel, which must be
        free now.

        Raises: InsufficientBuffersError with the numbers and the keys that help.
        """
        promised = self.reserve_exclusive_segments(count)
        if not promised.collect():
            promised.cancel()
            raise InsufficientBuffersError(
                count, len(self._free), self.total_buffers, self.segment_size_bytes
            )
        return promised.segments

    def reserve_exclusive_segments(self, count: int) -> ExclusiveReservation:
        """Count exclusive segments as required from now on, so that local pools give back what they
        hold above their share; they are collected as they come free (Flink:
        requestUnpooledMemorySegments, whose thread sleeps meanwhile).

        Raises: InsufficientBuffersError when they are promised to others.
        """
        self._reserve(count)
        self._redistribute()
        return ExclusiveReservation(self, count)

    def cancel_reservation(self, count: int) -> None:
        """Exclusive segments that were promised and have not been collected are not wanted."""
        self._required_buffers -= count
        self._redistribute()

    def recycle_exclusive_segments(self, segments: Sequence[MemorySegment]) -> None:
        """Take exclusive segments back."""
        self._free.extend(segments)
        self._required_buffers -= len(segments)
        self._redistribute()
        self._serve_waiting_pools()

    def try_request_segment(self) -> MemorySegment | None:
        """A segment for a local pool, None if all are out."""
        return self._free.popleft() if self._free else None

    def recycle_segment(self, segment: MemorySegment) -> None:
        """Take a segment back from a local pool."""
        self._free.append(segment)
        if self._waiting_pools:
            self._serve_waiting_pools()

    def wait_for_segment(self, pool: LocalBufferPool) -> None:
        """Tell a pool when there is a segment; each pool waits once."""
        if pool not in self._waiting_pools:
            self._waiting_pools.append(pool)

    def check_invariants(self) -> None:
        """Assert that no segment is in two places, and that pools take no more than there is."""
        for pool in self._pools:
            pool.check_invariants()
        free = self.free_segments
        assert len(free) == len(set(free)), "a segment is free in two places"
        for pool in self._pools:
            assert not pool.waits_for_segment or pool in self._waiting_pools, (
                "a pool whose listeners wait for a segment is on no list"
            )
        requested = sum([pool.requested_buffers for pool in self._pools])
        assert len(self._free) + requested <= self.total_buffers, (
            f"{len(self._free)} segments are free and {requested} in local pools,"
            f" of {self.total_buffers}"
        )
        exclusive = self._required_buffers - sum([pool.required_buffers for pool in self._pools])
        assert exclusive >= 0, f"{exclusive} exclusive segments"
        sizes = sum([pool.size_buffers for pool in self._pools])
        assert exclusive + sizes <= self.total_buffers, (
            f"{exclusive} exclusive segments and pools of {sizes}, of {self.total_buffers}"
        )

    def _serve_waiting_pools(self) -> None:
        while self._free and self._waiting_pools:
            self._waiting_pools.popleft().handle_segment_available()

    def _reserve(self, count: int) -> None:
        available = self.total_buffers - self._required_buffers
        if count > available:
            raise InsufficientBuffersError(
                count, available, self.total_buffers, self.segment_size_bytes
            )
        self._required_buffers += count

    def _redistribute(self) -> None:
        """Hand the buffers nobody requires to the pools that may grow, in proportion, without
        rounding loss.

        Who gets the remainders follows from the order, which in Flink is a hash set's; here the
        pool that may grow most comes first.
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
    """Exclusive segments that are promised to one channel.

    Attributes:
        segments: those that were collected so far.
    """

    __slots__ = ("_count", "_pool", "segments")

    def __init__(self, pool: NetworkBufferPool, count: int) -> None:
        self._pool = pool
        self._count = count
        self.segments: list[MemorySegment] = []

    def collect(self) -> bool:
        """Take what is free. Returns: whether all are there now."""
        while len(self.segments) < self._count:
            segment = self._pool.try_request_segment()
            if segment is None:
                return False
            self.segments.append(segment)
        return True

    def cancel(self) -> None:
        """Give everything back."""
        collected, self.segments = self.segments, []
        self._pool.cancel_reservation(self._count - len(collected))
        self._pool.recycle_exclusive_segments(collected)
        self._count = 0


def _allocate(total_buffers: int, segment_size_bytes: int) -> memoryview:
    """One block for all segments: the system gives it whole or not at all."""
    required_bytes = total_buffers * segment_size_bytes
    if total_buffers <= UNLIMITED_BUFFERS:
        try:
            return memoryview(bytearray(required_bytes))
        except (MemoryError, OverflowError):
            pass
    raise BufferPoolError(
        f"network memory cannot be allocated: required {required_bytes >> 20} MB ({total_buffers}"
        f" buffers of {segment_size_bytes} bytes), allocated 0 MB, missing"
        f" {required_bytes >> 20} MB; lower taskmanager.memory.network.min, or"
        " taskmanager.memory.network.max where a fraction of a total size is taken"
    )


class LocalBufferPool:
    """The buffers of one result partition or one input gate (Flink: LocalBufferPool)."""

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
        return [NetworkBuffer(free.popleft(), recycler) for _ in range(count)]

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
