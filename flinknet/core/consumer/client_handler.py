# mypyc
"""CreditBasedPartitionRequestClientHandler: receives messages into the buffers of channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from flinknet import errors
from flinknet.core.buffers import MemorySegment, NetworkBuffer, free_memory
from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.probe import ControlMessages, MessageKind, TracePoint, note, note_received
from flinknet.core.wire import layout, messages
from flinknet.core.wire.ids import InputChannelID
from flinknet.core.wire.layout import Header
from flinknet.core.wire.response_decoder import LARGEST_FRAME_BYTES

from .input_channel import RemoteInputChannel

_RECEIVED = int(TracePoint.RECEIVED)
_BUFFER_RESPONSE = int(MessageKind.BUFFER_RESPONSE)
_BACKLOG_ANNOUNCEMENT = int(MessageKind.BACKLOG_ANNOUNCEMENT)
_CANCEL_PARTITION_REQUEST = int(MessageKind.CANCEL_PARTITION_REQUEST)


class CreditBasedPartitionRequestClientHandler:
    """Handles decoded messages of a connection with credit (a
    `wire.response_decoder.ResponseSink`).

    Args:
        channels: the connection's open channels, by receiver id.

    Attributes:
        buffer: the buffer whose payload is missing or incomplete.
    """

    def __init__(
        self,
        peer: str,
        channels: Mapping[bytes, RemoteInputChannel],
        control: ControlMessages,
        receive_error: Callable[[messages.ErrorResponse], None],
    ) -> None:
        self._peer = peer
        self._channels = channels
        self._control = control
        self._record = control.record
        self._receive_error = receive_error
        self._channel: RemoteInputChannel | None = None
        self.buffer: NetworkBuffer | None = None
        self.wants_data = True

    @property
    def staged_bytes(self) -> int:
        """Payload that was read and has no buffer yet; always 0 with credit."""
        return 0

    def next_deadline_ns(self) -> int | None:
        return None

    def handle_deadline(self) -> None:
        """Do nothing: with credit nothing is ever due."""

    def handle_closed_channel(self) -> None:
        """Handle that a channel was closed."""

    def drop(self) -> None:
        """Recycle an incomplete buffer (Flink: BufferResponseDecoder.onChannelInactive)."""
        if self.buffer is not None:
            self.buffer.recycle()
            self.buffer = None

    # ResponseSink: called by the decoder

    def take_buffer(self, header: Header) -> memoryview | None:
        """Memory for a payload: a credited buffer for data, plain memory for events. None for
        unknown receivers, and for data without credit, which fails its channel.
        """
        _, _, receiver_id, _, _, _, _, data_type, is_compressed, size = header
        channel = self._channels.get(receiver_id)
        if channel is None or channel.error is not None:
            self._channel = None
            if channel is None:
                self._cancel(receiver_id)
            return None
        self._channel = channel
        if data_type in IS_BUFFER:
            buffer = channel.buffers.take()
            if buffer is None:
                self._fail_channel(channel, errors.CreditExceededError(receiver_id.hex(), 0))
                return None
            buffer.data_type = data_type
        else:
            if size > LARGEST_FRAME_BYTES:
                raise errors.FrameCorruptedError(f"an event of {size} bytes")
            segment = MemorySegment(memoryview(bytearray(size)))
            buffer = NetworkBuffer(segment, free_memory, data_type)
        buffer.size_bytes = size
        buffer.is_compressed = is_compressed
        self.buffer = buffer
        return buffer.view

    def receive_payload(self, header: Header) -> None:
        channel = self._channel
        if channel is None:
            return
        buffer = self.buffer
        assert buffer is not None
        self.buffer = None
        _, _, _, _, _, sequence_number, backlog, data_type, _, size = header
        record, now_ns, index = self._record, self._control.now_ns, channel.index
        free, pool = channel.buffers.available_buffers, channel.buffers.pool
        before = free + 1 if data_type in IS_BUFFER else free
        note_received(
            record, now_ns, index, data_type, sequence_number, size, backlog, before, free, pool
        )
        self._hand_over(channel, buffer, sequence_number, backlog)

    def free_memory(self, header: Header) -> Sequence[memoryview]:
        """Free memory of an open channel, if the payload fills whole segments."""
        channel = self._channels.get(header[layout.RECEIVER])
        if channel is None or channel.error is not None:
            return ()
        manager = channel.buffers
        if header[layout.SIZE] != manager.pool.segment_size_bytes:
            return ()
        after = self.buffer.segment.index if self.buffer is not None else -1
        return [segment.view for segment in manager.line_up(after)]

    def receive_run(self, header: Header, backlogs: Sequence[int]) -> None:
        """Pass consecutive complete buffers to their channel.

        Equivalent to `take_buffer` and `receive_payload` for each. The run is split after a buffer
        whose backlog gains floating buffers; other backlogs are superseded by the next one.
        """
        _, _, receiver_id, _, _, number, _, data_type, _, size = header
        channel = self._channels[receiver_id]
        if channel.error is not None:
            return
        if number != channel.expected_sequence_number:
            self.take_buffer(header)
            self.receive_payload(header)
            return
        record, now_ns, index = self._record, self._control.now_ns, channel.index
        manager = channel.buffers
        pool = manager.pool
        while backlogs:
            free = manager.available_buffers
            buffers = manager.take_run(size, backlogs)
            count = len(buffers)
            for backlog in backlogs[:count]:
                note_received(
                    record, now_ns, index, data_type, number, size, backlog, free, free - 1, pool
                )
                free -= 1
                number += 1
            channel.receive_run(buffers, backlogs[count - 1])
            backlogs = backlogs[count:]

    def receive_message(self, message: messages.Message) -> None:
        if isinstance(message, messages.BacklogAnnouncement):
            channel = self._channels.get(message.receiver_id)
            if channel is None:
                self._cancel(message.receiver_id)
            else:
                self._control.note(
                    _RECEIVED, _BACKLOG_ANNOUNCEMENT, channel.index, value=message.backlog
                )
                channel.receive_backlog(message.backlog)
        elif isinstance(message, messages.ErrorResponse):
            self._receive_error(message)
        else:
            assert isinstance(message, messages.BufferResponse)
            self._receive_partial_buffers(message)

    def _receive_partial_buffers(self, message: messages.BufferResponse) -> None:
        """Handle several buffers in one message (sort-merge partitions): they share one credit, but
        each has a sequence number. Each becomes a buffer of plain memory; the credited one stays
        free.
        """
        channel = self._channels.get(message.receiver_id)
        if channel is None:
            self._cancel(message.receiver_id)
            return
        if message.data_type in IS_BUFFER:
            credited = channel.buffers.take()
            if credited is None:
                self._fail_channel(
                    channel, errors.CreditExceededError(message.receiver_id.hex(), 0)
                )
                return
            credited.recycle()
        sequence_number = message.sequence_number
        pieces = message.pieces()
        for index, piece in enumerate(pieces):
            backlog = message.backlog if index == len(pieces) - 1 else -1
            note(
                self._record,
                self._control.now_ns,
                channel.index,
                _RECEIVED,
                _BUFFER_RESPONSE,
                data_type=message.data_type,
                sequence_number=sequence_number,
                payload_bytes=len(piece),
                backlog_buffers=backlog,
            )
            segment = MemorySegment(memoryview(piece))
            buffer = NetworkBuffer(segment, free_memory, message.data_type, len(piece))
            buffer.is_compressed = int(message.is_compressed)
            try:
                channel.receive_buffer(buffer, sequence_number, backlog)
            except (errors.BufferReorderingError, errors.FrameCorruptedError) as error:
                self._fail_channel(channel, error)
                return
            sequence_number = layout.next_sequence_number(sequence_number)

    def _hand_over(
        self, channel: RemoteInputChannel, buffer: NetworkBuffer, sequence_number: int, backlog: int
    ) -> None:
        try:
            channel.receive_buffer(buffer, sequence_number, backlog)
        except (errors.BufferReorderingError, errors.FrameCorruptedError) as error:
            self._fail_channel(channel, error)

    def _fail_channel(self, channel: RemoteInputChannel, error: errors.FlinknetError) -> None:
        self._channel = None
        channel.fail(error)

    def _cancel(self, receiver_id: bytes) -> None:
        message = messages.CancelPartitionRequest(InputChannelID(receiver_id))
        self._control.send(message.encode(), _CANCEL_PARTITION_REQUEST, -1)
