# mypyc
"""ReadingTask: what tasks with an input have in common, from its gate to the records and events.

A base class and not a part, so that a buffer costs no call for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

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
from flinknet.core.probe import MessageKind, Probe, TracePoint, note
from flinknet.core.wire.events import CheckpointBarrier, Event, EventAnnouncement, decode_event

from .checkpoints import InputCheckpoints
from .times import TaskTimes

_PRIORITIZED_EVENT = int(DataType.PRIORITIZED_EVENT_BUFFER)
_CONSUMED = int(TracePoint.CONSUMED)
_BUFFER_RESPONSE = int(MessageKind.BUFFER_RESPONSE)


class RecordReceiver(Protocol):
    """Takes the records of a channel (workload.sink.LatencySink is one)."""

    received_records: int
    """Of the last buffer."""

    first_record_ns: int
    last_record_ns: int
    """Instants of the first and the last of them; -1 where they have none."""

    def receive(self, runs: Sequence[RecordRun], *, now_ns: int) -> int:
        """Take the records of a buffer, of which some end in it. Returns: when that is done."""


SinkT = TypeVar("SinkT", bound=RecordReceiver)
CheckpointsT = TypeVar("CheckpointsT", bound=InputCheckpoints)


class ReadingTask(Generic[SinkT, CheckpointsT]):
    """Reads records and events of one input (Flink: AbstractStreamTaskNetworkInput).

    Args:
        index: subtask of its vertex.
        sinks: one for each channel of the gate, in its order; they check and time what arrives.
        checkpoints: what events mean.
        spills: takes records that are too long for memory; None to keep all of them there.
        start_ns: when it starts.
    """

    def __init__(
        self,
        index: int,
        gate: SingleInputGate | UnionInputGate,
        sinks: tuple[SinkT, ...],
        probe: Probe,
        checkpoints: CheckpointsT,
        *,
        spills: SpillStore | None,
        start_ns: int,
    ) -> None:
        self.index = index
        self.gate = gate
        self.sinks = sinks
        self.times = TaskTimes(start_ns=start_ns)
        self._record = probe.record
        self._readers = tuple(RecordReader(spills) for _ in sinks)
        self._checkpoints = checkpoints
        self._read_bytes = checkpoints.read_bytes
        self._held: InputBuffer | None = None

    @property
    def checkpoints(self) -> CheckpointsT:
        """What it knows of checkpoints, and how much it has read."""
        return self._checkpoints

    def cancel(self) -> None:
        """The job ends early: give back the buffer that is held."""
        if self._held is not None:
            self._held.recycle()
            self._held = None
        for reader in self._readers:
            reader.release()

    def _take_records(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int, now_ns: int
    ) -> tuple[int, list[RecordRun]]:
        """Read a data buffer. Returns: when the sink is done with its records, and where they lie;
        those in the buffer until it is recycled.
        """
        index = channel.index_in_input
        size = buffer.size_bytes
        self._read_bytes[index] += size
        runs = self._readers[index].read(buffer.view[:size])
        records, first_ns, last_ns, done_ns = 0, -1, -1, now_ns
        if runs:
            sink = self.sinks[index]
            done_ns = sink.receive(runs, now_ns=now_ns)
            records = sink.received_records
            first_ns, last_ns = sink.first_record_ns, sink.last_record_ns
        self._record(
            done_ns,
            channel.index,
            _CONSUMED,
            _BUFFER_RESPONSE,
            buffer.data_type,
            0,
            sequence_number,
            size,
            records,
            first_ns,
            last_ns,
            -1,
            -1,
            -1,
            -1,
            -1,
            -1,
        )
        return done_ns, runs

    def _take_event(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int, now_ns: int
    ) -> Event:
        """Read an event, and let the checkpoints act on it."""
        event = decode_event(buffer.payload)
        data_type, size = buffer.data_type, buffer.size_bytes
        buffer.recycle()
        if data_type != _PRIORITIZED_EVENT:  # those may overtake parts of records
            self._readers[channel.index_in_input].check_between_records(channel.index)
        if not isinstance(event, EventAnnouncement):  # of which the network knows nothing
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
        self._checkpoints.handle(event, data_type, channel, sequence_number, now_ns=now_ns)
        return event
