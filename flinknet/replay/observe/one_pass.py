"""All questions to recorded runs in one pass: a task reads its slice of time, each block once,
puts every question to it, and gives back what is small and adds up; one more task merges that.

A block belongs to the slice in which its middle lies: there what can be asked of each block alone
is asked. Regimes need the whole slice: what they look at is set aside, channel by channel, from
all blocks that lie in it or within its margins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flinknet.core.probe import MessageKind, TracePoint
from flinknet.storage import path_of
from flinknet.trace import TraceReader
from flinknet.trace.buffers import SortedEvents
from flinknet.trace.event_block import EventBlock, EventColumns, Spans, lazy_block

from ..read import RecordedRun
from ..spark.frames import (
    Columns,
    Merge,
    columns_of,
    map_units,
    mapped,
    merged,
    record_batches,
    rows_of,
    schema_of,
)
from ..spark.units import Asked, WorkUnit
from .time_slices import (
    TimeSlice,
    completed,
    time_slice_columns,
    time_slices_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SET_ASIDE: Mapping[tuple[int, int], tuple[str, ...]] = {
    (MessageKind.BUFFER_RESPONSE, TracePoint.SENT): (
        *("at_ns", "data_type", "reason", "sequence_number", "payload_bytes", "records"),
        *("first_record_ns", "backlog_buffers", "credit_after"),
    ),
    (MessageKind.BUFFER_RESPONSE, TracePoint.RECEIVED): ("at_ns", "data_type", "sequence_number"),
    (MessageKind.BUFFER_RESPONSE, TracePoint.CONSUMED): ("at_ns", "data_type", "sequence_number"),
    (MessageKind.ADD_CREDIT, TracePoint.RECEIVED): ("at_ns",),
    (MessageKind.RESUME_CONSUMPTION, TracePoint.RECEIVED): ("at_ns",),
    (MessageKind.BUFFER_RESPONSE, TracePoint.WRITER_WAITS): ("at_ns",),
    (MessageKind.BUFFER_RESPONSE, TracePoint.WRITER_RESUMES): ("at_ns",),
}
"""What regimes look at, by kind and point."""

_PLACED = frozenset(_SET_ASIDE) - {
    (MessageKind.BUFFER_RESPONSE, TracePoint.RECEIVED),
    (MessageKind.BUFFER_RESPONSE, TracePoint.CONSUMED),
}
"""Of which their order among all is needed."""


SliceQuestion = Callable[
    [TimeSlice, Mapping[int, EventColumns | SortedEvents]], Mapping[str, Iterable[Columns]]
]
"""As TimeSliceQuestion, with the rows of several tables by name."""


@dataclass(frozen=True, slots=True)
class PassUnit:
    """A slice of a run, and the blocks of each of its files that belong to it.

    Attributes:
        has_regimes: whether the slice is asked as a whole, too.
        own_channels: whose rows count; empty for all.
    """

    time_slice: TimeSlice
    blocks: list[list[int]]
    has_regimes: bool
    own_channels: list[int]
    counted_at: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table as an Arrow stream."""

    name: str
    rows: bytes


@dataclass(frozen=True, slots=True)
class InPass:
    """A question put to blocks as they are read, and how its answers become a table.

    Attributes:
        adds_up: what is merged may be merged again.
        row: dataclass of the rows of the table.
    """

    asked: Asked
    merge: Merge
    row: type
    adds_up: bool = True


@dataclass(frozen=True, slots=True)
class SliceTable:
    """How the answers about slices become a table.

    Attributes:
        row: dataclass of the rows, before and after they are merged.
    """

    merge: Merge
    row: type


@dataclass(frozen=True, slots=True)
class InTimeSlices:
    """A question put to whole slices, whose answers are several tables.

    Attributes:
        question: gives the rows of each table.
        columns: that it needs in addition to those of every slice.
    """

    question: SliceQuestion
    columns: tuple[str, ...]
    tables: Mapping[str, SliceTable]


