"""Observes runs: tables of all questions over all runs, and the rows of each run's summary.

The tables have the rows of all channels. The driver holds a few columns of all channels, which
verdicts need, and detailed rows only of the channels that an answer shows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa

from flinknet.arrays import IntArray

from ..read import RecordedRun
from ..spark import frames
from ..spark.units import read_indexes
from . import tree as trees
from .checkpoints import BARRIERS
from .credit import CREDIT_TRIPS
from .latency import LATENCY, LatencyRow, total_of_channels
from .measured import ObservedRows, ObservedRun, filled_channels, filled_windows, measured_of
from .question import Summary
from .record_times import record_times_in
from .regimes import REGIME_TIMES, REGIMES, TASK_TIMES
from .stretches import CHANNEL_TIMES, STARVED
from .traffic import BACKLOG, MESSAGES, THROUGHPUT, arrivals_in, slice_edges
from .units import Units, work_units

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DETAILED_CHANNELS_MAX = 20_000
"""Most channels, of all runs together, that are reported in full; 4 KB each."""

QUESTIONS = (
    *(MESSAGES, THROUGHPUT, BACKLOG, LATENCY, CHANNEL_TIMES, BARRIERS),
    *(REGIME_TIMES, TASK_TIMES, CREDIT_TRIPS, trees.WORK),
)
"""All questions but those that depend on the runs: for arrivals in slices, and for times."""

TABLES = ["messages", "throughput", "backlog", "latency", "credit_starved", "arrivals", "regimes"]
_PREFIX = "summary."

_FIELDS: Mapping[str, tuple[Any, Summary]] = {
    name: get_args(hint)
    for name, hint in get_type_hints(ObservedRows, include_extras=True).items()
    if get_origin(hint) is Annotated
}
"""Fields of ObservedRows: list[…] or Rows[…] of a dataclass, and the summary that fills them."""


@dataclass(frozen=True, slots=True)
class ObservedTables:
    """A table for each question over all runs; small, and kept by Spark once computed. `whole` has
    all tables and summaries in parts: rows of NamedTable."""

    whole: DataFrame
    units: Units
    tree: trees.Tree

    def rows(self, name: str) -> DataFrame:
        return trees.named_table(self.whole, name, self.tree.questions[name].row)

    def __getattr__(self, name: str) -> DataFrame:
        if name not in TABLES:
            raise AttributeError(f"there is no table {name!r}; there are {', '.join(TABLES)}")
        if name == "credit_starved":
            table = self.rows(CHANNEL_TIMES.name).where(f"state = {STARVED}").drop("state")
            return table.withColumnRenamed("ns", "starved_ns")
        table = self.rows(name)
        if name == "latency":
            totals = trees.named_table(self.whole, f"{_PREFIX}totals", LatencyRow)
            table = frames.merged(totals, total_of_channels, LatencyRow).union(table)
        if name == "regimes":  # a row for each regime
            kept = ("run", "channel", "from_ns", "width_ns")
            return table.unpivot(kept, tuple(sorted(REGIMES)), "regime", "ns")
        return frames.flattened(table)

    def named(self) -> dict[str, DataFrame]:
        return {name: getattr(self, name) for name in TABLES}

    def packed_arrivals(self) -> DataFrame:
        """The table `arrivals` in parts: rows of NamedTable."""
        return self.whole.where(self.whole["name"] == "arrivals")


def observe(
    spark: SparkSession, runs: Sequence[RecordedRun], split: int | None = None
) -> ObservedTables:
    """Put every question to the runs, in one pass over their blocks; nothing is computed before a
    table is read. Runs, and arrivals, are cut into `split` slices of time; None for a number that
    suits their size."""
    read_indexes(lambda: spark, [file for run in runs for file in run.files])
    tree = tree_of(runs, split)
    channels = sum(len(run.manifest.channels) for run in runs)
    units = work_units(runs, split)
    whole = trees.tables_of(spark, units, tree, trees.bucket_of(channels - 1) + 1)
    return ObservedTables(whole, units, tree)


def observe_here(runs: Sequence[RecordedRun], split: int | None = 1) -> list[ObservedRun]:
    """As `observe` and `collect`, without Spark: for small runs, slice by slice."""
    tree = tree_of(runs, split)
    return _observed(trees.tables_here(work_units(runs, split), tree), tree, runs)


def tree_of(runs: Sequence[RecordedRun], split: int | None) -> trees.Tree:
    edges = {run.run: slice_edges(run, split) for run in runs}
    own = arrivals_in(edges), record_times_in(runs)
    questions = {each.name: each for each in (*QUESTIONS, *own)}
    summaries = {_PREFIX + name: each for name, (_, each) in _FIELDS.items()}
    return trees.Tree(questions, summaries)


def collect(
    tables: ObservedTables, runs: Sequence[RecordedRun], channels: Collection[int] = ()
) -> list[ObservedRun]:
    """Compute all tables, and get the summaries; some channels are always reported in full."""
    details = [_PREFIX + name for name, (_, each) in _FIELDS.items() if each.is_detail]
    summaries = tables.whole.where(tables.whole["name"].startswith(_PREFIX))
    is_detail = summaries["name"].isin(details)
    tree = tables.tree
    if sum(len(run.manifest.channels) for run in runs) <= DETAILED_CHANNELS_MAX:
        return _observed(frames.collected(trees.NamedTable, summaries), tree, runs)
    parts = frames.collected(trees.NamedTable, summaries.where(~is_detail))
    chosen = _most_notable(_by_run(parts, tree, runs), channels)

    def choose(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in (part for batch in batches for part in frames.rows_of(trees.NamedTable, batch)):
            rows = frames.unpacked(part.rows)
            is_own = np.isin(rows["channel"].to_numpy(), chosen[part.run])
            own = replace(part, rows=frames.packed(rows.filter(pa.array(is_own))))
            yield from frames.table_of(trees.NamedTable, [own] if is_own.any() else []).to_batches()

    some = frames.mapped(summaries.where(is_detail), choose, trees.NamedTable)
    parts += frames.collected(trees.NamedTable, some)
    return _observed(parts, tree, runs, chosen)


def _most_notable(
    found: Mapping[str, Mapping[int, pa.Table]], wanted: Collection[int]
) -> dict[int, IntArray]:
    """The wanted channels of each run, and of all others those with the highest p99, the longest
    time without credit or behind a barrier, and the most records."""
    names = "throughput_by_channel", "consumed", "credit_starved", "blocked"
    columns = []
    for number in found[names[0]]:
        taken, consumed, starved, blocked = (_rows(each, found[each][number]) for each in names)
        channels = np.union1d(taken["channel"], consumed["channel"])
        late_ns = np.nan_to_num(consumed.of(channels, "p99"))
        waits_ns = starved.of(channels, "ns") + blocked.of(channels, "ns")
        own = np.full(len(channels), number), channels, -taken.of(channels, "records")
        columns.append((*own, -waits_ns, -late_ns, ~np.isin(channels, list(wanted))))
    run, channel, *ranks = [np.concatenate(each) for each in zip(*columns, strict=True)]
    first = np.lexsort((channel, run, *ranks))[:DETAILED_CHANNELS_MAX]
    return {each: np.sort(channel[first[run[first] == each]]) for each in found[names[0]]}


def _rows(name: str, table: pa.Table) -> frames.Rows[Any]:
    return frames.Rows(get_args(_FIELDS[name][0])[0], table)


def _by_run(
    parts: Sequence[trees.NamedTable], tree: trees.Tree, runs: Sequence[RecordedRun]
) -> dict[str, dict[int, pa.Table]]:
    found = {}
    for name in _FIELDS:
        table = trees.summary_rows(tree, _PREFIX + name, parts)
        own = table["run"].to_numpy()
        ends = {run.run: np.searchsorted(own, [run.run, run.run + 1]).tolist() for run in runs}
        found[name] = {run: table.slice(start, end - start) for run, (start, end) in ends.items()}
    return found


def _observed(
    parts: Sequence[trees.NamedTable],
    tree: trees.Tree,
    runs: Sequence[RecordedRun],
    chosen: Mapping[int, IntArray] | None = None,
) -> list[ObservedRun]:
    found = _by_run(parts, tree, runs)
    observed = []
    for run in runs:
        of_run: dict[str, Any] = {}
        for name, (kind, _) in _FIELDS.items():
            rows = _rows(name, found[name][run.run])
            of_run[name] = list(rows) if get_origin(kind) is list else rows
        channels = filled_channels(of_run["throughput_by_channel"])
        of_run["throughput_by_channel"] = channels
        of_run["throughput"] = filled_windows(of_run["throughput"], int(channels["records"].sum()))
        omitted = 0
        if chosen is not None:
            omitted = int((~np.isin(channels["channel"], chosen[run.run])).sum())
        whole = ObservedRows(**of_run, channels_omitted=omitted)
        observed.append(ObservedRun(run, measured_of(run, whole), whole))
    return observed
