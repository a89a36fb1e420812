"""Network memory: segments, buffers with one owner count, builders and consumers, and the pools
they come from.

    buffer                  a segment, its owner count, and who gets it back
    builder                 one writes a segment, while the other reads what is there of it
    network_buffer_pool     the memory of a TaskManager
    local_buffer_pool       the share of a partition or gate
    pool_sizes              how large the latter are
    read_buffer_pool        what blocking partitions are read into
    data_type               what the bytes of a buffer are

Knows nothing of bytes on the wire, of channels or of time. Buffers are passed by handing over a
reference; whoever holds the last one recycles it.
"""

from .buffer import MemorySegment, NetworkBuffer, free_memory
from .builder import BufferBuilder, BufferConsumer, BufferSlice, PrefilledSegment
from .data_type import DataType
from .local_buffer_pool import UNLIMITED_BUFFERS, BufferListener, LocalBufferPool
from .network_buffer_pool import ExclusiveReservation, NetworkBufferPool

__all__ = [
    "UNLIMITED_BUFFERS",
    "BufferBuilder",
    "BufferConsumer",
    "BufferListener",
    "BufferSlice",
    "DataType",
    "ExclusiveReservation",
    "LocalBufferPool",
    "MemorySegment",
    "NetworkBuffer",
    "NetworkBufferPool",
    "PrefilledSegment",
    "free_memory",
]