def pass_units(runs: Sequence[RecordedRun], cores: int, split: int | None) -> list[PassUnit]:
    """All blocks of all runs, each in the unit of its slice.

    Args:
        split: slices of each run; None for as many as suit its size.
    """
    units = []
    for run in runs:
        own = [] if run.edge is None else [info.index for info in run.manifest.channels]
        parts = time_slices_of([run], cores, split)
        starts_ns = [part.from_ns for part in parts]
        places = []
        for file in run.files:
            with TraceReader(file) as reader:
                middles_ns = [(each.first_ns + each.last_ns) // 2 for each in reader.blocks()]
            place = np.searchsorted(starts_ns, middles_ns, side="right") - 1
            places.append(np.maximum(place, 0))
        has_regimes = not run.manifest.is_from_between
        for number, part in enumerate(parts):
            blocks = [np.flatnonzero(place == number).tolist() for place in places]
            units.append(PassUnit(part, blocks, has_regimes, own, run.counted_at, run.until_ns))
    return units


def tables_of(
    spark: SparkSession,
    units: Sequence[PassUnit],
    questions: Mapping[str, InPass],
    in_time_slices: InTimeSlices,
    summaries: Mapping[str, tuple[str, Merge]],
) -> DataFrame:
    """The tables of all questions, a row for each; small, and kept by Spark once computed.

    Args:
        summaries: further tables, each with the name of the one that it is made from.

    Returns: name, and rows as an Arrow stream, for `rows_in`.
    """
    answer, merge = _work_of(questions, in_time_slices, summaries)
    return merged(map_units(spark, units, answer, NamedTable), merge, NamedTable).cache()


def tables_here(
    units: Sequence[PassUnit],
    questions: Mapping[str, InPass],
    in_time_slices: InTimeSlices,
    summaries: Mapping[str, tuple[str, Merge]],
) -> list[NamedTable]:
    """The rows of `tables_of`, computed in this process: for runs that are not worth a session."""
    answer, merge = _work_of(questions, in_time_slices, summaries)
    schema = schema_of(NamedTable)
    parts = [pa.table(dict(each), schema=schema) for unit in units for each in answer(unit)]
    return rows_of(NamedTable, merge(pa.concat_tables(parts)))


def _work_of(
    questions: Mapping[str, InPass],
    in_time_slices: InTimeSlices,
    summaries: Mapping[str, tuple[str, Merge]],
) -> tuple[Callable[[PassUnit], Iterator[Columns]], Merge]:
    """What is done with each unit, and with the answers of all."""
    asked = {name: each.asked for name, each in questions.items()}
    kinds = {name: each.row for name, each in asked.items()}
    kinds |= {name: each.row for name, each in in_time_slices.tables.items()}
    merges = {name: each.merge for name, each in questions.items()}
    merges |= {name: each.merge for name, each in in_time_slices.tables.items()}
    adding = {name: each.merge for name, each in questions.items() if each.adds_up}

    def answer(unit: PassUnit) -> Iterator[Columns]:
        found = _answered(unit, asked, in_time_slices, kinds)
        found |= {name: merge(found[name]) for name, merge in adding.items()}
        yield _packed(found)

    def merge(packed: pa.Table) -> pa.Table:
        parts: dict[str, list[pa.Table]] = {name: [] for name in merges}
        for each in rows_of(NamedTable, packed):
            parts[each.name].append(rows_in(each.rows))
        found = {name: merges[name](pa.concat_tables(own)) for name, own in parts.items() if own}
        for name, (source, summary) in summaries.items():
            if source in found:
                found[name] = summary(found[source])
        return pa.table(dict(_packed(found)), schema=schema_of(NamedTable))

    return answer, merge


def named_table(tables: DataFrame, name: str, row: type) -> DataFrame:
    """One of the tables of `tables_of`."""
    return mapped(tables.where(tables["name"] == name), partial(_unpacked, row=row), row)


def _unpacked(batches: Iterator[pa.RecordBatch], *, row: type) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for data in batch["rows"]:
            yield from rows_in(data.as_py()).cast(schema_of(row)).to_batches()


def rows_in(data: bytes) -> pa.Table:
    """The table that `tables_of` has packed."""
    with pa.ipc.open_stream(data) as stream:
        return stream.read_all()


def _answered(
    unit: PassUnit,
    asked: Mapping[str, Asked],
    in_time_slices: InTimeSlices,
    kinds: Mapping[str, type],
) -> dict[str, pa.Table]:
    time_slice = unit.time_slice
    window = (time_slice.measured_from_ns, time_slice.measured_to_ns)
    work = WorkUnit(
        time_slice.run, "", [], *window, unit.own_channels, unit.counted_at, unit.until_ns
    )
    tallies = {name: each.begin(work) for name, each in asked.items()}
    aside = SetAside(time_slice) if unit.has_regimes else None
    for file, numbers in zip(time_slice.files, unit.blocks, strict=True):
        own = set(numbers)
        with TraceReader(path_of(file)) as reader:
            for number, entry in enumerate(reader.blocks()):
                is_near = aside is not None and aside.reaches(entry.first_ns, entry.last_ns)
                if number not in own and not is_near:
                    continue
                block = lazy_block(reader, number, unit.own_channels)
                if number in own:
                    for tally in tallies.values():
                        tally.take(block)
                if aside is not None and is_near:
                    aside.take(block, entry.first_ns, entry.last_ns)
    answers = {name: tally.answers() for name, tally in tallies.items()}
    if aside is not None:
        columns = time_slice_columns(in_time_slices.columns)
        events = completed(time_slice, columns, aside.events())
        answers |= in_time_slices.question(time_slice, events)
    schemas = {name: schema_of(kinds[name]) for name in answers}
    return {
        name: pa.Table.from_batches(record_batches(each, schemas[name]), schemas[name])
        for name, each in answers.items()
    }


@dataclass(slots=True)
class SetAside:
    """What regimes need of the blocks of a slice, copied out of them."""

    time_slice: TimeSlice
    from_ns: int = field(init=False)
    to_ns: int = field(init=False)
    _rows: int = 0
    _parts: dict[int, dict[tuple[int, int], list[EventColumns]]] = field(init=False)

    def __post_init__(self) -> None:
        self.from_ns = self.time_slice.from_ns - self.time_slice.margin_ns
        self.to_ns = self.time_slice.to_ns + self.time_slice.margin_ns
        self._parts = {channel: {} for channel in self.time_slice.channels}

    def reaches(self, first_ns: int, last_ns: int) -> bool:
        """Whether a block from one instant to another is needed."""
        return first_ns < self.to_ns and last_ns >= self.from_ns

    def take(self, block: EventBlock, first_ns: int, last_ns: int) -> None:
        """Set aside what is needed of the next block."""
        keep = None
        if first_ns < self.from_ns or last_ns >= self.to_ns:
            keep = (block["at_ns"] >= self.from_ns) & (block["at_ns"] < self.to_ns)
        for key, names in _SET_ASIDE.items():
            self._take(block.spans.of(*key), block, key, names, keep)
        self._rows += len(block["at_ns"])

    def _take(
        self,
        spans: Spans,
        block: EventBlock,
        key: tuple[int, int],
        names: Sequence[str],
        keep: npt.NDArray[np.bool_] | None,
    ) -> None:
        places = zip(
            spans.channel.tolist(), spans.starts.tolist(), spans.ends.tolist(), strict=True
        )
        for channel, start, end in places:
            if channel not in self._parts:
                continue
            part = {name: block[name][start:end].copy() for name in names}
            if key in _PLACED:
                part["place"] = self._rows + block["order"][start:end].astype(np.int64)
            if keep is not None:
                part = {name: values[keep[start:end]] for name, values in part.items()}
            self._parts[channel].setdefault(key, []).append(part)

    def events(self) -> dict[int, SortedEvents]:
        """The events of each channel."""
        return {channel: _joined(self._parts.pop(channel)) for channel in self.time_slice.channels}


def _joined(parts: Mapping[tuple[int, int], Sequence[EventColumns]]) -> SortedEvents:
    return SortedEvents(
        {
            key: {name: np.concatenate([part[name] for part in own]) for name in own[0]}
            for key, own in parts.items()
        }
    )


def _packed(tables: Mapping[str, pa.Table]) -> Columns:
    packed = []
    for name, table in tables.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        packed.append(NamedTable(name, sink.getvalue().to_pybytes()))
    return columns_of(NamedTable, packed)
