"""The observed answers of all runs as tables, and each run's share of them as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.job.load.payload import OVERHEAD_BYTES
from flinknet.results import (
    BacklogSummary,
    ChannelMeasured,
    CreditSummary,
    FlushCounts,
    LatencySummary,
    Measured,
)

from ..read import RecordedRun
from ..spark.checkpoint import Checkpoint, digest
from ..spark.frames import collected, merged, rows_of
from ..spark.indexes import read_indexes
from ..spark.units import ALL_CHANNELS
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
    merge_blocked,
    merge_milestones,
)
from .checkpoints import (
    BARRIERS,
    BarrierRow,
    checkpoints_of,
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
from .messages import MERGE_MESSAGES, MESSAGES, MessagesRow
from .one_pass import InPass, InTimeSlices, SliceTable, WorkRow, pass_units
from .regimes import RegimeRow, merge_regimes
from .reported_checkpoints import with_reported
from .sums import Sums
from .task_times import MERGE_TASK_TIMES, TaskTimeRow, observe_slice
from .tree import (
    NamedTable,
    Summary,
    Tree,
    bucket_of,
    named_table,
    summary_of,
    tables_here,
    tables_of,
)
from .unanswered import UNANSWERED, UnansweredRow, merge_unanswered
from .windowed import (
    BACKLOG,
    MERGE_BACKLOG,
    MERGE_THROUGHPUT,
    THROUGHPUT,
    BacklogWindow,
    ThroughputWindow,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WHOLE = "whole"
_WINDOW = ("run", "from_ns", "width_ns")
_SAMPLES = ("buffers", "backlog_buffers_sum"), ("backlog_buffers_max",)


@dataclass(frozen=True, slots=True)
class ChannelRecords:
    """Records of a channel in all windows."""

    run: int
    channel: int
    records: int


@dataclass(frozen=True, slots=True)
class ChannelBacklog:
    """Samples of the backlog of a channel in all windows."""

    run: int
    channel: int
    buffers: int
    backlog_buffers_sum: int
    backlog_buffers_max: int


@dataclass(frozen=True, slots=True)
class ChannelRegime:
    """Time of a channel in one regime, over all windows."""

    run: int
    channel: int
    regime: str
    ns: int


@dataclass(frozen=True, slots=True)
class RunHistogram:
    """The latency of all records of a run."""

    run: int
    histogram: bytes


@dataclass(frozen=True, slots=True)
class ObservedTables:
    """One table a question, over all runs; small, kept by Spark once computed."""

    messages: DataFrame
    throughput: DataFrame
    backlog: DataFrame
    latency: DataFrame
    credit_starved: DataFrame
    arrivals: DataFrame
    regimes: DataFrame
    whole: DataFrame = field(repr=False)  # all of them in one, and the summaries of each run

    def named(self) -> dict[str, DataFrame]:
        """The tables by name."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != _WHOLE}

    def packed_arrivals(self) -> DataFrame:
        """The table `arrivals` in parts: rows of NamedTable."""
        return self.whole.where(self.whole["name"] == "arrivals")


@dataclass(frozen=True, slots=True)
class ObservedRows:
    """The rows of all tables that one run's summary needs: each has as many rows as there are
    channels, or windows.

    Attributes:
        throughput, backlog: over all channels.
        regimes: over all windows.
        histograms: of the latency over all channels; at most one.
        arrivals: over all channels.
        blocked: by barriers; recorded between processes, as what was unanswered and the milestones
            are.
        work: of each unit.
    """

    messages: list[MessagesRow]
    throughput: list[ThroughputWindow]
    throughput_by_channel: list[ChannelRecords]
    backlog: list[BacklogWindow]
    backlog_by_channel: list[ChannelBacklog]
    latency: list[ChannelLatency]
    credit_starved: list[StarvedRow]
    regimes: list[ChannelRegime]
    arrivals: list[SliceRecords]
    histograms: list[RunHistogram]
    blocked: list[BlockedRow]
    unanswered: list[UnansweredRow]
    milestones: list[MilestoneRow]
    task_times: list[TaskTimeRow]
    barriers: list[BarrierRow]
    work: list[WorkRow]


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """What was observed in a run: its summary, and the rows it is made from."""

    run: RecordedRun
    measured: Measured
    rows: ObservedRows


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
    tables = {name: named_table(whole, name, tree.row(name)) for name in _TABLES}
    totals = named_table(whole, _PREFIX + _TOTAL_LATENCY, LatencyRow)
    totals = merged(totals, total_latency, LatencyRow)
    return ObservedTables(**tables | {"latency": totals.union(tables["latency"])}, whole=whole)


