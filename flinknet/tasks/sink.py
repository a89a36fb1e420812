"""SinkTask: reads its gate buffer by buffer, hands records to sinks, answers events, recycles."""

from __future__ import annotations

from flinknet.config import NetworkConfig, SlowConsumer
from flinknet.core.buffers.data_type import IS_BUFFER, DataType
from flinknet.core.consumer import (
    InputBuffer,
    InputChannel,
    RecordReader,
    SingleInputGate,
    SpillStore,
    UnionInputGate,
)
from flinknet.core.probe import MessageKind, Probe, TracePoint, note
from flinknet.core.wire.events import (
    CheckpointBarrier,
    EventAnnouncement,
    decode_event,
)
from flinknet.workload.sink import LatencySink

from .checkpoints import InputCheckpoints, sink_name
from .times import TaskTimes

PAUSED_NS = -1
"""Delay of a consumer that takes nothing at all."""

_PRIORITIZED_EVENT = int(DataType.PRIORITIZED_EVENT_BUFFER)
_CONSUMED = int(TracePoint.CONSUMED)
_BUFFER_RESPONSE = int(MessageKind.BUFFER_RESPONSE)


class SinkTask:
    """One consuming subtask.

    A delay for each record makes the task busy until an instant; it keeps the buffer until then, as
    a task thread would, and the event loop serves the others meanwhile.

    Args:
        sinks: one for each channel of the gate, in its order.
        delay_ns_per_record: time each record takes; PAUSED_NS to read nothing until `unpause`
            but the end of recovery: without it the producers would send nothing at all.
        checkpoints: what barriers mean; None for a task that nobody asks for checkpoints.
        spills: takes records that are too long for memory; None to keep all of them there.
        start_ns: when it starts.
    """

    def __init__(
        self,
        index: int,
        gate: SingleInputGate | UnionInputGate,
        sinks: tuple[LatencySink, ...],
        probe: Probe,
        *,
        delay_ns_per_record: int = 0,
        checkpoints: InputCheckpoints | None = None,
        spills: SpillStore | None = None,
        start_ns: int = 0,
    ) -> None:
        self.index = index
        self.name = sink_name(index)
        self.gate = gate
        self.sinks = sinks
        self.is_paused = delay_ns_per_record == PAUSED_NS
        self._record = probe.record
        self._readers = tuple(RecordReader(spills) for _ in sinks)
        self._checkpoints = checkpoints or InputCheckpoints(sink_name(index), gate, NetworkConfig())
        self._read_bytes = self._checkpoints.read_bytes
        self._delay_ns = max(delay_ns_per_record, 1)
        self._mail_ns: int | None = None
        self._timeout_ns: int | None = None  # of the alignment that goes on
        self._is_recovering = True  # until data comes or every channel has told its recovery
        self._busy_until_ns = 0
        self._held: InputBuffer | None = None
        self.times = TaskTimes(start_ns=start_ns)

    @property
    def ended_data_channels(self) -> int:
        """Channels whose records have all been read."""
        return self._checkpoints.ended_data_channels

    @property
    def is_finished(self) -> bool:
        """Whether every channel has come to its end."""
        return self.gate.is_finished

    @property
    def is_available(self) -> bool:
        """Whether a step would do something now or at a known instant."""
        is_reading = self._is_recovering or not self.is_paused
        return self._held is not None or (self.gate.is_available and is_reading)

    @property
    def is_blocked(self) -> bool:
        """A sink writes nothing, so it never waits for buffers."""
        return False

    @property
    def is_ready(self) -> bool:
        """Whether a step would do something now that another task of the turn made possible."""
        return (
            self._held is None
            and self.gate.is_available
            and (self._is_recovering or not self.is_paused)
        )

    @property
    def checkpoints(self) -> InputCheckpoints:
        """What it knows of checkpoints, and how much it has read."""
        return self._checkpoints

    def rest(self, *, now_ns: int) -> None:
        """The driver has nothing to step it for at once: what it waits for is counted from now
        on. To be called while `times.is_busy`. A paused consumer is busy.
        """
        if self._held is None and not self.is_paused and not self.gate.is_available:
            self.times.wait(self.times.idle, now_ns=now_ns)

    def set_delay(self, delay_ns_per_record: int) -> None:
        """Take so long over each record from now on; PAUSED_NS to read nothing."""
        self.is_paused = delay_ns_per_record == PAUSED_NS
        self._delay_ns = max(delay_ns_per_record, 1)
        for sink in self.sinks:
            sink.set_delay(max(delay_ns_per_record, 0))

    def unpause(self) -> None:
        """Read from now on."""
        self.is_paused = False

    def cancel(self) -> None:
        """The job ends early: give back the buffer that is held."""
        if self._held is not None:
            self._held.recycle()
            self._held = None
        for reader in self._readers:
            reader.release()

    def step(self, *, now_ns: int) -> int | None:
        """Take one buffer or event.

        Returns: when to step again; now_ns for at once, None for when something arrives.
        Raises: the error of a channel that failed.
        """
        if now_ns < self._busy_until_ns:
            return self._read_mail(now_ns)
        if self._held is not None:
            self._held.recycle()
            self._held = None
        if self.is_paused and not self._is_recovering:
            return None
        if self._timeout_ns is not None and now_ns >= self._timeout_ns:
            self._handle_timeout(now_ns)
        polled = self.gate.poll(now_ns)
        if polled is None:
            return self._timeout_ns
        if not self.times.is_busy:
            self.times.go_on(now_ns=now_ns)
        channel, buffer, sequence_number = polled
        if buffer.data_type in IS_BUFFER:
            self._is_recovering = False
            done_ns = self._take_records(channel, buffer, sequence_number, now_ns)
            if done_ns > now_ns:
                self._busy_until_ns = done_ns
                self._held = buffer
                timeout_ns = self._timeout_ns
                return done_ns if timeout_ns is None else min(done_ns, timeout_ns)
            buffer.recycle()
        else:
            self._handle_event(channel, buffer, sequence_number, now_ns)
        return now_ns if self.gate.is_available else self._timeout_ns

    def _read_mail(self, now_ns: int) -> int:
        """While a buffer is worked on: priority events are read, and an alignment times out, after
        the record that is in work (Flink: urgent mails).

        Returns: when to step again.
        """
        is_late = self._timeout_ns is not None and now_ns >= self._timeout_ns
        if not is_late and not self.gate.has_priority_events:
            busy_until_ns, timeout_ns = self._busy_until_ns, self._timeout_ns
            return busy_until_ns if timeout_ns is None else min(busy_until_ns, timeout_ns)
        if self._mail_ns is None:
            records_left = (self._busy_until_ns - now_ns) // self._delay_ns
            self._mail_ns = self._busy_until_ns - records_left * self._delay_ns
        if now_ns < self._mail_ns:
            return self._mail_ns
        self._mail_ns = None
        if is_late:
            self._handle_timeout(now_ns)
        while self.gate.has_priority_events:
            polled = self.gate.poll(now_ns)
            if polled is not None:
                self._handle_event(*polled, now_ns)
        return self._busy_until_ns

    def _handle_timeout(self, now_ns: int) -> None:
        self._checkpoints.handle_deadline(now_ns=now_ns)
        self._timeout_ns = self._checkpoints.next_deadline_ns()

    def _take_records(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int, now_ns: int
    ) -> int:
        index = channel.index_in_input
        sink = self.sinks[index]
        size = buffer.size_bytes
        self._read_bytes[index] += size
        runs = self._readers[index].read(buffer.view[:size])
        records, first_ns, last_ns, done_ns = 0, -1, -1, now_ns
        if runs:
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
        return done_ns

    def _handle_event(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int, now_ns: int
    ) -> None:
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
        checkpoints = self._checkpoints
        checkpoints.handle(event, data_type, channel, sequence_number, now_ns=now_ns)
        self._timeout_ns = checkpoints.next_deadline_ns()
        if checkpoints.is_recovered:
            self._is_recovering = False


def delay_of(consumer: int, slow_consumers: tuple[SlowConsumer, ...]) -> int:
    """The delay per record that a consumer begins with: 0 for those that are not slow, or only for
    a while, which is a part of the measured one.
    """
    for slow in slow_consumers:
        if slow.index == consumer:
            return slow.delay_ns_per_record if slow.slow_ns is None else 0
    return 0
