"""RunningJitter: by how much what comes next takes longer than usual, or less long."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, repeat

from flinknet.arrays import IntArray

from .loop_costs import NO_JITTER, Jitter


def over_and_over(values: IntArray) -> Iterator[int]:
    """The values again and again; zeros if there are none."""
    return cycle(values.tolist()) if len(values) else repeat(0)


class RunningJitter:
    """The jitter of one process, each value for what comes next; shared by its ends and tasks."""

    def __init__(self, jitter: Jitter = NO_JITTER) -> None:
        self.pick_ns = over_and_over(jitter.pick_ns)
        self.send_ns = over_and_over(jitter.send_ns)
        self.write_ns = over_and_over(jitter.write_ns)
        self.decode_ns = over_and_over(jitter.decode_ns)
        self.announce_ns = over_and_over(jitter.announce_ns)
        self.read_ns = over_and_over(jitter.read_ns)
