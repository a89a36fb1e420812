"""FaultPlan: the faults of a simulated run, as plain data; Disturbances: those that happen at an
instant; ChangedClock: a clock that stands, jumps or drifts.

TCP neither loses nor reorders bytes, but it cuts them anywhere, delivers late, stalls, breaks, or
breaks for one side only. Peers send bytes that are no message. Tasks are slow, pause, or are
cancelled. Processes die or wake up late. Memory is taken by other tasks for a while. Clocks stand,
jump, or run at another rate. Instants count from the start of the tasks.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial

from flinknet.config import SlowConsumer
from flinknet.errors import FlinknetError, RemoteTransportError, RunFailedError
from flinknet.job.load.load_tasks import run_input_of
from flinknet.simulator.cluster import Cluster
from flinknet.simulator.faults import Faults, HostClock, LinkFaults
from flinknet.simulator.link import SimulatedLink

LOST_WAKEUPS = 1 / 4
"""Share of wake-ups that are lost, in plans that lose any."""

HEARTBEAT_TIMEOUT_NS = 5_000_000
"""Time after which a job with a dead TaskManager or a half-open connection is cancelled, in ns."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A time in which the link, consumer or TaskManager with this index is disturbed."""

    index: int
    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class Injection:
    """Foreign bytes that one side of a link (0: the producer's) sends between two messages."""

    link: int
    side: int
    at_ns: int
    data: bytes


@dataclass(frozen=True, slots=True)
class FaultPlan(Faults):
    """All faults of one run.

    Attributes:
        seed: seed of the cuts, the delays and the lost wake-ups.
        piece_bytes_max: most bytes of a piece in which bytes arrive; 0: pieces as sent.
        delay_ns_max: longest additional delay of a piece.
        stalls: times in which a link delivers nothing, in either direction.
        resets: (link, at_ns): a link breaks, which ends the job.
        half_opens: (link, side, at_ns): a link breaks, and only this side learns of it; the job is
            cancelled after the heartbeat timeout, if it has not failed before.
        crashes: (TaskManager, at_ns): its process dies; its links break, and the job is cancelled
            as after a half-open connection.
        cancels_at_ns: instants at which the job is cancelled; its connections stay open, as a
            TaskManager's do.
        injections: bytes that no peer of Flink sends.
        slow_consumers: slow consumers for the workload of the scenario.
        pauses: times in which a consumer reads nothing.
        exhaustions: times in which another task has all memory of a TaskManager that is not
            promised to pools.
        late_buffers_ns: interval at which that memory returns, buffer by buffer, after the pool of
            the other task is destroyed; 0: all of it before.
        closes_gates_first: a job that ends early closes its gates while its tasks still read, as
            Flink's canceler does.
        lost_triggers: share of checkpoint triggers that do not reach their source.
        checkpoints_end_ns: instant from which no checkpoint begins; None for no end.
        late_partitions_ns: delay of the registration of partitions, so that requests arrive
            earlier; None: requests arrive afterwards.
        tick_ns: interval of the ticks at which a TaskManager continues after a lost wake-up (see
            LOST_WAKEUPS); 0: none is lost.
        clocks: clocks of TaskManagers; those without one show virtual time.
        first_sequence_number: first sequence number of all pipelined channels.
        storage_fails: data written to blocking partitions may be unreadable.
    """

    seed: int = 0
    piece_bytes_max: int = 0
    delay_ns_max: int = 0
    stalls: tuple[Interval, ...] = ()
    resets: tuple[tuple[int, int], ...] = ()
    half_opens: tuple[tuple[int, int, int], ...] = ()
    crashes: tuple[tuple[int, int], ...] = ()
    cancels_at_ns: tuple[int, ...] = ()
    injections: tuple[Injection, ...] = ()
    slow_consumers: tuple[SlowConsumer, ...] = ()
    pauses: tuple[Interval, ...] = ()
    exhaustions: tuple[Interval, ...] = ()
    late_buffers_ns: int = 0
    closes_gates_first: bool = False
    lost_triggers: float = 0.0
    checkpoints_end_ns: int | None = None
    late_partitions_ns: int | None = None
    tick_ns: int = 0
    clocks: tuple[ChangedClock, ...] = ()
    first_sequence_number: int = 0
    storage_fails: bool = False

    @property
    def may_end_the_job(self) -> bool:
        """Whether these faults may fail or cancel the job."""
        ends = self.resets, self.half_opens, self.crashes, self.cancels_at_ns, self.injections
        return any(ends) or self.storage_fails

    def link_faults(self, link: int, side: int, *, origin_ns: int) -> LinkFaults | None:
        """The faults of a direction of a link; None if there are none."""
        has_stalls = any(each.index == link for each in self.stalls)
        if self.piece_bytes_max or self.delay_ns_max or has_stalls:
            return DrawnLinkFaults(self, link, side, origin_ns=origin_ns)
        return None

    def clock_of(self, task_manager: int) -> HostClock | None:
        """The clock of a TaskManager; None if it shows virtual time."""
        found = [each for each in self.clocks if each.task_manager == task_manager]
        return found[-1] if found else None

    def wakeups_of(self, task_manager: int) -> DrawnLostWakeups | None:
        """Draws the wake-ups of a TaskManager that are lost; None: none is lost."""
        return DrawnLostWakeups(self, task_manager) if self.tick_ns else None

    def triggers(self) -> DrawnLostTriggers:
        """Draws the checkpoint triggers that are lost."""
        return DrawnLostTriggers(self)

    def begin(self, cluster: Cluster) -> None:
        """Schedule what happens to a cluster at an instant."""
        Disturbances(cluster).schedule(self, start_ns=cluster.job.start_ns)


