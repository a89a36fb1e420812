"""The two directions of a connection: how each kind of frame changes the connection's state."""

from __future__ import annotations

from typing import Final

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.core.wire.buffer_response import BufferResponse
from flinknet.core.wire.layout import (
    BACKLOG,
    DATA_TYPE,
    RECEIVER,
    SEQUENCE_NUMBER,
    SIZE,
    Header,
    decode_add_credits,
    next_sequence_number,
)
from flinknet.core.wire.messages import (
    AddCredit,
    BacklogAnnouncement,
    CancelPartitionRequest,
    CloseRequest,
    ErrorResponse,
    NewBufferSize,
    PartitionRequest,
    ResumeConsumption,
)
from flinknet.core.wire.record_counter import RecordCounter

from .channels import ObservedChannel
from .frame_stream import FrameSink
from .observed_connection import TEXT_MAX, ObservedConnection

EVENT_BYTES_MAX: Final = 64 << 10
"""Most bytes of an event that are decoded."""

_SENT, _RECEIVED = int(TracePoint.SENT), int(TracePoint.RECEIVED)
_BUFFER_RESPONSE, _ADD_CREDIT = int(MessageKind.BUFFER_RESPONSE), int(MessageKind.ADD_CREDIT)
_PRODUCERS = (BufferResponse, ErrorResponse, BacklogAnnouncement)


class FromServer(FrameSink):
    """The producer's direction."""

    def __init__(self, connection: ObservedConnection) -> None:
        self._connection = connection
        self._channel: ObservedChannel | None = None
        self._header: Header | None = None
        self._sizes: tuple[int, ...] = ()
        self._counter: RecordCounter | None = None
        self._index = 0  # number of the current partial buffer
        self._left = 0  # its missing bytes
        self._records = 0
        self._body = bytearray()

    def buffer(self, header: Header, payload: memoryview, at_ns: int) -> None:
        connection = self._connection
        receiver_id, number, backlog = header[RECEIVER], header[SEQUENCE_NUMBER], header[BACKLOG]
        size = header[SIZE]
        connection.messages[_BUFFER_RESPONSE] += 1
        channel = connection.channels.get(receiver_id) or connection.channel_of(receiver_id)
        if header[DATA_TYPE] not in IS_BUFFER:
            body = bytes(payload[:EVENT_BYTES_MAX])
            connection.event(channel, header, number, size, backlog, body, at_ns)
            return
        records, counter = -1, connection.counter_of(channel, header)
        if counter is not None:
            records = counter.feed(payload)
        connection.data(channel, header, number, size, backlog, records, counter, True, at_ns)

    def begin_buffer(self, header: Header, sizes: tuple[int, ...], at_ns: int) -> None:
        connection = self._connection
        connection.messages[_BUFFER_RESPONSE] += 1
        self._channel = connection.channel_of(header[RECEIVER])
        self._header = header
        self._sizes = sizes or (header[SIZE],)
        self._index = 0
        self._begin_piece(at_ns)

    def payload(self, piece: memoryview, at_ns: int) -> None:
        while piece:
            taken = piece[: self._left]
            if self._counter is not None:
                self._records += self._counter.feed(taken)
            elif self._is_event and len(self._body) < EVENT_BYTES_MAX:
                self._body += taken[: EVENT_BYTES_MAX - len(self._body)]
            piece = piece[len(taken) :]
            self._left -= len(taken)
            self._end_pieces(at_ns)

    def missing_payload(self, lost_bytes: int, at_ns: int) -> None:
        self._connection.add_note(f"{lost_bytes} bytes of a payload are missing")
        if self._counter is not None:
            self._counter.skip(lost_bytes)
        while lost_bytes:
            count = min(lost_bytes, self._left)
            self._left -= count
            lost_bytes -= count
            self._end_pieces(at_ns)

    def message(self, message_id: int, frame: memoryview, at_ns: int) -> None:
        connection = self._connection
        message = connection.decode(message_id, frame)
        if isinstance(message, BacklogAnnouncement):
            channel = connection.channel_of(message.receiver_id)
            if channel is not None:
                channel.backlog_buffers = message.backlog
                channel.starve(at_ns)
            kind = MessageKind.BACKLOG_ANNOUNCEMENT
            connection.note(at_ns, channel, _SENT, kind, backlog_buffers=message.backlog)
        elif isinstance(message, ErrorResponse):
            channel = connection.channels.get(message.receiver_id or b"")
            about = "all channels" if message.receiver_id is None else message.receiver_id.hex()
            text = f"{message.cause.class_name} for {about}: {message.cause.message}"
            connection.add_note(text[:TEXT_MAX], connection.errors)
            connection.note(at_ns, channel, _SENT, MessageKind.ERROR_RESPONSE)

    def undecodable(self, what: str, at_ns: int) -> None:
        self._connection.undecodable(what)

    def lost(self, what: str, at_ns: int) -> None:
        if self._header is not None:  # it was sent, whatever else is missing
            self.missing_payload(self._left + sum(self._sizes[self._index + 1 :]), at_ns)
        self._connection.lose_all(what)
        for channel in self._connection.channels.values():
            channel.may_lack_messages = True

    @property
    def _is_event(self) -> bool:
        return self._header is not None and self._header[DATA_TYPE] not in IS_BUFFER

    def _begin_piece(self, at_ns: int) -> None:
        assert self._header is not None
        self._left = self._sizes[self._index]
        self._records = 0
        self._body.clear()
        self._counter = self._connection.counter_of(self._channel, self._header)
        self._end_pieces(at_ns)

    def _end_pieces(self, at_ns: int) -> None:
        """Report the complete partial buffer, and empty ones that follow it."""
        connection, header = self._connection, self._header
        while header is not None and not self._left:
            is_last = self._index == len(self._sizes) - 1
            size = self._sizes[self._index]
            number = next_sequence_number(header[SEQUENCE_NUMBER], self._index)
            backlog = header[BACKLOG] if is_last else -1
            if self._is_event:
                body = bytes(self._body)
                connection.event(self._channel, header, number, size, backlog, body, at_ns)
            else:
                records = -1 if self._counter is None else self._records
                connection.data(
                    self._channel, header, number, size, backlog, records, self._counter, is_last,
                    at_ns,
                )  # fmt: skip
            if is_last:
                self._header = header = None
                self._counter = None
                self._body.clear()
                return
            self._index += 1
            self._left = self._sizes[self._index]
            self._records = 0
            self._body.clear()


