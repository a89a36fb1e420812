"""How long nothing had passed before a message, and what that does to its delay.

A machine with nothing to do sleeps, threads and cores, and a virtual machine, too: the longer
nothing has passed, the longer and the less evenly it takes to wake. On two cores one in ten round
trips took 2.9 ms and more after a quiet time of 2 to 4 ms, and 1.1 ms after one of up to 0.5 ms.
Several buffers of one flush wake it once, so what counts is the time before their flush, over all
exchanges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flinknet.arrays import IntArray

from .delays import QUANTILES, DelaysByQuiet, spread_of

ONE_FLUSH_NS = 200_000
"""Buffers that pass this close after each other are of one flush."""

AWAKE_NS = 1_000_000
"""What passes so long after its flush began finds the machine awake."""

GROUPS_FROM_NS = (0, 500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000, 16_000_000)
"""Quiet times that belong together, by where each group begins."""

GROUP_MIN = 50
"""Messages of a group; fewer are put to the next one."""


@dataclass(frozen=True, slots=True, eq=False)
class Flushes:
    """What passed, as flushes: when each began, and when the one before it was over."""

    begun_ns: IntArray
    before_ns: IntArray

    @classmethod
    def of(cls, passed_ns: IntArray) -> Flushes:
        """Those of buffers that passed at some instants, ascending."""
        is_new = np.diff(passed_ns) > ONE_FLUSH_NS
        first = passed_ns[:1]
        return cls(np.r_[first, passed_ns[1:][is_new]], np.r_[first, passed_ns[:-1][is_new]])

    def quiet_ns(self, at_ns: IntArray) -> IntArray:
        """How long nothing had passed before the flush of each of some of these buffers; 0 of one
        that is not of a flush seen."""
        place = np.searchsorted(self.begun_ns, at_ns, side="right") - 1
        is_seen = place >= 0
        begun_ns = self.begun_ns[place[is_seen]]
        is_waking = at_ns[is_seen] - begun_ns < AWAKE_NS
        found = np.zeros(len(place), np.int64)
        found[is_seen] = np.where(is_waking, begun_ns - self.before_ns[place[is_seen]], 0)
        return found


def delays_by_quiet(beyond_ns: IntArray, records: IntArray, quiet_ns: IntArray) -> DelaysByQuiet:
    """The delays of some messages by how long nothing had passed before each.

    Args:
        beyond_ns: what each took beyond the typical.
    """
    from_ns: list[int] = []
    spreads_ns: list[IntArray] = []
    group = np.searchsorted(GROUPS_FROM_NS, quiet_ns, side="right") - 1
    first = 0
    for last, _ in enumerate(GROUPS_FROM_NS):
        own = (group >= first) & (group <= last)
        if own.sum() >= GROUP_MIN:
            from_ns.append(GROUPS_FROM_NS[first] if from_ns else 0)
            spreads_ns.append(spread_of(beyond_ns[own], np.maximum(records[own], 1)))
            first = last + 1
    if not spreads_ns:
        from_ns, spreads_ns = [0], [spread_of(beyond_ns, np.maximum(records, 1))]
    typical_ns = np.quantile(quiet_ns, (np.arange(QUANTILES) + 0.5) / QUANTILES)
    return DelaysByQuiet(
        typical_ns.astype(np.int64), np.array(from_ns, np.int64), tuple(spreads_ns)
    )
