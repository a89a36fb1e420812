"""Bursts, read from what flushers make of them: how long they are on, when their records came."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flinknet.predict.fit.arrivals import Seen, find_bursts

MS = 1_000_000
BEAT_NS = 20_170_000
"""No part of the time from one burst to the next, so that bursts lie to beats in any way."""

BURSTS = 80
EVERY_NS = 200 * MS


def instants(on_ms: int, records: int, offset_ns: int = 0) -> np.ndarray:
    """Of records that come evenly while load is on, from the start of each burst."""
    within_ns = np.arange(records) * on_ms * MS // records
    return (np.arange(BURSTS)[:, None] * EVERY_NS + within_ns + offset_ns).ravel()


def flushed(instants_ns: np.ndarray, phase_ns: int = 0) -> Seen:
    """The buffers of a flusher with a beat of BEAT_NS."""
    beats, records = np.unique((instants_ns + phase_ns) // BEAT_NS, return_counts=True)
    at_ns = (beats + 1) * BEAT_NS - phase_ns
    return Seen(records, at_ns - BEAT_NS, at_ns, np.ones(len(beats), bool))


@pytest.mark.parametrize("on_ms", [0, 5, 20, 50, 100])
def test_beats_in_a_row_tell_how_long_a_burst_is_on(on_ms: int) -> None:
    seen = {0: flushed(instants(on_ms, 60)), 1: flushed(instants(on_ms, 60), 7 * MS)}
    found = find_bursts(seen, {0: 0, 1: 1}, BEAT_NS)
    assert found is not None
    assert found.on_ns == pytest.approx(on_ms * MS, abs=2 * MS)


@pytest.mark.parametrize("on_ms", [5, 20, 50])
def test_records_are_placed_near_their_instants(on_ms: int) -> None:
    came_ns = instants(on_ms, 60)
    seen = {0: flushed(came_ns)}
    found = find_bursts(seen, {0: 0}, BEAT_NS)
    assert found is not None
    within = found.within(seen)[0]
    assert (within.since_ns <= within.at_ns).all()
    assert (within.since_ns[1:] >= within.at_ns[:-1]).all()
    assert within.records.sum() == len(came_ns)
    off_ns = np.abs(within.evenly().instants()[1] - came_ns)
    before_ns = np.abs(seen[0].evenly().instants()[1] - came_ns)
    assert off_ns.mean() < 0.7 * before_ns.mean()
    assert np.quantile(off_ns, 0.9) < (BEAT_NS - on_ms * MS) / 2 + 2 * MS if on_ms < 20 else 2 * MS


@pytest.mark.parametrize("late_beats", [0.6, 1.1])
def test_a_late_beat_is_no_silence(late_beats: float) -> None:
    """In every second burst the flusher is late once, by more than half a beat."""
    seen = flushed(instants(100, 600))
    at_ns, records = seen.at_ns.copy(), seen.records.copy()
    first = np.flatnonzero(np.r_[True, np.diff(at_ns) > 2 * BEAT_NS])[::2]
    is_lost = np.zeros(len(at_ns), bool)
    for place in first + 2:
        at_ns[place] += int(late_beats * BEAT_NS)
        if late_beats > 1:  # takes what the next one had
            records[place] += records[place + 1]
            is_lost[place + 1] = True
    kept = Seen(*(each[~is_lost] for each in (records, seen.since_ns, at_ns, seen.is_flush)))
    found = find_bursts({0: kept}, {0: 0}, BEAT_NS)
    assert found is not None
    assert found.on_ns == pytest.approx(100 * MS, rel=0.05)
    assert int(found.beats[0].burst[-1]) + 1 == BURSTS


def test_channels_of_a_producer_share_its_bursts() -> None:
    """Of a channel with few records alone no burst would show."""
    came_ns = instants(50, 60)
    seen = {at: flushed(came_ns[at::30]) for at in range(30)}
    assert find_bursts({0: seen[0]}, {0: 0}, BEAT_NS) is None
    found = find_bursts(seen, dict.fromkeys(seen, 0), BEAT_NS)
    assert found is not None
    within = found.within(seen)
    first_ns = min(int(each.since_ns[0]) for each in within.values())
    assert first_ns == pytest.approx(0, abs=3 * MS)


def test_other_load_has_no_bursts() -> None:
    random = np.random.default_rng(1)
    poisson_ns = np.cumsum(random.exponential(2 * MS, 5_000)).astype(np.int64)
    few_ns = np.cumsum(random.exponential(30 * MS, 500)).astype(np.int64)
    for came_ns in (poisson_ns, few_ns, np.arange(0, 5_000) * 3 * MS):
        assert find_bursts({0: flushed(came_ns)}, {0: 0}, BEAT_NS) is None
    assert find_bursts({0: flushed(instants(50, 60))}, {0: 0}, None) is None
    assert find_bursts({}, {}, BEAT_NS) is None


def test_what_was_held_back_stays_as_it_is() -> None:
    seen = flushed(instants(50, 60))
    held = Seen(seen.records, np.r_[0, seen.at_ns[:-1]], seen.at_ns, seen.is_flush)
    found = find_bursts({0: held}, {0: 0}, BEAT_NS)
    assert found is not None
    is_held = held.at_ns - held.since_ns > 2 * BEAT_NS
    within = found.within({0: held})[0]
    assert is_held.any()
    assert (within.since_ns[is_held] == held.since_ns[is_held]).all()


def test_a_producer_that_sends_full_buffers_alone_keeps_its_instants() -> None:
    beats = flushed(instants(50, 60))
    full = replace(beats, is_flush=np.zeros(len(beats.at_ns), bool))
    found = find_bursts({0: beats, 1: full}, {0: 0, 1: 1}, BEAT_NS)
    assert found is not None
    assert found.within({0: beats, 1: full})[1] is full
