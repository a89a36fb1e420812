"""Costs are told apart where messages differ in size, and assumed where they do not."""

from __future__ import annotations

import numpy as np
import pytest

from flinknet.predict.fit.costs import split_cost


def test_messages_of_many_sizes_tell_the_fixed_cost_from_that_of_a_record() -> None:
    records = np.arange(1, 1001)
    fixed_ns, per_record_ns, is_told = split_cost(5_000.0 + 20.0 * records, records, 1.0)
    assert is_told
    assert (fixed_ns, per_record_ns) == (
        pytest.approx(5_000, rel=0.01),
        pytest.approx(20, rel=0.01),
    )


def test_outliers_do_not_move_the_costs() -> None:
    records = np.arange(1, 1001)
    total_ns = 5_000.0 + 20.0 * records
    total_ns[::20] += 10_000_000
    fixed_ns, per_record_ns, _ = split_cost(total_ns, records, 1.0)
    assert fixed_ns == pytest.approx(5_000, rel=0.2)
    assert per_record_ns == pytest.approx(20, rel=0.1)


def test_messages_of_one_size_keep_the_assumed_fixed_cost_and_their_total() -> None:
    records = np.full(100, 300)
    fixed_ns, per_record_ns, is_told = split_cost(np.full(100, 40_000.0), records, 10_000.0)
    assert not is_told
    assert fixed_ns == 10_000
    assert fixed_ns + 300 * per_record_ns == pytest.approx(40_000)


def test_the_assumed_cost_is_never_more_than_the_whole() -> None:
    records = np.full(100, 300)
    assert split_cost(np.full(100, 4_000.0), records, 10_000.0)[:2] == (4_000, 0)
