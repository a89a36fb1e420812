"""The upstream half: from records to frames, as credit permits.

Records into partitions:

    record_writer           distributes records and queues what does not fit; serialized_records:
                            a batch of them
    channel_selector        chooses the consumer of a record; key_groups: of keyed records
    output_flusher          the timer of the buffer timeout
    result_partition        output of a subtask along an edge, and where consumers find it;
                            partition_type: its kind; result_partition_factory: creates it
    buffer_writing_partition    writes records into the buffers of its subpartitions
    subpartition            the queue to one consumer; approximate_subpartition: one that can be
                            read again, with loss

Blocking partitions, which are complete before they are read:

    blocking_subpartition   base of both kinds
    bounded_blocking        one file per subpartition (bounded_subpartition)
    sort_merge              one file, sorted (data_buffer, partitioned_file, read_scheduler)
    bounded_data            stores the bytes; stored_buffer: a buffer among them

Connections:

    connection              the interface for drivers; sends
    server_handler          handles the consumer's messages; view_requests: its requests, until
                            they have a reader; peer_trust: how far it is trusted
    request_queue           chooses the next reader
    view_reader             the producer's end of a channel, with its credit; tcp_mode: without;
                            union_view: several subpartitions, read as one

No clock, no socket. The only callback is one of Flink's: a subpartition notifies its reader when
there is something to read.
"""

from .bounded_blocking import BoundedBlockingResultPartition
from .bounded_data import BoundedData, MemoryBoundedData
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
from .output_flusher import OutputFlusher
from .partition_type import ResultPartitionType, partition_type_of
from .record_writer import RecordWriter
from .result_partition import BROADCAST, ResultPartition, ResultPartitionManager
from .result_partition_factory import BlockingStorage, ResultPartitionFactory
from .serialized_records import SerializedElement, SerializedRecords
from .sort_merge import SortMergeResultPartition
from .subpartition import PipelinedSubpartition
