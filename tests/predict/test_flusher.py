"""The flusher in the rows of a tap: beats that come late now and then, which buffers that pass late
must not hide, and pauses of a TaskManager, apart from gaps in the load and slow tasks."""

from __future__ import annotations

import numpy as np
import pytest

from flinknet.arrays import EventColumns, IntArray
from flinknet.core.probe import FlushReason
from flinknet.predict.fit.flusher import (
    LateBeats,
    fit_late_beats,
    fit_pauses,
    flusher_late_ns,
    pauses_in_words,
    together,
)
from flinknet.predict.intervals import NOTHING, Intervals

MS, US = 1_000_000, 1_000
TIMEOUT_NS = 100 * MS
BEATS = 4_000


def flushed(late_ns: IntArray, jitter_ns: IntArray) -> EventColumns:
    """Buffers that a flusher sent, so late, and that pass so much later."""
    at_ns = np.cumsum(TIMEOUT_NS + late_ns) + jitter_ns
    return {
        "at_ns": at_ns,
        "channel": np.zeros(len(at_ns), np.int64),
        "reason": np.full(len(at_ns), FlushReason.FLUSH),
    }


def fitted(late_ns: IntArray, jitter_ns: IntArray, disturbed: Intervals = NOTHING) -> LateBeats:
    found = fit_late_beats(
        flushed(late_ns, jitter_ns), {0: 0}, TIMEOUT_NS, int(np.median(late_ns)), disturbed
    )
    assert found is not None
    return found


def some_late(share: float, late_ns: int) -> IntArray:
    """Most beats 100 us late, a share of them by more."""
    every = round(1 / share)
    return np.where(np.arange(BEATS) % every == 0, late_ns, 100 * US)


def some_jitter() -> IntArray:
    return np.where(np.arange(BEATS) % 7 == 3, 2 * MS, 0)


@pytest.mark.parametrize("jitter_ns", [np.zeros(BEATS, np.int64), some_jitter()])
def test_late_beats_show_though_buffers_pass_late(jitter_ns: IntArray) -> None:
    found = fitted(some_late(0.1, 3_100 * US), jitter_ns)
    assert found.mean_ns(TIMEOUT_NS) == pytest.approx(300 * US, rel=0.1)
    assert np.quantile(found.beyond_ns, [0.5, 0.85]).tolist() == [0, 0]
    assert np.quantile(found.beyond_ns, 0.95) == pytest.approx(3 * MS, rel=0.1)


def test_beats_count_that_are_late_by_up_to_half_a_timeout() -> None:
    found = fitted(some_late(0.1, 35_100 * US), some_jitter())
    assert found.mean_ns(TIMEOUT_NS) == pytest.approx(3_500 * US, rel=0.1)
    assert fitted(some_late(0.1, 60_000 * US), some_jitter()).mean_ns(TIMEOUT_NS) == 0


def test_buffers_that_pass_late_alone_are_no_late_beats() -> None:
    assert fitted(np.full(BEATS, 100 * US), some_jitter()).mean_ns(TIMEOUT_NS) == 0


def test_what_is_much_longer_than_a_beat_delays_one_of_them() -> None:
    beats = LateBeats(np.array([0] * 9 + [30 * MS]))
    assert beats.mean_ns(100 * MS) == 3 * MS
    assert beats.mean_ns(5 * MS) == 500 * US


def waits_of(beats: LateBeats, usual_ns: int) -> IntArray:
    """What records wait for a flush in all, as single beats make it. One that is later than a usual
    beat takes the place of those that would have come meanwhile.
    """
    random = np.random.default_rng(7)
    often = np.minimum(usual_ns / np.maximum(beats.beyond_ns, 1), 1.0)
    lengths_ns = usual_ns + random.choice(beats.beyond_ns, 100_000, p=often / often.sum())
    ends_ns = np.cumsum(lengths_ns)
    came_ns = random.integers(0, ends_ns[-1], 200_000)
    return ends_ns[np.searchsorted(ends_ns, came_ns, side="right")] - came_ns