def observe_here(runs: Sequence[RecordedRun], split: int = 1) -> list[ObservedRun]:
    """What `collect` gives, computed in this process without Spark: for small runs."""
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
        "milestones": InPass(MILESTONES, merge_milestones, MilestoneRow),
        "barriers": InPass(BARRIERS, merge_barriers, BarrierRow, combine_barriers),
    }
    slices = InTimeSlices(
        observe_slice,
        {
            "regimes": SliceTable(merge_regimes, RegimeRow),
            "task_times": SliceTable(MERGE_TASK_TIMES, TaskTimeRow, "producer"),
        },
    )
    summaries = {_PREFIX + name: summary for name, (_, summary) in _SUMMARIES.items()}
    return Tree(questions, slices, summaries, digest(edges))


_TABLES = (
    *("messages", "throughput", "backlog", "latency", "credit_starved", "arrivals", "regimes"),
)
"""Answers that are tables of their own; others are for the summaries."""


def _without_histogram(latency: pa.Table) -> pa.Table:
    return latency.drop_columns(["histogram"])


def _as_it_is(table: pa.Table) -> pa.Table:
    return table


_PREFIX = "summary."
_TOTAL_LATENCY = "total_latency"
_SUMMARIES: Mapping[str, tuple[type, Summary]] = {
    "messages": (MessagesRow, Summary("messages", _as_it_is)),
    "throughput": (
        ThroughputWindow,
        Summary("throughput", Sums(_WINDOW, ("buffers", "records", "payload_bytes"))),
    ),
    "throughput_by_channel": (
        ChannelRecords,
        Summary("throughput", Sums(("run", "channel"), ("records",))),
    ),
    "backlog": (BacklogWindow, Summary("backlog", Sums(_WINDOW, *_SAMPLES))),
    "backlog_by_channel": (
        ChannelBacklog,
        Summary("backlog", Sums(("run", "channel"), *_SAMPLES)),
    ),
    "latency": (ChannelLatency, Summary("latency", _without_histogram, _as_it_is)),
    _TOTAL_LATENCY: (LatencyRow, Summary("latency", total_latency)),
    "credit_starved": (StarvedRow, Summary("credit_starved", _as_it_is)),
    "arrivals": (SliceRecords, Summary("arrivals", SLICE_RECORDS)),
    "blocked": (BlockedRow, Summary("blocked", _as_it_is)),
    "unanswered": (UnansweredRow, Summary("unanswered", _as_it_is)),
    "milestones": (MilestoneRow, Summary("milestones", _as_it_is)),
    "regimes": (ChannelRegime, Summary("regimes", Sums(("run", "channel", "regime"), ("ns",)))),
    "barriers": (BarrierRow, Summary("barriers", known_barriers, thinned_barriers)),
    "task_times": (TaskTimeRow, Summary("task_times", _as_it_is)),
    "work": (WorkRow, Summary("work", _as_it_is)),
}
"""What the summary of a run needs: the dataclass of its rows, and how they are made."""


def collect(tables: ObservedTables, runs: Sequence[RecordedRun]) -> list[ObservedRun]:
    """Compute all tables, and bring what the summaries need to the driver."""
    summaries = tables.whole.where(tables.whole["name"].startswith(_PREFIX))
    return _observed(collected(NamedTable, summaries), runs)


def _observed(tables: Sequence[NamedTable], runs: Sequence[RecordedRun]) -> list[ObservedRun]:
    found: dict[str, dict[int, list[Any]]] = {}
    for name, (kind, summary) in _SUMMARIES.items():
        table = summary_of(_PREFIX + name, summary, tables)
        own = found.setdefault(name, {run.run: [] for run in runs})
        rows: list[Any] = [] if table is None else rows_of(kind, table)
        for row in rows:
            own[row.run].append(row)
    observed = []
    for run in runs:
        of_run = {name: own[run.run] for name, own in found.items()}
        totals = of_run.pop(_TOTAL_LATENCY)
        histograms = [RunHistogram(run.run, each.histogram) for each in totals]
        total = [_channel_latency(each) for each in totals]
        of_run["latency"] = [*total, *of_run["latency"]]
        own_rows = ObservedRows(**of_run, histograms=histograms)
        observed.append(ObservedRun(run, _measured(run, own_rows), own_rows))
    return observed


def _channel_latency(row: LatencyRow) -> ChannelLatency:
    return ChannelLatency(**{each.name: getattr(row, each.name) for each in fields(ChannelLatency)})


