"""Credit-starved time of a block: the compiled way and the one for disorder tell the same; it ends
where credit is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from flinknet.core.probe import MessageKind, TracePoint
from flinknet.replay.observe.credit import _starved_in_disorder, _starved_within, merge_starved
from flinknet.replay.spark.units import WorkUnit
from flinknet.trace import TraceFile
from flinknet.trace.event_block import EventBlock

UNIT = WorkUnit(0, TraceFile(""), [], 5, 30)

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
def test_both_ways_tell_the_same(block: EventBlock) -> None:
    compiled = rows_of(iter(_starved_within(UNIT, iter((block,)))))
    assert compiled == rows_of(iter(_starved_in_disorder(UNIT, block)))


def test_data_whose_credit_is_unknown_waits_for_none() -> None:
    names = ("channel", "kind", "point", "order", "at_ns", "credit_after", "backlog_buffers")
    rows = [(0, *SENT, 0, 10, 0, 1), (0, *SENT, 1, 14, -1, 1), (0, *SENT, 2, 20, -1, 1)]
    block = EventBlock(dict(zip(names, np.array(rows, np.int64).T, strict=True)))
    starved = merge_starved(pa.table(next(_starved_within(UNIT, iter((block,))))))
    assert starved["starved_ns"].to_pylist() == [4]
