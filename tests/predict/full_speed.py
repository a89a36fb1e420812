"""Exchanges at the highest rate, and sockets that fill, for tests of the compiled model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from flinknet.predict.recorded import RecordedExchange
from flinknet.simulator.cost_model import Preemptions
from tests.simulation import MS

SOCKET_BYTES = st.sampled_from([4 << 20, 4 << 20, 100_000, 20_000])
"""What the sockets of a connection hold: four megabytes usually, or little."""


@st.composite
def preemptions(draw: st.DrawFn) -> Preemptions:
    """When a process is kept from its work."""
    random, count = np.random.default_rng(draw(st.integers(0, 1000))), draw(st.integers(0, 5))
    starts_ns = np.sort(random.integers(0, 20 * MS, count))
    return Preemptions(starts_ns, random.integers(1, 3 * MS, count))


@st.composite
def disturbed(draw: st.DrawFn, exchange: RecordedExchange) -> RecordedExchange:
    """The exchange with processes that are kept from their work, or without."""
    kept = tuple(
        draw(st.tuples(*[preemptions()] * tasks))
        for tasks in (exchange.producers, exchange.consumers)
    )
    return replace(exchange, preemptions=draw(st.sampled_from([((), ()), kept])))


@st.composite
def at_full_speed(draw: st.DrawFn, exchange: RecordedExchange) -> RecordedExchange:
    """The exchange with the same records, written as fast as they are taken."""
    back_ns = draw(st.sampled_from([None, 0.0, 20_000.0, 1e6]))
    exchange = replace(
        exchange,
        is_max_rate=True,
        costs=replace(exchange.costs, back_ns=back_ns),
    )
    return draw(disturbed(exchange))
