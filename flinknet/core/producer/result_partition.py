# mypyc
"""ResultPartition: the output of one subtask along one edge, and its life cycle;
ResultPartitionManager: finds the partition that a consumer requests, and lets early requests wait;
TaskEventHandler: takes events from a partition's readers to the task that writes it.
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

from .data_buffer import SerializedRecords
from .partition_type import ResultPartitionType
from .read_scheduler import SortMergeSubpartition
from .subpartition import PipelinedSubpartition

BROADCAST = -1
"""Channel number for all subpartitions, which then share one buffer: the last of the builders."""


ResultSubpartition = PipelinedSubpartition | SortMergeSubpartition
"""The part of a partition for one consumer channel (Flink: ResultSubpartition)."""

TaskEventListener = Callable[[OtherEvent], None]


class TaskEventHandler:
    """Listeners for events from one partition's consumers (Flink: TaskEventHandler, of a partition
    registered at the TaskEventDispatcher). An event without a listener is dropped silently.

    Differs from Flink in that a partition takes events until it is released, not only until its
    task ends.
    """

    def __init__(self) -> None:
        self._is_registered = False
        self._listeners: dict[str, list[TaskEventListener]] = {}

    def subscribe(self, class_name: str, listener: TaskEventListener) -> None:
        self._listeners.setdefault(class_name, []).append(listener)

    def register(self) -> None:
        """Accept events: the task that writes the partition exists (Flink: registerPartition)."""
        self._is_registered = True

    def publish(self, event: OtherEvent) -> bool:
        """Call the listeners. Returns: whether the task exists."""
        if not self._is_registered:
            return False
        for listener in self._listeners.get(event.class_name, ()):
            listener(event)
        return True


class ResultPartition:
    """Base of all partition types (Flink: ResultPartition), without buffers until `setup`."""

    def __init__(
        self,
        partition_id: ResultPartitionID,
        partition_type: ResultPartitionType,
        subpartitions: Sequence[ResultSubpartition],
        pool_supplier: Callable[[], LocalBufferPool],
    ) -> None:
        self.partition_id = partition_id
        self.partition_type = partition_type
        self.subpartitions = subpartitions
        self.target_key_groups = 0  # the factory says it, as the manager
        self.manager: ResultPartitionManager | None = None
        self.pool: LocalBufferPool = None  # type: ignore[assignment]  # until `setup`
        self._pool_supplier = pool_supplier
        self.is_finished = False
        self.is_closed = False
        self.is_released = False
        self.failure_cause: str | None = None
        self.task_events = TaskEventHandler()

    def setup(self) -> None:
        """Create the pool, and register at the manager if there is one. Raises:
        InsufficientBuffersError; RuntimeError if it is set up or registered already.
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
        """Attach a reader. Raises: IndexError; RuntimeError if it may not be read, or not now."""
        if not 0 <= index < len(self.subpartitions):
            raise IndexError(f"partition {self.partition_id} has no subpartition {index}")
        return self.subpartitions[index].create_read_view(listener)

    def emit(self, channel: int, batch: SerializedRecords, position: int = 0) -> int:
        """Write the bytes of `batch` from `position` on to one channel, or to all (BROADCAST).

        Returns: the position reached; less than len(batch.data) if no buffer is available. The rest
            must be emitted before anything else on this channel.
        """
        raise NotImplementedError

    def broadcast_event(
        self, event: Event, *, is_last: bool = False, is_priority: bool = False
    ) -> int:
        """Append an event to every subpartition, a priority event at the front. Returns: bytes of
        data that a priority event has overtaken, else 0.
        """
        raise NotImplementedError

    def flush(self, channel: int) -> None:
        """Make one channel's bytes readable, if the type is read before its end."""

    def flush_all(self) -> None:
        """Make all bytes readable, if the type is read before its end."""

    def holds_barrier(self, checkpoint_id: int) -> bool:
        """Whether the checkpoint's barrier is still queued anywhere and may time out."""
        return False

    def alignment_timeout(self, checkpoint_id: int) -> int:
        """Make the checkpoint's barrier unaligned where it is queued. Returns: bytes overtaken."""
        return 0

    @property
    def is_available(self) -> bool:
        """Whether a new record may be begun."""
        return self.pool.is_available

    @property
    def data_bytes(self) -> int:
        """Bytes of payload in all data buffers of a blocking partition, before compression;
        broadcast data of a sorting one counts once.
        """
        return sum([each.data_bytes for each in self._blocking])

    @property
    def stored_data_bytes(self) -> int:
        """Bytes of payload in all data buffers of a blocking partition, as stored and sent."""
        return sum([each.stored_data_bytes for each in self._blocking])

    @property
    def _blocking(self) -> list[SortMergeSubpartition]:
        return [each for each in self.subpartitions if isinstance(each, SortMergeSubpartition)]

    @property
    def is_all_acknowledged(self) -> bool:
        return all(subpartition.is_acknowledged for subpartition in self.subpartitions)

    @property
    def is_consumed(self) -> bool:
        """Whether it is complete and all consumers are done with it."""
        return self.is_released or (
            self.is_closed and all(each.is_consumed for each in self.subpartitions)
        )

    def finish(self) -> None:
        """Append EndOfPartition to every subpartition, and close the partition, as Flink's task
        does.
        """
        self.broadcast_event(EndOfPartitionEvent(), is_last=True)
        self.is_finished = True
        self.close()

    def close(self) -> None:
        """The producer is done or has given up. Buffers return as they are recycled."""
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
        if self.is_released:
            return
        self.failure_cause = cause
        if self.manager is not None:
            self.manager.release(self)
        else:
            self.release()


