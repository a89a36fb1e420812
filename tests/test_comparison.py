"""Comparison: paired differences, their intervals, verdicts and limits."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest

from flinknet.errors import ConfigError
from flinknet.histogram import SUB_BUCKETS
from flinknet.results import PERCENTILES, SAMPLES_PER_TAIL, comparison
from flinknet.results.comparison import METRICS, Outcome, Verdict, difference, parse_limit
from flinknet.results.comparison.differences import HISTOGRAM_RESOLUTION


@pytest.mark.parametrize(
    ("probability", "degrees", "expected"),
    [
        (0.975, 1, 12.7062),
        (0.975, 2, 4.3027),
        (0.975, 3, 3.1824),
        (0.975, 4, 2.7764),
        (0.95, 5, 2.0150),
        (0.995, 9, 3.2498),
        (0.975, 30, 2.0423),
    ],
)
def test_t_quantiles_are_those_of_the_tables(
    probability: float, degrees: int, expected: float
) -> None:
    assert comparison.student_t_quantile(probability, degrees) == pytest.approx(expected, abs=1e-4)


def test_a_difference_by_hand() -> None:
    # logs of the ratios 1.1, 1.2, 1.3: mean 0.180005, standard deviation 0.083559, t = 4.3027
    found = difference([10, 10, 10], [11, 12, 13], direction=-1)
    reach = 4.302653 * 0.083559 / math.sqrt(3)
    assert found.change == pytest.approx(math.exp(0.180005) - 1, rel=1e-4)
    assert found.low == pytest.approx(math.exp(0.180005 - reach) - 1, rel=1e-3)
    assert found.high == pytest.approx(math.exp(0.180005 + reach) - 1, rel=1e-3)
    assert (found.base_median, found.candidate_median, found.rounds) == (10, 12, 3)
    assert found.verdict is Verdict.UNCLEAR


def test_pairing_removes_what_a_round_does_to_both() -> None:
    base = [100, 200, 50, 400]
    found = difference(base, [value * 1.1 for value in base], direction=1)
    assert found.change == pytest.approx(0.1)
    assert found.verdict is Verdict.BETTER


@pytest.mark.parametrize(
    ("direction", "verdict"), [(1, Verdict.BETTER), (-1, Verdict.WORSE), (0, Verdict.HIGHER)]
)
def test_the_direction_decides_what_more_means(direction: int, verdict: Verdict) -> None:
    assert difference([10, 11, 10], [20, 22, 21], direction=direction).verdict is verdict


def test_a_sure_difference_below_one_percent_is_none() -> None:
    found = difference([1000, 1000, 1000], [1001, 1001, 1001], direction=1)
    assert found.low is not None
    assert found.low > 0
    assert found.verdict is Verdict.NONE


@pytest.mark.parametrize(
    ("candidate", "verdict"),
    [
        ([1004, 996, 1000, 1001], Verdict.NONE),  # -0.5% … +0.5%
        ([700, 1100, 650, 800], Verdict.UNCLEAR),  # -44% … +13%: it may well be better
        ([1040, 980, 1000, 1010], Verdict.UNCLEAR),  # -3.4% … +4.9%
        ([1008, 1013, 1009, 1006], Verdict.UNCLEAR),  # +0.4% … +1.4%: it may matter
        ([1040, 1020, 1030, 1050], Verdict.WORSE),
    ],
)
def test_no_difference_is_said_only_where_none_can_matter(
    candidate: list[float], verdict: Verdict
) -> None:
    assert difference([1000] * 4, candidate, direction=-1).verdict is verdict


def test_one_round_gives_no_interval_and_no_verdict() -> None:
    found = difference([10], [20], direction=1)
    assert (found.change, found.low, found.high) == (pytest.approx(1.0), None, None)
    assert found.verdict is Verdict.UNCLEAR


def test_rounds_without_a_value_are_left_out() -> None:
    found = difference([10, None, 10], [20, 20, None], direction=1)
    assert found.rounds == 1
    assert difference([None], [1.0], direction=1).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("is_paired", [True, False])
def test_an_interval_is_never_narrower_than_what_the_values_may_be_off_by(is_paired: bool) -> None:
    base, candidate = [100.0, 100.0], [200.0, 200.0]
    found = difference(base, candidate, direction=-1, is_paired=is_paired, resolution=0.004)
    assert found.low == pytest.approx(math.exp(math.log(2) - 0.008) - 1)
    assert found.high == pytest.approx(math.exp(math.log(2) + 0.008) - 1)
    wide = [[100.0, 120.0, 90.0], [200.0, 210.0, 190.0]]
    exact, rough = (
        difference(*wide, direction=-1, is_paired=is_paired, resolution=each) for each in (0, 0.004)
    )
    assert (rough.low, rough.high) == (exact.low, exact.high)


def test_more_runs_do_not_decide_what_the_histogram_does_not_resolve() -> None:
    found = difference([1000.0] * 3, [1005.0] * 3, direction=-1, resolution=HISTOGRAM_RESOLUTION)
    assert found.verdict is Verdict.UNCLEAR
    assert found.what_would_decide()[0] == "percentiles are known to 0.4%: more runs do not help"
    assert difference([1000.0] * 3, [1000.0] * 3, direction=-1, resolution=0.004).verdict is (
        Verdict.NONE
    )


def test_the_resolution_is_that_of_the_histogram() -> None:
    assert HISTOGRAM_RESOLUTION == 1 / (2 * SUB_BUCKETS)
    rough = {name for name, each in METRICS.items() if each.resolution}
    assert rough == METRICS.keys() & PERCENTILES.keys()


def test_zeros_are_compared_by_difference_in_their_own_unit() -> None:
    found = difference([0, 2, 4], [0, 4, 8], direction=-1)
    # differences 0, 2, 4: mean 2, deviation 2
    assert not found.is_ratio
    assert found.change == pytest.approx(2.0)
    assert found.high == pytest.approx(2 + 2 * 4.302653 / math.sqrt(3), rel=1e-4)
    assert (found.base_mean, found.candidate_mean) == (2, 4)


def test_nothing_is_said_to_fall_by_more_than_all_of_it() -> None:
    rng = random.Random(23)
    for _ in range(200):
        base, candidate = ([rng.choice([0, 0, 0.02, 0.3]) for _ in range(4)] for _ in range(2))
        found = difference(base, candidate, direction=-1)
        assert not found.is_ratio or found.low is None or found.low >= -1


def test_a_percentage_between_zeros_is_neither_held_nor_broken() -> None:
    limit = parse_limit("p99>+10%")
    assert limit.outcome(difference([0, 0, 0], [1, 1, 1], direction=-1)) is Outcome.INCONCLUSIVE
    assert limit.outcome(difference([0, 0, 0], [0, 0, 0], direction=-1)) is Outcome.PASS


def test_a_metric_that_is_always_zero_does_not_differ() -> None:
    found = difference([0, 0], [0, 0], direction=1)
    assert (found.verdict, found.change, found.is_ratio) == (Verdict.NONE, 0, True)
    found = difference([0, 0], [1, 0], direction=1)
    assert (found.verdict, found.change, found.is_ratio) == (Verdict.UNCLEAR, 0.5, False)


def test_the_change_is_the_ratio_of_the_means_next_to_it() -> None:
    base, candidate = [17.0, 17.4, 90.0, None], [17.6, 17.5, 20.0, 1.0]
    found = difference(base, candidate, direction=0)
    assert found.base_mean is not None
    assert found.candidate_mean is not None
    assert found.change is not None
    assert found.candidate_mean / found.base_mean == pytest.approx(1 + found.change)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = random.Random(20)
    truth, covered, trials = math.log(1.2), 0, 1000
    for _ in range(trials):
        drift = [rng.gauss(0, 0.3) for _ in range(5)]
        base = [math.exp(5 + d + rng.gauss(0, 0.05)) for d in drift]
        candidate = [math.exp(5 + d + truth + rng.gauss(0, 0.05)) for d in drift]
        found = difference(base, candidate, direction=1)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= math.expm1(truth) <= found.high
    assert 0.93 <= covered / trials <= 0.97


def test_equal_configurations_mostly_show_no_difference() -> None:
    rng = random.Random(21)
    observed = 0
    for _ in range(500):
        base, candidate = ([math.exp(rng.gauss(5, 0.05)) for _ in range(5)] for _ in range(2))
        found = difference(base, candidate, direction=1).verdict
        observed += found not in (Verdict.NONE, Verdict.UNCLEAR)
    assert observed <= 0.07 * 500


def test_a_real_difference_is_noticed() -> None:
    rng = random.Random(22)
    base = [rng.gauss(100, 3) for _ in range(5)]
    candidate = [rng.gauss(130, 3) for _ in range(5)]
    assert difference(base, candidate, direction=-1).verdict is Verdict.WORSE


@pytest.mark.parametrize(
    ("limit", "base", "candidate", "outcome"),
    [
        ("p99>+10%", [10, 10, 10], [12, 12, 12], Outcome.REGRESSION),
        ("p99>+10%", [10, 10, 10], [10, 10, 10], Outcome.PASS),
        ("p99>+10%", [10, 10, 10], [9, 12, 15], Outcome.INCONCLUSIVE),
        ("p99>+10%", [10], [50], Outcome.INCONCLUSIVE),
        ("throughput<-5%", [10, 10, 10], [9, 9, 9], Outcome.REGRESSION),
        ("throughput < -5%", [10, 10, 10], [9.9, 9.9, 9.9], Outcome.PASS),
        ("throughput<-5%", [10, 10, 10], [20, 20, 20], Outcome.PASS),
        ("throughput<-5%", [10, 10, 10], [8, 10, 12], Outcome.INCONCLUSIVE),
    ],
)
def test_a_limit_is_broken_only_by_the_whole_interval(
    limit: str, base: list[float], candidate: list[float], outcome: Outcome
) -> None:
    found = difference(base, candidate, direction=0)
    assert parse_limit(limit).outcome(found) is outcome


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("p99", "not a limit; write .*, with one of throughput, .*buffers/s, cpu"),
        ("p98>1%", "not a metric"),
        ("p99>10", r"'10' in 'p99>10' is not a percentage; write p99>\+10%"),
        ("throughput<5", "write throughput<-10%"),
        ("p99<+10%", r"would fail when p99 is better, .*; did you mean p99>\+10%\?"),
        ("p99<-5%", r"did you mean p99>\+5%\?"),
        ("CPU cores<0%", r"did you mean CPU cores>\+0%\?"),
        ("throughput>-5%", r"would fail when throughput is better, .*; .* throughput<-5%\?"),
        ("bytes/s>+5%", r"did you mean bytes/s<-5%\?"),
        ("throughput<-150%", "cannot fall by more than 100%, so it would never fail"),
        ("throughput<-100%", "so it would never fail"),
        ("buffers/s<-100%", "so it would never fail"),
        ("p99>-100%", "so every comparison would fail"),
        ("p95>+10%", r"known are throughput, bytes/s, .* p99\.9, backlog, buffers/s, cpu$"),
        ("p99>10%", r"needs a sign; write p99>\+10% .* p99>-10%"),
    ],
)
def test_a_bad_limit_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_limit(text)


@pytest.mark.parametrize(
    ("text", "metric"),
    [("buffers/s>+10%", "buffers"), ("CPU cores > +10%", "cpu"), ("cpu>+10%", "cpu")],
)
def test_a_limit_takes_the_names_of_the_table_too(text: str, metric: str) -> None:
    limit = parse_limit(text)
    assert (limit.metric, limit.text) == (metric, text)


@pytest.mark.parametrize(
    "text", ["p99>-20%", "throughput<+10%", "p99>0%", "buffers<-10%", "buffers>+10%"]
)
def test_a_limit_may_ask_for_an_improvement(text: str) -> None:
    assert parse_limit(text).text == text


def test_a_percentile_needs_as_many_records_as_a_histogram_says() -> None:
    for name in ("p50", "p99", "p99_9"):
        tail = min(PERCENTILES[name], 1 - PERCENTILES[name])
        assert comparison.METRICS[name].records_min == round(SAMPLES_PER_TAIL / tail)


def test_each_configuration_runs_once_a_round_and_once_in_each_place() -> None:
    orders = comparison.interleaved_orders(3, 6, seed=5)
    assert all(sorted(order) == [0, 1, 2] for order in orders)
    for place in range(3):
        assert sorted(order[place] for order in orders) == [0, 0, 1, 1, 2, 2]
    assert all(one != other for one, other in pairwise(orders))


def test_the_order_follows_from_the_seed() -> None:
    assert comparison.interleaved_orders(4, 5, 1) == comparison.interleaved_orders(4, 5, 1)
    assert any(
        comparison.interleaved_orders(4, 1, 1) != comparison.interleaved_orders(4, 1, seed)
        for seed in range(2, 6)
    )


@pytest.mark.parametrize(
    ("negligible_amount", "verdict"), [(0.01, Verdict.NONE), (0.0, Verdict.WORSE)]
)
def test_a_tiny_amount_against_zero_is_no_difference(
    negligible_amount: float, verdict: Verdict
) -> None:
    found = difference(
        [0, 0, 0],
        [0.003, 0.0031, 0.0029],
        direction=-1,
        negligible_amount=negligible_amount,
    )
    assert found.verdict is verdict
