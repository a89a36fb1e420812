# mypyc
"""PipelinedSubpartitionView: one subpartition as a reader in the same TaskManager has it.

No credit and no connection: the reader polls, and recycling what it got gives the segment back to
the producer's pool.
"""

from __future__ import annotations

from flinknet.core.buffers import BufferSlice
from flinknet.core.channel_types import BufferAvailabilityListener

from .result_partition import ResultPartition
from .subpartition import PipelinedSubpartition


class PipelinedSubpartitionView:
    """Reads a subpartition directly (Flink: PipelinedSubpartitionView)."""

    __slots__ = ("_subpartition", "partition")

    def __init__(
        self,
        partition: ResultPartition,
        index: int,
        listener: BufferAvailabilityListener,
    ) -> None:
        if not 0 <= index < len(partition.subpartitions):
            raise IndexError(f"partition {partition.partition_id} has no subpartition {index}")
        self.partition = partition
        self._subpartition = partition.subpartitions[index].create_read_view(listener)

    @property
    def failure_cause(self) -> str | None:
        """Why its producer or its reading failed; None if neither did."""
        return self.partition.failure_cause or self._subpartition.failure_cause

    @property
    def is_released(self) -> bool:
        """Whether nothing will ever come any more, because the queue was dropped."""
        return self._subpartition.is_released

    @property
    def is_available(self) -> bool:
        """Whether `poll` gives something now; local readers need no credit."""
        return self._subpartition.is_data_available or self._subpartition.is_event_available

    @property
    def has_priority_events(self) -> bool:
        """Whether the next element is a priority event; other kinds of subpartitions have none."""
        read = self._subpartition
        return isinstance(read, PipelinedSubpartition) and read.has_priority_events

    @property
    def queued_buffers(self) -> int:
        """Data buffers that wait in the queue."""
        return self._subpartition.buffers_in_backlog

    @property
    def queued_elements(self) -> int:
        """Data buffers and events that wait in the queue."""
        return self._subpartition.queued_elements

    @property
    def queued_bytes(self) -> int:
        """Bytes of the data that waits in memory."""
        return self.partition.subpartitions[self._subpartition.index].queued_bytes

    @property
    def pool_buffers(self) -> tuple[int, int]:
        """Available buffers and size of the producer's pool."""
        pool = self.partition.pool
        return pool.available_buffers, pool.size_buffers

    def poll(self) -> BufferSlice | None:
        """The next buffer or event; None if nothing may leave now."""
        return self._subpartition.poll()

    def resume_consumption(self) -> None:
        """Go on after a blocking event."""
        self._subpartition.resume_consumption()

    def acknowledge_all_records_processed(self) -> None:
        """Tell the producer that its end of data was read."""
        self._subpartition.is_acknowledged = True

    def set_buffer_size(self, size_bytes: int) -> None:
        """How large the consumer wishes the next buffers to be."""
        self._subpartition.buffer_size_bytes = size_bytes

    def release(self) -> None:
        """The reader is done."""
        self._subpartition.release()
