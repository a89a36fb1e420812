# mypyc
"""Scheduler: virtual time. SimulatedTaskManager: an event loop whose turns take it for their work.

One turn reads arrived bytes, steps the tasks and sends, as the runtime's loop does. What comes
during a turn is handled together in the next one; so messages grow under load even with timeout 0.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from flinknet.config import STEPS_PER_TURN
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.producer import OutputFlusher, RecordWriter
from flinknet.errors import FlinknetError, SimulationError
from flinknet.job.load.arrivals import RecordedArrivals
from flinknet.job.load.load_tasks import run_input_of
from flinknet.job.stream_task import StreamTask, TaskState

from .cost_model import SPIN_NS, Preemptions
from .faults import HostClock
from .link import LinkEnd

Action = Callable[[], None]

START_NS = 1_000_000_000
"""Start of the tasks of a scenario or a job, in virtual ns; a scenario opens channels before."""


class Scheduler:
    """Virtual time, which jumps from one action to the next. Invariant: `now_ns` never falls."""

    def __init__(self, *, start_ns: int = 0) -> None:
        self.now_ns = start_ns
        self._heap: list[tuple[int, int, Action]] = []
        self._order = 0
        self._cancelled: set[int] = set()

    @property
    def next_ns(self) -> int | None:
        if self._cancelled:
            self._drop_cancelled()
        return self._heap[0][0] if self._heap else None

    def at(self, at_ns: int, action: Action) -> int:
        """Schedule an action at an instant, or now if that has passed. Returns: its number."""
        self._order += 1
        if at_ns < self.now_ns:
            at_ns = self.now_ns
        heapq.heappush(self._heap, (at_ns, self._order, action))
        return self._order

    def cancel(self, planned: int) -> None:
        """Cancel an action that has not run yet; time does not jump to it."""
        self._cancelled.add(planned)

    def step(self) -> bool:
        """Run the next action. Returns: False if there was none."""
        if self._cancelled:
            self._drop_cancelled()
        if not self._heap:
            return False
        self.now_ns, _, action = heapq.heappop(self._heap)
        action()
        return True

    def _drop_cancelled(self) -> None:
        while self._heap and self._heap[0][1] in self._cancelled:
            self._cancelled.remove(heapq.heappop(self._heap)[1])


BUSY_NS_MAX = 200_000
"""Longest work of a sink on a buffer, in ns, during which the loop does nothing else."""

NEVER_NS = 2**63 - 1


class SteppedTask:
    """A task that a loop steps, with the cost of the steps. Errors of the task are passed to
    `fail`, or raised. A derived class may replace `work` by a `step` of its own.
    """

    def __init__(
        self, task: StreamTask, work: Callable[[int], tuple[int, int]] | None = None
    ) -> None:
        self.task = task
        self._work = work
        self.is_cancelled = False
        self.fail: Callable[[FlinknetError], None] | None = None

    @property
    def is_blocked(self) -> bool:
        return self.task.is_blocked

    def step(self, now_ns: int) -> tuple[int, int]:
        """Do some work. Returns: the instants of its end, and of the next step."""
        assert self._work is not None
        return self._work(now_ns)


class SimulatedTaskManager:
    """Network memory, sockets and tasks on one loop.

    Attributes:
        tasks: tasks in the order of their steps in a turn: writers before their local readers.
        idle_ns: total idle time until the last turn began.
        clock: clock of its host, for connections and tasks; None for virtual time.
        woken_ns: see Faults.wakeups_of.
        wake_ns: see CostModel.
    """

    def __init__(self, name: str, scheduler: Scheduler, memory: NetworkBufferPool) -> None:
        self.name = name
        self.memory = memory
        self.ends: list[LinkEnd] = []
        self.tasks: Sequence[SteppedTask] = ()
        self._scheduler = scheduler
        self.has_local_channels = False
        self._wake_ns = NEVER_NS
        self._free_since_ns = scheduler.now_ns
        self.idle_ns = 0
        self._preemptions: list[tuple[int, int]] = []
        self.clock: HostClock | None = None
        self.woken_ns: Callable[[int], int] | None = None
        self.wake_ns = self._sleeps = 0

    @property
    def now_ns(self) -> int:
        now_ns = self._scheduler.now_ns
        return now_ns if self.clock is None else self.clock.host_ns(now_ns)

    def virtual_ns(self, host_ns: int) -> int:
        """The virtual time at which its clock shows an instant."""
        return host_ns if self.clock is None else self.clock.virtual_ns(host_ns)

    def wake(self, at_ns: int) -> None:
        """Take a turn at an instant of virtual time, or after the turn in progress then."""
        at_ns = max(at_ns, self._free_since_ns, self._scheduler.now_ns)
        if at_ns < self._wake_ns and self.woken_ns is not None:
            at_ns = self.woken_ns(at_ns)
        if at_ns < self._wake_ns:
            self._wake_ns = at_ns
            self._scheduler.at(at_ns, self._turn)

    def set_preemptions(self, preemptions: Preemptions, *, start_ns: int) -> None:
        """Set preemptions of this process, before it has ends and tasks. A preemption delays the
        turn after the one in which it begins, and turns that would begin within it.
        """
        pairs = zip(preemptions.starts_ns.tolist(), preemptions.lengths_ns.tolist(), strict=True)
        self._preemptions = [(start_ns + at_ns, length_ns) for at_ns, length_ns in pairs][::-1]

    def _turn(self) -> None:
        now_ns = self._scheduler.now_ns
        if now_ns != self._wake_ns:
            return  # an earlier turn was taken instead
        self._wake_ns = NEVER_NS
        if now_ns < self._free_since_ns:
            self.wake(self._free_since_ns)  # woken during a turn
            return
        idle_ns = now_ns - self._free_since_ns
        self.idle_ns += idle_ns
        if self.wake_ns and idle_ns > SPIN_NS:
            host_ns = self.now_ns
            if any((end.next_arrival_ns or NEVER_NS) <= host_ns for end in self.ends):
                self._sleeps += 1
                # Evenly spread from 0 to twice as long, by multiples of the golden ratio.
                now_ns += self.wake_ns * (self._sleeps * 40503 & 0xFFFF) >> 15
        if self.clock is not None:
            now_ns = self.clock.host_ns(now_ns)
        while self._preemptions and self._preemptions[-1][0] <= now_ns:
            began_ns, length_ns = self._preemptions.pop()
            now_ns = max(now_ns, max(began_ns, self._free_since_ns) + length_ns)
        for end in self.ends:
            arrival_ns = end.next_arrival_ns
            if arrival_ns is not None and arrival_ns <= now_ns:
                try:
                    now_ns = end.receive(now_ns=now_ns)
                except FlinknetError as error:
                    self._fail(end, error)
                if self.wake_ns:
                    now_ns = end.pump(now_ns=now_ns)
        next_ns = NEVER_NS
        for each in self.tasks:
            if each.is_cancelled:
                continue
            try:
                now_ns, next_step_ns = each.step(now_ns)
            except FlinknetError as error:
                self._fail(each, error)
                continue
            if next_step_ns > now_ns and each.task.times.is_busy:
                each.task.rest(now_ns=now_ns)
            next_ns = min(next_ns, next_step_ns)
        self._free_since_ns = self.virtual_ns(now_ns)
        is_blocked = any(each.is_blocked for each in self.tasks)
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
        if self._may_go_on(is_blocked):
            next_ns = now_ns
        self._free_since_ns = self.virtual_ns(now_ns)
        if next_ns != NEVER_NS:
            self.wake(self.virtual_ns(next_ns))

    def _may_go_on(self, is_blocked: bool) -> bool:
        """Whether a task or connection can continue because of a later one in this turn: a reader
        got local data, or a writer's buffers were sent and returned.
        """
        if self.has_local_channels:
            if any(each.task.is_ready for each in self.tasks):
                return True
        elif is_blocked and any(e.task.is_blocked and e.task.is_ready for e in self.tasks):
            return True
        return len(self.ends) > 1 and any(end.is_ready for end in self.ends)

    def _fail(self, of: SteppedTask | LinkEnd, error: FlinknetError) -> None:
        if of.fail is None or isinstance(error, SimulationError):
            raise error
        of.fail(error)


class SimulatedSource(SteppedTask):
    """Steps a source when it can have an effect, and charges the loop for the records. Without the
    instants at which a record opens a segment, it is stepped for every record. Records due while
    the loop was idle were emitted then, and are not charged.
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
            stops = self._stops
            while self._next_stop < len(stops) and stops[self._next_stop] <= now_ns:
                self._next_stop += 1
            next_ns = stops[self._next_stop] if self._next_stop < len(stops) else NEVER_NS
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
            now_ns += int((task.emitted_records - emitted) * self._emit_ns)
            if not is_due_now:
                return now_ns, NEVER_NS if next_ns is None else next_ns
        return now_ns, now_ns


class SimulatedSink(SteppedTask):
    """Steps a sink and charges the loop for each buffer."""

    def __init__(self, task: StreamTask, *, receive_ns_per_message: float) -> None:
        super().__init__(task)
        self._input = run_input_of(task)
        self._receive_ns = int(receive_ns_per_message)
        self._busy_until_ns = -1

    def step(self, now_ns: int) -> tuple[int, int]:
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
