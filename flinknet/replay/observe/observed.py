"""The observed answers of all runs as tables, and each run's share of them as plain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

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
from ..spark.frames import Merge, collected, rows_of
from ..spark.session import cores_of
from ..spark.units import ALL_CHANNELS
from .arrivals import MERGE_ARRIVALS, ArrivalsRow, arrivals_asked, slice_edges
from .blocking import (
    BLOCKED,
    MILESTONES,
    BlockedRow,
    MilestoneRow,
    merge_blocked,
    merge_milestones,
)
from .checkpoints import BARRIERS, BarrierRow, checkpoints_of, known_barriers, merge_barriers
from .credit import STARVED, StarvedRow, merge_starved
from .latency import LATENCY, ChannelLatency, LatencyRow, merge_latency
from .messages import MERGE_MESSAGES, MESSAGES, MessagesRow
from .one_pass import (
    InPass,
    InTimeSlices,
    NamedTable,
    SliceTable,
    named_table,
    pass_units,
    rows_in,
    tables_here,
    tables_of,
)
from .regimes import REGIME_COLUMNS, RegimeRow, merge_regimes
from .sums import Sums
from .task_times import MERGE_TASK_TIMES, TaskTimeRow, observe_slice
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


@dataclass(frozen=True, slots=True)
class ObservedRows:
    """The rows of all tables that one run's summary needs: each has as many rows as there are
    channels, or windows.

    Attributes:
        throughput, backlog: over all channels.
        regimes: over all windows.
        histograms: of the latency over all channels; at most one.
        blocked: by barriers; recorded between processes, as the milestones are.
    """

    messages: list[MessagesRow]
    throughput: list[ThroughputWindow]
    throughput_by_channel: list[ChannelRecords]
    backlog: list[BacklogWindow]
    backlog_by_channel: list[ChannelBacklog]
    latency: list[ChannelLatency]
    credit_starved: list[StarvedRow]
    regimes: list[ChannelRegime]
    arrivals: list[ArrivalsRow]
    histograms: list[RunHistogram]
    blocked: list[BlockedRow]
    milestones: list[MilestoneRow]
    task_times: list[TaskTimeRow]
    barriers: list[BarrierRow]


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """What was observed in a run: its summary, and the rows it is made from."""

    run: RecordedRun
    measured: Measured
    rows: ObservedRows


def observe(
    spark: SparkSession, runs: Sequence[RecordedRun], split: int | None = None
) -> ObservedTables:
    """Put every question to the runs, in one pass over their blocks; nothing is computed before a
    table is read.

    Args:
        split: slices of time that each run is cut into, also for the arrivals; None for as many as
            suit its size.
    """
    questions, slices = _questions(runs, split)
    units = pass_units(runs, cores_of(spark), split)
    whole = tables_of(spark, units, questions, slices, _MERGES)
    return ObservedTables(
        **{name: named_table(whole, name, questions[name].row) for name in _TABLES},
        regimes=named_table(whole, "regimes", RegimeRow),
        whole=whole,
    )


def observe_here(runs: Sequence[RecordedRun]) -> list[ObservedRun]:
    """What `collect` gives, computed in this process without Spark: for small runs."""
    units = pass_units(runs, 1, 1)
    return _observed(tables_here(units, *_questions(runs, 1), _MERGES), runs)


def _questions(
    runs: Sequence[RecordedRun], split: int | None
) -> tuple[dict[str, InPass], InTimeSlices]:
    arrivals = arrivals_asked({run.run: slice_edges(run, split) for run in runs})
    questions = {
        "messages": InPass(MESSAGES, MERGE_MESSAGES, MESSAGES.row),
        "throughput": InPass(THROUGHPUT, MERGE_THROUGHPUT, THROUGHPUT.row),
        "backlog": InPass(BACKLOG, MERGE_BACKLOG, BACKLOG.row),
        "latency": InPass(LATENCY, merge_latency, LatencyRow, adds_up=False),
        "credit_starved": InPass(STARVED, merge_starved, StarvedRow, adds_up=False),
        "arrivals": InPass(arrivals, MERGE_ARRIVALS, arrivals.row),
        "blocked": InPass(BLOCKED, merge_blocked, BlockedRow, adds_up=False),
        "milestones": InPass(MILESTONES, merge_milestones, MilestoneRow),
        "barriers": InPass(BARRIERS, merge_barriers, BarrierRow),
    }
    slices = InTimeSlices(
        observe_slice,
        REGIME_COLUMNS,
        {
            "regimes": SliceTable(merge_regimes, RegimeRow),
            "task_times": SliceTable(MERGE_TASK_TIMES, TaskTimeRow),
        },
    )
    return questions, slices


_TABLES = ("messages", "throughput", "backlog", "latency", "credit_starved", "arrivals")
"""Answers that are tables of their own; others are for the summaries."""


def _all_channels(latency: pa.Table) -> pa.Table:
    found = latency.filter(pc.equal(latency["channel"], ALL_CHANNELS))
    return found.select(["run", "histogram"])


def _without_histogram(latency: pa.Table) -> pa.Table:
    return latency.drop_columns(["histogram"])


def _as_it_is(table: pa.Table) -> pa.Table:
    return table


_PREFIX = "summary."
_SUMMARIES: Mapping[str, tuple[type, str, Merge]] = {
    "messages": (MessagesRow, "messages", _as_it_is),
    "throughput": (
        ThroughputWindow,
        "throughput",
        Sums(_WINDOW, ("buffers", "records", "payload_bytes")),
    ),
    "throughput_by_channel": (ChannelRecords, "throughput", Sums(("run", "channel"), ("records",))),
    "backlog": (BacklogWindow, "backlog", Sums(_WINDOW, *_SAMPLES)),
    "backlog_by_channel": (ChannelBacklog, "backlog", Sums(("run", "channel"), *_SAMPLES)),
    "latency": (ChannelLatency, "latency", _without_histogram),
    "histograms": (RunHistogram, "latency", _all_channels),
    "credit_starved": (StarvedRow, "credit_starved", _as_it_is),
    "arrivals": (ArrivalsRow, "arrivals", _as_it_is),
    "blocked": (BlockedRow, "blocked", _as_it_is),
    "milestones": (MilestoneRow, "milestones", _as_it_is),
    "regimes": (ChannelRegime, "regimes", Sums(("run", "channel", "regime"), ("ns",))),
    "barriers": (BarrierRow, "barriers", known_barriers),
    "task_times": (TaskTimeRow, "task_times", _as_it_is),
}
"""What the summary of a run needs: the dataclass of its rows, and the table it is made from."""

_MERGES = {_PREFIX + name: (source, merge) for name, (_, source, merge) in _SUMMARIES.items()}


def collect(tables: ObservedTables, runs: Sequence[RecordedRun]) -> list[ObservedRun]:
    """Compute all tables, and bring what the summaries need to the driver."""
    summaries = tables.whole.where(tables.whole["name"].startswith(_PREFIX))
    return _observed(collected(NamedTable, summaries), runs)


def _observed(tables: Iterable[NamedTable], runs: Sequence[RecordedRun]) -> list[ObservedRun]:
    found = {name: list[Any]() for name in _SUMMARIES}
    for table in tables:
        if table.name.startswith(_PREFIX):
            name = table.name.removeprefix(_PREFIX)
            found[name] = rows_of(_SUMMARIES[name][0], rows_in(table.rows))
    observed = []
    for run in runs:
        rows = ObservedRows(
            **{name: [row for row in own if row.run == run.run] for name, own in found.items()}
        )
        observed.append(ObservedRun(run, _measured(run, rows), rows))
    return observed


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
        checkpoints=checkpoints_of(
            rows.barriers,
            {info.index: info.consumer for info in run.manifest.channels},
            (run.from_ns, run.to_ns),
            is_from_between=run.manifest.is_from_between,
        ),
    )


def channels_of(observed: ObservedRun) -> list[ChannelMeasured]:
    """Each channel of the manifest that carried records or buffers."""
    rows, duration_ns = observed.rows, observed.measured.duration_ns
    backlog = {row.channel: row for row in rows.backlog_by_channel}
    measured = []
    for info in observed.run.manifest.channels:
        row = latency_row(rows, info.index)
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
