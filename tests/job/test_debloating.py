"""Debloating of a gate by hand, and its formula with the values of Flink's own classes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.config import NetworkConfig
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.core.producer import RecordWriter
from flinknet.core.producer.channel_selector import ForwardSelector
from flinknet.core.wire.messages import NewBufferSize
from flinknet.job.debloating import (
    SAMPLES_MAX,
    BufferDebloater,
    BufferDebloating,
    GateDebloating,
    ThroughputCalculator,
    debloated_gates,
)
from flinknet.job.load.load_tasks import run_input_of
from flinknet.job.load.sink import LatencySink
from tests.load_tasks import sink_task
from tests.pair import Pair, records_of
from tests.simulation import MS, Rows, S

NETWORK = NetworkConfig(
    segment_size_bytes=1000,
    exclusive_buffers=2,
    floating_buffers=3,
    debloating_enabled=True,
    debloating_target_ns=1 * S,
    debloating_samples=1,  # no smoothing
    min_segment_size_bytes=50,
    starting_segment_size_bytes=100,
)


class Debloated:
    """A pair whose gate is debloated, and has read as much as a test says."""

    def __init__(self, channels: int = 1) -> None:
        self.rows = Rows()
        self.pair = Pair(NETWORK, channels=channels, probe=self.rows)
        sinks = tuple(LatencySink(epoch_ns=0, is_open_loop=False) for _ in range(channels))
        self.task = sink_task(self.pair.gate, sinks, self.rows)
        (self.gate,) = debloated_gates([self.task], NETWORK, now_ns=0)
        self.writer = RecordWriter(self.pair.partition, ForwardSelector(), buffer_timeout_ns=0)
        self.pair.drive()

    def evaluate(self, read_bytes: int, now_ns: int) -> None:
        run_input_of(self.task).checkpoints.read_bytes[0] += read_bytes
        self.gate.evaluate(now_ns=now_ns)

    def sizes(self) -> list[int]:
        return [each.buffer_size_bytes for each in self.pair.partition.subpartitions]


def test_it_is_off_unless_it_is_asked_for() -> None:
    debloated = Debloated()
    assert debloated_gates([debloated.task], NetworkConfig(), now_ns=0) == []


def test_a_new_size_goes_to_the_producer_of_every_channel() -> None:
    debloated = Debloated(channels=2)
    debloated.evaluate(150, 1 * S)
    assert debloated.gate.debloater.announced_bytes == 150
    assert debloated.sizes() != [150, 150]  # it is on its way
    debloated.pair.drive()
    assert debloated.sizes() == [150, 150]
    told = [row for row in debloated.rows.rows if row.kind == MessageKind.NEW_BUFFER_SIZE]
    assert [(row.point, row.value) for row in told] == [
        *[(TracePoint.SENT, 150)] * 2,
        *[(TracePoint.RECEIVED, 150)] * 2,
    ]
    assert [row.channel for row in told[:2]] == [0, 1]
    assert {row.at_ns for row in told[:2]} == {1 * S}


@pytest.mark.row("S027")
def test_the_producer_makes_its_next_buffers_of_that_size() -> None:
    debloated = Debloated()
    debloated.evaluate(60, 1 * S)
    debloated.pair.drive()
    before = len(debloated.rows.buffers())
    debloated.writer.emit(0, records_of([10] * 13))
    debloated.pair.partition.flush_all()
    debloated.pair.drive()
    sizes = [row.payload_bytes for row in debloated.rows.buffers()[before:]]
    assert sizes == [60, 60, 10]


def test_released_channels_are_told_nothing() -> None:
    debloated = Debloated(channels=2)
    debloated.pair.channels[0].release()
    debloated.pair.drive()
    debloated.evaluate(150, 1 * S)
    (told,) = debloated.pair.input.sent()
    assert isinstance(told, NewBufferSize)
    assert told.receiver_id == debloated.pair.channels[1].receiver_id


def test_a_gate_that_is_closed_does_nothing() -> None:
    debloated = Debloated()
    debloated.pair.gate.close()
    debloated.pair.input.sent()
    debloated.evaluate(150, 1 * S)
    assert debloated.pair.input.sent() == []
    assert debloated.gate.samples == []


def test_buffers_in_use_are_what_arrived_and_what_the_producer_is_short_of() -> None:
    debloated = Debloated()
    pair, (channel,) = debloated.pair, debloated.pair.channels
    for _ in range(4):  # of 100 bytes, as long as debloating has just begun
        pair.partition.subpartitions[0].buffer_size_bytes = 100
        debloated.writer.emit(0, records_of([100]))
    pair.drive()
    assert channel.buffers_in_use == channel.queued_elements == 4
    pair.partition.emit(0, records_of([100] * 5))
    pair.partition.flush_all()
    pair.drive()
    queued, required = channel.queued_elements, channel.buffers.required_buffers
    assert queued == 5  # all credit there is: two exclusive buffers and three floating ones
    assert channel.buffers_in_use == 5 + required - channel.initial_credit == 9
    debloated.evaluate(1800, 1 * S)
    (sample,) = debloated.gate.samples
    assert sample.buffer_size_bytes == 200  # 1800 bytes a second, nine buffers
    assert sample.in_flight_bytes == 900  # as large as they were until then
    assert sample.time_to_consume_ns == 1 * S


def test_time_in_which_the_task_is_idle_does_not_count() -> None:
    debloated = Debloated()
    debloated.task.times.wait(debloated.task.times.idle, now_ns=0)
    debloated.task.times.resume(now_ns=750 * MS)
    debloated.evaluate(500, 1 * S)
    assert debloated.gate.samples[-1].throughput_bytes_per_s == 2000


def test_periods_begin_where_the_last_evaluation_was() -> None:
    debloated = Debloated()
    gates: list[GateDebloating] = [debloated.gate]
    debloating = BufferDebloating(gates, 200 * MS, start_ns=0)
    debloating.handle_deadline(now_ns=199 * MS)
    assert debloated.gate.samples == []
    debloating.handle_deadline(now_ns=230 * MS)
    assert len(debloated.gate.samples) == 1
    assert debloating.next_deadline_ns() == 430 * MS
    assert BufferDebloating([], 200 * MS, start_ns=0).next_deadline_ns() is None


@pytest.mark.row("S014")
def test_samples_of_a_long_run_are_thinned_out_evenly() -> None:
    debloated = Debloated()
    for number in range(3 * SAMPLES_MAX):
        debloated.gate.evaluate(now_ns=(number + 1) * MS)
    instants = [each.at_ns // MS for each in debloated.gate.samples]
    assert SAMPLES_MAX // 2 < len(instants) <= SAMPLES_MAX
    assert instants == list(range(1, 3 * SAMPLES_MAX, 4))


PLENTY = 2**40


def sizes(debloater: BufferDebloater, throughput: int, buffers: int, count: int) -> list[int]:
    found = []
    for _ in range(count):
        debloater.recalculate(throughput, buffers)
        found.append(debloater.buffer_size_bytes)
    return found


def announced(debloater: BufferDebloater, throughput: int, buffers: int, count: int) -> list[int]:
    found = (debloater.recalculate(throughput, buffers) for _ in range(count))
    return [size for size in found if size is not None]


def test_sizes_grow_by_at_most_their_double_smoothed() -> None:
    grown = sizes(BufferDebloater(NetworkConfig()), PLENTY, 1, 40)
    assert grown[:13] == [
        1122,
        1228,
        1345,
        1473,
        1614,
        1767,
        1936,
        2120,
        2322,
        2543,
        2785,
        3051,
        3341,
    ]
    last = grown.index(32768)
    assert grown[last - 2 : last + 1] == [29656, 32481, 32768]


def test_only_changes_of_a_quarter_are_announced() -> None:
    found = announced(BufferDebloater(NetworkConfig()), PLENTY, 1, 30)
    assert found == [1345, 1767, 2322, 3051, 4008, 5266, 6918, 9089, 11941, 15688]


def test_the_largest_size_is_always_announced() -> None:
    assert announced(BufferDebloater(NetworkConfig()), PLENTY, 1, 60)[-1] == 32768


def test_a_slow_gate_shrinks_its_buffers() -> None:
    config = NetworkConfig(starting_segment_size_bytes=32 * 1024)
    shrunk = sizes(BufferDebloater(config), 10_000, 10, 7)
    assert shrunk == [29742, 27005, 24528, 22288, 20260, 18426, 16766]
    found = announced(BufferDebloater(config), 10_000, 10, 40)
    assert found[:9] == [24528, 16766, 11565, 8080, 5744, 4179, 3130, 2291, 1708]


def test_a_gate_that_stands_still_comes_to_the_smallest_size_and_says_no_more() -> None:
    config = NetworkConfig(starting_segment_size_bytes=32 * 1024)
    found = announced(BufferDebloater(config), 0, 10, 200)
    assert found[:3] == [24269, 17974, 13312]
    assert found[-3:] == [363, 269, 256]


def test_time_to_consume_what_is_in_flight() -> None:
    debloater = BufferDebloater(NetworkConfig(debloating_samples=1))  # alpha 1: no smoothing
    assert debloater.recalculate(4_000, 2) == 2000
    assert debloater.consume_ns == 1_000 * MS


@given(st.lists(st.tuples(st.integers(0, PLENTY), st.integers(0, 1000)), max_size=60))
def test_sizes_stay_within_their_limits(samples: list[tuple[int, int]]) -> None:
    config = NetworkConfig()
    debloater = BufferDebloater(config)
    for throughput, buffers in samples:
        before = debloater.buffer_size_bytes
        debloater.recalculate(throughput, buffers)
        assert config.min_segment_size_bytes <= debloater.buffer_size_bytes
        assert debloater.buffer_size_bytes <= min(config.segment_size_bytes, 2 * before + 1)


def test_throughput_counts_only_the_time_with_data() -> None:
    calculator = ThroughputCalculator(now_ns=0)
    assert calculator.evaluate(2000, 490 * MS, now_ns=510 * MS) == 100_000
    assert calculator.evaluate(2000, 490 * MS, now_ns=520 * MS) == 0


def test_without_a_counted_millisecond_the_last_throughput_stands() -> None:
    calculator = ThroughputCalculator(now_ns=0)
    assert calculator.evaluate(5000, 0, now_ns=5 * MS) == 1_000_000
    assert calculator.evaluate(5000, 895 * MS, now_ns=900 * MS) == 1_000_000
