# mypyc
"""SinkTask: reads its gate buffer by buffer, hands records to sinks, answers events, recycles."""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.config import NetworkConfig, SlowConsumer
from flinknet.core.buffers import NetworkBuffer
from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.consumer import (
    InputBuffer,
    InputChannel,
    SingleInputGate,
    SpillStore,
    UnionInputGate,
)
from flinknet.core.probe import MessageKind, Probe, TracePoint
from flinknet.workload.sink import LatencySink

from .checkpoints import InputCheckpoints
from .deployment import sink_name
from .reading import ReadingTask

_CONSUMED = int(TracePoint.CONSUMED)
_BUFFER_RESPONSE = int(MessageKind.BUFFER_RESPONSE)

_ReadRun = tuple[int, int, int, int, int, Sequence[tuple[int, int, int]]]
"""When it was begun, channel, data type, first sequence number and size of its buffers; and for
each buffer the number of the records that end in it, and the instants of the first and the last."""

PAUSED_NS = -1
"""Delay of a consumer that takes nothing at all."""


class SinkTask(ReadingTask[LatencySink, InputCheckpoints]):
    """One consuming subtask.

    A delay for each record makes the task busy until an instant; it keeps the buffer until then, as
    a task thread would, and the event loop serves the others meanwhile.

    Args:
        sinks: one for each channel of the gate, in its order.
        delay_ns_per_record: time each record takes; PAUSED_NS to read nothing until `unpause`
            but the end of recovery: without it the producers would send nothing at all.
        checkpoints: what barriers mean; None for a task that nobody asks for checkpoints.
        spills: takes records that are too long for memory; None to keep all of them there.
        takes_runs: while it has no delay, a step takes all the data that waits and lies end to end,
            not one buffer only.
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
        takes_runs: bool = False,
        start_ns: int = 0,
    ) -> None:
        super().__init__(
            index,
            gate,
            sinks,
            probe,
            checkpoints or InputCheckpoints(sink_name(index), gate, NetworkConfig()),
            spills=spills,
            start_ns=start_ns,
        )
        self.name = sink_name(index)
        self.is_paused = delay_ns_per_record == PAUSED_NS
        self._delay_ns = max(delay_ns_per_record, 1)
        self._may_take_runs = takes_runs
        self._takes_runs = takes_runs and delay_ns_per_record <= 0
        self._mail_ns: int | None = None
        self._timeout_ns: int | None = None  # of the alignment that goes on
        self._is_recovering = True  # until data comes or every channel has told its recovery
        self._busy_until_ns = 0
        self._unnoted: _ReadRun | None = None

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

    def rest(self, *, now_ns: int) -> None:
        """The driver has nothing to step it for at once: what it waits for is counted from now
        on. To be called while `times.is_busy`. A paused consumer is busy.
        """
        if self._unnoted is not None:
            self._note_run(now_ns)
        if self._held is None and not self.is_paused and not self.gate.is_available:
            self.times.wait(self.times.idle, now_ns=now_ns)

    def cancel(self) -> None:
        """The job ends early: give back the buffer that is held."""
        if self._unnoted is not None:
            self._note_run(self._unnoted[0])
        super().cancel()

    def set_delay(self, delay_ns_per_record: int) -> None:
        """Take so long over each record from now on; PAUSED_NS to read nothing."""
        self.is_paused = delay_ns_per_record == PAUSED_NS
        self._delay_ns = max(delay_ns_per_record, 1)
        self._takes_runs = self._may_take_runs and delay_ns_per_record <= 0
        for sink in self.sinks:
            sink.set_delay(max(delay_ns_per_record, 0))

    def unpause(self) -> None:
        """Read from now on."""
        self.is_paused = False

    def step(self, *, now_ns: int) -> int | None:
        """Take one buffer or event.

        Returns: when to step again; now_ns for at once, None for when something arrives.
        Raises: the error of a channel that failed.
        """
        if self._unnoted is not None:
            self._note_run(now_ns)
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
            run = self.gate.poll_run(*polled) if self._takes_runs else None
            if run:
                self._take_run(channel, run, sequence_number, now_ns)
                return now_ns if self.gate.is_available else self._timeout_ns
            done_ns, _ = self._take_records(channel, buffer, sequence_number, now_ns)
            if done_ns > now_ns:
                self._busy_until_ns = done_ns
                self._held = buffer
                timeout_ns = self._timeout_ns
                return done_ns if timeout_ns is None else min(done_ns, timeout_ns)
            buffer.recycle()
        else:
            self._handle_event(channel, buffer, sequence_number, now_ns)
        return now_ns if self.gate.is_available else self._timeout_ns

    def _take_run(
        self, channel: InputChannel, run: Sequence[NetworkBuffer], sequence_number: int, now_ns: int
    ) -> None:
        """Read data buffers that lie end to end as one stretch of bytes, and recycle them.

        For latencies all of them begin at `now_ns`. Their rows are written when it is known how
        long they took together.
        """
        assert not channel.is_local
        index, size = channel.index_in_input, run[0].size_bytes
        payload = run[0].segment.with_neighbours(len(run))
        self._read_bytes[index] += len(payload)
        reader, sink = self._readers[index], self.sinks[index]
        records = reader.read(payload)
        sink.receive(records, now_ns=now_ns)
        carried = sink.carried(reader.count_ends(records, payload, size))
        self._unnoted = (now_ns, channel.index, run[0].data_type, sequence_number, size, carried)
        channel.buffers.recycle_run(run)

    def _note_run(self, now_ns: int) -> None:
        """Write the rows of the run that is done now: each buffer took the same part of the
        time.
        """
        assert self._unnoted is not None
        begun_ns, channel, data_type, sequence_number, size, carried = self._unnoted
        self._unnoted = None
        record, took_ns = self._record, (now_ns - begun_ns) // len(carried)
        for records, first_ns, last_ns in carried:
            record(
                begun_ns,
                channel,
                _CONSUMED,
                _BUFFER_RESPONSE,
                data_type,
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
            begun_ns += took_ns
            sequence_number += 1

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

    def _handle_event(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int, now_ns: int
    ) -> None:
        self._take_event(channel, buffer, sequence_number, now_ns)
        self._timeout_ns = self._checkpoints.next_deadline_ns()
        if self._checkpoints.is_recovered:
            self._is_recovering = False


def delay_of(consumer: int, slow_consumers: tuple[SlowConsumer, ...]) -> int:
    """The delay per record that a consumer begins with: 0 for those that are not slow, or only for
    a while, which is a part of the measured one.
    """
    for slow in slow_consumers:
        if slow.index == consumer:
            return slow.delay_ns_per_record if slow.slow_ns is None else 0
    return 0
