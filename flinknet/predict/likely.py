"""The 90% interval of a prediction from messages captured between processes.

Several draws of what the messages leave open (`fit.unseen`) are simulated. How far their figures
lie apart is the uncertainty of arrivals and ways; what the model itself is off by is added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flinknet.config import NetworkConfig
from flinknet.options.what_if import Setting

from .fit.delays import Delays
from .fit.unseen import Unseen
from .outcome import DRAWS, EdgeOutcome, Figures, LikelyRange, likely_range
from .recorded import RecordedExchange

Simulate = Callable[[RecordedExchange, NetworkConfig], EdgeOutcome]

MESSAGES_PER_DRAW = 40_000
"""Of a part of the exchange, roughly, that is simulated for each draw by the compiled model."""

MESSAGES_PER_DRAW_IN_FULL = 2_000
"""The same where each message is simulated with the core."""

BEATS_MIN = 20
"""Beats of the buffer timeout that such a part has at least."""


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
    exchange: RecordedExchange, outcome: EdgeOutcome, setting: Setting
) -> RecordedExchange:
    """So much of an exchange as is simulated in a moment, by what an outcome took."""
    messages = MESSAGES_PER_DRAW if outcome.method == "kernel" else MESSAGES_PER_DRAW_IN_FULL
    part_ns = outcome.duration_ns * messages // max(outcome.messages or 0, 1)
    part_ns = max(part_ns, BEATS_MIN * max(setting.network.buffer_timeout_ns, 0))
    return exchange.up_to(exchange.measured_from_ns + part_ns)
