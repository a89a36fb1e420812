"""What messages leave open of where the records of a task went."""

from __future__ import annotations

import numpy as np
import pytest

from flinknet.arrays import IntArray
from flinknet.predict.fit.arrivals import UNKNOWN_PATTERN, Seen
from flinknet.predict.fit.unseen import Unseen

MS = 1_000_000
BEATS, BEAT_NS = 200, 100 * MS


def beats(records: int) -> Seen:
    """So many records in each beat."""
    at_ns = BEAT_NS * np.arange(1, BEATS + 1)
    return Seen(np.full(BEATS, records), at_ns - BEAT_NS, at_ns, np.ones(BEATS, bool))


def unseen(**records: int) -> Unseen:
    seen = {int(name[1:]): beats(each) for name, each in records.items()}
    return Unseen(seen, UNKNOWN_PATTERN, 0, BEATS * BEAT_NS, None)


def variance_ratio(routes: IntArray, channel: int, stretch: int = 10) -> float:
    """Of how many records of a stretch went to a channel, over that of records which go anywhere
    at random."""
    is_own = routes[: len(routes) // stretch * stretch] == channel
    share = is_own.mean()
    return float(is_own.reshape(-1, stretch).sum(axis=1).var() / (stretch * share * (1 - share)))


def test_each_beat_has_the_records_that_it_had() -> None:
    routes = unseen(c0=30, c1=10).routes([0, 1], [], seed=1)
    assert [np.bincount(each).tolist() for each in np.split(routes, BEATS)] == [[30, 10]] * BEATS


def test_within_a_beat_records_go_anywhere_at_random() -> None:
    routes = unseen(c0=30, c1=30).routes([0, 1], [], seed=1)
    assert variance_ratio(routes, 0) == pytest.approx(0.85, abs=0.15)


def test_records_within_a_task_manager_come_among_the_others_at_random() -> None:
    routes = unseen(c0=5, c1=40).routes([0], [1], seed=1)
    assert np.bincount(routes).tolist() == [5 * BEATS, 40 * BEATS]
    assert variance_ratio(routes, 1) == pytest.approx(1, abs=0.15)


def test_a_task_all_of_whose_channels_are_local_has_routes_too() -> None:
    assert np.bincount(unseen(c0=3, c1=4).routes([], [0, 1], seed=1)).tolist() == [600, 800]
