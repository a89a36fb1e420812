"""Time of channels without credit, behind barriers, and without an answer, between processes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.replay.observe import stretches
from flinknet.replay.observe.question import Question
from flinknet.replay.observe.units import Unit
from flinknet.replay.spark.frames import record_batches, schema_of
from flinknet.trace.event_block import EventBlock

MS = 1_000_000
TAP = Unit(0, 0, [], 0, 10_000 * MS, counted_at=TracePoint.SENT)

SENT = int(MessageKind.BUFFER_RESPONSE), int(TracePoint.SENT)
CREDITED = int(MessageKind.ADD_CREDIT), int(TracePoint.RECEIVED)
RESUMED = int(MessageKind.RESUME_CONSUMPTION), int(TracePoint.RECEIVED)
DATA, BARRIER = int(DataType.DATA_BUFFER), int(DataType.ALIGNED_CHECKPOINT_BARRIER)

Event = tuple[int, int, tuple[int, int], int, int, int]
"""Instant in ms, channel, kind and point, data type, credit and backlog behind it."""


def event(
    at_ms: int,
    what: tuple[int, int] = SENT,
    *,
    channel: int = 0,
    data_type: int = DATA,
    credit: int = 1,
    backlog: int = 0,
) -> Event:
    return at_ms, channel, what, data_type, credit, backlog


def times_of(state: int, *blocks: list[Event]) -> dict[int, int]:
    """Time of channels in a state, in ms; events of a block are in the order of recording."""
    question: Question = stretches.CHANNEL_TIMES
    tally = question.ask(TAP)
    for events in blocks:
        rows = sorted(
            (channel, *what, order, at_ms * MS, *rest)
            for order, (at_ms, channel, what, *rest) in enumerate(events)
        )
        names = ("channel", "kind", "point", "order", "at_ns", "data_type", "credit_after")
        columns = np.array(rows, np.int64).T
        tally.take(EventBlock(dict(zip((*names, "backlog_buffers"), columns, strict=True))))
    schema = schema_of(question.answer)
    answers = ({"run": np.zeros(len(each["channel"]), int), **each} for each in tally.answers())
    batches = record_batches(answers, schema)
    found = question.merged([pa.Table.from_batches(batches)]).to_pylist()
    return {each["channel"]: each["ns"] // MS for each in found if each["state"] == state}


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_channel_starves_from_its_last_credit_to_the_next_message(blocks: int) -> None:
    """A credit that is unknown, as after a gap, is not known to lack; events of the same instant
    count in the order of recording."""
    events = [
        *(event(10, credit=0, backlog=1), event(14, credit=-1, backlog=1)),
        *(event(20, credit=0, backlog=1), event(25, CREDITED), event(25, credit=0, backlog=1)),
        *(event(31, CREDITED), event(32, credit=0, backlog=0), event(40)),
    ]
    cut = len(events) // blocks
    assert times_of(
        stretches.STARVED, *(events[n : n + cut] for n in range(0, len(events), cut))
    ) == {0: 15}


def test_only_long_waits_count_and_from_their_first_buffer() -> None:
    long_ms = stretches.LONG_NS // MS
    found = times_of(
        stretches.UNANSWERED,
        [
            *(event(1), event(3, CREDITED), event(5), event(40), event(4 * long_ms, CREDITED)),
            *(event(1, channel=1), event(long_ms, CREDITED, channel=1)),
            *(event(2 * long_ms, channel=1), event(2 * long_ms + 2, CREDITED, channel=1)),
        ],
    )
    assert found == {0: 4 * long_ms - 5, 1: 0}


def test_a_channel_is_without_credit_from_its_last_one_to_the_next() -> None:
    events = [event(1), event(2, credit=0), event(7, CREDITED), event(9)]
    assert times_of(stretches.WITHOUT_CREDIT, events) == {0: 5}


@pytest.mark.parametrize(("has_resumed", "blocks"), [(True, 1), (False, 1), (False, 2)])
def test_a_channel_that_sends_is_blocked_no_longer(has_resumed: bool, blocks: int) -> None:
    events = [event(5), event(20, data_type=BARRIER), event(35)]
    if has_resumed:
        events.insert(2, event(30, RESUMED))
    parts = [events] if blocks == 1 else [events[:2], events[2:]]
    assert times_of(stretches.BLOCKED, *parts) == {0: 10 if has_resumed else 15}
