# mypyc
"""What the two ends of a channel have in common: a subpartition, as who reads it sees it.

Producers implement the views and consumers in the same TaskManager read them; neither imports the
other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from flinknet.core.buffers import BufferSlice, LocalBufferPool
from flinknet.core.wire.ids import ResultPartitionID

BufferAvailabilityListener = Callable[[], None]
"""Who reads a subpartition, over the network or in the same TaskManager; called on the edge from
"nothing to read" to "something to read": a finished buffer, an event, or flushed bytes.
"""


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
    def has_priority_events(self) -> bool:
        """Whether the next element is a priority event."""

    @property
    def queued_elements(self) -> int:
        """Buffers and events that wait to be read."""

    @property
    def queued_bytes(self) -> int:
        """Bytes of the data that waits in memory."""

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


class PipelinedSubpartitionView:
    """One subpartition as a reader in the same TaskManager has it (Flink:
    PipelinedSubpartitionView).

    No credit and no connection: the reader polls, and recycling what it got gives the segment back
    to the producer's pool.

    Attributes:
        reading: of the subpartition.
        pool: the producer's.
        producer_failure: why the producer failed; None if it did not.
        publish_task_event: gives an event to the producer; False while that is not there.
    """

    __slots__ = ("pool", "producer_failure", "publish_task_event", "reading")

    def __init__(
        self,
        reading: ResultSubpartitionView,
        pool: LocalBufferPool,
        producer_failure: Callable[[], str | None],
        publish_task_event: Callable[[Any], bool],
    ) -> None:
        self.publish_task_event = publish_task_event
        self.reading = reading
        self.pool = pool
        self.producer_failure = producer_failure

    @property
    def failure_cause(self) -> str | None:
        """Why its producer or its reading failed; None if neither did."""
        return self.producer_failure() or self.reading.failure_cause


ResultPartitionProvider = Callable[
    [ResultPartitionID, int, BufferAvailabilityListener], PipelinedSubpartitionView | None
]
"""Creates a view of a subpartition of this TaskManager; None if its partition is not registered
(yet): producer.ResultPartitionManager.create_subpartition_view.
"""
