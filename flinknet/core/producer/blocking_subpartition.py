# mypyc
"""What the subpartitions of both kinds of blocking partitions have in common: they are complete
before anybody reads, and may be read any number of times.
"""

from __future__ import annotations

from flinknet.core.buffers import BufferSlice
from flinknet.core.channel_types import BufferAvailabilityListener, ResultSubpartitionView

from .subpartition import UNLIMITED_BYTES


class BlockingSubpartitionReader:
    """One reading of a blocking subpartition, from its beginning.

    Attributes:
        buffers_in_backlog: data buffers that were not polled.
        failure_cause: why it cannot go on.
    """

    has_priority_events = False
    queued_bytes = 0

    def __init__(self, subpartition: BlockingSubpartition) -> None:
        self.index = subpartition.index
        self.is_acknowledged = True  # which means nothing where all is written, nor does the size
        self.buffer_size_bytes = UNLIMITED_BYTES
        self.buffers_in_backlog = 0
        self.is_released = False
        self.failure_cause: str | None = None
        self._subpartition = subpartition

    def poll(self) -> BufferSlice | None:
        """The next buffer or event; None if there is none."""
        raise NotImplementedError

    def backlog(self) -> int:
        """Data buffers that could be sent now."""
        return self.buffers_in_backlog

    def resume_consumption(self) -> None:
        """Raises: RuntimeError, for nothing ever blocks."""
        raise RuntimeError("Should be blocked by checkpoint.")


class BlockingSubpartition:
    """What there is for one consumer channel, and who reads it.

    Attributes:
        data_buffers: written so far.
    """

    is_acknowledged = True
    """A blocking producer does not wait for its consumers."""
    is_data_available = False
    """Nothing can be read without a view of one's own."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.buffer_size_bytes = UNLIMITED_BYTES
        self.is_finished = False
        self.is_released = False
        self.data_buffers = 0
        self._readers: list[BlockingSubpartitionReader] = []
        self._was_read = False

    @property
    def queued_elements(self) -> int:
        """Buffers and events that wait in memory."""
        return 0

    @property
    def buffers_in_backlog(self) -> int:
        """Data buffers that are there, the open one too."""
        return self.data_buffers

    @property
    def queued_bytes(self) -> int:
        """Bytes of data that wait in memory."""
        return 0

    @property
    def has_view(self) -> bool:
        """Whether a reader is attached."""
        return bool(self._readers)

    @property
    def is_consumed(self) -> bool:
        """Whether a reader came to the end, and none is there."""
        return self.is_released or (self._was_read and not self._readers)

    @property
    def buffers_out(self) -> int:
        """Data buffers that were written."""
        return self.data_buffers

    def create_read_view(self, listener: BufferAvailabilityListener) -> ResultSubpartitionView:
        """One more reader, from the beginning.

        Raises: RuntimeError before the end, and after the release.
        """
        raise NotImplementedError

    def release(self) -> None:
        """Nobody may begin to read any more."""
        self.is_released = True

    def check_readable(self) -> None:
        """Raises: RuntimeError before the end, and after the release."""
        if self.is_released:
            raise RuntimeError(f"subpartition {self.index} is released")
        if not self.is_finished:
            raise RuntimeError(
                f"subpartition {self.index} is not finished; a blocking one can be read only when"
                " it is complete"
            )

    def release_reader(self, reader: BlockingSubpartitionReader, *, is_at_end: bool) -> None:
        """A reader is gone."""
        if reader in self._readers:
            self._readers.remove(reader)
        self._was_read = self._was_read or is_at_end
