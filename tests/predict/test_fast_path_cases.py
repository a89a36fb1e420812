"""Exchanges in which the compiled kernel has to mind whose turn is first, who has answered, what is
read without credit, and sockets that fill, next to the random exchanges of `test_fast_path`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.config import CREDIT, TCP, NetworkConfig
from flinknet.predict.fast_path import FastOutcome, lay_out
from flinknet.predict.kernel import DONE, TOO_LONG
from flinknet.predict.kernel.memory import Exchange
from flinknet.predict.kernel.run import run
from flinknet.predict.kernel_edge import KernelEdge, batches_of
from flinknet.predict.ramps import Ramps
from flinknet.predict.recorded import RecordedChannel, RecordedExchange
from flinknet.simulator.cost_model import CostModel
from tests.predict.test_fast_path import assert_alike, channels_of_eight_by_eight, run_if_covered
from tests.recorded_exchange import FROM_NS, steady
from tests.simulation import MS, NEVER, US


def ramps(*each: tuple[int, int, int]) -> Ramps:
    """Records, and when the first and the last come, from when counting begins on."""
    records, first_ns, last_ns = np.array(each, np.int64).T
    return Ramps(records, FROM_NS + first_ns, FROM_NS + last_ns)


def test_turns_at_one_instant_come_in_the_order_of_the_simulator() -> None:
    """A checkpoint, a look at the gates and a buffer that arrives, all on whole milliseconds: whose
    turn is first depends on turns before in which nothing left.
    """
    arrivals = [
        ramps((11, 2_786_944, 4_523_450)),
        ramps(
            (11, 3_510_500, 4_189_889),
            (11, 7_186_621, 8_036_676),
            (11, 8_504_234, 10_873_375),
            (11, 11_023_729, 12_177_765),
            (3, 16_897_372, 17_642_056),
            (11, 21_750_566, 24_007_111),
            (11, 28_575_681, 29_276_200),
            (11, 32_210_500, 33_325_959),
        ),
        ramps((11, 596_102, 1_309_298)),
        ramps((11, 978_463, 1_211_833)),
        ramps(
            (11, 1_844_058, 2_615_869),
            (11, 7_535_176, 8_561_486),
            (11, 8_891_639, 10_600_882),
            (11, 13_202_575, 15_388_782),
            (11, 20_282_735, 21_866_433),
            (11, 24_213_763, 24_689_500),
            (11, 25_449_861, 27_292_692),
            (7, 31_594_496, 33_970_725),
            (11, 39_229_454, 39_828_282),
            (11, 45_194_427, 46_677_253),
        ),
        ramps((11, 123_637, 2_318_296)),
        ramps((11, 2_823_067, 4_290_217)),
        ramps((11, 3_730_511, 5_434_574)),
        ramps((11, 1_278_627, 2_169_986)),
    ]
    exchange = steady(
        producers=3,
        consumers=3,
        channels=tuple(
            RecordedChannel(number, number // 3, number % 3, 0, each, 105.0)
            for number, each in enumerate(arrivals)
        ),
        measured_to_ns=FROM_NS + 182_991_450,
        seed=0,
        costs=CostModel(0.0, 0.0, 2e6, 0.0, 0.0, (0.0,) * 3),
        task_managers=((0, 0, 1), (0, 0, 0)),
    )
    network = NetworkConfig(
        buffer_timeout_ns=10 * MS,
        segment_size_bytes=4096,
        exclusive_buffers=1,
        floating_buffers=40,
        max_buffers_per_channel=80,
        checkpoint_interval_ns=MS,
        debloating_enabled=True,
        debloating_period_ns=MS,
        debloating_target_ns=MS,
        starting_segment_size_bytes=4096,
    )
    assert_alike(run_if_covered(exchange, network), exchange, network)


def test_barriers_of_sources_that_end_while_these_are_watched() -> None:
    """These sources have answered before their barriers have left: when these were written may not
    be known by the end of the checkpoint, which is left to the simulator.
    """
    instants_ns = [[310_691, 474_691], [311_117], [159_031], [52_063], [573_240], [489_325]]
    exchange = steady(
        producers=2,
        consumers=3,
        channels=tuple(
            RecordedChannel(
                number, number // 3, number % 3, 0, ramps(*[(1, ns, ns) for ns in each]), 105.0
            )
            for number, each in enumerate(instants_ns)
        ),
        measured_to_ns=FROM_NS + 15_769_682,
        seed=0,
        costs=CostModel(0.0, 0.0, 5_000.0, 9_000.0, 0.0, (0.0,) * 3),
        task_managers=((0, 0), (0, 0, 0)),
    )
    network = NetworkConfig(
        buffer_timeout_ns=0,
        segment_size_bytes=4096,
        exclusive_buffers=1,
        floating_buffers=3,
        checkpoint_interval_ns=MS,
        unaligned_checkpoints=True,
        aligned_checkpoint_timeout_ns=3 * MS,
    )
    assert run_if_covered(exchange, network) is None


def test_hundreds_of_records_at_once_where_barriers_end_buffers() -> None:
    """A turn that only writes them into open buffers holds up the other task of its TaskManager."""
    exchange = steady(
        producers=2,
        channels=tuple(
            RecordedChannel(
                number,
                number,
                0,
                0,
                ramps(
                    (1, 500_000, 500_000),
                    (290, 1_000_000 + number, 1_000_000 + number),
                    (200, 5_000_000, 9_000_000),
                ),
                105.0,
            )
            for number in range(2)
        ),
        measured_to_ns=FROM_NS + 20 * MS,
        task_managers=((0, 0), (1,)),
    )
    network = NetworkConfig(buffer_timeout_ns=10 * MS, checkpoint_interval_ns=7 * MS)
    assert_alike(run_if_covered(exchange, network), exchange, network)


def test_a_run_ends_after_too_many_turns() -> None:
    """A record every 250 us goes into an open buffer, 100 times, and nothing leaves."""
    exchange = steady(4000.0, 0.025)
    network = NetworkConfig(buffer_timeout_ns=NEVER, debloating_enabled=True)
    ended = []
    for turns in (50, 1000):
        (layout,) = lay_out([KernelEdge.of(exchange, network)])
        memory = layout.memory.to_array()
        Exchange(memory, layout.head).turns_max = turns
        ended.append(run(memory))
    assert ended == [TOO_LONG, DONE]


FEW = NetworkConfig(
    segment_size_bytes=4096, buffer_timeout_ns=MS, exclusive_buffers=2, floating_buffers=2
)


def neighbours(records: int, slow_ns: float, flow_control: str = TCP) -> RecordedExchange:
    """Two channels of one connection, of two producers and two consumers; one record of a KiB each
    100 us, and the second consumer is slow."""
    at_ns = FROM_NS + np.arange(records, dtype=np.int64) * 100 * US
    return steady(
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


def test_sockets_fill_with_what_many_channels_send_at_once() -> None:
    """Records of 64 channels that share a connection come at once: more bytes than it holds."""
    exchange = steady(
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
    exchange = steady(consumers=len(arrivals), channels=channels, is_max_rate=True)
    (batches,) = batches_of(exchange, 1024 * kilobytes)
    instants = ((at_ns, n) for n, each in enumerate(arrivals) for at_ns in each.instants()[1])
    targets, batch_records = [number for _, number in sorted(instants)], max(1, 320 // kilobytes)
    for place, batch in enumerate(batches.tolist()):
        written = Counter(targets[place * batch_records : (place + 1) * batch_records])
        assert batch == [written[number] for number in range(len(arrivals))]
    assert batches.sum() == len(targets)
