"""What a page shows beside the answer, on runs whose numbers are known by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.histogram import LogLinearHistogram
from flinknet.plain_values import to_plain
from flinknet.replay.observe import details
from flinknet.replay.observe.latency import RANGES_PER_OCTAVE, distribution
from flinknet.replay.observe.observed import collect, observe
from flinknet.replay.observe.regimes import REGIMES
from flinknet.replay.read import open_runs

MS = 1_000_000


def details_of(spark: Any, *paths: Path) -> list[dict[str, Any]]:
    runs = open_runs(paths)
    tables = observe(spark, runs)
    found = details.run_details(spark, tables, collect(tables, runs))
    return [to_plain(each) for each in found]


@pytest.mark.spark
def test_each_channel_over_time(spark: Any, sawtooth_run: Path) -> None:
    (details,) = details_of(spark, sawtooth_run)
    assert [each["channel"] for each in details["channels"]] == [0, 1]
    channel = details["channels"][1]
    assert channel["window_ns"] == 2 * MS  # a second in 50 windows of 20 ms, each in ten
    windows = channel["windows"]
    # A buffer leaves each 10 ms and is consumed 70 us later, the last ones behind the measured
    # part; credit follows 5.02 ms later.
    assert windows["from_ns"][:4] == [10 * MS, 14 * MS, 20 * MS, 24 * MS]
    assert windows["records"][:4] == [10, 0, 10, 0]
    assert sum(windows["records"]) == 100 * 10
    assert windows["from_ns"][-1] == 1000 * MS
    assert windows["buffers"][:4] == [1, 0, 1, 0]
    assert windows["credits"][:4] == [1, 1, 1, 1]
    assert windows["credit_min"][:8] == [1, 2, 1, 2, 1, 2, 0, 2]  # the fourth takes the last credit
    assert windows["backlog_max"][:8] == [0, None, 0, None, 0, None, 3, None]
    assert sum(windows["backlog_sum"]) == 3 * 25
    regimes = channel["regimes"]
    assert set(regimes) == {"from_ns", "width_ns", *REGIMES}
    spent = np.sum([regimes[name] for name in REGIMES], axis=0)
    assert spent.tolist() == regimes["width_ns"] == [20 * MS] * 50


@pytest.mark.spark
def test_the_fill_ratio_counts_every_buffer_once(spark: Any, sawtooth_run: Path) -> None:
    (details,) = details_of(spark, sawtooth_run)
    fill = details["fill"]
    assert fill["segment_size_bytes"] == 32 * 1024
    assert fill["mean"] == pytest.approx(1050 / 32 / 1024)
    # 1050 bytes of 32 KiB are 3.2%; the two buffers of the last beat leave with the window's end.
    assert (fill["full"][0], fill["timeout"][0]) == (100, 98)
    assert sum(map(sum, (fill["full"], fill["timeout"], fill["event"]))) == 198


def test_percentiles_are_given_where_enough_records_support_them() -> None:
    histogram = LogLinearHistogram()
    histogram.add([number * MS + 70_000 for number in range(1, 11)], weight=200)
    found = distribution(histogram)
    assert sum(found.records) == 2000
    percentiles = dict(found.percentiles)
    assert percentiles[0.5] == pytest.approx(5.07 * MS, rel=0.01)
    assert percentiles[0.99] == pytest.approx(10.07 * MS, rel=0.01)
    assert 0.999 not in percentiles
    for low, high in zip(found.low_ns, found.high_ns, strict=True):
        assert high / low == pytest.approx(2 ** (1 / RANGES_PER_OCTAVE), rel=1e-3)


@pytest.mark.spark
def test_many_channels_are_left_to_the_slowest_and_runs_do_not_mix(
    spark: Any, tmp_path: Path, make_run: Callable[..., Path]
) -> None:
    many = make_run(tmp_path / "many", buffers=5, channels=details.CHANNELS_MAX + 3)
    one = make_run(tmp_path / "one", buffers=10, channels=1, period_ns=5 * MS)
    first, second = details_of(spark, many, one)
    assert (first["channels_left_out"], len(first["channels"])) == (3, details.CHANNELS_MAX)
    assert (second["channels_left_out"], len(second["channels"])) == (0, 1)
    assert sum(second["channels"][0]["windows"]["records"]) == 100
    assert second["environment"]["workload"]["consumers"] == 1


@given(st.integers(0, 40_000), st.integers(64, 32_768))
def test_a_full_buffer_is_in_the_last_bin_and_an_empty_one_in_the_first(
    payload: int, size: int
) -> None:
    (number,) = details.fill_bin(np.array([payload]), size).tolist()
    assert 0 <= number < details.FILL_BINS
    if 0 < payload <= size:
        assert number < payload * details.FILL_BINS / size <= number + 1
    elif payload > size:
        assert number == details.FILL_BINS - 1


@given(st.lists(st.integers(0, 10**12), max_size=60))
def test_ranges_hold_every_record_where_it_is(values: list[int]) -> None:
    histogram = LogLinearHistogram()
    histogram.add(values)
    found = distribution(histogram)
    assert sum(found.records) == len(values)
    assert list(found.low_ns) == sorted(found.low_ns)
    if values:
        assert found.low_ns[0] <= max(min(values), 1) * 1.01
        assert found.high_ns[-1] >= max(values) * 0.99


@pytest.mark.parametrize(("duration_ns", "width_ns"), [(1000 * MS, 2 * MS), (60, 1), (1, 1)])
def test_narrow_windows_are_never_without_width(duration_ns: int, width_ns: int) -> None:
    assert details.narrow_width_ns(duration_ns) == width_ns
