"""Preemptions: the same for longer, and a sample of them for shorter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.simulator.cost_model import SUCCESSIVE_VALUES, Preemptions, sampled

MS = 1_000_000


@given(st.integers(0, 5_000), st.floats(1.0, 50.0), st.integers(1, 100))
def test_a_sample_is_an_even_one_in_so_many(count: int, factor: float, together: int) -> None:
    found = sampled(count, factor, together)
    assert (np.diff(found) > 0).all(), "in order, each once"
    assert abs(len(found) - count / factor) <= together
    assert (np.diff(found)[found[:-1] % together != together - 1] == 1).all(), "stretches are whole"


def test_a_shorter_time_has_the_same_share_of_preemptions_and_all_moods_of_the_machine() -> None:
    starts_ns = np.arange(1_000) * 5 * MS
    lengths_ns = np.where(starts_ns < 2_500 * MS, MS, 3 * MS)
    moods_ns = np.repeat([-2_000, 4_000], 50 * SUCCESSIVE_VALUES)
    whole = Preemptions(starts_ns, lengths_ns, moods_ns)
    part = whole.condensed(10)
    assert part.starts_ns.max() < 500 * MS
    assert part.lengths_ns.sum() == pytest.approx(lengths_ns.sum() / 10, rel=0.02)
    expected_ns = np.repeat([-2_000, 4_000], 5 * SUCCESSIVE_VALUES)
    assert part.wakeups_ns.tolist() == expected_ns.tolist()


def test_the_same_over_and_over() -> None:
    once = Preemptions(np.array([1 * MS]), np.array([2 * MS]), np.array([7]))
    again = once.repeated(3, 10 * MS)
    assert again.starts_ns.tolist() == [1 * MS, 11 * MS, 21 * MS]
    assert again.lengths_ns.tolist() == [2 * MS] * 3
