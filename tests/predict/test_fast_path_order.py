"""Exchanges in which the compiled kernel has to mind whose turn is first, or who has answered."""

from __future__ import annotations

import numpy as np

from flinknet.config import NetworkConfig
from flinknet.predict.fast_path import lay_out
from flinknet.predict.kernel import DONE, TOO_LONG
from flinknet.predict.kernel.memory import Exchange
from flinknet.predict.kernel.run import run
from flinknet.predict.kernel_edge import KernelEdge
from flinknet.predict.ramps import Ramps
from flinknet.predict.recorded import RecordedChannel
from flinknet.simulator.cost_model import CostModel
from tests.predict.test_fast_path import FROM_NS, assert_alike, run_if_covered, steady
from tests.simulation import MS, NEVER


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
        1.0,
        1.0,
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
        1.0,
        1.0,
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
        1.0,
        1.0,
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
