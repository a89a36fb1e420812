# mypyc
"""NetworkInput: turns the buffers of a task's gates into work for its chain.

A base class rather than a member of the task's inputs, so that a buffer costs no extra call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from flinknet.core.buffers.data_type import DataType
from flinknet.core.consumer import (
    InputBuffer,
    InputChannel,
    RecordReader,
    RecordRun,
    SingleInputGate,
    SpillStore,
    UnionInputGate,
)
from flinknet.core.consumer.input_gate import RECOVERED
from flinknet.core.probe import MessageKind, Probe, TracePoint, note, note_consumed
from flinknet.core.wire.checkpoint_barrier import CheckpointBarrier
from flinknet.core.wire.events import (
    EndOfInputChannelStateEvent,
    Event,
    EventAnnouncement,
    decode_event,
)

from .barriers import InputCheckpoints
from .channel_input import ChannelInput
from .load.sink import LatencySink

_PRIORITIZED_EVENT = int(DataType.PRIORITIZED_EVENT_BUFFER)
_CONSUMED = int(TracePoint.CONSUMED)
_BUFFER_RESPONSE = int(MessageKind.BUFFER_RESPONSE)

Polled = tuple[InputChannel, InputBuffer, int]
"""A buffer or event from a gate: channel, buffer, sequence number."""


ReceiverT = TypeVar("ReceiverT", bound=ChannelInput | LatencySink)
"""Takes the records of a channel: for the operators of a program, or to check and time them."""


class NetworkInput(Generic[ReceiverT]):
    """Reads the input of a task (Flink: AbstractStreamTaskNetworkInput).

    Attributes:
        receivers: one per channel of the gate, in its order.
        has_ended_data: whether the records of every channel have been read.
        timeout_ns: when the current alignment times out; None if there is none.
        is_paused: whether `poll` returns nothing although the gate is available.

    Args:
        spills: takes records too long for memory; None to keep all records in memory.
    """

    def __init__(
        self,
        gate: SingleInputGate | UnionInputGate,
        receivers: tuple[ReceiverT, ...],
        probe: Probe,
        checkpoints: InputCheckpoints,
        *,
        spills: SpillStore | None,
    ) -> None:
        self.gate = gate
        self.receivers = receivers
        self.checkpoints = checkpoints
        self.has_ended_data = False
        self.timeout_ns: int | None = None
        self.is_paused = False
        self._record = probe.record
        self._readers = tuple(RecordReader(spills) for _ in receivers)
        self._read_bytes = checkpoints.read_bytes
        self._held: InputBuffer | None = None

    @property
    def is_available(self) -> bool:
        return self.gate.is_available

    def poll(self, now_ns: int) -> Polled | None:
        """The next buffer or event; None if there is none, or the input is paused."""
        return self.gate.poll(now_ns)

    def take_buffer(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int, now_ns: int
    ) -> Sequence[Any]:
        """Split a data buffer, which is held until `give_back`, into batches for the chain."""
        raise NotImplementedError

    def take_event(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int, now_ns: int
    ) -> Event:
        """Decode an event and handle it."""
        data_type, size = buffer.data_type, buffer.size_bytes
        try:
            event = decode_event(buffer.payload)
        finally:
            buffer.recycle()
        if sequence_number == RECOVERED and isinstance(event, EndOfInputChannelStateEvent):
            self.gate.end_recovered_state(channel)  # that of a producer means nothing, as in Flink
            return event
        if data_type != _PRIORITIZED_EVENT:  # priority events may arrive inside a record
            self._readers[channel.index_in_input].check_between_records(channel.index)
        if not isinstance(event, EventAnnouncement):  # never sent over the network
            note(
                self._record,
                now_ns,
                channel.index,
                _CONSUMED,
                _BUFFER_RESPONSE,
                data_type=data_type,
                sequence_number=sequence_number,
                payload_bytes=size,
                value=event.checkpoint_id if isinstance(event, CheckpointBarrier) else -1,
            )
        self.checkpoints.handle(event, data_type, channel, sequence_number, now_ns=now_ns)
        self.timeout_ns = self.checkpoints.next_deadline_ns()
        self.has_ended_data = self.checkpoints.ended_data_channels == len(self._readers)
        return event

    def handle_timeout(self, now_ns: int) -> None:
        """Time out the alignment: go on unaligned."""
        self.checkpoints.handle_deadline(now_ns=now_ns)
        self.timeout_ns = self.checkpoints.next_deadline_ns()

    def give_back(self) -> None:
        if self._held is not None:
            self._held.recycle()
            self._held = None

    def note_taken(self, now_ns: int) -> None:
        """Write trace rows that waited until the records taken were processed."""

    def cancel(self) -> None:
        """Release the held buffer and unfinished records."""
        self.give_back()
        for reader in self._readers:
            reader.release()

    def _take_records(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int, now_ns: int
    ) -> tuple[int, list[RecordRun]]:
        """Read a data buffer, and hold it. Returns: when the receiver is done with its records, and
        the records, which may lie in the buffer until it is recycled.
        """
        self._held = buffer
        index = channel.index_in_input
        size = buffer.size_bytes
        self._read_bytes[index] += size
        runs = self._readers[index].read(buffer.view[:size])
        records, first_ns, last_ns, done_ns = 0, -1, -1, now_ns
        if runs:
            receiver = self.receivers[index]
            done_ns = receiver.receive(runs, now_ns=now_ns)
            records = receiver.received_records
            first_ns, last_ns = receiver.first_record_ns, receiver.last_record_ns
        note_consumed(
            self._record,
            done_ns,
            channel.index,
            data_type=buffer.data_type,
            sequence_number=sequence_number,
            payload_bytes=size,
            records=records,
            first_record_ns=first_ns,
            last_record_ns=last_ns,
        )
        return done_ns, runs


class ElementInput(NetworkInput[ChannelInput]):
    """Reads stream elements for the operators of a program (Flink: StreamTaskNetworkInput)."""

    def take_buffer(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int, now_ns: int
    ) -> Sequence[Any]:
        _, runs = self._take_records(channel, buffer, sequence_number, now_ns)
        return self.receivers[channel.index_in_input].batches if runs else ()
