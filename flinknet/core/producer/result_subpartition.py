# mypyc
"""What all kinds of subpartitions have in common, towards their writer and their readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flinknet.core.buffers import BufferConsumer, BufferSlice


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


class ResultSubpartition(Protocol):
    """What a partition has for one consumer channel (Flink: ResultSubpartition)."""

    buffer_size_bytes: int

    @property
    def index(self) -> int:
        """Number of the subpartition."""

    @property
    def is_acknowledged(self) -> bool:
        """Whether the producer may end as far as this consumer is concerned."""

    @property
    def is_released(self) -> bool:
        """Whether nothing can be read or added any more."""

    @property
    def is_consumed(self) -> bool:
        """Whether its consumers have read all they will."""

    @property
    def has_view(self) -> bool:
        """Whether a reader is, or was, attached."""

    @property
    def is_data_available(self) -> bool:
        """Whether something can be read now."""

    @property
    def queued_elements(self) -> int:
        """Buffers and events that wait in memory."""

    @property
    def buffers_in_backlog(self) -> int:
        """Data buffers that are there, the open one too."""

    @property
    def queued_bytes(self) -> int:
        """Bytes of data that wait in memory."""

    @property
    def buffers_out(self) -> int:
        """Buffers and events that have left for their reader, or for a file."""

    def create_read_view(self, listener: BufferAvailabilityListener) -> ResultSubpartitionView:
        """Attach a reader. Raises: RuntimeError if there may be none (now)."""

    def release(self) -> None:
        """Drop everything."""


class BufferSubpartition(ResultSubpartition, Protocol):
    """One that a partition writes buffers into."""

    @property
    def takes_ahead(self) -> bool:
        """Whether buffers may be queued that are laid ahead (BufferSlice.open_bytes)."""

    def add(self, consumer: BufferConsumer, *, is_last: bool = False) -> int:
        """Append a buffer or event. Returns: the buffer size wished for in bytes, -1 if it takes
        nothing more.
        """

    def add_complete(self, slices: Sequence[BufferSlice]) -> None:
        """Append whole buffers."""

    def flush(self) -> None:
        """Make what is there readable."""
