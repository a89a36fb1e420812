# mypyc
"""FaultPlan: what goes wrong in a simulated run, as plain data.

TCP neither loses nor reorders. What it does: cut bytes anywhere, deliver late, stand still, break,
break for one side only. What peers do: send what is no message. What tasks do: be slow, pause, be
cancelled. What processes do: die, wake up late. What memory does: belong to somebody else for a
while. What clocks do: stand, jump, run at their own rate. Instants count from the start of the
tasks.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from flinknet.config import SlowConsumer

from .host_clock import HostClock

LOST_WAKEUPS = 1 / 4
"""Share of all wake-ups, where any are lost."""

HEARTBEAT_TIMEOUT_NS = 5_000_000
"""After which a job is cancelled whose TaskManager or connection is gone without a word."""


@dataclass(frozen=True, slots=True)
class Interval:
    """From `from_ns` to `to_ns` the link, consumer or TaskManager of this index is disturbed."""

    index: int
    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class Injection:
    """Bytes that one side of a link (0: the producer's) sends between two messages of its own."""

    link: int
    side: int
    at_ns: int
    data: bytes


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """All faults of one run.

    Attributes:
        seed: of where bytes are cut, how late pieces are, and which wake-ups are lost.
        piece_bytes_max: bytes arrive in pieces of at most this length; 0 as they were sent.
        delay_ns_max: a piece is late by up to this much.
        stalls: a link delivers nothing, in either direction.
        resets: (link, at_ns): a link breaks, which ends the job.
        half_opens: (link, side, at_ns): a link breaks, and only this side hears of it; the job is
            cancelled when the heartbeat timeout has passed, if it has not failed before.
        crashes: (TaskManager, at_ns): its process dies; its links break, and the job is cancelled
            as after a half-open connection.
        cancels_at_ns: the job is cancelled; its connections stay open, as those of a TaskManager
            do.
        injections: what no peer of Flink's sends.
        slow_consumers: for the workload of the scenario.
        pauses: a consumer reads nothing.
        exhaustions: another task takes the memory of a TaskManager that is not promised to pools.
        late_buffers_ns: the memory that another task took comes back one buffer after the other, so
            far apart, when its pool is gone; 0: all of it before.
        closes_gates_first: a job that ends early gives up its gates while its tasks still read, as
            Flink's canceler does.
        lost_triggers: share of all triggers of checkpoints that do not reach their source.
        checkpoints_end_ns: no checkpoint begins from this instant on; None for no end.
        late_partitions_ns: requests arrive before partitions are registered; None: afterwards.
        tick_ns: one wake-up of a TaskManager in so many is lost, and it goes on at the next tick of
            this length; 0 for none.
        clocks: of the TaskManagers; of those that are not listed, virtual time.
        first_sequence_number: of all pipelined channels: as if they had carried so many messages.
        storage_fails: what is written to blocking partitions may not be readable.
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
        """Whether the job may fail for them, or be cancelled."""
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
        """The faults of a direction, None if there are none.

        `origin_ns` is when the tasks start.
        """
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
        """When a piece that should arrive at an instant arrives."""
        if self._plan.delay_ns_max:
            at_ns += int(self._random.random() * self._plan.delay_ns_max)
        for from_ns, to_ns in self._stalls:
            if from_ns <= at_ns < to_ns:
                at_ns = to_ns
        return at_ns


class LostTriggers:
    """Which triggers of checkpoints do not reach their source.

    Attributes:
        lost: how many did not.
    """

    def __init__(self, plan: FaultPlan) -> None:
        self.lost = 0
        self._share = plan.lost_triggers
        self._random = random.Random(f"triggers {plan.seed}")

    def is_next_lost(self) -> bool:
        """Whether the next one is."""
        is_lost = self._random.random() < self._share
        self.lost += is_lost
        return is_lost


class LostWakeups:
    """Which wake-ups of a TaskManager do not come.

    Attributes:
        lost: how many did not.
    """

    def __init__(self, plan: FaultPlan, task_manager: int) -> None:
        self.lost = 0
        self._tick_ns = plan.tick_ns
        self._random = random.Random(f"wake-ups {plan.seed} {task_manager}")

    def woken_ns(self, at_ns: int) -> int:
        """When a TaskManager that should wake up at an instant does so."""
        if self._random.random() < LOST_WAKEUPS:
            self.lost += 1
            at_ns += self._tick_ns - at_ns % self._tick_ns
        return at_ns