class FromClient(FrameSink):
    """The consumer's direction; messages that only producers send are ignored."""

    def __init__(self, connection: ObservedConnection) -> None:
        self._connection = connection

    def message(self, message_id: int, frame: memoryview, at_ns: int) -> None:
        connection = self._connection
        if message_id == _ADD_CREDIT:
            credits = decode_add_credits(frame)
            if credits is not None:
                connection.messages[_ADD_CREDIT] += len(credits)
                for credit, receiver_id in credits:
                    connection.add_credit(receiver_id, credit, at_ns)
                return
        message = connection.decode(message_id, frame)
        if isinstance(message, PartitionRequest):
            connection.open_channel(message, at_ns)
        elif isinstance(message, AddCredit):
            connection.add_credit(message.receiver_id, message.credit, at_ns)
        elif isinstance(message, CloseRequest):
            connection.note(at_ns, None, _RECEIVED, MessageKind.CLOSE_REQUEST)
        elif message is not None and not isinstance(message, _PRODUCERS):
            channel = connection.channel_of(message.receiver_id)
            value, change = -1, (-1, -1)
            if isinstance(message, NewBufferSize):
                value = message.buffer_size
            elif channel is not None and isinstance(message, ResumeConsumption):
                change = channel.resume(at_ns)
            elif channel is not None and isinstance(message, CancelPartitionRequest):
                channel.end(at_ns)
            connection.note(at_ns, channel, _RECEIVED, message.ID, value=value, credit=change)

    def undecodable(self, what: str, at_ns: int) -> None:
        self._connection.undecodable(what)

    def lost(self, what: str, at_ns: int) -> None:
        self._connection.lose_all(what)
