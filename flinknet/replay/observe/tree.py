"""Merges the answers of units in a tree, by run and by bucket of channels.

A task merges the answers of its own units, bucket by bucket, before anything travels; a task for
each bucket makes the rows of its channels, and those that the summary of a run needs; the driver
merges the summaries. Nothing is computed for all channels in one place but the summaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from flinknet.arrays import IntArray

from ..spark.checkpoint import Checkpoint
from ..spark.frames import Columns, columns_of, map_partitions, mapped, rows_of, schema_of
from ..spark.worker import return_free_memory
from .one_pass import PassUnit, SliceAsk, answers_of
from .question import Question, Summary
from .time_slices import SharedChannels

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANNELS_PER_BUCKET = 1024
"""Channels of a bucket: while it is merged, the latency of one takes 45 KB."""

BUCKETS_MAX = 1_000
"""Most tasks that merge buckets."""

HELD_BYTES_MAX = 128 << 20
"""Bytes of answers that a task keeps to merge them with those of its next units."""

PART_BYTES_MAX = 4 << 20
"""Bytes of a part of a table: the JVM holds rows of several tasks, each more than once."""


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table as an Arrow stream: a part of it, of one run and one bucket of channels."""

    name: str
    run: int
    bucket: int
    rows: bytes


@dataclass(frozen=True, slots=True)
class Tree:
    """Questions, and how their answers are merged.

    Attributes:
        questions: by name.
        ask_slice: answers the questions about slices.
        summaries: by the name of their table.
        asked: names for the checkpoint on what the answers depend besides the units.
        checkpoint: where the answers of units are kept; None: nowhere.
    """

    questions: Mapping[str, Question]
    ask_slice: SliceAsk
    summaries: Mapping[str, Summary]
    asked: str = ""
    checkpoint: Checkpoint | None = None


def tables_of(
    spark: SparkSession, units: Sequence[PassUnit], tree: Tree, buckets: int
) -> DataFrame:
    """Compute the tables of all questions and summaries with Spark, which keeps them.

    Args:
        buckets: approximate number of buckets of channels in all runs.

    Returns: rows of NamedTable.
    """
    shared, slices = SharedChannels.of([unit.time_slice for unit in units])
    own = {unit.time_slice.run: unit.own_channels for unit in units}  # all of a run have the same
    bare = [
        replace(unit, time_slice=each, own_channels=[])
        for unit, each in zip(units, slices, strict=True)
    ]
    own_channels = {run: np.array(channels, np.int64) for run, channels in own.items()}
    answer = partial(_answered, shared=shared, own_channels=own_channels, tree=tree)
    answers = map_partitions(spark, bare, answer, NamedTable)
    parts = answers.repartition(max(1, min(buckets, BUCKETS_MAX)), "run", "bucket")
    return mapped(parts, partial(_merged, tree=tree), NamedTable).cache()


def tables_here(units: Sequence[PassUnit], tree: Tree) -> list[NamedTable]:
    """As `tables_of`, in this process: for runs that are not worth a session."""
    return list(_buckets(_parts_of(units, tree), tree))


def summary_rows(tree: Tree, name: str, parts: Iterable[NamedTable]) -> pa.Table:
    """The rows of a summary, from the parts of `tables_of` that have its name."""
    summary = tree.summaries[name]
    question = tree.questions[summary.question]
    own = sorted((each for each in parts if each.name == name), key=lambda e: (e.run, e.bucket))
    if not own:
        return summary.of_bucket(question, schema_of(question.row).empty_table())
    return summary.of_run(question, [rows_in(each.rows) for each in own])


def named_table(tables: DataFrame, name: str, row: type) -> DataFrame:
    """One of the tables of `tables_of`, as rows of its dataclass."""
    return mapped(tables.where(tables["name"] == name), partial(_unpacked, row=row), row)


def _unpacked(batches: Iterator[pa.RecordBatch], *, row: type) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for data in batch["rows"]:
            yield from rows_in(data.as_py()).cast(schema_of(row)).to_batches()


def rows_in(data: bytes) -> pa.Table:
    """The rows of a NamedTable."""
    with pa.ipc.open_stream(data) as stream:
        return stream.read_all()


def bucket_of(channel: int) -> int:
    """The bucket of a channel."""
    return channel // CHANNELS_PER_BUCKET


def _answered(
    bare: Iterator[PassUnit],
    *,
    shared: SharedChannels,
    own_channels: Mapping[int, IntArray],
    tree: Tree,
) -> Iterator[Columns]:
    for part in _parts_of(_filled(bare, shared, own_channels), tree):
        yield columns_of(NamedTable, [part])


