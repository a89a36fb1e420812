# mypyc
"""FaultPlan: the faults of a simulated run, as plain data.

TCP neither loses nor reorders bytes, but it cuts them anywhere, delivers late, stalls, breaks, or
breaks for one side only. Peers send bytes that are no message. Tasks are slow, pause, or are
cancelled. Processes die or wake up late. Memory is taken by other tasks for a while. Clocks stand,
jump, or run at another rate. Instants count from the start of the tasks.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from flinknet.config import SlowConsumer

from .host_clock import HostClock

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
class FaultPlan:
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
    clocks: tuple[HostClock, ...] = ()
    first_sequence_number: int = 0
    storage_fails: bool = False

    @property
    def may_end_the_job(self) -> bool:
        """Whether these faults may fail or cancel the job."""
        ends = self.resets, self.half_opens, self.crashes, self.cancels_at_ns, self.injections
        return any(ends) or self.storage_fails


NO_FAULTS = FaultPlan()


class LinkFaults:
    """The faults of one direction of one link."""

    def __init__(self, plan: FaultPlan, link: int, side: int, *, origin_ns: int) -> None:
        self._plan = plan
        self._stalls = sorted(
            (origin_ns + each.from_ns, origin_ns + each.to_ns)
            for each in plan.stalls
            if each.index == link
        )
        self._random = random.Random(f"link {plan.seed} {link} {side}")

    @classmethod
    def of(cls, plan: FaultPlan, link: int, side: int, *, origin_ns: int) -> LinkFaults | None:
        """The faults of a direction; None if there are none. The tasks start at `origin_ns`."""
        has_stalls = any(each.index == link for each in plan.stalls)
        if plan.piece_bytes_max or plan.delay_ns_max or has_stalls:
            return cls(plan, link, side, origin_ns=origin_ns)
        return None

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


class LostTriggers:
    """Chooses the checkpoint triggers that do not reach their source; `lost` counts them."""

    def __init__(self, plan: FaultPlan) -> None:
        self.lost = 0
        self._share = plan.lost_triggers
        self._random = random.Random(f"triggers {plan.seed}")

    def is_next_lost(self) -> bool:
        """Whether the next trigger is lost."""
        is_lost = self._random.random() < self._share
        self.lost += is_lost
        return is_lost


class LostWakeups:
    """Chooses the wake-ups of a TaskManager that are lost; `lost` counts them."""

    def __init__(self, plan: FaultPlan, task_manager: int) -> None:
        self.lost = 0
        self._tick_ns = plan.tick_ns
        self._random = random.Random(f"wake-ups {plan.seed} {task_manager}")

    def woken_ns(self, at_ns: int) -> int:
        """The instant at which a TaskManager wakes up that should do so at `at_ns`."""
        if self._random.random() < LOST_WAKEUPS:
            self.lost += 1
            at_ns += self._tick_ns - at_ns % self._tick_ns
        return at_ns
