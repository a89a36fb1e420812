"""Comparisons with earlier results: independent samples, and how many runs decide."""

from __future__ import annotations

import math
import random

import pytest

from flinknet.results.comparison import Verdict, difference

VAGUE = "how many runs would decide is unknown"
WIDE = "runs differ too much to say how many would decide"
FEW = "the 4 runs of the baseline are too few"


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
