# mypyc
"""ResultPartition: what one subtask produces on one edge, and how long it lives; and
ResultPartitionManager: finds the partition a consumer asks for, and lets early requests wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from flinknet.core.buffers import LocalBufferPool
from flinknet.core.channel_types import (
    BufferAvailabilityListener,
    PipelinedSubpartitionView,
    ResultSubpartitionView,
)
from flinknet.core.wire.events import EndOfPartitionEvent, Event, OtherEvent
from flinknet.core.wire.ids import ResultPartitionID

from .blocking_subpartition import BlockingSubpartition
from .partition_type import ResultPartitionType
from .serialized_records import SerializedRecords
from .subpartition import PipelinedSubpartition
from .task_events import TaskEventHandler

BROADCAST = -1
"""Channel number that stands for all subpartitions sharing one buffer."""


ResultSubpartition = PipelinedSubpartition | BlockingSubpartition
"""What a partition has for one consumer channel (Flink: ResultSubpartition)."""


class ResultPartition:
    """The common part of all types: identity, pool and life cycle (Flink: ResultPartition).

    Created without buffers: `setup` creates the pool.
    """

    def __init__(
        self,
        partition_id: ResultPartitionID,
        partition_type: ResultPartitionType,
        subpartitions: Sequence[ResultSubpartition],
        pool_supplier: Callable[[], LocalBufferPool],
        *,
        target_key_groups: int,
    ) -> None:
        self.partition_id = partition_id
        self.partition_type = partition_type
        self.subpartitions = subpartitions
        self.target_key_groups = target_key_groups
        self.manager: ResultPartitionManager | None = None
        self.pool: LocalBufferPool = None  # type: ignore[assignment]  # until `setup`
        self._pool_supplier = pool_supplier
        self.is_finished = False
        self.is_closed = False
        self.is_released = False
        self.failure_cause: str | None = None
        self.task_events = TaskEventHandler()

    def setup(self) -> None:
        """Create the pool, and register at the manager if there is one.

        Raises: InsufficientBuffersError; RuntimeError when it is set up or registered already.
        """
        if self.pool is not None:
            raise RuntimeError(f"partition {self.partition_id} is set up already")
        self.pool = self._pool_supplier()
        if self.manager is not None:
            try:
                self.manager.register(self)
            except RuntimeError:
                self.pool.destroy()
                raise

    def create_read_view(
        self, index: int, listener: BufferAvailabilityListener
    ) -> ResultSubpartitionView:
        """Attach a reader to a subpartition.

        Raises: IndexError; RuntimeError if it may not be read, or not now.
        """
        if not 0 <= index < len(self.subpartitions):
            raise IndexError(f"partition {self.partition_id} has no subpartition {index}")
        return self.subpartitions[index].create_read_view(listener)

    def emit(self, channel: int, batch: SerializedRecords, position: int = 0) -> int:
        """Write the bytes of `batch` from `position` on to one channel, or to all (BROADCAST).

        Returns: the position reached; less than len(batch.data) when no buffer may be had now. The
            rest must be emitted before anything else on this channel.
        """
        raise NotImplementedError

    def broadcast_event(
        self, event: Event, *, is_last: bool = False, is_priority: bool = False
    ) -> int:
        """Put an event behind the records of every subpartition. A priority event goes in front of
        them.

        Returns: bytes of data that a priority event has overtaken, else 0.
        """
        raise NotImplementedError

    def flush(self, channel: int) -> None:
        """Make one channel's bytes readable, if its type is read before its end."""

    def flush_all(self) -> None:
        """Make all bytes readable, if its type is read before its end."""

    def holds_barrier(self, checkpoint_id: int) -> bool:
        """Whether the checkpoint's barrier, which may time out, still waits in a subpartition."""
        return False

    def alignment_timeout(self, checkpoint_id: int) -> int:
        """Make the checkpoint's barrier unaligned wherever it still waits.

        Returns: bytes of data that it has overtaken.
        """
        return 0

    @property
    def is_available(self) -> bool:
        """Whether a new record may be begun."""
        return self.pool.is_available

    @property
    def data_bytes(self) -> int:
        """Of a blocking partition: payload of all data buffers before compression."""
        return 0

    @property
    def stored_data_bytes(self) -> int:
        """Of a blocking partition: that payload as it is stored, and sent."""
        return 0

    @property
    def is_all_acknowledged(self) -> bool:
        """Whether every consumer has acknowledged the end of data."""
        return all(subpartition.is_acknowledged for subpartition in self.subpartitions)

    @property
    def is_consumed(self) -> bool:
        """Whether it is complete and no consumer needs it any more."""
        return self.is_released or (
            self.is_closed and all(each.is_consumed for each in self.subpartitions)
        )

    def finish(self) -> None:
        """Append EndOfPartition to every subpartition; nothing can be emitted afterwards.

        The producer has no more use for the partition then: what Flink's task does next, it closes.
        """
        self.broadcast_event(EndOfPartitionEvent(), is_last=True)
        self.is_finished = True
        self.close()

    def close(self) -> None:
        """The producer is done, or gives up; buffers go back as they are recycled."""
        if self.is_closed:
            return
        self.is_closed = True
        if self.pool is not None:
            self.pool.destroy()

    def release(self) -> None:
        """Drop all data and the pool."""
        if self.is_released:
            return
        self.is_released = True
        self.close()
        for subpartition in self.subpartitions:
            subpartition.release()

    def fail(self, cause: str) -> None:
        """The producer failed: drop everything."""
        if self.is_released:
            return
        self.failure_cause = cause
        if self.manager is not None:
            self.manager.release(self)
        else:
            self.release()


class PartitionRequestListener(NamedTuple):
    """A request that waits: `found` is called when its partition is registered, `refused` when that
    will not happen any more.
    """

    found: Callable[[ResultPartition], None]
    refused: Callable[[], None]


class ResultPartitionManager:
    """All partitions of one TaskManager, by id (Flink: ResultPartitionManager).

    A request that comes before its partition is registered waits silently. It is refused when it
    waited too long, which is for its connection to tell, or when the partition will never come.
    """

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
            partition.task_events.publish,
        )

    def publish_task_event(self, partition_id: ResultPartitionID, event: Event) -> bool:
        """Give an event of a reader to who listens at the partition (Flink: TaskEventDispatcher).

        Returns: whether it is an event for a task, and that is there.
        """
        partition = self._partitions.get(partition_id)
        if partition is None or not isinstance(event, OtherEvent):
            return False
        return partition.task_events.publish(event)

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

    def is_waited_for(self, partition_id: ResultPartitionID, receiver_id: bytes) -> bool:
        """Whether a request of this receiver waits for a partition, over any connection."""
        return receiver_id in self._waiting.get(partition_id, ())

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
