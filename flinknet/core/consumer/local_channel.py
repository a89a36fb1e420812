# mypyc
"""LocalInputChannel: a channel whose producer runs in the same TaskManager.

It reads the subpartition's view directly: no socket, no copy, no buffers of its own, no credit. So
a slow consumer exhausts the producer's pool and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal

from flinknet import errors
from flinknet.core.buffers import BufferSlice
from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.channel_types import PipelinedSubpartitionView, ResultPartitionProvider
from flinknet.core.probe import Probe, note_received, note_sent
from flinknet.core.wire.events import OtherEvent
from flinknet.core.wire.ids import InputChannelID, ResultPartitionID

from .input_channel import GateChannel
from .request_backoff import RequestBackoff, RequestBackoffPolicy


class LocalInputChannel(GateChannel):
    """Consumer's end of one channel without a connection (Flink: LocalInputChannel).

    A request for an unregistered partition is refused at once and repeated after 100, 200, 400 … ms
    up to a maximum; then the channel fails. Sequence numbers are those of the subpartition and are
    not checked. A buffer counts as sent and received at the instant it is read.

    Attributes:
        buffers_handed_out: number of data buffers that the gate has taken.
    """

    is_local: ClassVar[Literal[True]] = True

    def __init__(
        self,
        index: int,
        receiver_id: InputChannelID,
        partition_id: ResultPartitionID,
        subpartition: int,
        queue: Callable[[LocalInputChannel, bool], None],
        index_in_gate: int,
        create_view: ResultPartitionProvider,
        probe: Probe,
        *,
        backoff: RequestBackoffPolicy = RequestBackoffPolicy(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(index, receiver_id, partition_id, subpartition, queue, index_in_gate)
        self.buffers_handed_out = 0
        self._create_view = create_view
        self._record = probe.record
        self._view: PipelinedSubpartitionView | None = None
        self._backoff = RequestBackoff(replace(backoff, listener_timeout_ns=0))
        self._retry_at_ns: int | None = None

    def request_subpartition(self, *, now_ns: int) -> None:
        """Create the view, unless there is one.

        Raises:
            PartitionNotFoundError: the partition is not registered and no repetition is left.
            PartitionError: somebody else reads the subpartition, or has read it.
        """
        if self._view is not None or self.is_released:
            return
        self._retry_at_ns = None
        try:
            view = self._create_view(
                self.partition_id, self.subpartition, self.notify_data_available
            )
        except RuntimeError as error:
            raise errors.PartitionError(str(error)) from error
        if view is not None:
            self._view = view
            self._queue(self, False)
            return
        delay_ns = self._backoff.next_delay_ns()
        if delay_ns is None:
            raise errors.PartitionNotFoundError(f"Partition {self.partition_id} not found.")
        self._retry_at_ns = now_ns + delay_ns

    def next_deadline_ns(self) -> int | None:
        return self._retry_at_ns

    def handle_deadline(self, *, now_ns: int) -> None:
        if self._retry_at_ns is not None and now_ns >= self._retry_at_ns:
            try:
                self.request_subpartition(now_ns=now_ns)
            except errors.FlinknetError as error:
                self.fail(error)

    def notify_data_available(self) -> None:
        view = self._view
        self._queue(self, view is not None and view.reading.has_priority_events)

    def poll_view(self, now_ns: int) -> BufferSlice | None:
        """The next buffer or event of the subpartition; the caller recycles it. Raises:
        ProducerFailedError; PartitionError if the partition was released for another reason.
        """
        view = self._view
        if view is None:
            return None
        while (piece := view.reading.poll()) is not None and not piece.size_bytes:
            self._note(piece, view, now_ns)  # it has a sequence number
            piece.recycle()  # an empty buffer carries only a backlog, which is not used here
        if piece is None:
            if view.failure_cause is not None:
                raise errors.ProducerFailedError(
                    f"the producer of {self.partition_id} failed: {view.failure_cause}"
                )
            if view.reading.is_released:
                raise errors.PartitionError(
                    f"Consumed partition {self.partition_id} has been released."
                )
            return None
        self.buffers_handed_out += piece.data_type in IS_BUFFER
        self._note(piece, view, now_ns)
        return piece

    @property
    def buffers_in_use(self) -> int:
        return 0 if self._view is None else self._view.reading.buffers_in_backlog

    @property
    def queued_elements(self) -> int:
        return 0 if self._view is None else self._view.reading.queued_elements

    @property
    def queued_bytes(self) -> int:
        return 0 if self._view is None else self._view.reading.queued_bytes

    def resume_consumption(self) -> None:
        """Let the producer continue after a blocking event, and enqueue the channel if readable."""
        assert self._view is not None
        reading = self._view.reading
        reading.resume_consumption()
        if reading.is_data_available or reading.is_event_available:
            self._queue(self, False)

    def acknowledge_all_records_processed(self) -> None:
        assert self._view is not None
        self._view.reading.acknowledge_all_data_processed()

    def send_task_event(self, event: OtherEvent) -> bool:
        """Send an event to the producing task, unless it has ended; False until it exists."""
        if self.is_released:
            return True
        return self._view is not None and self._view.publish_task_event(event)

    def set_buffer_size(self, size_bytes: int, *, now_ns: int = 0) -> None:
        if self._view is not None:
            self._view.reading.notify_new_buffer_size(size_bytes)

    def release(self) -> None:
        if self.is_released:
            return
        self.is_released = True
        self._retry_at_ns = None
        self.received.clear()
        if self._view is not None:
            self._view.reading.release()

    def _note(self, piece: BufferSlice, view: PipelinedSubpartitionView, now_ns: int) -> None:
        record, index, number = self._record, self.index, piece.sequence_number
        size, backlog = piece.size_bytes, piece.backlog_buffers
        note_sent(record, now_ns, index, piece, -1, -1, view.pool)
        note_received(record, now_ns, index, piece.data_type, number, size, backlog, -1, -1, None)
