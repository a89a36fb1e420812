"""Notes of predictions about their buffer timeouts."""

from __future__ import annotations

from flinknet.config import NetworkConfig
from flinknet.options.what_if import Setting, columns_of
from flinknet.replay.predictions import NOT_WHOLE_MS, AskedSetting, Prediction, point_of
from flinknet.replay.simulations import with_notes

US = 1_000


def notes_of(*timeouts_ns: int, recorded_ns: int) -> list[tuple[str, ...]]:
    """The notes of each timeout."""
    recorded = Setting(NetworkConfig(buffer_timeout_ns=recorded_ns))
    found = []
    for timeout_ns in timeouts_ns:
        setting = Setting(NetworkConfig(buffer_timeout_ns=timeout_ns))
        point = point_of(setting, is_recorded=setting == recorded)
        asked = AskedSetting(**columns_of(setting))
        row = Prediction(run=0, candidate=0, setting=asked, point=point, window_to_ns=0)
        found.append(with_notes(row, recorded, None).point.notes)
    return found


def test_a_timeout_that_flink_does_not_accept_says_why_it_is_not_advised() -> None:
    found = notes_of(0, 500 * US, 1500 * US, 2000 * US, -1, recorded_ns=0)
    assert [NOT_WHOLE_MS in notes for notes in found] == [False, True, True, False, False]
    assert notes_of(500 * US, recorded_ns=500 * US) == [()]