def plan_of(cluster: Cluster) -> FaultPlan:
    """The faults of a cluster."""
    return cluster.faults if isinstance(cluster.faults, FaultPlan) else FaultPlan()


class DrawnLinkFaults(LinkFaults):
    """The faults of one direction of one link."""

    def __init__(self, plan: FaultPlan, link: int, side: int, *, origin_ns: int) -> None:
        self._plan = plan
        self._stalls = sorted(
            (origin_ns + each.from_ns, origin_ns + each.to_ns)
            for each in plan.stalls
            if each.index == link
        )
        self._random = random.Random(f"link {plan.seed} {link} {side}")

    def cut(self, data: bytes) -> list[bytes]:
        """The pieces in which bytes arrive."""
        longest = self._plan.piece_bytes_max
        if not longest:
            return [data]
        pieces = []
        position = 0
        while position < len(data):
            end = position + 1 + int(self._random.random() * longest)
            pieces.append(data[position:end])
            position = end
        return pieces

    def arrival_ns(self, at_ns: int) -> int:
        """The arrival of a piece that would arrive at `at_ns` without faults."""
        if self._plan.delay_ns_max:
            at_ns += int(self._random.random() * self._plan.delay_ns_max)
        for from_ns, to_ns in self._stalls:
            if from_ns <= at_ns < to_ns:
                at_ns = to_ns
        return at_ns


class DrawnLostTriggers:
    """Draws the checkpoint triggers that do not reach their source."""

    def __init__(self, plan: FaultPlan) -> None:
        self.lost = 0
        self._share = plan.lost_triggers
        self._random = random.Random(f"triggers {plan.seed}")

    def __call__(self) -> bool:
        is_lost = self._random.random() < self._share
        self.lost += is_lost
        return is_lost


class DrawnLostWakeups:
    """Draws the wake-ups of a TaskManager that are lost."""

    def __init__(self, plan: FaultPlan, task_manager: int) -> None:
        self.lost = 0
        self._tick_ns = plan.tick_ns
        self._random = random.Random(f"wake-ups {plan.seed} {task_manager}")

    def __call__(self, at_ns: int) -> int:
        """The instant at which a TaskManager wakes up that should do so at `at_ns`."""
        if self._random.random() < LOST_WAKEUPS:
            self.lost += 1
            at_ns += self._tick_ns - at_ns % self._tick_ns
        return at_ns


MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A change of a clock at an instant of virtual time: a jump by `ahead_ns` and a new rate.

    CLOCK_MONOTONIC is never set back: with a negative `ahead_ns` it stands for that much virtual
    time. `rate_ppm` is positive; 1 000 000 is the rate of virtual time.
    """

    at_ns: int
    ahead_ns: int = 0
    rate_ppm: int = MILLION


class ChangedClock(HostClock):
    """A clock that drifts, jumps and stands.

    Invariant: `host_ns` never falls, and `virtual_ns` is the first instant at which the clock shows
    at least the given time.

    Args:
        task_manager: index of the clock's TaskManager.
        changes: ascending, and further apart than the clock stands; before the first one it shows
            virtual time.
    """

    def __init__(self, task_manager: int, changes: tuple[ClockChange, ...]) -> None:
        self.task_manager = task_manager
        self.changes = changes
        self._corners = [(0, 0, MILLION)]  # virtual time, clock's time then, rate from then on
        for each in changes:
            from_ns, shown_ns, rate_ppm = self._corners[-1]
            shown_ns += (each.at_ns - from_ns) * rate_ppm // MILLION
            if each.ahead_ns < 0:
                self._corners.append((each.at_ns, shown_ns, 0))
                self._corners.append((each.at_ns - each.ahead_ns, shown_ns, each.rate_ppm))
            else:
                self._corners.append((each.at_ns, shown_ns + each.ahead_ns, each.rate_ppm))

    def host_ns(self, at_ns: int) -> int:
        """The time that the clock shows at an instant of virtual time."""
        corner = self._corners[0]
        for each in self._corners:
            if each[0] > at_ns:
                break
            corner = each
        from_ns, shown_ns, rate_ppm = corner
        return shown_ns + (at_ns - from_ns) * rate_ppm // MILLION

    def next_host_ns(self, at_ns: int) -> int:
        """The first time that the clock shows once an instant of virtual time is reached."""
        shown_ns = self.host_ns(at_ns)
        return shown_ns if self.virtual_ns(shown_ns) >= at_ns else shown_ns + 1

    def virtual_ns(self, shown_ns: int) -> int:
        """The first instant of virtual time at which the clock shows at least `shown_ns`."""
        for index, (from_ns, corner_ns, rate_ppm) in enumerate(self._corners):
            if corner_ns >= shown_ns:
                return from_ns
            following = self._corners[index + 1 : index + 2]
            if rate_ppm:
                found_ns = from_ns - (corner_ns - shown_ns) * MILLION // rate_ppm
                if not following or found_ns < following[0][0]:
                    return found_ns
        raise AssertionError("a clock does not stand for ever")


class Disturbances:
    """Schedules the faults of a plan that happen at an instant, and applies them to a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._scheduler = cluster.scheduler
        self._gates = [
            [gate for each in task_manager.tasks for gate in each.task.gates]
            for task_manager in cluster.task_managers
        ]
        self._sinks = [
            (cluster.tasks[each.key], cluster.task_managers[each.task_manager])
            for each in cluster.job.subtasks
            if each.key in cluster.tasks and each.inputs and not each.outputs
        ]

    def schedule(self, faults: FaultPlan, *, start_ns: int) -> None:
        """Schedule the faults; their instants count from `start_ns`."""
        at = self._scheduler.at
        for number, at_ns in faults.resets:
            at(start_ns + at_ns, partial(self._reset, number))
        for number, side, at_ns in faults.half_opens:
            at(start_ns + at_ns, partial(self._half_open, number, side))
        for number, at_ns in faults.crashes:
            at(start_ns + at_ns, partial(self._crash, number))
        for at_ns in faults.cancels_at_ns:
            at(start_ns + at_ns, self._cancel)
        for injection in faults.injections:
            at(start_ns + injection.at_ns, partial(self._inject, injection))
        for pause in faults.pauses:
            at(start_ns + pause.from_ns, partial(self._pause, pause.index))
            at(start_ns + pause.to_ns, partial(self._unpause, pause.index))
        for exhaustion in faults.exhaustions:
            end_ns = start_ns + exhaustion.to_ns
            exhaust = partial(self._exhaust, exhaustion.index, end_ns, faults.late_buffers_ns)
            at(start_ns + exhaustion.from_ns, exhaust)

    def _link(self, number: int) -> SimulatedLink | None:
        """The link with a number; None if there is none."""
        links = list(self._cluster.links.values())
        return links[number] if number < len(links) else None

    def _reset(self, number: int) -> None:
        link = self._link(number)
        if link is not None:
            link.reset(now_ns=self._scheduler.now_ns)

    def _half_open(self, number: int, side: int) -> None:
        link = self._link(number)
        if link is not None:
            link.ends[side].close(now_ns=self._scheduler.now_ns)
            self._time_out()

    def _crash(self, index: int) -> None:
        """End the process of a TaskManager; its host resets its connections."""
        if self._cluster.is_over:
            return
        dead = self._cluster.hosts.task_managers[index]
        for each in dead.tasks:
            each.is_cancelled = True
        dead.tasks = ()
        for (upstream, downstream, _), link in self._cluster.links.items():
            if index in (upstream, downstream):
                link.reset(now_ns=self._scheduler.now_ns)
        self._time_out()

    def _time_out(self) -> None:
        def cancel() -> None:
            self._end(RemoteTransportError("its heartbeat timed out"))

        self._scheduler.at(self._scheduler.now_ns + HEARTBEAT_TIMEOUT_NS, cancel)

    def _cancel(self) -> None:
        self._end(RunFailedError("it was cancelled"), breaks_links=False)

    def _end(self, error: FlinknetError, *, breaks_links: bool = True) -> None:
        if not self._cluster.is_over:
            self._cluster.cancel(error, breaks_links=breaks_links)

    def _inject(self, injection: Injection) -> None:
        link = self._link(injection.link)
        if link is not None:
            end = link.ends[injection.side]
            end.inject(injection.data, now_ns=self._scheduler.now_ns)

    def _pause(self, consumer: int) -> None:
        task, _ = self._sinks[consumer]
        run_input_of(task).is_paused = True

    def _unpause(self, consumer: int) -> None:
        task, task_manager = self._sinks[consumer]
        run_input_of(task).unpause()
        task_manager.wake(self._scheduler.now_ns)

    def _exhaust(self, index: int, end_ns: int, late_ns: int) -> None:
        """Take all memory of a TaskManager that is not promised to its pools, until `end_ns`; then
        return it at once or, with `late_ns`, one buffer after another at this interval.
        """
        task_manager = self._cluster.hosts.task_managers[index]
        memory = task_manager.memory
        exclusive = sum(
            channel.initial_credit
            for gate in self._gates[index]
            for channel in gate.remote_channels
        )
        promised = sum(pool.required_buffers for pool in memory.pools) + exclusive
        rival = memory.create_buffer_pool(memory.total_buffers - promised, 0)
        taken = []
        while (buffer := rival.try_request()) is not None:
            taken.append(buffer)

        def give_back() -> None:
            if late_ns:
                rival.destroy()
                give_one_back()
                return
            for buffer in taken:
                buffer.recycle()
            rival.destroy()
            task_manager.wake(self._scheduler.now_ns)

        def give_one_back() -> None:
            if taken:
                taken.pop().recycle()
                task_manager.wake(self._scheduler.now_ns)
                self._scheduler.at(self._scheduler.now_ns + late_ns, give_one_back)

        self._scheduler.at(end_ns, give_back)
