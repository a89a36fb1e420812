"""SimulatedTaskManager: an event loop whose turns take the virtual time of the work they do.

One turn reads what has arrived, steps the tasks and sends, as the runtime's loop does. While it is
busy, records and bytes pile up, and the next turn finds them together: this is why messages grow
under load even with timeout 0. Each TaskManager has a core of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Protocol

from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.producer import OutputFlusher, RecordWriter
from flinknet.jobs.load.assembly import run_input_of
from flinknet.jobs.stream_task import STEPS_PER_TURN, StreamTask, TaskState
from flinknet.tasks.times import TaskTimes

from .cost_model import Outages
from .jitter import RunningJitter, over_and_over
from .link import LinkEnd
from .scheduler import Scheduler
from .source_plan import PlannedArrivals

BUSY_NS_MAX = 200_000
"""A sink that works on a buffer for longer lets the loop serve the others meanwhile.

Shorter work is the loop's own.
"""

NEVER_NS = 2**63 - 1


class SimulatedSource:
    """Steps a source when something can come of it, and charges the loop for the records.

    Args:
        segment_instants: when a record opens another segment; None to step for every record.
        jitter_ns: what a step takes more or less, at the highest rate.
    """

    def __init__(
        self,
        task: StreamTask,
        writer: RecordWriter,
        flusher: OutputFlusher,
        arrivals: PlannedArrivals | None,
        segment_instants: list[int] | None,
        end_ns: int,
        *,
        emit_ns_per_record: float,
        jitter_ns: Iterator[int],
    ) -> None:
        self.task = task
        self._jitter_ns = jitter_ns
        self._writer = writer
        self._flusher = flusher
        self._arrivals = arrivals
        self._emit_ns = emit_ns_per_record
        self._stops = None if segment_instants is None else [*segment_instants, end_ns]
        self._next_stop = 0
        self._again_ns = 0
        self._idle_ns = 0

    def step(self, now_ns: int, idle_ns: int) -> tuple[int, int]:
        """Emit what is due.

        Args:
            idle_ns: time that the loop has been idle since it began. Records that came while it was
                were emitted then, in time that was not needed otherwise.

        Returns: the instant when that is done, and when to step again.
        """
        task, arrivals = self.task, self._arrivals
        if arrivals is None:
            return self._step_at_max_rate(now_ns)
        if now_ns < self._again_ns and not task.is_writing_barrier and self._nothing_can_leave():
            return now_ns, self._again_ns
        first_ns = arrivals.next_ns()
        emitted = task.emitted_records
        beat_ns = self._flusher.next_deadline_ns()
        if beat_ns is not None and beat_ns <= now_ns and first_ns is not None:
            # What was due before the beat must be there when it flushes.
            self._emit_until(beat_ns - 1)
        next_ns = self._emit_until(now_ns)
        if self._stops is not None and task.state is TaskState.RUNNING:
            next_ns = self._stop_after(now_ns)
            beat_ns = self._flusher.next_deadline_ns()
            if beat_ns is not None and beat_ns < next_ns:
                next_ns = beat_ns
            timeout_ns = task.barrier_timeout_ns
            if timeout_ns is not None and timeout_ns < next_ns:
                next_ns = max(timeout_ns, now_ns)
        self._again_ns = 0 if self.is_blocked else next_ns
        count = task.emitted_records - emitted
        if count:
            assert first_ns is not None
            spare_ns = min(idle_ns - self._idle_ns, now_ns - first_ns)
            now_ns += max(0, int(count * self._emit_ns) - spare_ns)
        self._idle_ns = idle_ns
        return now_ns, next_ns

    @property
    def is_blocked(self) -> bool:
        """Whether the writer waits for buffers."""
        return self._writer.is_waiting or not self._writer.is_available

    def _nothing_can_leave(self) -> bool:
        """Whether what was written by now waits for this source's own next step in any case."""
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
            is_again = next_ns == now_ns
            count = task.emitted_records - emitted
            if count:
                now_ns += max(0, int(count * self._emit_ns) + next(self._jitter_ns))
            if not is_again:
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


