"""How long buffers waited for any credit."""

from __future__ import annotations

import numpy as np

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.replay.observe.unanswered import LONG_NS, UNANSWERED, WITHOUT_CREDIT
from flinknet.replay.spark.units import WorkUnit
from flinknet.trace import TraceFile
from flinknet.trace.event_block import EventBlock

MS = 1_000_000
TAP = WorkUnit(0, TraceFile(""), [], 0, 10_000 * MS, counted_at=TracePoint.SENT)


def unanswered_ns(*events: tuple[int, int]) -> dict[int, int]:
    """Of each channel; events are instants in ms, < 0 for those of credit, and channels."""
    rows = sorted(
        (
            channel,
            int(MessageKind.ADD_CREDIT if at_ms < 0 else MessageKind.BUFFER_RESPONSE),
            int(TracePoint.RECEIVED if at_ms < 0 else TracePoint.SENT),
            order,
            abs(at_ms) * MS,
            int(DataType.DATA_BUFFER),
        )
        for order, (at_ms, channel) in enumerate(events)
    )
    names = ("channel", "kind", "point", "order", "at_ns", "data_type")
    block = EventBlock(dict(zip(names, np.array(rows, np.int64).T, strict=True)))
    (found,) = UNANSWERED.question(TAP, iter((block,)))
    on_ns = np.asarray(found["on_ns"]).tolist()
    return dict(zip(np.asarray(found["channel"]).tolist(), on_ns, strict=True))


def test_only_long_waits_count_and_from_their_first_buffer() -> None:
    long_ms = LONG_NS // MS
    found = unanswered_ns(
        *((1, 0), (-3, 0), (5, 0), (40, 0), (-4 * long_ms, 0)),
        *((1, 1), (-long_ms, 1), (2 * long_ms, 1), (-2 * long_ms - 2, 1)),
    )
    assert found == {0: (4 * long_ms - 5) * MS, 1: 0}


def test_a_channel_is_without_credit_from_its_last_one_to_the_next() -> None:
    sent, added = int(MessageKind.BUFFER_RESPONSE), int(MessageKind.ADD_CREDIT)
    rows = np.array(
        [
            (0, sent, int(TracePoint.SENT), 0, 1 * MS, int(DataType.DATA_BUFFER), 1),
            (0, sent, int(TracePoint.SENT), 1, 2 * MS, int(DataType.DATA_BUFFER), 0),
            (0, added, int(TracePoint.RECEIVED), 2, 7 * MS, int(DataType.DATA_BUFFER), 1),
            (0, sent, int(TracePoint.SENT), 3, 9 * MS, int(DataType.DATA_BUFFER), 1),
        ],
        np.int64,
    )
    names = ("channel", "kind", "point", "order", "at_ns", "data_type", "credit_after")
    block = EventBlock(dict(zip(names, rows.T, strict=True)))
    (found,) = WITHOUT_CREDIT.question(TAP, iter((block,)))
    assert np.asarray(found["on_ns"]).tolist() == [5 * MS]
