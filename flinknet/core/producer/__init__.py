"""The upstream half: from records to frames, as far as credit goes.

Records into partitions:

    record_writer           deals records out and keeps what did not fit; serialized_records: a
                            batch of them
    channel_selector        which consumer gets a record; key_groups: of records with keys
    output_flusher          the beat of the buffer timeout
    result_partition        what a subtask produces on an edge, and where consumers find it;
                            partition_type: of what kind; result_partition_factory: makes each
    buffer_writing_partition    lays records into the buffers of its subpartitions
    subpartition            the queue towards one consumer; approximate_subpartition: one that may
                            be read anew, with a loss
    task_events             events from the tasks that read

Blocking ones, which are complete before anybody reads:

    blocking_subpartition   what both kinds have in common
    bounded_blocking        a file for each subpartition (bounded_subpartition)
    sort_merge              one file, sorted (data_buffer, partitioned_file, read_scheduler)
    bounded_data            where the bytes are; stored_buffer: a buffer among them

Connections:

    connection              the door for drivers; sends
    server_handler          acts on what the consumer says; view_requests: its requests, until they
                            have a reader; peer_trust: how far it is trusted
    request_queue           which reader is next
    view_reader             a channel as its producer sees it, with its credit; tcp_mode: without;
                            union_view: several subpartitions, read as one

No clock, no socket; a callback only where Flink has one too: a subpartition tells its reader when
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

__all__ = [
    "BROADCAST",
    "BlockingStorage",
    "BoundedBlockingResultPartition",
    "BoundedData",
    "BroadcastSelector",
    "ChannelSelector",
    "CustomSelector",
    "ForwardSelector",
    "GlobalSelector",
    "KeyGroupSelector",
    "MemoryBoundedData",
    "OutputFlusher",
    "PipelinedResultPartition",
    "PipelinedSubpartition",
    "ProducerConnection",
    "RebalanceSelector",
    "RecordWriter",
    "RescaleSelector",
    "ResultPartition",
    "ResultPartitionFactory",
    "ResultPartitionManager",
    "ResultPartitionType",
    "SerializedElement",
    "SerializedRecords",
    "ShuffleSelector",
    "SortMergeResultPartition",
    "partition_type_of",
]
