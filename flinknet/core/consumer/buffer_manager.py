# mypyc
"""BufferManager: the free buffers of one remote channel; each is one credit of its producer.

Exclusive buffers belong to the channel for life. Floating ones are borrowed from the gate's pool,
as many as the producer's backlog needs. Only the number of each kind matters, so free memory may be
rearranged to make consecutive buffers adjacent.

Invariant (no resume pending): producer's credit + AddCredit in flight + unannounced credit + data
    in flight = available.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from operator import attrgetter

from flinknet.core.buffers import LocalBufferPool, MemorySegment, NetworkBuffer, NetworkBufferPool

_INDEX = attrgetter("index")


class BufferManager:
    """Exclusive and floating buffers of one channel (Flink: BufferManager, AvailableBufferQueue).

    Args:
        notify_credit: announces credit gained outside of the channel's own calls.
        exclusive_segments: one per exclusive buffer; None: requested now.
    """

    def __init__(
        self,
        notify_credit: Callable[[int], None],
        global_pool: NetworkBufferPool,
        pool: LocalBufferPool,
        exclusive_buffers: int,
        exclusive_segments: list[MemorySegment] | None = None,
    ) -> None:
        self._notify_credit = notify_credit
        self._global_pool = global_pool
        self.pool = pool
        self.initial_credit = exclusive_buffers
        self.required_buffers = 0
        self.is_released = False
        self._is_waiting = False
        self._recycler = self._recycle_exclusive
        self.floating_buffers = 0
        if exclusive_segments is None:
            exclusive_segments = global_pool.request_exclusive_segments(exclusive_buffers)
        self._free = exclusive_segments

    @property
    def available_buffers(self) -> int:
        return len(self._free)

    def line_up(self, after: int) -> list[MemorySegment]:
        """Free memory in the order of `take`: from the segment after this index on, then the
        others.
        """
        free = self._free
        free.sort(key=_INDEX)
        if free and free[0].index <= after:
            count = bisect(free, after, key=_INDEX)
            free[:] = free[count:] + free[:count]
        return free

    def take(self) -> NetworkBuffer | None:
        """A buffer for an arriving message, floating ones first; None if there is none."""
        self.required_buffers -= 1
        if not self._free:
            return None
        segment = self._free.pop(0)
        if not self.floating_buffers:
            return NetworkBuffer(segment, self._recycler)
        self.floating_buffers -= 1
        return NetworkBuffer(segment, self.pool.recycle)

    def take_run(self, size_bytes: int, backlogs: Sequence[int]) -> list[NetworkBuffer]:
        """Buffers for full payloads already in the free memory: one per backlog received with them,
        up to the first that gains floating buffers.
        """
        free, count = self._free, len(backlogs)
        if not self._is_waiting:
            spare = len(free) - self.initial_credit - 1
            for index, backlog in enumerate(backlogs):
                if backlog > spare - index:
                    count = index + 1
                    break
        self.required_buffers -= count
        floating = min(count, self.floating_buffers)
        self.floating_buffers -= floating
        recyclers = [self.pool.recycle] * floating + [self._recycler] * (count - floating)
        taken = [
            NetworkBuffer(segment, recycler, size_bytes=size_bytes)
            for segment, recycler in zip(free, recyclers, strict=False)
        ]
        del free[:count]
        return taken

    def recycle_run(self, buffers: Sequence[NetworkBuffer]) -> None:
        """Recycle several buffers of the channel, and announce the credit once.

        Equivalent to `recycle` of each. If only this channel waits for the pool and lacks more than
        one buffer, the pool would offer it each floating buffer at once: it simply keeps them.
        """
        free, credit = self._free, 0
        is_offered = self._is_waiting and self.pool.is_awaited_only_by(self)
        for buffer in buffers:
            if buffer.references != 1 or self.is_released:
                buffer.recycle()
            elif buffer.recycler is self._recycler:
                buffer.references = 0
                credit += self._take_back(buffer.segment)
            elif is_offered and self.required_buffers - len(free) > 1:
                buffer.references = 0
                free.append(buffer.segment)
                self.floating_buffers += 1
                credit += 1
            else:
                free.append(buffer.segment)
                buffer.segment = self._take_last()
                buffer.recycle()
        if credit:
            self._notify_credit(credit)

    def request_for_backlog(self, backlog_buffers: int) -> int:
        """Request buffers for a backlog (Flink: onSenderBacklog). Returns: credit gained."""
        self.required_buffers = required = backlog_buffers + self.initial_credit
        if self._is_waiting or len(self._free) >= required:
            return 0
        return self._request_floating()

    def release_floating(self) -> None:
        """Return all floating buffers, for a blocked channel without exclusive buffers."""
        self.required_buffers = 0  # or the pool would offer them to this channel again
        floating, self.floating_buffers = self.floating_buffers, 0
        for _ in range(floating):
            self.pool.recycle(self._free.pop())

    def release(self) -> None:
        if self.is_released:
            return
        self.is_released = True
        self.release_floating()
        exclusive, self._free = self._free, []
        self._global_pool.recycle_exclusive_segments(exclusive)

    def receive_buffer(self, buffer: NetworkBuffer) -> bool:
        """Take a recycled buffer from the pool; refuses it if no buffer is missing."""
        self._is_waiting = False
        missing = self.required_buffers - len(self._free)
        if missing <= 0 or self.is_released:
            return False
        self._free.append(buffer.segment)
        self.floating_buffers += 1
        self._notify_credit(1 + self._request_floating() if missing > 1 else 1)
        return True

    def handle_pool_destroyed(self) -> None:
        self._is_waiting = False

    def _request_floating(self) -> int:
        """Take missing buffers from the pool, and wait for those it does not have. Call only while
        buffers are missing and none is awaited. Returns: buffers gained.
        """
        missing = self.required_buffers - len(self._free)
        gained = 0
        while gained < missing:
            buffer = self.pool.try_request()
            if buffer is None:
                self._is_waiting = self.pool.add_listener(self)
                break
            self._free.append(buffer.segment)
            gained += 1
        self.floating_buffers += gained
        return gained

    def _recycle_exclusive(self, segment: MemorySegment) -> None:
        if self.is_released:
            self._global_pool.recycle_exclusive_segments([segment])
        elif self._take_back(segment):
            self._notify_credit(1)

    def _take_back(self, segment: MemorySegment) -> int:
        """Add an exclusive buffer, or return a floating one instead. Returns: the new credit."""
        self._free.append(segment)
        if not self.floating_buffers or len(self._free) <= self.required_buffers:
            return 1
        self.floating_buffers -= 1
        self.pool.recycle(self._take_last())
        return 0

    def _take_last(self) -> MemorySegment:
        """Take the free segment to return first, so that the rest stays adjacent."""
        self._free.sort(key=_INDEX)
        return self._free.pop()
