# mypyc
"""SimulatedTaskManager: an event loop whose turns take virtual time for their work.

One turn reads arrived bytes, steps the tasks and sends, as the runtime's loop does. Records and
bytes that come during a turn are handled together in the next one; therefore messages grow under
load even with timeout 0. Each TaskManager has one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, repeat

from flinknet.core.buffers import NetworkBufferPool
from flinknet.errors import FlinknetError, SimulationError
from flinknet.job.stream_task import StreamTask

from .cost_model import Preemptions
from .faults import HostClock, LostWakeups
from .link import LinkEnd
from .scheduler import Scheduler

BUSY_NS_MAX = 200_000
"""Longest work of a sink on a buffer, in ns, during which the loop does nothing else."""

NEVER_NS = 2**63 - 1


class SteppedTask:
    """A task that a loop steps, with the cost of the steps.

    Args:
        work: what `step` calls, unless a derived class replaces it.

    Attributes:
        is_cancelled: the loop must not step it any more.
        fail: called with an error of the task; None to raise it.
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
        """Whether a writer waits for buffers."""
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
        lost_wakeups: chooses the lost wake-ups; None: none is lost.
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
        self._wakeups: Iterator[int] = repeat(0)
        self.clock: HostClock | None = None
        self.lost_wakeups: LostWakeups | None = None

    @property
    def now_ns(self) -> int:
        """The time that its clock shows."""
        now_ns = self._scheduler.now_ns
        return now_ns if self.clock is None else self.clock.host_ns(now_ns)

    def virtual_ns(self, host_ns: int) -> int:
        """The virtual time at which its clock shows an instant."""
        return host_ns if self.clock is None else self.clock.virtual_ns(host_ns)

    def wake(self, at_ns: int) -> None:
        """Take a turn at an instant of virtual time, or after the turn in progress then."""
        at_ns = max(at_ns, self._free_since_ns, self._scheduler.now_ns)
        if at_ns < self._wake_ns and self.lost_wakeups is not None:
            at_ns = self.lost_wakeups.woken_ns(at_ns)
        if at_ns < self._wake_ns:
            self._wake_ns = at_ns
            self._scheduler.at(at_ns, self._turn)

    def set_preemptions(self, preemptions: Preemptions, *, start_ns: int) -> None:
        """Set preemptions of this process; to be called before it has ends and tasks.

        A preemption delays the turn after the one in which it begins, and turns that would begin
        within it. A turn after idleness is delayed by the next of the wake-up times, in a cycle.
        """
        wakeups_ns = preemptions.wakeups_ns.tolist()
        self._wakeups = cycle(wakeups_ns) if wakeups_ns else repeat(0)
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
        self.idle_ns += now_ns - self._free_since_ns
        if now_ns > self._free_since_ns:
            now_ns += next(self._wakeups)
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
        is_blocked = False
        for each in self.tasks:
            if each.is_blocked:
                is_blocked = True
                break
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
