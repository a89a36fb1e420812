"""StreamTask: one subtask of a job. It reads gates or makes records, runs a chain of operators on
them, and writes partitions.

All of it is one thread of control, as in Flink: while an output has no buffer nothing is read or
made, the buffer at hand is not given back, its producer gets no credit and in turn runs out of
buffers. So pressure travels upstream.

Records are processed a portion at a time. What operators put out is gathered and written when the
portion is done, so that serialising and dealing out work on many records; where operators take
their time, that is when this time has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.consumer import InputBuffer, InputChannel, SingleInputGate, UnionInputGate
from flinknet.core.probe import MessageKind, Probe, TracePoint, note
from flinknet.core.producer import RecordWriter
from flinknet.core.wire.events import (
    CheckpointBarrier,
    EndOfData,
    EndOfOutputChannelStateEvent,
)
from flinknet.errors import FlinknetError
from flinknet.graph.operator_chain import OperatorChain
from flinknet.tasks.checkpoints import OutputCheckpoints
from flinknet.tasks.source import SourceState
from flinknet.tasks.times import TaskTimes

from .chain_runner import MADE, ChainRunner
from .channel_input import ChannelInput, RecordBatch
from .checkpoints import TaskAcknowledgements
from .context import ProcessingContext
from .descriptor import TaskDeploymentDescriptor
from .io import TextInput
from .network_input import NetworkInput
from .operators import plain
from .output import RecordOutput
from .sinks import LatencyOperator
from .sources import RecordSource

BarrierFactory = Callable[[int, int], CheckpointBarrier]
"""Makes the barrier of a checkpoint, given its id and timestamp in ms."""


class StreamTask:
    """One attempt at a subtask (Flink: StreamTask, with its OperatorChain and mailbox).

    Args:
        names, batched: see ChainRunner.
        sources: that are in the chain, by the id of their operator.
        network_input: None for a task without gates.
        output_checkpoints: of each output, with what makes the barriers for its edge.
    """

    def __init__(
        self,
        descriptor: TaskDeploymentDescriptor,
        chain: OperatorChain,
        names: Mapping[int, str],
        batched: frozenset[str],
        sources: Mapping[str, RecordSource],
        network_input: NetworkInput | None,
        outputs: Sequence[RecordOutput],
        output_checkpoints: Sequence[tuple[OutputCheckpoints, BarrierFactory]],
        acknowledgements: TaskAcknowledgements,
        context: ProcessingContext,
        probe: Probe,
        *,
        start_ns: int,
    ) -> None:
        self.descriptor = descriptor
        self.name = descriptor.name
        self.index = descriptor.subtask
        self.state = SourceState.RUNNING
        self.times = TaskTimes(start_ns=start_ns)
        self.chain = chain
        self.outputs = tuple(outputs)
        self.network_input = network_input
        self._sources = dict(sources)
        self._output_checkpoints = tuple(output_checkpoints)
        self._acknowledgements = acknowledgements
        self._context = context
        self._record = probe.record
        self._runner = ChainRunner(descriptor.name, chain, names, batched, context)
        self._batches = self._runner.batches
        self._busy_until_ns = 0
        self._is_busy = False  # with records that are done at _busy_until_ns
        self._waiting_since_ns = -1
        self._waits_for: RecordOutput | None = None
        self._has_finished_operators = False
        self._is_closed = False
        try:
            self._runner.open()
        except FlinknetError:
            self.cancel()
            raise
        for output in self.outputs:
            if output.partition.partition_type.can_be_pipelined_consumed:
                output.partition.broadcast_event(EndOfOutputChannelStateEvent())

    # What drivers and metrics ask

    @property
    def is_finished(self) -> bool:
        """Whether its input has come to its end and the ends of its outputs were written."""
        gate = self.gate
        return self.state is SourceState.FINISHED and (gate is None or gate.is_finished)

    @property
    def is_blocked(self) -> bool:
        """Whether a writer waits for buffers."""
        return self._waiting_since_ns >= 0

    @property
    def is_ready(self) -> bool:
        """Whether a step would do something now that another task of the turn made possible."""
        gate = self.gate
        can_read = gate is not None and gate.is_available
        if self.state is SourceState.AWAITING_ACKNOWLEDGEMENT:
            return can_read or self._is_all_acknowledged
        if self.is_blocked:
            return all(output.partition.pool.is_available for output in self.outputs)
        return can_read and not self._is_busy

    @property
    def gate(self) -> SingleInputGate | UnionInputGate | None:
        """What it reads; None for a task without gates."""
        return None if self.network_input is None else self.network_input.gate

    @property
    def gates(self) -> tuple[SingleInputGate, ...]:
        """The gates of what it reads."""
        gate = self.gate
        if gate is None:
            return ()
        return (gate,) if isinstance(gate, SingleInputGate) else gate.gates

    @property
    def writers(self) -> tuple[RecordWriter, ...]:
        """What it writes with."""
        return tuple(output.writer for output in self.outputs)

    @property
    def channel_inputs(self) -> tuple[ChannelInput, ...]:
        """What it reads of each channel, in the order of its gates."""
        return () if self.network_input is None else self.network_input.sinks

    @property
    def is_source(self) -> bool:
        """Whether it has no gates."""
        return self.network_input is None

    @property
    def emitted_records(self) -> int:
        """Records that were written to its outputs."""
        return sum(output.emitted_records for output in self.outputs)

    @property
    def sent_records(self) -> dict[int, int]:
        """Records written, by index of the channel in the job."""
        return {index: n for output in self.outputs for index, n in output.sent_records.items()}

    @property
    def processed_records(self) -> int:
        """Records that were handed to the operators, from gates or sources."""
        return self._runner.processed_records

    @property
    def text_inputs(self) -> tuple[TextInput, ...]:
        """Texts that the driver has to bring."""
        return tuple(each.text for each in self._sources.values() if each.text is not None)

    @property
    def latency_operators(self) -> tuple[LatencyOperator, ...]:
        """Sinks in it that measure latency."""
        operators = plain(list(self.chain.operators.values()))
        return tuple(each for each in operators if isinstance(each, LatencyOperator))

    @property
    def is_writing_barrier(self) -> bool:
        """Whether a barrier waits, or may still time out: every step counts."""
        return any(each.is_pending for each, _ in self._output_checkpoints)

    # What drivers tell it

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int, *, now_ns: int) -> None:
        """A checkpoint has begun; to be told to every task. Those without gates write its barrier
        (Flink: triggerCheckpointAsync).
        """
        self._acknowledgements.ask(checkpoint_id)
        if self.is_source and self.state is not SourceState.FINISHED:
            self._write_outputs()
            for checkpoints, barrier_of in self._output_checkpoints:
                checkpoints.write(barrier_of(checkpoint_id, timestamp_ms), now_ns=now_ns)

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """A checkpoint was given up; its barrier may wait still (Flink:
        notifyCheckpointAborted).
        """
        self._acknowledgements.abort(checkpoint_id)
        for checkpoints, _ in self._output_checkpoints:
            checkpoints.abort(checkpoint_id)

    def stop(self) -> None:
        """Make no more records; all that were made are processed to the end (Flink: stop with
        drain).
        """
        for source in self._sources.values():
            source.stop()

    def rest(self, *, now_ns: int) -> None:
        """The driver has nothing to step it for at once: what it waits for is counted from now
        on. To be called while `times.is_busy`.
        """
        if self.is_blocked or now_ns < self._busy_until_ns:
            return
        gate = self.gate
        if not self._batches and (gate is None or not gate.is_available):
            self.times.wait(self.times.idle, now_ns=now_ns)

    def cancel(self) -> None:
        """The job ends early, or the task has failed: give back what it holds, close its
        operators. Its partitions and gates are the driver's.
        """
        self._batches.clear()
        for output in self.outputs:
            output.discard()
        self._context.pending_records = 0
        if self.network_input is not None:
            self.network_input.cancel()
        if not self._is_closed:
            self._is_closed = True
            try:
                self.chain.close()
            except Exception:  # what counts is why it was cancelled
                return

    def step(self, *, now_ns: int) -> int | None:
        """Do a bounded piece of work.

        Returns: when to step again; now_ns for at once, None for when something arrives.
        Raises: TaskFailedError naming operator and record; the error of a channel that failed.
        """
        for output in self.outputs:
            if output.flusher.is_due(now_ns=now_ns):
                output.partition.flush_all()
        self._read_mail(now_ns)
        next_ns = self._work(now_ns)
        for due_ns in self._deadlines_ns():
            if due_ns is not None and (next_ns is None or due_ns < next_ns):
                next_ns = due_ns
        return next_ns

    # How it works

    def _deadlines_ns(self) -> list[int | None]:
        found = [output.flusher.next_deadline_ns() for output in self.outputs]
        found += [each.next_deadline_ns() for each, _ in self._output_checkpoints]
        if self.network_input is not None:
            found.append(self.network_input.checkpoints.next_deadline_ns())
        return found

    def _read_mail(self, now_ns: int) -> None:
        """Before anything else, and also while an output has no buffer: priority events are read,
        and barriers time out (Flink: urgent mails).
        """
        for checkpoints, _ in self._output_checkpoints:
            if checkpoints.is_pending:
                checkpoints.advance(now_ns=now_ns)
        network_input = self.network_input
        if network_input is None:
            return
        due_ns = network_input.checkpoints.next_deadline_ns()
        if due_ns is not None and now_ns >= due_ns:
            network_input.checkpoints.handle_deadline(now_ns=now_ns)
        gate = network_input.gate
        while gate.has_priority_events:
            polled = gate.poll(now_ns)
            if polled is not None:
                self._handle_event(*polled, now_ns)

    def _work(self, now_ns: int) -> int | None:
        if now_ns < self._busy_until_ns:
            return self._busy_until_ns
        began_ns = self._busy_until_ns if self._is_busy else now_ns  # it did not wait for the loop
        self._is_busy = False
        if self.state is SourceState.RUNNING:
            if self._context.pending_records:
                self._write_outputs()
            if not self._can_write(now_ns):
                return None
            if not self._batches:
                self._give_back()
                if not self._take(now_ns):
                    return self._end_or_wait(now_ns)
            while self._batches:
                self._runner.process_portion(began_ns)
                if self._context.work_ns:
                    self._busy_until_ns = began_ns + self._context.work_ns
                    self._is_busy = True
                    return max(self._busy_until_ns, now_ns)
                self._write_outputs()
                if not self._can_write(now_ns):
                    return None
            self._give_back()
            return now_ns
        if self.state is SourceState.AWAITING_ACKNOWLEDGEMENT and self._is_all_acknowledged:
            self._finish()
        gate = self.gate
        if gate is not None and not gate.is_finished:
            polled = gate.poll(now_ns)
            if polled is not None:
                self._handle_event(*polled, now_ns)
        if self.is_finished:
            self._acknowledgements.end()
            return None
        return now_ns if gate is not None and gate.is_available else None

    def _take(self, now_ns: int) -> bool:
        """Take a buffer or an event, and what is due of sources. Returns: whether there was any."""
        has_taken = False
        network_input = self.network_input
        if network_input is not None:
            polled = network_input.gate.poll(now_ns)
            if polled is not None:
                has_taken = True
                if polled[1].data_type in IS_BUFFER:
                    self._batches.extend(network_input.take_buffer(*polled, now_ns=now_ns))
                else:
                    self._handle_event(*polled, now_ns)
        for operator_id, source in self._sources.items():
            taken = source.take(now_ns=now_ns)
            if taken is not None:
                has_taken = True
                self._batches.append(RecordBatch(operator_id, MADE, *taken))
        if has_taken and not self.times.is_busy:
            self.times.go_on(now_ns=now_ns)
        return has_taken

    def _end_or_wait(self, now_ns: int) -> int | None:
        """There was nothing to take: let the operators finish if there never will be."""
        has_ended = self.network_input is None or self.network_input.has_ended_data
        if has_ended and all(source.is_ended for source in self._sources.values()):
            return self._end_data(now_ns)
        due = (source.next_ns(now_ns=now_ns) for source in self._sources.values())
        return min((each for each in due if each is not None), default=None)

    def _end_data(self, now_ns: int) -> int:
        """The operators tell what they kept; behind that comes the end of data."""
        if not self._has_finished_operators:
            self._has_finished_operators = True
            self._runner.finish()
            self._write_outputs()
        if not any(writer.is_waiting for writer in self.writers):
            for output in self.outputs:
                output.partition.broadcast_event(EndOfData())
            self.state = SourceState.AWAITING_ACKNOWLEDGEMENT
        return now_ns

    def _finish(self) -> None:
        for output in self.outputs:
            output.partition.finish()
            output.flusher.stop()
        self.state = SourceState.FINISHED
        if not self._is_closed:
            self._is_closed = True
            self._runner.close()

    @property
    def _is_all_acknowledged(self) -> bool:
        return all(output.partition.is_all_acknowledged for output in self.outputs)

    def _write_outputs(self) -> None:
        for output in self.outputs:
            output.write()
        self._context.pending_records = 0

    def _give_back(self) -> None:
        if self.network_input is not None:
            self.network_input.give_back()

    def _handle_event(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int, now_ns: int
    ) -> None:
        assert self.network_input is not None
        self.network_input.take_event(channel, buffer, sequence_number, now_ns=now_ns)

    def _can_write(self, now_ns: int) -> bool:
        """Go on with what found no buffer. Returns: whether new records may be written."""
        waits_for = None
        for output in self.outputs:
            if output.writer.is_waiting:
                output.writer.resume()
            if waits_for is None and not output.writer.is_available:
                waits_for = output
        if waits_for is not None:
            if self._waiting_since_ns < 0:
                self._waits_for = waits_for
                self._note_waiting(TracePoint.WRITER_WAITS, waits_for, now_ns)
                self._waiting_since_ns = now_ns
            self.times.wait_for_output(waits_for.writer.is_inside_record, now_ns=now_ns)
            return False
        if self._waits_for is not None:
            self._note_waiting(TracePoint.WRITER_RESUMES, self._waits_for, now_ns)
            self._waits_for = None
            self._waiting_since_ns = -1
            self.times.go_on(now_ns=now_ns)
        return True

    def _note_waiting(self, point: int, output: RecordOutput, now_ns: int) -> None:
        pool = output.partition.pool
        note(
            self._record,
            now_ns,
            output.channels[0],
            point,
            MessageKind.BUFFER_RESPONSE,
            records=-1,
            pool=(pool.available_buffers, pool.size_buffers),
        )
