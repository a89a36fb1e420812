"""The observed answers of all runs as tables, and each run's share of them.

Of a million channels the driver holds a few columns, which all of its verdicts need, and what makes
an answer about a channel only of those that matter most; the tables have all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinknet.arrays import IntArray

from ..read import RecordedRun
from ..spark.checkpoint import Checkpoint, digest
from ..spark.frames import (
    Rows,
    collected,
    columns_of,
    mapped,
    merged,
    record_batches,
    rows_of,
    schema_of,
)
from ..spark.indexes import read_indexes
from .arrivals import (
    MERGE_ARRIVALS,
    SLICE_RECORDS,
    SliceRecords,
    arrivals_asked,
    slice_edges,
)
from .blocking import (
    BLOCKED,
    MILESTONES,
    BlockedRow,
    MilestoneRow,
    first_milestones,
    merge_blocked,
    merge_milestones,
)
from .checkpoints import (
    BARRIERS,
    BarrierRow,
    combine_barriers,
    known_barriers,
    merge_barriers,
    thinned_barriers,
)
from .credit import STARVED, StarvedRow, merge_starved
from .latency import (
    LATENCY,
    ChannelLatency,
    LatencyRow,
    combine_latency,
    merge_latency,
    total_latency,
)
from .measured import measured_of
from .messages import MERGE_MESSAGES, MESSAGES, MessagesRow, total_messages, writer_waits
from .observed_run import (
    ChannelBacklog,
    ChannelConsumed,
    ChannelRecords,
    ObservedRows,
    ObservedRun,
    RunHistogram,
    WaitedRow,
)
from .one_pass import InPass, InTimeSlices, SliceTable, WorkRow, pass_units
from .regimes import ChannelRegimes, RegimeRow, merge_regimes, regimes_by_channel
from .sums import Sums
from .task_times import (
    MERGE_TASK_TIMES,
    REGIMES_TABLE,
    TASK_TIMES,
    TaskTimeRow,
    known_task_times,
    observe_slice,
)
from .tree import (
    NamedTable,
    Summary,
    Tree,
    as_named,
    bucket_of,
    named_table,
    rows_in,
    summary_of,
    tables_here,
    tables_of,
)
from .unanswered import (
    UNANSWERED,
    WITHOUT_CREDIT,
    UnansweredRow,
    WithoutCreditRow,
    merge_unanswered,
    merge_without_credit,
)
from .uncounted import filled_channels, filled_windows
from .windowed import (
    BACKLOG,
    MERGE_BACKLOG,
    MERGE_THROUGHPUT,
    PASSED,
    THROUGHPUT,
    BacklogWindow,
    ThroughputWindow,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANNELS_TOLD_MAX = 20_000
"""Of all runs together, of which the answers have all figures: 4 KB for each."""

TABLES = (
    *("messages", "throughput", "backlog", "latency", "credit_starved", "arrivals", "regimes"),
)
"""Answers that are tables of their own; others are for the summaries."""

_WINDOW = ("run", "from_ns", "width_ns")
_SAMPLES = ("buffers", "backlog_buffers_sum"), ("backlog_buffers_max",)


@dataclass(frozen=True, slots=True)
class ObservedTables:
    """One table a question, over all runs; small, kept by Spark once computed.

    Attributes:
        whole: all of them in one, and the summaries of each run: rows of NamedTable.
        rows: the dataclass of the rows of each table.
    """

    whole: DataFrame
    rows: Mapping[str, type]

    def __getattr__(self, name: str) -> DataFrame:
        if name not in TABLES:
            raise AttributeError(f"there is no table {name!r}; there are {', '.join(TABLES)}")
        table = named_table(self.whole, name, self.rows[name])
        if name != "latency":
            return table
        totals = named_table(self.whole, _PREFIX + _TOTAL_LATENCY, LatencyRow)
        return merged(totals, total_latency, LatencyRow).union(table)

    def named(self) -> dict[str, DataFrame]:
        """The tables by name."""
        return {name: getattr(self, name) for name in TABLES}

    def packed_arrivals(self) -> DataFrame:
        """The table `arrivals` in parts: rows of NamedTable."""
        return self.whole.where(self.whole["name"] == "arrivals")


def observe(
    spark: SparkSession,
    runs: Sequence[RecordedRun],
    split: int | None = None,
    checkpoint: Checkpoint | None = None,
) -> ObservedTables:
    """Put every question to the runs, in one pass over their blocks; nothing is computed before a
    table is read.

    Args:
        split: slices of time that each run is cut into, also for the arrivals; None for as many as
            suit its size.
        checkpoint: where the answers of units are kept; None: nowhere.
    """
    read_indexes(lambda: spark, [file for run in runs for file in run.files])
    tree = replace(tree_of(runs, split), checkpoint=checkpoint)
    whole = tables_of(spark, pass_units(runs, split), tree, _buckets(runs))
    return ObservedTables(whole, {name: tree.row(name) for name in TABLES})


def observe_here(runs: Sequence[RecordedRun], split: int | None = 1) -> list[ObservedRun]:
    """What `collect` gives, computed in this process without Spark: for small runs.

    Args:
        split: see `observe`; one slice at a time is in memory.
    """
    return _observed(tables_here(pass_units(runs, split), tree_of(runs, split)), runs)


def _buckets(runs: Sequence[RecordedRun]) -> int:
    return bucket_of(sum(len(run.manifest.channels) for run in runs) - 1) + 1


def tree_of(runs: Sequence[RecordedRun], split: int | None) -> Tree:
    """All questions to some runs, and how the answers are merged.

    Args:
        split: see `observe`.
    """
    edges = {run.run: slice_edges(run, split) for run in runs}
    arrivals = arrivals_asked(edges)
    questions = {
        "messages": InPass(MESSAGES, MERGE_MESSAGES, MESSAGES.row),
        "throughput": InPass(THROUGHPUT, MERGE_THROUGHPUT, THROUGHPUT.row),
        "backlog": InPass(BACKLOG, MERGE_BACKLOG, BACKLOG.row),
        "latency": InPass(LATENCY, merge_latency, LatencyRow, combine_latency),
        "credit_starved": InPass(STARVED, merge_starved, StarvedRow, _as_it_is),
        "arrivals": InPass(arrivals, MERGE_ARRIVALS, arrivals.row),
        "blocked": InPass(BLOCKED, merge_blocked, BlockedRow, _as_it_is),
        "unanswered": InPass(UNANSWERED, merge_unanswered, UnansweredRow, _as_it_is),
        "without_credit": InPass(WITHOUT_CREDIT, merge_without_credit, WithoutCreditRow, _as_it_is),
        "milestones": InPass(MILESTONES, merge_milestones, MilestoneRow),
        "barriers": InPass(BARRIERS, merge_barriers, BarrierRow, combine_barriers),
    }
    slices = InTimeSlices(
        observe_slice,
        {
            REGIMES_TABLE: SliceTable(merge_regimes, RegimeRow),
            TASK_TIMES: SliceTable(MERGE_TASK_TIMES, TaskTimeRow, "producer"),
        },
    )
    summaries = {_PREFIX + name: each.summary for name, each in _SUMMARIES.items()}
    return Tree(questions, slices, summaries, digest(edges))


def _only(rows: pa.Table, *, kind: type) -> pa.Table:
    """The columns of a dataclass."""
    return rows.select(schema_of(kind).names)


def _as_it_is(table: pa.Table) -> pa.Table:
    return table


_PREFIX = "summary."
_TOTAL_LATENCY = "total_latency"


@dataclass(frozen=True, slots=True)
class _Summarised:
    """What the summary of a run needs: the dataclass of its rows, and how they are made.

    Attributes:
        is_list: it has few rows, as objects.
        is_told: it has what makes an answer about a channel.
    """

    row: type
    summary: Summary
    is_list: bool = False
    is_told: bool = False


_SUMMARIES: Mapping[str, _Summarised] = {
    "messages": _Summarised(MessagesRow, Summary("messages", total_messages), True),
    "throughput": _Summarised(
        ThroughputWindow,
        Summary("throughput", Sums(_WINDOW, PASSED)),
        True,
    ),
    "backlog": _Summarised(BacklogWindow, Summary("backlog", Sums(_WINDOW, *_SAMPLES)), True),
    _TOTAL_LATENCY: _Summarised(LatencyRow, Summary("latency", total_latency), True),
    "arrivals": _Summarised(SliceRecords, Summary("arrivals", SLICE_RECORDS), True),
    "milestones": _Summarised(MilestoneRow, Summary("milestones", first_milestones), True),
    "barriers": _Summarised(
        BarrierRow, Summary("barriers", known_barriers, thinned_barriers), True
    ),
    "work": _Summarised(WorkRow, Summary("work", _as_it_is), True),
    "throughput_by_channel": _Summarised(
        ChannelRecords, Summary("throughput", Sums(("run", "channel"), PASSED[1:]), _as_it_is)
    ),
    "consumed": _Summarised(
        ChannelConsumed, Summary("latency", partial(_only, kind=ChannelConsumed), _as_it_is)
    ),
    "waited": _Summarised(WaitedRow, Summary("messages", writer_waits, _as_it_is)),
    "credit_starved": _Summarised(StarvedRow, Summary("credit_starved", _as_it_is)),
    "regimes": _Summarised(ChannelRegimes, Summary("regimes", regimes_by_channel, _as_it_is)),
    "blocked": _Summarised(BlockedRow, Summary("blocked", _as_it_is)),
    "unanswered": _Summarised(UnansweredRow, Summary("unanswered", _as_it_is)),
    "without_credit": _Summarised(WithoutCreditRow, Summary("without_credit", _as_it_is)),
    "task_times": _Summarised(TaskTimeRow, Summary("task_times", known_task_times, _as_it_is)),
    "latency": _Summarised(
        ChannelLatency,
        Summary("latency", partial(_only, kind=ChannelLatency), _as_it_is),
        is_told=True,
    ),
    "backlog_by_channel": _Summarised(
        ChannelBacklog,
        Summary("backlog", Sums(("run", "channel"), *_SAMPLES), _as_it_is),
        is_told=True,
    ),
    "messages_by_channel": _Summarised(MessagesRow, Summary("messages", _as_it_is), is_told=True),
}


def collect(
    tables: ObservedTables, runs: Sequence[RecordedRun], channels: Collection[int] = ()
) -> list[ObservedRun]:
    """Compute all tables, and bring what the summaries need to the driver.

    Args:
        channels: that an answer is to be given about, however many there are.
    """
    told = [_PREFIX + name for name, each in _SUMMARIES.items() if each.is_told]
    summaries = tables.whole.where(tables.whole["name"].startswith(_PREFIX))
    is_told = summaries["name"].isin(told)
    if sum(len(run.manifest.channels) for run in runs) <= CHANNELS_TOLD_MAX:
        return _observed(collected(NamedTable, summaries), runs)
    parts = collected(NamedTable, summaries.where(~is_told))
    chosen = _most_telling(_by_run(parts, runs), channels)
    choose = partial(_chosen, chosen=chosen)
    parts += collected(NamedTable, mapped(summaries.where(is_told), choose, NamedTable))
    return _observed(parts, runs, chosen)


def _chosen(
    batches: Iterator[pa.RecordBatch], *, chosen: Mapping[int, IntArray]
) -> Iterator[pa.RecordBatch]:
    """The parts of tables as far as they are of some channels of each run."""
    schema = schema_of(NamedTable)
    for batch in batches:
        for part in rows_of(NamedTable, batch):
            rows = rows_in(part.rows)
            is_own = np.isin(rows["channel"].to_numpy(), chosen[part.run])
            if is_own.any():
                found = as_named(part.name, part.run, part.bucket, rows.filter(pa.array(is_own)))
                yield from record_batches([columns_of(NamedTable, [found])], schema)


def _most_telling(
    found: Mapping[str, Mapping[int, pa.Table]], wanted: Collection[int]
) -> dict[int, IntArray]:
    """The channels of each run that are wanted, and of all others those whose records are latest
    (by p99), that lacked credit or were blocked for longest, or that carried most."""
    names = "throughput_by_channel", "consumed", "credit_starved", "blocked"
    columns = []
    for number in found[names[0]]:
        tables: list[Rows[Any]] = [Rows(_SUMMARIES[e].row, found[e][number]) for e in names]
        taken, consumed, starved, blocked = tables
        channels = np.union1d(taken["channel"], consumed["channel"])
        late_ns = np.nan_to_num(consumed.of(channels, "p99"))
        waits_ns = starved.of(channels, "starved_ns") + blocked.of(channels, "blocked_ns")
        is_wanted = np.isin(channels, list(wanted))
        records = taken.of(channels, "records")
        own = np.full(len(channels), number), channels
        columns.append((*own, -records, -waits_ns, -late_ns, ~is_wanted))
    run, channel, *ranks = [np.concatenate(each) for each in zip(*columns, strict=True)]
    first = np.lexsort((channel, run, *ranks))[:CHANNELS_TOLD_MAX]
    return {each: np.sort(channel[first[run[first] == each]]) for each in found[names[0]]}


def _by_run(
    tables: Sequence[NamedTable], runs: Sequence[RecordedRun]
) -> dict[str, dict[int, pa.Table]]:
    """The rows of each summary, by run."""
    found = {}
    for name, each in _SUMMARIES.items():
        empty = schema_of(each.row).empty_table()
        table = summary_of(_PREFIX + name, each.summary, tables)
        if table is None:
            table = empty
        own = table["run"].to_numpy()
        if (np.diff(own) < 0).any():
            table = table.take(np.argsort(own, kind="stable"))
            own = table["run"].to_numpy()
        ends = {run.run: np.searchsorted(own, [run.run, run.run + 1]).tolist() for run in runs}
        found[name] = {run: table.slice(start, end - start) for run, (start, end) in ends.items()}
    return found


def _observed(
    tables: Sequence[NamedTable],
    runs: Sequence[RecordedRun],
    chosen: Mapping[int, IntArray] | None = None,
) -> list[ObservedRun]:
    found = _by_run(tables, runs)
    observed = []
    for run in runs:
        of_run: dict[str, Any] = {}
        for name, each in _SUMMARIES.items():
            table = found[name][run.run]
            of_run[name] = rows_of(each.row, table) if each.is_list else Rows(each.row, table)
        channels = filled_channels(of_run["throughput_by_channel"])
        of_run["throughput_by_channel"] = channels
        of_run["throughput"] = filled_windows(of_run["throughput"], int(channels["records"].sum()))
        totals = of_run.pop(_TOTAL_LATENCY)
        untold = 0
        if chosen is not None:
            carried = of_run["throughput_by_channel"]["channel"]
            untold = int((~np.isin(carried, chosen[run.run])).sum())
        own_rows = ObservedRows(
            **of_run,
            histograms=[RunHistogram(run.run, each.histogram) for each in totals],
            total_latency=_channel_latency(totals[0]) if totals else None,
            channels_untold=untold,
        )
        observed.append(ObservedRun(run, measured_of(run, own_rows), own_rows))
    return observed


def _channel_latency(row: LatencyRow) -> ChannelLatency:
    return ChannelLatency(**{each.name: getattr(row, each.name) for each in fields(ChannelLatency)})
