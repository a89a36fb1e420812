"""The observed answers of all runs as tables, and each run's share of them as plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.results import (
    BacklogSummary,
    ChannelMeasured,
    CreditSummary,
    FlushCounts,
    LatencySummary,
    Measured,
)
from flinknet.workload.payload import OVERHEAD_BYTES

from .backlog import BACKLOG, merge_backlog
from .credit import STARVED, merge_starved
from .latency import LATENCY, merge_latency
from .messages import MESSAGES, merge_messages
from .regimes import regimes_over_time
from .slices import arrivals_asked, merge_arrivals, slice_edges
from .throughput import THROUGHPUT, merge_throughput
from .units import ALL_CHANNELS, RecordedRun, ask_together, in_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]

_BACKLOG_SUMS = ("buffers", "backlog_buffers_sum")


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

    def named(self) -> dict[str, DataFrame]:
        """The tables by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True)
class ObservedRows:
    """The rows of all tables that one run's summary needs: each has as many rows as there are
    channels, or windows."""

    messages: list[Row]
    throughput: list[Row]  # over all channels
    backlog: list[Row]  # over all channels
    backlog_by_channel: list[Row]
    latency: list[Row]
    credit_starved: list[Row]
    regimes: list[Row]  # over all windows
    arrivals: list[Row]
    histograms: list[Row]  # of the latency over all channels


def observe(
    spark: SparkSession, units: DataFrame, runs: Sequence[RecordedRun], split: int | None = None
) -> ObservedTables:
    """Put every question to the work units; nothing is computed before the tables are read. Blocks
    are read twice: once for all questions but the regimes, once for those.

    Args:
        split: stretches that each run is cut into for the regimes, and slices for the arrivals;
            None for what suits.
    """
    parts = ask_together(
        units,
        {
            "messages": MESSAGES,
            "throughput": THROUGHPUT,
            "backlog": BACKLOG,
            "latency": LATENCY,
            "credit_starved": STARVED,
            "arrivals": arrivals_asked({run.run: slice_edges(run, split) for run in runs}),
        },
    )
    return ObservedTables(
        messages=merge_messages(parts["messages"]).cache(),
        throughput=merge_throughput(parts["throughput"]).cache(),
        backlog=merge_backlog(parts["backlog"]).cache(),
        latency=merge_latency(parts["latency"]).cache(),
        credit_starved=merge_starved(parts["credit_starved"]).cache(),
        arrivals=merge_arrivals(parts["arrivals"]).cache(),
        regimes=regimes_over_time(
            spark, [run for run in runs if not run.manifest.is_from_between], split
        ).cache(),
    )


def collect(tables: ObservedTables, runs: Sequence[RecordedRun]) -> list[ObservedRows]:
    """Compute all tables, and bring what the summaries need to the driver."""
    from pyspark.sql import functions as f

    windows = ("run", "from_ns", "width_ns")
    samples = [f.sum(name).alias(name) for name in _BACKLOG_SUMS]
    samples.append(f.max("backlog_buffers_max").alias("backlog_buffers_max"))
    taken = [f.sum(name).alias(name) for name in ("buffers", "records", "payload_bytes")]
    frames = {
        "messages": tables.messages,
        "throughput": in_order(tables.throughput.groupBy(*windows).agg(*taken), *windows),
        "backlog": in_order(tables.backlog.groupBy(*windows).agg(*samples), *windows),
        "backlog_by_channel": tables.backlog.groupBy("run", "channel").agg(*samples),
        "latency": tables.latency.drop("histogram"),
        "histograms": tables.latency.where(f"channel = {ALL_CHANNELS}").select("run", "histogram"),
        "credit_starved": tables.credit_starved,
        "arrivals": tables.arrivals,
        "regimes": tables.regimes.groupBy("run", "channel", "regime").agg(f.sum("ns").alias("ns")),
    }
    rows = {name: [row.asDict() for row in frame.collect()] for name, frame in frames.items()}
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
