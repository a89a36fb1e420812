# mypyc
"""PipelinedApproximateSubpartition: a subpartition that may be read anew, with a loss.

When the view of a failed reader is gone, a new one begins where the old one stood: at the next
record that begins in a buffer. What the old one had polled, and the rest of a record it had polled
in part, are lost.
"""

from __future__ import annotations

from flinknet.core.buffers import BufferSlice, DataType
from flinknet.core.channel_types import BufferAvailabilityListener

from .subpartition import PipelinedSubpartition


class PipelinedApproximateSubpartition(PipelinedSubpartition):
    """Queue of buffers and events for one reader after the other (Flink:
    PipelinedApproximateSubpartition).
    """

    __slots__ = ("_begins_in_a_record", "_is_read_to_the_end", "_view")
    takes_prefilled = False  # who reads anew looks into consumers

    def __init__(self, index: int, exclusive_buffers: int) -> None:
        super().__init__(index, exclusive_buffers)
        self._view: PipelinedApproximateSubpartitionView | None = None
        self._begins_in_a_record = False
        self._is_read_to_the_end = False

    @property
    def is_consumed(self) -> bool:
        """Whether a reader came to the end and is gone."""
        return self.is_released or (self._is_read_to_the_end and self._view is None)

    def create_read_view(
        self, listener: BufferAvailabilityListener
    ) -> PipelinedApproximateSubpartitionView:
        """Attach a reader in the place of the last one; sequence numbers begin at 0 again.

        Raises: RuntimeError if the subpartition is released.
        """
        if self.is_released:
            raise RuntimeError(f"subpartition {self.index} is released")
        if self._view is not None:
            self._view.release()
        self._listener = listener
        self._view = PipelinedApproximateSubpartitionView(self)
        return self._view

    def release_view(self) -> None:
        """The reader is gone, which does not count as having consumed the subpartition."""
        self._view = None
        self._listener = None
        self._sequence_number = 0
        self.is_blocked = False
        self._begins_in_a_record = True

    def poll(self) -> BufferSlice | None:
        """The next buffer, slice or event; after a change of readers, beginning with a record."""
        if self._begins_in_a_record:
            self._skip_partial_record()
        piece = super().poll()
        if piece is not None and piece.data_type == DataType.END_OF_PARTITION:
            self._is_read_to_the_end = True
        return piece

    def poll_run(self, buffers_max: int, bytes_max: int) -> list[BufferSlice]:
        """The next ones; after a change of readers, beginning with a record."""
        if self._begins_in_a_record:
            self._skip_partial_record()
        return super().poll_run(buffers_max, bytes_max)

    def _skip_partial_record(self) -> None:
        """Drop the bytes that continue a record which the last reader has the beginning of.

        A finished buffer of nothing else is dropped as a whole, and the next one is looked at.
        """
        queue = self._queue
        while queue:
            head = queue[0]
            skipped = head.partial_record_length
            if isinstance(head, BufferSlice):
                if skipped < head.size_bytes:
                    head.view = head.view[skipped:]
                    head.size_bytes -= skipped
                    break
            else:
                if not head.is_buffer or head.read_bytes:
                    break  # what was read of an open buffer ended with a record
                head.look()
                if not head.is_finished or skipped < head.visible_bytes:
                    head.read_bytes = skipped
                    break
            queue.popleft().close()
            self.buffers_in_backlog -= 1
        else:
            return
        self._begins_in_a_record = False


class PipelinedApproximateSubpartitionView:
    """One reader, until it is released (Flink: PipelinedApproximateSubpartitionView)."""

    failure_cause: str | None = None
    has_priority_events = False
    """One that waits is polled in its turn."""

    __slots__ = ("_subpartition", "is_released")

    def __init__(self, subpartition: PipelinedApproximateSubpartition) -> None:
        self._subpartition = subpartition
        self.is_released = False

    @property
    def index(self) -> int:
        """Number of the subpartition."""
        return self._subpartition.index

    @property
    def buffer_size_bytes(self) -> int:
        """What the consumer wishes the size of buffers to be."""
        return self._subpartition.buffer_size_bytes

    @buffer_size_bytes.setter
    def buffer_size_bytes(self, size_bytes: int) -> None:
        if not self.is_released:
            self._subpartition.buffer_size_bytes = size_bytes

    @property
    def is_acknowledged(self) -> bool:
        """Whether the consumer has processed all records."""
        return self._subpartition.is_acknowledged

    @is_acknowledged.setter
    def is_acknowledged(self, is_acknowledged: bool) -> None:
        if not self.is_released:
            self._subpartition.is_acknowledged = is_acknowledged

    @property
    def queued_elements(self) -> int:
        """Buffers and events that wait to be read."""
        return self._subpartition.queued_elements

    @property
    def queued_bytes(self) -> int:
        """Bytes of the data that waits in memory."""
        return self._subpartition.queued_bytes

    @property
    def buffers_in_backlog(self) -> int:
        """Data buffers among them."""
        return self._subpartition.buffers_in_backlog

    @property
    def is_data_available(self) -> bool:
        """Whether a reader with credit may poll."""
        return not self.is_released and self._subpartition.is_data_available

    @property
    def is_event_available(self) -> bool:
        """Whether the next element is an event, which needs no credit."""
        return not self.is_released and self._subpartition.is_event_available

    def poll(self) -> BufferSlice | None:
        """The next buffer, slice or event; None if nothing may leave now."""
        return None if self.is_released else self._subpartition.poll()

    def poll_run(self, buffers_max: int, bytes_max: int) -> list[BufferSlice]:
        """The next ones; none if nothing may leave now."""
        return [] if self.is_released else self._subpartition.poll_run(buffers_max, bytes_max)

    def backlog(self) -> int:
        """Data buffers that could be sent now."""
        return 0 if self.is_released else self._subpartition.backlog()

    def resume_consumption(self) -> None:
        """Go on after a blocking event."""
        self._subpartition.resume_consumption()

    def release(self) -> None:
        """The reader is gone; what is queued stays for the next one."""
        if not self.is_released:
            self.is_released = True
            self._subpartition.release_view()
