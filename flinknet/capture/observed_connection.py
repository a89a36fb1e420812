"""ObservedConnection: the state of a connection, and the trace rows that its messages become."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM, IS_BUFFER, DataType
from flinknet.core.probe import FlushReason, MessageKind, TracePoint, note
from flinknet.core.wire.checkpoint_barrier import CheckpointBarrier
from flinknet.core.wire.events import (
    EndOfOutputChannelStateEvent,
    Event,
    SubtaskConnectionDescriptor,
    decode_event,
)
from flinknet.core.wire.layout import (
    DATA_TYPE,
    FRAME_HEADER_BYTES,
    IS_COMPRESSED,
    SEQUENCE_NUMBER,
    SUBPARTITION,
    Header,
    next_sequence_number,
)
from flinknet.core.wire.messages import MESSAGE_CLASSES, Message, PartitionRequest
from flinknet.core.wire.record_counter import RecordCounter
from flinknet.core.wire.records import RecordTimes
from flinknet.errors import ProtocolError

from .channels import ChannelTable, Ends, ObservedChannel

TEXT_MAX: Final = 500
"""Longest text from a peer in a note, in characters."""

CREDIT_MAX: Final = 0x7FFF_FFFF
"""Upper limit of credit: an int in Flink and in a trace. No consumer has this many buffers."""

SEGMENT_SIZE_BYTES: Final = 32 * 1024
"""Flink's default segment size, in bytes; a data buffer of this size was full when it left."""

NOTES_MAX: Final = 16
"""Most notes kept of each kind; all are counted."""

_SENT, _RECEIVED = int(TracePoint.SENT), int(TracePoint.RECEIVED)
_BUFFER_RESPONSE, _ADD_CREDIT = int(MessageKind.BUFFER_RESPONSE), int(MessageKind.ADD_CREDIT)
_NONE, _FULL, _FLUSH = int(FlushReason.NONE), int(FlushReason.FULL), int(FlushReason.FLUSH)
_EVENT = int(FlushReason.EVENT)
_UNKNOWN = -1  # value of columns that the wire does not show
_CLEAR_END = int(DataType.DATA_BUFFER_WITH_CLEAR_END)


SAMPLED_PER_S: Final = 1_000
"""Most data buffers of a connection whose timestamps are read per second, at some 5 µs each."""

_PERIOD_NS = 100_000_000

NoteTimes = Callable[[tuple[int, ...]], None]
"""Takes the times in a buffer, in the order of `trace.schema.TIME_COLUMNS`, before its row."""


