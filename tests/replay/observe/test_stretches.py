"""Time of channels without credit, behind barriers, and without an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.replay.observe.question import Question
from flinknet.replay.observe.stretches import (
    BLOCKED,
    LONG_NS,
    UNANSWERED,
    WITHOUT_CREDIT,
    _starved,
    _starved_in_disorder,
    closed,
)
from flinknet.replay.observe.units import Unit
from flinknet.trace.event_block import EventBlock

MS = 1_000_000
UNIT = Unit(0, 0, [], 5, 30)
TAP = Unit(0, 0, [], 0, 10_000 * MS, counted_at=TracePoint.SENT)

SENT = (int(MessageKind.BUFFER_RESPONSE), int(TracePoint.SENT))
CREDITED = (int(MessageKind.ADD_CREDIT), int(TracePoint.RECEIVED))
CONSUMED = (int(MessageKind.BUFFER_RESPONSE), int(TracePoint.CONSUMED))


@st.composite
def blocks(draw: st.DrawFn) -> EventBlock:
    """Some events in the order of recording, then sorted as a block is."""
    step = st.integers(-1 if draw(st.booleans()) else 0, 3)
    kind = st.sampled_from((SENT, CREDITED, CONSUMED))
    drawn = st.tuples(step, st.integers(-1, 2), kind, st.integers(-1, 2), st.integers(0, 1))
    rows, at_ns = [], 0
    for order, (later_ns, channel, (number, point), credit, backlog) in enumerate(
        draw(st.lists(drawn, min_size=1, max_size=30))
    ):
        at_ns += later_ns
        rows.append((channel, number, point, order, at_ns, credit, backlog))
    columns = np.array(sorted(rows), np.int64).T
    names = ("channel", "kind", "point", "order", "at_ns", "credit_after", "backlog_buffers")
    return EventBlock(dict(zip(names, columns, strict=True)))


def rows_of(answers: Iterator[dict[str, Any]]) -> list[tuple[int, ...]]:
    return [
        row
        for answer in answers
        for row in zip(
            *(np.asarray(each).astype(int).tolist() for each in answer.values()), strict=True
        )
    ]


@given(blocks())
@settings(max_examples=200, deadline=None)
def test_both_ways_agree(block: EventBlock) -> None:
    compiled = rows_of(iter(_starved(UNIT, iter((block,)))))
    assert compiled == rows_of(iter(_starved_in_disorder(UNIT, block)))


def test_data_whose_credit_is_unknown_waits_for_none() -> None:
    names = ("channel", "kind", "point", "order", "at_ns", "credit_after", "backlog_buffers")
    rows = [(0, *SENT, 0, 10, 0, 1), (0, *SENT, 1, 14, -1, 1), (0, *SENT, 2, 20, -1, 1)]
    block = EventBlock(dict(zip(names, np.array(rows, np.int64).T, strict=True)))
    starved = closed(pa.table(next(_starved(UNIT, iter((block,))))))
    assert starved["ns"].to_pylist() == [4]


def answers(question: Question, *blocks: EventBlock) -> list[dict[str, Any]]:
    """The answers of the unit to a question about blocks that a tap recorded."""
    assert question.ask is not None
    return [dict(each) for each in question.ask(TAP, iter(blocks))]


def unanswered_ns(*events: tuple[int, int]) -> dict[int, int]:
    """Time of each channel; events are instants in ms, < 0 for those of credit, and channels."""
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
    (found,) = answers(UNANSWERED, block)
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
    (found,) = answers(WITHOUT_CREDIT, block)
    assert np.asarray(found["on_ns"]).tolist() == [5 * MS]


_NAMES = ("channel", "kind", "point", "order", "at_ns", "data_type")


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
    made = [
        EventBlock(dict(zip(_NAMES, np.array(each, np.int64).T, strict=True))) for each in parts
    ]
    found = answers(BLOCKED, *made)
    assert [each["on_ns"][0] for each in found] == on_ns
    assert not found[-1]["ends_on"][0]
