"""The search for the highest rate that keeps a limit, on a made-up server."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from random import Random

import pytest

from flinknet.config import SlowConsumer
from flinknet.job.load.plan import load_plan_of
from flinknet.report.bench_find import find_document, find_view
from flinknet.report.page_parts import Table, headline
from flinknet.results.breaking_point import FoundRate, Search, change_between
from flinknet.results.comparison import Verdict
from flinknet.simulator.cluster import START_NS
from flinknet.simulator.cost_model import TYPICAL_COSTS
from tests.load_cluster import load_cluster
from tests.simulated_scenario import plan_sources
from tests.simulation import MS, US, finished, latency_of, scenario

WITHIN = 0.03


def searched(
    capacity_per_s: float, seed: int, *, wrong: float = 0.0, spread: float = 0.002, off: float = 1.0
) -> Search:
    """A search on a server that keeps the limit up to its capacity.

    Args:
        wrong: share of the other runs that break the limit.
        spread: of the capacity, from run to run.
        off: how far the guess is off.
    """
    random = Random(seed)
    search = Search(capacity_per_s * off, WITHIN)
    while not search.is_over:
        rate = search.next_per_s
        is_kept = math.log(capacity_per_s / rate) > random.gauss(0, spread)
        search.add(rate, is_kept=is_kept and random.random() >= wrong, figure=rate)
    return search


@pytest.mark.parametrize(
    ("wrong", "spread", "off", "runs"),
    [
        *((0.0, 0.002, 1.0, 20), (0.0, 0.002, 4.0, 30), (0.0, 0.002, 2048.0, 40)),
        *((0.0, 0.002, 0.5, 30), (0.15, 0.01, 1.3, 40)),
    ],
    ids=["steady", "guess too high", "guess far too high", "guess too low", "disturbed"],
)
def test_the_capacity_is_found_within_the_precision(
    wrong: float, spread: float, off: float, runs: int
) -> None:
    found = [
        (capacity, searched(capacity, seed, wrong=wrong, spread=spread, off=off))
        for seed in range(20)
        for capacity in (25_000 * math.exp(Random(seed).uniform(-1, 1)),)
    ]
    good = sum(abs(each.rate_per_s / capacity - 1) <= WITHIN for capacity, each in found)
    inside = sum(
        low <= capacity <= high for capacity, each in found for low, high in [each.interval_per_s]
    )
    assert good >= 19
    assert inside >= 18
    assert all(each.is_decided for _, each in found)
    assert sum(len(each.runs) for _, each in found) / len(found) < runs


@pytest.mark.slow("simulates a dozen runs of a slow consumer for each seed")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_capacity_of_a_slow_consumer_is_found_within_the_precision(seed: int) -> None:
    """A consumer that takes 40 us for a record takes 25,000 records per second."""
    search = Search(25_000 * (0.8 if seed % 2 else 1.2))
    while not search.is_over:
        rate = search.next_per_s
        asked = scenario(
            5 * MS,
            rate_per_s=rate,
            records=int(3 * rate),
            seed=100 * seed + len(search.runs),
            slow_consumers=(SlowConsumer(0, 40 * US),),
            arrivals="poisson",
        )
        load = load_plan_of(asked)
        sources = plan_sources(load, start_ns=START_NS)
        p99_ns = latency_of(finished(load_cluster(load, sources, TYPICAL_COSTS))).percentile(0.99)
        assert p99_ns is not None
        search.add(rate, is_kept=p99_ns <= 20 * MS, figure=p99_ns)
    assert search.is_decided
    assert search.rate_per_s == pytest.approx(25_000, rel=WITHIN)


def test_one_wrong_run_far_below_is_corrected() -> None:
    search = Search(25_000)
    search.add(12_000, is_kept=False)
    while not search.is_over:
        search.add(rate := search.next_per_s, is_kept=rate <= 24_000)
    assert search.rate_per_s == pytest.approx(24_000, rel=WITHIN)


def test_no_run_is_below_the_floor_and_one_that_kept_the_limit_leaves_hope() -> None:
    search = Search(25_000, floor_per_s=2_000)
    search.add(2_000, is_kept=True)
    while not search.is_over:
        search.add(search.next_per_s, is_kept=False)
    assert min(rate for rate, _, _ in search.runs) == 2_000
    assert not search.is_hopeless
    assert not search.is_decided


def test_tried_rates_ascend_with_their_runs_and_figures() -> None:
    search = searched(25_000, 1)
    tried = search.tried()
    rates = [each.rate_per_s for each in tried]
    assert rates == sorted(set(rates)) == [each.figure for each in tried]
    assert sum(each.runs for each in tried) == len(search.runs)
    probabilities = [each.is_below_probability for each in tried]
    assert probabilities == sorted(probabilities, reverse=True)


@pytest.mark.parametrize(
    ("other", "factor", "verdict"),
    [
        *((1.2, 1.0, Verdict.BETTER), (0.85, 1.0, Verdict.WORSE), (1.0, 1.0, Verdict.UNCLEAR)),
        (0.6, 2.0, Verdict.BETTER),  # twice the producers, by the total of their rates
    ],
)
def test_two_breaking_points_compare_in_the_words_of_a_comparison(
    other: float, factor: float, verdict: Verdict
) -> None:
    base, found = searched(25_000, 1), searched(25_000 * other, 2)
    change = change_between(base, found, factor=factor)
    assert change.verdict is verdict
    assert change.low <= other * factor - 1 <= change.high
    assert change.change == pytest.approx(other * factor - 1, abs=2 * WITHIN)


def test_a_rate_that_most_runs_broke_is_not_said_to_keep_the_limit() -> None:
    search = Search(14_000.0, within=0.3, confidence=0.7)
    for number in range(6):
        search.add(14_000.0, is_kept=number % 2 == 1, figure=141e6)
    unseen = FoundRate("", "p99<=20ms", 20_000.0, search, disturbed=9, repeats=8)
    assert search.is_unseen
    words = "\n".join(headline(find_view([unseen], None, "p99").headline))
    assert "14 runs in search" in words
    assert "is the highest rate" not in words
    assert "no rate that was tried surely keeps p99<=20ms: 3 of 6 runs at 14.0 k/s did" in words
    assert "trust      poor: within" in words
    good = FoundRate("good", "p99<=20ms", 20_000.0, searched(10_000, 1))
    for pair in ([unseen, good], [good, replace(unseen, name="x")]):
        view = find_view(pair, None, "p99")
        said = {each.name: each.text for each in view.headline}
        assert "no rate that was tried surely keeps p99<=20ms: 3 of 6" in said["verdict"]
        assert said["effect"].startswith("good: ")
        assert said["next"].startswith("good: the same options")
        first, second = find_document({}, pair)["find"]
        assert first["is_unseen"] is not second["is_unseen"]
        assert second["change"]["verdict"] == "not measured"
    search.add(7_000.0, is_kept=True, figure=9e6)
    assert not search.is_unseen


def test_the_sentence_the_rows_and_the_runs_of_an_answer_agree() -> None:
    """The runs of a consumer that takes 5,000 records/s, whose latency is near the limit there."""
    search = Search(5_130.0)
    broken = {5_130: 4, 5_200: 1}  # rates that were not reached
    for rate, runs in (
        *((5_130, "n"), (4_170, "n"), (3_390, "y"), (3_870, "y"), (4_110, "y"), (4_420, "y")),
        *((4_910, "y"), (5_200, "n"), (5_050, "yynnn"), (5_130, "nnn"), (4_980, "ynynnn")),
    ):
        for each in runs:
            figure = None if rate in broken else 150e6 if each == "y" else 205e6
            search.add(rate, is_kept=each == "y", figure=figure)
    assert search.is_decided
    view = find_view([FoundRate("", "p99<=200ms", 8_000.0, search)], None, "p99")
    said = {each.name: each.text for each in view.headline}
    assert "highest rate that keeps" not in said["verdict"]
    begin, _, end = said["verdict"].partition(" (95%); ")
    assert re.fullmatch(r"p99<=200ms breaks between 4\.\d+ k/s and 5\.\d+ k/s", begin)
    assert end == "1 of 1 run at 4.91 k/s kept it"
    assert said["trust"].endswith("only 2 of 6 runs at 4.98 k/s kept the limit")
    (table,) = view.parts
    assert isinstance(table, Table)
    rows = {row.cells[0]: row.cells[1:] for row in table.rows}
    assert [rows["4.17 k/s"][each] for each in (0, 1, 4)] == ["1", "0", "unclear"]
    assert rows["4.42 k/s"][4] == "kept"
    assert rows["4.98 k/s"][4] == "at the limit"
    assert rows["5.13 k/s"][2:5:2] == ["–", "broken, rate not reached in 4 runs"]
    (document,) = find_document({}, [FoundRate("", "p99<=200ms", 8_000.0, search)])["find"]
    assert {each["rate_per_s"]: each["not_reached"] for each in document["rates"]}.items() >= (
        broken.items()
    )


def test_a_rate_near_which_few_runs_kept_the_limit_is_fair_at_best() -> None:
    tried = {16_980: (4, 6), 17_230: (3, 6), 17_490: (2, 6), 17_750: (3, 4), 18_010: (0, 5)}
    search = Search(25_000.0)
    for rate, (kept, runs) in {**tried, 18_550: (0, 7), 24_570: (0, 1)}.items():
        for number in range(runs):
            search.add(rate, is_kept=number < kept, figure=50e6)
    view = find_view([FoundRate("", "p99<=20ms", 25_000.0, search)], None, "p99")
    (trust,) = [each.text for each in view.headline if each.name == "trust"]
    assert re.fullmatch(r"fair: within 2.\d%; only 2 of 6 runs at 17.5 k/s kept the limit", trust)
