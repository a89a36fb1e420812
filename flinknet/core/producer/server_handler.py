# mypyc
"""PartitionRequestServerHandler: handles the messages of a consumer; readers without credit, as
before Flink 1.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from flinknet.core.buffers import UNLIMITED_BUFFERS, BufferSlice
from flinknet.core.probe import ControlMessages, MessageKind, TracePoint, note
from flinknet.core.wire import messages
from flinknet.core.wire.ids import InputChannelID, ResultPartitionID
from flinknet.core.wire.java_errors import (
    ILLEGAL_ARGUMENT_EXCEPTION,
    ILLEGAL_STATE_EXCEPTION,
    PRODUCER_FAILED_EXCEPTION,
)
from flinknet.errors import FlinknetError

from .result_partition import ResultPartitionManager
from .view_reader import CreditBasedSequenceNumberingViewReader, PartitionRequestQueue
from .view_requests import PeerTrust, ViewRequests

UNCOUNTED = -1
"""Credit of a reader that needs none; probes read it as "not applicable"."""


class SequenceNumberingViewReader(CreditBasedSequenceNumberingViewReader):
    """Reads one subpartition for one receiver, without credit (Flink: SequenceNumberingViewReader).

    Differs from Flink, where both readers implement one interface: here this reader is the other
    one with unlimited credit, and sequence numbers are the subpartition's, as since 1.16; they are
    equal.
    """

    credit_per_buffer: ClassVar[int] = 0

    @property
    def is_available(self) -> bool:
        return self.subpartition is not None and self.subpartition.is_data_available

    def poll(self, bytes_max: int = 1) -> list[BufferSlice]:
        assert self.subpartition is not None
        return self.subpartition.poll_run(UNLIMITED_BUFFERS, bytes_max)

    def resume_consumption(self) -> None:
        assert self.subpartition is not None
        self.subpartition.resume_consumption()

    def needs_backlog_announcement(self) -> int:
        """Returns: 0, since no receiver waits for credit."""
        return 0


ChannelAdopter = Callable[[ResultPartitionID, int, bytes], None]
"""Called with a partition, a subpartition, and the id that its consumer chose."""

_CREDIT_MAX = 0x7FFFFFFF
_RECEIVED, _ADD_CREDIT = int(TracePoint.RECEIVED), int(MessageKind.ADD_CREDIT)


class PartitionRequestServerHandler:
    """Dispatches messages to the readers of one connection, and notifications of their
    subpartitions to the queue.

    Args:
        fail: closes the connection after an error of this side.
        is_credit_based: False for a connection as before Flink 1.5, which rejects credit.
        adopt: called with every request before it is handled, if consumers choose the ids of their
            channels; adds the channel to the peer's `channel_of`.

    Attributes:
        notified: readers that have something new to send, or have failed.
        is_closing: whether the peer has asked to close, or violated the protocol.
    """

    def __init__(
        self,
        partitions: ResultPartitionManager,
        queue: PartitionRequestQueue,
        peer: PeerTrust,
        control: ControlMessages,
        fail: Callable[[FlinknetError], None],
        *,
        partition_request_timeout_ns: int,
        is_credit_based: bool = True,
        adopt: ChannelAdopter | None = None,
    ) -> None:
        self._partitions = partitions
        self._queue = queue
        self._peer = peer
        self._control = control
        self._is_credit_based = is_credit_based
        self._adopt = adopt
        self._failed: set[bytes] = set()
        self.requests = ViewRequests(
            partitions,
            queue,
            peer,
            control,
            self._create_reader,
            fail,
            timeout_ns=partition_request_timeout_ns,
        )
        self.notified: list[CreditBasedSequenceNumberingViewReader] = []
        self.is_closing = False
        self._handlers: Mapping[type[messages.Message], Callable[..., None]] = {
            messages.AddCredit: lambda each: self.add_credit(each.credit, each.receiver_id),
            messages.PartitionRequest: self._open_channel,
            messages.ResumeConsumption: self._resume_consumption,
            messages.AckAllUserRecordsProcessed: self._acknowledge,
            messages.CancelPartitionRequest: self._cancel,
            messages.CloseRequest: self._close,
            messages.NewBufferSize: self._set_buffer_size,
            messages.SegmentId: self._ignore,
            messages.TaskEventRequest: self._publish_task_event,
        }

    def handle(self, message: messages.Message) -> None:
        """Handle a message. Raises: RemoteProtocolError."""
        self._handlers[type(message)](message)

    def add_credit(self, credit: int, receiver_id: bytes) -> None:
        """Handle an AddCredit, the most frequent message."""
        if not self._is_credit_based:
            self._peer.count_request(receiver_id)
            text = f"an AddCredit of {credit} for {receiver_id.hex()}, but this task manager sends"
            text += " without credit (flow control tcp)"
            self._peer.send_error(ILLEGAL_STATE_EXCEPTION, text, None)
            return
        reader = self._reader(receiver_id)
        if reader is None:
            return
        before, now_ns = reader.credits_available, self._control.now_ns
        if before + credit > _CREDIT_MAX:
            text = f"credit {before} + {credit} is not a 32-bit number"
            self._peer.send_error(ILLEGAL_STATE_EXCEPTION, text, None)
            return
        reader.add_credit(credit, now_ns=now_ns)
        available_buffers = size_buffers = -1
        if reader.partition is not None:
            pool = reader.partition.pool
            available_buffers, size_buffers = pool.available_buffers, pool.size_buffers
        note(
            self._control.record,
            now_ns,
            reader.channel,
            _RECEIVED,
            _ADD_CREDIT,
            credit_before=before,
            credit_after=before + credit,
            pool_available_buffers=available_buffers,
            pool_size_buffers=size_buffers,
            value=credit,
        )
        if not reader.is_enqueued:
            self._queue.enqueue(reader)

    def enqueue_notified(self, *, now_ns: int) -> None:
        """Enqueue notified readers that are still there, or announce why they cannot send."""
        notified, self.notified = self.notified, []
        readers = self._queue.readers
        for reader in notified:
            if readers.get(reader.receiver_id) is not reader:
                continue
            cause = reader.failure_cause
            if cause is not None:
                self.release(reader)
                self._failed.add(reader.receiver_id)
                self._peer.send_error(PRODUCER_FAILED_EXCEPTION, cause, reader.receiver_id)
            elif not self._queue.enqueue(reader):
                backlog = reader.needs_backlog_announcement()
                if backlog:
                    self._control.send(
                        messages.BacklogAnnouncement(
                            backlog, InputChannelID(reader.receiver_id)
                        ).encode(),
                        MessageKind.BACKLOG_ANNOUNCEMENT,
                        reader.channel,
                        backlog_buffers=backlog,
                    )
                if reader.subpartition is not None and reader.subpartition.is_data_available:
                    reader.note_starved(now_ns=now_ns)

    def release(self, reader: CreditBasedSequenceNumberingViewReader) -> None:
        """Remove a reader and its queued buffers."""
        self._queue.remove(reader.receiver_id)
        reader.release()

    def release_all(self) -> None:
        """Remove all readers, and cancel waiting requests."""
        for reader in list(self._queue.readers.values()):
            self.release(reader)
        for receiver_id in list(self.requests.waiting):
            self.requests.cancel(receiver_id)
        self.notified = []

    def _create_reader(
        self, receiver_id: bytes, channel: int, initial_credit: int
    ) -> CreditBasedSequenceNumberingViewReader:
        if self._is_credit_based:
            return CreditBasedSequenceNumberingViewReader(
                receiver_id, channel, initial_credit, self._notify
            )
        reader = SequenceNumberingViewReader(receiver_id, channel, initial_credit, self._notify)
        reader.credits_available = UNCOUNTED
        return reader

    def _notify(self, reader: CreditBasedSequenceNumberingViewReader) -> None:
        self.notified.append(reader)

    def _reader(self, receiver_id: bytes) -> CreditBasedSequenceNumberingViewReader | None:
        """The reader of a message that requires one; if there is none, the error is fatal for the
        connection. A message that crossed the failure of its producer is ignored.
        """
        reader = self._queue.readers.get(receiver_id)
        if reader is None and receiver_id not in self._failed:
            self._peer.count_request(receiver_id)
            text = f"No reader for receiverId = {receiver_id.hex()} exists."
            self._peer.send_error(ILLEGAL_STATE_EXCEPTION, text, None)
        return reader

    def _open_channel(self, message: messages.PartitionRequest) -> None:
        if self._adopt is not None:
            self._adopt(
                message.partition_id, message.queue_index_set.start_index, message.receiver_id
            )
        self.requests.open(message)

    def _resume_consumption(self, message: messages.ResumeConsumption) -> None:
        reader = self._reader(message.receiver_id)
        if reader is None:
            return
        self._note(MessageKind.RESUME_CONSUMPTION, reader.channel)
        try:
            reader.resume_consumption()
        except RuntimeError as error:
            self._peer.send_error(ILLEGAL_STATE_EXCEPTION, str(error), None)
            return
        self.notified.append(reader)

    def _acknowledge(self, message: messages.AckAllUserRecordsProcessed) -> None:
        reader = self._reader(message.receiver_id)
        if reader is not None:
            self._note(MessageKind.ACK_ALL_USER_RECORDS_PROCESSED, reader.channel)
            assert reader.subpartition is not None
            reader.subpartition.acknowledge_all_data_processed()

    def _cancel(self, message: messages.CancelPartitionRequest) -> None:
        """Cancel a channel. A consumer repeats that for each buffer that still arrives, maybe after
        the end of its trace; at both ends what cancels nothing has no channel in the trace.
        """
        receiver_id = message.receiver_id
        channel = self._peer.channel_of(receiver_id)
        if (reader := self._queue.remove(receiver_id)) is not None:
            reader.release()
        else:
            self._peer.count_request(receiver_id)
            if receiver_id not in self._failed and receiver_id not in self.requests.waiting:
                channel = -1
            self.requests.cancel(receiver_id)
        self._note(MessageKind.CANCEL_PARTITION_REQUEST, channel)
        self._failed.discard(receiver_id)

    def _close(self, _message: messages.CloseRequest) -> None:
        self._note(MessageKind.CLOSE_REQUEST, -1)
        self.release_all()
        self.is_closing = True

    def _set_buffer_size(self, message: messages.NewBufferSize) -> None:
        reader = self._queue.readers.get(message.receiver_id)
        if reader is not None and reader.subpartition is not None:
            self._note(MessageKind.NEW_BUFFER_SIZE, reader.channel, message.buffer_size)
            reader.subpartition.notify_new_buffer_size(message.buffer_size)

    def _ignore(self, _message: messages.SegmentId) -> None:
        """Do nothing: used by hybrid shuffle only; all other partitions ignore it, as in Flink."""

    def _publish_task_event(self, message: messages.TaskEventRequest) -> None:
        """Pass an event to the task that writes the sender's partition.

        Differs from Flink, which accepts events from anyone: an event for a partition that the
        sender does not read is answered like one for an unknown partition.
        """
        receiver_id, partition_id = message.receiver_id, message.partition_id
        self._peer.count_request(receiver_id)
        self._note(MessageKind.TASK_EVENT_REQUEST, self._peer.channel_of(receiver_id))
        reader = self._queue.readers.get(receiver_id)
        is_read = (
            reader is not None
            and reader.partition is not None
            and reader.partition.partition_id == partition_id
        )
        if not (is_read and self._partitions.publish_task_event(partition_id, message.event)):
            text = "Task event receiver not found."
            self._peer.send_error(ILLEGAL_ARGUMENT_EXCEPTION, text, receiver_id)

    def _note(self, kind: int, channel: int, value: int = -1) -> None:
        self._control.note(_RECEIVED, kind, channel, value=value)
