"""Details of runs: for the page, how full buffers were and channels over time in narrow windows;
for notebooks, each buffer, the credit over time, and announced buffer sizes. All read the traces.

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
from flinknet.results import (
    ChannelOverTime,
    FillRatios,
    RecordedEnvironment,
    RunDetails,
)
from flinknet.trace.buffers import paired_buffers
from flinknet.trace.event_block import is_data

from ..read import RecordedRun
from ..spark.frames import Columns, collected, in_order
from .channel_events import ChannelEvents
from .measured import FLUSH_REASONS, ObservedRun
from .observed import ObservedTables
from .question import Question, group_rows, is_at, is_measured, of_blocks, sum_by_group
from .regimes import REGIMES, RegimeRow
from .traffic import window_width_ns
from .tree import ask, ask_merged
from .units import Group, Unit, work_units

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANNELS_MAX = 16
"""Most channels that are shown over time: those with the highest p99."""

WINDOWS_PER_WIDE_ONE = 10
"""Narrow windows in one of `traffic.window_width_ns`."""

FILL_BINS = 20

_COUNTED = ("records", "buffers", "backlog_sum", "credits", "credit_sum")
_PAIRED = (
    *("sequence_number", "first_record_ns", "sent_ns", "received_ns", "consumed_ns"),
    *("records", "payload_bytes", "reason"),
)
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


@dataclass(frozen=True, slots=True)
class BufferRow:
    """A data buffer; instants of the trace's clock, None where the first record's was not recorded;
    `reason` as in the trace."""

    run: int
    channel: int
    sequence_number: int
    first_record_ns: int | None
    sent_ns: int
    received_ns: int
    consumed_ns: int
    records: int
    payload_bytes: int
    reason: int


@dataclass(frozen=True, slots=True)
class BufferSizeRow:
    """A buffer size that a consumer announced; `at_ns` counts from the start of the measured part,
    `point` is where it was recorded."""

    run: int
    channel: int
    at_ns: int
    point: int
    size_bytes: int


def run_details(
    spark: SparkSession, tables: ObservedTables, observed: Sequence[ObservedRun]
) -> list[RunDetails]:
    """The details of each run, in their order. Reads the traces twice more."""
    runs = [each.run for each in observed]
    sizes = {run.run: recorded_network(run.manifest).segment_size_bytes for run in runs}
    shown = {each.run.run: _slowest(each) for each in observed}
    windows = collected(ChannelWindowRow, _wanted(ask_merged(spark, tables.units, WINDOWS), shown))
    fills = collected(FillRow, ask_merged(spark, tables.units, fill_ratios(sizes)))
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
    """The question how full data buffers were when they left, in FILL_BINS bins of the ratio of
    payload to the segment size of their run, in bytes."""
    return Question(
        "fill_ratios",
        FillRow,
        keys=("run", "reason", "bin"),
        sums=("buffers", "payload_bytes"),
        ask=of_blocks(_measure_fill, segment_sizes=segment_sizes),
    )


def narrow_width_ns(duration_ns: int) -> int:
    return max(window_width_ns(duration_ns) // WINDOWS_PER_WIDE_ONE, 1)


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
    (reason, number), group = group_rows(
        block["reason"][keep], fill_bin(payload_bytes, segment_sizes[unit.run])
    )
    yield {
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


def _slowest(observed: ObservedRun) -> list[int]:
    """The channels to show over time: those with the highest p99, or, recorded between processes,
    with the largest backlog."""
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


def buffers(
    spark: SparkSession, runs: Sequence[RecordedRun], split: int | None = None
) -> DataFrame:
    """Each data buffer sent in the measured part, with the events of its producer and its consumer.
    Returns: rows of BufferRow.

    Left out are buffers whose consumer was not done with them when the recording ended, and those
    recorded between processes. Runs are read in `split` slices of time; None for a number that
    suits their size.
    """
    from pyspark.sql import functions as f

    found = ask(spark, work_units(runs, split), BUFFERS)
    came = f.col("first_record_ns")
    return found.withColumn("first_record_ns", f.when(came >= 0, came))


def credit(spark: SparkSession, runs: Sequence[RecordedRun]) -> DataFrame:
    """The producer's credit of each channel over time, also recorded between processes. Windows in
    which it did not change are left out. Returns: run, channel, from_ns (of the window, counted
    from the start of the measured part), changes (of the credit), credit_mean and credit_min over
    them."""
    from pyspark.sql import functions as f

    return (
        ask_merged(spark, work_units(runs), WINDOWS)
        .where("credits > 0")
        .select(
            *("run", "channel", "from_ns"),
            f.col("credits").alias("changes"),
            (f.col("credit_sum") / f.col("credits")).alias("credit_mean"),
            "credit_min",
        )
    )


def buffer_sizes(spark: SparkSession, runs: Sequence[RecordedRun]) -> DataFrame:
    """The buffer sizes that consumers announced in the measured part; none without debloating.
    Returns: rows of BufferSizeRow."""
    return in_order(ask(spark, work_units(runs), BUFFER_SIZES), "run", "channel", "at_ns", "point")


def _paired(unit: Unit, group: Group, events: ChannelEvents) -> Iterator[tuple[str, Columns]]:
    for channel in group.channels.tolist():
        found = paired_buffers(events[channel])
        keep = (found.sent_ns >= unit.slice_from_ns) & (found.sent_ns < unit.slice_to_ns)
        own = {name: getattr(found, name)[keep] for name in _PAIRED}
        yield BUFFERS.name, {"channel": np.full(int(keep.sum()), channel)} | own


def _announced(unit: Unit, block: EventColumns) -> Iterator[Columns]:
    keep = (block["kind"] == MessageKind.NEW_BUFFER_SIZE) & (block["channel"] >= 0)
    keep &= is_measured(unit, block["at_ns"])
    yield {
        "channel": block["channel"][keep],
        "at_ns": block["at_ns"][keep] - unit.from_ns,
        "point": block["point"][keep],
        "size_bytes": block["value"][keep],
    }


WINDOWS = Question(
    "windows",
    ChannelWindowRow,
    keys=("run", "channel", "from_ns"),
    sums=_COUNTED,
    maxima=("backlog_max",),
    minima=("credit_min",),
    ask=of_blocks(_by_window),
)
BUFFERS = Question("buffers", BufferRow, ask_slice=_paired)
BUFFER_SIZES = Question("buffer_sizes", BufferSizeRow, ask=of_blocks(_announced))
