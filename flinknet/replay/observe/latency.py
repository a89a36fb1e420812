"""Latency of records: from the intended instant of a record until the consumer was done with the
buffer that holds its end.

The records of a buffer are assumed to be evenly spread between the first and the last one, whose
instants are recorded. A record counts if its intended instant lies in the measured window, whenever
it arrived.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from flinknet.arrays import EventColumns, IntArray
from flinknet.core.probe import TracePoint
from flinknet.histogram import LogLinearHistogram, bucket_bounds_ns, encoded_by_group
from flinknet.predict.ramps import Ramps
from flinknet.results import LatencyDistribution, LatencySummary
from flinknet.trace.event_block import EventBlock

from ..spark.frames import Columns, merged, schema_of
from .question import Question, Tally, is_measured, sum_by_group
from .tree import ask, named_table
from .units import Unit, Units

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TAKEN = ("channel", "payload_bytes", "at_ns", "records", "first_record_ns", "last_record_ns")

_NONE = np.zeros(0, np.int64)

CHANNELS_HELD_MAX = 1_000
"""Channels whose histograms a unit keeps decoded, 45 KB for each."""

FEW_HELD_MAX = 1 << 20
COMPILED_FROM_RECORDS = 200
"""Records of a channel in a block to count by compiled code; of fewer, numpy is as fast."""


RANGES_PER_OCTAVE = 8
PERCENTILES = (
    *(0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95),
    *(0.975, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999, 0.99995, 0.99999),
)


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
    """The latency of the records of a channel that count."""

    run: int
    channel: int
    payload_bytes: float  # payload of these records
    consumed_to_ns: int  # instant at which the last of them was consumed
    latency_ns: LatencySummary
    histogram: bytes = b""  # encoded LogLinearHistogram; empty where only figures are needed


def total_latency(spark: SparkSession, units: Units) -> DataFrame:
    table = named_table(ask(spark, units, LATENCY), LATENCY.name, LatencyRow)
    return merged(table, total_of_channels, LatencyRow)


def total_of_channels(rows: pa.Table) -> pa.Table:
    return LATENCY.over(rows, ("channel",))


def _with_figures(parts: pa.Table) -> pa.Table:
    schema = schema_of(LatencyRow)
    found = (LogLinearHistogram.from_bytes(each.as_py()) for each in parts["histogram"])
    figures = pa.array([asdict(each.summary()) for each in found], schema.field("latency_ns").type)
    return parts.append_column("latency_ns", figures).select(schema.names)


class _Latencies(Tally):
    """Counts the latencies of the blocks of a unit, by channel. Channels with many records in a
    block have a histogram each, of 45 KB and a millisecond; others are held in common arrays."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(self._count, unit)
        self._clear()

    def answers(self) -> Iterable[Columns]:
        return [*self._answers, *self._packed()]

    def _clear(self) -> None:
        self._histograms: defaultdict[int, LogLinearHistogram] = defaultdict(LogLinearHistogram)
        self._buffers: list[tuple[IntArray, IntArray, IntArray]] = []
        self._records: list[tuple[IntArray, IntArray]] = []
        self._held = 0

    def _count(self, unit: Unit, block: EventBlock) -> Iterator[Columns]:
        rows = block.data_at(TracePoint.CONSUMED)
        if not len(rows["records"]):
            return
        bare = np.flatnonzero(rows["records"] == 0)
        if len(bare):  # no record ends in them: their bytes count if they were consumed in the part
            bare = bare[is_measured(unit, rows["at_ns"].take(bare))]
            channel, payload_bytes = (rows[name].take(bare) for name in _TAKEN[:2])
            self._hold(channel, payload_bytes, np.zeros(len(bare), np.int64))
        keep = (rows["records"] > 0) & (rows["first_record_ns"] >= 0)
        keep &= rows["first_record_ns"] < unit.to_ns
        keep &= rows["last_record_ns"] >= unit.from_ns
        wanted = {name: rows[name] for name in _TAKEN}
        if not keep.all():
            wanted = {name: values[keep] for name, values in wanted.items()}
        if not len(wanted["channel"]):
            return
        many, few = _by_records(wanted["channel"], wanted["records"])
        for start, end in many:
            piece = {name: values[start:end] for name, values in wanted.items()}
            histogram = self._histograms[int(piece["channel"][0])]
            inside = add_latencies(histogram, piece, unit.from_ns, unit.to_ns)
            payload_bytes, consumed_ns = _inside(piece, inside)
            whole = np.array([payload_bytes.sum(dtype=np.int64)]), np.array([consumed_ns.max()])
            self._hold(piece["channel"][:1].copy(), *whole)
        if len(few):
            self._count_few({name: values.take(few) for name, values in wanted.items()})
        if len(self._histograms) > CHANNELS_HELD_MAX or self._held > FEW_HELD_MAX:
            yield from self._packed()

    def _count_few(self, rows: EventColumns) -> None:
        records, at_ns, channel = rows["records"], rows["at_ns"], rows["channel"]
        buffer, intended_ns = Ramps(
            records, rows["first_record_ns"], rows["last_record_ns"]
        ).instants()
        counts = (intended_ns >= self._unit.from_ns) & (intended_ns < self._unit.to_ns)
        buffer = buffer[counts]
        inside = np.bincount(buffer, minlength=len(records))
        self._hold(channel, *_inside(rows, inside))
        self._records.append((channel[buffer], at_ns[buffer] - intended_ns[counts]))
        self._held += len(buffer)

    def _hold(self, channel: IntArray, payload_bytes: IntArray, consumed_ns: IntArray) -> None:
        """Hold payload of the records that count, and instants at which buffers were consumed."""
        self._buffers.append((channel, payload_bytes, consumed_ns))
        self._held += len(channel)

    def _packed(self) -> Iterator[Columns]:
        """Hand over all that is held, with encoded histograms, which take a tenth of the memory."""
        if not self._buffers:
            return
        own, payload_bytes, consumed_ns = map(np.concatenate, zip(*self._buffers, strict=True))
        channels, place = np.unique(own, return_inverse=True)
        consumed_to_ns = np.zeros(len(channels), np.int64)
        np.maximum.at(consumed_to_ns, place, consumed_ns)
        records = zip(*self._records, strict=True) if self._records else (_NONE, _NONE)
        channel, latency_ns = (np.concatenate([_NONE, *each]) for each in records)
        ones, whose = np.ones(len(channel), np.int64), np.searchsorted(channels, channel)
        yield {
            "channel": channels,
            "payload_bytes": np.bincount(place, payload_bytes, len(channels)),
            "consumed_to_ns": consumed_to_ns,
            "histogram": encoded_by_group(whose, latency_ns, ones, len(channels)),
        }
        if count := len(self._histograms):
            yield {
                "channel": np.array(list(self._histograms)),
                "payload_bytes": np.zeros(count),
                "consumed_to_ns": np.zeros(count, np.int64),
                "histogram": [each.to_bytes() for each in self._histograms.values()],
            }
        self._clear()


