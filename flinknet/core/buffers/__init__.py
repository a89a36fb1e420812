"""Network memory: segments, reference-counted buffers, builders and consumers, and their pools.

    buffer                  a segment with a reference count and a recycler
    builder                 writes a segment while a consumer reads it
    buffer_pools            the memory of a TaskManager, and the share of a partition or gate in it
    read_buffer_pool        memory for reading blocking partitions
    pool_sizes              sizes of local pools, and the network memory that tasks need
    data_type               the content of a buffer

Buffers are passed on by passing a reference; the last owner recycles.
"""

from .buffer import MemorySegment, NetworkBuffer, free_memory
from .buffer_pools import (
    UNLIMITED_BUFFERS,
    BufferListener,
    ExclusiveReservation,
    LocalBufferPool,
    NetworkBufferPool,
)
from .builder import BufferBuilder, BufferConsumer, BufferSlice, PrefilledSegment
from .data_type import DataType
