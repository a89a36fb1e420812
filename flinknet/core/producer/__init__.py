"""The upstream half: from records to frames, as far as credit goes.

Records come in batches and leave as slices of buffers; `ProducerConnection` is the door for drivers
and sends; `server_handler` acts on what the consumer says, and `request_queue` holds which reader
is next. No clock, no socket; a callback only where Flink has one too: a subpartition tells its
reader when there is something to read.
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
