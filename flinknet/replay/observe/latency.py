"""Latency of records: from the intended instant of a record until the consumer was done with the
buffer that holds its end.

The records of a buffer are assumed to be evenly spread between the first and the last one, whose
instants are recorded. A record counts if its intended instant lies in the measured window, whenever
it arrived.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from flinknet.arrays import IntArray
from flinknet.core.probe import TracePoint
from flinknet.histogram import LogLinearHistogram, encoded_by_group
from flinknet.predict.ramps import Ramps
from flinknet.results import LatencySummary
from flinknet.trace.event_block import EventBlock, EventColumns

from ..spark.frames import Columns, merged, schema_of
from .question import Ask, Question, Tally, is_measured
from .tree import ask
from .units import Unit, Units

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TAKEN = ("at_ns", "channel", "payload_bytes", "records", "first_record_ns", "last_record_ns")
_RECORDS_AT_ONCE = 1 << 20

_NONE = np.zeros(0, np.int64)

CHANNELS_HELD_MAX = 1_000
"""Channels whose histograms a unit keeps decoded, 45 KB for each."""

FEW_HELD_MAX = 1 << 20
"""Records that are held, of channels with few records, until rows are made of them."""

COMPILED_FROM_RECORDS = 200
"""Records of a channel in a block from which on they are counted by compiled code; below, numpy is
as fast, for many channels at once."""


@dataclass(frozen=True, slots=True)
class LatencyPart:
    """Records of a channel, as far as some units have read them; see LatencyRow."""

    run: int
    channel: int
    payload_bytes: float
    consumed_to_ns: int
    histogram: bytes


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """The latency of the records of a channel that count.

    Attributes:
        payload_bytes: payload of these records.
        consumed_to_ns: instant at which the last of them was consumed.
        histogram: encoded LogLinearHistogram; empty where only figures are needed.
    """

    run: int
    channel: int
    payload_bytes: float
    consumed_to_ns: int
    latency_ns: LatencySummary
    histogram: bytes = b""


@dataclass(slots=True)
class _Consumed:
    """Records of one channel."""

    histogram: LogLinearHistogram = field(default_factory=LogLinearHistogram)
    payload_bytes: float = 0.0
    consumed_to_ns: int = 0


def total_latency(spark: SparkSession, units: Units) -> DataFrame:
    """Latency of all channels together, a LatencyRow for each run."""
    return merged(ask(spark, units, LATENCY), total_of_channels, LatencyRow)


def total_of_channels(rows: pa.Table) -> pa.Table:
    """A LatencyRow of all channels together for each run, from LatencyParts or LatencyRows."""
    return LATENCY.over(rows, ("channel",))


def _with_figures(parts: pa.Table) -> pa.Table:
    """LatencyRows of LatencyParts."""
    schema = schema_of(LatencyRow)
    found = (LogLinearHistogram.from_bytes(each.as_py()) for each in parts["histogram"])
    figures = pa.array([asdict(each.summary()) for each in found], schema.field("latency_ns").type)
    return parts.append_column("latency_ns", figures).select(schema.names)


class _FewLatencies:
    """Latencies of channels with few records each, as arrays of all of them: a histogram for each
    channel would take 45 KB and a millisecond."""

    def __init__(self) -> None:
        self.size = 0
        self._buffers: list[tuple[IntArray, IntArray, IntArray]] = []
        self._records: list[tuple[IntArray, IntArray]] = []

    def add_buffers(
        self, channel: IntArray, payload_bytes: IntArray, consumed_to_ns: IntArray
    ) -> None:
        """Add buffers.

        Args:
            payload_bytes: payload of the records that count.
            consumed_to_ns: instant at which each was consumed; 0 if none of its records count.
        """
        self._buffers.append((channel, payload_bytes, consumed_to_ns))
        self.size += len(channel)

    def add_records(self, channel: IntArray, latency_ns: IntArray) -> None:
        """Add the latencies of records, whose buffers are added, too."""
        self._records.append((channel, latency_ns))
        self.size += len(channel)

    def answers(self, run: int) -> Iterator[Columns]:
        """Columns of LatencyPart, with a row for each channel."""
        if not self._buffers:
            return
        own, payload_bytes, consumed_ns = map(np.concatenate, zip(*self._buffers, strict=True))
        channels, place = np.unique(own, return_inverse=True)
        consumed_to_ns = np.zeros(len(channels), np.int64)
        np.maximum.at(consumed_to_ns, place, consumed_ns)
        yield {
            "run": np.full(len(channels), run),
            "channel": channels,
            "payload_bytes": np.bincount(place, payload_bytes, len(channels)),
            "consumed_to_ns": consumed_to_ns,
            "histogram": self._histograms(channels),
        }

    def _histograms(self, channels: IntArray) -> list[bytes]:
        """The encoded histogram of each channel."""
        records = zip(*self._records, strict=True) if self._records else (_NONE, _NONE)
        channel, latency_ns = (np.concatenate([_NONE, *each]) for each in records)
        place = np.searchsorted(channels, channel)
        return encoded_by_group(place, latency_ns, np.ones(len(place), np.int64), len(channels))


class _Latencies(Tally):
    """Counts the latencies of the blocks of a unit, by channel."""

    def __init__(self, unit: Unit, ask: Ask) -> None:
        super().__init__(unit, ask)
        self._consumed: defaultdict[int, _Consumed] = defaultdict(_Consumed)
        self._few = _FewLatencies()

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
        """Columns of LatencyPart, with one or a few rows for each channel."""
        self._pack()
        return self._answers

    def _take_bare_buffers(self, rows: EventColumns) -> None:
        """Add buffers in which no record ends: their bytes count if they were consumed in the
        measured window."""
        bare = np.flatnonzero(rows["records"] == 0)
        if not len(bare):
            return
        bare = bare[is_measured(self._unit, rows["at_ns"].take(bare))]
        channel, payload_bytes = (rows[name].take(bare) for name in ("channel", "payload_bytes"))
        self._few.add_buffers(channel, payload_bytes, np.zeros(len(bare), np.int64))

    def _take_few(self, rows: EventColumns) -> None:
        """Add buffers of channels with few records each."""
        records, at_ns, channel = rows["records"], rows["at_ns"], rows["channel"]
        ramps = Ramps(records, rows["first_record_ns"], rows["last_record_ns"])
        buffer, intended_ns = ramps.instants()
        counts = (intended_ns >= self._unit.from_ns) & (intended_ns < self._unit.to_ns)
        buffer = buffer[counts]
        inside = np.bincount(buffer, minlength=len(records))
        # Whole bytes, so that sums do not depend on their order.
        payload_bytes = rows["payload_bytes"] * inside // records
        self._few.add_buffers(channel, payload_bytes, np.where(inside > 0, at_ns, 0))
        self._few.add_records(channel[buffer], at_ns[buffer] - intended_ns[counts])

    def _pack(self) -> None:
        """Encode the histograms, which takes a tenth of their memory."""
        few, self._few = self._few, _FewLatencies()
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


def _measure(unit: Unit, blocks: Iterator[EventBlock]) -> Iterator[Columns]:
    tally = _Latencies(unit, _measure)
    for block in blocks:
        tally.take(block)
    yield from tally.answers()


def _by_records(channel: IntArray, records: IntArray) -> tuple[Iterator[tuple[int, int]], IntArray]:
    """Ranges of rows of channels with many records, and the numbers of all other rows.

    Args:
        channel, records: of the rows, which are sorted by channel.
    """
    bounds = np.r_[0, np.flatnonzero(channel[1:] != channel[:-1]) + 1, len(channel)]
    is_few = np.add.reduceat(records, bounds[:-1], dtype=np.int64) < COMPILED_FROM_RECORDS
    many = np.flatnonzero(~is_few)
    ranges = zip(bounds[many].tolist(), bounds[many + 1].tolist(), strict=True)
    return _pieces(ranges, records), np.flatnonzero(np.repeat(is_few, np.diff(bounds)))


def _pieces(ranges: Iterable[tuple[int, int]], records: IntArray) -> Iterator[tuple[int, int]]:
    """Cut ranges of rows into such with hardly more than _RECORDS_AT_ONCE records."""
    for low, high in ranges:
        before = np.cumsum(records[low:high], dtype=np.int64)
        if before[-1] <= _RECORDS_AT_ONCE:
            yield low, high
            continue
        portion = (before - records[low]) // _RECORDS_AT_ONCE
        cuts = np.flatnonzero(np.r_[True, portion[1:] != portion[:-1], True]) + low
        yield from pairwise(cuts.tolist())


def _add(unit: Unit, rows: EventColumns, into: _Consumed) -> None:
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
    """Count the times from the arrival of records until `at_ns` of their buffer, for records that
    arrived in [from_ns, to_ns).

    Returns: the number of records of each buffer that count.
    """
    from .kernels import count_latencies

    records, window_ns = rows["records"], (from_ns, to_ns)
    inside: IntArray = np.zeros(len(records), np.int64)
    whole = np.zeros(3, np.int64)  # total, smallest, largest
    instants_ns = rows["first_record_ns"], rows["last_record_ns"], window_ns
    count_latencies(rows["at_ns"], records, *instants_ns, histogram.counts, inside, whole)
    histogram.add_totals(int(inside.sum()), *whole.tolist())
    return inside


LATENCY = Question(
    "latency",
    LatencyRow,
    keys=("run", "channel"),
    sums=("payload_bytes",),
    maxima=("consumed_to_ns",),
    histograms=("histogram",),
    ask=_measure,
    tally=_Latencies,
    part=LatencyPart,
    finish=_with_figures,
)
