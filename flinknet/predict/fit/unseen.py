"""Quantities that a capture between processes does not show, and samples of them.

Two of them bear on predictions: when the records of a buffer came, and how much of a round trip,
from a buffer until its credit is back, is the way to the reader. A sample has a value for each that
the messages allow; how far their predictions lie apart is the uncertainty, to which the model's own
error is added. All samples follow from the seed of the run and a number, so they can be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flinknet.arrays import IntArray

from ..ramps import Ramps
from .arrivals import Pattern, Seen
from .delays import Delays
from .round_trips import DELAYS_SHARE, DELAYS_SHARES, RoundTrip

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Unseen:
    """Unknown quantities of one exchange in the window [from_ns, to_ns).

    Attributes:
        seen: intervals in which records came, by channel.
        round_trip: time from a buffer until its credit is back; None if it was not measured.
    """

    seen: Mapping[int, Seen]
    pattern: Pattern
    from_ns: int
    to_ns: int
    round_trip: RoundTrip | None

    def arrivals(self, seed: int) -> dict[int, Ramps]:
        """The most likely arrivals of each channel."""
        random = np.random.default_rng(seed)
        return self.drawn_arrivals(self.pattern.dispersion, random, to_ns=self.to_ns)

    def routes(self, passed: Sequence[int], within: Sequence[int], seed: int) -> IntArray:
        """A sample of the channels of successive records of a producer. A capture shows how many
        records of a beat each channel had; their order, and that of local records among them, is
        drawn at random.

        Args:
            passed: its channels between TaskManagers.
            within: its local channels.
        """
        random = np.random.default_rng(seed)
        instants_ns = np.concatenate([_NONE, *(self.seen[n].at_random(random) for n in passed)])
        routes, local = self._all(passed)[np.argsort(instants_ns)], self._all(within)
        is_local = random.permutation(np.repeat([False, True], [len(routes), len(local)]))
        found = np.empty(len(is_local), np.int64)
        found[is_local] = random.permutation(local)
        found[~is_local] = routes
        return found

    def _all(self, channels: Sequence[int]) -> IntArray:
        records = [int(self.seen[each].records.sum()) for each in channels]
        return np.repeat(np.array(channels, np.int64), np.array(records, np.int64))

    def delays(self, delays: Delays, seed: int, number: int) -> Delays:
        """The delays of the machine in a sample."""
        random = np.random.default_rng((seed, number, 1))
        factor = random.uniform(*DELAYS_SHARES) / DELAYS_SHARE
        return delays.times(factor)

    def drawn_arrivals(
        self, dispersion: float, random: np.random.Generator, *, to_ns: int
    ) -> dict[int, Ramps]:
        """A sample of the arrivals of each channel up to an instant."""
        found = {}
        for channel, seen in self.seen.items():
            own = seen.up_to(to_ns)
            found[channel] = own.drawn(dispersion, random).within(self.from_ns, to_ns)
        return found
