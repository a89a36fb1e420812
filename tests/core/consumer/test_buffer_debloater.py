"""Golden values are those of Flink's own classes, from the reference."""

from hypothesis import given
from hypothesis import strategies as st

from flinknet.config import NetworkConfig
from flinknet.job.debloating import BufferDebloater, ThroughputCalculator

PLENTY = 2**40
MS = 1_000_000


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
