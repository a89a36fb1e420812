"""Details of runs for the page, read from their traces: how full buffers were, and channels over
time in narrow windows.

Windows without events are left out. Windows continue until the last record of the measured part was
consumed; regimes are those of the measured part alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flinknet.arrays import EventColumns, IntArray
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.predict.exchange import recorded_network
from flinknet.results import ChannelOverTime, FillRatios, RecordedEnvironment, RunDetails
from flinknet.trace.event_block import is_data

from ..spark.frames import Columns, collected
from .measured import FLUSH_REASONS, ObservedRun
from .observed import ObservedTables
from .question import Question, group_rows, is_at, is_measured, of_blocks, sum_by_group
from .regimes import REGIMES, RegimeRow
from .traffic import window_width_ns
from .tree import ask, named_table
from .units import Unit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANNELS_MAX = 16
"""Most channels that are shown over time: those with the highest p99."""

FILL_BINS = 20
FILL_RATIOS = "fill_ratios"

_COUNTED = ("records", "buffers", "backlog_sum", "credits", "credit_sum")
_NO_CREDIT = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class ChannelWindowRow:
    """A channel in a narrow window, whose `from_ns` counts from the start of the measured part."""

    run: int
    channel: int
    from_ns: int
    records: int  # consumed records
    buffers: int  # buffers that carried a backlog, with its sum and maximum over them
    backlog_sum: int
    credits: int  # changes of the producer's credit, with its sum and minimum over them
    credit_sum: int
    backlog_max: int
    credit_min: int


@dataclass(frozen=True, slots=True)
class FillRow:
    """Data buffers by the reason for which they left and their fill ratio."""

    run: int
    reason: int
    bin: int
    buffers: int
    payload_bytes: int


def run_details(
    spark: SparkSession, tables: ObservedTables, observed: Sequence[ObservedRun]
) -> list[RunDetails]:
    """The details of each run, in their order. Reads the traces once more."""
    runs = [each.run for each in observed]
    sizes = {run.run: recorded_network(run.manifest).segment_size_bytes for run in runs}
    shown = {each.run.run: _slowest(each) for each in observed}
    found = ask(spark, tables.units, WINDOWS, fill_ratios(sizes))
    of_windows = named_table(found, WINDOWS.name, ChannelWindowRow)
    windows = collected(ChannelWindowRow, _wanted(of_windows, shown))
    fills = collected(FillRow, named_table(found, FILL_RATIOS, FillRow))
    regimes = collected(RegimeRow, _wanted(tables.rows("regimes"), shown))
    return [
        RunDetails(
            _fill(sizes[each.run.run], [row for row in fills if row.run == each.run.run]),
            RecordedEnvironment(
                each.run.manifest.host,
                each.run.manifest.versions,
                each.run.manifest.scenario.get("workload", {}),
            ),
            each.measured.duration_ns,
            max(len(each.run.manifest.channels) - CHANNELS_MAX, 0),
            tuple(_channel(each, own, windows, regimes) for own in sorted(shown[each.run.run])),
        )
        for each in observed
    ]


def fill_ratios(segment_sizes: Mapping[int, int]) -> Question:
    """The question how full data buffers left; segment sizes by run, in bytes."""
    return Question(
        FILL_RATIOS,
        FillRow,
        keys=("run", "reason", "bin"),
        sums=("buffers", "payload_bytes"),
        by=None,
        ask=of_blocks(_measure_fill, segment_sizes=segment_sizes),
    )


def narrow_width_ns(duration_ns: int) -> int:
    return max(window_width_ns(duration_ns) // 10, 1)


def _by_window(unit: Unit, block: EventColumns) -> Iterator[Columns]:
    width_ns = narrow_width_ns(unit.to_ns - unit.from_ns)
    is_sent, is_taken = (is_data(block, each) for each in (TracePoint.SENT, TracePoint.CONSUMED))
    has_backlog = is_sent & (block["backlog_buffers"] >= 0)
    is_credit = is_at(block, MessageKind.ADD_CREDIT, TracePoint.RECEIVED)
    has_credit = (is_sent | is_credit) & (block["credit_after"] >= 0)
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
    counted = {
        "records": np.where(is_taken, np.maximum(block["records"], 0), 0)[keep],
        "buffers": has_backlog[keep],
        "backlog_sum": backlog,
        "credits": has_credit[keep],
        "credit_sum": credit,
    }
    yield {
        "channel": channel,
        "from_ns": window * width_ns,
        "backlog_max": backlog_max,
        "credit_min": credit_min,
        **{name: sum_by_group(group, each, groups) for name, each in counted.items()},
    }


def _measure_fill(
    unit: Unit, block: EventColumns, *, segment_sizes: Mapping[int, int]
) -> Iterator[Columns]:
    keep = is_data(block, TracePoint.SENT) & is_measured(unit, block["at_ns"])
    payload_bytes = block["payload_bytes"][keep].astype(np.int64)
    bins = fill_bin(payload_bytes, segment_sizes[unit.run])
    (reason, number), group = group_rows(block["reason"][keep], bins)
    yield {
        "reason": reason,
        "bin": number,
        "buffers": np.bincount(group, minlength=len(reason)),
        "payload_bytes": sum_by_group(group, payload_bytes, len(reason)),
    }


def fill_bin(payload_bytes: IntArray, size_bytes: int) -> IntArray:
    """Bin i has ratios above i / FILL_BINS, up to (i + 1) / FILL_BINS."""
    number: IntArray = -(-payload_bytes * FILL_BINS // size_bytes) - 1
    return np.clip(number, 0, FILL_BINS - 1)


def _slowest(observed: ObservedRun) -> list[int]:
    """The channels with the highest p99 or, between processes, the largest backlog."""
    rows = observed.rows
    ranks: list[tuple[float, int, int]]
    if observed.run.manifest.is_from_between:
        backlog = rows.backlog_by_channel
        ranks = [(-x.backlog_buffers_sum / x.buffers, -x.buffers, x.channel) for x in backlog]
    else:
        ranks = [(-(x.latency_ns.p99 or 0), -x.latency_ns.count, x.channel) for x in rows.latency]
    return [channel for *_, channel in sorted(ranks)[:CHANNELS_MAX]]


def _wanted(table: DataFrame, shown: Mapping[int, Sequence[int]]) -> DataFrame:
    from pyspark.sql import functions as f

    condition = f.lit(False)
    for run, channels in shown.items():
        condition = condition | ((f.col("run") == run) & f.col("channel").isin(list(channels)))
    return table.where(condition)


def _fill(size_bytes: int, rows: Sequence[FillRow]) -> FillRatios:
    counts = {name: [0] * FILL_BINS for name in FLUSH_REASONS}
    for row in rows:
        for name, reasons in FLUSH_REASONS.items():
            if row.reason in reasons:
                counts[name][row.bin] += row.buffers
    buffers = sum(row.buffers for row in rows)
    mean = sum(row.payload_bytes for row in rows) / (buffers * size_bytes) if buffers else None
    found = {name: tuple(each) for name, each in counts.items()}
    return FillRatios(FILL_BINS, mean, size_bytes, **found)


def _channel(
    observed: ObservedRun,
    channel: int,
    windows: Sequence[ChannelWindowRow],
    regimes: Sequence[RegimeRow],
) -> ChannelOverTime:
    """One channel over time, in columns because there are many windows."""
    run, duration_ns = observed.run, observed.measured.duration_ns
    key = run.run, channel
    windows = [each for each in windows if (each.run, each.channel) == key]
    windows = [each for each in windows if each.from_ns < duration_ns]
    regimes = [each for each in regimes if (each.run, each.channel) == key]
    regimes.sort(key=lambda row: row.from_ns)
    return ChannelOverTime(
        channel,
        narrow_width_ns(run.duration_ns),
        _columns(windows, ("from_ns", *_COUNTED))
        | {
            "backlog_max": tuple(row.backlog_max if row.buffers else None for row in windows),
            "credit_min": tuple(row.credit_min if row.credits else None for row in windows),
        },
        _columns(regimes, ("from_ns", "width_ns", *REGIMES)),
    )


def _columns(rows: Sequence[object], names: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(getattr(row, name) for row in rows) for name in names}


WINDOWS = Question(
    "windows",
    ChannelWindowRow,
    keys=("run", "channel", "from_ns"),
    sums=_COUNTED,
    maxima=("backlog_max",),
    minima=("credit_min",),
    ask=of_blocks(_by_window),
)