class SimulatedSink:
    """Steps a sink and charges the loop for each buffer."""

    def __init__(self, task: StreamTask, *, receive_ns_per_message: float) -> None:
        self.task = task
        self._input = run_input_of(task)
        self._receive_ns = int(receive_ns_per_message)
        self._busy_until_ns = -1

    def step(self, now_ns: int) -> tuple[int, int]:
        """Take buffers. Returns: when the loop is done with that, and when to step again."""
        task = self.task
        if now_ns < self._busy_until_ns:
            mail_ns = task.step(now_ns=now_ns)  # priority events are read between records
            return now_ns, min(mail_ns or self._busy_until_ns, self._busy_until_ns)
        network_input = self._input
        for _ in range(STEPS_PER_TURN):
            if network_input.gate.is_available and not network_input.is_paused:
                if not task.times.is_busy:
                    task.times.go_on(now_ns=now_ns)
                now_ns += self._receive_ns
            next_ns = task.step(now_ns=now_ns)
            if next_ns is None:
                return now_ns, NEVER_NS
            if next_ns - now_ns > BUSY_NS_MAX:
                self._busy_until_ns = next_ns
                return now_ns, next_ns
            now_ns = next_ns
        return now_ns, now_ns


class SimulatedRunSink:
    """Steps a sink that reads what lies end to end at once, and charges the loop for each turn
    in which it reads, and for the records. Those that lie end to end all come when they are begun.
    """

    def __init__(
        self,
        task: StreamTask,
        *,
        receive_ns_per_turn: float,
        consume_ns_per_record: float,
        jitter_ns: Iterator[int],
    ) -> None:
        self.task = task
        self._jitter_ns = jitter_ns
        self._receive_ns = receive_ns_per_turn
        self._consume_ns = consume_ns_per_record

    def step(self, now_ns: int) -> tuple[int, int]:
        """Take buffers. Returns: when the loop is done with that, and when to step again."""
        task, fixed_ns = self.task, self._receive_ns
        for _ in range(STEPS_PER_TURN):
            before = sum(sink.records for sink in task.receivers)
            next_ns = task.step(now_ns=now_ns)
            records = sum(sink.records for sink in task.receivers) - before
            is_again = next_ns == now_ns
            if records:
                took_ns = int(fixed_ns + self._consume_ns * records)
                now_ns += max(0, took_ns + next(self._jitter_ns)) if fixed_ns else took_ns
                fixed_ns = 0.0
            if next_ns is None:
                return now_ns, NEVER_NS
            if not is_again:
                return now_ns, max(next_ns, now_ns)
        return now_ns, now_ns


class SimulatedRelay:
    """Steps a relay and charges the loop for each buffer it takes and each record it emits."""

    def __init__(
        self, task: StreamTask, *, receive_ns_per_message: float, emit_ns_per_record: float
    ) -> None:
        self.task = task
        self._receive_ns = int(receive_ns_per_message)
        self._emit_ns = emit_ns_per_record

    def step(self, now_ns: int) -> tuple[int, int]:
        """Take and emit. Returns: when the loop is done with that, and when to step again."""
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


class Task(Protocol):
    """What a loop asks of a task (flinknet.jobs.StreamTask)."""

    times: TaskTimes

    @property
    def is_blocked(self) -> bool:
        """Whether a writer waits for buffers."""

    @property
    def is_ready(self) -> bool:
        """Whether a step would do something now that another task of the turn made possible."""

    def rest(self, *, now_ns: int) -> None:
        """It is not stepped again at once."""


class SteppedTask(Protocol):
    """A task with what its steps take."""

    @property
    def task(self) -> Task:
        """What is stepped."""

    def step(self, now_ns: int) -> tuple[int, int]:
        """Do some work. Returns: when the loop is done with that, and when to step again."""