@dataclass(slots=True)
class ObservedConnection:
    """Channels, counts and complaints of one connection; the two directions report to it."""

    probe_record: Callable[..., None]
    table: ChannelTable
    ends: Ends
    counts_records: bool
    note_times: NoteTimes | None
    channels: dict[bytes, ObservedChannel] = field(default_factory=dict)
    opened: list[ObservedChannel] = field(default_factory=list)
    messages: Counter[int] = field(default_factory=Counter)
    undecodable: int = 0
    losses: int = 0
    missed_buffers: int = 0
    sequence_gaps: int = 0
    unpaid_buffers: int = 0
    errors: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _sampled_from: tuple[int, int] = 0, 0  # instant, and buffers until then
    _sampled_every: int = 1
    _seed: int = 1

    def channel_of(self, receiver_id: bytes) -> ObservedChannel | None:
        """The channel of a receiver, added if its request was missed; None for one too many."""
        channel = self.channels.get(receiver_id)
        if channel is None:
            channel = self.table.add(receiver_id, self.ends)
            if channel is not None:
                self.channels[receiver_id] = channel
                self.opened.append(channel)
        return channel

    def open_channel(self, request: PartitionRequest, at_ns: int) -> None:
        """Note a PartitionRequest. It belongs to the existing channel if it repeats a refused one,
        or was captured after the first data that answers it."""
        channel = self.channels.get(request.receiver_id)
        has_data = channel is not None and bool(channel.data_buffers or channel.events)
        if channel is not None and has_data and channel.partition_id is None:
            channel.identify(request)
        else:
            if channel is not None and has_data:
                channel.end(at_ns)
                del self.channels[request.receiver_id]
            channel = self.channel_of(request.receiver_id)
            if channel is not None:
                channel.open(request)
        self.note(
            at_ns,
            channel,
            _RECEIVED,
            MessageKind.PARTITION_REQUEST,
            value=request.credit,
            credit_before=0,
            credit_after=max(request.credit, 0),
        )

    def add_credit(self, receiver_id: bytes, credit: int, at_ns: int) -> None:
        channel = self.channels.get(receiver_id) or self.channel_of(receiver_id)
        before = after = index = -1
        if channel is not None:
            index = channel.index
            if channel.credits_available is not None:
                before = channel.credits_available
                after = channel.credits_available = min(before + credit, CREDIT_MAX)
            else:
                channel.grant_unknown(credit, at_ns)
            if channel.exhausted.since_ns >= 0 or channel.starved.since_ns >= 0:
                channel.grant(at_ns)
        note(
            self.probe_record,
            at_ns,
            index,
            _RECEIVED,
            _ADD_CREDIT,
            credit_before=before,
            credit_after=after,
            value=credit,
        )

    def data(
        self,
        channel: ObservedChannel | None,
        header: Header,
        number: int,
        size: int,
        backlog: int,
        records: int,
        counter: RecordCounter | None,
        is_paid: bool,
        at_ns: int,
    ) -> None:
        """Note a data buffer or a partial buffer. Only the last one of a message takes a credit
        (`is_paid`)."""
        before = after = index = -1
        reason = _FLUSH
        if counter is not None:
            if counter.is_inside_record:
                reason = _FULL
            if counter.is_lost:
                records, reason = -1, _NONE
                counter.end_buffer()
            if counter.others and channel is not None:
                channel.other_elements += counter.others
                counter.others = 0
            if header[DATA_TYPE] == _CLEAR_END:
                counter.restart()
            times = counter.times
            if times is not None:
                if times.is_used:
                    self._end_times(times, records, at_ns)
                elif times.passes:
                    times.passes -= 1
        if channel is not None:
            index = channel.index
            if channel.subpartitions is None and header[SUBPARTITION] >= 0:
                channel.subpartitions = header[SUBPARTITION], header[SUBPARTITION]
            channel.data_buffers += is_paid
            channel.payload_bytes += size
            channel.data_bytes += size
            if size > channel.largest_buffer_bytes:
                channel.largest_buffer_bytes = size
            if records >= 0:
                channel.records += records
            else:
                channel.uncounted_buffers += 1
            credit = channel.credits_available
            if is_paid and credit is not None:
                before, after = credit, credit - 1
                channel.credits_available = after if credit else None
                if not credit and channel.is_credit_inferred:
                    before = after = -1
                    channel.forget_credit()
                elif not credit:
                    self.unpaid_buffers += 1
                    self.add_note(f"data without credit on channel {index}")
            elif is_paid:
                channel.use_unknown()
            self._follow(channel, number, backlog, at_ns)
            if channel.first_ns is None or channel.last_ns is None:
                channel.first_ns = channel.last_ns = at_ns
            elif at_ns > channel.last_ns:
                channel.last_ns = at_ns
            elif at_ns < channel.first_ns:
                channel.first_ns = at_ns
            if channel.credits_available == 0:
                channel.exhaust(at_ns)
        if size == SEGMENT_SIZE_BYTES:
            reason = _FULL
        # `note` would cost 0.3 µs more for each buffer
        self.probe_record(
            at_ns, index, _SENT, _BUFFER_RESPONSE, header[DATA_TYPE],
            _NONE if header[IS_COMPRESSED] else reason, number, size, records,
            _UNKNOWN, _UNKNOWN, backlog, before, after, _UNKNOWN, _UNKNOWN, _UNKNOWN,
        )  # fmt: skip

    def _end_times(self, times: RecordTimes, records: int, at_ns: int) -> None:
        """Note the times in a buffer, unless its records are not certain; choose at random how many
        buffers of the stream are passed over, of a connection with many."""
        found = times.found()
        if found is not None and records >= 0 and self.note_times is not None:
            self.note_times(found)
        if times.passes:
            times.begin(times.passes - 1)
            return
        buffers, (from_ns, before) = self.messages[_BUFFER_RESPONSE], self._sampled_from
        if at_ns - from_ns >= _PERIOD_NS:
            per_s = (buffers - before) * 1_000_000_000 // (at_ns - from_ns)
            self._sampled_every = max(1, per_s // SAMPLED_PER_S)
            self._sampled_from = at_ns, buffers
        self._seed = (1664525 * self._seed + 1013904223) & 0xFFFFFFFF
        times.begin((self._seed >> 8) % (2 * self._sampled_every - 1))

    def event(
        self,
        channel: ObservedChannel | None,
        header: Header,
        number: int,
        size: int,
        backlog: int,
        body: bytes,
        at_ns: int,
    ) -> None:
        data_type, credit = header[DATA_TYPE], -1
        event: Event | None = None
        try:
            event = decode_event(body)
        except ProtocolError as error:
            self.skip(f"event of type {data_type}: {error}")
        value = event.checkpoint_id if isinstance(event, CheckpointBarrier) else -1
        if channel is not None:
            credit = -1 if channel.credits_available is None else channel.credits_available
            self._follow(channel, number, backlog, at_ns)
            channel.payload_bytes += size
            channel.events += 1
            channel.events_by_kind[type(event).__name__ if event else "undecodable"] += 1
            if data_type in IS_BLOCKING_UPSTREAM:
                channel.block(at_ns)
            if data_type == DataType.END_OF_PARTITION:
                channel.end_subpartition(at_ns)
            if isinstance(event, SubtaskConnectionDescriptor):
                channel.recover_from((event.input_subtask_index, event.output_subtask_index))
            elif data_type != DataType.PRIORITIZED_EVENT_BUFFER and self.counts_records:
                if isinstance(event, EndOfOutputChannelStateEvent):
                    channel.recover_from(None)
                if channel.recovered is None:  # the next data begins with a record
                    channel.counter_of(header[SUBPARTITION]).restart()
        self.note(
            at_ns,
            channel,
            _SENT,
            _BUFFER_RESPONSE,
            data_type=data_type,
            reason=_EVENT,
            sequence_number=number,
            payload_bytes=size,
            backlog_buffers=backlog,
            credit_before=credit,
            credit_after=credit,
            value=value,
        )

    def note(
        self, at_ns: int, channel: ObservedChannel | None, point: int, kind: int, **columns: int
    ) -> None:
        index = -1 if channel is None else channel.index
        note(self.probe_record, at_ns, index, point, kind, **columns)

    def add_note(self, what: str, into: list[str] | None = None) -> None:
        notes = self.notes if into is None else into
        if len(notes) < NOTES_MAX:
            notes.append(what)

    def skip(self, what: str) -> None:
        self.undecodable += 1
        self.add_note(what)

    def lose_all(self, what: str) -> None:
        self.losses += 1
        self.add_note(what)
        for channel in self.channels.values():
            channel.lose_messages()

    def counter_of(self, channel: ObservedChannel | None, header: Header) -> RecordCounter | None:
        """The record counter for a message; None if its records are not counted."""
        if channel is None or not self.counts_records or header[DATA_TYPE] not in IS_BUFFER:
            return None
        self._expect(channel, header[SEQUENCE_NUMBER])
        counter = channel.counter_of(header[SUBPARTITION])
        if self.note_times is not None and counter.times is None:
            counter.times = RecordTimes()
        if header[IS_COMPRESSED]:
            counter.lose()
            return None
        return counter

    def decode(self, message_id: int, frame: memoryview) -> Message | None:
        self.messages[message_id] += 1
        try:
            return MESSAGE_CLASSES[message_id].decode(frame[FRAME_HEADER_BYTES:])
        except ProtocolError as error:
            self.skip(f"{MESSAGE_CLASSES[message_id].__name__}: {error}"[:TEXT_MAX])
            return None

    def _expect(self, channel: ObservedChannel, number: int) -> None:
        expected = channel.next_sequence_number
        if expected is not None and expected != number:
            channel.lose_records()
            if channel.may_lack_messages:
                self.missed_buffers += max(0, (number - expected + 2**31) % 2**32 - 2**31)
            else:
                self.sequence_gaps += 1
                self.add_note(f"sequence number {number} where {expected} was to come")
        channel.next_sequence_number = number
        channel.may_lack_messages = False

    def _follow(self, channel: ObservedChannel, number: int, backlog: int, at_ns: int) -> None:
        if channel.is_blocked:
            channel.unblock(at_ns)
        if channel.next_sequence_number != number:
            self._expect(channel, number)
        channel.next_sequence_number = next_sequence_number(number)
        if backlog >= 0:
            channel.backlog_buffers = backlog
