# mypyc
"""TaskInputs: gates and sources of a task. TaskOutputs: all its outputs, which are flushed, written
and ended together; one that is blocked blocks the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.consumer import SingleInputGate, UnionInputGate
from flinknet.core.probe import MessageKind, Probe, TracePoint, note
from flinknet.core.producer import RecordWriter
from flinknet.core.wire.events import EndOfOutputChannelStateEvent, OtherEvent
from flinknet.errors import TaskFailedError
from flinknet.graph.watermarks import TaskEvent

from .barriers import OutputCheckpoints
from .context import ProcessingContext
from .network_input import NetworkInput
from .sources import RecordSource
from .task_chain import TaskChain, TaskOutput
from .times import TaskTimes, sooner


class TaskInputs:
    """All inputs of a task: its gates, if any, and its sources by operator id. Some events may wait
    for producers that are not there yet.
    """

    def __init__(
        self, network_input: NetworkInput[Any] | None, sources: Mapping[str, RecordSource]
    ) -> None:
        self.network_input = network_input
        self.sources = dict(sources)
        self.has_unsent_events = False

    @property
    def gate(self) -> SingleInputGate | UnionInputGate | None:
        """The gate, or union of gates; None for a task without gates."""
        return None if self.network_input is None else self.network_input.gate

    @property
    def gates(self) -> tuple[SingleInputGate, ...]:
        """All gates, without unions."""
        gate = self.gate
        if gate is None:
            return ()
        return (gate,) if isinstance(gate, SingleInputGate) else gate.gates

    @property
    def can_read(self) -> bool:
        network_input = self.network_input
        return network_input is not None and network_input.is_available

    @property
    def has_ended_data(self) -> bool:
        """Whether only events can still arrive."""
        network_input = self.network_input
        if network_input is not None and not network_input.has_ended_data:
            return False
        return all(source.is_ended for source in self.sources.values())

    def take(self, chain: TaskChain, now_ns: int) -> bool:
        """Pass a buffer or event, and due records, to the chain. Returns: whether there was any."""
        has_taken = False
        network_input = self.network_input
        if network_input is not None:
            polled = network_input.poll(now_ns)
            if polled is not None:
                has_taken = True
                channel, buffer, sequence_number = polled
                if buffer.data_type in IS_BUFFER:
                    chain.batches.extend(
                        network_input.take_buffer(channel, buffer, sequence_number, now_ns)
                    )
                else:
                    network_input.take_event(channel, buffer, sequence_number, now_ns)
        for operator_id, source in self.sources.items():
            generated = source.take(now_ns=now_ns)
            if generated is not None:
                has_taken = True
                chain.add_generated(operator_id, *generated)
        return has_taken

    def take_event(self, now_ns: int) -> None:
        """Take an event, if there is one: after the last record only events arrive."""
        network_input = self.network_input
        if network_input is not None and not network_input.gate.is_finished:
            polled = network_input.poll(now_ns)
            if polled is not None:
                network_input.take_event(*polled, now_ns)

    def take_priority_events(self, now_ns: int) -> None:
        """Take all events that have overtaken data."""
        network_input = self.network_input
        if network_input is None:
            return
        gate = network_input.gate
        while gate.has_priority_events:
            polled = gate.poll(now_ns)
            if polled is not None:
                network_input.take_event(*polled, now_ns)

    def next_ns(self, timer_ns: int | None, now_ns: int) -> int | None:
        """When there is something to take, or `timer_ns` if that is sooner; None for new input."""
        if self.can_read:
            return now_ns
        for source in self.sources.values():
            timer_ns = sooner(timer_ns, source.next_ns(now_ns=now_ns))
        return timer_ns

    def give_back(self) -> None:
        if self.network_input is not None:
            self.network_input.give_back()

    def send_task_events(self, events: list[TaskEvent], task: str) -> None:
        """Send these events and earlier ones to all producers that are there. Raises:
        TaskFailedError if the task has no producers.
        """
        gates = self.gates
        if events and not gates:
            raise TaskFailedError(
                f"{task}: cannot send the task event {events[0].class_name}: no task writes to it"
            )
        for event in events:
            for gate in gates:
                gate.send_task_event(OtherEvent(event.class_name, event.body))
        events.clear()
        still = [gate.send_pending_events() for gate in gates]
        self.has_unsent_events = any(still)


WAITING_BATCHES_MAX = 1024
"""Above this many batches in a waiting writer, timers wait, too."""

_BUFFER_RESPONSE = int(MessageKind.BUFFER_RESPONSE)


class TaskOutputs:
    """The outputs of a task along all its edges, with their checkpoints. `waiting_since_ns` is when
    a writer began to wait for buffers; -1 if none waits.
    """

    def __init__(
        self,
        outputs: Sequence[TaskOutput],
        checkpoints: Sequence[OutputCheckpoints],
        context: ProcessingContext,
        probe: Probe,
    ) -> None:
        self.each = tuple(outputs)
        self.waiting_since_ns = -1
        self.checkpoints = tuple(checkpoints)
        self._context = context
        self._record = probe.record
        self._waits_for: TaskOutput | None = None

    @property
    def writers(self) -> tuple[RecordWriter, ...]:
        return tuple(output.writer for output in self.each)

    @property
    def is_available(self) -> bool:
        return all(output.partition.is_available for output in self.each)

    @property
    def held_up(self) -> TaskOutput | None:
        """The first output that takes no records now; None if all take them."""
        for output in self.each:
            if not output.writer.is_available:
                return output
        return None

    @property
    def is_all_acknowledged(self) -> bool:
        return all(output.partition.is_all_acknowledged for output in self.each)

    @property
    def may_fire_timers(self) -> bool:
        """Whether Flink's task thread would be free to fire timers: no output waits inside a record
        or with too many batches. Records from timers go behind the waiting ones.
        """
        for output in self.each:
            writer = output.writer
            if writer.waiting_batches >= WAITING_BATCHES_MAX or writer.is_inside_record:
                return False
        return True

    @property
    def is_writing_barrier(self) -> bool:
        """Whether a barrier waits or may still time out, so that every step matters."""
        return any(each.is_pending for each in self.checkpoints)

    @property
    def barrier_timeout_ns(self) -> int | None:
        """When the next barrier times out; None if there is none."""
        due = [each.next_deadline_ns() for each in self.checkpoints]
        return min((each for each in due if each is not None), default=None)

    def next_deadline_ns(self, next_ns: int | None) -> int | None:
        """When the flushers or barriers need the next step, or `next_ns` if that is sooner."""
        for output in self.each:
            next_ns = sooner(next_ns, output.flusher.next_deadline_ns())
        for checkpoints in self.checkpoints:
            if checkpoints.is_pending:
                next_ns = sooner(next_ns, checkpoints.next_deadline_ns())
        return next_ns

    def subscribe(self, class_names: Iterable[str], take: Callable[[OtherEvent], None]) -> None:
        for output in self.each:
            output.partition.task_events.register()
            for class_name in class_names:
                output.partition.task_events.subscribe(class_name, take)

    def end_recovery(self) -> None:
        """Write the end of recovery: nothing was recovered. Blocking partitions never recover."""
        for output in self.each:
            if output.partition.partition_type.can_be_pipelined_consumed:
                output.partition.broadcast_event(EndOfOutputChannelStateEvent())

    def prepare(self) -> None:
        for output in self.each:
            output.prepare()

    def write(self) -> None:
        for output in self.each:
            output.write()
        self._context.pending_records = 0

    def resume(self, times: TaskTimes, *, now_ns: int) -> bool:
        """Write what was waiting for buffers. Returns: whether new records may be written."""
        waits_for: TaskOutput | None = None
        for output in self.each:
            writer = output.writer
            if writer.is_waiting:
                writer.resume()
            if waits_for is None and not writer.is_available:
                waits_for = output
        context = self._context
        if waits_for is not None:
            if self.waiting_since_ns < 0:
                self._waits_for = waits_for
                self._note_waiting(TracePoint.WRITER_WAITS, waits_for, now_ns)
                self.waiting_since_ns = context.pressed_since_ns = now_ns
            times.wait_for_output(waits_for.writer.is_inside_record, now_ns=now_ns)
            return False
        if self._waits_for is not None:
            self._note_waiting(TracePoint.WRITER_RESUMES, self._waits_for, now_ns)
            self._waits_for = None
            context.pressed_ns += now_ns - self.waiting_since_ns
            self.waiting_since_ns = context.pressed_since_ns = -1
            times.resume(now_ns=now_ns)
        return True

    def finish(self) -> None:
        for output in self.each:
            output.partition.finish()
            output.flusher.stop()

    def discard(self) -> None:
        for output in self.each:
            output.discard()
        self._context.pending_records = 0

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
