# mypyc
"""Bounded blocking partitions, which Flink has below
`taskmanager.network.sort-shuffle.min-parallelism` subpartitions, 2.x never.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flinknet.core.buffers import LocalBufferPool
from flinknet.core.probe import FlushReason
from flinknet.core.wire.compression import CompressionCodec
from flinknet.core.wire.ids import ResultPartitionID

from .bounded_data import BoundedData
from .bounded_subpartition import BoundedBlockingSubpartition
from .buffer_writing_partition import BufferWritingResultPartition
from .key_groups import DEFAULT_MAX_PARALLELISM
from .partition_type import ResultPartitionType

_FULL = int(FlushReason.FULL)


class BoundedBlockingResultPartition(BufferWritingResultPartition):
    """A partition that is read when it is complete, any number of times (Flink:
    BoundedBlockingResultPartition). Who scheduled it releases it.

    Args:
        data: where each subpartition keeps its bytes.
        codec: of its data buffers; one that does not get smaller stays as it is.
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
        """Payload of all data buffers before compression."""
        return sum(each.data_bytes for each in self._bounded)

    @property
    def stored_data_bytes(self) -> int:
        """Payload of all data buffers as it is stored, and sent."""
        return sum(each.stored_data_bytes for each in self._bounded)

    def flush(self, channel: int) -> None:
        """End the open buffers and write them."""
        self._finish_broadcast(_FULL)
        builder = self._builders[channel]
        if builder is not None:
            builder.finish(_FULL)
            builder.close()
            self._builders[channel] = None
        super().flush(channel)

    def flush_all(self) -> None:
        """End all open buffers and write them."""
        self._finish_broadcast(_FULL)
        self._finish_unicast(_FULL)
        super().flush_all()
