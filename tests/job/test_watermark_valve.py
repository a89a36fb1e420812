"""The valve: the least watermark of the channels that count passes, whenever it rises."""

from __future__ import annotations

import pytest

from flinknet.core.wire.records import Watermark, WatermarkStatus
from flinknet.graph.watermarks import MAX_WATERMARK_MS, CombinedWatermark
from flinknet.job.event_time import Passed, StatusWatermarkValve

Step = tuple[int, int | str]
"""A channel and its watermark, or "idle", or "active"."""


def in_words(element: Passed) -> int | str:
    if isinstance(element, Watermark):
        return element.timestamp_ms
    return "idle" if element.status == WatermarkStatus.IDLE else "active"


@pytest.mark.parametrize(
    ("channels", "steps", "passed"),
    [
        pytest.param(1, [(0, 5), (0, 7)], [5, 7], id="one channel"),
        pytest.param(2, [(0, 5), (1, 3), (0, 9), (1, 4)], [3, 4], id="the least of two"),
        pytest.param(2, [(0, 5), (0, 2), (1, 9)], [5], id="one that falls is ignored"),
        pytest.param(2, [(0, MAX_WATERMARK_MS), (1, 3)], [3], id="an end does not hide the other"),
        pytest.param(2, [(0, 5), (1, "idle")], [5], id="who is idle does not count"),
        pytest.param(2, [(0, 5), (1, "idle"), (1, 9), (0, 6)], [5, 6], id="idle says nothing"),
        pytest.param(
            2,
            [(0, 5), (1, "idle"), (1, "active"), (1, 3), (0, 7), (1, 6), (0, 8)],
            [5, 7, 8],
            id="who was idle does not count before it has caught up",
        ),
        pytest.param(
            2,
            [(0, 5), (1, "idle"), (1, "active"), (1, 6), (0, 9), (1, 7)],
            [5, 6, 7],
            id="and does then",
        ),
        pytest.param(
            2,
            [(0, 5), (1, 3), (0, "idle"), (1, "idle"), (0, "active"), (0, 6)],
            [3, 5, "idle", "active", 6],
            id="all are idle: the greatest passes",
        ),
        pytest.param(1, [(0, "idle"), (0, 5), (0, "active")], ["idle", "active"], id="idle valve"),
        pytest.param(1, [(0, "active"), (0, "idle"), (0, "idle")], ["idle"], id="no change"),
    ],
)
def test_valve(channels: int, steps: list[Step], passed: list[int | str]) -> None:
    valve, found = StatusWatermarkValve(channels), list[Passed]()
    for channel, step in steps:
        if isinstance(step, str):
            found += valve.input_watermark_status(step == "idle", channel)
        else:
            found += valve.input_watermark(step, channel)
    assert [in_words(each) for each in found] == passed


def test_inputs_of_an_operator_are_combined() -> None:
    combined = CombinedWatermark(2)
    assert not combined.update_watermark(0, 7)
    assert combined.update_watermark(1, 4)
    assert combined.watermark_ms == 4
    assert combined.update_status(1, True)  # the first alone counts
    assert combined.watermark_ms == 7
    assert not combined.update_watermark(1, 5)  # which makes it active, and holds back
    assert not combined.is_idle
    assert not combined.update_watermark(0, 9)
    assert not combined.update_status(0, True)
    assert combined.update_status(1, True)  # all are idle: the greatest counts
    assert (combined.watermark_ms, combined.is_idle) == (9, True)
