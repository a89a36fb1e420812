"""The 90% interval of a prediction from messages captured between processes.

Several draws of what the messages leave open (`fit.unseen`) are simulated. How far their figures
lie apart is the uncertainty of arrivals and ways; what the model itself is off by is added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from flinknet.config import NetworkConfig
from flinknet.options.what_if import Setting
from flinknet.results import LatencySummary

from .fit.delays import Delays
from .fit.unseen import Unseen
from .recorded import RecordedExchange
from .simulated import SimulatedOutcome

Simulate = Callable[[RecordedExchange, NetworkConfig], SimulatedOutcome]

DRAWS = 8

MESSAGES_PER_DRAW = 40_000
"""Of a part of the exchange, roughly, that is simulated for each draw by the compiled model."""

MESSAGES_PER_DRAW_IN_FULL = 2_000
"""The same where each message is simulated with the core."""

BEATS_MIN = 20
"""Beats of the buffer timeout that such a part has at least."""

T_OF_DRAWS = 2.01
"""So many standard deviations of DRAWS values hold the next one in nine cases of ten: Student's t
with 7 degrees of freedom, times sqrt(1 + 1/8)."""

MODEL_SHARE = 0.1
"""What the model is off by where nothing is left open, chosen so that about nine of ten intervals
hold for jobs on a real Flink (`bench/flink/jobs.py`); for taps of flinknet's own runs 0.04 would do
(`bench/arrival_intervals.py`)."""

MODEL_NS = 50_000
"""The same of a latency, at least: threads wake sooner where messages are frequent, by about that
much."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a simulation came to, delays of the machine included."""

    latency_ns: LatencySummary
    buffers_per_s: float | None


@dataclass(frozen=True, slots=True)
class LikelyRange:
    """Ends of the 90% interval of each figure; None where a figure is unknown.

    Attributes:
        seed: of the draws.
    """

    low: Figures
    high: Figures
    seed: int = 0

    @property
    def in_words(self) -> str:
        """What the interval is made of."""
        return (
            f"ranges: 90% intervals from {DRAWS} draws (seed {self.seed}) of when records came and"
            " how long messages were on their way"
        )


def figures_of(outcome: SimulatedOutcome, delays: Delays) -> Figures:
    """The figures of a simulation with the delays of the machine."""
    return Figures(delays.over(outcome.latency), outcome.buffers_per_s)


def likely_around(
    outcome: SimulatedOutcome,
    exchange: RecordedExchange,
    unseen: Unseen,
    delays: Delays,
    setting: Setting,
    simulate: Simulate,
) -> LikelyRange:
    """The interval around what simulations came to.

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
    exchange: RecordedExchange, outcome: SimulatedOutcome, setting: Setting
) -> RecordedExchange:
    """So much of an exchange as is simulated in a moment, by what an outcome took."""
    messages = MESSAGES_PER_DRAW if outcome.method == "kernel" else MESSAGES_PER_DRAW_IN_FULL
    part_ns = outcome.duration_ns * messages // max(outcome.messages, 1)
    part_ns = max(part_ns, BEATS_MIN * max(setting.network.buffer_timeout_ns, 0))
    return exchange.up_to(exchange.measured_from_ns + part_ns)


def likely_range(predicted: Figures, drawn_for: Figures, drawn: Sequence[Figures]) -> LikelyRange:
    """The interval around a prediction.

    Args:
        drawn_for: the same prediction for the part of the run that was drawn.
        drawn: what the draws came to.
    """
    low: dict[str, float | None] = {}
    high: dict[str, float | None] = {}
    for name in _LATENCIES:
        value, base, *others = (
            getattr(each.latency_ns, name) for each in (predicted, drawn_for, *drawn)
        )
        below, above = _range(value, base, others)
        low[name] = None if below is None else max(below - MODEL_NS, 0.0)
        high[name] = None if above is None else above + MODEL_NS
    buffers = _range(
        predicted.buffers_per_s, drawn_for.buffers_per_s, [each.buffers_per_s for each in drawn]
    )
    known: Any = predicted.latency_ns
    return LikelyRange(
        Figures(replace(known, **low), buffers[0]), Figures(replace(known, **high), buffers[1])
    )


def _range(
    value: float | None, base: float | None, drawn: Sequence[float | None]
) -> tuple[float | None, float | None]:
    """The ends for one figure, as shares of the prediction; figures vary by factors.

    Args:
        base: the same for the part of the run that was drawn.
    """
    values = [each for each in drawn if each is not None and each > 0]
    if value is None or not base or len(values) < len(drawn):
        return value, value
    logs = np.log(np.array(values) / base)
    reach = np.hypot(T_OF_DRAWS * logs.std(ddof=1), np.log1p(MODEL_SHARE))
    low, high = logs.mean() - reach, logs.mean() + reach
    return value * float(np.exp(min(low, 0.0))), value * float(np.exp(max(high, 0.0)))


_LATENCIES = tuple(each.name for each in fields(LatencySummary) if each.name != "count")
