"""ResultPartitionManager: finds the partition a consumer asks for, and lets early requests wait.

A request that comes before its partition is registered waits silently. It is refused when it waited
too long, which is for its connection to tell, or when the partition will never come (Flink:
ResultPartitionManager with PartitionRequestListener).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flinknet.core.channel_types import BufferAvailabilityListener, PipelinedSubpartitionView
from flinknet.core.wire.ids import ResultPartitionID

from .result_partition import ResultPartition


@dataclass(frozen=True, slots=True)
class PartitionRequestListener:
    """A request that waits: `found` is called when its partition is registered, `refused` when that
    will not happen any more.
    """

    found: Callable[[ResultPartition], None]
    refused: Callable[[], None]


class ResultPartitionManager:
    """All partitions of one TaskManager, by id."""

    def __init__(self) -> None:
        self._partitions: dict[ResultPartitionID, ResultPartition] = {}
        self._waiting: dict[ResultPartitionID, dict[bytes, PartitionRequestListener]] = {}
        self._is_shut_down = False

    @property
    def partitions(self) -> tuple[ResultPartition, ...]:
        """What is registered now."""
        return tuple(self._partitions.values())

    def register(self, partition: ResultPartition) -> None:
        """Make a partition known and serve who waits for it.

        Raises: RuntimeError when it is known already, or after `shut_down`.
        """
        if self._is_shut_down:
            raise RuntimeError("the manager of the result partitions is shut down")
        if partition.partition_id in self._partitions:
            raise RuntimeError(f"partition {partition.partition_id} is already registered")
        self._partitions[partition.partition_id] = partition
        partition.manager = self
        for listener in self._waiting.pop(partition.partition_id, {}).values():
            listener.found(partition)

    def find(self, partition_id: ResultPartitionID) -> ResultPartition | None:
        """The partition, None if it is not registered (yet)."""
        return self._partitions.get(partition_id)

    def create_subpartition_view(
        self, partition_id: ResultPartitionID, index: int, listener: BufferAvailabilityListener
    ) -> PipelinedSubpartitionView | None:
        """A view of a subpartition for a reader in this TaskManager; None if the partition is not
        registered (yet).

        Raises: IndexError, RuntimeError if the subpartition is read already.
        """
        partition = self._partitions.get(partition_id)
        if partition is None:
            return None
        return PipelinedSubpartitionView(
            partition.create_read_view(index, listener),
            partition.pool,
            lambda: partition.failure_cause,
        )

    def wait_for(
        self,
        partition_id: ResultPartitionID,
        receiver_id: bytes,
        listener: PartitionRequestListener,
    ) -> None:
        """Let a request wait until its partition is registered; `receiver_id` names the request.

        Raises: RuntimeError when that receiver waits already.
        """
        waiting = self._waiting.setdefault(partition_id, {})
        if receiver_id in waiting:
            raise RuntimeError(f"receiver {receiver_id.hex()} waits for {partition_id} already")
        waiting[receiver_id] = listener

    def stop_waiting(self, partition_id: ResultPartitionID, receiver_id: bytes) -> bool:
        """Forget a request. Returns: whether it was still waiting."""
        waiting = self._waiting.get(partition_id, {})
        listener = waiting.pop(receiver_id, None)
        if not waiting:
            self._waiting.pop(partition_id, None)
        return listener is not None

    def handle_consumed(self, partition: ResultPartition) -> None:
        """The last use of a partition has ended (Flink: onConsumedPartition).

        Raises: RuntimeError if a request still waits for it, which cannot be.
        """
        if partition.partition_id in self._waiting:
            raise RuntimeError(f"{partition.partition_id} is consumed, but a request waits for it")
        self.release(partition)

    def release(self, partition: ResultPartition) -> None:
        """Drop a partition: consumed by all, failed, cancelled, or given up by the scheduler. Who
        waits for it is refused.
        """
        self._partitions.pop(partition.partition_id, None)
        partition.release()
        self._refuse(partition.partition_id)

    def shut_down(self) -> None:
        """Release everything and refuse who waits; nothing can be registered any more."""
        self._is_shut_down = True
        for partition in list(self._partitions.values()):
            self.release(partition)
        for partition_id in list(self._waiting):
            self._refuse(partition_id)

    def _refuse(self, partition_id: ResultPartitionID) -> None:
        for listener in self._waiting.pop(partition_id, {}).values():
            listener.refused()
