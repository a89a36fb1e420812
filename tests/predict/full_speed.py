"""Exchanges at the highest rate, and sockets that fill, for tests of the compiled model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from flinknet.config import CREDIT
from flinknet.predict.recorded import RecordedExchange
from flinknet.simulator.cost_model import CostModel, Preemptions
from flinknet.simulator.loop_costs import NO_JITTER, Jitter, LoopCosts
from tests.simulation import MS, US

SOCKET_BYTES = st.sampled_from([4 << 20, 4 << 20, 100_000, 20_000])
"""What the sockets of a connection hold: four megabytes usually, or little."""


@st.composite
def jitters(draw: st.DrawFn) -> Jitter:
    """What parts of turns take more or less, of some parts or of none."""
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    counts = draw(st.tuples(*[st.integers(0, 3)] * 6))
    return Jitter(*(random.integers(-5 * US, 9 * US, count) for count in counts))


@st.composite
def preemptions(draw: st.DrawFn, *, varies: bool) -> Preemptions:
    """When a process is kept from its work, and how long it takes to get going."""
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    count, wakeups = draw(st.integers(0, 5)), draw(st.integers(0, 3))
    return Preemptions(
        np.sort(random.integers(0, 20 * MS, count)),
        random.integers(1, 3 * MS, count),
        random.integers(0, 60 * US, wakeups),
        draw(jitters()) if varies else NO_JITTER,
    )


@st.composite
def disturbed(draw: st.DrawFn, exchange: RecordedExchange, *, varies: bool) -> RecordedExchange:
    """The exchange with processes that are kept from their work, or without."""
    kept = tuple(
        draw(st.tuples(*[preemptions(varies=varies)] * tasks))
        for tasks in (exchange.producers, exchange.consumers)
    )
    return replace(exchange, preemptions=draw(st.sampled_from([((), ()), kept])))


@st.composite
def at_full_speed(draw: st.DrawFn, exchange: RecordedExchange) -> RecordedExchange:
    """The exchange with the same records, written as fast as they are taken; with credit also by
    event loops whose parts have costs.
    """
    back_ns = draw(st.sampled_from([None, 0.0, 20_000.0, 1e6]))
    exchange = replace(
        exchange,
        is_max_rate=True,
        has_instants=True,
        costs=replace(exchange.costs, back_ns=back_ns),
    )
    has_loops = exchange.flow_control == CREDIT and draw(st.sampled_from([True, True, False]))
    if has_loops:
        exchange = draw(with_loops(exchange))
    return draw(disturbed(exchange, varies=has_loops))


@st.composite
def with_loops(draw: st.DrawFn, exchange: RecordedExchange) -> RecordedExchange:
    """The exchange with costs of the parts of event loops, each for producers or for consumers."""
    up, down = (
        draw(st.lists(st.integers(0, 2), min_size=tasks, max_size=tasks))
        for tasks in (exchange.producers, exchange.consumers)
    )
    first = len(set(up))
    costs = exchange.costs
    consume_ns = draw(st.sampled_from([0.0, 21.7, costs.consume_ns_per_record[0]]))
    return replace(
        exchange,
        task_managers=(
            tuple(sorted(set(up)).index(each) for each in up),
            tuple(first + sorted(set(down)).index(each) for each in down),
        ),
        costs=CostModel(
            draw(st.sampled_from([0.0, 0.0, costs.send_ns_per_message])),
            draw(st.sampled_from([costs.send_ns_per_byte, 0.25])),
            costs.transit_ns,
            costs.receive_ns_per_message,
            costs.emit_ns_per_record,
            (consume_ns,) * exchange.consumers,
            costs.back_ns,
            draw(loop_costs),
        ),
    )


loop_costs = st.builds(
    LoopCosts,
    take_credit_ns=st.sampled_from([0.0, 20_000.3]),
    pick_ns=st.sampled_from([0.0, 5_000.0]),
    send_ns=st.sampled_from([0.0, 8_000.0, 20_000.0]),
    receive_ns=st.sampled_from([0.0, 11_000.0]),
    receive_ns_per_byte=st.sampled_from([0.0, 0.1]),
    decode_ns=st.sampled_from([0.0, 3_000.0, 14_000.0]),
    decode_ns_per_buffer=st.sampled_from([0.0, 2_000.5]),
    announce_ns=st.sampled_from([0.0, 17_000.0]),
)
