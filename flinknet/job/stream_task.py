# mypyc
"""StreamTask: one subtask of a job. It reads gates or makes records, runs a chain of operators on
them, and writes partitions.

All of it is one thread of control, as in Flink: while an output has no buffer nothing is read or
made, the buffer at hand is not given back, its producer gets no credit and in turn runs out of
buffers. So pressure travels upstream.

Operators that call functions of the program may be handed over to a `TaskWorker`, a thread. Until
it gives them back the task is in work as one whose records take virtual time is: it flushes, and
it lets barriers time out, but it reads and writes nothing. Mail asks for them back after the record
at hand.

Records are processed a portion at a time. What operators put out is gathered and written when the
portion is done, so that serialising and dealing out work on many records; where operators take
their time, that is when this time has passed.

There are two kinds of chain. Those of programs (`ChainRunner`) hand values to operators; those of
the load generator (`load`) move runs of serialised records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.consumer import SingleInputGate, UnionInputGate
from flinknet.core.probe import MessageKind, Probe, TracePoint, note
from flinknet.core.producer import RecordWriter
from flinknet.core.wire.events import (
    CheckpointBarrier,
    EndOfData,
    EndOfOutputChannelStateEvent,
    OtherEvent,
)
from flinknet.errors import FlinknetError, TaskFailedError
from flinknet.graph.operator_output import TaskEvent

from .barriers import OutputCheckpoints
from .checkpoint_coordinator import AbortCheckpoint, Command
from .checkpoints import TaskAcknowledgements
from .context import ProcessingContext
from .io import TextInput
from .network_input import NetworkInput, Polled
from .sources import RecordSource
from .task_chain import NEVER_NS, PORTION_RECORDS, TaskChain
from .task_output import TaskOutput
from .task_worker import TaskWorker
from .times import TaskTimes

BarrierFactory = Callable[[int, int], CheckpointBarrier]
"""Makes the barrier of a checkpoint, given its id and timestamp in ms."""

STEPS_PER_TURN = 3
"""Steps of a task in one turn of its event loop. Few, so that credit and data leave while the other
side still has work; not one, so that an AddCredit speaks for more than one buffer. GB/s at 100-byte
records, with batches of 128 KiB: 0.9 with 1, 1.05 with 2, 1.2 with 3."""

WAITING_BATCHES_MAX = 1024
"""With so many in a writer that waits for buffers, timers wait, too."""

HAND_BACK_NS = 5_000_000
"""A worker that has had its records for so long is asked for what it has put out: where a function
takes its time, that is after each record."""

_BUFFER_RESPONSE = int(MessageKind.BUFFER_RESPONSE)


class TaskState(Enum):
    """Life of a task."""

    RUNNING = "running"
    AWAITING_ACKNOWLEDGEMENT = "awaiting acknowledgement"
    FINISHED = "finished"


class StreamTask:
    """One attempt at a subtask (Flink: StreamTask, with its OperatorChain and mailbox).

    Args:
        index: of the subtask in its vertex.
        sources: that are in the chain, by the id of their operator.
        network_input: None for a task without gates.
        output_checkpoints: of each output, with what makes the barriers for its edge.
        worker: that the chain works in; None to work in the steps of the task.
    """

    def __init__(
        self,
        name: str,
        index: int,
        chain: TaskChain,
        sources: Mapping[str, RecordSource],
        network_input: NetworkInput[Any] | None,
        outputs: Sequence[TaskOutput],
        output_checkpoints: Sequence[tuple[OutputCheckpoints, BarrierFactory]],
        acknowledgements: TaskAcknowledgements,
        context: ProcessingContext,
        probe: Probe,
        *,
        start_ns: int,
        worker: TaskWorker | None = None,
    ) -> None:
        self.name = name
        self.index = index
        self.state = TaskState.RUNNING
        self.times = TaskTimes(start_ns=start_ns)
        self.chain = chain
        self.sources = dict(sources)
        self.outputs = tuple(outputs)
        self.network_input = network_input
        self._output_checkpoints = tuple(output_checkpoints)
        self._acknowledgements = acknowledgements
        self._context = context
        self._record = probe.record
        self._batches = chain.batches
        self._busy_until_ns = 0
        self._is_busy = False  # with records that are done at _busy_until_ns
        self._mail_ns: int | None = None  # when the record in work is done, for mail that waits
        self._waiting_since_ns = -1
        self._waits_for: TaskOutput | None = None
        self._has_finished_operators = False
        self._is_open = False
        self._is_closed = False
        self._worker = worker
        self._is_handed_over = False
        self._began_ns = 0  # when the chain began with what was handed over
        self._ask_back_ns: int | None = None
        self._triggers: list[tuple[int, int]] = []  # of checkpoints, that wait for the worker
        if worker is not None:
            context.clock = worker.now_ns
        self._received_events: list[TaskEvent] = []
        self._has_unsent_events = False
        for output in self.outputs:
            output.partition.task_events.register()
            for class_name in chain.listens_to:
                output.partition.task_events.subscribe(class_name, self._receive_task_event)
        try:
            self._is_open = self._hand_over(chain.open, start_ns)
        except (FlinknetError, SystemExit):
            self.cancel()
            raise
        for output in self.outputs:
            if output.partition.partition_type.can_be_pipelined_consumed:  # others recover nothing
                output.partition.broadcast_event(EndOfOutputChannelStateEvent())

    # What drivers and metrics ask

    @property
    def is_finished(self) -> bool:
        """Whether its input has come to its end and the ends of its outputs were written."""
        if self.state is not TaskState.FINISHED or self._is_handed_over:
            return False
        gate = self.gate
        return gate is None or gate.is_finished

    @property
    def is_open(self) -> bool:
        """Whether its operators have been opened, and what was recovered of its channels was read:
        then it runs.
        """
        if not self._is_open:
            return False
        for gate in self.gates:  # noqa: SIM110 - in each turn; a generator takes longer
            if not gate.is_state_consumed:
                return False
        return True

    @property
    def is_handed_over(self) -> bool:
        """Whether a worker has its operators: they and what they put out are to be left alone."""
        return self._is_handed_over

    @property
    def is_blocked(self) -> bool:
        """Whether a writer waits for buffers."""
        return self._waiting_since_ns >= 0

    @property
    def is_ready(self) -> bool:
        """Whether a step would do something now that another task of the turn made possible."""
        if self._is_handed_over:
            return False
        network_input = self.network_input
        can_read = network_input is not None and network_input.is_available
        if self.state is TaskState.AWAITING_ACKNOWLEDGEMENT:
            return can_read or self._is_all_acknowledged
        if self.is_blocked:
            return all(output.partition.is_available for output in self.outputs)
        return (can_read or bool(self._received_events)) and not self._is_busy

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
    def receivers(self) -> tuple[Any, ...]:
        """What takes the records of each channel, in the order of its gates."""
        return () if self.network_input is None else self.network_input.receivers

    @property
    def writers(self) -> tuple[RecordWriter, ...]:
        """What it writes with."""
        return tuple(output.writer for output in self.outputs)

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
        """Records written, by index of the channel in the run."""
        return {index: n for output in self.outputs for index, n in output.sent_records.items()}

    @property
    def processed_records(self) -> int:
        """Records that were handed to the operators, from gates or sources."""
        return self.chain.processed_records

    @property
    def text_inputs(self) -> tuple[TextInput, ...]:
        """Texts that the driver has to bring."""
        return tuple(each.text for each in self.sources.values() if each.text is not None)

    @property
    def is_writing_barrier(self) -> bool:
        """Whether a barrier waits, or may still time out: every step counts."""
        return any(each.is_pending for each, _ in self._output_checkpoints)

    @property
    def barrier_timeout_ns(self) -> int | None:
        """When a barrier that has not left times out; None if there is none."""
        due = [each.next_deadline_ns() for each, _ in self._output_checkpoints]
        return min((each for each in due if each is not None), default=None)

    # What drivers ask for

    def obey(self, command: Command, *, now_ns: int) -> None:
        """Do what the checkpoint coordinator says; every task is to be called."""
        if isinstance(command, AbortCheckpoint):
            self.abort_checkpoint(command.checkpoint_id)
        else:
            self.trigger_checkpoint(command.checkpoint_id, command.timestamp_ms, now_ns=now_ns)

    def trigger_checkpoint(self, checkpoint_id: int, timestamp_ms: int, *, now_ns: int) -> None:
        """A checkpoint has begun; every task is to be called. Those without gates write its barrier
        (Flink: triggerCheckpointAsync).
        """
        self._acknowledgements.ask(checkpoint_id)
        if not self.is_source or self.state is TaskState.FINISHED:
            return
        self._triggers.append((checkpoint_id, timestamp_ms))
        if self._is_handed_over:
            self.chain.is_asked_back = True
        else:
            self._write_barriers(now_ns)

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
        for source in self.sources.values():
            source.stop()

    def rest(self, *, now_ns: int) -> None:
        """The driver has nothing to step it for at once: what it waits for is counted from now
        on. To be called while `times.is_busy`. A task that is paused is busy.
        """
        network_input = self.network_input
        if network_input is not None:
            network_input.note_taken(now_ns)
        if self._is_in_work(now_ns) or self.is_blocked or self._batches:
            return
        for output in self.outputs:
            if self.state is TaskState.RUNNING and not output.writer.is_available:
                self.times.wait_for_output(output.writer.is_inside_record, now_ns=now_ns)
                return
        if network_input is None or not (network_input.is_paused or network_input.is_available):
            self.times.wait(self.times.idle, now_ns=now_ns)

    def cancel(self) -> None:
        """The job ends early, or the task has failed: give back what it holds, close its
        operators. Its partitions and gates are the driver's.

        A function that is in work goes on to its end, since nothing can stop it: as long as the
        task `is_handed_over`, the driver calls again.
        """
        worker = self._worker
        if self._is_handed_over and worker is not None:
            self.chain.is_asked_back = True
            if not worker.is_over:
                return
            self._is_handed_over = False
            with suppress(Exception, SystemExit):  # what counts is why the task ends
                worker.end()
        self._batches.clear()
        for output in self.outputs:
            output.discard()
        self._context.pending_records = 0
        if self.network_input is not None:
            self.network_input.cancel()
        if not self._is_closed:
            self._close(self.chain.cancel, 0)

    def step(self, *, now_ns: int) -> int | None:
        """Do a bounded piece of work.

        Returns: when to step again; now_ns for at once, None for when something arrives.
        Raises: TaskFailedError naming operator and record; the error of a channel that failed.
        """
        network_input = self.network_input
        if network_input is not None:
            network_input.note_taken(now_ns)
        for output in self.outputs:
            if output.flusher.is_due(now_ns=now_ns):
                output.partition.flush_all()
        if self._is_handed_over:
            self._take_back(now_ns)
        self._read_mail(now_ns)
        if self._has_unsent_events and not self._is_handed_over:
            self._send_task_events()
        next_ns = self._work(now_ns)
        for output in self.outputs:
            next_ns = _sooner(next_ns, output.flusher.next_deadline_ns())
        for checkpoints, _ in self._output_checkpoints:
            if checkpoints.is_pending:
                next_ns = _sooner(next_ns, checkpoints.next_deadline_ns())
        if self._mail_ns is not None:
            return _sooner(next_ns, self._mail_ns)
        return next_ns if network_input is None else _sooner(next_ns, network_input.timeout_ns)

    # How it works

    def _read_mail(self, now_ns: int) -> None:
        """Before anything else, and also while an output has no buffer: priority events are read,
        and barriers time out (Flink: urgent mails); while a record is in work, when it is done.
        """
        for checkpoints, _ in self._output_checkpoints:
            if checkpoints.is_pending:
                checkpoints.advance(now_ns=now_ns)
        if self._triggers and not self._is_handed_over:
            self._write_barriers(now_ns)
        network_input = self.network_input
        if network_input is None:
            return
        timeout_ns = network_input.timeout_ns
        is_late = timeout_ns is not None and now_ns >= timeout_ns
        if not is_late and not network_input.gate.has_priority_events:
            return
        if self._is_handed_over:
            self.chain.is_asked_back = True
            return
        record_ns = self.chain.record_ns
        if now_ns < self._busy_until_ns and record_ns > 0:
            if self._mail_ns is None:
                records_left = (self._busy_until_ns - now_ns) // record_ns
                self._mail_ns = self._busy_until_ns - records_left * record_ns
            if now_ns < self._mail_ns:
                return
        self._mail_ns = None
        if is_late:
            network_input.handle_timeout(now_ns)
        gate = network_input.gate
        while gate.has_priority_events:
            polled = gate.poll(now_ns)
            if polled is not None:
                self._handle_event(polled, now_ns)

    def _is_in_work(self, now_ns: int) -> bool:
        """Whether records are in work, for the time that a worker or their delays take."""
        return self._is_handed_over or now_ns < self._busy_until_ns

    def _write_barriers(self, now_ns: int) -> None:
        """Of checkpoints that begin here, behind what was put out."""
        triggers, self._triggers = self._triggers, []
        self._write_outputs()
        for checkpoint_id, timestamp_ms in triggers:
            for checkpoints, barrier_of in self._output_checkpoints:
                checkpoints.write(barrier_of(checkpoint_id, timestamp_ms), now_ns=now_ns)

    def _hand_over(self, work: Callable[[], None], now_ns: int) -> bool:
        """Let the worker do what functions of the program may have a part in. Returns: whether that
        is over; if not, it is taken back in a later step.
        """
        worker = self._worker
        if worker is None:
            work()
            return True
        self._context.work_ns = 0
        if worker.begin(work):
            worker.end()
            return True
        self._is_handed_over = True
        self._ask_back_ns = now_ns + HAND_BACK_NS
        if not self.times.is_busy:
            self.times.go_on(now_ns=now_ns)
        return False

    def _take_back(self, now_ns: int) -> None:
        """Go on with what the worker has put out, if it is done. Raises: what it raised."""
        worker = self._worker
        assert worker is not None
        if not worker.is_over:
            if self._ask_back_ns is not None and now_ns >= self._ask_back_ns:
                self._ask_back_ns = None
                self.chain.is_asked_back = True
            return
        self._is_handed_over = False
        self.chain.is_asked_back = False
        worker.end()
        self._is_open = True
        if self._context.work_ns:
            self._busy_until_ns = max(self._began_ns + self._context.work_ns, now_ns)
            self._is_busy = True

    def _work(self, now_ns: int) -> int | None:
        if self._is_in_work(now_ns):
            return self._ask_back_ns if self._is_handed_over else self._busy_until_ns
        began_ns = self._busy_until_ns if self._is_busy else now_ns  # it did not wait for the loop
        self._is_busy = False
        if self.state is TaskState.RUNNING:
            return self._run(began_ns, now_ns)
        if self.state is TaskState.AWAITING_ACKNOWLEDGEMENT and self._is_all_acknowledged:
            self._finish(now_ns)
            if self._is_handed_over:
                return self._ask_back_ns
        network_input = self.network_input
        if network_input is not None and not network_input.gate.is_finished:
            polled = network_input.poll(now_ns)
            if polled is not None:
                self._handle_event(polled, now_ns)
        if self.is_finished:
            self._acknowledgements.end()
            return None
        return now_ns if network_input is not None and network_input.is_available else None

    def _run(self, began_ns: int, now_ns: int) -> int | None:
        if now_ns >= self.chain.timer_ns and self._may_fire_timers:
            self._began_ns = now_ns
            if not self._hand_over(self._fire_timers, now_ns):
                return self._ask_back_ns
        if self._context.pending_records or self.chain.sent_events:
            self._write_outputs()
        if not self._can_write(now_ns):
            return self._timer_ns if self._may_fire_timers else None
        batches = self._batches
        if self._received_events:
            for event in self._received_events:
                self.chain.add_task_event(event)
            self._received_events.clear()
        if not batches:
            self._give_back()
            if not self._take(now_ns):
                return self._end_data(now_ns) if self._has_ended_data else self._next_ns(now_ns)
        while batches:
            if self._worker is None:
                self.chain.process_portion(began_ns)
            else:
                self._began_ns = began_ns
                if not self._hand_over(self._process, now_ns):
                    return self._ask_back_ns
            if self._context.work_ns:
                self._busy_until_ns = began_ns + self._context.work_ns
                self._is_busy = True
                return max(self._busy_until_ns, now_ns)
            self._write_outputs()
            for output in self.outputs:
                if not output.writer.is_available:
                    return now_ns  # it waits from when this step's work is done
        self._give_back()
        return now_ns if self._has_ended_data else self._next_ns(now_ns)

    def _process(self) -> None:
        """What the worker does with records: all there are, unless they put out too many, take
        their time, or the task is needed.
        """
        chain, context = self.chain, self._context
        while self._batches:
            chain.process_portion(self._began_ns)
            if context.work_ns or context.pending_records >= PORTION_RECORDS or chain.is_asked_back:
                break
        for output in self.outputs:
            output.prepare()

    def _fire_timers(self) -> None:
        self.chain.fire_timers(self._began_ns)
        for output in self.outputs:
            output.prepare()

    def _finish_operators(self) -> None:
        self.chain.finish()
        for output in self.outputs:
            output.prepare()

    def _take(self, now_ns: int) -> bool:
        """Take a buffer or an event, and what is due of sources. Returns: whether there was any."""
        has_taken = False
        network_input = self.network_input
        if network_input is not None:
            polled = network_input.poll(now_ns)
            if polled is not None:
                has_taken = True
                channel, buffer, sequence_number = polled
                if buffer.data_type in IS_BUFFER:
                    self._batches.extend(
                        network_input.take_buffer(channel, buffer, sequence_number, now_ns)
                    )
                else:
                    network_input.take_event(channel, buffer, sequence_number, now_ns)
        for operator_id, source in self.sources.items():
            made = source.take(now_ns=now_ns)
            if made is not None:
                has_taken = True
                self.chain.add_made(operator_id, *made)
        if has_taken and not self.times.is_busy:
            self.times.go_on(now_ns=now_ns)
        return has_taken

    @property
    def _has_ended_data(self) -> bool:
        """Whether there will never be anything to take again but events."""
        network_input = self.network_input
        if network_input is not None and not network_input.has_ended_data:
            return False
        for source in self.sources.values():  # noqa: SIM110 - in each step; a generator takes longer
            if not source.is_ended:
                return False
        return True

    @property
    def _may_fire_timers(self) -> bool:
        """Whether nothing holds the task's thread up, were it Flink's: no output waits inside a
        record, or with all too much. What timers emit goes behind the records that wait.
        """
        for output in self.outputs:
            writer = output.writer
            if writer.waiting_batches >= WAITING_BATCHES_MAX or writer.is_inside_record:
                return False
        return True

    @property
    def _timer_ns(self) -> int | None:
        timer_ns = self.chain.timer_ns
        return None if timer_ns == NEVER_NS else timer_ns

    def _next_ns(self, now_ns: int) -> int | None:
        """When there is something to take; None for when it arrives."""
        network_input = self.network_input
        if network_input is not None and network_input.is_available:
            return now_ns
        next_ns = self._timer_ns
        for source in self.sources.values():
            next_ns = _sooner(next_ns, source.next_ns(now_ns=now_ns))
        return next_ns

    def _end_data(self, now_ns: int) -> int | None:
        """The operators emit what they kept; behind that comes the end of data."""
        if not self._has_finished_operators:
            self._has_finished_operators = True
            if not self._hand_over(self._finish_operators, now_ns):
                return self._ask_back_ns
            self._write_outputs()
        if not any(writer.is_waiting for writer in self.writers):
            for output in self.outputs:
                output.partition.broadcast_event(EndOfData())
            self.state = TaskState.AWAITING_ACKNOWLEDGEMENT
        return now_ns

    def _finish(self, now_ns: int) -> None:
        for output in self.outputs:
            output.partition.finish()
            output.flusher.stop()
        self.state = TaskState.FINISHED
        if not self._is_closed:
            self._close(self.chain.close, now_ns)

    def _close(self, close: Callable[[], None], now_ns: int) -> None:
        """The last that the operators are called for. Raises: what that raised."""
        self._is_closed = True
        try:
            self._hand_over(close, now_ns)
        finally:
            if self._worker is not None:
                self._worker.release()

    @property
    def _is_all_acknowledged(self) -> bool:
        return all(output.partition.is_all_acknowledged for output in self.outputs)

    def _write_outputs(self) -> None:
        for output in self.outputs:
            output.write()
        self._context.pending_records = 0
        if self.chain.sent_events:
            self._send_task_events()

    def _receive_task_event(self, event: OtherEvent) -> None:
        """Between two portions of records, while there are any."""
        if self.state is TaskState.RUNNING:
            self._received_events.append(TaskEvent(event.class_name, event.body))

    def _send_task_events(self) -> None:
        """Tell the producers that are there. Raises: TaskFailedError when there are none at all."""
        sent, gates = self.chain.sent_events, self.gates
        if sent and not gates:
            raise TaskFailedError(
                f"{self.name}: it reads nothing that a task writes, so that nobody takes its event"
                f" {sent[0].class_name}"
            )
        for event in sent:
            for gate in gates:
                gate.send_task_event(OtherEvent(event.class_name, event.body))
        sent.clear()
        still = [gate.send_pending_events() for gate in gates]
        self._has_unsent_events = any(still)

    def _give_back(self) -> None:
        if self.network_input is not None:
            self.network_input.give_back()

    def _handle_event(self, polled: Polled, now_ns: int) -> None:
        assert self.network_input is not None
        channel, buffer, sequence_number = polled
        self.network_input.take_event(channel, buffer, sequence_number, now_ns)

    def _can_write(self, now_ns: int) -> bool:
        """Go on with what found no buffer. Returns: whether new records may be written."""
        waits_for: TaskOutput | None = None
        for output in self.outputs:
            writer = output.writer
            if writer.is_waiting:
                writer.resume()
            if waits_for is None and not writer.is_available:
                waits_for = output
        if waits_for is not None:
            if self._waiting_since_ns < 0:
                self._waits_for = waits_for
                self._note_waiting(TracePoint.WRITER_WAITS, waits_for, now_ns)
                self._waiting_since_ns = self._context.pressed_since_ns = now_ns
            self.times.wait_for_output(waits_for.writer.is_inside_record, now_ns=now_ns)
            return False
        if self._waits_for is not None:
            self._note_waiting(TracePoint.WRITER_RESUMES, self._waits_for, now_ns)
            self._waits_for = None
            self._context.pressed_ns += now_ns - self._waiting_since_ns
            self._waiting_since_ns = self._context.pressed_since_ns = -1
            self.times.go_on(now_ns=now_ns)
        return True

    def _note_waiting(self, point: int, output: TaskOutput, now_ns: int) -> None:
        pool = output.partition.pool
        note(
            self._record,
            now_ns,
            output.channels[0],
            point,
            _BUFFER_RESPONSE,
            records=-1,
            pool_available_buffers=pool.available_buffers,
            pool_size_buffers=pool.size_buffers,
        )


def _sooner(first_ns: int | None, second_ns: int | None) -> int | None:
    if first_ns is None or (second_ns is not None and second_ns < first_ns):
        return second_ns
    return first_ns
