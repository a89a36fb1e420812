"""Puts questions to units, and merges the answers in a tree, by run and by bucket of channels.

A unit reads its blocks once and puts every question to them. A task merges the answers of its own
units, bucket by bucket, before anything travels; a task for each bucket makes the rows of its
channels, and those that the summary of a run needs; the driver merges the summaries. Nothing is
computed for all channels in one place but the summaries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from flinknet.arrays import IntArray
from flinknet.trace import BytesRead, TraceReader
from flinknet.trace.event_block import lazy_block

from ..spark import frames
from ..spark.units import UNITS_MIN
from ..spark.worker import return_free_memory
from .channel_events import SetAside
from .question import Question, Summary
from .units import Group, Unit, Units
from .widening import completed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_AT_ONCE = 1 << 18
"""Rows of an answer that become a table at a time, for slices of very many channels."""

CHANNELS_PER_BUCKET = 1024
"""Channels of a bucket: while it is merged, the latency of one takes 45 KB."""

BUCKETS_MAX = 1_000
HELD_BYTES_MAX = 128 << 20
"""Bytes of answers that a task keeps to merge them with those of its next units."""

PART_BYTES_MAX = 4 << 20
"""Bytes of a part of a table: the JVM holds rows of several tasks, each more than once."""


@dataclass(frozen=True, slots=True)
class WorkRow:
    """Bytes and events of own blocks that a unit read; headers and directories are index."""

    run: int
    events: int
    index_bytes: int
    data_bytes: int


WORK = Question("work", WorkRow, by=None)


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table as an Arrow stream: a part of it, of one run and one bucket of channels."""

    name: str
    run: int
    bucket: int
    rows: bytes


@dataclass(frozen=True, slots=True)
class Tree:
    """Questions, and how their answers are merged."""

    questions: Mapping[str, Question]
    summaries: Mapping[str, Summary]  # by the name of their table


def tables_of(spark: SparkSession, units: Units, tree: Tree, buckets: int = UNITS_MIN) -> DataFrame:
    """Compute the tables of all questions and summaries with Spark, which keeps them; `buckets` is
    about the number of buckets of channels in all runs. Returns: rows of NamedTable."""
    groups = units.groups

    def answer(own: Iterator[Unit]) -> Iterator[frames.Columns]:
        return (frames.columns_of(NamedTable, [each]) for each in _parts_of(own, groups, tree))

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = (part for batch in batches for part in frames.rows_of(NamedTable, batch))
        for found in _buckets(parts, tree):
            yield from frames.table_of(NamedTable, [found]).to_batches()

    answers = frames.map_partitions(spark, units.units, answer, NamedTable)
    parts = answers.repartition(max(1, min(buckets, BUCKETS_MAX)), "run", "bucket")
    return frames.mapped(parts, merge, NamedTable).cache()


def tables_here(units: Units, tree: Tree) -> list[NamedTable]:
    """As `tables_of`, in this process: for runs that are not worth a session."""
    return list(_buckets(_parts_of(units.units, units.groups, tree), tree))


def ask(spark: SparkSession, units: Units, *questions: Question) -> DataFrame:
    """Put questions to the units. Returns: their tables, as rows of NamedTable."""
    return tables_of(spark, units, Tree({each.name: each for each in questions}, {}))


def answers_of(
    unit: Unit, group: Group, questions: Mapping[str, Question]
) -> Iterator[tuple[str, pa.Table]]:
    """Answer all questions about a unit. Yields: names and tables, several for many rows."""
    tallies = {name: each.ask(unit) for name, each in questions.items() if each.ask is not None}
    asks = dict.fromkeys(each.ask_slice for each in questions.values() if each.ask_slice)
    aside = SetAside(group.channels, *unit.reach_ns) if asks and unit.is_slice else None
    events, counted = 0, BytesRead()
    for file in unit.files:
        with TraceReader(file.file, file.extents) as reader:
            for index, entry in enumerate(reader.blocks()):
                block = lazy_block(reader, index, group.own)
                if file.own_from <= reader.numbers[index] < file.own_to:
                    events += entry.count
                    for tally in tallies.values():
                        tally.take(block)
                if aside is not None:
                    aside.take(block, entry.first_ns, entry.last_ns)
        counted.add(reader.counted)
    for name in list(tallies):  # frees the memory of each in turn
        answers = tallies.pop(name).answers()
        yield from _tables(unit, ((name, each) for each in answers), questions)
    if aside is not None:
        found = completed(unit, aside.events(), counted)
        del aside
        for each in asks:
            yield from _tables(unit, each(unit, group, found), questions)
    read = WorkRow(unit.run, events, counted.index_bytes, counted.data_bytes)
    if WORK.name in questions:
        yield WORK.name, frames.table_of(WorkRow, [read])


def _tables(
    unit: Unit, answers: Iterable[tuple[str, frames.Columns]], questions: Mapping[str, Question]
) -> Iterator[tuple[str, pa.Table]]:
    """Tables of answers about a unit, with ROWS_AT_ONCE rows each."""
    held: dict[str, list[frames.Columns]] = {}
    rows = Counter[str]()

    def table_of_held(name: str) -> tuple[str, pa.Table]:
        schema = frames.schema_of(questions[name].answer)
        del rows[name]
        return name, pa.Table.from_batches(frames.record_batches(held.pop(name), schema), schema)

    for name, columns in answers:
        count = len(next(iter(columns.values())))
        held.setdefault(name, []).append({"run": np.full(count, unit.run), **columns})
        rows[name] += count
        if rows[name] >= ROWS_AT_ONCE:
            yield table_of_held(name)
    for name in list(held):
        yield table_of_held(name)


