"""What a page shows beside the answer: how full buffers were, and each channel over time in narrow
windows.

    {"fill": {"bins": 20, "mean": …, "segment_size_bytes": …, "full": […], "timeout": […],
              "event": […]},
     "environment": {"host": {…}, "versions": {…}, "workload": {…}},
     "duration_ns": …, "channels_left_out": 0,
     "channels": [{"channel": 0, "window_ns": …, "windows": {"from_ns": […], …},
                   "regimes": {"from_ns": […], "width_ns": […], "idle": […], …}}, …]}

Lists of one object are of one length. Windows in which nothing happened are left out. They go on
until the last record of the measured part was done with, `duration_ns` after it began; regimes are
those of the measured part alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.probe import FlushReason, MessageKind, TracePoint
from flinknet.predict.exchange import recorded_network
from flinknet.trace.event_block import EventColumns, is_data

from ..spark.units import Answer, Asked, RecordedRun, WorkUnit, ask, in_order, is_measured
from .observed import ObservedTables
from .regimes import REGIMES
from .sums import group_rows, sum_by_group
from .windows import window_width_ns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHANNELS_MAX = 16
"""Channels that are told over time: those with the highest p99."""

WINDOWS_PER_WIDE_ONE = 10
"""Narrow windows in one of `windows.window_width_ns`."""

FILL_BINS = 20

_WINDOW_COLUMNS = (
    *("at_ns", "channel", "point", "kind", "data_type"),
    *("records", "backlog_buffers", "credit_after"),
)
_WINDOW_SCHEMA = (
    "run bigint, channel bigint, from_ns bigint, records bigint, buffers bigint,"
    " backlog_sum bigint, backlog_max bigint, credits bigint, credit_sum bigint, credit_min bigint"
)
_COUNTED = ("records", "buffers", "backlog_sum", "credits", "credit_sum")
_FILL_COLUMNS = ("at_ns", "point", "kind", "data_type", "reason", "payload_bytes")
_FILL_SCHEMA = "run bigint, reason bigint, bin bigint, buffers bigint, payload_bytes bigint"

_REASONS = {
    "full": (FlushReason.FULL,),
    "timeout": (FlushReason.FLUSH,),
    "event": (FlushReason.EVENT, FlushReason.END),
}
"""As in `results.FlushCounts`."""

_NO_CREDIT_SEEN = np.iinfo(np.int64).max


def run_details(
    units: DataFrame, tables: ObservedTables, runs: Sequence[RecordedRun]
) -> list[dict[str, Any]]:
    """The details of each run, in their order. Reads the traces twice more."""
    latency = _collected(tables.latency.drop("histogram"))
    shown, durations_ns = _slowest(tables, runs, latency), _durations_ns(runs, latency)
    windows = _collected(_windows_of(units, shown))
    windows = [row for row in windows if row["from_ns"] < durations_ns[row["run"]]]
    fills = _collected(fill_ratios(units, _segment_sizes(runs)))
    regimes = _collected(_wanted(tables.regimes, shown))
    return [
        {
            "fill": _fill(run, [row for row in fills if row["run"] == run.run]),
            "environment": _environment(run),
            "duration_ns": durations_ns[run.run],
            "channels_left_out": max(len(run.manifest.channels) - CHANNELS_MAX, 0),
            "channels": [
                _channel(
                    run,
                    channel,
                    [each for each in windows if _is_of(each, run, channel)],
                    [each for each in regimes if _is_of(each, run, channel)],
                )
                for channel in sorted(shown[run.run])
            ],
        }
        for run in runs
    ]


def channel_windows(units: DataFrame) -> DataFrame:
    """Each channel in narrow windows of the measured part, and of the drain behind it.

    Returns: run, channel, from_ns (counted from the start of the measured part); records consumed;
    buffers that told a backlog, its sum and maximum over them; changes of the producer's credit
    (`credits`), its sum and minimum over them.
    """
    from pyspark.sql import functions as f

    merged = (
        ask(units, Asked(_look, _WINDOW_COLUMNS, _WINDOW_SCHEMA))
        .groupBy("run", "channel", "from_ns")
        .agg(
            *(f.sum(name).alias(name) for name in _COUNTED),
            f.max("backlog_max").alias("backlog_max"),
            f.min("credit_min").alias("credit_min"),
        )
    )
    return in_order(merged, "run", "channel", "from_ns")


def fill_ratios(units: DataFrame, segment_sizes: Mapping[int, int]) -> DataFrame:
    """How full data buffers were when they left: payload by segment size, in FILL_BINS bins.

    Args:
        segment_sizes: of each run, in bytes.

    Returns: run, reason (ordinal), bin, buffers, payload_bytes.
    """
    from pyspark.sql import functions as f

    question = partial(_measure_fill, segment_sizes=dict(segment_sizes))
    merged = (
        ask(units, Asked(question, _FILL_COLUMNS, _FILL_SCHEMA))
        .groupBy("run", "reason", "bin")
        .agg(*(f.sum(name).alias(name) for name in ("buffers", "payload_bytes")))
    )
    return in_order(merged, "run", "reason", "bin")


def narrow_width_ns(duration_ns: int) -> int:
    """The width of a narrow window."""
    return max(window_width_ns(duration_ns) // WINDOWS_PER_WIDE_ONE, 1)


def _look(unit: WorkUnit, blocks: Iterator[EventColumns]) -> Iterator[Answer]:
    width_ns = narrow_width_ns(unit.to_ns - unit.from_ns)
    for block in blocks:
        tells_backlog = is_data(block, TracePoint.SENT) & (block["backlog_buffers"] >= 0)
        is_credit = (block["kind"] == MessageKind.ADD_CREDIT) & (
            block["point"] == TracePoint.RECEIVED
        )
        tells_credit = (is_data(block, TracePoint.SENT) | is_credit) & (block["credit_after"] >= 0)
        is_taken = is_data(block, TracePoint.CONSUMED)
        keep = (tells_backlog | tells_credit | is_taken) & (block["channel"] >= 0)
        keep &= (block["at_ns"] >= unit.from_ns) & (block["at_ns"] < unit.until_ns)
        (channel, window), group = group_rows(
            block["channel"][keep], (block["at_ns"][keep] - unit.from_ns) // width_ns
        )
        groups = len(channel)
        backlog = np.where(tells_backlog, block["backlog_buffers"], 0)[keep].astype(np.int64)
        credit = np.where(tells_credit, block["credit_after"], 0)[keep].astype(np.int64)
        backlog_max = np.zeros(groups, np.int64)
        np.maximum.at(backlog_max, group, backlog)
        credit_min = np.full(groups, _NO_CREDIT_SEEN)
        np.minimum.at(credit_min, group[tells_credit[keep]], credit[tells_credit[keep]])
        records = np.where(is_taken, np.maximum(block["records"], 0), 0)[keep]
        yield {
            "run": np.full(groups, unit.run),
            "channel": channel,
            "from_ns": window * width_ns,
            "records": sum_by_group(group, records, groups),
            "buffers": sum_by_group(group, tells_backlog[keep], groups),
            "backlog_sum": sum_by_group(group, backlog, groups),
            "backlog_max": backlog_max,
            "credits": sum_by_group(group, tells_credit[keep], groups),
            "credit_sum": sum_by_group(group, credit, groups),
            "credit_min": credit_min,
        }


def _measure_fill(
    unit: WorkUnit, blocks: Iterator[EventColumns], *, segment_sizes: Mapping[int, int]
) -> Iterator[Answer]:
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
    tables: ObservedTables, runs: Sequence[RecordedRun], latency: Sequence[Mapping[str, Any]]
) -> dict[int, list[int]]:
    """The channels that are told over time, by run: those with the highest p99; where nobody timed
    records, those with the largest backlog."""
    order = {
        (row["run"], row["channel"]): (-(row["p99"] or 0), -(row["count"] or 0)) for row in latency
    }
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
        for row in _collected(sums)
        if row["run"] in runs
    }


def _durations_ns(
    runs: Sequence[RecordedRun], latency: Sequence[Mapping[str, Any]]
) -> dict[int, int]:
    """Of each run: from the start of the measured part until its last record was done with."""
    done_ns = {row["run"]: row["consumed_to_ns"] for row in latency if row["channel"] < 0}
    return {run.run: max(run.to_ns, done_ns.get(run.run) or 0) - run.from_ns for run in runs}


def _windows_of(units: DataFrame, shown: Mapping[int, Sequence[int]]) -> DataFrame:
    return _wanted(channel_windows(units), shown)


def _wanted(table: DataFrame, shown: Mapping[int, Sequence[int]]) -> DataFrame:
    """The rows of the channels shown."""
    from pyspark.sql import functions as f

    condition = f.lit(False)
    for run, channels in shown.items():
        condition = condition | ((f.col("run") == run) & f.col("channel").isin(list(channels)))
    return table.where(condition)


def _collected(table: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in table.collect()]


def _is_of(row: Mapping[str, Any], run: RecordedRun, channel: int) -> bool:
    return bool(row["run"] == run.run and row["channel"] == channel)


def _fill(run: RecordedRun, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    counts = {name: [0] * FILL_BINS for name in _REASONS}
    for row in rows:
        for name, reasons in _REASONS.items():
            if row["reason"] in reasons:
                counts[name][row["bin"]] += row["buffers"]
    size_bytes = recorded_network(run.manifest).segment_size_bytes
    buffers = sum(row["buffers"] for row in rows)
    mean = sum(row["payload_bytes"] for row in rows) / (buffers * size_bytes) if buffers else None
    return {"bins": FILL_BINS, "mean": mean, "segment_size_bytes": size_bytes, **counts}


def _environment(run: RecordedRun) -> dict[str, Any]:
    manifest = run.manifest
    workload = manifest.scenario.get("workload", {})
    return {"host": manifest.host, "versions": manifest.versions, "workload": workload}


def _channel(
    run: RecordedRun,
    channel: int,
    windows: Sequence[Mapping[str, Any]],
    regimes: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """One channel over time; in columns, for there are many windows."""
    width_ns = narrow_width_ns(run.duration_ns)
    by_start: dict[int, dict[str, int]] = {}
    widths: dict[int, int] = {}
    for row in regimes:
        by_start.setdefault(row["from_ns"], {})[row["regime"]] = row["ns"]
        widths[row["from_ns"]] = row["width_ns"]
    starts = sorted(by_start)
    return {
        "channel": channel,
        "window_ns": width_ns,
        "windows": {
            "from_ns": [row["from_ns"] for row in windows],
            **{name: [row[name] for row in windows] for name in _COUNTED},
            "backlog_max": [row["backlog_max"] if row["buffers"] else None for row in windows],
            "credit_min": [row["credit_min"] if row["credits"] else None for row in windows],
        },
        "regimes": {
            "from_ns": starts,
            "width_ns": [widths[start] for start in starts],
            **{name: [by_start[start].get(name, 0) for start in starts] for name in REGIMES},
        },
    }