@pytest.mark.parametrize(
    ("timeout_ns", "late_ns", "one_in"),
    [
        (5 * MS, 3 * MS, 10),
        (MS, 3 * MS, 20),
        (MS, 10 * MS, 20),
        (500 * US, 3 * MS, 20),
        (5 * MS, 15 * MS, 50),
        (100 * MS, 3 * MS, 10),
    ],
)
def test_records_wait_as_single_beats_have_it(timeout_ns: int, late_ns: int, one_in: int) -> None:
    beats = LateBeats(np.array([0] * (one_in - 1) + [late_ns]))
    random = np.random.default_rng(8)
    mean_ns = timeout_ns + beats.mean_ns(timeout_ns)
    alike_ns = random.integers(0, mean_ns, 200_000)
    waits_ns = alike_ns + random.choice(beats.waits_ns(timeout_ns), 200_000)
    single_ns = waits_of(beats, timeout_ns)
    assert waits_ns.mean() == pytest.approx(single_ns.mean(), rel=0.01)
    assert np.quantile(waits_ns, [0.5, 0.9, 0.99]) == pytest.approx(
        np.quantile(single_ns, [0.5, 0.9, 0.99]), rel=0.06
    )


def test_beats_while_something_disturbs_do_not_count() -> None:
    late_ns = np.where(np.arange(BEATS) < BEATS // 4, 3_100 * US, 100 * US)
    quiet_from_ns = int(np.cumsum(TIMEOUT_NS + late_ns)[BEATS // 4])
    jitter_ns = np.zeros(BEATS, np.int64)
    disturbed = Intervals(np.array([0]), np.array([quiet_from_ns]))
    assert fitted(late_ns, jitter_ns).mean_ns(TIMEOUT_NS) > 500 * US
    assert fitted(late_ns, jitter_ns, disturbed).mean_ns(TIMEOUT_NS) == 0


def test_a_producer_whose_buffers_were_all_full_says_nothing() -> None:
    rows = flushed(np.full(BEATS, 100 * US), np.zeros(BEATS, np.int64))
    rows["channel"] = np.arange(BEATS) % 2
    rows["reason"] = np.where(rows["channel"] == 1, FlushReason.FULL, rows["reason"])
    assert fit_late_beats(rows, {0: 0, 1: 1}, 2 * TIMEOUT_NS, 0) is not None
    rows["reason"][:] = FlushReason.FULL
    assert fit_late_beats(rows, {0: 0, 1: 1}, TIMEOUT_NS, 0) is None


def test_of_few_beats_nothing_is_said() -> None:
    few = {name: column[:40] for name, column in flushed(*[np.zeros(BEATS, np.int64)] * 2).items()}
    assert fit_late_beats(few, {0: 0}, TIMEOUT_NS, 0) is None
    assert fit_late_beats(few, {0: 0}, 0, 0) is None


def test_exchanges_of_a_job_have_the_same_beats() -> None:
    one, other = (LateBeats(np.full(500, each)) for each in (0, MS))
    both = together([one, None, other])
    assert both is not None
    assert both.mean_ns(TIMEOUT_NS) == pytest.approx(MS / 2, rel=0.01)
    assert together([None]) is None


BEAT_NS = 20 * MS
PROCESSES = {0: "tm-0", 1: "tm-0", 2: "tm-1"}
"""Of three producers with a channel each."""


def beats(at_ns: IntArray, records: IntArray) -> EventColumns:
    """Buffers of each channel at these instants."""
    channel = np.repeat([0, 1, 2], len(at_ns))
    return {
        "at_ns": np.tile(at_ns, 3),
        "channel": channel,
        "records": np.tile(records, 3),
        "credit_after": np.full(3 * len(at_ns), 2),
        "backlog_buffers": np.zeros(3 * len(at_ns), np.int64),
    }


def resumed(*at_ns: int, channel: int = 0) -> EventColumns:
    """ResumeConsumptions of a channel."""
    return {"at_ns": np.array(at_ns, np.int64), "channel": np.full(len(at_ns), channel)}


def without(sent: EventColumns, channels: list[int], from_ns: int, to_ns: int) -> EventColumns:
    """The buffers, with those of some channels in a time all at its end."""
    is_held = np.isin(sent["channel"], channels)
    is_held &= (sent["at_ns"] >= from_ns) & (sent["at_ns"] < to_ns)
    return {**sent, "at_ns": np.where(is_held, to_ns, sent["at_ns"])}


@pytest.fixture
def steady() -> EventColumns:
    at_ns = np.arange(500) * BEAT_NS
    return beats(at_ns, 4 + np.arange(500) % 3)


def test_a_process_whose_producers_all_send_late_what_came_meanwhile_had_stood_still(
    steady: EventColumns,
) -> None:
    sent = without(steady, [0, 1], 1_001 * MS, 1_410 * MS)
    found = fit_pauses(sent, resumed(), PROCESSES, BEAT_NS)
    assert [*found] == ["tm-0"]
    assert found["tm-0"].starts_ns.tolist() == [1_000 * MS]
    assert found["tm-0"].ends_ns.tolist() == [1_410 * MS]
    assert pauses_in_words(found.values(), BEAT_NS).startswith(
        "TaskManagers stood still 1 time, for 410 ms"
    )


@pytest.mark.parametrize(
    "at_ns",
    [
        pytest.param(
            (np.arange(50)[:, None] * 200 * MS + np.arange(3) * BEAT_NS).ravel(),
            id="load that goes on and off",
        ),
        pytest.param(np.arange(40) * 5_000 * MS, id="bursts with long silence between them"),
    ],
)
def test_gaps_in_the_load_are_no_pauses(at_ns: IntArray) -> None:
    assert not fit_pauses(beats(at_ns, np.full(len(at_ns), 60)), resumed(), PROCESSES, BEAT_NS)


def test_a_task_that_is_slow_holds_up_its_own_buffers_only(steady: EventColumns) -> None:
    sent = without(steady, [0], 1_001 * MS, 1_410 * MS)
    assert not fit_pauses(sent, resumed(), PROCESSES, BEAT_NS)


def test_flushes_that_are_nearly_whole_beats_apart_are_not_late() -> None:
    jitter_ns = np.random.default_rng(7).integers(-50_000, 50_000, 400)
    at_ns = np.arange(400) * 2 * BEAT_NS + jitter_ns
    sent = beats(at_ns, np.full(400, 4)) | {"reason": np.full(1200, FlushReason.FLUSH)}
    assert flusher_late_ns(sent, {0: 0, 1: 1, 2: 2}, BEAT_NS).max() < MS


def test_waiting_for_credit_or_behind_a_barrier_is_no_pause(steady: EventColumns) -> None:
    sent = without(steady, [0, 1], 1_001 * MS, 1_410 * MS)
    is_last = (sent["channel"] == 0) & (sent["at_ns"] == 1_000 * MS)
    starved = {
        **sent,
        "credit_after": np.where(is_last, 0, sent["credit_after"]),
        "backlog_buffers": np.where(is_last, 1, sent["backlog_buffers"]),
    }
    assert not fit_pauses(starved, resumed(), PROCESSES, BEAT_NS)
    assert not fit_pauses(sent, resumed(1_409 * MS), PROCESSES, BEAT_NS)
    assert fit_pauses(sent, resumed(1_409 * MS, channel=2), PROCESSES, BEAT_NS)


def test_what_a_recording_without_a_pause_leaves_open_is_said() -> None:
    assert pauses_in_words([], BEAT_NS) == (
        "pauses of TaskManagers that are shorter than some 60.0 ms do not show in the recording"
    )
    assert "no beat" in pauses_in_words([], 0)
