# mypyc
"""PartitionRequestServerHandler: handles the messages of a consumer."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from functools import partial

from flinknet.core.probe import ControlMessages, MessageKind, TracePoint, note
from flinknet.core.wire import messages
from flinknet.core.wire.ids import InputChannelID, ResultPartitionID, ResultSubpartitionIndexSet
from flinknet.core.wire.java_errors import (
    ILLEGAL_ARGUMENT_EXCEPTION,
    ILLEGAL_STATE_EXCEPTION,
    PARTITION_NOT_FOUND_EXCEPTION,
    PRODUCER_FAILED_EXCEPTION,
)

from .peer_trust import PeerTrust
from .result_partition import PartitionRequestListener, ResultPartition, ResultPartitionManager
from .view_reader import (
    UNCOUNTED,
    CreditBasedSequenceNumberingViewReader,
    PartitionRequestQueue,
    SequenceNumberingViewReader,
)

ChannelAdopter = Callable[[ResultPartitionID, int, bytes], None]
"""Called with a partition, a subpartition, and the id that its consumer chose."""

ENDED_READERS_KEPT = 1024
"""Readers of ended channels whose last figures are kept for snapshots."""

_CREDIT_MAX = 0x7FFFFFFF
_RECEIVED, _ADD_CREDIT = int(TracePoint.RECEIVED), int(MessageKind.ADD_CREDIT)
_PARTITION_REQUEST = int(MessageKind.PARTITION_REQUEST)


class PartitionRequestServerHandler:
    """Dispatches messages to the readers of one connection, and notifications of their
    subpartitions to the queue. A request for an unregistered partition waits for it (Flink:
    NettyPartitionRequestListener), up to a timeout, which Flink checks once per timeout.

    Args:
        is_credit_based: False for a connection as before Flink 1.5, which rejects credit.
        adopt: called with every request before it is handled, if consumers choose the ids of their
            channels; adds the channel to the peer's `channel_of`.

    Attributes:
        notified: readers that have something new to send, or have failed.
        waiting: deadline and partition of each request that waits, by receiver.
        is_closing: whether the peer has asked to close, or violated the protocol.
    """

    def __init__(
        self,
        partitions: ResultPartitionManager,
        queue: PartitionRequestQueue,
        trust: PeerTrust,
        control: ControlMessages,
        *,
        partition_request_timeout_ns: int,
        is_credit_based: bool = True,
        adopt: ChannelAdopter | None = None,
    ) -> None:
        self._partitions = partitions
        self._queue = queue
        self._trust = trust
        self._control = control
        self._timeout_ns = partition_request_timeout_ns
        self._is_credit_based = is_credit_based
        self._adopt = adopt
        self._failed: set[bytes] = set()
        self.waiting: OrderedDict[bytes, tuple[int, ResultPartitionID]] = OrderedDict()
        self.ended_readers: deque[CreditBasedSequenceNumberingViewReader] = deque(
            maxlen=ENDED_READERS_KEPT
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
            messages.SegmentId: lambda each: None,  # of hybrid shuffle only; Flink ignores it, too
            messages.TaskEventRequest: self._publish_task_event,
        }

    def handle(self, message: messages.Message) -> None:
        """Handle a message. Raises: RemoteProtocolError."""
        self._handlers[type(message)](message)

    def add_credit(self, credit: int, receiver_id: bytes) -> None:
        if not self._is_credit_based:
            self._trust.count_request(receiver_id)
            self._trust.send_error(
                ILLEGAL_STATE_EXCEPTION,
                f"an AddCredit of {credit} for {receiver_id.hex()}, but this task manager sends"
                " without credit (flow control tcp)",
            )
            return
        reader = self._reader(receiver_id)
        if reader is None:
            return
        before, now_ns = reader.credits_available, self._control.now_ns
        if before + credit > _CREDIT_MAX:
            text = f"credit {before} + {credit} is not a 32-bit number"
            self._trust.send_error(ILLEGAL_STATE_EXCEPTION, text)
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
                self._trust.send_error(PRODUCER_FAILED_EXCEPTION, cause, reader.receiver_id)
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
        self._queue.remove(reader.receiver_id)
        reader.release()
        self.ended_readers.append(reader)

    def release_all(self) -> None:
        for reader in list(self._queue.readers.values()):
            self.release(reader)
        for receiver_id in list(self.waiting):
            self._stop_waiting(receiver_id)
        self.notified = []

    def next_deadline_ns(self) -> int | None:
        for due_ns, _ in self.waiting.values():  # the oldest is first
            return due_ns
        return None

    def handle_deadline(self, *, now_ns: int) -> None:
        while self.waiting:
            receiver_id, (due_ns, partition_id) = next(iter(self.waiting.items()))
            if now_ns < due_ns:
                break
            self._partitions.stop_waiting(partition_id, receiver_id)
            self._refuse(receiver_id)

    def _notify(self, reader: CreditBasedSequenceNumberingViewReader) -> None:
        self.notified.append(reader)

    def _reader(self, receiver_id: bytes) -> CreditBasedSequenceNumberingViewReader | None:
        """The reader of a message that requires one; if there is none, the error is fatal for the
        connection. A message that crossed the failure of its producer is ignored.
        """
        reader = self._queue.readers.get(receiver_id)
        if reader is None and receiver_id not in self._failed:
            self._trust.count_request(receiver_id)
            text = f"No reader for receiverId = {receiver_id.hex()} exists."
            self._trust.send_error(ILLEGAL_STATE_EXCEPTION, text)
        return reader

    def _open_channel(self, message: messages.PartitionRequest) -> None:
        receiver_id, partition_id = message.receiver_id, message.partition_id
        credit, indices, trust = message.credit, message.queue_index_set, self._trust
        if self._adopt is not None:
            self._adopt(partition_id, indices.start_index, receiver_id)
        channel = trust.channel_of(receiver_id)
        reader: CreditBasedSequenceNumberingViewReader
        if self._is_credit_based:
            reader = CreditBasedSequenceNumberingViewReader(
                receiver_id, channel, credit, self._notify
            )
        else:
            reader = SequenceNumberingViewReader(receiver_id, channel, credit, self._notify)
            reader.credits_available = UNCOUNTED
        partition = self._partitions.find(partition_id)
        refusal: tuple[str, str] | None = None  # exception class and text
        if receiver_id in self._queue.readers or receiver_id in self.waiting:
            text = f"receiver {receiver_id.hex()} has requested a subpartition already"
            refusal = ILLEGAL_STATE_EXCEPTION, text
        elif credit < 0:
            refusal = ILLEGAL_ARGUMENT_EXCEPTION, f"negative credit {credit}"
        elif self._partitions.is_waited_for(partition_id, receiver_id):
            text = f"receiver {receiver_id.hex()} waits for it over another connection"
            refusal = ILLEGAL_STATE_EXCEPTION, text
        elif partition is not None:
            refusal = self._attach(reader, indices, partition)
        self._control.note(
            _RECEIVED,
            _PARTITION_REQUEST,
            channel,
            value=credit,
            credit_before=0 if refusal is None else -1,
            credit_after=credit if refusal is None else -1,
        )
        trust.count_request(receiver_id)
        if refusal is not None:
            trust.send_error(*refusal)
            return
        if channel >= 0:
            trust.admit()
        if partition is None:
            self.waiting[receiver_id] = self._control.now_ns + self._timeout_ns, partition_id
            listener = PartitionRequestListener(
                partial(self._serve, reader, indices), partial(self._refuse, receiver_id)
            )
            self._partitions.wait_for(partition_id, receiver_id, listener)

    def _attach(
        self,
        reader: CreditBasedSequenceNumberingViewReader,
        indices: ResultSubpartitionIndexSet,
        partition: ResultPartition,
    ) -> tuple[str, str] | None:
        """Attach a reader to its subpartitions. Returns: why not: exception class and text."""
        try:
            reader.attach(partition, indices.start_index, indices.end_index)
        except (IndexError, RuntimeError) as error:
            is_state = isinstance(error, RuntimeError)
            return ILLEGAL_STATE_EXCEPTION if is_state else ILLEGAL_ARGUMENT_EXCEPTION, str(error)
        self._queue.add(reader)
        self._trust.admit()
        return None

    def _serve(
        self,
        reader: CreditBasedSequenceNumberingViewReader,
        indices: ResultSubpartitionIndexSet,
        partition: ResultPartition,
    ) -> None:
        """Attach the reader of a waiting request: its partition is registered."""
        if self.waiting.pop(reader.receiver_id, None) is None:
            return  # the connection failed while an earlier request was served
        refusal = self._attach(reader, indices, partition)
        if refusal is not None:
            self._trust.send_error(*refusal)

    def _refuse(self, receiver_id: bytes) -> None:
        """Refuse a waiting request: its partition was never registered."""
        _, partition_id = self.waiting.pop(receiver_id)
        self._trust.send_error(
            PARTITION_NOT_FOUND_EXCEPTION, f"Partition {partition_id} not found.", receiver_id
        )

    def _stop_waiting(self, receiver_id: bytes) -> None:
        _, partition_id = self.waiting.pop(receiver_id)
        self._partitions.stop_waiting(partition_id, receiver_id)

    def _resume_consumption(self, message: messages.ResumeConsumption) -> None:
        reader = self._reader(message.receiver_id)
        if reader is None:
            return
        self._note(MessageKind.RESUME_CONSUMPTION, reader.channel)
        try:
            reader.resume_consumption()
        except RuntimeError as error:
            self._trust.send_error(ILLEGAL_STATE_EXCEPTION, str(error))
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
        the end of its trace; then it has no channel, unless its request waits or has failed.
        """
        receiver_id = message.receiver_id
        channel = self._trust.channel_of(receiver_id)
        if (reader := self._queue.readers.get(receiver_id)) is not None:
            self.release(reader)
        else:
            self._trust.count_request(receiver_id)
            if receiver_id in self.waiting:
                self._stop_waiting(receiver_id)
            elif receiver_id not in self._failed:
                channel = -1
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

    def _publish_task_event(self, message: messages.TaskEventRequest) -> None:
        """Pass an event to the task that writes the sender's partition. Differs from Flink, which
        accepts events for partitions that the sender does not read.
        """
        receiver_id, partition_id = message.receiver_id, message.partition_id
        self._trust.count_request(receiver_id)
        self._note(MessageKind.TASK_EVENT_REQUEST, self._trust.channel_of(receiver_id))
        reader = self._queue.readers.get(receiver_id)
        is_read = (
            reader is not None
            and reader.partition is not None
            and reader.partition.partition_id == partition_id
        )
        if not (is_read and self._partitions.publish_task_event(partition_id, message.event)):
            text = "Task event receiver not found."
            self._trust.send_error(ILLEGAL_ARGUMENT_EXCEPTION, text, receiver_id)

    def _note(self, kind: int, channel: int, value: int = -1) -> None:
        self._control.note(_RECEIVED, kind, channel, value=value)
