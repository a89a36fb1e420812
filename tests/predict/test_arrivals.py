"""When records of captured buffers came: patterns read from counts, and draws that follow them."""

from __future__ import annotations

import re

import numpy as np
import pytest

from flinknet.arrays import IntArray
from flinknet.predict.fit.arrivals import UNKNOWN_PATTERN, Seen, Unseen, find_bursts, fit_pattern

MS = 1_000_000
BEAT_NS = 20 * MS
BEATS = 500


def seen_at(instants_ns: np.ndarray) -> Seen:
    """What a flusher with a beat of BEAT_NS makes of records, none of which fills a buffer."""
    beat = instants_ns // BEAT_NS
    beats, records = np.unique(beat, return_counts=True)
    at_ns = (beats + 1) * BEAT_NS
    return Seen(records, at_ns - BEAT_NS, at_ns, np.ones(len(beats), bool))


def poisson(gap_ns: float, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    found = np.cumsum(random.exponential(gap_ns, int(BEATS * BEAT_NS / gap_ns)))
    return found.astype(np.int64)


def regular(gap_ns: int) -> np.ndarray:
    return np.arange(0, BEATS * BEAT_NS, gap_ns)


def clumps(gap_ns: float, size: int) -> np.ndarray:
    return np.repeat(poisson(gap_ns * size), size)


def bursts(gap_ns: float) -> np.ndarray:
    """On for 100 ms, off for 200 ms."""
    time = poisson(gap_ns)
    return time // (100 * MS) * 300 * MS + time % (100 * MS)


@pytest.mark.parametrize(
    ("instants_ns", "low", "high"),
    [
        (regular(3 * MS), 0.0, 0.2),
        (poisson(2 * MS), 0.8, 1.2),
        (poisson(20 * MS), 0.8, 1.2),
        (bursts(0.5 * MS), 0.7, 1.4),
    ],
)
def test_counts_from_beat_to_beat_tell_the_pattern(
    instants_ns: np.ndarray, low: float, high: float
) -> None:
    seen = {0: seen_at(instants_ns)}
    bursts = find_bursts(seen, {0: 0}, BEAT_NS)
    found = fit_pattern(seen, BEAT_NS, is_on_off=bursts is not None)
    assert low <= found.dispersion <= high
    assert found.low <= found.dispersion <= found.high


def test_what_varies_by_more_may_be_clumps_or_a_rate_that_varies() -> None:
    found = fit_pattern({0: seen_at(clumps(1 * MS, 10))}, BEAT_NS)
    assert found.high == pytest.approx(10, rel=0.3)
    assert found.dispersion == pytest.approx(np.sqrt(10), rel=0.3)
    random = np.random.default_rng(1)
    draws = [found.draw(random, number) for number in range(1, 9)]
    assert draws[::2] == [1.0] * 4
    assert all(6 < each < 15 for each in draws[1::2])


def test_beats_of_another_length_tell_nothing_of_the_pattern() -> None:
    """One beat in four is half a beat late, and has half as many records more."""
    lengths = np.where(np.arange(400) % 4 == 3, 1.5, 1.0)
    at_ns = np.cumsum(lengths * BEAT_NS).astype(np.int64)
    records = np.round(20 * lengths).astype(np.int64)
    seen = Seen(records, np.r_[0, at_ns[:-1]], at_ns, np.ones(400, bool))
    assert fit_pattern({0: seen}, BEAT_NS).high < 0.1


def test_few_beats_or_no_beat_leave_the_pattern_open() -> None:
    assert fit_pattern({0: seen_at(poisson(2 * MS)[:50])}, BEAT_NS) == UNKNOWN_PATTERN
    assert fit_pattern({0: seen_at(poisson(2 * MS))}, None) == UNKNOWN_PATTERN
    assert fit_pattern({}, BEAT_NS) == UNKNOWN_PATTERN


@pytest.mark.parametrize(
    ("instants_ns", "is_on_off", "words"),
    [
        (regular(3 * MS), False, r"evenly spaced, estimated .* flushes: variance 0\.\d+ times the"),
        (poisson(2 * MS), False, r"at random instants, estimated .*: variance [01]\.\d+ times"),
        (
            clumps(1 * MS, 10),
            False,
            r"in groups of about 3\.\d \(1 to 1\d\), estimated from how much their num",
        ),
        (clumps(1 * MS, 10), True, r"in groups of about \d+ \(.*\) in bursts, estimated from how"),
        (poisson(2 * MS)[:50], False, r"evenly spaced to random: too few flushes to see how their"),
    ],
    ids=["even", "random", "groups", "bursts", "few"],
)
def test_a_pattern_is_put_in_words(instants_ns: np.ndarray, is_on_off: bool, words: str) -> None:
    found = fit_pattern({0: seen_at(instants_ns)}, BEAT_NS, is_on_off=is_on_off)
    assert re.match(words, found.in_words)


@pytest.mark.parametrize("dispersion", [0.0, 0.1, 1.0, 4.0])
@pytest.mark.parametrize("gap_ns", [0.1 * MS, 5 * MS])
def test_draws_stay_in_their_stretches_in_order(dispersion: float, gap_ns: float) -> None:
    seen = seen_at(poisson(gap_ns))
    ramps = seen.drawn(dispersion, np.random.default_rng(2))
    assert ramps.total_records == seen.records.sum()
    instants_ns = ramps.instants()[1]
    assert (np.diff(instants_ns) >= 0).all()
    counts = np.bincount((instants_ns - 1) // BEAT_NS)
    assert counts[counts > 0].tolist() == seen.records.tolist()


def test_draws_vary_as_the_records_did() -> None:
    """In windows of 1 ms, of which the counts at 20 ms say nothing by themselves."""
    for instants_ns, dispersion in ((poisson(0.5 * MS), 1.0), (clumps(0.5 * MS, 6), 6.0)):
        ramps = seen_at(instants_ns).drawn(dispersion, np.random.default_rng(2))
        filled = [len(np.unique(each // MS)) for each in (instants_ns, ramps.instants()[1])]
        assert filled[1] == pytest.approx(filled[0], rel=0.1)


def test_as_many_times_as_many_records_over_the_same_stretches() -> None:
    seen = seen_at(poisson(2 * MS))
    for factor in (0.3, 1.0, 2.5):
        scaled = seen.times(factor)
        assert scaled.records.sum() == pytest.approx(factor * seen.records.sum(), abs=1)
        assert scaled.records.min() > 0
        assert np.isin(scaled.at_ns, seen.at_ns).all()


def test_the_same_seed_draws_the_same() -> None:
    seen = seen_at(poisson(2 * MS))
    one, other = (seen.drawn(1.0, np.random.default_rng(3)) for _ in range(2))
    assert (one.first_ns == other.first_ns).all()


def beats(records: int) -> Seen:
    """So many records in each of 200 beats."""
    at_ns = BEAT_NS * np.arange(1, 201)
    return Seen(np.full(200, records), at_ns - BEAT_NS, at_ns, np.ones(200, bool))


def unseen(**records: int) -> Unseen:
    seen = {int(name[1:]): beats(each) for name, each in records.items()}
    return Unseen(seen, UNKNOWN_PATTERN, 0, 200 * BEAT_NS, None)


def variance_ratio(routes: IntArray, channel: int, stretch: int = 10) -> float:
    """Of how many records of a stretch went to a channel, over that of records which go anywhere
    at random."""
    is_own = routes[: len(routes) // stretch * stretch] == channel
    share = is_own.mean()
    return float(is_own.reshape(-1, stretch).sum(axis=1).var() / (stretch * share * (1 - share)))


def test_each_beat_has_the_records_that_it_had() -> None:
    routes = unseen(c0=30, c1=10).routes([0, 1], [], seed=1)
    assert [np.bincount(each).tolist() for each in np.split(routes, 200)] == [[30, 10]] * 200


def test_within_a_beat_records_go_anywhere_at_random() -> None:
    routes = unseen(c0=30, c1=30).routes([0, 1], [], seed=1)
    assert variance_ratio(routes, 0) == pytest.approx(0.85, abs=0.15)


def test_records_within_a_task_manager_come_among_the_others_at_random() -> None:
    routes = unseen(c0=5, c1=40).routes([0], [1], seed=1)
    assert np.bincount(routes).tolist() == [1_000, 8_000]
    assert variance_ratio(routes, 1) == pytest.approx(1, abs=0.15)


def test_a_task_all_of_whose_channels_are_local_has_routes_too() -> None:
    assert np.bincount(unseen(c0=3, c1=4).routes([], [0, 1], seed=1)).tolist() == [600, 800]
