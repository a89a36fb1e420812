# mypyc
"""What all kinds of subpartitions have in common, towards their writer."""

from __future__ import annotations

from typing import Protocol

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
