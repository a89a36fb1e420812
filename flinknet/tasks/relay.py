# mypyc
"""RelayTask: a task between source and sink; what it reads from a gate it writes to a partition.

Reader, operator and writer are one thread of control, as in Flink: while the output has no buffer
nothing is read, the buffer at hand is not given back, its producer gets no credit and in turn runs
out of buffers. So pressure travels upstream.
"""

from __future__ import annotations

from collections import deque

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.consumer import (
    InputBuffer,
    InputChannel,
    RecordRun,
    SingleInputGate,
    SpillStore,
    UnionInputGate,
)
from flinknet.core.probe import MessageKind, Probe, TracePoint, note
from flinknet.core.producer import OutputFlusher, RecordWriter, SerializedRecords
from flinknet.core.wire.events import EndOfData, EndOfOutputChannelStateEvent
from flinknet.workload.forward import RecordForwarder
from flinknet.workload.sink import LatencySink

from .checkpoints import ForwardingCheckpoints
from .partitioners import sent_by_channel
from .reading import ReadingTask
from .source import SourceState

PORTION_NS = 1_000_000
"""A relay that takes its time emits what it worked on for so long, not a whole buffer at once."""


class RelayTask(ReadingTask[LatencySink, ForwardingCheckpoints]):
    """One subtask that passes records on (Flink: OneInputStreamTask around an identity map).

    Args:
        index: subtask of its vertex.
        edges: index of the edge it reads and of the one it writes.
        sinks: one for each channel of the gate; they check and time what arrives here.
        forwarder: numbers the records of each channel of the partition.
        channels: indices of the partition's channels in the run, for the probe.
        checkpoints: what barriers mean, and how they go on.
        delay_ns_per_record: time each record takes.
        spills: takes records that are too long for memory; None to keep all of them there.
        start_ns: when it starts.
        name: by which it is told.
    """

    def __init__(
        self,
        index: int,
        edges: tuple[int, int],
        gate: SingleInputGate | UnionInputGate,
        sinks: tuple[LatencySink, ...],
        writer: RecordWriter,
        forwarder: RecordForwarder,
        flusher: OutputFlusher,
        probe: Probe,
        channels: tuple[int, ...],
        checkpoints: ForwardingCheckpoints,
        *,
        name: str,
        delay_ns_per_record: int = 0,
        spills: SpillStore | None = None,
        start_ns: int = 0,
    ) -> None:
        super().__init__(index, gate, sinks, probe, checkpoints, spills=spills, start_ns=start_ns)
        self.name = name
        self.input_edge, self.output_edge = edges
        self.state = SourceState.RUNNING
        self.emitted_records = 0
        self._writer = writer
        self._partition = writer.partition
        self._forwarder = forwarder
        self._flusher = flusher
        self._channels = channels
        self._delay_ns = delay_ns_per_record
        self._portion_records = max(1, PORTION_NS // max(1, delay_ns_per_record))
        self._runs: deque[RecordRun] = deque()
        self._busy_until_ns = 0
        self._working_on = 0  # records that are done at _busy_until_ns
        self._waiting_since_ns = -1
        if self._partition.partition_type.can_be_pipelined_consumed:  # others recover nothing
            self._partition.broadcast_event(EndOfOutputChannelStateEvent())

    @property
    def is_finished(self) -> bool:
        """Whether its input has come to its end and the end of its output was written."""
        return self.state is SourceState.FINISHED and self.gate.is_finished

    @property
    def is_blocked(self) -> bool:
        """Whether the writer waits for buffers."""
        return self._waiting_since_ns >= 0

    @property
    def is_ready(self) -> bool:
        """Whether a step would do something now that another task of the turn made possible."""
        if self.state is SourceState.AWAITING_ACKNOWLEDGEMENT:
            return self._partition.is_all_acknowledged or self.gate.is_available
        if self.is_blocked:
            return self._partition.pool.is_available
        return self._held is None and self.gate.is_available

    @property
    def sent_records(self) -> dict[int, int]:
        """Records emitted to each channel of the partition."""
        return sent_by_channel(self._forwarder.numbers, len(self._channels))

    @property
    def writer(self) -> RecordWriter:
        """What it writes with."""
        return self._writer

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """A checkpoint was given up before its barrier came, or after (Flink:
        notifyCheckpointAborted).
        """
        self._checkpoints.outputs.abort(checkpoint_id)

    def rest(self, *, now_ns: int) -> None:
        """The driver has nothing to step it for at once: what it waits for is counted from now
        on. To be called while `times.is_busy`.
        """
        if self._held is None and not self.is_blocked and not self.gate.is_available:
            self.times.wait(self.times.idle, now_ns=now_ns)

    def cancel(self) -> None:
        """The job ends early: give back the buffer that is held."""
        self._runs.clear()
        super().cancel()

    def step(self, *, now_ns: int) -> int | None:
        """Do a bounded piece of work.

        Returns: when to step again; now_ns for at once, None for when the network has moved.
        Raises: the error of a channel that failed.
        """
        if self._flusher.is_due(now_ns=now_ns):
            self._partition.flush_all()
        self._read_mail(now_ns)
        next_ns = self._work(now_ns)
        named = (
            next_ns,
            self._flusher.next_deadline_ns(),
            self._checkpoints.next_deadline_ns(),
            self._checkpoints.outputs.next_deadline_ns(),
        )
        return min((each for each in named if each is not None), default=None)

    def _read_mail(self, now_ns: int) -> None:
        """Before anything else, and also while the output has no buffer: priority events are read,
        and barriers time out (Flink: urgent mails).
        """
        checkpoints = self._checkpoints
        if checkpoints.outputs.is_pending:
            checkpoints.outputs.advance(now_ns=now_ns)
        due_ns = checkpoints.next_deadline_ns()
        if due_ns is not None and now_ns >= due_ns:
            checkpoints.handle_deadline(now_ns=now_ns)
        while self.gate.has_priority_events:
            polled = self.gate.poll(now_ns)
            if polled is not None:
                self._handle_event(*polled, now_ns)

    def _work(self, now_ns: int) -> int | None:
        if self.state is SourceState.AWAITING_ACKNOWLEDGEMENT and (
            self._partition.is_all_acknowledged
        ):
            self._partition.finish()
            self._flusher.stop()
            self.state = SourceState.FINISHED
        if self.state is SourceState.RUNNING and not self._can_write(now_ns):
            return None
        if self._held is None:
            polled = self.gate.poll(now_ns)
            if polled is None:
                return None
            if not self.times.is_busy:
                self.times.go_on(now_ns=now_ns)
            channel, buffer, sequence_number = polled
            if buffer.data_type in IS_BUFFER:
                _, runs = self._take_records(channel, buffer, sequence_number, now_ns)
                self._runs.extend(runs)
                self._held = buffer
            else:
                self._handle_event(channel, buffer, sequence_number, now_ns)
        while self._runs:
            if not self._working_on:
                self._begin_portion(now_ns)
            if now_ns < self._busy_until_ns:
                return self._busy_until_ns
            self._emit_portion()
            if not self._can_write(now_ns):
                return None
        if self._held is not None:
            self._held.recycle()
            self._held = None
        return now_ns if self.gate.is_available else None

    def _can_write(self, now_ns: int) -> bool:
        """Go on with what found no buffer. Returns: whether new records may be written."""
        writer = self._writer
        if writer.is_waiting:
            writer.resume()
        if not writer.is_available:
            if self._waiting_since_ns < 0:
                self._note_waiting(TracePoint.WRITER_WAITS, now_ns)
                self._waiting_since_ns = now_ns
            self.times.wait_for_output(writer.is_inside_record, now_ns=now_ns)
            return False
        if self._waiting_since_ns >= 0:
            self._note_waiting(TracePoint.WRITER_RESUMES, now_ns)
            self._waiting_since_ns = -1
            self.times.go_on(now_ns=now_ns)
        return True

    def _begin_portion(self, now_ns: int) -> None:
        """Work on the next records of a run; sets when they are done."""
        count = self._runs[0][2]
        if self._delay_ns:
            count = min(count, self._portion_records)
        self._working_on = count
        self._busy_until_ns = now_ns + count * self._delay_ns

    def _emit_portion(self) -> None:
        """Write the records that were worked on."""
        count, self._working_on = self._working_on, 0
        memory, offset, of_run, record_bytes = self._runs.popleft()
        if count < of_run:
            rest = (memory, offset + count * record_bytes, of_run - count, record_bytes)
            self._runs.appendleft(rest)
        self.emitted_records += count
        forwarder, selector = self._forwarder, self._writer.selector
        keys = None
        if selector.needs_keys:
            keys = forwarder.keys(memory, offset, count, record_bytes)
        for channel, picked in selector.split(count, keys):
            data, instants = forwarder.copy(memory, offset, count, record_bytes, channel, picked)
            self._writer.emit(channel, SerializedRecords(data, instants, record_bytes=record_bytes))

    def _handle_event(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int, now_ns: int
    ) -> None:
        """Ends and barriers go on when every channel has brought them; each is answered here."""
        event = self._take_event(channel, buffer, sequence_number, now_ns)
        has_ended = self._checkpoints.ended_data_channels == len(self.gate.channels)
        if isinstance(event, EndOfData) and has_ended:
            self._partition.broadcast_event(event)
            self.state = SourceState.AWAITING_ACKNOWLEDGEMENT

    def _note_waiting(self, point: int, now_ns: int) -> None:
        pool = self._partition.pool
        note(
            self._record,
            now_ns,
            self._channels[0],
            point,
            MessageKind.BUFFER_RESPONSE,
            records=-1,
            pool=(pool.available_buffers, pool.size_buffers),
        )
