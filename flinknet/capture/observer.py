"""ConnectionObserver: both directions of one connection become rows of a trace.

The rows are those that the producer's process would have written, at the place of the capture:
BufferResponses are SENT with the credit they take, messages from the consumer are RECEIVED. Every
message is one row, and sequence numbers and credit can be checked as in any trace. Values that only
the processes know (instants of records, pools, consumption of buffers) are -1 or missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.probe import MessageKind, Probe, TracePoint
from flinknet.core.wire import messages
from flinknet.core.wire.buffer_response import BufferResponse
from flinknet.core.wire.layout import (
    BACKLOG,
    DATA_TYPE,
    LAYOUTS,
    RECEIVER,
    SEQUENCE_NUMBER,
    SIZE,
    Direction,
    Header,
    decode_add_credits,
    next_sequence_number,
)
from flinknet.core.wire.record_counter import RecordCounter
from flinknet.errors import ConfigError

from .channels import ChannelTable, Ends, ObservedChannel
from .frame_stream import TLS_NOTE, FrameSink, FrameStream
from .observed_connection import TEXT_MAX, NoteTimes, ObservedConnection

EVENT_BYTES_MAX: Final = 64 << 10
"""Most bytes of an event that are decoded."""

_SENT, _RECEIVED = int(TracePoint.SENT), int(TracePoint.RECEIVED)
_BUFFER_RESPONSE, _ADD_CREDIT = int(MessageKind.BUFFER_RESPONSE), int(MessageKind.ADD_CREDIT)
_PRODUCERS = (BufferResponse, messages.ErrorResponse, messages.BacklogAnnouncement)


class _Side(FrameSink):
    def __init__(self, connection: ObservedConnection) -> None:
        self._connection = connection

    def undecodable(self, what: str, at_ns: int) -> None:
        self._connection.skip(what)

    def lost(self, what: str, at_ns: int) -> None:
        self._connection.lose_all(what)


class FromClient(_Side):
    """The consumer's direction; messages that only producers send are ignored."""

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


class FromServer(_Side):
    """The producer's direction."""

    def __init__(self, connection: ObservedConnection) -> None:
        super().__init__(connection)
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

    def lost(self, what: str, at_ns: int) -> None:
        if self._header is not None:  # it was sent, whatever else is missing
            self.missing_payload(self._left + sum(self._sizes[self._index + 1 :]), at_ns)
        super().lost(what, at_ns)
        for channel in self._connection.channels.values():
            channel.may_lack_messages = True

    @property
    def _is_event(self) -> bool:
        return self._header is not None and self._header[DATA_TYPE] not in IS_BUFFER

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
            self._body.clear()
            if is_last:
                self._header = self._counter = None
                return
            self._index += 1
            self._left = self._sizes[self._index]
            self._records = 0


__all__ = ["ConnectionObserver", "ConnectionSummary", "Ends", "layout_of_release"]


def layout_of_release(release: str | None) -> str | None:
    """The layout of a release of Flink; None (detect it) for None. Raises: ConfigError for an
    unknown release."""
    if release is None:
        return None
    if re.fullmatch(r"1\.20(\..*)?", release):
        return "1.20"
    if re.fullmatch(r"2(\.[0-3x](\..*)?)?", release):
        return "2.x"
    raise ConfigError(
        f"--flink-version: {release!r} is not known; choose from 1.20, 2.0, 2.1, 2.2, 2.3, or leave"
        " it out to have it detected"
    )


@dataclass(frozen=True, slots=True)
class ConnectionSummary:
    """Totals of a connection: observed, skipped and missing messages."""

    connection: str
    layout: str | None
    bytes_from_server: int
    bytes_from_client: int
    missing_bytes: int  # unobserved bytes of the producer, as far as their number is known
    messages: dict[str, int]
    channels: int
    certain_from_ns: int | None  # since then all bytes of both directions are understood
    credit_unknown_channels: int
    skipped_bytes: int  # observed bytes that belong to no message
    undecodable: int  # messages that could not be read and were skipped
    losses: int  # how often message boundaries were lost
    missed_buffers: int  # buffers and events without an observed header, by sequence numbers
    sequence_gaps: int  # violations of the protocol, most likely lost frames
    unpaid_buffers: int  # so are these
    errors: tuple[str, ...]  # texts of ErrorResponses
    notes: tuple[str, ...]  # skipped and lost messages, in words


_COUNTS: Final = ("undecodable", "losses", "missed_buffers", "sequence_gaps", "unpaid_buffers")


class ConnectionObserver:
    """Follows one connection; never raises for the bytes it reads.

    Bytes must come in the order in which they were sent, a message before its answer. A capture
    may have the two directions slightly out of order; buffers may then seem to lack credit.

    Args:
        probe: takes the rows.
        channels: the trace's channels, shared by its connections.
        layout: "2.x" or "1.20"; None to detect it from the first BufferResponse.
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
        layout: str | None = None,
        *,
        ends: Ends = Ends("producer", "consumer"),  # noqa: B008 - frozen
        is_from_start: bool = True,
        counts_records: bool = True,
        note_times: NoteTimes | None = None,
    ) -> None:
        self._connection = ObservedConnection(
            probe.record, channels, ends, counts_records, note_times
        )
        self._server = FrameStream(
            Direction.PRODUCER_TO_CONSUMER,
            FromServer(self._connection),
            LAYOUTS[layout] if layout is not None else None,
            is_from_start=is_from_start,
        )
        self._client = FrameStream(
            Direction.CONSUMER_TO_PRODUCER,
            FromClient(self._connection),
            is_from_start=is_from_start,
        )

    @property
    def ends(self) -> Ends:
        return self._connection.ends

    @property
    def has_messages(self) -> bool:
        return bool(self._connection.messages)

    @property
    def is_tls(self) -> bool:
        """Whether the connection uses TLS and cannot be read."""
        return TLS_NOTE in self._connection.notes

    def from_server(self, data: bytes | memoryview, at_ns: int) -> None:
        """Take bytes from the producing TaskManager; the caller may reuse them afterwards."""
        self._server.receive(memoryview(data), at_ns)

    def from_client(self, data: bytes | memoryview, at_ns: int) -> None:
        self._client.receive(memoryview(data), at_ns)

    def missing_from_server(self, lost_bytes: int | None, at_ns: int) -> None:
        """Note unobserved bytes from the producer; None: their number is unknown."""
        self._server.lose(lost_bytes, at_ns)

    def missing_from_client(self, lost_bytes: int | None, at_ns: int) -> None:
        self._client.lose(lost_bytes, at_ns)

    def close(self, at_ns: int) -> None:
        for channel in self._connection.opened:
            channel.end(at_ns)

    def summary(self) -> ConnectionSummary:
        """The totals so far."""
        observed = self._connection
        since = self._server.certain_from_ns, self._client.certain_from_ns
        return ConnectionSummary(
            connection=observed.ends.connection,
            layout=self._server.layout.name if self._server.layout else None,
            bytes_from_server=self._server.bytes,
            bytes_from_client=self._client.bytes,
            missing_bytes=self._server.missing_bytes,
            messages={
                MessageKind(kind).name: count for kind, count in sorted(observed.messages.items())
            },
            channels=len(observed.opened),
            certain_from_ns=None if None in since else max(each or 0 for each in since),
            credit_unknown_channels=sum(each.credits_available is None for each in observed.opened),
            skipped_bytes=self._server.skipped_bytes + self._client.skipped_bytes,
            **{name: getattr(observed, name) for name in _COUNTS},
            errors=tuple(observed.errors),
            notes=tuple(observed.notes),
        )
