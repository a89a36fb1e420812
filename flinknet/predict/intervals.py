"""Sets of time as sorted, disjoint intervals, and their algebra on arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray

BoolArray = npt.NDArray[np.bool_]

GOLDEN = 0.6180339887498949
"""Multiples of the golden ratio lie evenly between whole numbers, however many there are."""


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """A set of instants: the union of [starts[i], ends[i]), where starts[i] <= ends[i] <=
    starts[i + 1]; all int64 ns."""

    starts_ns: IntArray
    ends_ns: IntArray

    @property
    def total_ns(self) -> int:
        return int((self.ends_ns - self.starts_ns).sum())

    def until(self, at_ns: IntArray) -> IntArray:
        """Length of the part of the set before each of the instants."""
        if not len(self.starts_ns):
            return np.zeros(len(at_ns), np.int64)
        before = np.r_[0, np.cumsum(self.ends_ns - self.starts_ns)]
        index = np.searchsorted(self.starts_ns, at_ns, side="right") - 1
        inside = np.minimum(at_ns, self.ends_ns[index]) - self.starts_ns[index]
        length: IntArray = np.where(index >= 0, before[index] + inside, 0)
        return length

    def clipped(self, from_ns: IntArray | int, to_ns: IntArray | int) -> Intervals:
        """The part in [from_ns, to_ns); bounds may differ from interval to interval."""
        starts = np.clip(self.starts_ns, from_ns, to_ns)
        ends = np.clip(self.ends_ns, from_ns, to_ns)
        keep = starts < ends
        return Intervals(starts[keep], ends[keep])

    def both(self, other: Intervals) -> Intervals:
        """The intersection with another set."""
        return self._where(other, is_in_other=True)

    def without(self, other: Intervals) -> Intervals:
        """The difference to another set."""
        return self._where(other, is_in_other=False)

    def _where(self, other: Intervals, *, is_in_other: bool) -> Intervals:
        if not len(other.starts_ns):
            return NOTHING if is_in_other else self
        edges = np.concatenate([self.starts_ns, self.ends_ns, other.starts_ns, other.ends_ns])
        edges.sort(kind="stable")
        edges = edges[np.r_[True, edges[1:] > edges[:-1]]]
        if len(edges) < 2:
            return NOTHING
        starts, ends = edges[:-1], edges[1:]
        keep = self.hold(starts) & (other.hold(starts) == is_in_other)
        return Intervals(starts[keep], ends[keep])

    def some(self, share: float) -> Intervals:
        """A share of the intervals, spread evenly over them."""
        kept = np.arange(1, len(self.starts_ns) + 1) * GOLDEN % 1 < share
        return Intervals(self.starts_ns[kept], self.ends_ns[kept])

    def begins_of(self, at_ns: IntArray) -> IntArray:
        """Each instant, or the beginning of the interval that it lies in."""
        return self._moved(at_ns, self.starts_ns)

    def ends_of(self, at_ns: IntArray) -> IntArray:
        """Each instant, or the end of the interval that it lies in."""
        return self._moved(at_ns, self.ends_ns)

    def _moved(self, at_ns: IntArray, edges_ns: IntArray) -> IntArray:
        if not len(edges_ns):
            return at_ns
        index = np.maximum(np.searchsorted(self.starts_ns, at_ns, side="right") - 1, 0)
        found: IntArray = np.where(self.hold(at_ns), edges_ns[index], at_ns)
        return found

    def hold(self, at_ns: IntArray) -> BoolArray:
        """Whether each instant lies in the set."""
        begun = np.searchsorted(self.starts_ns, at_ns, side="right")
        ended = np.searchsorted(self.ends_ns, at_ns, side="right")
        covers: BoolArray = begun > ended
        return covers


NOTHING = Intervals(np.zeros(0, np.int64), np.zeros(0, np.int64))


def merged(sets: Iterable[Intervals]) -> Intervals:
    """The union of sets that may have something in common, as may intervals of one."""
    kept = [each for each in sets if len(each.starts_ns)]
    if not kept:
        return NOTHING
    starts_ns = np.concatenate([each.starts_ns for each in kept])
    order = np.argsort(starts_ns, kind="stable")
    starts_ns = starts_ns[order]
    ends_ns = np.maximum.accumulate(np.concatenate([each.ends_ns for each in kept])[order])
    firsts = np.flatnonzero(np.r_[True, starts_ns[1:] > ends_ns[:-1]])
    lasts = np.r_[firsts[1:], len(starts_ns)] - 1
    return Intervals(starts_ns[firsts], ends_ns[lasts])


def from_switches(at_ns: IntArray, is_on: BoolArray, end_ns: int) -> Intervals:
    """The time in which a switch was on: it is set at each instant (ascending) and stays until the
    next one, the last until `end_ns`."""
    next_ns = np.r_[at_ns[1:], max(end_ns, int(at_ns[-1]))] if len(at_ns) else at_ns
    return Intervals(at_ns[is_on], next_ns[is_on])