class PartitionRequestListener(NamedTuple):
    """A waiting request: `found` is called at the registration, `refused` if there will be none."""

    found: Callable[[ResultPartition], None]
    refused: Callable[[], None]


class ResultPartitionManager:
    """All partitions of one TaskManager, by id (Flink: ResultPartitionManager).

    A request for an unregistered partition waits silently. It is refused if the partition will
    never come, or after a timeout, which its connection checks.
    """

    def __init__(self) -> None:
        self._partitions: dict[ResultPartitionID, ResultPartition] = {}
        self._waiting: dict[ResultPartitionID, dict[bytes, PartitionRequestListener]] = {}
        self._is_shut_down = False

    @property
    def partitions(self) -> tuple[ResultPartition, ...]:
        return tuple(self._partitions.values())

    def register(self, partition: ResultPartition) -> None:
        """Register a partition and serve the requests that wait for it. Raises: RuntimeError if it
        is registered already, or after `shut_down`.
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
        return self._partitions.get(partition_id)

    def create_subpartition_view(
        self, partition_id: ResultPartitionID, index: int, listener: BufferAvailabilityListener
    ) -> PipelinedSubpartitionView | None:
        """A view of a subpartition for a reader in this TaskManager; None if the partition is not
        registered (yet). Raises: IndexError, RuntimeError if the subpartition is read already.
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
        """Pass an event of a reader to the partition's listeners (Flink: TaskEventDispatcher).
        Returns: whether it is an event for a task, and the task exists.
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
        """Let a request of a receiver wait until its partition is registered."""
        self._waiting.setdefault(partition_id, {})[receiver_id] = listener

    def is_waited_for(self, partition_id: ResultPartitionID, receiver_id: bytes) -> bool:
        """Whether a request of this receiver waits for the partition, on any connection."""
        return receiver_id in self._waiting.get(partition_id, ())

    def stop_waiting(self, partition_id: ResultPartitionID, receiver_id: bytes) -> None:
        waiting = self._waiting.get(partition_id, {})
        waiting.pop(receiver_id, None)
        if not waiting:
            self._waiting.pop(partition_id, None)

    def handle_consumed(self, partition: ResultPartition) -> None:
        """Release a partition after its last use (Flink: onConsumedPartition)."""
        if partition.partition_id in self._waiting:
            raise RuntimeError(f"{partition.partition_id} is consumed, but a request waits for it")
        self.release(partition)

    def release(self, partition: ResultPartition) -> None:
        """Drop a partition, and refuse the requests that wait for it."""
        self._partitions.pop(partition.partition_id, None)
        partition.release()
        self._refuse(partition.partition_id)

    def shut_down(self) -> None:
        """Release all partitions and refuse all requests; nothing can be registered any more."""
        self._is_shut_down = True
        for partition in list(self._partitions.values()):
            self.release(partition)
        for partition_id in list(self._waiting):
            self._refuse(partition_id)

    def _refuse(self, partition_id: ResultPartitionID) -> None:
        for listener in self._waiting.pop(partition_id, {}).values():
            listener.refused()
