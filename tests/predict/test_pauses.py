"""Pauses of a TaskManager show in its buffers, apart from gaps in the load and slow tasks."""

from __future__ import annotations

import numpy as np
import pytest

from flinknet.arrays import IntArray
from flinknet.core.probe import FlushReason
from flinknet.predict.fit.flusher import fit_pauses, flusher_late_ns, pauses_in_words
from flinknet.trace.event_block import EventColumns

MS = 1_000_000
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


def test_a_slow_task_holds_up_its_own_buffers_only(steady: EventColumns) -> None:
    assert not fit_pauses(
        without(steady, [0], 1_001 * MS, 1_410 * MS), resumed(), PROCESSES, BEAT_NS
    )


def test_load_that_goes_on_and_off_is_no_pause() -> None:
    at_ns = np.concatenate([start * 200 * MS + np.arange(3) * BEAT_NS for start in range(50)])
    assert not fit_pauses(beats(at_ns, np.full(150, 20)), resumed(), PROCESSES, BEAT_NS)


def test_bursts_with_long_silence_between_them_are_no_pauses() -> None:
    at_ns = np.arange(40) * 5_000 * MS
    assert not fit_pauses(beats(at_ns, np.full(40, 100)), resumed(), PROCESSES, BEAT_NS)


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
