"""Network memory: segments, reference-counted buffers, builders and consumers, and their pools.

    buffer                  a segment with a reference count and a recycler
    builder                 writes a segment while a consumer reads it
    network_buffer_pool     the memory of a TaskManager, and that for reading blocking partitions
    local_buffer_pool       the share of a partition or gate
    pool_sizes              sizes of local pools, and the network memory that tasks need
    data_type               the content of a buffer

Independent of the wire format, of channels and of time. Buffers are passed on by passing a
reference; the last owner recycles.
"""

from .buffer import MemorySegment, NetworkBuffer, free_memory
from .builder import BufferBuilder, BufferConsumer, BufferSlice, PrefilledSegment
from .data_type import DataType
from .local_buffer_pool import UNLIMITED_BUFFERS, BufferListener, LocalBufferPool
from .network_buffer_pool import ExclusiveReservation, NetworkBufferPool
