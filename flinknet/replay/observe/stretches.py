"""How long channels were in a state that messages switch on and off.

The states are asked of traces recorded between processes; of runs that recorded themselves,
`regimes` answers for STARVED, and has regimes instead of the others. Between processes a consumer
with spare floating buffers returns credit as it receives, so a long wait for credit shows that its
TaskManager stood still, or that its tasks had taken all buffers. Whether data waited for the credit
does not show, because a producer announces its backlog as it sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flinknet.arrays import IntArray
from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.trace.blocks import IS_DATA
from flinknet.trace.event_block import EventBlock

from ..spark.frames import Columns
from .question import Question, Tally, is_at
from .units import Unit

STARVED = 0
"""The producer had buffers queued for the channel and no credit. Between processes a lower bound:
it begins when a buffer leaves with the last credit and announces a backlog; a backlog that grows
later does not show, because nothing is sent."""

BLOCKED = 1
"""A checkpoint barrier had left, and the consumer had not resumed the channel, nor the producer
sent: then the resume was missed, because a blocked channel sends nothing."""

UNANSWERED = 2
"""No credit had come back since a data buffer left."""

WITHOUT_CREDIT = 3
"""The producer had used up its credit."""

LONG_NS = 100_000_000
"""Shortest wait for any credit that counts as unanswered."""

IS_BLOCKING_BY_TYPE = np.isin(np.arange(1 << 8), list(IS_BLOCKING_UPSTREAM))


@dataclass(frozen=True, slots=True)
class Stretch:
    """Time in which a channel was in a state within consecutive blocks."""

    run: int
    channel: int
    state: int
    window_to_ns: int
    begun_ns: int  # instant of the first event
    on_ns: int  # time in the state within the measured window
    first_ns: int  # instant of the first event, clipped to the window
    last_ns: int  # instant of the last event, clipped to the window
    ends_on: bool  # whether the state goes on after the last event


@dataclass(frozen=True, slots=True)
class ChannelTime:
    """Time in the measured window in which a channel was in a state."""

    run: int
    channel: int
    state: int
    ns: int


class _Joined(Tally):
    """Stretches of a unit: one for each channel and state."""

    def answers(self) -> Iterable[Columns]:
        return [_joined(self._answers)] if self._answers else []


def _joined(parts: Sequence[Columns], least_ns: int = 0) -> Columns:
    """One row for each channel and state; gaps are closed, and count from `least_ns` on."""
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort(tuple(rows[name] for name in ("last_ns", "begun_ns", "channel", "state")))
    rows = {name: values[order] for name, values in rows.items()}
    is_new = (np.diff(rows["channel"]) != 0) | (np.diff(rows["state"]) != 0)
    starts = np.flatnonzero(np.r_[len(order) > 0, is_new])
    ends = np.r_[starts[1:], len(order)][: len(starts)] - 1
    gap_ns = np.r_[rows["first_ns"][1:], 0][: len(order)] - rows["last_ns"]
    gap_ns[ends] = 0
    is_on = rows["ends_on"] & (gap_ns >= least_ns) if least_ns else rows["ends_on"]
    whole_ns = np.add.reduceat(rows["on_ns"] + np.where(is_on, gap_ns, 0), starts)
    of_last = {name: rows[name][ends] for name in ("last_ns", "ends_on")}
    return {name: each[starts] for name, each in rows.items()} | {"on_ns": whole_ns} | of_last


def closed(parts: pa.Table) -> pa.Table:
    """ChannelTimes of the Stretches of a run: the gaps between blocks are closed."""
    rows = pa.table(_joined([{name: parts[name].to_numpy() for name in parts.column_names}]))
    rest_ns = pc.subtract(rows["window_to_ns"], rows["last_ns"])
    whole_ns = pc.add(rows["on_ns"], pc.if_else(rows["ends_on"], rest_ns, 0))
    return rows.select(["run", "channel", "state"]).append_column("ns", whole_ns)


def _states(unit: Unit, block: EventBlock) -> Iterator[Columns]:
    if unit.counted_at != TracePoint.SENT:
        return
    is_sent = is_at(block, MessageKind.BUFFER_RESPONSE, TracePoint.SENT)
    is_credit = is_at(block, MessageKind.ADD_CREDIT, TracePoint.RECEIVED)
    is_resumed = is_at(block, MessageKind.RESUME_CONSUMPTION, TracePoint.RECEIVED)
    rows = np.flatnonzero((is_sent | is_credit | is_resumed) & (block["channel"] >= 0))
    rows = rows[np.lexsort([block[name].take(rows) for name in ("order", "at_ns", "channel")])]
    sent, credited, resumed = (each.take(rows) for each in (is_sent, is_credit, is_resumed))
    data_type = block["data_type"].take(rows)
    is_data = sent & IS_DATA[data_type]
    is_last = block["credit_after"].take(rows) == 0
    is_queued = block["backlog_buffers"].take(rows) > 0
    channel, at_ns = block["channel"].take(rows).astype(np.int64), block["at_ns"].take(rows)
    for state, switches, is_on, least_ns in (
        (STARVED, sent | credited, sent & is_last & is_queued, 0),
        (BLOCKED, sent | resumed, sent & IS_BLOCKING_BY_TYPE[data_type], 0),
        (UNANSWERED, is_data | credited, is_data, LONG_NS),
        (WITHOUT_CREDIT, is_data | credited, is_data & is_last, 0),
    ):
        if switches.any():
            own = channel[switches], at_ns[switches], is_on[switches]
            yield _stretches(unit, state, *own, least_ns)


def _stretches(
    unit: Unit,
    state: int,
    channel: IntArray,
    at_ns: IntArray,
    is_on: npt.NDArray[np.bool_],
    least_ns: int,
) -> Columns:
    """Columns of Stretch of one block, from the events that switch the state, at least one, in
    order. Stretches within the block count from `least_ns` on."""
    if least_ns:
        first = np.r_[True, (channel[1:] != channel[:-1]) | (is_on[1:] != is_on[:-1])]
        channel, at_ns, is_on = channel[first], at_ns[first], is_on[first]
    within_ns = np.clip(at_ns, unit.from_ns, unit.to_ns)
    events = {
        "channel": channel,
        "state": np.full(len(channel), state),
        "window_to_ns": np.full(len(channel), unit.to_ns),
        "begun_ns": at_ns,
        "on_ns": np.zeros(len(channel), np.int64),
        "first_ns": within_ns,
        "last_ns": within_ns,
        "ends_on": is_on,
    }
    return _joined([events], least_ns)


CHANNEL_TIMES = Question(
    "channel_times", ChannelTime, ask=partial(_Joined, _states), part=Stretch, finish=closed
)
