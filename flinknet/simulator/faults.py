"""FaultPlan: what goes wrong in a simulated run, as plain data that follows from a seed.

TCP neither loses nor reorders. What it does: cut bytes anywhere, deliver late, stand still, break.
What tasks do: be slow, pause. What memory does: belong to somebody else for a while. Instants
count from the start of the tasks.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from flinknet.config import SlowConsumer


@dataclass(frozen=True, slots=True)
class Interval:
    """From `from_ns` to `to_ns` the link, consumer or TaskManager of this index is disturbed."""

    index: int
    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """All faults of one run.

    Attributes:
        seed: of where bytes are cut and how late pieces are.
        piece_bytes_max: bytes arrive in pieces of at most this length; 0 as they were sent.
        delay_ns_max: a piece is late by up to this much.
        stalls: a link delivers nothing, in either direction.
        resets: (link, at_ns): a link breaks, which ends the job.
        slow_consumers: for the workload of the scenario.
        pauses: a consumer reads nothing.
        exhaustions: another task takes the memory of a TaskManager that is not promised to pools.
    """

    seed: int = 0
    piece_bytes_max: int = 0
    delay_ns_max: int = 0
    stalls: tuple[Interval, ...] = ()
    resets: tuple[tuple[int, int], ...] = ()
    slow_consumers: tuple[SlowConsumer, ...] = ()
    pauses: tuple[Interval, ...] = ()
    exhaustions: tuple[Interval, ...] = ()

    @classmethod
    def draw(
        cls, seed: int, *, links: int, consumers: int, task_managers: int, duration_ns: int
    ) -> FaultPlan:
        """Some faults, each kind in about half of the plans; a reset in one of eight."""
        chance = random.Random(f"faults {seed}")

        def intervals(indices: int) -> tuple[Interval, ...]:
            if chance.random() < 0.5:
                return ()
            drawn = []
            for _ in range(chance.randint(1, 3)):
                from_ns = chance.randrange(duration_ns)
                length_ns = chance.randrange(1, duration_ns // 2)
                drawn.append(Interval(chance.randrange(indices), from_ns, from_ns + length_ns))
            return tuple(drawn)

        resets: tuple[tuple[int, int], ...] = ()
        if chance.random() < 0.125:
            resets = ((chance.randrange(links), chance.randrange(duration_ns)),)
        slow: tuple[SlowConsumer, ...] = ()
        if chance.random() < 0.5:
            slow = (SlowConsumer(chance.randrange(consumers), chance.randrange(1, 100_000)),)
        return cls(
            seed=seed,
            piece_bytes_max=chance.choice((0, 7, 100, 1000, 40_000)),
            delay_ns_max=chance.choice((0, 1000, 1_000_000)),
            stalls=intervals(links),
            resets=resets,
            slow_consumers=slow,
            pauses=intervals(consumers),
            exhaustions=intervals(task_managers),
        )


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
        faults = cls(plan, link, side, origin_ns=origin_ns)
        return faults if plan.piece_bytes_max or plan.delay_ns_max or faults._stalls else None

    def cut(self, data: bytes) -> list[bytes]:
        """The pieces in which bytes arrive."""
        longest = self._plan.piece_bytes_max
        if not longest:
            return [data]
        pieces = []
        position = 0
        while position < len(data):
            end = position + self._random.randint(1, longest)
            pieces.append(data[position:end])
            position = end
        return pieces

    def arrival_ns(self, at_ns: int) -> int:
        """When a piece that should arrive at an instant arrives."""
        if self._plan.delay_ns_max:
            at_ns += self._random.randrange(self._plan.delay_ns_max)
        for from_ns, to_ns in self._stalls:
            if from_ns <= at_ns < to_ns:
                at_ns = to_ns
        return at_ns
