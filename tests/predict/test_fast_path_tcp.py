"""Exchanges without credit, in which the compiled kernel has to mind what is read, and when."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flinknet.config import CREDIT, TCP, NetworkConfig
from flinknet.predict.fast_path import FastOutcome
from flinknet.predict.ramps import Ramps
from flinknet.predict.recorded import RecordedChannel, RecordedExchange
from flinknet.simulator.cost_model import CostModel
from tests.predict.test_fast_path import FROM_NS, assert_alike, run_if_covered, steady
from tests.simulation import MS, US

FEW = NetworkConfig(
    segment_size_bytes=4096, buffer_timeout_ns=MS, exclusive_buffers=2, floating_buffers=2
)


def neighbours(records: int, slow_ns: float, flow_control: str = TCP) -> RecordedExchange:
    """Two channels of one connection, of two producers and two consumers; one record of a KiB each
    100 us, and the second consumer is slow."""
    at_ns = FROM_NS + np.arange(records, dtype=np.int64) * 100 * US
    return steady(
        1.0,
        1.0,
        producers=2,
        consumers=2,
        channels=tuple(
            RecordedChannel(number, number, number, 0, Ramps.of(at_ns + number), 1024.0)
            for number in range(2)
        ),
        measured_to_ns=FROM_NS + (records + 1) * 100 * US,
        costs=CostModel(12_000.0, 0.15, 50_000.0, 9_000.0, 100.0, (20.0, slow_ns)),
        flow_control=flow_control,
    )


def computed(exchange: RecordedExchange, network: NetworkConfig) -> FastOutcome:
    fast = run_if_covered(exchange, network)
    assert fast is not None
    return fast


def test_a_slow_consumer_stops_its_neighbour() -> None:
    exchange = neighbours(300, float(MS))
    fast = computed(exchange, FEW)
    assert fast.stops > 0
    assert_alike(fast, exchange, FEW)
    quick = replace(exchange, costs=replace(exchange.costs, consume_ns_per_record=(20.0, 20.0)))
    with_credit = computed(replace(exchange, flow_control=CREDIT), FEW)
    median_ns = [each.latency.percentile(0.25) for each in (fast, with_credit)]
    assert None not in median_ns
    assert median_ns[0] > 20 * median_ns[1]
    assert computed(quick, FEW).stops == 0


@pytest.mark.parametrize("socket_bytes", [16 * 1024, 300_000, 1024 * 1024])
def test_sockets_that_fill_stop_the_producers(socket_bytes: int) -> None:
    exchange = replace(neighbours(600, 500_000.0), socket_bytes=socket_bytes)
    fast = computed(exchange, FEW)
    assert fast.resumed_ns > 0 or socket_bytes > 600 * 1024
    assert_alike(fast, exchange, FEW)


def test_sockets_take_more_messages_than_there_is_room_for_at_first() -> None:
    exchange = neighbours(1500, 500_000.0)
    network = replace(FEW, buffer_timeout_ns=0)
    assert_alike(computed(exchange, network), exchange, network)


@pytest.mark.parametrize("unaligned", [False, True])
@pytest.mark.parametrize("timeout_ns", [0, 3 * MS])
def test_barriers_wait_behind_data_that_is_not_read(unaligned: bool, timeout_ns: int) -> None:
    network = replace(
        FEW,
        checkpoint_interval_ns=20 * MS,
        unaligned_checkpoints=unaligned,
        aligned_checkpoint_timeout_ns=timeout_ns,
    )
    every_way = (
        RecordedChannel(2 + n, n, 1 - n, 0, neighbours(300, 0.0).channels[n].arrivals, 1024.0)
        for n in range(2)
    )
    exchange = neighbours(300, 300_000.0)
    exchange = replace(exchange, channels=exchange.channels + tuple(every_way))
    fast = computed(exchange, network)
    assert fast.stops > 0
    assert fast.checkpoints is not None
    assert fast.checkpoints.completed > 0
    assert_alike(fast, exchange, network)
