"""ConnectionObserver: both directions of one connection become rows of a trace.

The rows are those that the producer's process would have written, at the place of the capture:
BufferResponses are SENT with the credit they take, messages from the consumer are RECEIVED. Every
message is one row, and sequence numbers and credit can be checked as in any trace. Values that only
the processes know (instants of records, pools, consumption of buffers) are -1 or missing.
"""

from __future__ import annotations

from typing import Any, Final

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.probe import MessageKind, Probe, TracePoint
from flinknet.core.wire import messages
from flinknet.core.wire.buffer_response import BufferResponse
from flinknet.core.wire.layout import (
    BACKLOG,
    DATA_TYPE,
    RECEIVER,
    SEQUENCE_NUMBER,
    SIZE,
    Direction,
    Header,
    decode_add_credits,
    next_sequence_number,
)
from flinknet.core.wire.record_counter import RecordCounter

from .channels import ChannelTable, Ends, ObservedChannel
from .frame_stream import TLS_NOTE, FrameStream
from .observed_connection import TEXT_MAX, NoteTimes, ObservedConnection

EVENT_BYTES_MAX: Final = 64 << 10
"""Most bytes of an event that are decoded."""

_SENT, _RECEIVED = int(TracePoint.SENT), int(TracePoint.RECEIVED)
_BUFFER_RESPONSE, _ADD_CREDIT = int(MessageKind.BUFFER_RESPONSE), int(MessageKind.ADD_CREDIT)
_PRODUCERS = (BufferResponse, messages.ErrorResponse, messages.BacklogAnnouncement)


class FromClient(FrameStream):
    """The consumer's direction; messages that only producers send are ignored."""

    direction = Direction.CONSUMER_TO_PRODUCER

    def message(self, message_id: int, frame: memoryview, at_ns: int) -> None:
        connection = self.connection
        if message_id == _ADD_CREDIT:
            credits = decode_add_credits(frame)
            if credits is not None:
                connection.messages[_ADD_CREDIT] += len(credits)
                for credit, receiver_id in credits:
                    connection.add_credit(receiver_id, credit, at_ns)
                return
        message = connection.decode(message_id, frame)
        if isinstance(message, messages.PartitionRequest):
            connection.open_channel(message, at_ns)
        elif isinstance(message, messages.AddCredit):
            connection.add_credit(message.receiver_id, message.credit, at_ns)
        elif isinstance(message, messages.CloseRequest):
            connection.note(at_ns, None, _RECEIVED, MessageKind.CLOSE_REQUEST)
        elif message is not None and not isinstance(message, _PRODUCERS):
            channel = connection.channel_of(message.receiver_id)
            columns: dict[str, int] = {}
            if isinstance(message, messages.NewBufferSize):
                columns["value"] = message.buffer_size
            elif channel is not None and isinstance(message, messages.ResumeConsumption):
                columns["credit_before"], columns["credit_after"] = channel.resume(at_ns)
            elif channel is not None and isinstance(message, messages.CancelPartitionRequest):
                channel.end(at_ns)
            connection.note(at_ns, channel, _RECEIVED, message.ID, **columns)


class FromServer(FrameStream):
    """The producer's direction."""

    direction = Direction.PRODUCER_TO_CONSUMER
    # of the BufferResponse whose payload comes in pieces
    _header: Header | None = None
    _channel: ObservedChannel | None = None
    _counter: RecordCounter | None = None
    _sizes: tuple[int, ...] = ()
    _index = 0  # number of the current partial buffer
    _left = 0  # its missing bytes
    _records = 0
    _body = b""  # of an event

    def buffer(self, header: Header, payload: memoryview, at_ns: int) -> None:
        connection = self.connection
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
        connection = self.connection
        connection.messages[_BUFFER_RESPONSE] += 1
        self._channel = connection.channel_of(header[RECEIVER])
        self._header = header
        self._sizes = sizes or (header[SIZE],)
        self._index = 0
        self._left = self._sizes[0]
        self._records = 0
        self._counter = connection.counter_of(self._channel, header)
        self._end_pieces(at_ns)

    def payload(self, piece: memoryview, at_ns: int) -> None:
        while piece:
            taken = piece[: self._left]
            if self._counter is not None:
                self._records += self._counter.feed(taken)
            elif self._is_event and len(self._body) < EVENT_BYTES_MAX:
                self._body += bytes(taken[: EVENT_BYTES_MAX - len(self._body)])
            piece = piece[len(taken) :]
            self._left -= len(taken)
            self._end_pieces(at_ns)

    def missing_payload(self, lost_bytes: int, at_ns: int) -> None:
        self.connection.add_note(f"{lost_bytes} bytes of a payload are missing")
        if self._counter is not None:
            self._counter.skip(lost_bytes)
        while lost_bytes:
            count = min(lost_bytes, self._left)
            self._left -= count
            lost_bytes -= count
            self._end_pieces(at_ns)

    def message(self, message_id: int, frame: memoryview, at_ns: int) -> None:
        connection = self.connection
        message = connection.decode(message_id, frame)
        if isinstance(message, messages.BacklogAnnouncement):
            channel = connection.channel_of(message.receiver_id)
            if channel is not None:
                channel.backlog_buffers = message.backlog
                channel.starved.begin(at_ns)
            kind = MessageKind.BACKLOG_ANNOUNCEMENT
            connection.note(at_ns, channel, _SENT, kind, backlog_buffers=message.backlog)
        elif isinstance(message, messages.ErrorResponse):
            channel = connection.channels.get(message.receiver_id or b"")
            about = "all channels" if message.receiver_id is None else message.receiver_id.hex()
            text = f"{message.cause.class_name} for {about}: {message.cause.message}"
            connection.add_note(text[:TEXT_MAX], connection.errors)
            connection.note(at_ns, channel, _SENT, MessageKind.ERROR_RESPONSE)

    def _lose_sync(self, what: str, at_ns: int) -> None:
        if self._header is not None:  # it was sent, whatever else is missing
            self.missing_payload(self._left + sum(self._sizes[self._index + 1 :]), at_ns)
        super()._lose_sync(what, at_ns)
        for channel in self.connection.channels.values():
            channel.may_lack_messages = True

    @property
    def _is_event(self) -> bool:
        return self._header is not None and self._header[DATA_TYPE] not in IS_BUFFER

    def _end_pieces(self, at_ns: int) -> None:
        """Report the complete partial buffer, and empty ones that follow it."""
        connection, header = self.connection, self._header
        while header is not None and not self._left:
            is_last = self._index == len(self._sizes) - 1
            size = self._sizes[self._index]
            number = next_sequence_number(header[SEQUENCE_NUMBER], self._index)
            backlog = header[BACKLOG] if is_last else -1
            if self._is_event:
                connection.event(self._channel, header, number, size, backlog, self._body, at_ns)
            else:
                records = -1 if self._counter is None else self._records
                connection.data(
                    self._channel, header, number, size, backlog, records, self._counter, is_last,
                    at_ns,
                )  # fmt: skip
            self._body = b""
            if is_last:
                self._header = self._counter = None
                return
            self._index += 1
            self._left = self._sizes[self._index]
            self._records = 0


