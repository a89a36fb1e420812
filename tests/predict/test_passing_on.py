"""When a job counts as one that falls behind."""

from __future__ import annotations

import numpy as np
import pytest

from flinknet.predict.job import Departures, falls_behind

S = 1_000_000_000


@pytest.mark.parametrize(
    ("rate", "falls"), [(0.5, True), (0.9, True), (1.0, False)], ids=["half", "most", "all"]
)
@pytest.mark.parametrize("window_ns", [S, 6 * S])
def test_sources_may_end_long_before_the_window(rate: float, falls: bool, window_ns: int) -> None:
    origins_ns = S + np.arange(0, S, 1_000_000)
    at_ns = S + ((origins_ns - S) / rate).astype(np.int64) + 5_000_000
    assert falls_behind([Departures(at_ns, origins_ns)], S, window_ns, 10_000_000) is falls


def test_many_consumers_with_few_late_records_each_are_looked_at_together() -> None:
    """30 records each, which are taken half as fast as they come."""
    origins_ns = S + np.arange(30) * (S // 30)
    departed = Departures(2 * origins_ns - S, origins_ns)
    assert not falls_behind([departed], S, S, 10_000_000)
    assert falls_behind([departed] * 100, S, S, 10_000_000)


@pytest.mark.parametrize(("late", "falls"), [(9, False), (10, True)])
def test_few_late_records_say_nothing(late: int, falls: bool) -> None:
    """They come with one burst, and wait for each other."""
    origins_ns = np.append(S + np.arange(0, S // 2, 1_000_000), np.full(late, S + 900_000_000))
    ages_ns = np.append(np.full(500, 5_000_000), np.full(late, 80_000_000))
    departed = Departures(origins_ns + ages_ns, origins_ns)
    assert falls_behind([departed], S, S, 10_000_000) is falls
