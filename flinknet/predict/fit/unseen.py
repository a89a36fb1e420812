"""Quantities that a capture between processes does not show, samples of them, and the interval of a
prediction over several samples.

Two of them bear on predictions: when the records of a buffer came, and how much of a round trip,
from a buffer until its credit is back, is the way to the reader. A sample has a value for each that
the messages allow; how far their predictions lie apart is the uncertainty, to which the model's own
error is added. All samples follow from the seed of the run and a number, so they can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from flinknet.arrays import IntArray
from flinknet.config import NetworkConfig
from flinknet.options.what_if import Setting

from ..outcome import DRAWS, EdgeOutcome, Figures, LikelyRange, likely_range
from ..ramps import Ramps
from ..recorded import RecordedExchange
from .arrivals import Pattern, Seen
from .delays import Delays
from .round_trips import DELAYS_SHARE, DELAYS_SHARES, RoundTrip

LATE_FACTORS = (0.0, 2.0)
"""Bounds of the factor of the assumed lateness of beats (`flusher.OWN_SHARE`): from punctual to as
late as recorded."""

Simulate = Callable[[RecordedExchange, NetworkConfig], EdgeOutcome]

MESSAGES_PER_DRAW = 40_000
"""Messages, roughly, of the part of an exchange that is simulated for each sample."""

MESSAGES_PER_DRAW_IN_FULL = 2_000
"""Messages of such a part where the core itself is simulated."""

BEATS_MIN = 20
"""Fewest beats of the buffer timeout in such a part."""

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Unseen:
    """Unknown quantities of one exchange in the window [from_ns, to_ns).

    Attributes:
        seen: intervals in which records came, by channel.
        pattern: pattern of the records in them.
        round_trip: time from a buffer until its credit is back; None if it was not measured.
    """

    seen: Mapping[int, Seen]
    pattern: Pattern
    from_ns: int
    to_ns: int
    round_trip: RoundTrip | None

    def is_of(self, exchange: RecordedExchange) -> bool:
        """Whether it describes the window of an exchange."""
        return self.from_ns == exchange.measured_from_ns

    def arrivals(self, seed: int) -> dict[int, Ramps]:
        """The most likely arrivals of each channel."""
        random = np.random.default_rng(seed)
        return self._arrivals(self.pattern.dispersion, random, to_ns=self.to_ns)

    def drawn(self, exchange: RecordedExchange, number: int) -> RecordedExchange:
        """A sample of the exchange, by its number."""
        random = np.random.default_rng((exchange.seed, number))
        dispersion = self.pattern.draw(random, number)
        costs, wakeups = exchange.costs, exchange.wakeups
        if self.round_trip is not None:
            costs = self.round_trip.costs_at(costs, *random.uniform(size=2).tolist())
            if wakeups is not None and exchange.costs.transit_ns:
                steepness = np.random.default_rng((exchange.seed, number, 2)).uniform(0.5, 1.5)
                wakeups = wakeups.times(costs.transit_ns / exchange.costs.transit_ns, steepness)
        arrivals = self._arrivals(dispersion, random, to_ns=exchange.measured_to_ns)
        return replace(
            self.with_late_beats(exchange, number),
            seed=exchange.seed + number,  # the phase of the flusher is unknown, too
            costs=costs,
            wakeups=wakeups,
            channels=tuple(
                replace(each, arrivals=arrivals[each.channel]) for each in exchange.channels
            ),
        )

    def with_late_beats(self, exchange: RecordedExchange, number: int) -> RecordedExchange:
        """A sample of the exchange with flushers as late as they may be in another run. All
        exchanges of a job share a number, as they share machines."""
        if exchange.late_beats is None:
            return exchange
        factor = np.random.default_rng((exchange.seed, number, 3)).uniform(*LATE_FACTORS)
        return replace(exchange, late_beats=exchange.late_beats.times(factor))

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

    def _arrivals(
        self, dispersion: float, random: np.random.Generator, *, to_ns: int
    ) -> dict[int, Ramps]:
        found = {}
        for channel, seen in self.seen.items():
            own = seen.up_to(to_ns)
            found[channel] = own.drawn(dispersion, random).within(self.from_ns, to_ns)
        return found


def figures_of(outcome: EdgeOutcome, delays: Delays) -> Figures:
    """The figures of a simulation with the delays of the machine."""
    return Figures(delays.over(outcome.latency), outcome.buffers_per_s)


def likely_around(
    outcome: EdgeOutcome,
    exchange: RecordedExchange,
    unseen: Unseen,
    delays: Delays,
    setting: Setting,
    simulate: Simulate,
) -> LikelyRange:
    """The 90% interval around the outcome of simulations.

    Args:
        outcome: of the windows that were simulated.
        exchange: one of these windows; a part from its start is drawn if it is long.
        unseen: of the same exchange.
        delays: under the setting, without what records wait for late flushes.
    """
    part = _part_of(exchange, outcome, setting)

    def figures(drawn: RecordedExchange, own_delays: Delays) -> Figures:
        simulated = simulate(drawn.under(setting), setting.network)
        return figures_of(simulated, own_delays.and_waits(drawn.late_waits_ns(setting)))

    drawn_for = figures(part, delays)
    drawn = [
        figures(unseen.drawn(part, number), unseen.delays(delays, exchange.seed, number))
        for number in range(1, DRAWS + 1)
    ]
    with_waits = delays.and_waits(exchange.late_waits_ns(setting))
    found = likely_range(figures_of(outcome, with_waits), drawn_for, drawn)
    return replace(found, seed=exchange.seed)


def _part_of(
    exchange: RecordedExchange, outcome: EdgeOutcome, setting: Setting
) -> RecordedExchange:
    """The beginning of an exchange that is simulated in a moment, by the messages of an outcome."""
    messages = MESSAGES_PER_DRAW if outcome.method == "kernel" else MESSAGES_PER_DRAW_IN_FULL
    part_ns = outcome.duration_ns * messages // max(outcome.messages or 0, 1)
    part_ns = max(part_ns, BEATS_MIN * max(setting.network.buffer_timeout_ns, 0))
    return exchange.up_to(exchange.measured_from_ns + part_ns)
