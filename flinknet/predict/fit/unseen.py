"""What messages captured between processes leave open, and draws of what it may have been.

Two things bear on predictions: when the records of a buffer came, and how much of the time from a
buffer to its credit is the way to its reader. A draw takes a value for each that the messages
allow. All draws come from the seed of the run and a number, so they can be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from flinknet.simulator.cost_model import CostModel

from ..recorded import Ramps, RecordedExchange
from .arrivals import Pattern, Seen

WAY_SHARE = 0.4
"""Of the time from a buffer to its credit without that of its records, what the way to the reader
takes; as much is the way back, and the rest goes into handling the buffer."""

WAY_SHARES = (0.25, 0.5)
"""Least and greatest share of the way in a draw."""


@dataclass(frozen=True, slots=True, eq=False)
class Unseen:
    """Of one exchange in the window [from_ns, to_ns).

    Attributes:
        seen: by channel, the stretches of time in which records came.
        pattern: of the records in them.
        round_trip_ns: from a buffer to its credit, without the time of its records; None where
            that was not measured.
    """

    seen: Mapping[int, Seen]
    pattern: Pattern
    from_ns: int
    to_ns: int
    round_trip_ns: float | None

    def is_of(self, exchange: RecordedExchange) -> bool:
        """Whether it is of that window."""
        return self.from_ns == exchange.measured_from_ns

    def arrivals(self, seed: int) -> dict[int, Ramps]:
        """The best guess of the arrivals of each channel."""
        random = np.random.default_rng(seed)
        return self._arrivals(self.pattern.dispersion, random, to_ns=self.to_ns)

    def drawn(self, exchange: RecordedExchange, number: int) -> RecordedExchange:
        """The exchange as it may have been.

        Args:
            number: of the draw.
        """
        random = np.random.default_rng((exchange.seed, number))
        dispersion = self.pattern.draw(random)
        costs = exchange.costs
        if self.round_trip_ns is not None:
            costs = with_way(costs, self.round_trip_ns, float(random.uniform(*WAY_SHARES)))
        arrivals = self._arrivals(dispersion, random, to_ns=exchange.measured_to_ns)
        return replace(
            exchange,
            seed=exchange.seed + number,  # the phase of the flusher is open, too
            costs=costs,
            channels=tuple(
                replace(each, arrivals=arrivals[each.channel]) for each in exchange.channels
            ),
        )

    def _arrivals(
        self, dispersion: float, random: np.random.Generator, *, to_ns: int
    ) -> dict[int, Ramps]:
        found = {}
        for channel, seen in self.seen.items():
            own = seen.up_to(to_ns)
            own = own.within_bursts() if self.pattern.is_on_off else own
            found[channel] = own.drawn(dispersion, random).within(self.from_ns, to_ns)
        return found


def with_way(costs: CostModel, round_trip_ns: float, share: float) -> CostModel:
    """The costs where the way to the reader takes this share of a round trip."""
    receive_ns = max((1 - 2 * share) * round_trip_ns, 0.0)
    return replace(
        costs,
        transit_ns=share * round_trip_ns,
        receive_ns_per_message=receive_ns or costs.receive_ns_per_message,
    )
