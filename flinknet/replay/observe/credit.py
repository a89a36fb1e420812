"""Credit-starved time: how long a producer had buffers queued for a channel and no credit to send
them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flinknet.arrays import IntArray
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.trace.event_block import EventBlock, Spans

from ..spark.frames import Columns
from ..spark.units import Asked, Question, Tally, WorkUnit

_COLUMNS = (
    "at_ns",
    "channel",
    "point",
    "kind",
    "backlog_buffers",
    "credit_after",
    "order",
)
_LACKS_ORDER = -1


@dataclass(frozen=True, slots=True)
class SwitchedRow:
    """How long a channel was in a state within blocks that stand together, and how it starts and
    ends."""

    run: int
    channel: int
    window_to_ns: int
    begun_ns: int
    on_ns: int
    first_ns: int
    last_ns: int
    ends_on: bool


@dataclass(frozen=True, slots=True)
class StarvedRow:
    """Time within the measured window with backlog but no credit, observed at the producer.

    Starts when a buffer leaves with the last credit and announces a backlog, ends with the next
    AddCredit. A backlog that grows while there is no credit is not visible (nothing is sent then),
    so this is a lower bound.
    """

    run: int
    channel: int
    starved_ns: int


def merge_starved(parts: pa.Table) -> pa.Table:
    """StarvedRows from the answers to STARVED: the gaps between blocks are closed."""
    return merge_switched(parts, "starved_ns")


class JoinedSwitches(Tally):
    """Rows of SwitchedRow of the blocks of a unit: one for each channel of blocks that stand
    together."""

    def __init__(self, unit: WorkUnit, question: Question) -> None:
        super().__init__(unit, question)
        self._joined: list[Columns] = []

    def end_stretch(self) -> None:
        """Join the rows of blocks that stand together."""
        found, self._answers = self._answers, []
        if any(len(part["channel"]) for part in found):
            self._joined.append(_joined(found))

    def answers(self) -> Iterable[Columns]:
        """The rows of all blocks."""
        self.end_stretch()
        return self._joined


def _joined(parts: Sequence[Columns]) -> Columns:
    """One row of those of each channel, whose gaps are closed."""
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort((rows["last_ns"], rows["begun_ns"], rows["channel"]))
    rows = {name: values[order] for name, values in rows.items()}
    starts = np.flatnonzero(np.r_[True, np.diff(rows["channel"]) != 0])
    ends = np.r_[starts[1:], len(order)] - 1
    gap_ns = np.r_[
        np.where(rows["ends_on"][:-1], rows["first_ns"][1:] - rows["last_ns"][:-1], 0), 0
    ]
    gap_ns[ends] = 0
    return {
        "run": rows["run"][starts],
        "channel": rows["channel"][starts],
        "window_to_ns": rows["window_to_ns"][starts],
        "begun_ns": rows["begun_ns"][starts],
        "on_ns": np.add.reduceat(rows["on_ns"] + gap_ns, starts),
        "first_ns": rows["first_ns"][starts],
        "last_ns": rows["last_ns"][ends],
        "ends_on": rows["ends_on"][ends],
    }


def merge_switched(parts: pa.Table, name: str) -> pa.Table:
    """How long each channel was in a state; the gaps between blocks are closed.

    Args:
        parts: rows of SwitchedRow.
        name: of the column of that time.
    """
    keys = ("run", "channel", "begun_ns", "last_ns")
    rows = parts.sort_by([(name, "ascending") for name in keys])
    run, channel, first_ns, last_ns, to_ns = (
        rows[name].to_numpy() for name in ("run", "channel", "first_ns", "last_ns", "window_to_ns")
    )
    starts = np.flatnonzero(np.r_[True, (np.diff(run) != 0) | (np.diff(channel) != 0)])
    if not len(run):
        return rows.select(["run", "channel", "on_ns"]).rename_columns(["run", "channel", name])
    next_ns = np.r_[first_ns[1:], 0]
    ends = np.r_[starts[1:], len(run)] - 1
    next_ns[ends] = to_ns[ends]
    gap_ns = np.where(rows["ends_on"].to_numpy(), next_ns - last_ns, 0)
    on_ns = np.add.reduceat(rows["on_ns"].to_numpy() + gap_ns, starts)
    return pa.table({"run": run[starts], "channel": channel[starts], name: on_ns})


def _starved_within(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Columns]:
    from .sums_kernel import starve_all

    for block in blocks:
        sent = block.spans.of(MessageKind.BUFFER_RESPONSE, TracePoint.SENT)
        credited = block.spans.of(MessageKind.ADD_CREDIT, TracePoint.RECEIVED)
        channel = np.union1d(sent.channel, credited.channel)
        channel = channel[channel >= 0]
        if not len(channel):
            continue
        rows = np.concatenate([_rows_of(sent, channel), _rows_of(credited, channel)], axis=1)
        columns = (block["at_ns"], block["credit_after"], block["backlog_buffers"])
        window_ns = (unit.from_ns, unit.to_ns)
        lacks, found = starve_all(rows, *columns, np.zeros(0, np.int32), window_ns)
        if lacks == _LACKS_ORDER:
            lacks, found = starve_all(rows, *columns, block["order"], window_ns)
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
    """First row and the one after the last of each channel; 0 and 0 where there are none."""
    rows = np.zeros((len(channel), 2), np.int64)
    place = np.searchsorted(channel, spans.channel)
    is_wanted = spans.channel >= 0
    rows[place[is_wanted], 0] = spans.starts[is_wanted]
    rows[place[is_wanted], 1] = spans.ends[is_wanted]
    return rows


def _starved_in_disorder(unit: WorkUnit, block: EventBlock) -> Iterator[Columns]:
    """The same where instants go back from one row of a kind to the next."""
    is_sent = (block["kind"] == MessageKind.BUFFER_RESPONSE) & (block["point"] == TracePoint.SENT)
    is_credit = (block["kind"] == MessageKind.ADD_CREDIT) & (block["point"] == TracePoint.RECEIVED)
    kept = np.flatnonzero((is_sent | is_credit) & (block["channel"] >= 0))
    if not len(kept):
        return
    yield switched_within(
        unit, block, kept, is_sent & (block["credit_after"] == 0) & (block["backlog_buffers"] > 0)
    )


def switched_within(
    unit: WorkUnit,
    block: EventBlock,
    kept: IntArray,
    is_on: npt.NDArray[np.bool_],
    *,
    least_ns: int = 0,
) -> Columns:
    """How long each channel was in a state within a block, and how it starts and ends.

    Args:
        kept: rows that switch the state, at least one.
        is_on: of all rows, whether they switch it on.
        least_ns: shorter stretches within the block do not count.
    """
    rows = _by_instant(block, kept)
    if least_ns:
        rows = _switching(block, rows, is_on)
    channel = block["channel"].take(rows).astype(np.int64)
    begun_ns = block["at_ns"].take(rows)
    at_ns = np.clip(begun_ns, unit.from_ns, unit.to_ns)
    is_on = is_on.take(rows)
    starts = np.flatnonzero(np.r_[True, channel[1:] != channel[:-1]])
    ends = np.r_[starts[1:], len(channel)] - 1
    until_next_ns = np.r_[np.diff(at_ns), 0]
    until_next_ns[ends] = 0
    counts = is_on & (until_next_ns >= least_ns)
    return {
        "run": np.full(len(starts), unit.run),
        "channel": channel[starts],
        "window_to_ns": np.full(len(starts), unit.to_ns),
        "begun_ns": begun_ns[starts],
        "on_ns": np.add.reduceat(np.where(counts, until_next_ns, 0), starts),
        "first_ns": at_ns[starts],
        "last_ns": at_ns[ends],
        "ends_on": is_on[ends],
    }


def _switching(block: EventBlock, rows: IntArray, is_on: npt.NDArray[np.bool_]) -> IntArray:
    """Of rows by channel and instant those that do not only repeat the state before them."""
    channel, is_on = block["channel"].take(rows), is_on.take(rows)
    return rows[np.r_[True, (channel[1:] != channel[:-1]) | (is_on[1:] != is_on[:-1])]]


def _by_instant(block: EventBlock, rows: IntArray) -> IntArray:
    """Some rows by channel, instant and order of recording."""
    keys = (block[name].take(rows) for name in ("order", "at_ns", "channel"))
    return rows.take(np.lexsort(tuple(keys)))


STARVED = Asked(_starved_within, _COLUMNS, SwitchedRow, JoinedSwitches)
