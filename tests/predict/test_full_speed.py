"""Full sockets and the highest rate in the compiled model, beside the random exchanges of
`test_fast_path`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flinknet.config import NetworkConfig
from flinknet.predict.full_speed import batches_of
from flinknet.predict.ramps import Ramps
from flinknet.predict.recorded import RecordedChannel
from flinknet.simulator.cost_model import CostModel
from tests.predict.test_fast_path import FROM_NS, assert_alike, run_if_covered, steady
from tests.simulation import MS


def test_sockets_fill_with_what_many_channels_send_at_once() -> None:
    """Records of 64 channels that share a connection come at once: more bytes than it holds."""
    exchange = steady(
        1.0,
        1.0,
        producers=8,
        consumers=8,
        channels=tuple(
            RecordedChannel(
                number,
                number // 8,
                number % 8,
                number,
                Ramps.of(FROM_NS + np.arange(200, dtype=np.int64)),
                1024.0,
            )
            for number in range(64)
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


def test_batches_take_records_in_the_order_of_their_instants() -> None:
    channels = tuple(
        RecordedChannel(
            number, 0, number, 0, Ramps.of(FROM_NS + np.array(at_ns, np.int64)), 100_000.0
        )
        for number, at_ns in enumerate([[1, 2, 3, 9], [4, 5, 6, 7]])
    )
    exchange = steady(1.0, 1.0, consumers=2, channels=channels, is_max_rate=True)
    (batches,) = batches_of(exchange, 100_000)
    assert batches.tolist() == [[3, 0], [0, 3], [1, 1]]