def _measured(run: RecordedRun, rows: ObservedRows) -> Measured:
    """One run as bench would measure it, from its trace alone.

    `bytes` are those of record values: payload less what the stream adds to each record. The
    uncorrected latency is not in a trace.
    """
    total = latency_row(rows, ALL_CHANNELS)
    duration_ns = max(run.to_ns, total.consumed_to_ns if total else 0) - run.from_ns
    records = total.count if total else 0
    value_bytes = round(total.payload_bytes - OVERHEAD_BYTES * records) if total else 0
    if run.manifest.is_from_between:
        records = sum(row.records for row in rows.throughput)
        payload_bytes = sum(row.payload_bytes for row in rows.throughput)
        value_bytes = payload_bytes - OVERHEAD_BYTES * records
    sent = [row for row in rows.messages if row.point == TracePoint.SENT]
    responses = [row for row in sent if row.kind == MessageKind.BUFFER_RESPONSE]
    data = [row for row in responses if row.data_type in IS_BUFFER]
    counted_at = TracePoint.RECEIVED if run.manifest.is_from_between else TracePoint.SENT
    credit = [
        row
        for row in rows.messages
        if row.kind == MessageKind.ADD_CREDIT and row.point == counted_at
    ]
    return Measured(
        records=records,
        bytes=value_bytes,
        buffers=_messages(data),
        events=_messages(responses) - _messages(data),
        duration_ns=duration_ns,
        throughput_records_per_s=records * 1e9 / duration_ns if records else None,
        throughput_bytes_per_s=value_bytes * 1e9 / duration_ns if records else None,
        latency_ns=latency_summary(total),
        latency_uncorrected_ns=LatencySummary(count=0),
        backlog_buffers=backlog_summary(rows.backlog),
        credits=CreditSummary(
            announced=sum(row.credit for row in credit),
            messages=_messages(credit),
            starved_ns=sum(row.starved_ns for row in rows.credit_starved),
        ),
        flushes=FlushCounts(
            full=_left_because(data, FlushReason.FULL),
            timeout=_left_because(data, FlushReason.FLUSH),
            event=_left_because(data, FlushReason.EVENT, FlushReason.END),
        ),
        checkpoints=with_reported(
            checkpoints_of(
                rows.barriers,
                {info.index: info.consumer for info in run.manifest.channels},
                (run.from_ns, run.to_ns),
                is_from_between=run.manifest.is_from_between,
            ),
            run,
        ),
    )


def channels_of(observed: ObservedRun) -> list[ChannelMeasured]:
    """Each channel of the manifest that carried records or buffers."""
    rows, duration_ns = observed.rows, observed.measured.duration_ns
    backlog = {row.channel: row for row in rows.backlog_by_channel}
    latency = {row.channel: row for row in rows.latency}
    measured = []
    for info in observed.run.manifest.channels:
        row = latency.get(info.index)
        if row is None and info.index not in backlog:
            continue
        records = row.count if row else 0
        measured.append(
            ChannelMeasured(
                channel=info.index,
                producer=info.producer,
                consumer=info.consumer,
                records=records,
                throughput_records_per_s=records * 1e9 / duration_ns if records else None,
                latency_ns=latency_summary(row),
                backlog_buffers=backlog_summary(
                    [backlog[info.index]] if info.index in backlog else []
                ),
            )
        )
    return measured


def latency_row(rows: ObservedRows, channel: int) -> ChannelLatency | None:
    """The latency of one channel, or of ALL_CHANNELS; None without records."""
    return next((row for row in rows.latency if row.channel == channel), None)


def latency_summary(row: ChannelLatency | None) -> LatencySummary:
    """The fields of a LatencySummary out of a row that has them."""
    if row is None:
        return LatencySummary(count=0)
    return LatencySummary(**{each.name: getattr(row, each.name) for each in fields(LatencySummary)})


def _messages(rows: Sequence[MessagesRow]) -> int:
    return sum(row.messages for row in rows)


def _left_because(rows: Sequence[MessagesRow], *reasons: FlushReason) -> int:
    return _messages([row for row in rows if row.reason in reasons])


def backlog_summary(rows: Sequence[BacklogWindow | ChannelBacklog]) -> BacklogSummary:
    """Mean and maximum over samples; None without any."""
    buffers = sum(row.buffers for row in rows)
    if not buffers:
        return BacklogSummary(None, None)
    return BacklogSummary(
        mean=sum(row.backlog_buffers_sum for row in rows) / buffers,
        max=max(row.backlog_buffers_max for row in rows),
    )
