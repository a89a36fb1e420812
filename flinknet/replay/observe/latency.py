"""Latency of records: from the intended instant until the consumer was done with the buffer that
holds the end of it.

The records of a buffer are taken as evenly spread between the first and the last of them, whose
instants are recorded. A record counts if its intended instant lies in the measured window, whenever
it arrived.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from flinknet.arrays import IntArray
from flinknet.core.probe import TracePoint
from flinknet.histogram import LogLinearHistogram
from flinknet.trace.event_block import EventBlock, EventColumns

from ..spark.frames import Columns, merged, schema_of
from ..spark.units import Asked, Question, Tally, WorkUnit, ask, is_measured, of_all_channels
from .few_latencies import FewLatencies

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS = (
    "at_ns",
    "channel",
    "point",
    "kind",
    "data_type",
    "payload_bytes",
    "records",
    "first_record_ns",
    "last_record_ns",
)
_TAKEN = ("at_ns", "channel", "payload_bytes", "records", "first_record_ns", "last_record_ns")
_RECORDS_AT_ONCE = 1 << 20

CHANNELS_HELD_MAX = 1_000
"""Of which a unit keeps histograms that can be added to: 45 KB for each."""

FEW_HELD_MAX = 1 << 20
"""Records, of channels with few of them, that are held until rows are made of them."""

COMPILED_FROM_RECORDS = 200
"""Of a channel in a block. Below that the plain way is as fast, for many channels at once."""


@dataclass(frozen=True, slots=True)
class LatencyPart:
    """What a unit knows of the records of one channel."""

    run: int
    channel: int
    payload_bytes: float
    consumed_to_ns: int
    histogram: bytes


@dataclass(frozen=True, slots=True)
class ChannelLatency:
    """The latency of a channel, or of ALL_CHANNELS.

    Attributes:
        payload_bytes: of the records that count.
        consumed_to_ns: when the last of them was.
        count: number of records; this and what follows are fields of `results.LatencySummary`.
    """

    run: int
    channel: int
    payload_bytes: float
    consumed_to_ns: int
    count: int
    min: int | None
    mean: float | None
    p50: float | None
    p75: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    p99_9: float | None
    p99_99: float | None
    max: int | None


@dataclass(frozen=True, slots=True)
class LatencyRow(ChannelLatency):
    """The same with its distribution, for `LogLinearHistogram.from_bytes`."""

    histogram: bytes


@dataclass(slots=True)
class _Consumed:
    """What is known of the records of one channel."""

    histogram: LogLinearHistogram = field(default_factory=LogLinearHistogram)
    payload_bytes: float = 0.0
    consumed_to_ns: int = 0


def latency_percentiles(spark: SparkSession, units: Sequence[WorkUnit]) -> DataFrame:
    """Latency of each channel, and of all together as channel -1.

    Returns: rows of LatencyRow.
    """
    return merged(ask(spark, units, LATENCY), _with_total, LatencyRow)


def _with_total(parts: pa.Table) -> pa.Table:
    channels = merge_latency(parts)
    return pa.concat_tables([total_latency(channels), channels])


def merge_latency(parts: pa.Table) -> pa.Table:
    """LatencyRow of each channel, from the answers to LATENCY."""
    rows = [
        {
            "run": run,
            "channel": channel,
            "payload_bytes": whole.payload_bytes,
            "consumed_to_ns": whole.consumed_to_ns,
            **asdict(whole.histogram.summary()),
            "histogram": whole.histogram.to_bytes(),
        }
        for run, channel, whole in _whole(parts)
    ]
    return pa.Table.from_pylist(rows, schema=schema_of(LatencyRow))


def total_latency(rows: pa.Table) -> pa.Table:
    """LatencyRow of all channels of each run, from rows of some of them or from such totals."""
    return merge_latency(of_all_channels(rows))


def combine_latency(parts: pa.Table) -> pa.Table:
    """One answer to LATENCY for each channel."""
    rows = [
        {
            "run": run,
            "channel": channel,
            "payload_bytes": whole.payload_bytes,
            "consumed_to_ns": whole.consumed_to_ns,
            "histogram": whole.histogram.to_bytes(),
        }
        for run, channel, whole in _whole(parts)
    ]
    return pa.Table.from_pylist(rows, schema=schema_of(LatencyPart))


def _whole(parts: pa.Table) -> Iterator[tuple[int, int, _Consumed]]:
    """What is known of each channel, by run and channel; one is in memory at a time."""
    keys = [("run", "ascending"), ("channel", "ascending")]
    names = ["run", "channel", "payload_bytes", "consumed_to_ns", "histogram"]
    rows = parts.select(names).sort_by(keys)
    last: tuple[int, int] | None = None
    whole = _Consumed()
    for part in rows.to_pylist():
        key = part["run"], part["channel"]
        if key != last:
            if last is not None:
                yield *last, whole
            last, whole = key, _Consumed()
        whole.histogram.merge_bytes(part["histogram"])
        whole.payload_bytes += part["payload_bytes"]
        whole.consumed_to_ns = max(whole.consumed_to_ns, part["consumed_to_ns"])
    if last is not None:
        yield *last, whole


def spread_records(
    records: IntArray, first_ns: IntArray, last_ns: IntArray
) -> tuple[IntArray, IntArray]:
    """The instants of the records of some buffers, evenly spread in each.

    Returns: for each record the index of its buffer, and its instant.
    """
    buffer = np.repeat(np.arange(len(records)), records)
    position = np.arange(len(buffer)) - np.repeat(np.cumsum(records) - records, records)
    steps = np.maximum(records - 1, 1)[buffer]
    return buffer, first_ns[buffer] + (last_ns - first_ns)[buffer] * position // steps


class _Latencies(Tally):
    """The latencies of the blocks of a unit, by channel."""

    def __init__(self, unit: WorkUnit, question: Question) -> None:
        super().__init__(unit, question)
        self._consumed: defaultdict[int, _Consumed] = defaultdict(_Consumed)
        self._few = FewLatencies()

    def take(self, block: EventBlock) -> None:
        """Count the records of a block that were consumed."""
        unit = self._unit
        rows = block.data_at(TracePoint.CONSUMED)
        if not len(rows["records"]):
            return
        self._take_bare_buffers(rows)
        keep = (rows["records"] > 0) & (rows["first_record_ns"] >= 0)
        keep &= rows["first_record_ns"] < unit.to_ns
        keep &= rows["last_record_ns"] >= unit.from_ns
        wanted = {name: rows[name] for name in _TAKEN}
        if not keep.all():
            kept = np.flatnonzero(keep)
            wanted = {name: values.take(kept) for name, values in wanted.items()}
        if not len(wanted["channel"]):
            return
        many, few = _by_records(wanted["channel"], wanted["records"])
        for start, end in many:
            channel = int(wanted["channel"][start])
            piece = {name: values[start:end] for name, values in wanted.items()}
            _add(unit, piece, self._consumed[channel])
        if len(few):
            self._take_few({name: values.take(few) for name, values in wanted.items()})
        if len(self._consumed) > CHANNELS_HELD_MAX or self._few.size > FEW_HELD_MAX:
            self._pack()

    def answers(self) -> Iterable[Columns]:
        """Rows of each channel, one or a few."""
        self._pack()
        return self._answers

    def _take_bare_buffers(self, rows: EventColumns) -> None:
        """Buffers in which no record ends hold a piece of one: their bytes count by when they were
        taken."""
        bare = np.flatnonzero(rows["records"] == 0)
        if not len(bare):
            return
        bare = bare[is_measured(self._unit, rows["at_ns"].take(bare))]
        channel, payload_bytes = (rows[name].take(bare) for name in ("channel", "payload_bytes"))
        self._few.add_buffers(channel, payload_bytes, np.zeros(len(bare), np.int64))

    def _take_few(self, rows: EventColumns) -> None:
        """Buffers of channels that have few records each."""
        records, at_ns, channel = rows["records"], rows["at_ns"], rows["channel"]
        buffer, intended_ns = spread_records(
            records, rows["first_record_ns"], rows["last_record_ns"]
        )
        counts = (intended_ns >= self._unit.from_ns) & (intended_ns < self._unit.to_ns)
        buffer = buffer[counts]
        inside = np.bincount(buffer, minlength=len(records))
        # Whole bytes, so that sums do not depend on their order.
        payload_bytes = rows["payload_bytes"] * inside // records
        self._few.add_buffers(channel, payload_bytes, np.where(inside > 0, at_ns, 0))
        self._few.add_records(channel[buffer], at_ns[buffer] - intended_ns[counts])

    def _pack(self) -> None:
        """Make rows of what is held: a histogram takes a tenth of the memory then."""
        few, self._few = self._few, FewLatencies()
        self._answers += few.answers(self._unit.run)
        parts, self._consumed = self._consumed, defaultdict(_Consumed)
        if not parts:
            return
        rows: Columns = {
            "run": [self._unit.run] * len(parts),
            "channel": list(parts),
            "payload_bytes": [part.payload_bytes for part in parts.values()],
            "consumed_to_ns": [part.consumed_to_ns for part in parts.values()],
            "histogram": [part.histogram.to_bytes() for part in parts.values()],
        }
        self._answers.append(rows)


def _measure(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Columns]:
    tally = _Latencies(unit, _measure)
    for block in blocks:
        tally.take(block)
    yield from tally.answers()


def _by_records(channel: IntArray, records: IntArray) -> tuple[Iterator[tuple[int, int]], IntArray]:
    """Rows, which are sorted by channel, of channels with many records, as pieces of them; and the
    numbers of all others."""
    bounds = np.r_[0, np.flatnonzero(channel[1:] != channel[:-1]) + 1, len(channel)]
    is_few = np.add.reduceat(records, bounds[:-1], dtype=np.int64) < COMPILED_FROM_RECORDS
    many = np.flatnonzero(~is_few)
    ranges = zip(bounds[many].tolist(), bounds[many + 1].tolist(), strict=True)
    return _pieces(ranges, records), np.flatnonzero(np.repeat(is_few, np.diff(bounds)))


def _pieces(ranges: Iterable[tuple[int, int]], records: IntArray) -> Iterator[tuple[int, int]]:
    """Ranges of rows with not many more than _RECORDS_AT_ONCE records."""
    for low, high in ranges:
        before = np.cumsum(records[low:high], dtype=np.int64)
        if before[-1] <= _RECORDS_AT_ONCE:
            yield low, high
            continue
        portion = (before - records[low]) // _RECORDS_AT_ONCE
        cuts = np.flatnonzero(np.r_[True, portion[1:] != portion[:-1], True]) + low
        yield from pairwise(cuts.tolist())


def _add(unit: WorkUnit, rows: EventColumns, into: _Consumed) -> None:
    records, payload_bytes = rows["records"], rows["payload_bytes"]
    inside = add_latencies(into.histogram, rows, unit.from_ns, unit.to_ns)
    if np.array_equal(inside, records):
        into.payload_bytes += float(payload_bytes.sum(dtype=np.int64))
        into.consumed_to_ns = max(into.consumed_to_ns, int(rows["at_ns"].max()))
    elif inside.any():
        # Whole bytes, so that sums do not depend on their order.
        into.payload_bytes += float((payload_bytes * inside // records).sum())
        into.consumed_to_ns = max(into.consumed_to_ns, int(rows["at_ns"][inside > 0].max()))


def add_latencies(
    histogram: LogLinearHistogram, rows: EventColumns, from_ns: int, to_ns: int
) -> IntArray:
    """Count how long before `at_ns` the records of some buffers came; those that came in
    [from_ns, to_ns). Many are counted by compiled code.

    Returns: for each buffer how many did.
    """
    records = rows["records"]
    if records.sum() >= COMPILED_FROM_RECORDS:
        from .latency_kernel import count_latencies

        first_ns, last_ns = rows["first_record_ns"], rows["last_record_ns"]
        inside: IntArray = np.zeros(len(records), np.int64)
        whole = np.zeros(3, np.int64)  # total, smallest, largest
        count_latencies(
            rows["at_ns"],
            records,
            first_ns,
            last_ns,
            (from_ns, to_ns),
            histogram.counts,
            inside,
            whole,
        )
        histogram.add_totals(int(inside.sum()), *whole.tolist())
        return inside
    buffer, intended_ns = spread_records(records, rows["first_record_ns"], rows["last_record_ns"])
    counts = (intended_ns >= from_ns) & (intended_ns < to_ns)
    buffer = buffer[counts]
    histogram.add(rows["at_ns"][buffer] - intended_ns[counts])
    return np.bincount(buffer, minlength=len(records))


LATENCY = Asked(_measure, _COLUMNS, LatencyPart, _Latencies)
