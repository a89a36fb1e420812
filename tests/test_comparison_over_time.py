"""Comparisons with earlier results: independent samples, how many runs decide, steps in a trend."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from flinknet.results.comparison import Trend, TrendPoint, Verdict, difference, trend_of

VAGUE = "how many runs would decide is unknown"
WIDE = "runs differ too much to say how many would decide"
FEW = "the 4 runs of the baseline are too few"


def trend(values: Sequence[float | None], why_not: str = "") -> Trend:
    points = [
        TrendPoint(f"{day}.json", f"2026-01-{day:02}", 5, value, None, why_not)
        for day, value in enumerate(values, start=1)
    ]
    return trend_of("conf", "p99", points)


def sample(rng: random.Random, mean: float, deviation: float, count: int) -> list[float]:
    return [math.exp(mean + rng.gauss(0, deviation)) for _ in range(count)]


def test_the_interval_of_independent_samples_covers_the_truth_as_often_as_it_says() -> None:
    rng = random.Random(31)
    covered = 0
    for _ in range(1000):
        base, candidate = sample(rng, 5, 0.02, 6), sample(rng, 5.2, 0.08, 4)
        found = difference(base, candidate, direction=-1, is_paired=False)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= math.expm1(0.2) <= found.high
    assert 0.93 <= covered / 1000 <= 0.975


def test_so_many_runs_as_were_said_do_decide_most_of_the_time() -> None:
    rng = random.Random(32)
    decided = []
    while len(decided) < 60:
        base, candidate = sample(rng, 5, 0.05, 8), sample(rng, 5.04, 0.05, 8)
        found = difference(base, candidate, direction=-1)
        needed = found.runs_needed()
        if found.verdict is not Verdict.UNCLEAR or needed is None:
            continue
        assert needed > 8
        assert f"about {needed} runs would decide" == found.what_would_decide()[0]
        more = difference(
            [*base, *sample(rng, 5, 0.05, 2 * needed - 8)],
            [*candidate, *sample(rng, 5.04, 0.05, 2 * needed - 8)],
            direction=-1,
        )
        decided.append(more.verdict is not Verdict.UNCLEAR)
    assert sum(decided) / len(decided) > 0.5


@pytest.mark.parametrize(
    ("base", "candidate", "is_paired", "sentence", "step"),
    [
        ([10.0], [12.0], True, "one run decides nothing", "with more --runs"),
        ([10, 10], [9, 12], True, VAGUE, "with more --runs"),
        ([10, 10, 10], [40, 2, 100], True, WIDE, "with more --runs"),
        ([10, 10.001] * 3, [10.1] * 6, True, "about 8 runs would decide", "with that many --runs"),
        ([9, 16, 8, 14], [10, 10.1, 9.9, 10], False, FEW, "measure the baseline again"),
        ([10, 20, 10, 20], [20, 10, 20.01, 10], True, "more than 500 runs would be needed", ""),
    ],
)
def test_what_would_decide(
    base: list[float], candidate: list[float], is_paired: bool, sentence: str, step: str
) -> None:
    found = difference(base, candidate, direction=-1, is_paired=is_paired)
    assert found.what_would_decide()[0] == sentence
    assert step in found.what_would_decide()[1]
    assert bool(step) == bool(found.what_would_decide()[1])


def test_a_step_is_found_where_it_is() -> None:
    rng = random.Random(33)
    values = [*sample(rng, 5, 0.02, 8), *sample(rng, 5.15, 0.02, 3)]
    step = trend(values).step
    assert step is not None
    assert (step.since, step.results_after) == ("2026-01-09", 3)
    assert step.low <= math.expm1(0.15) <= step.high
    warning = trend(values).warning()
    assert warning is not None
    assert warning.startswith("p99 of conf rose by 1")
    assert warning.endswith("with the result of 2026-01-09 (3 results since)")
    falling = trend([10, 10.1, 10, 8, 8.1]).warning()
    assert falling is not None
    assert "fell by" in falling


@pytest.mark.parametrize(
    "values",
    [
        [],
        [5.0, 5.0, 50.0],
        [5.0] * 10,
        [5.0] * 8 + [5.02] * 2,
        [5.0, 6.0, 4.5, 5.5, 6.1, 4.9, 5.2],
        [None] * 10,
        [50.0] * 5 + [5.0] * 20,
    ],
)
def test_there_is_no_step_in_few_in_alike_in_scattered_and_in_old_results(
    values: list[float | None],
) -> None:
    assert trend(values).step is None


def test_results_that_do_not_count_make_no_step() -> None:
    assert trend([5.0] * 6 + [9.0]).step is not None
    assert trend([5.0] * 6 + [9.0], why_not="another machine").step is None


def test_chance_makes_a_step_in_one_history_of_a_hundred() -> None:
    rng = random.Random(34)
    alarms = sum(trend(sample(rng, 5, 0.05, 20)).step is not None for _ in range(400))
    assert alarms <= 8
