"""How the answers of units become tables: a tree of merges, by run and by bucket of channels.

A task merges what its own units found, bucket by bucket, before anything travels; a task for each
bucket makes the rows of its channels, and what the summaries of a run need of them; the driver
adds up the summaries. Nothing is made of all channels in one place but what the driver is to show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..spark.checkpoint import Checkpoint
from ..spark.frames import Columns, Merge, columns_of, map_partitions, mapped, rows_of, schema_of
from ..spark.worker import return_free_memory
from .one_pass import WORK, InPass, InTimeSlices, PassUnit, WorkRow, answers_of
from .time_slices import SharedChannels

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANNELS_PER_BUCKET = 1024
"""Latency of one channel takes 45 KB while it is merged."""

BUCKETS_MAX = 1_000
"""Tasks that merge buckets, at most."""

HELD_BYTES_MAX = 128 << 20
"""Of answers that a task keeps to merge them with those of its next units."""


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table as an Arrow stream: a part of it, of one run and one bucket of channels."""

    name: str
    run: int
    bucket: int
    rows: bytes


@dataclass(frozen=True, slots=True)
class Summary:
    """A table that is made of another one, bucket by bucket, and then of all buckets.

    Attributes:
        source: name of the other one.
        of_bucket: makes the rows of a bucket.
        of_all: makes the rows of all buckets from them; None if `of_bucket` does.
    """

    source: str
    of_bucket: Merge
    of_all: Merge | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """What is asked, and how it is merged.

    Attributes:
        asked: names what the answers depend on besides the units, for the checkpoint.
        checkpoint: where the answers of units are kept; None: nowhere.
    """

    questions: Mapping[str, InPass]
    in_time_slices: InTimeSlices
    summaries: Mapping[str, Summary]
    asked: str = ""
    checkpoint: Checkpoint | None = None

    def by(self, name: str) -> str | None:
        """The column of a table by which it is merged in parts; None if there is none."""
        if name == WORK:
            return None
        tables = self.in_time_slices.tables
        return tables[name].by if name in tables else "channel"

    def combine(self, name: str, parts: Sequence[pa.Table]) -> pa.Table:
        """Fewer answers from those of several units."""
        whole = pa.concat_tables(parts)
        if name == WORK:
            return whole
        in_slice = self.in_time_slices.tables.get(name)
        if in_slice is not None:
            return in_slice.merge(whole) if len(parts) > 1 else whole
        question = self.questions[name]
        if question.combine is not None and len(parts) == 1:
            return whole  # a unit gives few answers to such a question
        return (question.combine or question.merge)(whole)

    def merge(self, name: str, parts: Sequence[pa.Table]) -> pa.Table:
        """The rows of a table."""
        whole = pa.concat_tables(parts)
        if name in self.in_time_slices.tables:
            return self.in_time_slices.tables[name].merge(whole)
        return self.questions[name].merge(whole) if name in self.questions else whole

    def row(self, name: str) -> type:
        """The dataclass of the rows of a table."""
        if name == WORK:
            return WorkRow
        tables = self.in_time_slices.tables
        return tables[name].row if name in tables else self.questions[name].row


def tables_of(
    spark: SparkSession, units: Sequence[PassUnit], tree: Tree, buckets: int
) -> DataFrame:
    """The tables of all questions and summaries in parts, a row for each; kept by Spark once
    computed.

    Args:
        buckets: of channels in all runs, about.

    Returns: rows of NamedTable.
    """
    shared, slices = SharedChannels.of([unit.time_slice for unit in units])
    bare = [replace(unit, time_slice=own) for unit, own in zip(units, slices, strict=True)]
    answer = partial(_answered, shared=shared, tree=tree)
    answers = map_partitions(spark, bare, answer, NamedTable)
    keys = ("run", "bucket")
    parts = answers.repartition(max(1, min(buckets, BUCKETS_MAX)), *keys)
    parts = parts.sortWithinPartitions(*keys, "name")
    return mapped(parts, partial(_merged, tree=tree), NamedTable).cache()


def tables_here(units: Sequence[PassUnit], tree: Tree) -> list[NamedTable]:
    """The rows of `tables_of`, computed in this process: for runs that are not worth a session."""
    parts = sorted(_parts_of(units, tree), key=lambda each: (each.run, each.bucket, each.name))
    return list(_buckets(parts, tree))


