# mypyc
"""BatchShuffleReadBufferPool: memory that sorted blocking partitions are read into."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from .buffer import MemorySegment
from .buffer_pools import NetworkBufferPool

REQUEST_BYTES = 4 * 1024 * 1024
"""Bytes per request: large, so that reading is sequential."""


BufferRequester = Callable[[], None]
"""A reader of a partition (SortMergeResultPartitionReadScheduler.read_if_possible); called when
buffers have been recycled."""


class BatchShuffleReadBufferPool:
    """A pool outside network memory of at least one buffer (Flink: BatchShuffleReadBufferPool),
    allocated at the first request.

    Differs from Flink, where an unsuccessful request waits and may time out: here its requester is
    called when enough buffers are free.
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
