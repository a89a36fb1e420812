"""Declares questions to a trace: the rows of an answer, and how rows are merged.

Units of work answer a question with rows. Rows that have the same keys become one row: of the
blocks of a unit, of the units of a task, and in the end of all units. The summary of a run merges
the same rows once more, with fewer keys. All of it follows from the declaration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flinknet.arrays import EventColumns, IntArray
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.histogram import LogLinearHistogram
from flinknet.trace.event_block import EventBlock

from ..spark.frames import Columns, Merge, schema_of
from .channel_events import ChannelEvents
from .units import Group, Unit

AskBlock = Callable[..., Iterable[Columns]]
"""Function of a unit and a block that answers a question in an executor: columns of rows without
`run`, which is that of the unit. Must be importable by name."""

AskSlice = Callable[[Unit, Group, ChannelEvents], Iterable[tuple[str, Columns]]]
"""Function that answers one or several questions about a slice in an executor: rows with the name
of their question. It takes the events of the channels in the order of the group; rows of a channel
ascend by instant within each kind and point."""

EVERY = -1
"""Value of a key in rows that were merged over all values of this key."""

_COUNTED_SPAN_MAX = 1 << 18


class Tally:
    """Collects the answers about a unit; subclasses, where blocks depend on each other."""

    def __init__(self, ask: AskBlock, unit: Unit) -> None:
        self._ask = ask
        self._unit = unit
        self._answers: list[Columns] = []

    def take(self, block: EventBlock) -> None:
        self._answers += self._ask(self._unit, block)

    def answers(self) -> Iterable[Columns]:
        return self._answers


def of_blocks(ask: AskBlock, **parameters: Any) -> Callable[[Unit], Tally]:
    return partial(Tally, partial(ask, **parameters))


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a trace. `sums`, `maxima` and `minima` are columns that are merged in this way.
    Questions without `ask` have one row for each combination of keys."""

    name: str
    row: type  # dataclass of the rows of the table
    keys: tuple[str, ...] = ()  # columns that identify a row; without any, rows are not merged
    sums: tuple[str, ...] = ()
    maxima: tuple[str, ...] = ()
    minima: tuple[str, ...] = ()
    histograms: tuple[str, ...] = ()  # columns of encoded LogLinearHistograms, which are added up
    ask: Callable[[Unit], Tally] | None = None  # collects answers from the blocks of a unit
    ask_slice: AskSlice | None = None  # answers from the events of a whole slice
    part: type | None = None  # dataclass of the rows before `finish`; None: `row`
    by: str | None = "channel"  # column by which the table is cut into buckets; None: it is not cut
    finish: Merge | None = None  # makes the rows of the table from all merged rows of a bucket

    @property
    def answer(self) -> type:
        return self.part or self.row

    def combined(self, parts: Sequence[pa.Table]) -> pa.Table:
        """Merge answers of units; the result may be merged again."""
        if self.ask is None and len(parts) == 1:
            return parts[0]
        return self._merged(pa.concat_tables(parts))

    def merged(self, parts: Sequence[pa.Table]) -> pa.Table:
        """The rows of the table, from all answers of units."""
        found = self._merged(pa.concat_tables(parts))
        return found if self.finish is None else self.finish(found)

    def _merged(self, rows: pa.Table) -> pa.Table:
        return self.grouped(rows, self.keys) if self.keys else rows

    def over(self, rows: pa.Table, keys: Sequence[str]) -> pa.Table:
        """Merge rows of the table over all values of some keys, which are EVERY then."""
        found = self.grouped(rows, [key for key in self.keys if key not in keys])
        return found if self.finish is None else self.finish(found)

    def grouped(self, rows: pa.Table, keys: Sequence[str]) -> pa.Table:
        """One row for each combination of keys, sorted by them."""
        how = {"sum": self.sums, "max": self.maxima, "min": self.minima}
        asked = [(name, each) for each, names in how.items() for name in names]
        found = rows.group_by(list(keys), use_threads=False).aggregate(asked)
        names = {f"{name}_{each}": name for name, each in asked}
        found = found.rename_columns([names.get(each, each) for each in found.column_names])
        found = found.sort_by([(key, "ascending") for key in keys])
        columns = {name: found[name] for name in found.column_names}
        columns |= {name: _histograms(rows, keys, name) for name in self.histograms}
        columns |= {key: np.full(len(found), EVERY) for key in self.keys if key not in keys}
        schema = schema_of(self.answer)
        return pa.table({name: columns[name] for name in schema.names}, schema=schema)


