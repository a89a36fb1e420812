"""Preemptions: when a TaskManager had work and did not get on with it, because the machine gave its
core to others, or woke it late.

At the highest rate time is the sum of what buffers cost. On a machine that is shared, that sum has
two parts of different nature: what a buffer costs whenever the process runs, and pauses of some
milliseconds now and then. Medians see the first part only, means mix both; latencies need them
apart. A process has work while something lies before it that it has not taken; every event it
records is progress. From work that finds it idle to its first progress it wakes. A stretch of work
without progress that is far longer than usual is a preemption.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from flinknet.arrays import IntArray

from ..intervals import NOTHING, Intervals

UNCONTENDED = 0.05
"""Share of messages that met nothing on their way: that quantile of the way's time is the way's
own."""

NO_TIMES = np.zeros(0, np.int64)

_USUAL_TIMES = 8
_SHORTEST_NS = 500_000
"""Shorter ones are wake-ups and turns of other length, which are part of what things cost."""


@dataclass(frozen=True, slots=True, eq=False)
class Activity:
    """How a process spent its time.

    Attributes:
        preemptions: times in which it should have worked and did not.
        work: when it had something to do, preemptions included.
        wakeups_ns: each time from when there was work again until the first progress, preemptions
            apart.
    """

    preemptions: Intervals
    work: Intervals
    wakeups_ns: IntArray

    @property
    def busy_ns(self) -> int:
        """Time that its work took, without preemptions and waking."""
        return self.work.total_ns - self.preemptions.total_ns - int(self.wakeups_ns.sum())


def activity_of(work: Intervals, progress_ns: IntArray) -> Activity:
    """Find the preemptions of a process.

    Args:
        work: when it had something to do.
        progress_ns: instants of all that it recorded, in any order.
    """
    events_ns = np.unique(progress_ns)
    if len(events_ns) < 2:
        return Activity(NOTHING, work, NO_TIMES)
    spent_ns = np.diff(work.until(events_ns))
    working = spent_ns[spent_ns > 0]
    if not len(working):
        return Activity(NOTHING, work, NO_TIMES)
    usual_ns = int(np.median(working))
    limit_ns = longest_ns(working)
    is_preemption = spent_ns > limit_ns
    before_ns = events_ns[:-1][is_preemption]
    inside = np.searchsorted(work.starts_ns, before_ns, side="right") - 1
    is_inside = (inside >= 0) & (work.ends_ns[inside] > before_ns)
    following = np.minimum(inside + 1, len(work.starts_ns) - 1)
    starts_ns = np.where(is_inside, before_ns, work.starts_ns[following])
    preemptions = Intervals(starts_ns, starts_ns + spent_ns[is_preemption] - usual_ns)
    first = np.searchsorted(events_ns, work.starts_ns, side="right")
    # Work that begins outside of what is recorded, or with an event of its own, woke nobody.
    is_known = (first > 0) & (first < len(events_ns))
    is_known &= ~np.isin(work.starts_ns, events_ns)
    reached_ns = np.minimum(events_ns[first[is_known]], work.ends_ns[is_known])
    lags_ns = reached_ns - work.starts_ns[is_known]
    return Activity(preemptions, work, lags_ns[lags_ns <= limit_ns])


def longest_ns(spent_ns: IntArray) -> int:
    """How long a piece of work may take; what takes longer was held up."""
    usual_ns = int(np.median(spent_ns)) if len(spent_ns) else 0
    return max(_USUAL_TIMES * usual_ns, _SHORTEST_NS)


def union(starts_ns: IntArray, ends_ns: IntArray) -> Intervals:
    """The set of all instants in any of the stretches, which may overlap."""
    is_some = ends_ns > starts_ns
    starts_ns, ends_ns = starts_ns[is_some], ends_ns[is_some]
    if not len(starts_ns):
        return NOTHING
    order = np.argsort(starts_ns, kind="stable")
    starts_ns, reached_ns = starts_ns[order], np.maximum.accumulate(ends_ns[order])
    begins = np.flatnonzero(np.r_[True, starts_ns[1:] > reached_ns[:-1]])
    return Intervals(starts_ns[begins], reached_ns[np.r_[begins[1:], len(starts_ns)] - 1])


def joined(sets: Iterable[Intervals]) -> Intervals:
    """The union of sets."""
    parts = list(sets)
    return union(
        np.concatenate([each.starts_ns for each in parts] or [np.zeros(0, np.int64)]),
        np.concatenate([each.ends_ns for each in parts] or [np.zeros(0, np.int64)]),
    )


def uncontended_ns(ways_ns: IntArray, otherwise_ns: float) -> float:
    """What a way takes when nothing else is in it."""
    return float(np.quantile(ways_ns, UNCONTENDED)) if len(ways_ns) else otherwise_ns
