# mypyc
"""ConsumerConnection: the consumer's end of one TCP connection.

Flink: CreditBasedPartitionRequestClientHandler together with NettyPartitionRequestClient.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from flinknet.core.buffers import MemorySegment, NetworkBuffer, free_memory
from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.connection import ConsumerSnapshot
from flinknet.core.probe import MessageKind, Probe, TracePoint, note, note_received
from flinknet.core.wire.header import DATA_TYPE, IS_COMPRESSED, RECEIVER, SIZE, Header
from flinknet.core.wire.ids import ResultSubpartitionIndexSet
from flinknet.core.wire.messages import (
    AckAllUserRecordsProcessed,
    BacklogAnnouncement,
    BufferResponse,
    CancelPartitionRequest,
    CloseRequest,
    ErrorResponse,
    Message,
    NewBufferSize,
    PartitionRequest,
    ResumeConsumption,
)
from flinknet.core.wire.plain_frames import encode_add_credit, next_sequence_number
from flinknet.core.wire.response_decoder import (
    LARGEST_FRAME_BYTES,
    ResponseDecoder,
    ResponseSink,
)
from flinknet.errors import (
    BufferReorderingError,
    CreditExceededError,
    FlinknetError,
    FrameCorruptedError,
    LocalTransportError,
    PartitionNotFoundError,
    ProducerFailedError,
    RemoteProtocolError,
    RemoteTransportError,
    TransportError,
    failed_channels,
)

from .input_channel import RemoteInputChannel
from .partition_requests import PartitionRequests

_SENT, _RECEIVED = int(TracePoint.SENT), int(TracePoint.RECEIVED)
_BUFFER_RESPONSE, _ADD_CREDIT = int(MessageKind.BUFFER_RESPONSE), int(MessageKind.ADD_CREDIT)


class Decoder(Protocol):
    """Reads the stream of a producer (wire.response_decoder, wire.layout_detection)."""

    def receive(self, data: memoryview) -> None:
        """Decode what `data` completes. Raises: RemoteProtocolError."""

    def memory_to_fill(self) -> Sequence[memoryview]:
        """Where the bytes that come next are to be laid, empty if that is not known."""

    def memory_filled(self, count: int) -> None:
        """Decode `count` bytes that were laid there. Raises: RemoteProtocolError."""


class ConsumerConnection:
    """Implements `core.connection.ScatteringConnection` for the side that reads partitions.

    Args:
        peer: the producer's address, for error messages.
        probe: takes an event for every message.
        create_decoder: what reads the stream; by default of layout "2.x".

    Attributes:
        requests: what has become of its partition requests.
        references: channels that were given this connection and have not closed yet (Flink:
            NettyPartitionRequestClient's reference counter).
        is_reusable: it stays open when the last of them has closed.
        error: what ended it; every channel failed with it, and new ones are refused.
    """

    def __init__(
        self,
        peer: str,
        probe: Probe,
        create_decoder: Callable[[ResponseSink], Decoder] = ResponseDecoder,
    ) -> None:
        self.peer = peer
        self._record = probe.record
        self._decoder = create_decoder(self)
        self._channels: dict[bytes, RemoteInputChannel] = {}
        self._with_credit: deque[RemoteInputChannel] = deque()
        self._control: list[bytes] = []
        self._now_ns = 0
        self._buffer: NetworkBuffer | None = None
        self._channel: RemoteInputChannel | None = None
        self._is_disposed = False
        self.requests = PartitionRequests()
        self.references = 0
        self.is_reusable = True
        self.error: FlinknetError | None = None
        self.is_closing = False
        self.wants_data = True

    def request_subpartition(self, channel: RemoteInputChannel, *, now_ns: int) -> None:
        """Open a channel: its request goes out with the next bytes."""
        self._now_ns = now_ns
        if self.error is not None:
            channel.fail(self.error)
            return
        self._channels[channel.receiver_id] = channel
        channel.connection = self
        self._send_request(channel)

    def _send_request(self, channel: RemoteInputChannel) -> None:
        request = PartitionRequest(
            channel.partition_id,
            ResultSubpartitionIndexSet(channel.subpartition, channel.subpartition),
            channel.receiver_id,
            channel.initial_credit,
        )
        self._control.append(request.encode())
        self.requests.add(channel)
        self._note(_SENT, MessageKind.PARTITION_REQUEST, channel.index, channel.initial_credit)

    def receive_data(self, data: memoryview, *, now_ns: int) -> None:
        """Take buffers and messages of the producer.

        Raises: RemoteProtocolError when the stream cannot be followed; every channel has failed
            then.
        """
        self._now_ns = now_ns
        try:
            self._decoder.receive(data)
        except RemoteProtocolError as error:
            self._drop_buffer()
            self._fail_all(error)
            raise

    def memory_to_fill(self) -> Sequence[memoryview]:
        """Memory of a channel's next buffers, while a run of them comes."""
        return self._decoder.memory_to_fill()

    def memory_filled(self, count: int, *, now_ns: int) -> None:
        """Take buffers and messages of the producer that were laid there.

        Raises: as `receive_data`.
        """
        self._now_ns = now_ns
        try:
            self._decoder.memory_filled(count)
        except RemoteProtocolError as error:
            self._drop_buffer()
            self._fail_all(error)
            raise

    def receive_eof(self, *, now_ns: int, error: TransportError | None = None) -> None:
        """The producer is gone: every channel that is still open fails. One whose request has not
        been sent fails alone with that, and is forgotten.

        A buffer that has come in part goes back (Flink: BufferResponseDecoder.onChannelInactive).
        """
        self._now_ns = now_ns
        self._drop_buffer()
        loss = error or RemoteTransportError("was closed by it")
        self._is_disposed = True
        unsent = self.requests.unsent
        for channel in unsent:
            text = f"channel {channel.index}: its partition request to {self.peer} was not sent"
            channel.fail(LocalTransportError(f"{text}; the connection {loss}"))
        if self._channels:
            self.fail(loss, now_ns=now_ns)
        for channel in unsent:
            self._channels.pop(channel.receiver_id, None)
        self.requests.forget_unsent()

    def fail(self, error: TransportError, *, now_ns: int) -> None:
        """The connection broke or did not come up: every channel on it fails, and who asks for one
        later is refused (Flink: notifyAllChannelsOfErrorAndClose).

        Args:
            error: what happened to it, for "the connection to … {error}".
        """
        self._now_ns = now_ns
        channels = sorted(channel.index for channel in self._channels.values())
        text = f"the connection to {self.peer} {error}"
        if isinstance(error, RemoteTransportError):
            text += "; that task manager may be lost"
        if channels:
            text += f". {failed_channels(channels)}"
        self._fail_all(type(error)(text, self.peer, channels))

    def data_to_send(self, *, now_ns: int) -> Sequence[bytes | memoryview]:
        """Requests and notices, then one AddCredit for each channel with something to announce."""
        self._now_ns = now_ns
        out: list[bytes | memoryview] = []
        self.requests.hand_over()
        if self._control:
            out.extend(self._control)
            self._control.clear()
        with_credit = self._with_credit
        while with_credit:
            channel = with_credit.popleft()
            credit = channel.take_unannounced_credit()
            if credit == 0 or channel.is_released:
                continue
            out.append(encode_add_credit(channel.receiver_id, credit))
            pool = channel.buffers.pool
            note(
                self._record,
                now_ns,
                channel.index,
                _SENT,
                _ADD_CREDIT,
                credit_before=credit,
                credit_after=0,
                pool_available_buffers=pool.available_buffers,
                pool_size_buffers=pool.size_buffers,
                value=credit,
            )
        return out

    def next_deadline_ns(self) -> int | None:
        """When the first request for a partition that was not found is to be repeated."""
        return self.requests.next_deadline_ns()

    def handle_deadline(self, *, now_ns: int) -> None:
        """Repeat the requests that are due."""
        self._now_ns = now_ns
        for receiver_id in self.requests.take_due(now_ns=now_ns):
            channel = self._channels.get(receiver_id)
            if channel is not None and channel.error is None:
                self._send_request(channel)

    # What channels ask for (input_channel.CreditSender)

    def notify_credit_available(self, channel: RemoteInputChannel) -> None:
        """Queue an AddCredit; how much it carries is decided when it is sent."""
        self._with_credit.append(channel)

    def resume_consumption(self, channel: RemoteInputChannel) -> None:
        """Queue ResumeConsumption."""
        self._control.append(ResumeConsumption(channel.receiver_id).encode())
        self._note(_SENT, MessageKind.RESUME_CONSUMPTION, channel.index)

    def acknowledge_all_records_processed(self, channel: RemoteInputChannel) -> None:
        """Queue AckAllUserRecordsProcessed, the answer to EndOfData."""
        self._control.append(AckAllUserRecordsProcessed(channel.receiver_id).encode())
        self._note(_SENT, MessageKind.ACK_ALL_USER_RECORDS_PROCESSED, channel.index)

    def announce_buffer_size(
        self, channel: RemoteInputChannel, size_bytes: int, *, now_ns: int
    ) -> None:
        """Queue NewBufferSize."""
        self._now_ns = now_ns
        self._control.append(NewBufferSize(size_bytes, channel.receiver_id).encode())
        self._note(_SENT, MessageKind.NEW_BUFFER_SIZE, channel.index, value=size_bytes)

    def close_channel(self, channel: RemoteInputChannel) -> None:
        """Forget the channel and queue CancelPartitionRequest; or CloseRequest, when it was the
        last one and the connection is not to be used again. The producer closes then.
        """
        if self._channels.pop(channel.receiver_id, None) is None:
            return
        self.requests.forget(channel.receiver_id)
        self.references = max(0, self.references - 1)
        if self.references or (self.is_reusable and self.error is None):
            self._cancel(channel.receiver_id, channel.index)
        elif not self._is_disposed:
            self._is_disposed = True
            self._control.append(CloseRequest().encode())
            self._note(_SENT, MessageKind.CLOSE_REQUEST, -1)

    def snapshot(self, *, now_ns: int) -> ConsumerSnapshot:
        """What a driver reports of it."""
        return ConsumerSnapshot()

    @property
    def is_usable(self) -> bool:
        """Whether another channel may be opened on it."""
        return self.error is None and not self._is_disposed

    # What the decoder tells (wire.response_decoder.ResponseSink)

    def take_buffer(self, header: Header) -> memoryview | None:
        """Memory for a payload: a credited buffer for data, plain memory for events; None for
        unknown receivers.
        """
        receiver_id, size, data_type = header[RECEIVER], header[SIZE], header[DATA_TYPE]
        channel = self._channels.get(receiver_id)
        if channel is None or channel.error is not None:
            self._channel = None
            if channel is None:
                self._cancel(receiver_id, -1)
            return None
        self._channel = channel
        if data_type in IS_BUFFER:
            manager = channel.buffers
            buffer = manager.take()
            if buffer is None:
                self._fail_channel(channel, CreditExceededError(receiver_id.hex(), 0))
                return None
            buffer.data_type = data_type
        else:
            if size > LARGEST_FRAME_BYTES:
                raise FrameCorruptedError(f"an event of {size} bytes")
            segment = MemorySegment(memoryview(bytearray(size)))
            buffer = NetworkBuffer(segment, free_memory, data_type)
        buffer.size_bytes = size
        buffer.is_compressed = header[IS_COMPRESSED]
        self._buffer = buffer
        return buffer.view

    def receive_payload(self, header: Header) -> None:
        """A buffer is complete: hand it to its channel."""
        channel = self._channel
        if channel is None:
            return
        buffer = self._buffer
        assert buffer is not None
        self._buffer = None
        _, _, _, _, _, sequence_number, backlog, data_type, _, size = header
        manager = channel.buffers
        pool = manager.pool
        free = manager.available_buffers
        note_received(
            self._record,
            self._now_ns,
            channel.index,
            data_type=data_type,
            sequence_number=sequence_number,
            payload_bytes=size,
            backlog_buffers=backlog,
            credit_before=free + 1 if data_type in IS_BUFFER else free,
            credit_after=free,
            pool_available_buffers=pool.available_buffers,
            pool_size_buffers=pool.size_buffers,
        )
        try:
            if size:
                channel.receive_buffer(buffer, sequence_number, backlog)
            else:
                buffer.recycle()
                channel.receive_empty_buffer(sequence_number, backlog)
        except (BufferReorderingError, FrameCorruptedError) as error:
            self._fail_channel(channel, error)

    def free_memory(self, header: Header) -> Sequence[memoryview]:
        """The free memory of a channel that is open, if the payload is to fill it."""
        channel = self._channels.get(header[RECEIVER])
        if channel is None or channel.error is not None:
            return ()
        manager = channel.buffers
        if header[SIZE] != manager.pool.segment_size_bytes:
            return ()
        after = self._buffer.segment.index if self._buffer is not None else -1
        return [segment.view for segment in manager.line_up(after)]

    def receive_run(self, header: Header, backlogs: Sequence[int]) -> None:
        """Buffers that follow each other are complete: hand them to their channel.

        Equal to `take_buffer` and `receive_payload` for each, the run being cut behind a buffer
        whose backlog gains floating ones; what the backlogs in between ask for is overruled by the
        next before it means anything.
        """
        _, _, receiver_id, _, _, number, _, data_type, _, size = header
        channel = self._channels[receiver_id]
        if channel.error is not None:
            return
        if number != channel.expected_sequence_number:
            self.take_buffer(header)
            self.receive_payload(header)
            return
        record, now_ns, index = self._record, self._now_ns, channel.index
        manager = channel.buffers
        pool = manager.pool
        while backlogs:
            free = manager.available_buffers
            buffers = manager.take_run(size, backlogs)
            count = len(buffers)
            available_buffers, size_buffers = pool.available_buffers, pool.size_buffers
            for backlog in backlogs[:count]:
                note_received(
                    record,
                    now_ns,
                    index,
                    data_type=data_type,
                    sequence_number=number,
                    payload_bytes=size,
                    backlog_buffers=backlog,
                    credit_before=free,
                    credit_after=free - 1,
                    pool_available_buffers=available_buffers,
                    pool_size_buffers=size_buffers,
                )
                free -= 1
                number += 1
            channel.receive_run(buffers, backlogs[count - 1])
            backlogs = backlogs[count:]

    def receive_message(self, message: Message) -> None:
        """A message that is not a plain buffer."""
        if isinstance(message, BacklogAnnouncement):
            channel = self._channels.get(message.receiver_id)
            if channel is None:
                self._cancel(message.receiver_id, -1)
            else:
                self._note(
                    _RECEIVED, MessageKind.BACKLOG_ANNOUNCEMENT, channel.index, message.backlog
                )
                channel.receive_backlog(message.backlog)
        elif isinstance(message, ErrorResponse):
            self._receive_error(message)
        else:
            assert isinstance(message, BufferResponse)
            self._receive_partial_buffers(message)

    def _receive_partial_buffers(self, message: BufferResponse) -> None:
        """Pieces glued into one message (sort-merge partitions): one credit, a sequence number for
        each.

        Each piece becomes a buffer of plain memory; the credited buffer stays free and is announced
        again.
        """
        channel = self._channels.get(message.receiver_id)
        if channel is None:
            self._cancel(message.receiver_id, -1)
            return
        if message.data_type in IS_BUFFER:
            credited = channel.buffers.take()
            if credited is None:
                self._fail_channel(channel, CreditExceededError(message.receiver_id.hex(), 0))
                return
            credited.recycle()
        sequence_number = message.sequence_number
        pieces = message.pieces()
        for index, piece in enumerate(pieces):
            note(
                self._record,
                self._now_ns,
                channel.index,
                _RECEIVED,
                _BUFFER_RESPONSE,
                data_type=message.data_type,
                sequence_number=sequence_number,
                payload_bytes=len(piece),
                backlog_buffers=message.backlog if index == len(pieces) - 1 else -1,
            )
            segment = MemorySegment(memoryview(piece))
            buffer = NetworkBuffer(segment, free_memory, message.data_type, len(piece))
            buffer.is_compressed = int(message.is_compressed)
            backlog = message.backlog if index == len(pieces) - 1 else -1
            try:
                channel.receive_buffer(buffer, sequence_number, backlog)
            except (BufferReorderingError, FrameCorruptedError) as error:
                self._fail_channel(channel, error)
                return
            sequence_number = next_sequence_number(sequence_number)

    def _receive_error(self, message: ErrorResponse) -> None:
        cause = message.cause
        text = f"{cause.class_name.rsplit('.', 1)[-1]}: {cause.message}"
        if message.receiver_id is None:
            self._note(_RECEIVED, MessageKind.ERROR_RESPONSE, -1)
            self._fail_all(
                RemoteTransportError(f"fatal error at remote task manager {self.peer}: {text}")
            )
            return
        channel = self._channels.get(message.receiver_id)
        if channel is None:
            return
        self._note(_RECEIVED, MessageKind.ERROR_RESPONSE, channel.index)
        if cause.class_name.endswith(".PartitionNotFoundException"):
            self._repeat_request(channel, PartitionNotFoundError(f"{self.peer}: {text}"))
        else:
            self._fail_channel(channel, ProducerFailedError(f"{self.peer}: {text}"))

    def _repeat_request(self, channel: RemoteInputChannel, error: PartitionNotFoundError) -> None:
        """The producer does not have the partition: ask again, or fail this channel alone."""
        delay_ns = self.requests.not_found(channel.receiver_id, now_ns=self._now_ns)
        if delay_ns is None:
            self._fail_channel(channel, error)
        elif delay_ns == 0:
            self._send_request(channel)

    def _drop_buffer(self) -> None:
        """Give back the buffer whose payload has not come, or not all of it."""
        if self._buffer is not None:
            self._buffer.recycle()
            self._buffer = None

    def _fail_channel(self, channel: RemoteInputChannel, error: FlinknetError) -> None:
        self._channel = None
        channel.fail(error)

    def _fail_all(self, error: FlinknetError) -> None:
        if self.error is None:
            self.error = error
        for channel in self._channels.values():
            channel.fail(error)

    def _cancel(self, receiver_id: bytes, channel_index: int) -> None:
        self._control.append(CancelPartitionRequest(receiver_id).encode())  # type: ignore[arg-type]
        self._note(_SENT, MessageKind.CANCEL_PARTITION_REQUEST, channel_index)

    def _note(self, point: int, kind: int, channel: int, value: int = -1) -> None:
        note(self._record, self._now_ns, channel, point, kind, value=value)