class SimulatedTaskManager:
    """Network memory, sockets and tasks on one loop.

    Args:
        answers_at_once: as in the runtime, what was received lets go goes before the tasks step,
            and what has come while they did is received before anything is sent.
    """

    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        memory: NetworkBufferPool,
        *,
        answers_at_once: bool = False,
    ) -> None:
        self._answers_at_once = answers_at_once
        self.name = name
        self.memory = memory
        self.ends: list[LinkEnd] = []
        self.sources: Sequence[SimulatedSource] = ()
        self.relays: Sequence[SimulatedRelay] = ()
        self.stream_tasks: Sequence[SteppedTask] = ()  # of a job, which has these only
        self.sinks: Sequence[SimulatedSink | SimulatedRunSink] = ()
        self._scheduler = scheduler
        self.has_local_channels = False
        self._wake_ns = NEVER_NS
        self._free_since_ns = scheduler.now_ns
        self._idle_ns = 0
        self._outages: list[tuple[int, int]] = []
        self._is_unsent = False
        self._wakes: Iterator[int] = repeat(0)
        self.jitter = RunningJitter()

    def wake(self, at_ns: int) -> None:
        """Take a turn at an instant, or when the turn that goes on then is over."""
        at_ns = max(at_ns, self._free_since_ns, self._scheduler.now_ns)
        if at_ns < self._wake_ns:
            self._wake_ns = at_ns
            self._scheduler.at(at_ns, self._turn)

    def set_outages(self, outages: Outages, *, start_ns: int) -> None:
        """Let the machine keep this process from its work now and then: an outage holds up the turn
        in which it begins, as seen when that is over, and those that would begin within it. A turn
        after idleness begins later by the next of the times of waking, and the parts of turns take
        more or less by the next jitter, over and over. To be called before it has ends and tasks.
        """
        self._wakes = over_and_over(outages.wakes_ns)
        self.jitter = RunningJitter(outages.jitter)
        pairs = zip(outages.starts_ns.tolist(), outages.lengths_ns.tolist(), strict=True)
        self._outages = [(start_ns + at_ns, length_ns) for at_ns, length_ns in pairs][::-1]

    def _turn(self) -> None:
        now_ns = self._scheduler.now_ns
        if now_ns != self._wake_ns:
            return  # an earlier turn has taken this one's place
        self._wake_ns = NEVER_NS
        self._idle_ns += now_ns - self._free_since_ns
        if now_ns > self._free_since_ns:
            now_ns += next(self._wakes)
        while self._outages and self._outages[-1][0] <= now_ns:
            began_ns, length_ns = self._outages.pop()
            now_ns = max(now_ns, max(began_ns, self._free_since_ns) + length_ns)
        for end in self.ends:
            arrival_ns = end.next_arrival_ns
            if arrival_ns is not None and arrival_ns <= now_ns:
                now_ns = end.receive(now_ns=now_ns)
                if self._answers_at_once:
                    now_ns = end.pump(now_ns=now_ns)
        if self._is_unsent:
            self._is_unsent = False
            for end in self.ends:
                now_ns = end.pump(now_ns=now_ns)
        next_ns = NEVER_NS
        for source in self.sources:
            now_ns, again_ns = source.step(now_ns, self._idle_ns)
            _rest(source.task, now_ns, again_ns)
            next_ns = min(next_ns, again_ns)
        for relay in self.relays:
            now_ns, again_ns = relay.step(now_ns)
            _rest(relay.task, now_ns, again_ns)
            next_ns = min(next_ns, again_ns)
        for sink in self.sinks:
            now_ns, again_ns = sink.step(now_ns)
            _rest(sink.task, now_ns, again_ns)
            next_ns = min(next_ns, again_ns)
        for each in self.stream_tasks:
            now_ns, again_ns = each.step(now_ns)
            _rest(each.task, now_ns, again_ns)
            next_ns = min(next_ns, again_ns)
        if self.has_local_channels and self._is_any_ready():
            next_ns = now_ns  # what a later task did lets an earlier one go on
        self._free_since_ns = now_ns
        if self._answers_at_once and self._has_arrivals(now_ns):
            self._is_unsent = True
            self.wake(now_ns)
            return
        is_blocked = (
            any(source.is_blocked for source in self.sources)
            or any(relay.task.is_blocked for relay in self.relays)
            or any(each.task.is_blocked for each in self.stream_tasks)
        )
        for end in self.ends:
            sent_bytes = end.sent_bytes
            now_ns = end.pump(now_ns=now_ns)
            if is_blocked and end.sent_bytes != sent_bytes:
                next_ns = now_ns  # buffers came back to the writer
            arrival_ns = end.next_arrival_ns
            if arrival_ns is not None and arrival_ns < next_ns:
                next_ns = arrival_ns
            deadline_ns = end.connection.next_deadline_ns()
            if deadline_ns is not None and deadline_ns < next_ns:
                next_ns = max(deadline_ns, now_ns)
                if deadline_ns <= now_ns:
                    end.connection.handle_deadline(now_ns=now_ns)
        self._free_since_ns = now_ns
        if next_ns != NEVER_NS:
            self.wake(next_ns)

    def _has_arrivals(self, now_ns: int) -> bool:
        arrivals_ns = [end.next_arrival_ns for end in self.ends]
        return any(at_ns is not None and at_ns <= now_ns for at_ns in arrivals_ns)

    def _is_any_ready(self) -> bool:
        return (
            any(source.task.is_ready for source in self.sources)
            or any(relay.task.is_ready for relay in self.relays)
            or any(sink.task.is_ready for sink in self.sinks)
            or any(each.task.is_ready for each in self.stream_tasks)
        )


def _rest(task: Task, now_ns: int, again_ns: int) -> None:
    """Tell a busy task that it is not stepped again at once."""
    if again_ns > now_ns and task.times.is_busy:
        task.rest(now_ns=now_ns)
