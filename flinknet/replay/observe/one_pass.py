"""All questions to recorded runs in one pass: a unit reads its blocks once, puts every question to
them, and gives back what is small and adds up; that is merged in a tree (`tree`).

A block belongs to the slice in which its middle lies: there what can be asked of each block alone
is asked. Regimes need the whole slice: what they look at is set aside, channel by channel, from
all blocks that lie in it or within its margins. What was recorded between processes has no regimes,
so its units are blocks that stand together in their files, as are those of a run long before or
behind its measured part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from flinknet.arrays import IntArray
from flinknet.trace import BytesRead, FileIndex, TraceFile, TraceReader, file_index
from flinknet.trace.event_block import lazy_block

from ..read import RecordedRun
from ..spark.frames import Columns, Merge, columns_of, record_batches, schema_of
from ..spark.units import UNITS_MIN, Asked, Tally, WorkUnit
from .channel_events import ChannelEvents
from .time_slices import (
    EVENTS_PER_TIME_SLICE,
    EVENTS_PER_TIME_SLICE_MIN,
    FileBlocks,
    TimeSlice,
    begun_aside,
    ended_aside,
    outside_blocks,
    time_slices_of,
)

SliceQuestion = Callable[[TimeSlice, ChannelEvents], Iterable[tuple[str, Columns]]]
"""As TimeSliceQuestion, with rows of several tables, each with the name of its table."""

WORK = "work"
"""Name of the table of what the units read."""

ROWS_AT_ONCE = 1 << 18
"""Of an answer that become a table: about a slice of very many channels there are more of them than
fit into memory."""


@dataclass(frozen=True, slots=True)
class PassUnit:
    """A slice of a run, or blocks of it without their slice.

    Attributes:
        has_regimes: whether the slice is asked as a whole, too.
        own_channels: whose rows count; empty for all.
    """

    time_slice: TimeSlice
    has_regimes: bool
    own_channels: list[int]
    counted_at: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class WorkRow:
    """What a unit read.

    Attributes:
        events: of its own blocks.
        index_bytes: headers and directories of blocks.
        data_bytes: columns.
    """

    run: int
    events: int
    index_bytes: int
    data_bytes: int


@dataclass(frozen=True, slots=True)
class InPass:
    """A question put to blocks as they are read, and how its answers become a table.

    Attributes:
        merge: makes the rows of the table.
        row: dataclass of the rows of the table.
        combine: makes fewer answers of those of several units; None if `merge` does.
    """

    asked: Asked
    merge: Merge
    row: type
    combine: Merge | None = None


@dataclass(frozen=True, slots=True)
class SliceTable:
    """How the answers about slices become a table.

    Attributes:
        row: dataclass of the rows, before and after they are merged.
        by: the column by which it is merged in parts.
    """

    merge: Merge
    row: type
    by: str = "channel"


@dataclass(frozen=True, slots=True)
class InTimeSlices:
    """A question put to whole slices, whose answers are several tables."""

    question: SliceQuestion
    tables: Mapping[str, SliceTable]


def pass_units(runs: Sequence[RecordedRun], split: int | None) -> list[PassUnit]:
    """All blocks of all runs, each in one unit.

    Args:
        split: slices of each run; None for as many as suit its size.
    """
    units = []
    for run in runs:
        own = [] if run.edge is None else [info.index for info in run.manifest.channels]
        has_slices = not run.manifest.is_from_between
        slices = time_slices_of([run], split) if has_slices else []
        indexes = {file: file_index(file) for file in run.files}
        rest = {
            file: outside_blocks(run, index) if has_slices else np.arange(len(index.blocks))
            for file, index in indexes.items()
        }
        units += [PassUnit(each, True, own, run.counted_at, run.until_ns) for each in slices]
        units += [
            PassUnit(each, False, own, run.counted_at, run.until_ns)
            for each in _packed(run, indexes, rest)
        ]
    return units


def _packed(
    run: RecordedRun, indexes: Mapping[TraceFile, FileIndex], places: Mapping[TraceFile, IntArray]
) -> list[TimeSlice]:
    """Some blocks of files in units of about as many events, a unit for several short files."""
    counts = {file: indexes[file].blocks["count"][own] for file, own in places.items()}
    total = sum(int(each.sum()) for each in counts.values())
    most = min(max(total // UNITS_MIN, EVENTS_PER_TIME_SLICE_MIN), EVENTS_PER_TIME_SLICE)
    units: list[list[FileBlocks]] = [[]]
    held = 0
    for file, own in places.items():
        place = (held + np.cumsum(counts[file]) - counts[file]) // most
        held += int(counts[file].sum())
        for unit in np.unique(place).tolist():
            wanted = own[place == unit]
            units += [[] for _ in range(unit + 1 - len(units))]
            index = indexes[file]
            numbers = index.numbers(int(wanted[0]), int(wanted[-1]) + 1)
            blocks = FileBlocks(file.absolute(), index.extents(wanted), *numbers)
            units[unit].append(blocks)
    window = run.from_ns, run.to_ns
    return [TimeSlice(run.run, own, [], [], [], *window, *window, 0) for own in units if own]


def _end_stretch(tallies: Iterable[Tally]) -> None:
    for tally in tallies:
        tally.end_stretch()


def answers_of(
    unit: PassUnit, asked: Mapping[str, Asked], in_time_slices: InTimeSlices
) -> Iterator[tuple[str, pa.Table]]:
    """The answers to all questions about a unit, and what was read for them, as tables with their
    names; in several parts where there are many rows."""
    time_slice = unit.time_slice
    window = (time_slice.measured_from_ns, time_slice.measured_to_ns)
    work = WorkUnit(
        time_slice.run,
        TraceFile(""),
        [],
        *window,
        unit.own_channels,
        unit.counted_at,
        unit.until_ns,
    )
    tallies = {name: each.begin(work) for name, each in asked.items()}
    aside = begun_aside(time_slice) if unit.has_regimes else None
    events, counted = 0, BytesRead()
    for file in time_slice.files:
        last = file.own_from - 1
        with TraceReader(file.file, file.extents) as reader:
            for index, entry in enumerate(reader.blocks()):
                block = lazy_block(reader, index, unit.own_channels)
                number = reader.numbers[index]
                if file.own_from <= number < file.own_to:
                    events += entry.count
                    if number != last + 1:
                        _end_stretch(tallies.values())
                    last = number
                    for tally in tallies.values():
                        tally.take(block)
                if aside is not None and time_slice.reaches(entry.first_ns, entry.last_ns):
                    aside.take(block, entry.first_ns, entry.last_ns)
        _end_stretch(tallies.values())
        counted.add(reader.counted)
    for name in list(tallies):  # let go of one by one
        answers = tallies.pop(name).answers()
        yield from _tables(((name, each) for each in answers), {name: asked[name].row})
    if aside is not None:
        found = in_time_slices.question(time_slice, ended_aside(time_slice, aside, counted))
        del aside
        yield from _tables(found, {name: each.row for name, each in in_time_slices.tables.items()})
    read = WorkRow(work.run, events, counted.index_bytes, counted.data_bytes)
    yield from _tables([(WORK, columns_of(WorkRow, [read]))], {WORK: WorkRow})


def _tables(
    answers: Iterable[tuple[str, Columns]], kinds: Mapping[str, type]
) -> Iterator[tuple[str, pa.Table]]:
    """Answers as tables, as many rows at a time as fit into memory.

    Args:
        kinds: the dataclass of the rows of each table; there is one, with or without rows.
    """
    held: dict[str, list[Columns]] = {name: [] for name in kinds}
    rows = dict.fromkeys(kinds, 0)

    def table_of_held(name: str) -> tuple[str, pa.Table]:
        own, held[name], rows[name] = held[name], [], 0
        schema = schema_of(kinds[name])
        return name, pa.Table.from_batches(record_batches(own, schema), schema)

    for name, columns in answers:
        held[name].append(columns)
        rows[name] += len(columns["run"])
        if rows[name] >= ROWS_AT_ONCE:
            yield table_of_held(name)
    for name in kinds:
        yield table_of_held(name)
