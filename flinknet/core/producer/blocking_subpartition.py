# mypyc
"""Base of the subpartitions of both kinds of blocking partitions: they are complete before they are
read, any number of times.
"""

from __future__ import annotations

from flinknet.core.buffers import BufferSlice
from flinknet.core.channel_types import BufferAvailabilityListener, ResultSubpartitionView

from .subpartition import UNLIMITED_BYTES


class BlockingSubpartitionReader:
    """One pass over a blocking subpartition, from its beginning.

    Attributes:
        buffers_in_backlog: data buffers not yet polled.
        failure_cause: why it failed.
    """

    has_priority_events = False
    queued_bytes = 0

    def __init__(self, subpartition: BlockingSubpartition) -> None:
        self.index = subpartition.index
        self.is_acknowledged = True  # like the buffer size, without effect once all is written
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
        """Raises: RuntimeError, since nothing ever blocks."""
        raise RuntimeError("Should be blocked by checkpoint.")


class BlockingSubpartition:
    """The data of one consumer channel, and its readers.

    Attributes:
        data_buffers: data buffers written so far.
    """

    is_acknowledged = True
    """A blocking producer does not wait for its consumers."""
    is_data_available = False
    """Nothing can be read except through a view."""

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
        """Number of buffers and events in memory."""
        return 0

    @property
    def buffers_in_backlog(self) -> int:
        """Number of data buffers, including the open one."""
        return self.data_buffers

    @property
    def queued_bytes(self) -> int:
        """Bytes of data in memory."""
        return 0

    @property
    def has_view(self) -> bool:
        """Whether a reader is attached."""
        return bool(self._readers)

    @property
    def is_consumed(self) -> bool:
        """Whether a reader reached the end, and none is attached."""
        return self.is_released or (self._was_read and not self._readers)

    @property
    def buffers_out(self) -> int:
        """Number of data buffers written."""
        return self.data_buffers

    def create_read_view(self, listener: BufferAvailabilityListener) -> ResultSubpartitionView:
        """Create a reader that starts at the beginning.

        Raises: RuntimeError before the end, and after the release.
        """
        raise NotImplementedError

    def release(self) -> None:
        """Admit no more readers."""
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
        """Remove a released reader."""
        if reader in self._readers:
            self._readers.remove(reader)
        self._was_read = self._was_read or is_at_end
