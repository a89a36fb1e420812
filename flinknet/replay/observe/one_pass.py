"""Puts all questions to recorded runs in one pass over their blocks.

A unit reads its blocks once, puts every question to them, and gives small rows, which `tree`
merges. A block belongs to the slice in which its middle lies; questions about blocks are put to it
there. Questions about whole slices need the events of each channel, which are set aside from all
blocks that lie in the slice or within its margins. Traces recorded between processes have no such
questions: their units are blocks that follow each other in their files, as are those of a run far
outside of its measured part.
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
from ..spark.frames import Columns, columns_of, record_batches, schema_of
from ..spark.units import UNITS_MIN, WorkUnit
from .channel_events import ChannelEvents
from .question import Question, Tally
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

SliceAsk = Callable[[TimeSlice, ChannelEvents], Iterable[tuple[str, Columns]]]
"""Function that answers several questions about a slice: rows with the names of the questions."""

ROWS_AT_ONCE = 1 << 18
"""Rows of an answer that become a table at a time: all rows about a slice of very many channels
would not fit into memory."""


@dataclass(frozen=True, slots=True)
class PassUnit:
    """A slice of a run, or blocks outside of slices.

    Attributes:
        has_regimes: whether questions about slices are put to it.
        own_channels: channels whose rows count; empty for all.
    """

    time_slice: TimeSlice
    has_regimes: bool
    own_channels: list[int]
    counted_at: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class WorkRow:
    """Bytes and events that a unit read.

    Attributes:
        events: events in its own blocks.
        index_bytes: bytes of headers and directories of blocks.
        data_bytes: bytes of columns.
    """

    run: int
    events: int
    index_bytes: int
    data_bytes: int


WORK = Question("work", WorkRow, by=None)
"""Question that each unit answers about itself."""


def pass_units(runs: Sequence[RecordedRun], split: int | None) -> list[PassUnit]:
    """Cut all blocks of all runs into units.

    Args:
        split: slices of each run; None for a number that suits its size.
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
    """Pack blocks into units of about the same number of events; short files share a unit."""
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
    unit: PassUnit, questions: Mapping[str, Question], ask_slice: SliceAsk
) -> Iterator[tuple[str, pa.Table]]:
    """Answer all questions about a unit.

    Args:
        questions: by name.
        ask_slice: answers the questions about slices among them.

    Yields: tables of rows with their names, several of one name where there are many rows.
    """
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
    tallies = {
        name: each.tally(work, each.ask) for name, each in questions.items() if each.ask is not None
    }
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
    for name in list(tallies):  # frees the memory of each in turn
        answers = tallies.pop(name).answers()
        yield from _tables(((name, each) for each in answers), [questions[name]])
    if aside is not None:
        found = ask_slice(time_slice, ended_aside(time_slice, aside, counted))
        del aside
        about_slices = [each for each in questions.values() if each.ask is None and each.by]
        yield from _tables(found, about_slices)
    read = WorkRow(work.run, events, counted.index_bytes, counted.data_bytes)
    yield from _tables([(WORK.name, columns_of(WorkRow, [read]))], [WORK])


def _tables(
    answers: Iterable[tuple[str, Columns]], questions: Sequence[Question]
) -> Iterator[tuple[str, pa.Table]]:
    """Tables of answers, with ROWS_AT_ONCE rows each; at least one for each question."""
    schemas = {each.name: schema_of(each.answer) for each in questions}
    held: dict[str, list[Columns]] = {name: [] for name in schemas}
    rows = dict.fromkeys(schemas, 0)

    def table_of_held(name: str) -> tuple[str, pa.Table]:
        own, held[name], rows[name] = held[name], [], 0
        return name, pa.Table.from_batches(record_batches(own, schemas[name]), schemas[name])

    for name, columns in answers:
        held[name].append(columns)
        rows[name] += len(columns["run"])
        if rows[name] >= ROWS_AT_ONCE:
            yield table_of_held(name)
    for name in schemas:
        yield table_of_held(name)
