"""Keys and sizes: their distributions, and the same for a seed in any portions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.config import EXPONENTIAL, RecordSize
from flinknet.job.load.arrivals import DrawnSizes, KeyDraws

portions = st.lists(st.integers(0, 9000), min_size=1, max_size=6)


@given(portions, st.sampled_from([0.0, 0.9]))
def test_keys_are_the_same_in_any_portions(counts: list[int], skew: float) -> None:
    draws = KeyDraws(1000, skew, seed=3)
    taken = [key for count in counts for key in draws.take(count).tolist()]
    assert taken == KeyDraws(1000, skew, seed=3).take(sum(counts)).tolist()


@given(portions, st.sampled_from([RecordSize(8, 500), RecordSize(8, 9000, EXPONENTIAL, 90)]))
def test_sizes_are_the_same_in_any_portions(counts: list[int], size: RecordSize) -> None:
    draws = DrawnSizes(size, seed=3)
    taken = [key for count in counts for key in draws.take(count).tolist()]
    assert taken == DrawnSizes(size, seed=3).take(sum(counts)).tolist()


def test_skewed_keys_have_the_shares_of_a_zipf_distribution() -> None:
    keys = KeyDraws(100, 1.0, seed=2).take(200_000)
    shares = np.bincount(keys, minlength=100) / len(keys)
    expected = 1 / np.arange(1, 101)
    expected /= expected.sum()
    # five standard errors of the largest share are 0.0044
    assert shares == pytest.approx(expected, abs=0.005)


def test_exponential_sizes_have_their_mean_and_spread() -> None:
    sizes = DrawnSizes(RecordSize(8, 20_000, EXPONENTIAL, 200), seed=2).take(100_000)
    assert sizes.min() == 8
    assert sizes.max() < 20_000
    # five standard errors of the mean are 3 bytes
    assert sizes.mean() == pytest.approx(200, abs=3)
    assert sizes.std() == pytest.approx(192, rel=0.03)


def test_exponential_sizes_are_cut_off() -> None:
    assert DrawnSizes(RecordSize(8, 100, EXPONENTIAL, 200), seed=2).take(1000).max() == 100
