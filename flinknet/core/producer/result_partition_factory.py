"""ResultPartitionFactory: partitions of every type, from one TaskManager's settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flinknet.core.buffers import LocalBufferPool, NetworkBufferPool
from flinknet.core.buffers.pool_sizes import output_pool_size
from flinknet.core.wire.compression import CompressionCodec
from flinknet.core.wire.ids import ResultPartitionID

from .bounded_blocking import BoundedBlockingResultPartition
from .bounded_data import BoundedData, MemoryBoundedData
from .key_groups import DEFAULT_MAX_PARALLELISM
from .partition_manager import ResultPartitionManager
from .partition_type import MADE, ResultPartitionType
from .result_partition import BufferWritingResultPartition, PipelinedResultPartition
from .subpartition import UNLIMITED_BYTES


def in_memory(_partition_id: ResultPartitionID, _subpartition: int) -> BoundedData:
    """Where blocking partitions keep their bytes if nothing else is said."""
    return MemoryBoundedData()


@dataclass(frozen=True, slots=True)
class ResultPartitionFactory:
    """Makes the partitions of a task, each without buffers and unknown until its `setup` (Flink:
    ResultPartitionFactory, of the shuffle environment).

    Attributes:
        codec: of blocking partitions; pipelined ones are never compressed.
        create_data: where a subpartition of a blocking partition keeps its bytes.
        starting_buffer_bytes: size of the buffers of pipelined partitions until a consumer wishes
            for another; unlimited (by segments only) without buffer debloating.
    """

    memory: NetworkBufferPool
    manager: ResultPartitionManager
    exclusive_buffers: int
    floating_buffers: int
    max_buffers_per_channel: int
    max_overdraft_buffers: int
    codec: CompressionCodec = CompressionCodec.NONE
    create_data: Callable[[ResultPartitionID, int], BoundedData] = in_memory
    starting_buffer_bytes: int = UNLIMITED_BYTES

    def create(
        self,
        partition_id: ResultPartitionID,
        partition_type: ResultPartitionType,
        subpartitions: int,
        *,
        target_key_groups: int = DEFAULT_MAX_PARALLELISM,
    ) -> BufferWritingResultPartition:
        """A partition; approximate ones have approximate subpartitions, blocking ones blocking.

        Raises: ValueError for a type that flinknet does not make.
        """
        if partition_type not in MADE:
            raise ValueError(f"flinknet makes no partitions of type {partition_type.label}")

        def supply_pool() -> LocalBufferPool:
            return self._create_pool(partition_type, subpartitions)

        partition: BufferWritingResultPartition
        if partition_type is ResultPartitionType.BLOCKING:
            partition = BoundedBlockingResultPartition(
                partition_id,
                [self.create_data(partition_id, index) for index in range(subpartitions)],
                supply_pool,
                codec=self.codec,
                target_key_groups=target_key_groups,
            )
        else:
            partition = PipelinedResultPartition(
                partition_id,
                subpartitions,
                supply_pool,
                exclusive_buffers=self.exclusive_buffers,
                partition_type=partition_type,
                target_key_groups=target_key_groups,
            )
            for subpartition in partition.subpartitions:
                subpartition.buffer_size_bytes = self.starting_buffer_bytes
        partition.manager = self.manager
        return partition

    def _create_pool(
        self, partition_type: ResultPartitionType, subpartitions: int
    ) -> LocalBufferPool:
        size = output_pool_size(
            subpartitions,
            self.exclusive_buffers,
            self.floating_buffers,
            is_bounded=partition_type.is_bounded,
        )
        return self.memory.create_buffer_pool(
            size.required_buffers,
            size.max_buffers,
            channels=subpartitions,
            max_buffers_per_channel=self.max_buffers_per_channel,
            max_overdraft_buffers=(
                self.max_overdraft_buffers if partition_type.has_overdraft else 0
            ),
        )