def _filled(
    bare: Iterator[PassUnit], shared: SharedChannels, own_channels: Mapping[int, IntArray]
) -> Iterator[PassUnit]:
    for unit in bare:
        time_slice = shared.filled(unit.time_slice)
        yield replace(
            unit, time_slice=time_slice, own_channels=own_channels[time_slice.run].tolist()
        )
        return_free_memory()


class _Held:
    """Parts of tables by run and bucket, which can be combined."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._tables: dict[tuple[int, int, str], list[pa.Table]] = {}
        self.bytes = 0

    def add(self, name: str, run: int, bucket: int, part: pa.Table) -> None:
        """Add a part."""
        self._tables.setdefault((run, bucket, name), []).append(part)
        self.bytes += part.nbytes

    def combine(self) -> None:
        """Combine the parts of the same table, run and bucket."""
        for (_, _, name), parts in self._tables.items():
            if len(parts) > 1:
                parts[:] = [self._tree.questions[name].combined(parts)]
        self.bytes = sum(part.nbytes for parts in self._tables.values() for part in parts)

    def taken(self) -> Iterator[tuple[int, int, str, list[pa.Table]]]:
        """Yield the parts by run, bucket and name; each is freed when the next is taken."""
        for run, bucket, name in sorted(self._tables):
            yield run, bucket, name, self._tables.pop((run, bucket, name))


def _parts_of(units: Iterable[PassUnit], tree: Tree) -> Iterator[NamedTable]:
    """Answers of units, combined as far as they fit into memory."""
    held = _Held(tree)
    for found in chain.from_iterable(_found(unit, tree) for unit in units):
        held.add(*found)
        if held.bytes > HELD_BYTES_MAX:
            held.combine()
            if held.bytes > HELD_BYTES_MAX // 2:  # else it would be combined again and again
                yield from _packed(held, tree)
                held = _Held(tree)
    yield from _packed(held, tree)


def _found(unit: PassUnit, tree: Tree) -> Iterable[tuple[str, int, int, pa.Table]]:
    """Answers of a unit: parts of tables, each with name, run and bucket."""
    if tree.checkpoint is None:
        return _parts_in(unit, tree)
    rows = tree.checkpoint.rows(
        unit, tree.asked, NamedTable, lambda: [as_named(*each) for each in _parts_in(unit, tree)]
    )
    return ((each.name, each.run, each.bucket, rows_in(each.rows)) for each in rows)


def _parts_in(unit: PassUnit, tree: Tree) -> Iterator[tuple[str, int, int, pa.Table]]:
    for name, found in answers_of(unit, tree.questions, tree.ask_slice):
        question = tree.questions[name]
        for bucket, part in _in_buckets(question.combined([found]), question.by):
            yield name, unit.time_slice.run, bucket, part


def _packed(held: _Held, tree: Tree) -> Iterator[NamedTable]:
    for run, bucket, name, parts in held.taken():
        whole = tree.questions[name].combined(parts) if parts[1:] else parts[0]
        yield from _named(name, run, bucket, whole)


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
        yield as_named(name, run, bucket, table.slice(start, end - start))


def as_named(name: str, run: int, bucket: int, table: pa.Table) -> NamedTable:
    """A part of a table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return NamedTable(name, run, bucket, sink.getvalue().to_pybytes())


def _in_buckets(table: pa.Table, by: str | None) -> Iterator[tuple[int, pa.Table]]:
    """Cut a table of one run by buckets; one without rows has no bucket."""
    if by is None or not len(table):
        if len(table):
            yield bucket_of(-1), table
        return
    buckets = table[by].to_numpy() // CHANNELS_PER_BUCKET
    found = np.unique(buckets).tolist()
    if len(found) == 1:
        yield found[0], table
        return
    order = np.argsort(buckets, kind="stable")
    table = table.take(order)
    edges = np.searchsorted(buckets[order], [*found, found[-1] + 1])
    for bucket, start, end in zip(found, edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        yield bucket, table.slice(start, end - start)


def _merged(batches: Iterator[pa.RecordBatch], *, tree: Tree) -> Iterator[pa.RecordBatch]:
    parts = (part for batch in batches for part in rows_of(NamedTable, batch))
    for found in _buckets(parts, tree):
        yield pa.RecordBatch.from_pydict(
            dict(columns_of(NamedTable, [found])), schema=schema_of(NamedTable)
        )


def _buckets(parts: Iterable[NamedTable], tree: Tree) -> Iterator[NamedTable]:
    """The tables of each bucket, and their rows for the summaries."""
    held, most = _Held(tree), HELD_BYTES_MAX // 2
    for part in parts:
        held.add(part.name, part.run, part.bucket, rows_in(part.rows))
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
