"""How long barriers kept channels blocked."""

from __future__ import annotations

import numpy as np
import pytest

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.replay.observe.blocking import BLOCKED
from flinknet.replay.spark.units import WorkUnit
from flinknet.trace import TraceFile
from flinknet.trace.event_block import EventBlock

TAP = WorkUnit(0, TraceFile(""), [], 0, 100, counted_at=TracePoint.SENT)
NAMES = ("channel", "kind", "point", "order", "at_ns", "data_type")


@pytest.mark.parametrize(
    ("has_resumed", "blocks", "on_ns"), [(True, 1, [10]), (False, 1, [15]), (False, 2, [0, 0])]
)
def test_a_channel_that_sends_is_blocked_no_longer(
    has_resumed: bool, blocks: int, on_ns: list[int]
) -> None:
    sent = 0, int(MessageKind.BUFFER_RESPONSE), int(TracePoint.SENT)
    resumed = 0, int(MessageKind.RESUME_CONSUMPTION), int(TracePoint.RECEIVED)
    data, barrier = int(DataType.DATA_BUFFER), int(DataType.ALIGNED_CHECKPOINT_BARRIER)
    rows = [(*sent, 0, 5, data), (*sent, 1, 20, barrier), (*sent, 3, 35, data)]
    if has_resumed:
        rows.append((*resumed, 2, 30, data))
    parts = [rows] if blocks == 1 else [rows[:2], rows[2:]]
    made = [EventBlock(dict(zip(NAMES, np.array(each, np.int64).T, strict=True))) for each in parts]
    found = list(BLOCKED.question(TAP, iter(made)))
    assert [each["on_ns"][0] for each in found] == on_ns
    assert not found[-1]["ends_on"][0]
