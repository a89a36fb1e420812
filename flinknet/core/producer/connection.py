# mypyc
"""ProducerConnection: the producer's end of one TCP connection.

Flink: PartitionRequestServerHandler (what a message does) together with PartitionRequestQueue (who
    sends next).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from flinknet.core.buffers import BufferSlice, LocalBufferPool
from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.connection import ProducerChannelSnapshot
from flinknet.core.probe import MessageKind, Probe, TracePoint, note, note_sent
from flinknet.core.wire.frames import FRAME_BYTES_MAX, FrameDecoder
from flinknet.core.wire.header import BUFFER_RESPONSE_HEADER_BYTES
from flinknet.core.wire.ids import InputChannelID, ResultPartitionID
from flinknet.core.wire.java_errors import (
    ILLEGAL_ARGUMENT_EXCEPTION,
    ILLEGAL_STATE_EXCEPTION,
    PARTITION_NOT_FOUND_EXCEPTION,
    PRODUCER_FAILED_EXCEPTION,
    JavaThrowable,
)
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.messages import (
    AckAllUserRecordsProcessed,
    AddCredit,
    BacklogAnnouncement,
    CancelPartitionRequest,
    CloseRequest,
    ErrorResponse,
    Message,
    NewBufferSize,
    PartitionRequest,
    ResumeConsumption,
    SegmentId,
    TaskEventRequest,
)
from flinknet.core.wire.plain_frames import decode_add_credits, encode_buffer_response_header
from flinknet.errors import RemoteProtocolError, RemoteTransportError, TransportError

from .partition_manager import PartitionRequestListener, ResultPartitionManager
from .request_queue import PartitionRequestQueue
from .result_partition import ResultPartition
from .view_reader import CreditBasedSequenceNumberingViewReader

SEND_BATCH_BYTES = 256 * 1024
"""How much is handed to the driver in one go. Flink hands over one buffer at a time up to a water
mark of 64 KiB; larger gathers cost nothing in truth, for credit bounds what may leave, and save
system calls."""

FIRST_FRAME_BYTES_MAX = 4096
"""Longest frame before a connection has requested something of the run: a PartitionRequest has 97
bytes."""

STRANGE_REQUESTS_MAX = 128
"""Requests for receivers that are not of the run; a connection that makes more of them is closed.
"""

UNSENT_ERRORS_BYTES_MAX = 64 * 1024
"""A peer that leaves more than this unread is not read any more (Netty's high water mark)."""

_CREDIT_MAX = 0x7FFFFFFF
_SENT, _RECEIVED = int(TracePoint.SENT), int(TracePoint.RECEIVED)
_ADD_CREDIT = int(MessageKind.ADD_CREDIT)


class ProducerConnection:
    """Implements `core.connection.Connection` for the side that serves partitions.

    Args:
        partitions: the partitions of this TaskManager.
        probe: takes an event for every message.
        channel_of: index of each channel in the run, by receiver id; unknown ones are traced as -1.
        partition_request_timeout_ns: how long a request for an unknown partition waits (Flink
            checks in steps of the time-out, so that the wait there is between one and two of them;
            here it is one).

    Differs from Flink in what a peer may do that does not belong to the run: its frames are short,
    its requests are counted and limited, and it is not read while it does not read its answers.

    Attributes:
        batch_bytes: no further buffer is handed over once so many bytes were.
        loss: what became of the connection, if channels were still open; `lost_channels` are those.
        is_of_run: it has requested something that belongs to the run.
        strange_requests: messages for receivers that are not of the run.
    """

    _reader_class = CreditBasedSequenceNumberingViewReader
    _credit_per_buffer = 1

    def __init__(
        self,
        partitions: ResultPartitionManager,
        probe: Probe,
        channel_of: Mapping[bytes, int],
        *,
        partition_request_timeout_ns: int,
    ) -> None:
        self._partitions = partitions
        self._record = probe.record
        self._channel_of = channel_of
        self._timeout_ns = partition_request_timeout_ns
        self._decoder = FrameDecoder(
            Direction.CONSUMER_TO_PRODUCER, frame_bytes_max=FIRST_FRAME_BYTES_MAX
        )
        self.queue = PartitionRequestQueue()
        self.opened_readers: list[CreditBasedSequenceNumberingViewReader] = []
        self.batch_bytes = SEND_BATCH_BYTES
        self.loss: TransportError | None = None
        self.lost_channels: list[int] = []
        self.is_closing = False
        self.wants_data = True
        self.is_of_run = False
        self.strange_requests = 0
        self._now_ns = 0
        self._control: list[bytes] = []
        self._unsent_errors_bytes = 0
        self._in_flight: list[tuple[LocalBufferPool, int, Sequence[BufferSlice]]] = []
        self._notified: list[CreditBasedSequenceNumberingViewReader] = []
        self._waiting: OrderedDict[bytes, tuple[int, ResultPartitionID]] = OrderedDict()
        self._failed: set[bytes] = set()
        self._handlers: Mapping[type[Message], Callable[..., None]] = {
            AddCredit: self._add_credit,
            PartitionRequest: self._open_channel,
            ResumeConsumption: self._resume_consumption,
            AckAllUserRecordsProcessed: self._acknowledge,
            CancelPartitionRequest: self._cancel,
            CloseRequest: self._close,
            NewBufferSize: self._set_buffer_size,
            SegmentId: self._ignore,
            TaskEventRequest: self._refuse_task_event,
        }

    def receive_data(self, data: memoryview, *, now_ns: int) -> None:
        """Take messages of the consumer.

        Raises: RemoteProtocolError for bytes that are no message; a fatal ErrorResponse is left to
            send.
        """
        self._now_ns = now_ns
        try:
            credits = None if self._decoder.pending_bytes else decode_add_credits(data)
            if credits is not None:
                for credit, receiver_id in credits:
                    self._apply_credit(credit, receiver_id)
            else:
                for message in self._decoder.messages(data):
                    self._handlers[type(message)](message)
        except RemoteProtocolError as error:
            self._send_error(ILLEGAL_STATE_EXCEPTION, str(error), None)
            self._lose(TransportError(f"was closed for what came over it: {error}"))
            self.is_closing = True
            raise

    def receive_eof(self, *, now_ns: int, error: TransportError | None = None) -> None:
        """The consumer is gone: release all readers; those it had not cancelled are `lost`."""
        self._now_ns = now_ns
        self._lose(error or RemoteTransportError("was closed by it"))
        for reader in list(self.queue.readers.values()):
            self._release(reader)
        for receiver_id, (_, partition_id) in self._waiting.items():
            self._partitions.stop_waiting(partition_id, receiver_id)
        self._waiting.clear()
        self._recycle_in_flight()
        self._control.clear()
        self._decoder = FrameDecoder(Direction.CONSUMER_TO_PRODUCER)

    def data_to_send(self, *, now_ns: int) -> Sequence[bytes | memoryview]:
        """Control messages, then buffers in turns, up to SEND_BATCH_BYTES. The last ones are
        recycled.
        """
        if self._in_flight:
            self._recycle_in_flight()
        if self._notified:
            self._enqueue_notified(now_ns)
        out: list[bytes | memoryview] = []
        if self._control:
            out.extend(self._control)
            self._control.clear()
            self._unsent_errors_bytes = 0
        left_bytes = self.batch_bytes
        available = self.queue.available
        while available and left_bytes > 0 and (polled := self.queue.poll(left_bytes)) is not None:
            left_bytes -= self._frame(*polled, out, now_ns)
        return out

    def snapshot(self, *, now_ns: int) -> tuple[ProducerChannelSnapshot, ...]:
        """All channels that were ever requested, in that order."""
        readers = self.queue.readers
        return tuple(
            [
                ProducerChannelSnapshot(
                    reader.channel,
                    readers.get(reader.receiver_id) is reader,
                    0 if reader.subpartition is None else reader.subpartition.backlog(),
                    reader.credits_available,
                    reader.starved_until(now_ns),
                )
                for reader in self.opened_readers
            ]
        )

    @property
    def waiting_requests(self) -> int:
        """Requests that wait for their partition."""
        return len(self._waiting)

    def next_deadline_ns(self) -> int | None:
        """When the oldest request for an unknown partition times out; at once if the peer has read
        its answers and is to be read again.
        """
        if not self.wants_data and not self._unsent_errors_bytes:
            return 0
        for due_ns, _ in self._waiting.values():  # the oldest comes first
            return due_ns
        return None

    def handle_deadline(self, *, now_ns: int) -> None:
        """Refuse requests that waited too long for their partition; read on."""
        self._now_ns = now_ns
        while self._waiting:
            receiver_id = next(iter(self._waiting))
            due_ns, partition_id = self._waiting[receiver_id]
            if now_ns < due_ns:
                break
            self._partitions.stop_waiting(partition_id, receiver_id)
            self._refuse(receiver_id)
        if not self._unsent_errors_bytes:
            self.wants_data = True

    def _frame(
        self,
        reader: CreditBasedSequenceNumberingViewReader,
        run: Sequence[BufferSlice],
        out: list[bytes | memoryview],
        now_ns: int,
    ) -> int:
        """Frame what one reader gave: buffers, or one event. Returns: bytes of the frames."""
        assert reader.partition is not None
        assert reader.subpartition is not None
        record, receiver_id, channel = self._record, reader.receiver_id, reader.channel
        subpartition_id, pool = reader.subpartition.index, reader.partition.pool
        available_buffers, size_buffers = pool.available_buffers, pool.size_buffers
        data_type = run[0].data_type
        price = self._credit_per_buffer if data_type in IS_BUFFER else 0
        credit = reader.credits_available + price * len(run)
        sent_bytes = len(run) * BUFFER_RESPONSE_HEADER_BYTES
        append, encode = out.append, encode_buffer_response_header
        for piece in run:
            size, number, backlog = piece.size_bytes, piece.sequence_number, piece.backlog_buffers
            is_compressed = piece.buffer.is_compressed
            append(
                encode(
                    receiver_id, subpartition_id, number, backlog, data_type, is_compressed, size
                )
            )
            if size:
                append(piece.view)
                sent_bytes += size
            credit_before = credit
            credit -= price
            note_sent(
                record,
                now_ns,
                channel,
                data_type=data_type,
                reason=piece.reason,
                sequence_number=number,
                payload_bytes=size,
                records=piece.records,
                first_record_ns=piece.first_record_ns,
                last_record_ns=piece.last_record_ns,
                backlog_buffers=backlog,
                credit_before=credit_before,
                credit_after=credit,
                pool_available_buffers=available_buffers,
                pool_size_buffers=size_buffers,
            )
        if not credit and backlog:
            reader.note_starved(now_ns=now_ns)
        self._in_flight.append((pool, subpartition_id, run))
        return sent_bytes

    def _lose(self, loss: TransportError) -> None:
        """Note what ends the connection, if channels are open; the first reason counts."""
        if self.loss is None and self.queue.readers:
            self.loss = loss
            self.lost_channels = sorted(reader.channel for reader in self.queue.readers.values())

    def _recycle_in_flight(self) -> None:
        for pool, channel, run in self._in_flight:
            pool.recycle_slices(channel, run)
        self._in_flight.clear()

    def _enqueue_notified(self, now_ns: int) -> None:
        notified, self._notified = self._notified, []
        for reader in notified:
            cause = reader.failure_cause
            if cause is not None:
                if reader.receiver_id not in self._failed:
                    self._release(reader)
                    self._failed.add(reader.receiver_id)
                    self._send_error(PRODUCER_FAILED_EXCEPTION, cause, reader.receiver_id)
            elif not self.queue.enqueue(reader):
                self._announce_backlog(reader)
                if reader.subpartition is not None and reader.subpartition.is_data_available:
                    reader.note_starved(now_ns=now_ns)

    def _announce_backlog(self, reader: CreditBasedSequenceNumberingViewReader) -> None:
        backlog = reader.needs_backlog_announcement()
        if backlog:
            message = BacklogAnnouncement(backlog, InputChannelID(reader.receiver_id))
            self._control.append(message.encode())
            self._note(
                _SENT, MessageKind.BACKLOG_ANNOUNCEMENT, reader.channel, backlog_buffers=backlog
            )

    def _reader(self, receiver_id: bytes) -> CreditBasedSequenceNumberingViewReader | None:
        """The reader of a message that must have one; else the whole connection is told of the
        error. What was on its way when a producer failed changes nothing.
        """
        reader = self.queue.readers.get(receiver_id)
        if reader is None and receiver_id not in self._failed:
            self._note_receiver(receiver_id)
            self._send_error(
                ILLEGAL_STATE_EXCEPTION,
                f"No reader for receiverId = {receiver_id.hex()} exists.",
                None,
            )
        return reader

    def _note_receiver(self, receiver_id: bytes) -> None:
        """Count a message whose receiver is not of the run.

        Raises: RemoteProtocolError when there were too many of them.
        """
        if receiver_id in self._channel_of:
            return
        self.strange_requests += 1
        if self.strange_requests > STRANGE_REQUESTS_MAX:
            raise RemoteProtocolError(
                f"more than {STRANGE_REQUESTS_MAX} requests for receivers that are not of this run"
            )

    def _note_of_run(self) -> None:
        self.is_of_run = True
        self._decoder.frame_bytes_max = FRAME_BYTES_MAX

    def _add_credit(self, message: AddCredit) -> None:
        self._apply_credit(message.credit, message.receiver_id)

    def _apply_credit(self, credit: int, receiver_id: bytes) -> None:
        reader = self._reader(receiver_id)
        if reader is None:
            return
        before, now_ns = reader.credits_available, self._now_ns
        if before + credit > _CREDIT_MAX:
            self._send_error(
                ILLEGAL_STATE_EXCEPTION, f"credit {before} + {credit} is no 32-bit number", None
            )
            return
        reader.add_credit(credit, now_ns=now_ns)
        available_buffers = size_buffers = -1
        if reader.partition is not None:
            pool = reader.partition.pool
            available_buffers, size_buffers = pool.available_buffers, pool.size_buffers
        note(
            self._record,
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
            self.queue.enqueue(reader)

    def _open_channel(self, message: PartitionRequest) -> None:
        receiver_id, index = message.receiver_id, message.queue_index_set.start_index
        channel = self._channel_of.get(receiver_id, -1)
        reader = self._reader_class(receiver_id, channel, message.credit, self._notify)
        partition = self._partitions.find(message.partition_id)
        refusal = self._objection_to(message)
        if refusal is None and partition is not None:
            refusal = self._attach(reader, index, partition)
        self._note(
            _RECEIVED,
            MessageKind.PARTITION_REQUEST,
            channel,
            value=message.credit,
            credit=(0, message.credit) if refusal is None else (-1, -1),
        )
        self._note_receiver(receiver_id)
        if refusal is None and channel >= 0:
            self._note_of_run()
        if refusal is not None:
            self._send_error(refusal[0], refusal[1], None)
        elif partition is None:
            self._waiting[receiver_id] = (
                self._now_ns + self._timeout_ns,
                message.partition_id,
            )
            listener = PartitionRequestListener(
                partial(self._serve, reader, index), partial(self._refuse, receiver_id)
            )
            self._partitions.wait_for(message.partition_id, receiver_id, listener)

    def _objection_to(self, message: PartitionRequest) -> tuple[str, str] | None:
        """Why a request is refused, whatever its partition: class of the exception, and text."""
        indices = message.queue_index_set
        if indices.start_index != indices.end_index:
            # Flink serves several with a union of views; streaming exchanges ask for one each.
            return ILLEGAL_ARGUMENT_EXCEPTION, f"subpartitions {indices} in one request"
        if message.receiver_id in self.queue.readers or message.receiver_id in self._waiting:
            text = f"receiver {message.receiver_id.hex()} has requested a subpartition already"
            return ILLEGAL_STATE_EXCEPTION, text
        if message.credit < 0:
            return ILLEGAL_ARGUMENT_EXCEPTION, f"negative credit {message.credit}"
        return None

    def _attach(
        self,
        reader: CreditBasedSequenceNumberingViewReader,
        index: int,
        partition: ResultPartition,
    ) -> tuple[str, str] | None:
        """Let a reader read a subpartition. Returns: why not, as `_objection_to`."""
        try:
            reader.attach(partition, index)
        except (IndexError, RuntimeError) as error:
            is_state = isinstance(error, RuntimeError)
            return ILLEGAL_STATE_EXCEPTION if is_state else ILLEGAL_ARGUMENT_EXCEPTION, str(error)
        self.queue.add(reader)
        self.opened_readers.append(reader)
        self._note_of_run()
        return None

    def _serve(
        self,
        reader: CreditBasedSequenceNumberingViewReader,
        index: int,
        partition: ResultPartition,
    ) -> None:
        """The partition that a request waited for has come."""
        self._waiting.pop(reader.receiver_id, None)
        refusal = self._attach(reader, index, partition)
        if refusal is not None:
            self._send_error(refusal[0], refusal[1], None)

    def _refuse(self, receiver_id: bytes) -> None:
        """The partition that a request waited for has not come."""
        _, partition_id = self._waiting.pop(receiver_id)
        self._send_error(
            PARTITION_NOT_FOUND_EXCEPTION, f"Partition {partition_id} not found.", receiver_id
        )

    def _notify(self, reader: CreditBasedSequenceNumberingViewReader) -> None:
        self._notified.append(reader)

    def _resume_consumption(self, message: ResumeConsumption) -> None:
        reader = self._reader(message.receiver_id)
        if reader is None:
            return
        self._note(_RECEIVED, MessageKind.RESUME_CONSUMPTION, reader.channel)
        try:
            reader.resume_consumption()
        except RuntimeError as error:
            self._send_error(ILLEGAL_STATE_EXCEPTION, str(error), None)
            return
        self._notified.append(reader)

    def _acknowledge(self, message: AckAllUserRecordsProcessed) -> None:
        reader = self._reader(message.receiver_id)
        if reader is not None:
            self._note(_RECEIVED, MessageKind.ACK_ALL_USER_RECORDS_PROCESSED, reader.channel)
            assert reader.subpartition is not None
            reader.subpartition.is_acknowledged = True

    def _cancel(self, message: CancelPartitionRequest) -> None:
        if message.receiver_id not in self.queue.readers:
            self._note_receiver(message.receiver_id)
        self._note(
            _RECEIVED,
            MessageKind.CANCEL_PARTITION_REQUEST,
            self._channel_of.get(message.receiver_id, -1),
        )
        self._failed.discard(message.receiver_id)
        reader = self.queue.remove(message.receiver_id)
        if reader is not None:
            self._release(reader)
        elif message.receiver_id in self._waiting:
            _, partition_id = self._waiting.pop(message.receiver_id)
            self._partitions.stop_waiting(partition_id, message.receiver_id)

    def _close(self, _message: CloseRequest) -> None:
        self._note(_RECEIVED, MessageKind.CLOSE_REQUEST, -1)
        for reader in list(self.queue.readers.values()):
            self._release(reader)
        self.is_closing = True

    def _set_buffer_size(self, message: NewBufferSize) -> None:
        reader = self.queue.readers.get(message.receiver_id)
        if reader is not None and reader.subpartition is not None:
            self._note(
                _RECEIVED, MessageKind.NEW_BUFFER_SIZE, reader.channel, value=message.buffer_size
            )
            reader.subpartition.buffer_size_bytes = message.buffer_size

    def _ignore(self, _message: SegmentId) -> None:
        """Hybrid shuffle only; a pipelined producer ignores it for receivers it does not know."""

    def _refuse_task_event(self, message: TaskEventRequest) -> None:
        self._note_receiver(message.receiver_id)
        self._send_error(
            ILLEGAL_ARGUMENT_EXCEPTION, "Task event receiver not found.", message.receiver_id
        )

    def _release(self, reader: CreditBasedSequenceNumberingViewReader) -> None:
        self.queue.remove(reader.receiver_id)
        reader.release()

    def _send_error(self, class_name: str, text: str, receiver_id: bytes | None) -> None:
        receiver = InputChannelID(receiver_id) if receiver_id is not None else None
        answer = ErrorResponse(JavaThrowable(class_name, text), receiver).encode()
        self._control.append(answer)
        self._unsent_errors_bytes += len(answer)
        if self._unsent_errors_bytes > UNSENT_ERRORS_BYTES_MAX:
            self.wants_data = False
        channel = -1 if receiver_id is None else self._channel_of.get(receiver_id, -1)
        self._note(_SENT, MessageKind.ERROR_RESPONSE, channel)

    def _note(
        self,
        point: int,
        kind: int,
        channel: int,
        *,
        value: int = -1,
        backlog_buffers: int = -1,
        credit: tuple[int, int] = (-1, -1),
    ) -> None:
        note(
            self._record,
            self._now_ns,
            channel,
            point,
            kind,
            backlog_buffers=backlog_buffers,
            credit_before=credit[0],
            credit_after=credit[1],
            value=value,
        )
