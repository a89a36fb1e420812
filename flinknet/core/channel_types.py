# mypyc
"""Views of a subpartition: producers implement them and consumers in the same TaskManager read
them; neither imports the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from flinknet.core.buffers import BufferSlice, LocalBufferPool
from flinknet.core.wire.ids import ResultPartitionID

BufferAvailabilityListener = Callable[[], None]
"""Listener of a subpartition's reader, over the network or in the same TaskManager; called when the
subpartition becomes readable: with a finished buffer, an event, or flushed bytes.
"""


class ResultSubpartitionView(Protocol):
    """A view of a subpartition for one reader (Flink: ResultSubpartitionView)."""

    @property
    def index(self) -> int: ...

    @property
    def is_data_available(self) -> bool:
        """Whether a reader with credit may poll."""

    @property
    def is_event_available(self) -> bool:
        """Whether the next element is an event, which needs no credit."""

    @property
    def is_released(self) -> bool: ...

    @property
    def failure_cause(self) -> str | None:
        """Why reading failed, other than by a failure of the producer; None if it did not."""

    @property
    def has_priority_events(self) -> bool:
        """Whether the next element is a priority event."""

    @property
    def queued_elements(self) -> int: ...

    @property
    def queued_bytes(self) -> int: ...

    @property
    def buffers_in_backlog(self) -> int:
        """Number of queued data buffers."""

    def poll(self) -> BufferSlice | None:
        """The next buffer, slice of an open buffer, or event; None if nothing can leave now."""

    def poll_run(self, buffers_max: int, bytes_max: int) -> list[BufferSlice]:
        """The next data buffers, at most `buffers_max` and none after `bytes_max` bytes, or one
        event. May return fewer, but at least one if anything can leave now.
        """

    def backlog(self) -> int:
        """Number of data buffers that could be sent now."""

    def acknowledge_all_data_processed(self) -> None: ...

    def notify_new_buffer_size(self, size_bytes: int) -> None:
        """Set the buffer size that the consumer wants."""

    def resume_consumption(self) -> None:
        """Continue after a blocking event. Raises: RuntimeError if nothing blocks."""

    def release(self) -> None: ...


class PipelinedSubpartitionView:
    """One subpartition, for a reader in the same TaskManager (Flink: PipelinedSubpartitionView),
    which polls without credit; recycling returns a segment to the producer's pool.

    Args:
        producer_failure: returns why the producer failed; None if it did not.
        publish_task_event: sends an event to the producer; returns False until that exists.
    """

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
        return self.producer_failure() or self.reading.failure_cause


ResultPartitionProvider = Callable[
    [ResultPartitionID, int, BufferAvailabilityListener], PipelinedSubpartitionView | None
]
"""Creates a view of a subpartition of this TaskManager; None if its partition is not registered
(yet): producer.ResultPartitionManager.create_subpartition_view.
"""
