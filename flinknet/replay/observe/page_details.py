"""What a page shows in addition to the answer: how full buffers were, and each channel over time in
narrow windows.

Windows in which nothing happened are left out. They go on until the last record of the measured
part was consumed; regimes are those of the measured part alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.predict.exchange import recorded_network
from flinknet.results import (
    ChannelOverTime,
    ChannelWindows,
    FillRatios,
    RecordedEnvironment,
    RunDetails,
)
from flinknet.trace.event_block import EventColumns, is_data

from ..read import RecordedRun
from ..spark.frames import Columns, collected, in_order
from ..spark.units import Asked, WorkUnit, ask, is_measured
from .latency import ChannelLatency
from .observed import ObservedTables
from .regimes import REGIMES, RegimeRow
from .sums import group_rows, sum_by_group
from .windowed import window_width_ns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANNELS_MAX = 16
"""Channels that are shown over time: those with the highest p99."""

WINDOWS_PER_WIDE_ONE = 10
"""Narrow windows in one of `windowed.window_width_ns`."""

FILL_BINS = 20

_WINDOW_COLUMNS = (
    *("at_ns", "channel", "point", "kind", "data_type"),
    *("records", "backlog_buffers", "credit_after"),
)
_COUNTED = ("records", "buffers", "backlog_sum", "credits", "credit_sum")
_FILL_COLUMNS = ("at_ns", "point", "kind", "data_type", "reason", "payload_bytes")
_REASONS = {
    "full": (FlushReason.FULL,),
    "timeout": (FlushReason.FLUSH,),
    "event": (FlushReason.EVENT, FlushReason.END),
}
"""As in `results.FlushCounts`."""

_NO_CREDIT = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class ChannelWindowRow:
    """A channel in a narrow window, whose `from_ns` counts from the start of the measured part.

    Attributes:
        records: consumed.
        buffers: that carried a backlog, its sum and maximum over them.
        credits: changes of the producer's credit, its sum and minimum over them.
    """

    run: int
    channel: int
    from_ns: int
    records: int
    buffers: int
    backlog_sum: int
    credits: int
    credit_sum: int
    backlog_max: int
    credit_min: int


@dataclass(frozen=True, slots=True)
class FillRow:
    """Data buffers that left for a reason, by how full they were."""

    run: int
    reason: int
    bin: int
    buffers: int
    payload_bytes: int


def run_details(
    spark: SparkSession,
    units: Sequence[WorkUnit],
    tables: ObservedTables,
    runs: Sequence[RecordedRun],
) -> list[RunDetails]:
    """The details of each run, in their order. Reads the traces twice more."""
    latency = collected(ChannelLatency, tables.latency.drop("histogram"))
    shown, durations_ns = _slowest(tables, runs, latency), _durations_ns(runs, latency)
    windows = collected(ChannelWindowRow, _wanted(channel_windows(spark, units), shown))
    windows = [row for row in windows if row.from_ns < durations_ns[row.run]]
    fills = collected(FillRow, fill_ratios(spark, units, _segment_sizes(runs)))
    regimes = collected(RegimeRow, _wanted(tables.regimes, shown))
    return [
        RunDetails(
            _fill(run, [row for row in fills if row.run == run.run]),
            _environment(run),
            durations_ns[run.run],
            max(len(run.manifest.channels) - CHANNELS_MAX, 0),
            tuple(
                _channel(
                    run,
                    channel,
                    [each for each in windows if (each.run, each.channel) == (run.run, channel)],
                    [each for each in regimes if (each.run, each.channel) == (run.run, channel)],
                )
                for channel in sorted(shown[run.run])
            ),
        )
        for run in runs
    ]


def channel_windows(spark: SparkSession, units: Sequence[WorkUnit]) -> DataFrame:
    """Each channel in narrow windows of the measured part, and of the drain behind it.

    Returns: rows of ChannelWindowRow.
    """
    from pyspark.sql import functions as f

    merged = (
        ask(spark, units, Asked(_by_window, _WINDOW_COLUMNS, ChannelWindowRow))
        .groupBy("run", "channel", "from_ns")
        .agg(
            *(f.sum(name).alias(name) for name in _COUNTED),
            f.max("backlog_max").alias("backlog_max"),
            f.min("credit_min").alias("credit_min"),
        )
    )
    return in_order(merged, "run", "channel", "from_ns")


def fill_ratios(
    spark: SparkSession, units: Sequence[WorkUnit], segment_sizes: Mapping[int, int]
) -> DataFrame:
    """How full data buffers were when they left: payload by segment size, in FILL_BINS bins.

    Args:
        segment_sizes: of each run, in bytes.

    Returns: rows of FillRow.
    """
    from pyspark.sql import functions as f

    question = partial(_measure_fill, segment_sizes=dict(segment_sizes))
    merged = (
        ask(spark, units, Asked(question, _FILL_COLUMNS, FillRow))
        .groupBy("run", "reason", "bin")
        .agg(*(f.sum(name).alias(name) for name in ("buffers", "payload_bytes")))
    )
    return in_order(merged, "run", "reason", "bin")


def narrow_width_ns(duration_ns: int) -> int:
    """The width of a narrow window."""
    return max(window_width_ns(duration_ns) // WINDOWS_PER_WIDE_ONE, 1)


def _by_window(unit: WorkUnit, blocks: Iterator[EventColumns]) -> Iterator[Columns]:
    width_ns = narrow_width_ns(unit.to_ns - unit.from_ns)
    for block in blocks:
        has_backlog = is_data(block, TracePoint.SENT) & (block["backlog_buffers"] >= 0)
        is_credit = (block["kind"] == MessageKind.ADD_CREDIT) & (
            block["point"] == TracePoint.RECEIVED
        )
        has_credit = (is_data(block, TracePoint.SENT) | is_credit) & (block["credit_after"] >= 0)
        is_taken = is_data(block, TracePoint.CONSUMED)
        keep = (has_backlog | has_credit | is_taken) & (block["channel"] >= 0)
        keep &= (block["at_ns"] >= unit.from_ns) & (block["at_ns"] < unit.until_ns)
        (channel, window), group = group_rows(
            block["channel"][keep], (block["at_ns"][keep] - unit.from_ns) // width_ns
        )
        groups = len(channel)
        backlog = np.where(has_backlog, block["backlog_buffers"], 0)[keep].astype(np.int64)
        credit = np.where(has_credit, block["credit_after"], 0)[keep].astype(np.int64)
        backlog_max = np.zeros(groups, np.int64)
        np.maximum.at(backlog_max, group, backlog)
        credit_min = np.full(groups, _NO_CREDIT)
        np.minimum.at(credit_min, group[has_credit[keep]], credit[has_credit[keep]])
        records = np.where(is_taken, np.maximum(block["records"], 0), 0)[keep]
        yield {
            "run": np.full(groups, unit.run),
            "channel": channel,
            "from_ns": window * width_ns,
            "records": sum_by_group(group, records, groups),
            "buffers": sum_by_group(group, has_backlog[keep], groups),
            "backlog_sum": sum_by_group(group, backlog, groups),
            "backlog_max": backlog_max,
            "credits": sum_by_group(group, has_credit[keep], groups),
            "credit_sum": sum_by_group(group, credit, groups),
            "credit_min": credit_min,
        }


def _measure_fill(
    unit: WorkUnit, blocks: Iterator[EventColumns], *, segment_sizes: Mapping[int, int]
) -> Iterator[Columns]:
    size_bytes = segment_sizes[unit.run]
    for block in blocks:
        keep = is_data(block, TracePoint.SENT) & is_measured(unit, block["at_ns"])
        payload_bytes = block["payload_bytes"][keep].astype(np.int64)
        (reason, number), group = group_rows(
            block["reason"][keep], fill_bin(payload_bytes, size_bytes)
        )
        yield {
            "run": np.full(len(reason), unit.run),
            "reason": reason,
            "bin": number,
            "buffers": np.bincount(group, minlength=len(reason)),
            "payload_bytes": sum_by_group(group, payload_bytes, len(reason)),
        }


def fill_bin(payload_bytes: IntArray, size_bytes: int) -> IntArray:
    """Bin i holds ratios above i / FILL_BINS, up to (i + 1) / FILL_BINS: a full buffer is in the
    last one."""
    number: IntArray = -(-payload_bytes * FILL_BINS // size_bytes) - 1
    return np.clip(number, 0, FILL_BINS - 1)


def _segment_sizes(runs: Sequence[RecordedRun]) -> dict[int, int]:
    return {run.run: recorded_network(run.manifest).segment_size_bytes for run in runs}


def _slowest(
    tables: ObservedTables, runs: Sequence[RecordedRun], latency: Sequence[ChannelLatency]
) -> dict[int, list[int]]:
    """The channels that are shown over time, by run: those with the highest p99; where nobody timed
    records, those with the largest backlog."""
    order = {(row.run, row.channel): (-(row.p99 or 0), -(row.count or 0)) for row in latency}
    if any(run.manifest.is_from_between for run in runs):
        order |= _by_backlog(tables, [run.run for run in runs if run.manifest.is_from_between])
    ranked = sorted(order, key=lambda key: (order[key], key))
    return {
        run.run: [channel for number, channel in ranked if number == run.run and channel >= 0][
            :CHANNELS_MAX
        ]
        for run in runs
    }


def _by_backlog(
    tables: ObservedTables, runs: Sequence[int]
) -> dict[tuple[int, int], tuple[float, int]]:
    """Keys that put channels in the order of their mean backlog."""
    from pyspark.sql import functions as f

    sums = tables.backlog.groupBy("run", "channel").agg(
        f.sum("backlog_buffers_sum").alias("backlog"), f.sum("buffers").alias("buffers")
    )
    return {
        (row["run"], row["channel"]): (-row["backlog"] / row["buffers"], -row["buffers"])
        for row in sums.collect()
        if row["run"] in runs
    }


def _durations_ns(runs: Sequence[RecordedRun], latency: Sequence[ChannelLatency]) -> dict[int, int]:
    """Of each run: from the start of the measured part until its last record was consumed."""
    consumed_ns = {row.run: row.consumed_to_ns for row in latency if row.channel < 0}
    return {run.run: max(run.to_ns, consumed_ns.get(run.run) or 0) - run.from_ns for run in runs}


def _wanted(table: DataFrame, shown: Mapping[int, Sequence[int]]) -> DataFrame:
    """The rows of the channels shown."""
    from pyspark.sql import functions as f

    condition = f.lit(False)
    for run, channels in shown.items():
        condition = condition | ((f.col("run") == run) & f.col("channel").isin(list(channels)))
    return table.where(condition)


def _fill(run: RecordedRun, rows: Sequence[FillRow]) -> FillRatios:
    counts = {name: [0] * FILL_BINS for name in _REASONS}
    for row in rows:
        for name, reasons in _REASONS.items():
            if row.reason in reasons:
                counts[name][row.bin] += row.buffers
    size_bytes = recorded_network(run.manifest).segment_size_bytes
    buffers = sum(row.buffers for row in rows)
    mean = sum(row.payload_bytes for row in rows) / (buffers * size_bytes) if buffers else None
    found = {name: tuple(each) for name, each in counts.items()}
    return FillRatios(FILL_BINS, mean, size_bytes, **found)


def _environment(run: RecordedRun) -> RecordedEnvironment:
    manifest = run.manifest
    return RecordedEnvironment(
        manifest.host, manifest.versions, manifest.scenario.get("workload", {})
    )


def _channel(
    run: RecordedRun,
    channel: int,
    windows: Sequence[ChannelWindowRow],
    regimes: Sequence[RegimeRow],
) -> ChannelOverTime:
    """One channel over time; in columns, for there are many windows."""
    by_start: dict[int, dict[str, int]] = {}
    widths: dict[int, int] = {}
    for row in regimes:
        by_start.setdefault(row.from_ns, {})[row.regime] = row.ns
        widths[row.from_ns] = row.width_ns
    starts = sorted(by_start)
    counted = {
        name: tuple(getattr(row, name) for row in windows) for name in ("from_ns", *_COUNTED)
    }
    return ChannelOverTime(
        channel,
        narrow_width_ns(run.duration_ns),
        ChannelWindows(
            **counted,
            backlog_max=tuple(row.backlog_max if row.buffers else None for row in windows),
            credit_min=tuple(row.credit_min if row.credits else None for row in windows),
        ),
        {
            "from_ns": tuple(starts),
            "width_ns": tuple(widths[start] for start in starts),
            **{name: tuple(by_start[start].get(name, 0) for start in starts) for name in REGIMES},
        },
    )
