# mypyc
"""StreamTask: one subtask of a job. It reads gates or generates records, runs a chain of operators,
and writes partitions.

A task is a single thread of control, as in Flink. While an output has no buffer, the task reads and
generates nothing and keeps its input buffer; the producer of that buffer gets no credit and runs
out of buffers in turn. So back pressure travels upstream.

Operators that call functions of the program may be lent to a `TaskWorker`, a thread. Until it
returns them, the task flushes its outputs and times out barriers, but reads and writes nothing.
Mail recalls them after the current record. Virtual-time delays keep a task busy in the same way.

Records are processed a portion at a time. The output of the operators is collected and written
at the end of the portion, so that many records are serialised and distributed at once; if operators
take time, that is after this time.

There are two kinds of chain: those of programs (`ChainRunner`) pass values to operators, those of
the load generator (`load`) move runs of serialised records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from flinknet.core.consumer import SingleInputGate, UnionInputGate
from flinknet.core.wire.events import EndOfData, OtherEvent
from flinknet.errors import FlinknetError
from flinknet.graph.watermarks import TaskEvent

from .barriers import TaskAcknowledgements
from .checkpoint_coordinator import AbortCheckpoint, Command
from .context import ProcessingContext
from .io import TextInput
from .network_input import NetworkInput
from .sources import RecordSource
from .task_chain import NEVER_NS, PORTION_RECORDS, HandOver, TaskChain, TaskWorker
from .task_ends import TaskInputs, TaskOutputs
from .times import TaskTimes, sooner


class TaskState(Enum):
    """Lifecycle of a task."""

    RUNNING = "running"
    AWAITING_ACKNOWLEDGEMENT = "awaiting acknowledgement"
    FINISHED = "finished"


class StreamTask:
    """One attempt of a subtask (Flink: StreamTask, with its OperatorChain and mailbox). Without a
    worker, the chain runs in the steps of the task.
    """

    def __init__(
        self,
        name: str,
        index: int,
        chain: TaskChain,
        sources: Mapping[str, RecordSource],
        network_input: NetworkInput[Any] | None,
        outputs: TaskOutputs,
        acknowledgements: TaskAcknowledgements,
        context: ProcessingContext,
        *,
        start_ns: int,
        worker: TaskWorker | None = None,
    ) -> None:
        self.name = name
        self.index = index
        self.state = TaskState.RUNNING
        self.times = TaskTimes(start_ns=start_ns)
        self.chain = chain
        self.inputs = TaskInputs(network_input, sources)
        self.network_input = network_input
        self.sources = self.inputs.sources
        self.outputs = outputs
        self._acknowledgements = acknowledgements
        self._context = context
        self._batches = chain.batches
        self._busy_until_ns = 0
        self._is_busy = False  # with records that will be done at _busy_until_ns
        self._mail_ns: int | None = None  # when the current record is done, if mail waits for it
        self._has_finished_operators = False
        self._is_open = False
        self._is_closed = False
        self._hand_over = HandOver(worker, chain, context, self.times)
        self._began_ns = 0  # when the chain started the lent work
        self._triggers: list[tuple[int, int]] = []  # checkpoints to begin when the worker is done
        self._received_events: list[TaskEvent] = []
        outputs.subscribe(chain.listens_to, self._receive_task_event)
        try:
            self._is_open = self._hand_over.begin(chain.open, start_ns)
        except (FlinknetError, SystemExit):
            self.cancel()
            raise
        outputs.end_recovery()

    # State, for drivers and metrics

    @property
    def is_finished(self) -> bool:
        """Whether the input has ended and the ends of the outputs are written."""
        if self.state is not TaskState.FINISHED or self._hand_over.is_under_way:
            return False
        gate = self.gate
        return gate is None or gate.is_finished

    @property
    def is_open(self) -> bool:
        """Whether the operators are open and the recovered channel state has been read."""
        return self._is_open and all(gate.is_state_consumed for gate in self.gates)

    @property
    def is_handed_over(self) -> bool:
        """Whether a worker has the operators; they and their pending output must not be touched."""
        return self._hand_over.is_under_way

    @property
    def is_blocked(self) -> bool:
        return self.outputs.waiting_since_ns >= 0

    @property
    def is_ready(self) -> bool:
        """Whether a step would make progress, now that another task of the turn has."""
        if self._hand_over.is_under_way:
            return False
        can_read = self.inputs.can_read
        if self.state is TaskState.AWAITING_ACKNOWLEDGEMENT:
            return can_read or self.outputs.is_all_acknowledged
        if self.is_blocked:
            return self.outputs.is_available
        return (can_read or bool(self._received_events)) and not self._is_busy

    @property
    def gate(self) -> SingleInputGate | UnionInputGate | None:
        return self.inputs.gate

    @property
    def gates(self) -> tuple[SingleInputGate, ...]:
        return self.inputs.gates

    @property
    def receivers(self) -> tuple[Any, ...]:
        return () if self.network_input is None else self.network_input.receivers

    @property
    def is_source(self) -> bool:
        return self.network_input is None

    @property
    def emitted_records(self) -> int:
        return sum(output.emitted_records for output in self.outputs.each)

    @property
    def sent_records(self) -> dict[int, int]:
        """Records written, by index of the channel in the job."""
        return {
            index: n for output in self.outputs.each for index, n in output.sent_records.items()
        }

    @property
    def processed_records(self) -> int:
        return self.chain.processed_records

    @property
    def text_inputs(self) -> tuple[TextInput, ...]:
        return tuple(each.text for each in self.sources.values() if each.text is not None)

    # Commands of the driver

    def execute(self, command: Command, *, now_ns: int) -> None:
        """Execute a command of the checkpoint coordinator, which every task gets. Those without
        gates write the barriers of a checkpoint; the barrier of an aborted one may still wait.
        """
        checkpoint_id = command.checkpoint_id
        if isinstance(command, AbortCheckpoint):
            self._acknowledgements.forget(checkpoint_id)
            for checkpoints in self.outputs.checkpoints:
                checkpoints.abort(checkpoint_id)
            return
        self._acknowledgements.ask(checkpoint_id)
        if not self.is_source or self.state is TaskState.FINISHED:
            return
        self._triggers.append((checkpoint_id, command.timestamp_ms))
        if self._hand_over.is_under_way:
            self.chain.is_recalled = True
        else:
            self._write_barriers(now_ns)

    def stop(self) -> None:
        """Generate no more records; process the others to the end (Flink: stop with drain)."""
        for source in self.sources.values():
            source.stop()

    def rest(self, *, now_ns: int) -> None:
        """Start to count waiting time, because the driver has nothing to step the task for. Call
        while `times.is_busy`. A paused task stays busy.
        """
        network_input = self.network_input
        if network_input is not None:
            network_input.note_taken(now_ns)
        if self._is_in_work(now_ns) or self.is_blocked or self._batches:
            return
        held_up = self.outputs.held_up if self.state is TaskState.RUNNING else None
        if held_up is not None:
            self.times.wait_for_output(held_up.writer.is_inside_record, now_ns=now_ns)
            return
        if network_input is None or not (network_input.is_paused or network_input.is_available):
            self.times.wait(self.times.idle, now_ns=now_ns)

    def cancel(self) -> None:
        """Cancel the task: release its buffers and close its operators. Partitions and gates belong
        to the driver. As nothing can stop a running function, the driver calls again while the task
        `is_handed_over`.
        """
        if not self._hand_over.cancel():
            return
        self._batches.clear()
        self.outputs.discard()
        if self.network_input is not None:
            self.network_input.cancel()
        if not self._is_closed:
            self._close(self.chain.cancel, 0)

    def step(self, *, now_ns: int) -> int | None:
        """Do a bounded piece of work. Returns: when to step again: now_ns for at once, None to wait
        until something arrives. Raises: TaskFailedError naming operator and record; the error of a
        channel that failed.
        """
        network_input = self.network_input
        if network_input is not None:
            network_input.note_taken(now_ns)
        for output in self.outputs.each:
            if output.flusher.is_due(now_ns=now_ns):
                output.partition.flush_all()
        if self._hand_over.is_under_way:
            self._take_back(now_ns)
        self._read_mail(now_ns)
        if self.inputs.has_unsent_events and not self._hand_over.is_under_way:
            self.inputs.send_task_events(self.chain.sent_events, self.name)
        next_ns = self.outputs.next_deadline_ns(self._work(now_ns))
        if self._mail_ns is not None:
            return sooner(next_ns, self._mail_ns)
        return next_ns if network_input is None else sooner(next_ns, network_input.timeout_ns)

    # Internals

    def _read_mail(self, now_ns: int) -> None:
        """Handle priority events and barrier timeouts, before anything else and even while an
        output has no buffer (Flink: urgent mails). During a record, they wait until it is done.
        """
        for checkpoints in self.outputs.checkpoints:
            if checkpoints.is_pending:
                checkpoints.advance(now_ns=now_ns)
        if self._triggers and not self._hand_over.is_under_way:
            self._write_barriers(now_ns)
        network_input = self.network_input
        if network_input is None:
            return
        timeout_ns = network_input.timeout_ns
        is_late = timeout_ns is not None and now_ns >= timeout_ns
        if not is_late and not network_input.gate.has_priority_events:
            return
        if self._hand_over.is_under_way:
            self.chain.is_recalled = True
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
        self.inputs.take_priority_events(now_ns)

    def _is_in_work(self, now_ns: int) -> bool:
        return self._hand_over.is_under_way or now_ns < self._busy_until_ns

    def _write_barriers(self, now_ns: int) -> None:
        """Write the pending output and then the barriers of checkpoints that begin here."""
        triggers, self._triggers = self._triggers, []
        self._write_outputs()
        for trigger in triggers:
            for checkpoints in self.outputs.checkpoints:
                checkpoints.write(checkpoints.barrier_of(*trigger), now_ns=now_ns)

    def _take_back(self, now_ns: int) -> None:
        """Continue with the worker's output if it is done. Raises: the error of the work."""
        if not self._hand_over.take_back(now_ns):
            return
        self._is_open = True
        if self._context.work_ns:
            self._busy_until_ns = max(self._began_ns + self._context.work_ns, now_ns)
            self._is_busy = True

    def _work(self, now_ns: int) -> int | None:
        if self._is_in_work(now_ns):
            is_handed_over = self._hand_over.is_under_way
            return self._hand_over.recall_ns if is_handed_over else self._busy_until_ns
        began_ns = self._busy_until_ns if self._is_busy else now_ns  # it did not wait for the loop
        self._is_busy = False
        if self.state is TaskState.RUNNING:
            return self._run(began_ns, now_ns)
        is_awaiting = self.state is TaskState.AWAITING_ACKNOWLEDGEMENT
        if is_awaiting and self.outputs.is_all_acknowledged:
            self.outputs.finish()
            self.state = TaskState.FINISHED
            if not self._is_closed:
                self._close(self.chain.close, now_ns)
            if self._hand_over.is_under_way:
                return self._hand_over.recall_ns
        self.inputs.take_event(now_ns)
        if self.is_finished:
            self._acknowledgements.end()
            return None
        return now_ns if self.inputs.can_read else None

    def _run(self, began_ns: int, now_ns: int) -> int | None:
        inputs, outputs, hand_over = self.inputs, self.outputs, self._hand_over
        if now_ns >= self.chain.timer_ns and outputs.may_fire_timers:
            self._began_ns = now_ns
            if not hand_over.begin(self._fire_timers, now_ns):
                return hand_over.recall_ns
        if self._context.pending_records or self.chain.sent_events:
            self._write_outputs()
        if not outputs.resume(self.times, now_ns=now_ns):
            return self._timer_ns if outputs.may_fire_timers else None
        batches = self._batches
        if self._received_events:
            for event in self._received_events:
                self.chain.add_task_event(event)
            self._received_events.clear()
        if not batches:
            inputs.give_back()
            if not inputs.take(self.chain, now_ns):
                if inputs.has_ended_data:
                    return self._end_data(now_ns)
                return inputs.next_ns(self._timer_ns, now_ns)
            if not self.times.is_busy:
                self.times.resume(now_ns=now_ns)
        while batches:
            if hand_over.worker is None:
                self.chain.process_portion(began_ns)
            else:
                self._began_ns = began_ns
                if not hand_over.begin(self._process, now_ns):
                    return hand_over.recall_ns
            if self._context.work_ns:
                self._busy_until_ns = began_ns + self._context.work_ns
                self._is_busy = True
                return max(self._busy_until_ns, now_ns)
            self._write_outputs()
            if outputs.held_up is not None:
                return now_ns  # the wait is counted from when this step's work is done
        inputs.give_back()
        return now_ns if inputs.has_ended_data else inputs.next_ns(self._timer_ns, now_ns)

    def _process(self) -> None:
        """Process records, in the worker, up to a limit of output or time, or until recalled."""
        chain, context = self.chain, self._context
        while self._batches:
            chain.process_portion(self._began_ns)
            if context.work_ns or context.pending_records >= PORTION_RECORDS or chain.is_recalled:
                break
        self.outputs.prepare()

    def _fire_timers(self) -> None:
        self.chain.fire_timers(self._began_ns)
        self.outputs.prepare()

    def _finish_operators(self) -> None:
        self.chain.finish()
        self.outputs.prepare()

    @property
    def _timer_ns(self) -> int | None:
        timer_ns = self.chain.timer_ns
        return None if timer_ns == NEVER_NS else timer_ns

    def _end_data(self, now_ns: int) -> int | None:
        """Let the operators emit what they hold, then write the end of data."""
        if not self._has_finished_operators:
            self._has_finished_operators = True
            if not self._hand_over.begin(self._finish_operators, now_ns):
                return self._hand_over.recall_ns
            self._write_outputs()
        outputs = self.outputs.each
        if not any(output.writer.is_waiting for output in outputs):
            for output in outputs:
                output.partition.broadcast_event(EndOfData())
            self.state = TaskState.AWAITING_ACKNOWLEDGEMENT
        return now_ns

    def _close(self, close: Callable[[], None], now_ns: int) -> None:
        """Call the operators for the last time. Raises: the error of that call."""
        self._is_closed = True
        try:
            self._hand_over.begin(close, now_ns)
        finally:
            self._hand_over.release()

    def _write_outputs(self) -> None:
        self.outputs.write()
        if self.chain.sent_events:
            self.inputs.send_task_events(self.chain.sent_events, self.name)

    def _receive_task_event(self, event: OtherEvent) -> None:
        if self.state is TaskState.RUNNING:
            self._received_events.append(TaskEvent(event.class_name, event.body))