def _inside(rows: EventColumns, inside: IntArray) -> tuple[IntArray, IntArray]:
    """Payload of the records that count, `inside` of each buffer, in whole bytes, for sums in any
    order; and instants at which buffers were consumed, 0 if none of their records count."""
    payload_bytes, at_ns = rows["payload_bytes"], rows["at_ns"]
    if np.array_equal(inside, rows["records"]):
        return payload_bytes, at_ns
    return payload_bytes * inside // rows["records"], np.where(inside > 0, at_ns, 0)


def _by_records(channel: IntArray, records: IntArray) -> tuple[list[tuple[int, int]], IntArray]:
    """Ranges of rows, sorted by channel, of channels with many records, and other rows."""
    bounds = np.r_[0, np.flatnonzero(channel[1:] != channel[:-1]) + 1, len(channel)]
    is_few = np.add.reduceat(records, bounds[:-1], dtype=np.int64) < COMPILED_FROM_RECORDS
    many = np.flatnonzero(~is_few)
    ranges = [*zip(bounds[many].tolist(), bounds[many + 1].tolist(), strict=True)]
    return ranges, np.flatnonzero(np.repeat(is_few, np.diff(bounds)))


def add_latencies(
    histogram: LogLinearHistogram, rows: EventColumns, from_ns: int, to_ns: int
) -> IntArray:
    """Count the times from the arrival of records until `at_ns` of their buffer, for records that
    arrived in [from_ns, to_ns). Returns: the number of records of each buffer that count."""
    from .kernels import count_latencies

    records, window_ns = rows["records"], (from_ns, to_ns)
    inside: IntArray = np.zeros(len(records), np.int64)
    whole = np.zeros(3, np.int64)  # total, smallest, largest
    instants_ns = rows["first_record_ns"], rows["last_record_ns"], window_ns
    count_latencies(rows["at_ns"], records, *instants_ns, histogram.counts, inside, whole)
    histogram.add_totals(int(inside.sum()), *whole.tolist())
    return inside


def distribution(histogram: LogLinearHistogram) -> LatencyDistribution:
    """Non-empty ranges, and the percentiles that enough samples support."""
    buckets = np.flatnonzero(histogram.counts)
    bounds = np.array([bucket_bounds_ns(index) for index in buckets.tolist()]).reshape(-1, 2)
    octaves = np.log2(np.maximum((bounds.sum(axis=1) - 1) / 2, 1))
    number, inverse = np.unique(np.floor(octaves * RANGES_PER_OCTAVE), return_inverse=True)
    known = ((q, histogram.supported_percentile(q)) for q in PERCENTILES)
    return LatencyDistribution(
        low_ns=tuple(np.exp2(number / RANGES_PER_OCTAVE).round(1).tolist()),
        high_ns=tuple(np.exp2((number + 1) / RANGES_PER_OCTAVE).round(1).tolist()),
        records=tuple(sum_by_group(inverse, histogram.counts[buckets], len(number)).tolist()),
        percentiles=tuple((q, value) for q, value in known if value is not None),
    )


LATENCY = Question(
    "latency",
    LatencyRow,
    keys=("run", "channel"),
    sums=("payload_bytes",),
    maxima=("consumed_to_ns",),
    histograms=("histogram",),
    ask=_Latencies,
    part=LatencyPart,
    finish=_with_figures,
)
