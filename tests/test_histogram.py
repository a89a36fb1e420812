"""LogLinearHistogram: bounded error, exact extremes, merging and bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.histogram import (
    BUCKETS,
    VALUE_BITS,
    LogLinearHistogram,
    bucket_bounds_ns,
    bucket_index,
)

values_ns = st.lists(st.integers(0, 10**14), min_size=1, max_size=200)


def histogram_of(values: list[int]) -> LogLinearHistogram:
    histogram = LogLinearHistogram()
    histogram.add(values)
    return histogram


@given(values_ns)
def test_each_value_lies_within_the_bounds_of_its_bucket(values: list[int]) -> None:
    for value, index in zip(values, bucket_index(np.array(values)), strict=True):
        low, high = bucket_bounds_ns(int(index))
        assert low <= value < high


def test_buckets_follow_each_other_without_gap_and_are_narrow() -> None:
    for index in range(BUCKETS - 1):
        low, high = bucket_bounds_ns(index)
        assert high == bucket_bounds_ns(index + 1)[0]
        assert high - low == 1 or (high - low) / low <= 1 / 64
    assert bucket_bounds_ns(BUCKETS - 1)[1] == 1 << VALUE_BITS


def test_values_beyond_the_last_bucket_count_in_it_and_keep_the_exact_maximum() -> None:
    histogram = histogram_of([1 << 60])
    assert histogram.counts[BUCKETS - 1] == 1
    assert histogram.max == 1 << 60


@given(values_ns, st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_percentiles_are_within_one_percent_of_the_sorted_samples(
    values: list[int], q: float
) -> None:
    exact = sorted(values)[max(1, int(np.ceil(q * len(values)))) - 1]
    assert histogram_of(values).percentile(q) == pytest.approx(exact, rel=0.01, abs=0.5)


@given(values_ns)
def test_count_mean_min_and_max_are_exact(values: list[int]) -> None:
    histogram = histogram_of(values)
    assert (histogram.count, histogram.min, histogram.max) == (
        len(values),
        min(values),
        max(values),
    )
    assert histogram.mean == sum(values) / len(values)


@given(values_ns, values_ns)
def test_merging_equals_counting_together(first: list[int], second: list[int]) -> None:
    merged = histogram_of(first)
    merged.merge(histogram_of(second))
    assert merged.to_bytes() == histogram_of(first + second).to_bytes()


def test_merging_an_empty_histogram_changes_nothing() -> None:
    histogram = histogram_of([5, 500, 50_000])
    before = histogram.to_bytes()
    histogram.merge(LogLinearHistogram())
    assert histogram.to_bytes() == before


@given(st.lists(st.integers(-(10**6), 10**14), max_size=200))
def test_bytes_give_the_histogram_back(values: list[int]) -> None:
    histogram = histogram_of(values)
    copy = LogLinearHistogram.from_bytes(histogram.to_bytes())
    assert copy.to_bytes() == histogram.to_bytes()
    assert copy.summary() == histogram.summary()


def test_a_weight_counts_a_value_several_times() -> None:
    weighted = LogLinearHistogram()
    weighted.add([1_000, 2_000], weight=3)
    assert weighted.to_bytes() == histogram_of([1_000, 2_000] * 3).to_bytes()


def test_a_sum_beyond_64_bits_stays_exact() -> None:
    histogram = LogLinearHistogram()
    histogram.add([10**14], weight=10**6)
    assert LogLinearHistogram.from_bytes(histogram.to_bytes()).mean == 1e14


@pytest.mark.parametrize(
    ("name", "samples"), [("p50", 10), ("p90", 50), ("p99", 500), ("p99_9", 5_000)]
)
def test_a_percentile_is_absent_until_enough_samples_support_it(name: str, samples: int) -> None:
    assert getattr(histogram_of([7] * samples).summary(), name) == 7
    assert getattr(histogram_of([7] * (samples - 1)).summary(), name) is None


def test_without_samples_everything_is_absent() -> None:
    summary = LogLinearHistogram().summary()
    assert summary.count == 0
    assert {summary.min, summary.mean, summary.p50, summary.max} == {None}
