# mypyc
"""TaskOutputs: all outputs of a task. They are flushed, written and ended together, and what holds
one of them up holds up the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from flinknet.core.probe import MessageKind, Probe, TracePoint, note
from flinknet.core.producer import RecordWriter
from flinknet.core.wire.checkpoint_barrier import CheckpointBarrier
from flinknet.core.wire.events import EndOfData, EndOfOutputChannelStateEvent, OtherEvent

from .barriers import OutputCheckpoints
from .context import ProcessingContext
from .task_output import TaskOutput
from .times import TaskTimes, sooner

BarrierFactory = Callable[[int, int], CheckpointBarrier]
"""Makes the barrier of a checkpoint, given its id and timestamp in ms."""

WAITING_BATCHES_MAX = 1024
"""With so many in a writer that waits for buffers, timers wait, too."""

_BUFFER_RESPONSE = int(MessageKind.BUFFER_RESPONSE)


class TaskOutputs:
    """What a task writes along all of its edges, and the barriers there.

    Args:
        checkpoints: of each output, with what makes the barriers for its edge.

    Attributes:
        each: the outputs, in their order.
        waiting_since_ns: when a writer began to wait for buffers; -1: none waits.
    """

    def __init__(
        self,
        outputs: Sequence[TaskOutput],
        checkpoints: Sequence[tuple[OutputCheckpoints, BarrierFactory]],
        context: ProcessingContext,
        probe: Probe,
    ) -> None:
        self.each = tuple(outputs)
        self.waiting_since_ns = -1
        self._checkpoints = tuple(checkpoints)
        self._context = context
        self._record = probe.record
        self._waits_for: TaskOutput | None = None

    @property
    def writers(self) -> tuple[RecordWriter, ...]:
        """What they are written with."""
        return tuple(output.writer for output in self.each)

    @property
    def is_available(self) -> bool:
        """Whether there is a buffer for each."""
        return all(output.partition.is_available for output in self.each)

    @property
    def held_up(self) -> TaskOutput | None:
        """The first that takes no new records now; None if all do."""
        for output in self.each:
            if not output.writer.is_available:
                return output
        return None

    @property
    def is_any_waiting(self) -> bool:
        """Whether records wait for buffers in any."""
        return any(output.writer.is_waiting for output in self.each)

    @property
    def is_all_acknowledged(self) -> bool:
        """Whether all readers have processed all records."""
        return all(output.partition.is_all_acknowledged for output in self.each)

    @property
    def may_fire_timers(self) -> bool:
        """Whether nothing holds the task's thread up, were it Flink's: no output waits inside a
        record, or with all too much. What timers emit goes behind the records that wait.
        """
        for output in self.each:
            writer = output.writer
            if writer.waiting_batches >= WAITING_BATCHES_MAX or writer.is_inside_record:
                return False
        return True

    @property
    def is_writing_barrier(self) -> bool:
        """Whether a barrier waits, or may still time out: every step counts."""
        return any(each.is_pending for each, _ in self._checkpoints)

    @property
    def barrier_timeout_ns(self) -> int | None:
        """When a barrier that has not left times out; None if there is none."""
        due = [each.next_deadline_ns() for each, _ in self._checkpoints]
        return min((each for each in due if each is not None), default=None)

    def next_deadline_ns(self, next_ns: int | None) -> int | None:
        """When the task is to be stepped for its flushers or barriers, or at `next_ns` if that is
        sooner.
        """
        for output in self.each:
            next_ns = sooner(next_ns, output.flusher.next_deadline_ns())
        for checkpoints, _ in self._checkpoints:
            if checkpoints.is_pending:
                next_ns = sooner(next_ns, checkpoints.next_deadline_ns())
        return next_ns

    def subscribe(self, class_names: Iterable[str], take: Callable[[OtherEvent], None]) -> None:
        """Let events of these classes, from the readers of what is written, be taken."""
        for output in self.each:
            output.partition.task_events.register()
            for class_name in class_names:
                output.partition.task_events.subscribe(class_name, take)

    def end_recovery(self) -> None:
        """Nothing was recovered; blocking partitions recover nothing in any case."""
        for output in self.each:
            if output.partition.partition_type.can_be_pipelined_consumed:
                output.partition.broadcast_event(EndOfOutputChannelStateEvent())

    def flush_due(self, now_ns: int) -> None:
        """Make the bytes readable of those whose flusher has its beat now."""
        for output in self.each:
            if output.flusher.is_due(now_ns=now_ns):
                output.partition.flush_all()

    def write_barriers(self, checkpoint_id: int, timestamp_ms: int, *, now_ns: int) -> None:
        """A checkpoint begins at this task."""
        for checkpoints, barrier_of in self._checkpoints:
            checkpoints.write(barrier_of(checkpoint_id, timestamp_ms), now_ns=now_ns)

    def advance_barriers(self, now_ns: int) -> None:
        """Write the barriers that wait, if no record is cut by them, and let late ones time out."""
        for checkpoints, _ in self._checkpoints:
            if checkpoints.is_pending:
                checkpoints.advance(now_ns=now_ns)

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """A checkpoint was given up; its barrier may wait still."""
        for checkpoints, _ in self._checkpoints:
            checkpoints.abort(checkpoint_id)

    def prepare(self) -> None:
        """Make what was collected ready to be written. Raises: TaskFailedError."""
        for output in self.each:
            output.prepare()

    def write(self) -> None:
        """Hand what was collected to the writers. Raises: TaskFailedError."""
        for output in self.each:
            output.write()
        self._context.pending_records = 0

    def resume(self, times: TaskTimes, *, now_ns: int) -> bool:
        """Go on with what found no buffer. Returns: whether new records may be written."""
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
            times.go_on(now_ns=now_ns)
        return True

    def end_data(self) -> None:
        """No record follows, in any."""
        for output in self.each:
            output.partition.broadcast_event(EndOfData())

    def finish(self) -> None:
        """Nothing follows at all."""
        for output in self.each:
            output.partition.finish()
            output.flusher.stop()

    def discard(self) -> None:
        """Drop what was collected."""
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
