# mypyc
"""NetworkBuffer: a memory segment with a reference count and a recycler.

Invariant: a segment goes to its recycler exactly once, with its last reference.
"""

from __future__ import annotations

from collections.abc import Callable

Recycler = Callable[["MemorySegment"], None]
"""Takes a segment without references (Flink: BufferRecycler)."""


class MemorySegment:
    """A fixed-size piece of network memory (Flink: MemorySegment); `view` is writable."""

    def __init__(self, view: memoryview, index: int = -1) -> None:
        self.view = view
        self.index = index

    def with_neighbours(self, count: int) -> memoryview:
        """The memory of `count` adjacent segments of one pool, from this one on, by index."""
        size = len(self.view)
        start = self.index * size
        return memoryview(self.view.obj)[start : start + count * size]


def free_memory(_segment: MemorySegment) -> None:
    """Recycler of memory without a pool, such as events (Flink: FreeingBufferRecycler)."""


class NetworkBuffer:
    """A reference-counted segment of one data type (Flink: NetworkBuffer). Starts with one
    reference.

    `data_type` is the ordinal of a DataType (enum members cost a look-up each on the hot path).
    `size_bytes` is the number of valid bytes, for buffers filled from the network.
    """

    def __init__(
        self, segment: MemorySegment, recycler: Recycler, data_type: int = 1, size_bytes: int = 0
    ) -> None:
        self.segment = segment
        self.view = segment.view
        self.recycler = recycler
        self.data_type = data_type
        self.size_bytes = size_bytes
        self.is_compressed = 0
        self.references = 1

    def retain(self) -> NetworkBuffer:
        if self.references <= 0:
            raise RuntimeError("a recycled buffer cannot be retained")
        self.references += 1
        return self

    def recycle(self) -> None:
        """Drop a reference; the last one passes the segment to the recycler."""
        self.references -= 1
        if self.references == 0:
            self.recycler(self.segment)
        elif self.references < 0:
            raise RuntimeError("buffer recycled more often than it was retained")

    @property
    def payload(self) -> memoryview:
        return self.view[: self.size_bytes]
