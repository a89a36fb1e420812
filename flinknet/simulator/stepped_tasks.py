# mypyc
"""The tasks of the load generator, with the time that their steps take."""

from __future__ import annotations

from collections.abc import Callable

from flinknet.core.producer import OutputFlusher, RecordWriter
from flinknet.job.load.arrivals import RecordedArrivals
from flinknet.job.load.load_tasks import run_input_of
from flinknet.job.stream_task import STEPS_PER_TURN, StreamTask, TaskState

from .task_manager import BUSY_NS_MAX, NEVER_NS, SteppedTask


class SimulatedSource(SteppedTask):
    """Steps a source when it can have an effect, and charges the loop for the records.

    Args:
        segment_instants: instants at which a record opens a segment; None: step for every record.
        idle_ns: total idle time of the loop. Records due while it was idle were emitted then, and
            are not charged.
    """

    def __init__(
        self,
        task: StreamTask,
        writer: RecordWriter,
        flusher: OutputFlusher,
        arrivals: RecordedArrivals | None,
        segment_instants: list[int] | None,
        end_ns: int,
        *,
        emit_ns_per_record: float,
        idle_ns: Callable[[], int],
    ) -> None:
        super().__init__(task)
        self._loop_idle_ns = idle_ns
        self._writer = writer
        self._flusher = flusher
        self._arrivals = arrivals
        self._emit_ns = emit_ns_per_record
        self._stops = None if segment_instants is None else [*segment_instants, end_ns]
        self._next_stop = 0
        self._next_step_ns = 0
        self._idle_ns = 0

    def step(self, now_ns: int) -> tuple[int, int]:
        """Emit due records. Returns: the instants of the end of this work, and of the next step."""
        task, arrivals = self.task, self._arrivals
        if arrivals is None:
            return self._step_at_max_rate(now_ns)
        if (
            now_ns < self._next_step_ns
            and not task.outputs.is_writing_barrier
            and self._nothing_can_leave()
        ):
            return now_ns, self._next_step_ns
        first_ns = arrivals.next_ns()
        emitted = task.emitted_records
        beat_ns = self._flusher.next_deadline_ns()
        if beat_ns is not None and beat_ns <= now_ns and first_ns is not None:
            # Records due before the beat must be written when it flushes.
            self._emit_until(beat_ns - 1)
        next_ns = self._emit_until(now_ns)
        if self._stops is not None and task.state is TaskState.RUNNING:
            next_ns = self._stop_after(now_ns)
            beat_ns = self._flusher.next_deadline_ns()
            if beat_ns is not None and beat_ns < next_ns:
                next_ns = beat_ns
            timeout_ns = task.outputs.barrier_timeout_ns
            if timeout_ns is not None and timeout_ns < next_ns:
                next_ns = max(timeout_ns, now_ns)
        self._next_step_ns = 0 if self.is_blocked else next_ns
        count = task.emitted_records - emitted
        idle_ns = self._loop_idle_ns()
        if count:
            assert first_ns is not None
            spare_ns = min(idle_ns - self._idle_ns, now_ns - first_ns)
            now_ns += max(0, int(count * self._emit_ns) - spare_ns)
        self._idle_ns = idle_ns
        return now_ns, next_ns

    @property
    def is_blocked(self) -> bool:
        """Whether the writer waits for buffers, or would wait if it had data."""
        return self._writer.is_waiting or not self._writer.is_available

    def _nothing_can_leave(self) -> bool:
        """Whether all data written by now stays here until this source's next step."""
        return (
            self._stops is not None
            and self.task.state is TaskState.RUNNING
            and not self.is_blocked
            and not any(
                subpartition.is_data_available
                for subpartition in self._writer.partition.subpartitions
            )
        )

    def _emit_until(self, until_ns: int) -> int:
        while True:
            next_ns = self.task.step(now_ns=until_ns)
            if next_ns is None:
                return NEVER_NS
            if next_ns > until_ns:
                return next_ns

    def _step_at_max_rate(self, now_ns: int) -> tuple[int, int]:
        task = self.task
        for _ in range(STEPS_PER_TURN):
            emitted = task.emitted_records
            next_ns = task.step(now_ns=now_ns)
            is_due_now = next_ns == now_ns
            count = task.emitted_records - emitted
            if count:
                now_ns += int(count * self._emit_ns)
            if not is_due_now:
                return now_ns, NEVER_NS if next_ns is None else next_ns
        return now_ns, now_ns

    def _stop_after(self, now_ns: int) -> int:
        stops = self._stops
        assert stops is not None
        position = self._next_stop
        while position < len(stops) and stops[position] <= now_ns:
            position += 1
        self._next_stop = position
        return stops[position] if position < len(stops) else NEVER_NS


class SimulatedSink(SteppedTask):
    """Steps a sink and charges the loop for each buffer."""

    def __init__(self, task: StreamTask, *, receive_ns_per_message: float) -> None:
        super().__init__(task)
        self._input = run_input_of(task)
        self._receive_ns = int(receive_ns_per_message)
        self._busy_until_ns = -1

    def step(self, now_ns: int) -> tuple[int, int]:
        """Take buffers. Returns: the instants of the end of this work, and of the next step."""
        task = self.task
        if now_ns < self._busy_until_ns:
            mail_ns = task.step(now_ns=now_ns)  # priority events are read between records
            return now_ns, min(mail_ns or self._busy_until_ns, self._busy_until_ns)
        network_input = self._input
        for _ in range(STEPS_PER_TURN):
            if network_input.gate.is_available and not network_input.is_paused:
                if not task.times.is_busy:
                    task.times.resume(now_ns=now_ns)
                now_ns += self._receive_ns
            next_ns = task.step(now_ns=now_ns)
            if next_ns is None:
                return now_ns, NEVER_NS
            busy_until_ns = task._busy_until_ns
            if busy_until_ns - now_ns > BUSY_NS_MAX:
                self._busy_until_ns = busy_until_ns
                return now_ns, min(next_ns, busy_until_ns)
            if busy_until_ns <= now_ns < next_ns:
                return now_ns, next_ns  # it waits for the timeout of an alignment
            now_ns = max(now_ns, busy_until_ns)
        return now_ns, now_ns


class SimulatedRelay(SteppedTask):
    """Steps a relay and charges the loop for each buffer it takes and each record it emits."""

    def __init__(
        self, task: StreamTask, *, receive_ns_per_message: float, emit_ns_per_record: float
    ) -> None:
        super().__init__(task)
        self._receive_ns = int(receive_ns_per_message)
        self._emit_ns = emit_ns_per_record

    def step(self, now_ns: int) -> tuple[int, int]:
        """Take buffers and emit records. Returns: as `SteppedTask.step`."""
        task = self.task
        for _ in range(STEPS_PER_TURN):
            emitted = task.emitted_records
            next_ns = task.step(now_ns=now_ns)
            count = task.emitted_records - emitted
            now_ns += int(count * self._emit_ns) + (self._receive_ns if count else 0)
            if next_ns is None:
                return now_ns, NEVER_NS
            if next_ns > now_ns:
                return now_ns, next_ns
        return now_ns, now_ns
