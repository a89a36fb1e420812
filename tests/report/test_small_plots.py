"""Small plots in characters: lengths add up, and values stand where they belong."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flinknet.histogram import LogLinearHistogram
from flinknet.replay.observe.latency import distribution
from flinknet.replay.observe.regimes import REGIMES
from flinknet.report.observed_tables import REGIMES as PARTS
from flinknet.report.observed_tables import share_bars
from flinknet.report.plain_text import MARKS, distribution_line
from tests.report.printing import printed


def test_every_regime_has_a_mark_of_its_own() -> None:
    assert tuple(MARKS) == REGIMES
    assert len(set(MARKS.values())) == len(MARKS)


def bar_of(shares: dict[str, float]) -> list[str]:
    return printed(*share_bars(PARTS, {"": shares}), width=80).splitlines()


@given(st.lists(st.integers(0, 1000), min_size=6, max_size=6).filter(any))
def test_a_bar_is_as_long_as_there_is_room(parts: list[int]) -> None:
    shares = {name: part / sum(parts) for name, part in zip(REGIMES, parts, strict=True)}
    assert len(bar_of(shares)[0]) == 40


def line_of(histogram: LogLinearHistogram, marks: int = 40) -> str:
    found = distribution(histogram)
    ranges = list(zip(found.low_ns, found.high_ns, strict=True))
    return distribution_line(ranges, found.records, marks, is_log=True)


def test_a_distribution_goes_from_the_lowest_range_to_the_highest() -> None:
    histogram = LogLinearHistogram()
    histogram.add([1_000_000], weight=1_000)
    histogram.add([32_000_000], weight=500)
    line = line_of(histogram)
    assert (line[0], line[-1]) == ("█", "▅")
    assert line[1:-1].isspace()
    assert len(line) == 40  # five octaves of eight ranges, and the range above them


def test_one_range_is_one_mark_and_none_is_nothing() -> None:
    histogram = LogLinearHistogram()
    assert line_of(histogram) == ""
    histogram.add([5_000_000])
    assert line_of(histogram) == "█"


@given(st.lists(st.integers(1, 10**11), min_size=1, max_size=40), st.integers(1, 60))
def test_no_distribution_is_longer_than_asked_for(values: list[int], marks: int) -> None:
    histogram = LogLinearHistogram()
    histogram.add(values)
    line = line_of(histogram, marks)
    assert 1 <= len(line) <= marks
    assert "█" in line
