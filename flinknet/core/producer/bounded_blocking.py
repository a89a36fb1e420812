# mypyc
"""Bounded blocking partitions, used by Flink below
`taskmanager.network.sort-shuffle.min-parallelism` subpartitions; in 2.x never.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flinknet.core.buffers import LocalBufferPool
from flinknet.core.probe import FlushReason
from flinknet.core.wire.compression import CompressionCodec
from flinknet.core.wire.ids import ResultPartitionID

from .bounded_subpartition import BoundedBlockingSubpartition
from .buffer_writing_partition import BufferWritingResultPartition
from .key_groups import DEFAULT_MAX_PARALLELISM
from .partition_type import ResultPartitionType
from .stored_buffer import BoundedData

_FULL = int(FlushReason.FULL)


class BoundedBlockingResultPartition(BufferWritingResultPartition):
    """A partition that is read any number of times, once it is complete (Flink:
    BoundedBlockingResultPartition). The scheduler releases it.

    Args:
        data: data store of each subpartition.
        codec: of its data buffers; a buffer that does not shrink is stored uncompressed.
    """

    def __init__(
        self,
        partition_id: ResultPartitionID,
        data: Sequence[BoundedData],
        pool_supplier: Callable[[], LocalBufferPool],
        *,
        codec: CompressionCodec,
        target_key_groups: int = DEFAULT_MAX_PARALLELISM,
    ) -> None:
        bounded = [BoundedBlockingSubpartition(i, each, codec) for i, each in enumerate(data)]
        super().__init__(
            partition_id,
            ResultPartitionType.BLOCKING,
            bounded,
            pool_supplier,
            target_key_groups=target_key_groups,
        )
        self._bounded = bounded

    @property
    def data_bytes(self) -> int:
        """Payload of all data buffers before compression, in bytes."""
        return sum(each.data_bytes for each in self._bounded)

    @property
    def stored_data_bytes(self) -> int:
        """Payload of all data buffers as stored and sent, in bytes."""
        return sum(each.stored_data_bytes for each in self._bounded)

    def flush(self, channel: int) -> None:
        """Finish the channel's open buffers and write them."""
        self._finish_broadcast(_FULL)
        builder = self._builders[channel]
        if builder is not None:
            builder.finish(_FULL)
            builder.close()
            self._builders[channel] = None
        super().flush(channel)

    def flush_all(self) -> None:
        """Finish all open buffers and write them."""
        self._finish_broadcast(_FULL)
        self._finish_unicast(_FULL)
        super().flush_all()