def summary_rows(tree: Tree, name: str, parts: Iterable[NamedTable]) -> pa.Table:
    summary = tree.summaries[name]
    question = tree.questions[summary.question]
    own = sorted((each for each in parts if each.name == name), key=lambda e: (e.run, e.bucket))
    if not own:
        return summary.of_bucket(question, frames.schema_of(question.row).empty_table())
    return summary.of_run(question, [frames.unpacked(each.rows) for each in own])


def named_table(tables: DataFrame, name: str, row: type) -> DataFrame:

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for data in (data for batch in batches for data in batch["rows"]):
            yield from frames.unpacked(data.as_py()).cast(frames.schema_of(row)).to_batches()

    return frames.mapped(tables.where(tables["name"] == name), rows, row)


def bucket_of(channel: int) -> int:
    return channel // CHANNELS_PER_BUCKET


class _Held:
    """Parts of tables by run and bucket, which can be combined."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._tables: dict[tuple[int, int, str], list[pa.Table]] = {}
        self.bytes = 0

    def add(self, name: str, run: int, bucket: int, part: pa.Table) -> None:
        self._tables.setdefault((run, bucket, name), []).append(part)
        self.bytes += part.nbytes

    def combine(self) -> None:
        for (_, _, name), parts in self._tables.items():
            if len(parts) > 1:
                parts[:] = [self._tree.questions[name].combined(parts)]
        self.bytes = sum(part.nbytes for parts in self._tables.values() for part in parts)

    def packed(self) -> Iterator[NamedTable]:
        for run, bucket, name, parts in self.taken():
            whole = self._tree.questions[name].combined(parts) if parts[1:] else parts[0]
            yield from _named(name, run, bucket, whole)

    def taken(self) -> Iterator[tuple[int, int, str, list[pa.Table]]]:
        """Yield the parts by run, bucket and name; each is freed when the next is taken."""
        for run, bucket, name in sorted(self._tables):
            yield run, bucket, name, self._tables.pop((run, bucket, name))


def _parts_of(units: Iterable[Unit], groups: Sequence[Group], tree: Tree) -> Iterator[NamedTable]:
    """Answers of units, combined as far as they fit into memory."""
    held = _Held(tree)
    for unit in units:
        for found in _found(unit, groups[unit.group], tree):
            held.add(*found)
            if held.bytes > HELD_BYTES_MAX:
                held.combine()
                if held.bytes > HELD_BYTES_MAX // 2:  # else it would be combined again and again
                    yield from held.packed()
                    held = _Held(tree)
        return_free_memory()
    yield from held.packed()


def _found(unit: Unit, group: Group, tree: Tree) -> Iterator[tuple[str, int, int, pa.Table]]:
    """Answers of a unit: parts of tables, each with name, run and bucket."""
    for name, found in answers_of(unit, group, tree.questions):
        question = tree.questions[name]
        for bucket, part in _in_buckets(question.combined([found]), question.by):
            yield name, unit.run, bucket, part


def _named(name: str, run: int, bucket: int, table: pa.Table) -> Iterator[NamedTable]:
    """Cut a table into parts, between the rows of different channels."""
    edges = [0, len(table)]
    count = -(-table.nbytes // PART_BYTES_MAX)
    if count > 1:
        even: IntArray = np.linspace(0, len(table), count + 1).astype(np.int64)
        if "channel" in table.column_names:
            channel = table["channel"].to_numpy()
            starts = np.flatnonzero(np.r_[True, channel[1:] != channel[:-1], True])
            even = starts[np.searchsorted(starts, even)]
        edges = np.unique(even).tolist()
    for start, end in pairwise(edges):
        yield NamedTable(name, run, bucket, frames.packed(table.slice(start, end - start)))


def _in_buckets(table: pa.Table, by: str | None) -> Iterator[tuple[int, pa.Table]]:
    """Cut a table of one run by buckets; one without rows has no bucket."""
    buckets = np.full(len(table), bucket_of(-1))
    if by is not None:
        buckets = table[by].to_numpy() // CHANNELS_PER_BUCKET
    found = np.unique(buckets).tolist()
    if len(found) < 2:
        yield from ((bucket, table) for bucket in found)
        return
    order = np.argsort(buckets, kind="stable")
    table = table.take(order)
    edges = np.searchsorted(buckets[order], [*found, found[-1] + 1])
    for bucket, start, end in zip(found, edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        yield bucket, table.slice(start, end - start)


def _buckets(parts: Iterable[NamedTable], tree: Tree) -> Iterator[NamedTable]:
    """The tables of each bucket, and their rows for the summaries."""
    held, most = _Held(tree), HELD_BYTES_MAX // 2
    for part in parts:
        held.add(part.name, part.run, part.bucket, frames.unpacked(part.rows))
        if held.bytes > most:
            held.combine()
            most = max(most, 2 * held.bytes)
    for run, bucket, name, own in held.taken():
        question = tree.questions[name]
        table = question.merged(own)
        yield from _named(name, run, bucket, table)
        for other, summary in tree.summaries.items():
            if summary.question == name:
                yield from _named(other, run, bucket, summary.of_bucket(question, table))