_COUNTS: Final = ("undecodable", "losses", "missed_buffers", "sequence_gaps", "unpaid_buffers")


class ConnectionObserver(ObservedConnection):
    """Follows one connection; never raises for the bytes it reads.

    Bytes must come in the order in which they were sent, a message before its answer. A capture
    may have the two directions slightly out of order; buffers may then seem to lack credit.

    Args:
        probe: takes the rows.
        channels: the trace's channels, shared by its connections.
        ends: names of the two sides.
        is_from_start: the first bytes of both directions are observed.
        counts_records: whether to walk through payloads for the lengths of records.
        note_times: takes the times in a buffer before its row; None: they are not read. They are
            read only where records are counted.
    """

    def __init__(
        self,
        probe: Probe,
        channels: ChannelTable,
        *,
        ends: Ends = Ends("producer", "consumer"),  # noqa: B008 - frozen
        is_from_start: bool = True,
        counts_records: bool = True,
        note_times: NoteTimes | None = None,
    ) -> None:
        super().__init__(probe.record, channels, ends, counts_records, note_times)
        self._server = FromServer(self, is_from_start=is_from_start)
        self._client = FromClient(self, is_from_start=is_from_start)
        self._bytes = [0, 0]  # from server and client
        self._missing_bytes = 0  # from the server, as far as their number is known

    @property
    def is_tls(self) -> bool:
        """Whether the connection uses TLS and cannot be read."""
        return TLS_NOTE in self.notes

    def from_server(self, data: bytes | memoryview, at_ns: int) -> None:
        """Take bytes from the producing TaskManager; the caller may reuse them afterwards."""
        self._bytes[0] += len(data)
        self._server.receive(memoryview(data), at_ns)

    def from_client(self, data: bytes | memoryview, at_ns: int) -> None:
        self._bytes[1] += len(data)
        self._client.receive(memoryview(data), at_ns)

    def missing_from_server(self, lost_bytes: int | None, at_ns: int) -> None:
        """Note unobserved bytes from the producer; None: their number is unknown."""
        self._missing_bytes += lost_bytes or 0
        self._server.lose(lost_bytes, at_ns)

    def missing_from_client(self, lost_bytes: int | None, at_ns: int) -> None:
        self._client.lose(lost_bytes, at_ns)

    def close(self, at_ns: int) -> None:
        for channel in self.opened:
            channel.end(at_ns)

    def summary(self) -> dict[str, Any]:
        """Totals of the connection so far. `certain_from_ns`: since then all bytes of both
        directions are understood; `skipped_bytes` belong to no message."""
        since = self._server.certain_from_ns, self._client.certain_from_ns
        return {
            "connection": self.ends.connection,
            "layout": self._server.layout.name if self._server.layout else None,
            "bytes_from_server": self._bytes[0],
            "bytes_from_client": self._bytes[1],
            "missing_bytes": self._missing_bytes,
            "messages": {
                MessageKind(kind).name: count for kind, count in sorted(self.messages.items())
            },
            "channels": len(self.opened),
            "certain_from_ns": None if None in since else max(each or 0 for each in since),
            "credit_unknown_channels": sum(each.credits_available is None for each in self.opened),
            "skipped_bytes": self._server.skipped_bytes + self._client.skipped_bytes,
            **{name: getattr(self, name) for name in _COUNTS},
            "errors": list(self.errors),
            "notes": list(self.notes),
        }
