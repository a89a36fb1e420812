"""What the two ends of a channel have in common: a subpartition, as who reads it sees it.

Producers implement the views and consumers in the same TaskManager read them; neither imports the
other.
"""

from __future__ import annotations

from typing import Protocol

from flinknet.core.buffers import BufferSlice
from flinknet.core.wire.ids import ResultPartitionID


class BufferAvailabilityListener(Protocol):
    """Who reads a subpartition, over the network or in the same TaskManager; told on the edge from
    "nothing to read" to "something to read".
    """

    def notify_data_available(self) -> None:
        """There is a finished buffer, an event, or flushed bytes."""


class ResultSubpartitionView(Protocol):
    """One reading of a subpartition (Flink: ResultSubpartitionView)."""

    buffer_size_bytes: int
    """What the consumer wishes the size of buffers to be."""
    is_acknowledged: bool
    """Whether the consumer has processed all records."""

    @property
    def index(self) -> int:
        """Number of the subpartition."""

    @property
    def is_data_available(self) -> bool:
        """Whether a reader with credit may poll."""

    @property
    def is_event_available(self) -> bool:
        """Whether the next element is an event, which needs no credit."""

    @property
    def is_released(self) -> bool:
        """Whether nothing will ever come any more."""

    @property
    def failure_cause(self) -> str | None:
        """Why this reading failed although its producer did not; None if it did not."""

    @property
    def queued_elements(self) -> int:
        """Buffers and events that wait to be read."""

    @property
    def buffers_in_backlog(self) -> int:
        """Data buffers among them."""

    def poll(self) -> BufferSlice | None:
        """The next buffer, slice of an open buffer, or event; None if nothing may leave now."""

    def poll_run(self, buffers_max: int, bytes_max: int) -> list[BufferSlice]:
        """The next ones: data buffers, at most `buffers_max` and none once `bytes_max` were given,
        or one event; one alone is always enough, and none if nothing may leave now.
        """

    def backlog(self) -> int:
        """Data buffers that could be sent now."""

    def resume_consumption(self) -> None:
        """Go on after a blocking event. Raises: RuntimeError if nothing blocks."""

    def release(self) -> None:
        """The reader is gone."""


class LocalSubpartitionView(Protocol):
    """A view with what a reader in the same TaskManager wants to know besides
    (producer.PipelinedSubpartitionView).
    """

    @property
    def failure_cause(self) -> str | None:
        """Why its producer failed; None if it did not."""

    @property
    def is_released(self) -> bool:
        """Whether nothing will ever come any more."""

    @property
    def is_available(self) -> bool:
        """Whether `poll` gives something now."""

    @property
    def has_priority_events(self) -> bool:
        """Whether the next element is a priority event."""

    @property
    def queued_buffers(self) -> int:
        """Data buffers that wait."""

    @property
    def queued_elements(self) -> int:
        """Data buffers and events that wait."""

    @property
    def queued_bytes(self) -> int:
        """Bytes in them."""

    @property
    def pool_buffers(self) -> tuple[int, int]:
        """Available buffers and size of the producer's pool."""

    def poll(self) -> BufferSlice | None:
        """The next buffer or event."""

    def resume_consumption(self) -> None:
        """Go on after a blocking event."""

    def acknowledge_all_records_processed(self) -> None:
        """The end of data was read."""

    def set_buffer_size(self, size_bytes: int) -> None:
        """Wish for a size of the next buffers."""

    def release(self) -> None:
        """The reader is done."""


class ResultPartitionProvider(Protocol):
    """The partitions of this TaskManager (producer.ResultPartitionManager)."""

    def create_subpartition_view(
        self, partition_id: ResultPartitionID, index: int, listener: BufferAvailabilityListener
    ) -> LocalSubpartitionView | None:
        """A view of a subpartition; None if the partition is not registered (yet)."""
