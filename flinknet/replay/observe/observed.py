"""The observed answers of all runs as tables, and each run's share of them as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

from ..spark.units import ALL_CHANNELS, Merge, RecordedRun
from .backlog import BACKLOG, MERGE_BACKLOG
from .blocking import (
    BLOCKED,
    BLOCKED_SCHEMA,
    MILESTONES,
    MILESTONES_SCHEMA,
    merge_blocked,
    merge_milestones,
)
from .credit import STARVED, STARVED_SCHEMA, merge_starved
from .latency import LATENCY, LATENCY_SCHEMA, merge_latency
from .messages import MERGE_MESSAGES, MESSAGES
from .one_pass import InPass, InTimeSlices, pass_units, rows_in, table_of, tables_of
from .regimes import REGIME_COLUMNS, REGIMES_SCHEMA, merge_regimes, split_time_slice
from .slicing import MERGE_ARRIVALS, arrivals_asked, slice_edges
from .sums import Sums
from .throughput import MERGE_THROUGHPUT, THROUGHPUT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]

_WHOLE = "whole"
_WINDOW = ("run", "from_ns", "width_ns")
_SAMPLES = ("buffers", "backlog_buffers_sum"), ("backlog_buffers_max",)


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
    whole: DataFrame = field(repr=False)  # all of them in one, and what is told of each run

    def named(self) -> dict[str, DataFrame]:
        """The tables by name."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != _WHOLE}


@dataclass(frozen=True, slots=True)
class ObservedRows:
    """The rows of all tables that one run's summary needs: each has as many rows as there are
    channels, or windows."""

    messages: list[Row]
    throughput: list[Row]  # over all channels
    throughput_by_channel: list[Row]
    backlog: list[Row]  # over all channels
    backlog_by_channel: list[Row]
    latency: list[Row]
    credit_starved: list[Row]
    regimes: list[Row]  # over all windows
    arrivals: list[Row]
    histograms: list[Row]  # of the latency over all channels
    blocked: list[Row]  # by barriers, between processes
    milestones: list[Row]  # barriers and ends that passed between processes


def observe(
    spark: SparkSession, runs: Sequence[RecordedRun], split: int | None = None
) -> ObservedTables:
    """Put every question to the runs, in one pass over their blocks; nothing is computed before a
    table is read.

    Args:
        split: stretches that each run is cut into, and slices for the arrivals; None for what
            suits.
    """
    arrivals = arrivals_asked({run.run: slice_edges(run, split) for run in runs})
    questions = {
        "messages": InPass(MESSAGES, MERGE_MESSAGES, MESSAGES.schema),
        "throughput": InPass(THROUGHPUT, MERGE_THROUGHPUT, THROUGHPUT.schema),
        "backlog": InPass(BACKLOG, MERGE_BACKLOG, BACKLOG.schema),
        "latency": InPass(LATENCY, merge_latency, LATENCY_SCHEMA, adds_up=False),
        "credit_starved": InPass(STARVED, merge_starved, STARVED_SCHEMA, adds_up=False),
        "arrivals": InPass(arrivals, MERGE_ARRIVALS, arrivals.schema),
    }
    in_passing = {
        "blocked": InPass(BLOCKED, merge_blocked, BLOCKED_SCHEMA, adds_up=False),
        "milestones": InPass(MILESTONES, merge_milestones, MILESTONES_SCHEMA),
    }
    regimes = InTimeSlices(split_time_slice, REGIME_COLUMNS, merge_regimes, REGIMES_SCHEMA)
    units = pass_units(runs, spark.sparkContext.defaultParallelism, split)
    whole = tables_of(spark, units, questions | in_passing, {"regimes": regimes}, _TOLD)
    return ObservedTables(
        **{name: table_of(whole, name, each.schema) for name, each in questions.items()},
        regimes=table_of(whole, "regimes", regimes.schema),
        whole=whole,
    )


def _all_channels(latency: pa.Table) -> pa.Table:
    found = latency.filter(pc.equal(latency["channel"], ALL_CHANNELS))
    return found.select(["run", "histogram"])


def _without_histogram(latency: pa.Table) -> pa.Table:
    return latency.drop_columns(["histogram"])


def _as_it_is(table: pa.Table) -> pa.Table:
    return table


_PREFIX = "told."
_TOLD: Mapping[str, tuple[str, Merge]] = {
    "told.messages": ("messages", _as_it_is),
    "told.throughput": ("throughput", Sums(_WINDOW, ("buffers", "records", "payload_bytes"))),
    "told.throughput_by_channel": ("throughput", Sums(("run", "channel"), ("records",))),
    "told.backlog": ("backlog", Sums(_WINDOW, *_SAMPLES)),
    "told.backlog_by_channel": ("backlog", Sums(("run", "channel"), *_SAMPLES)),
    "told.latency": ("latency", _without_histogram),
    "told.histograms": ("latency", _all_channels),
    "told.credit_starved": ("credit_starved", _as_it_is),
    "told.arrivals": ("arrivals", _as_it_is),
    "told.blocked": ("blocked", _as_it_is),
    "told.milestones": ("milestones", _as_it_is),
    "told.regimes": ("regimes", Sums(("run", "channel", "regime"), ("ns",))),
}
"""What the summary of a run needs, and the table that it is made from."""


