"""ResultPartitionManager: finds the partition a consumer asks for, and lets early requests wait.

A request that comes before its partition is registered waits silently; when it waited longer than
the time-out it is refused with PartitionNotFound (Flink: ResultPartitionManager with
PartitionRequestListener).
"""

from __future__ import annotations

from collections.abc import Callable

from flinknet.core.wire.ids import ResultPartitionID

from .result_partition import PipelinedResultPartition

Found = Callable[[PipelinedResultPartition], None]
"""Called when the partition that a request waits for is registered."""


class ResultPartitionManager:
    """All partitions of one TaskManager, by id."""

    def __init__(self) -> None:
        self._partitions: dict[ResultPartitionID, PipelinedResultPartition] = {}
        self._waiting: dict[ResultPartitionID, dict[bytes, Found]] = {}

    def register(self, partition: PipelinedResultPartition) -> None:
        """Make a partition known and serve who waits for it."""
        if partition.partition_id in self._partitions:
            raise RuntimeError(f"partition {partition.partition_id} is already registered")
        self._partitions[partition.partition_id] = partition
        for found in self._waiting.pop(partition.partition_id, {}).values():
            found(partition)

    def find(self, partition_id: ResultPartitionID) -> PipelinedResultPartition | None:
        """The partition, None if it is not registered (yet)."""
        return self._partitions.get(partition_id)

    def wait_for(self, partition_id: ResultPartitionID, receiver_id: bytes, found: Found) -> None:
        """Call `found` when the partition is registered; `receiver_id` names the request."""
        self._waiting.setdefault(partition_id, {})[receiver_id] = found

    def stop_waiting(self, partition_id: ResultPartitionID, receiver_id: bytes) -> bool:
        """Forget a request. Returns: whether it was still waiting."""
        waiting = self._waiting.get(partition_id, {})
        found = waiting.pop(receiver_id, None)
        if not waiting:
            self._waiting.pop(partition_id, None)
        return found is not None

    def release(self, partition: PipelinedResultPartition) -> None:
        """Drop a partition: consumed by all, failed, or cancelled."""
        self._partitions.pop(partition.partition_id, None)
        partition.release()
