# mypyc
"""PipelinedApproximateSubpartition: a subpartition that can be read again after a failure, with
loss.

When the view of a failed reader is released, a new one continues at the next record that begins in
a buffer. What the failed reader had polled is lost, and so is the rest of a partly polled record.
"""

from __future__ import annotations

from flinknet.core.buffers import BufferSlice, DataType
from flinknet.core.channel_types import BufferAvailabilityListener

from .subpartition import PipelinedSubpartition


class PipelinedApproximateSubpartition(PipelinedSubpartition):
    """Queue for one reader after another (Flink: PipelinedApproximateSubpartition)."""

    takes_prefilled = False  # a new reader inspects consumers

    def __init__(self, index: int, exclusive_buffers: int) -> None:
        super().__init__(index, exclusive_buffers)
        self._view: PipelinedApproximateSubpartitionView | None = None
        self._begins_in_a_record = False
        self._is_read_to_the_end = False

    @property
    def is_consumed(self) -> bool:
        """Whether a reader reached the end and was released."""
        return self.is_released or (self._is_read_to_the_end and self._view is None)

    def create_read_view(
        self, listener: BufferAvailabilityListener
    ) -> PipelinedApproximateSubpartitionView:
        """Attach a reader in place of the previous one; sequence numbers start again at 0. Raises:
        RuntimeError if the subpartition is released.
        """
        if self.is_released:
            raise RuntimeError(f"subpartition {self.index} is released")
        if self._view is not None:
            self._view.release()
        self._listener = listener
        self._view = PipelinedApproximateSubpartitionView(self)
        return self._view

    def release_view(self) -> None:
        """Detach the reader, which does not count as having consumed the subpartition."""
        self._view = None
        self._listener = None
        self._sequence_number = 0
        self.is_blocked = False
        self._begins_in_a_record = True

    def poll(self) -> BufferSlice | None:
        if self._begins_in_a_record:
            self._skip_partial_record()
        piece = super().poll()
        if piece is not None and piece.data_type == DataType.END_OF_PARTITION:
            self._is_read_to_the_end = True
        return piece

    def poll_run(self, buffers_max: int, bytes_max: int) -> list[BufferSlice]:
        if self._begins_in_a_record:
            self._skip_partial_record()
        return super().poll_run(buffers_max, bytes_max)

    def _skip_partial_record(self) -> None:
        """Skip bytes that continue a record of the previous reader, and buffers without others."""
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
                    break  # the read part of an open buffer ended with a record
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
    """A view of one reader, until it is released (Flink: PipelinedApproximateSubpartitionView)."""

    failure_cause: str | None = None
    has_priority_events = False
    """Priority events are polled in turn."""

    def __init__(self, subpartition: PipelinedApproximateSubpartition) -> None:
        self.index = subpartition.index
        self.is_released = False
        self._subpartition = subpartition

    @property
    def queued_elements(self) -> int:
        return self._subpartition.queued_elements

    @property
    def queued_bytes(self) -> int:
        return self._subpartition.queued_bytes

    @property
    def buffers_in_backlog(self) -> int:
        return self._subpartition.buffers_in_backlog

    @property
    def is_data_available(self) -> bool:
        return not self.is_released and self._subpartition.is_data_available

    @property
    def is_event_available(self) -> bool:
        return not self.is_released and self._subpartition.is_event_available

    def poll(self) -> BufferSlice | None:
        return None if self.is_released else self._subpartition.poll()

    def poll_run(self, buffers_max: int, bytes_max: int) -> list[BufferSlice]:
        return [] if self.is_released else self._subpartition.poll_run(buffers_max, bytes_max)

    def backlog(self) -> int:
        return 0 if self.is_released else self._subpartition.backlog()

    def acknowledge_all_data_processed(self) -> None:
        if not self.is_released:
            self._subpartition.is_acknowledged = True

    def notify_new_buffer_size(self, size_bytes: int) -> None:
        if not self.is_released:
            self._subpartition.buffer_size_bytes = size_bytes

    def resume_consumption(self) -> None:
        self._subpartition.resume_consumption()

    def release(self) -> None:
        """Release the view: the reader is gone. What is queued stays for the next reader."""
        if not self.is_released:
            self.is_released = True
            self._subpartition.release_view()
