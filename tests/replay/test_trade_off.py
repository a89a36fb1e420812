"""Outcomes of simulations as points of the trade-off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flinknet.config import NetworkConfig
from flinknet.options.what_if import Setting
from flinknet.replay.outcome import Candidate, Outcome
from flinknet.replay.trade_off import trade_off_points

US = 1_000


def notes_of(*timeouts_ns: int, recorded_ns: int) -> list[tuple[str, ...]]:
    """Of each timeout, the notes that its point gets."""
    run: Any = None
    recorded = Setting(NetworkConfig(buffer_timeout_ns=recorded_ns))
    candidates = [
        Candidate(
            run, number, replace(recorded, network=NetworkConfig(buffer_timeout_ns=timeout_ns)), 0
        )
        for number, timeout_ns in enumerate(timeouts_ns)
    ]
    outcomes = [
        Outcome(
            run=0,
            candidate=each.number,
            buffer_timeout_ns=each.setting.network.buffer_timeout_ns,
            exclusive_buffers=2,
            floating_buffers=8,
            segment_size_bytes=32_768,
            flow_control="credit",
            round_trip_ns=0,
            consumer_speed=1.0,
            rate_factor=1.0,
            window_to_ns=0,
        )
        for each in candidates
    ]
    return [point.notes for point in trade_off_points(candidates, outcomes, recorded)]


def test_a_timeout_that_flink_cannot_be_told_says_why_it_is_not_advised() -> None:
    why = "not advised: Flink's buffer timeout is in whole milliseconds"
    found = notes_of(0, 500 * US, 1500 * US, 2000 * US, -1, recorded_ns=0)
    assert [why in notes for notes in found] == [False, True, True, False, False]
    assert notes_of(500 * US, recorded_ns=500 * US) == [()]