def collect(tables: ObservedTables, runs: Sequence[RecordedRun]) -> list[ObservedRows]:
    """Compute all tables, and bring what the summaries need to the driver."""
    rows: dict[str, list[Row]] = {name.removeprefix(_PREFIX): [] for name in _TOLD}
    for row in tables.whole.where(tables.whole["name"].startswith(_PREFIX)).collect():
        rows[row["name"].removeprefix(_PREFIX)] = rows_in(row["rows"]).to_pylist()
    return [
        ObservedRows(
            **{
                name: [row for row in table if row["run"] == run.run]
                for name, table in rows.items()
            }
        )
        for run in runs
    ]


def measured_of(run: RecordedRun, rows: ObservedRows) -> Measured:
    """One run as bench would tell it, from its trace alone.

    `bytes` are those of record values: payload less what the stream adds to each record. The
    uncorrected latency cannot be told from a trace.
    """
    total = latency_row(rows, ALL_CHANNELS)
    duration_ns = max(run.to_ns, total["consumed_to_ns"] if total else 0) - run.from_ns
    records = total["count"] if total else 0
    value_bytes = round(total["payload_bytes"] - OVERHEAD_BYTES * records) if total else 0
    if run.manifest.is_from_between:
        records = sum(row["records"] for row in rows.throughput)
        payload_bytes = sum(row["payload_bytes"] for row in rows.throughput)
        value_bytes = payload_bytes - OVERHEAD_BYTES * records
    sent = [row for row in rows.messages if row["point"] == TracePoint.SENT]
    responses = [row for row in sent if row["kind"] == MessageKind.BUFFER_RESPONSE]
    data = [row for row in responses if row["data_type"] in IS_BUFFER]
    seen_at = TracePoint.RECEIVED if run.manifest.is_from_between else TracePoint.SENT
    credit = [
        row
        for row in rows.messages
        if row["kind"] == MessageKind.ADD_CREDIT and row["point"] == seen_at
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
        backlog_buffers=_backlog(rows.backlog),
        credits=CreditSummary(
            announced=sum(row["credit"] for row in credit),
            messages=_messages(credit),
            starved_ns=sum(row["starved_ns"] for row in rows.credit_starved),
        ),
        flushes=FlushCounts(
            full=_left_because(data, FlushReason.FULL),
            timeout=_left_because(data, FlushReason.FLUSH),
            event=_left_because(data, FlushReason.EVENT, FlushReason.END),
        ),
    )


def channels_of(run: RecordedRun, rows: ObservedRows, duration_ns: int) -> list[ChannelMeasured]:
    """Each channel of the manifest that carried records or buffers."""
    backlog = {row["channel"]: row for row in rows.backlog_by_channel}
    measured = []
    for info in run.manifest.channels:
        row = latency_row(rows, info.index)
        if row is None and info.index not in backlog:
            continue
        records = row["count"] if row else 0
        measured.append(
            ChannelMeasured(
                channel=info.index,
                producer=info.producer,
                consumer=info.consumer,
                records=records,
                throughput_records_per_s=records * 1e9 / duration_ns if records else None,
                latency_ns=latency_summary(row),
                backlog_buffers=_backlog([backlog[info.index]] if info.index in backlog else []),
            )
        )
    return measured


def latency_row(rows: ObservedRows, channel: int) -> Row | None:
    """The latency of one channel, or of ALL_CHANNELS; None without records."""
    return next((row for row in rows.latency if row["channel"] == channel), None)


def latency_summary(row: Row | None) -> LatencySummary:
    """The fields of a LatencySummary out of a row that has them."""
    if row is None or row["count"] is None:
        return LatencySummary(count=0)
    return LatencySummary(**{each.name: row[each.name] for each in fields(LatencySummary)})


def _messages(rows: Sequence[Row]) -> int:
    return sum(row["messages"] for row in rows)


def _left_because(rows: Sequence[Row], *reasons: FlushReason) -> int:
    return _messages([row for row in rows if row["reason"] in reasons])


def _backlog(rows: Sequence[Row]) -> BacklogSummary:
    buffers = sum(row["buffers"] for row in rows)
    if not buffers:
        return BacklogSummary(None, None)
    return BacklogSummary(
        mean=sum(row["backlog_buffers_sum"] for row in rows) / buffers,
        max=max(row["backlog_buffers_max"] for row in rows),
    )
