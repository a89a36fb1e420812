"""How long channels were in a state that events switch on and off.

- credit_starved: the producer had buffers queued for the channel and no credit.
- blocked: a checkpoint barrier had left, and the consumer had not resumed the channel.
- unanswered: no credit had come back since a buffer left.
- without_credit: the producer had used up its credit.

The last three are asked of traces recorded between processes; runs that recorded themselves have
regimes instead. There a consumer with spare floating buffers returns credit as it receives, so a
long wait for credit shows that its TaskManager stood still, or that its tasks had taken all
buffers. Whether data waited for the credit does not show, because a producer announces its backlog
as it sends.
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
from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM, IS_BUFFER
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.trace.event_block import EventBlock, Spans

from ..spark.frames import Columns
from .question import Ask, Question, Tally, is_at
from .units import Unit

LONG_NS = 100_000_000
"""Shortest wait for any credit that counts as unanswered."""

_LACKS_ORDER = -1
_SENT = (MessageKind.BUFFER_RESPONSE, TracePoint.SENT)
_CREDITED = (MessageKind.ADD_CREDIT, TracePoint.RECEIVED)
_DATA = sorted(IS_BUFFER)
_BLOCKING = sorted(IS_BLOCKING_UPSTREAM)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Time in which a channel was in a state within consecutive blocks.

    Attributes:
        begun_ns: instant of the first event.
        on_ns: time in the state within the measured window.
        first_ns, last_ns: instants of the first and the last event, clipped to the window.
        ends_on: whether the state goes on after the last event.
    """

    run: int
    channel: int
    window_to_ns: int
    begun_ns: int
    on_ns: int
    first_ns: int
    last_ns: int
    ends_on: bool


@dataclass(frozen=True, slots=True)
class ChannelTime:
    """Time in the measured window in which a channel was in a state."""

    run: int
    channel: int
    ns: int


class _Joined(Tally):
    """Stretches of a unit: one for each channel of consecutive blocks."""

    def __init__(self, unit: Unit, ask: Ask) -> None:
        super().__init__(unit, ask)
        self._joined: list[Columns] = []

    def end_stretch(self) -> None:
        """Join the rows of consecutive blocks."""
        found, self._answers = self._answers, []
        if any(len(part["channel"]) for part in found):
            self._joined.append(_joined(found))

    def answers(self) -> Iterable[Columns]:
        """Columns of Stretch, of all blocks."""
        self.end_stretch()
        return self._joined


def _joined(parts: Sequence[Columns], least_ns: int = 0) -> Columns:
    """One row for each channel; the gaps between its rows are closed.

    Args:
        least_ns: shortest gap that counts.
    """
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort(tuple(rows[name] for name in ("last_ns", "begun_ns", "channel", "run")))
    rows = {name: values[order] for name, values in rows.items()}
    is_new = (np.diff(rows["channel"]) != 0) | (np.diff(rows["run"]) != 0)
    starts = np.flatnonzero(np.r_[len(order) > 0, is_new])
    ends = np.r_[starts[1:], len(order)][: len(starts)] - 1
    gap_ns = np.r_[rows["first_ns"][1:], 0][: len(order)] - rows["last_ns"]
    gap_ns[ends] = 0
    is_on = rows["ends_on"] & (gap_ns >= least_ns) if least_ns else rows["ends_on"]
    whole_ns = np.add.reduceat(rows["on_ns"] + np.where(is_on, gap_ns, 0), starts)
    of_last = {name: rows[name][ends] for name in ("last_ns", "ends_on")}
    return {name: each[starts] for name, each in rows.items()} | {"on_ns": whole_ns} | of_last


def closed(parts: pa.Table) -> pa.Table:
    """ChannelTimes of Stretches: the gaps between blocks are closed."""
    rows = pa.table(_joined([{name: parts[name].to_numpy() for name in parts.column_names}]))
    rest_ns = pc.subtract(rows["window_to_ns"], rows["last_ns"])
    whole_ns = pc.add(rows["on_ns"], pc.if_else(rows["ends_on"], rest_ns, 0))
    return rows.select(["run", "channel"]).append_column("ns", whole_ns)


def _starved(unit: Unit, blocks: Iterator[EventBlock]) -> Iterator[Columns]:
    from .kernels import starve

    for block in blocks:
        sent = block.spans.of(*_SENT)
        credited = block.spans.of(*_CREDITED)
        channel = np.union1d(sent.channel, credited.channel)
        channel = channel[channel >= 0]
        if not len(channel):
            continue
        rows = np.concatenate([_rows_of(sent, channel), _rows_of(credited, channel)], axis=1)
        columns = (block["at_ns"], block["credit_after"], block["backlog_buffers"])
        window_ns = (unit.from_ns, unit.to_ns)
        lacks, found = starve(rows, *columns, np.zeros(0, np.int32), window_ns)
        if lacks == _LACKS_ORDER:
            lacks, found = starve(rows, *columns, block["order"], window_ns)
        if lacks:
            yield from _starved_in_disorder(unit, block)
            continue
        has_rows = found[:, 0] > 0
        channel, found = channel[has_rows], found[has_rows]
        yield {
            "run": np.full(len(channel), unit.run),
            "channel": channel,
            "window_to_ns": np.full(len(channel), unit.to_ns),
            "begun_ns": found[:, 1],
            "on_ns": found[:, 2],
            "first_ns": found[:, 3],
            "last_ns": found[:, 4],
            "ends_on": found[:, 5] != 0,
        }