def summary_of(name: str, summary: Summary, parts: Iterable[NamedTable]) -> pa.Table | None:
    """A summary of all buckets, from the rows of `tables_of` that have its name; None without
    any."""
    own = sorted((each for each in parts if each.name == name), key=lambda e: (e.run, e.bucket))
    if not own:
        return None
    whole = pa.concat_tables(rows_in(each.rows) for each in own)
    return (summary.of_all or summary.of_bucket)(whole)


def named_table(tables: DataFrame, name: str, row: type) -> DataFrame:
    """One of the tables of `tables_of`."""
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


def _answered(bare: Iterator[PassUnit], *, shared: SharedChannels, tree: Tree) -> Iterator[Columns]:
    for part in _parts_of(_filled(bare, shared), tree):
        yield columns_of(NamedTable, [part])


def _filled(bare: Iterator[PassUnit], shared: SharedChannels) -> Iterator[PassUnit]:
    for unit in bare:
        yield replace(unit, time_slice=shared.filled(unit.time_slice))
        return_free_memory()


def _parts_of(units: Iterable[PassUnit], tree: Tree) -> Iterator[NamedTable]:
    """What units found, merged as far as it fits."""
    held: dict[tuple[str, int, int], list[pa.Table]] = {}
    held_bytes = 0
    for name, run, bucket, part in chain.from_iterable(_found(unit, tree) for unit in units):
        held.setdefault((name, run, bucket), []).append(part)
        held_bytes += part.nbytes
        if held_bytes > HELD_BYTES_MAX:
            held = {key: [_combined(tree, key[0], parts)] for key, parts in held.items()}
            held_bytes = sum(part.nbytes for parts in held.values() for part in parts)
            if held_bytes > HELD_BYTES_MAX // 2:  # else it would be combined again and again
                yield from _packed(held, tree)
                held, held_bytes = {}, 0
    yield from _packed(held, tree)


def _combined(tree: Tree, name: str, parts: Sequence[pa.Table]) -> pa.Table:
    """Answers that have been combined before, as far as they are several."""
    return tree.combine(name, parts) if len(parts) > 1 else parts[0]


def _found(unit: PassUnit, tree: Tree) -> Iterable[tuple[str, int, int, pa.Table]]:
    """What a unit found: parts of tables, each with name, run and bucket."""
    if tree.checkpoint is None:
        return _parts_in(unit, tree)
    rows = tree.checkpoint.rows(
        unit, tree.asked, NamedTable, lambda: [as_named(*each) for each in _parts_in(unit, tree)]
    )
    return ((each.name, each.run, each.bucket, rows_in(each.rows)) for each in rows)


def _parts_in(unit: PassUnit, tree: Tree) -> Iterator[tuple[str, int, int, pa.Table]]:
    asked = {name: each.asked for name, each in tree.questions.items()}
    for name, found in answers_of(unit, asked, tree.in_time_slices):
        whole = tree.combine(name, [found])
        for bucket, part in _in_buckets(whole, tree.by(name)):
            yield name, unit.time_slice.run, bucket, part


def _packed(tables: dict[tuple[str, int, int], list[pa.Table]], tree: Tree) -> Iterator[NamedTable]:
    """Answers in parts, each let go of when it is packed."""
    while tables:
        (name, run, bucket), parts = tables.popitem()
        yield as_named(name, run, bucket, _combined(tree, name, parts))


def as_named(name: str, run: int, bucket: int, table: pa.Table) -> NamedTable:
    """A part of a table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return NamedTable(name, run, bucket, sink.getvalue().to_pybytes())


def _in_buckets(table: pa.Table, by: str | None) -> Iterator[tuple[int, pa.Table]]:
    """A table of one run, cut by buckets; one with no rows has no bucket."""
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
    """The tables of each bucket, and what summaries need of them; parts are sorted by run, bucket
    and name."""
    for (run, bucket, name), own in groupby(parts, lambda e: (e.run, e.bucket, e.name)):
        table = tree.merge(name, _gathered(name, own, tree))
        yield as_named(name, run, bucket, table)
        for other, summary in tree.summaries.items():
            if summary.source == name:
                yield as_named(other, run, bucket, summary.of_bucket(table))


def _gathered(name: str, parts: Iterable[NamedTable], tree: Tree) -> list[pa.Table]:
    """The answers in parts of one table, fewer of them where they are large."""
    held: list[pa.Table] = []
    held_bytes = 0
    for part in parts:
        held.append(rows_in(part.rows))
        held_bytes += held[-1].nbytes
        if held_bytes > HELD_BYTES_MAX:
            held = [tree.combine(name, held)]
            held_bytes = 0
    return held
