"""ResultPartitionFactory: creates partitions of every type for a TaskManager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flinknet.core.buffers import LocalBufferPool, NetworkBufferPool
from flinknet.core.buffers.pool_sizes import partition_pool_size
from flinknet.core.buffers.read_buffer_pool import BatchShuffleReadBufferPool
from flinknet.core.wire.compression import CompressionCodec
from flinknet.core.wire.ids import ResultPartitionID

from .bounded_data import BoundedData
from .buffer_writing_partition import PipelinedResultPartition
from .channel_selector import DEFAULT_MAX_PARALLELISM
from .partition_type import MADE, ResultPartitionType, refusal_of
from .read_scheduler import PartitionedFile
from .result_partition import ResultPartition, ResultPartitionManager
from .sort_merge import SortMergeResultPartition
from .subpartition import UNLIMITED_BYTES


class MemoryBoundedData:
    """Bytes in memory, for the simulator and tests."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self.is_released = False

    def write(self, pieces: Sequence[bytes | memoryview]) -> None:
        for piece in pieces:
            self._bytes += piece

    def finish(self) -> None: ...

    def read(self, offset: int, into: Sequence[memoryview]) -> int:
        start = offset
        for piece in into:
            found = self._bytes[offset : offset + len(piece)]
            piece[: len(found)] = found
            offset += len(found)
        return offset - start

    def release(self) -> None:
        self.is_released = True
        self._bytes = bytearray()


def in_memory(_partition_id: ResultPartitionID, _name: str) -> BoundedData:
    """Keep the data of a blocking partition in memory: the default."""
    return MemoryBoundedData()


@dataclass(frozen=True, slots=True)
class BlockingStorage:
    """Storage shared by the blocking partitions of a TaskManager: the buffers that sort-merge
    partitions are read into, and what creates a data store, by partition and name of the file.
    """

    read_pool: BatchShuffleReadBufferPool
    create_data: Callable[[ResultPartitionID, str], BoundedData] = in_memory


@dataclass(frozen=True, slots=True)
class ResultPartitionFactory:
    """Creates the partitions of a task, without buffers and unregistered until `setup` (Flink:
    ResultPartitionFactory, of the shuffle environment).

    Attributes:
        codec: of blocking partitions; pipelined ones are never compressed.
        starting_buffer_bytes: initial buffer size of pipelined partitions, until a consumer
            announces another.
    """

    memory: NetworkBufferPool
    manager: ResultPartitionManager
    exclusive_buffers: int
    floating_buffers: int
    max_buffers_per_channel: int
    max_overdraft_buffers: int
    storage: BlockingStorage
    codec: CompressionCodec = CompressionCodec.NONE
    sort_shuffle_min_buffers: int = 512
    starting_buffer_bytes: int = UNLIMITED_BYTES

    def create(
        self,
        partition_id: ResultPartitionID,
        partition_type: ResultPartitionType,
        subpartitions: int,
        *,
        target_key_groups: int = DEFAULT_MAX_PARALLELISM,
    ) -> ResultPartition:
        """Create a partition. Raises: ValueError for a type that flinknet does not support."""
        if partition_type not in MADE:
            raise ValueError(refusal_of(partition_type))

        is_blocking = partition_type.is_blocking_or_blocking_persistent

        def supply_pool() -> LocalBufferPool:
            size = partition_pool_size(
                subpartitions,
                self.exclusive_buffers,
                self.floating_buffers,
                self.sort_shuffle_min_buffers,
                is_bounded=partition_type.is_bounded,
                is_blocking=is_blocking,
            )
            has_overdraft = partition_type.has_overdraft
            return self.memory.create_buffer_pool(
                size.required_buffers,
                size.max_buffers,
                channels=subpartitions,
                max_buffers_per_channel=self.max_buffers_per_channel,
                max_overdraft_buffers=self.max_overdraft_buffers if has_overdraft else 0,
            )

        create_data = self.storage.create_data
        partition: ResultPartition
        if is_blocking:
            data, index = (create_data(partition_id, name) for name in ("data", "index"))
            partition = SortMergeResultPartition(
                partition_id,
                subpartitions,
                PartitionedFile(subpartitions, data, index),
                supply_pool,
                self.storage.read_pool,
                codec=self.codec,
                first_subpartition=partition_id.partition_id.partition_number % subpartitions,
            )
        else:
            partition = PipelinedResultPartition(
                partition_id,
                subpartitions,
                supply_pool,
                exclusive_buffers=self.exclusive_buffers,
                partition_type=partition_type,
            )
            for subpartition in partition.subpartitions:
                subpartition.buffer_size_bytes = self.starting_buffer_bytes
        partition.manager, partition.target_key_groups = self.manager, target_key_groups
        return partition
