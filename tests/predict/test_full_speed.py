"""Full sockets and the highest rate in the compiled model, beside the random exchanges of
`test_fast_path`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.config import NetworkConfig
from flinknet.predict.kernel_edge import batches_of
from flinknet.predict.ramps import Ramps
from flinknet.predict.recorded import RecordedChannel
from flinknet.predict.what_if import emission_order
from flinknet.simulator.cost_model import CostModel
from tests.predict.test_fast_path import (
    FROM_NS,
    assert_alike,
    channels_of_eight_by_eight,
    run_if_covered,
    steady,
)
from tests.simulation import MS


def test_sockets_fill_with_what_many_channels_send_at_once() -> None:
    """Records of 64 channels that share a connection come at once: more bytes than it holds."""
    exchange = steady(
        1.0,
        1.0,
        producers=8,
        consumers=8,
        channels=channels_of_eight_by_eight(
            lambda _: Ramps.of(FROM_NS + np.arange(200, dtype=np.int64))
        ),
        measured_to_ns=FROM_NS + 30 * MS,
        task_managers=((0,) * 8, (1,) * 8),
    )
    exchange = replace(exchange, costs=CostModel(0.0, 0.0, 10e6, 0.0, 0.0, (20.0,) * 8))
    network = NetworkConfig(buffer_timeout_ns=MS)
    fast = run_if_covered(exchange, network)
    assert_alike(fast, exchange, network)
    assert fast is not None
    assert fast.full_sockets


@pytest.mark.parametrize("socket_bytes", [4 << 20, 300_000, 70_000, 5_000])
def test_writers_at_the_highest_rate_fill_sockets(socket_bytes: int) -> None:
    """Runs of buffers come back together, single ones where the socket has little room."""
    exchange = steady(
        60_000.0,
        1.0,
        is_max_rate=True,
        socket_bytes=socket_bytes,
        costs=CostModel(0.0, 0.01, 10e6, 0.0, 0.0, (20.0,), back_ns=1_000.0),
    )
    network = NetworkConfig(
        exclusive_buffers=100,
        floating_buffers=100,
        max_buffers_per_channel=300,
        buffer_timeout_ns=MS,
    )
    fast = run_if_covered(exchange, network)
    assert_alike(fast, exchange, network)
    assert fast is not None
    assert fast.full_sockets


@st.composite
def stretches(draw: st.DrawFn) -> Ramps:
    """Some that follow one another closely, overlap or begin at once."""
    count = draw(st.integers(1, 6))
    numbers = st.lists(st.integers(0, 40), min_size=count, max_size=count)
    first_ns = FROM_NS + np.sort(draw(numbers))
    records = np.array(draw(numbers)) % 9 + 1
    return Ramps(records, first_ns, first_ns + np.array(draw(numbers)) // draw(st.integers(1, 40)))


@given(arrivals=st.lists(stretches(), min_size=1, max_size=4), kilobytes=st.integers(10, 400))
def test_batches_take_records_in_the_order_of_their_instants(
    arrivals: list[Ramps], kilobytes: int
) -> None:
    channels = tuple(
        RecordedChannel(number, 0, number, 0, each, 1024.0 * kilobytes)
        for number, each in enumerate(arrivals)
    )
    exchange = steady(1.0, 1.0, consumers=len(arrivals), channels=channels, is_max_rate=True)
    (batches,) = batches_of(exchange, 1024 * kilobytes)
    targets, batch_records = emission_order(channels)[1].tolist(), max(1, 320 // kilobytes)
    for place, batch in enumerate(batches.tolist()):
        written = Counter(targets[place * batch_records : (place + 1) * batch_records])
        assert batch == [written[number] for number in range(len(arrivals))]
    assert batches.sum() == len(targets)
