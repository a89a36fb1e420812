# mypyc
"""What all kinds of subpartitions have in common, towards their writer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flinknet.core.buffers import BufferConsumer, BufferSlice
from flinknet.core.channel_types import BufferAvailabilityListener, ResultSubpartitionView


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
