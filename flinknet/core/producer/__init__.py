"""The upstream half: from records to frames, as credit permits.

Records into partitions:

    record_writer           distributes records and queues what does not fit; the timer of the
                            buffer timeout
    channel_selector        chooses the consumer of a record, by key group if it is keyed
    result_partition        output of a subtask along an edge, where consumers find it, and the
                            events they send; partition_type: its kind;
                            result_partition_factory: creates it
    buffer_writing_partition    writes records into the buffers of its subpartitions
    subpartition            the queue to one consumer; approximate_subpartition: one that can be
                            read again, with loss

Blocking partitions, which are complete before they are read:

    sort_merge              in one file, sorted; read_scheduler: reads it for all readers
    bounded_data            the file, and buffers in it; data_buffer: records, in memory

Connections:

    connection              the interface for drivers; sends
    server_handler          handles the consumer's messages; peer_trust: how far it is trusted
    view_reader             the producer's end of a channel, with its credit, and the queue that
                            chooses the next reader; several subpartitions, read as one

No clock, no socket. The only callback is one of Flink's: a subpartition notifies its reader when
there is something to read.
"""

from .bounded_data import BoundedData
from .buffer_writing_partition import PipelinedResultPartition
from .channel_selector import (
    BroadcastSelector,
    ChannelSelector,
    CustomSelector,
    ForwardSelector,
    GlobalSelector,
    KeyGroupSelector,
    RebalanceSelector,
    RescaleSelector,
    ShuffleSelector,
)
from .connection import ProducerConnection
from .data_buffer import SerializedElement, SerializedRecords
from .partition_type import ResultPartitionType, partition_type_of
from .record_writer import OutputFlusher, RecordWriter
from .result_partition import BROADCAST, ResultPartition, ResultPartitionManager
from .result_partition_factory import BlockingStorage, MemoryBoundedData, ResultPartitionFactory
from .sort_merge import SortMergeResultPartition
from .subpartition import PipelinedSubpartition
