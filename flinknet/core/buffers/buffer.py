# mypyc
"""NetworkBuffer: a memory segment, its owner count, and who gets it back.

Invariant: a segment goes to its recycler exactly once, when the last reference is given up.
"""

from __future__ import annotations

from collections.abc import Callable

Recycler = Callable[["MemorySegment"], None]
"""Takes a segment whose last reference is gone (Flink: BufferRecycler)."""


class MemorySegment:
    """A fixed piece of network memory (Flink: MemorySegment); `view` is writable."""

    __slots__ = ("index", "view")

    def __init__(self, view: memoryview, index: int = -1) -> None:
        self.view = view
        self.index = index

    @property
    def size_bytes(self) -> int:
        """Bytes this segment can hold."""
        return len(self.view)

    def with_neighbours(self, count: int) -> memoryview:
        """The memory of `count` segments of one pool, from this one on: by index, end to end."""
        size = len(self.view)
        start = self.index * size
        return memoryview(self.view.obj)[start : start + count * size]


def free_memory(_segment: MemorySegment) -> None:
    """Recycler of memory that belongs to no pool: events (Flink: FreeingBufferRecycler)."""


class NetworkBuffer:
    """A reference-counted segment of one data type (Flink: NetworkBuffer); starts with one
    reference.

    `data_type` is the ordinal of a DataType, data by default (plain ints: enum members cost a
    look-up each on the hot path). `size_bytes` is the number of valid bytes, for buffers that were
    filled from the network. At the producer the valid bytes are the business of BufferBuilder and
    BufferConsumer.
    """

    __slots__ = (
        "data_type",
        "is_compressed",
        "recycler",
        "references",
        "segment",
        "size_bytes",
        "view",
    )

    def __init__(
        self,
        segment: MemorySegment,
        recycler: Recycler,
        data_type: int = 1,
        size_bytes: int = 0,
    ) -> None:
        self.segment = segment
        self.view = segment.view
        self.recycler = recycler
        self.data_type = data_type
        self.size_bytes = size_bytes
        self.is_compressed = 0
        self.references = 1

    def retain(self) -> NetworkBuffer:
        """Add an owner."""
        if self.references <= 0:
            raise RuntimeError("a recycled buffer cannot be retained")
        self.references += 1
        return self

    def recycle(self) -> None:
        """Give up one reference; the last one hands the segment to the recycler."""
        self.references -= 1
        if self.references == 0:
            self.recycler(self.segment)
        elif self.references < 0:
            raise RuntimeError("buffer recycled more often than it was retained")

    @property
    def payload(self) -> memoryview:
        """The valid bytes."""
        return self.view[: self.size_bytes]