def _rows_of(spans: Spans, channel: IntArray) -> IntArray:
    """First row of each channel and the one after the last; 0 and 0 where there are none."""
    rows = np.zeros((len(channel), 2), np.int64)
    place = np.searchsorted(channel, spans.channel)
    is_wanted = spans.channel >= 0
    rows[place[is_wanted], 0] = spans.starts[is_wanted]
    rows[place[is_wanted], 1] = spans.ends[is_wanted]
    return rows


def _starved_in_disorder(unit: Unit, block: EventBlock) -> Iterator[Columns]:
    """As `_starved`, where instants go back from one row of a kind to the next."""
    is_sent, is_credit = is_at(block, *_SENT), is_at(block, *_CREDITED)
    kept = np.flatnonzero((is_sent | is_credit) & (block["channel"] >= 0))
    if not len(kept):
        return
    yield _stretches(
        unit, block, kept, is_sent & (block["credit_after"] == 0) & (block["backlog_buffers"] > 0)
    )


def _stretches(
    unit: Unit,
    block: EventBlock,
    kept: IntArray,
    is_on: npt.NDArray[np.bool_],
    *,
    least_ns: int = 0,
) -> Columns:
    """Columns of Stretch of one block.

    Args:
        kept: rows that switch the state, at least one.
        is_on: whether each row of the block switches it on.
        least_ns: shortest stretch within the block that counts.
    """
    keys = (block[name].take(kept) for name in ("order", "at_ns", "channel"))
    rows = kept.take(np.lexsort(tuple(keys)))
    if least_ns:
        channel, on = block["channel"].take(rows), is_on.take(rows)
        rows = rows[np.r_[True, (channel[1:] != channel[:-1]) | (on[1:] != on[:-1])]]
    begun_ns = block["at_ns"].take(rows)
    at_ns = np.clip(begun_ns, unit.from_ns, unit.to_ns)
    events = {
        "run": np.full(len(rows), unit.run),
        "channel": block["channel"].take(rows).astype(np.int64),
        "window_to_ns": np.full(len(rows), unit.to_ns),
        "begun_ns": begun_ns,
        "on_ns": np.zeros(len(rows), np.int64),
        "first_ns": at_ns,
        "last_ns": at_ns,
        "ends_on": is_on.take(rows),
    }
    return _joined([events], least_ns)


def _blocked(unit: Unit, blocks: Iterator[EventBlock]) -> Iterator[Columns]:
    """Time from blocking events until the consumer resumed the channel, or the producer sent: the
    resume was missed then, because a blocked channel sends nothing."""
    if unit.counted_at != TracePoint.SENT:
        return
    for block in blocks:
        is_known = block["channel"] >= 0
        is_blocking = is_at(block, *_SENT) & np.isin(block["data_type"], _BLOCKING)
        is_resumed = is_at(block, MessageKind.RESUME_CONSUMPTION, TracePoint.RECEIVED)
        switching = np.flatnonzero((is_blocking | is_resumed) & is_known)
        kept = np.union1d(switching, _going_on(block, is_blocking & is_known))
        if len(kept):
            yield _stretches(unit, block, kept, is_blocking)


def _going_on(block: EventBlock, is_blocking: npt.NDArray[np.bool_]) -> IntArray:
    """The first responses of each channel in a block, and those right after blocking ones."""
    sent = block.spans.of(*_SENT)
    after = np.flatnonzero(is_blocking) + 1
    found: IntArray = np.union1d(sent.starts[sent.channel >= 0], np.setdiff1d(after, sent.ends))
    return found


def _until_credit(
    unit: Unit, blocks: Iterator[EventBlock], *, is_exhausted: bool, least_ns: int = 0
) -> Iterator[Columns]:
    """Time from data buffers until the next credit.

    Args:
        is_exhausted: only from buffers that left no credit.
    """
    if unit.counted_at != TracePoint.SENT:
        return
    for block in blocks:
        is_sent = is_at(block, *_SENT) & np.isin(block["data_type"], _DATA)
        is_answer = is_at(block, *_CREDITED)
        kept = np.flatnonzero((is_sent | is_answer) & (block["channel"] >= 0))
        if len(kept):
            is_on = is_sent & (block["credit_after"] == 0) if is_exhausted else is_sent
            yield _stretches(unit, block, kept, is_on, least_ns=least_ns)


def _time_in(name: str, ask: Ask) -> Question:
    return Question(name, ChannelTime, ask=ask, tally=_Joined, part=Stretch, finish=closed)


STARVED = _time_in("credit_starved", _starved)
"""Lower bound of the time with a backlog and without credit: it starts when a buffer leaves with
the last credit and announces a backlog, and ends with the next AddCredit. A backlog that grows
meanwhile does not show, because nothing is sent."""

BLOCKED = _time_in("blocked", _blocked)
UNANSWERED = _time_in("unanswered", partial(_until_credit, is_exhausted=False, least_ns=LONG_NS))
WITHOUT_CREDIT = _time_in("without_credit", partial(_until_credit, is_exhausted=True))