def _histograms(rows: pa.Table, keys: Sequence[str], name: str) -> list[bytes]:
    """The histograms by the keys, added up and sorted; one is decoded at a time, in 45 KB."""
    if not len(rows):
        return []
    rows = rows.select([*keys, name]).sort_by([(key, "ascending") for key in keys])
    columns = (rows[name].to_numpy() for name in keys)
    changes = [np.r_[True, values[1:] != values[:-1]] for values in columns]
    starts = np.flatnonzero(np.logical_or.reduce(changes)).tolist()
    found, encoded = [], rows[name].to_pylist()
    for start, end in pairwise([*starts, len(encoded)]):
        own = encoded[start:end]
        found.append(own[0] if len(own) == 1 else LogLinearHistogram.from_bytes(*own).to_bytes())
    return found


@dataclass(frozen=True, slots=True)
class Summary:
    """Rows of the table of a question that the summary of a run needs; annotates their field."""

    question: str
    over: tuple[str, ...] = ()  # keys over whose values rows are merged; else rows are unchanged
    keep: Merge | None = None  # chooses rows of a bucket, before they are merged
    thin: Merge | None = None  # chooses rows of a run, in the end
    columns: tuple[str, ...] = ()  # kept ones, `inner.field` of a nested one as `field`; empty: all
    is_detail: bool = False  # whether it describes single channels, not all of them shown

    def of_bucket(self, question: Question, rows: pa.Table) -> pa.Table:
        """The rows that a bucket of the table contributes."""
        if self.keep is not None:
            rows = self.keep(rows)
        if self.over:
            rows = question.over(rows, self.over)
        if not self.columns:
            return rows
        found = {}
        for name in self.columns:
            outer, _, inner = name.partition(".")
            found[inner or outer] = pc.struct_field(rows[outer], inner) if inner else rows[outer]
        return pa.table(found)

    def of_run(self, question: Question, parts: Sequence[pa.Table]) -> pa.Table:
        rows = pa.concat_tables(parts)
        if question.by in self.over:
            rows = question.over(rows, self.over)
        return rows if self.thin is None else self.thin(rows)


def is_at(block: EventColumns, kind: MessageKind, point: TracePoint) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (block["kind"] == kind) & (block["point"] == point)
    return found


def is_measured(unit: Unit, at_ns: IntArray) -> npt.NDArray[np.bool_]:
    return (at_ns >= unit.from_ns) & (at_ns < unit.to_ns)


def group_rows(*keys: npt.NDArray[Any]) -> tuple[tuple[IntArray, ...], IntArray]:
    """Group rows. Returns: the distinct keys, as an array for each; the number of each row's
    group."""
    lows = [int(key.min()) if len(key) else 0 for key in keys]
    offsets = [key.astype(np.int64) - low for key, low in zip(keys, lows, strict=True)]
    spans = [int(each.max(initial=0)) + 1 for each in offsets]
    place = np.ravel_multi_index(offsets, spans)
    if math.prod(spans) > _COUNTED_SPAN_MAX:
        distinct, group = np.unique(place, return_inverse=True)
    else:  # counting groups a block of 65 536 rows in 0.4 ms, sorting in 4
        present = np.zeros(math.prod(spans), bool)
        present[place] = True
        distinct, group = np.flatnonzero(present), (np.cumsum(present) - 1)[place]
    values = zip(np.unravel_index(distinct, spans), lows, strict=True)
    return tuple(each + low for each, low in values), group


def sum_by_group(group: IntArray, values: npt.NDArray[Any], groups: int) -> IntArray:
    """Sum of the values of each group; exact up to 2**53."""
    return np.bincount(group, weights=values, minlength=groups).astype(np.int64)
