"""The upstream half: from records to frames, as far as credit goes.

Records come in batches and leave as slices of buffers; `ProducerConnection` is the door for
drivers. No clock, no socket; a callback only where Flink has one too: a subpartition tells its
reader when there is something to read.
"""

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
from .partition_manager import ResultPartitionManager
from .record_writer import RecordWriter, SerializedRecords
from .result_partition import BROADCAST, PipelinedResultPartition
from .subpartition import PipelinedSubpartition

__all__ = [
    "BROADCAST",
    "BroadcastSelector",
    "ChannelSelector",
    "CustomSelector",
    "ForwardSelector",
    "GlobalSelector",
    "KeyGroupSelector",
    "OutputFlusher",
    "PipelinedResultPartition",
    "PipelinedSubpartition",
    "ProducerConnection",
    "RebalanceSelector",
    "RecordWriter",
    "RescaleSelector",
    "ResultPartitionManager",
    "SerializedRecords",
    "ShuffleSelector",
]
