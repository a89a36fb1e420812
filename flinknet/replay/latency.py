"""Latency of records: from the intended instant until the consumer was done with the buffer that
holds the end of it.

The records of a buffer are taken as evenly spread between the first and the last of them, whose
instants are recorded. A record counts if its intended instant lies in the measured window, whenever
it arrived.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from flinknet.core.probe import TracePoint
from flinknet.histogram import LogLinearHistogram

from .units import (
    ALL_CHANNELS,
    Answer,
    Asked,
    EventBlock,
    EventColumns,
    IntArray,
    WorkUnit,
    ask,
    in_order,
    is_measured,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
_PART_SCHEMA = (
    "run bigint, channel bigint, payload_bytes double, consumed_to_ns bigint, histogram binary"
)
_SUMMARY_SCHEMA = (
    "run bigint, channel bigint, payload_bytes double, consumed_to_ns bigint,"
    " count bigint, min bigint, mean double, p50 double, p75 double, p90 double, p95 double,"
    " p99 double, p99_9 double, max bigint, histogram binary"
)
_TAKEN = ("at_ns", "channel", "payload_bytes", "records", "first_record_ns", "last_record_ns")
_RECORDS_AT_ONCE = 1 << 20

COMPILED_FROM_RECORDS = 50_000
"""Below that the plain way is done before the compiled one is loaded."""


@dataclass(slots=True)
class _Consumed:
    """What is known of the records of one channel."""

    histogram: LogLinearHistogram = field(default_factory=LogLinearHistogram)
    payload_bytes: float = 0.0
    consumed_to_ns: int = 0


def latency_percentiles(units: DataFrame) -> DataFrame:
    """Latency of each channel, and of all together as channel -1.

    Returns: run, channel, payload_bytes (of the records that count), consumed_to_ns (when the last
    of them was), and the
        fields of `results.LatencySummary`, whose count is the number of records; and histogram, for
        `LogLinearHistogram.from_bytes`.
    """
    return merge_latency(ask(units, LATENCY))


def merge_latency(parts: DataFrame) -> DataFrame:
    """`latency_percentiles` from the answers to LATENCY."""
    merged = parts.groupBy("run", "channel").applyInArrow(_merge, _SUMMARY_SCHEMA)
    return in_order(merged, "run", "channel")


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


def _measure(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Answer]:
    consumed: defaultdict[int, _Consumed] = defaultdict(_Consumed)
    for block in blocks:
        rows = block.data_at(TracePoint.CONSUMED)
        _add_bare_buffers(unit, rows, consumed)
        keep = (rows["records"] > 0) & (rows["first_record_ns"] >= 0)
        keep &= (rows["first_record_ns"] < unit.to_ns) & (rows["last_record_ns"] >= unit.from_ns)
        kept = np.flatnonzero(keep)
        wanted = {name: rows[name].take(kept).astype(np.int64, copy=False) for name in _TAKEN}
        for start, end in _pieces(wanted["channel"], wanted["records"]):
            channel = int(wanted["channel"][start])
            piece = {name: values[start:end] for name, values in wanted.items()}
            _add(unit, piece, consumed[channel])
    if not consumed:
        return
    total = _Consumed()
    for part in consumed.values():
        _join(total, part)
    parts = {ALL_CHANNELS: total, **consumed}
    yield {
        "run": [unit.run] * len(parts),
        "channel": list(parts),
        "payload_bytes": [part.payload_bytes for part in parts.values()],
        "consumed_to_ns": [part.consumed_to_ns for part in parts.values()],
        "histogram": [part.histogram.to_bytes() for part in parts.values()],
    }


def _pieces(channel: IntArray, records: IntArray) -> Iterator[tuple[int, int]]:
    """Ranges of rows of one channel with not many more than _RECORDS_AT_ONCE records; rows are
    sorted by channel."""
    bounds = np.flatnonzero(np.r_[True, channel[1:] != channel[:-1], True])
    if not len(channel):
        return
    for low, high in pairwise(bounds):
        portion = (np.cumsum(records[low:high]) - records[low]) // _RECORDS_AT_ONCE
        cuts = np.flatnonzero(np.r_[True, portion[1:] != portion[:-1], True]) + low
        yield from pairwise(cuts.tolist())


def _add(unit: WorkUnit, rows: EventColumns, into: _Consumed) -> None:
    inside = add_latencies(into.histogram, rows, unit.from_ns, unit.to_ns)
    if not inside.any():
        return
    # Whole bytes, so that sums do not depend on their order.
    into.payload_bytes += float((rows["payload_bytes"] * inside // rows["records"]).sum())
    into.consumed_to_ns = max(into.consumed_to_ns, int(rows["at_ns"][inside > 0].max()))


def add_latencies(
    histogram: LogLinearHistogram, rows: EventColumns, from_ns: int, to_ns: int
) -> IntArray:
    """Count how long before `at_ns` the records of some buffers came; those that came in
    [from_ns, to_ns). Many are counted by compiled code, which takes half a second to load.

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
        histogram.take_in(int(inside.sum()), *whole.tolist())
        return inside
    buffer, intended_ns = spread_records(records, rows["first_record_ns"], rows["last_record_ns"])
    counts = (intended_ns >= from_ns) & (intended_ns < to_ns)
    buffer = buffer[counts]
    histogram.add(rows["at_ns"][buffer] - intended_ns[counts])
    return np.bincount(buffer, minlength=len(records))


def _add_bare_buffers(unit: WorkUnit, rows: EventColumns, into: dict[int, _Consumed]) -> None:
    """Buffers in which no record ends hold a piece of one: their bytes count by when they were
    taken."""
    keep = rows["records"] == 0
    if not keep.any():
        return
    keep &= is_measured(unit, rows["at_ns"])
    for channel in np.unique(rows["channel"][keep]).tolist():
        sizes = rows["payload_bytes"][keep & (rows["channel"] == channel)]
        into[channel].payload_bytes += float(sizes.sum(dtype=np.int64))


def _join(into: _Consumed, other: _Consumed) -> None:
    into.histogram.merge(other.histogram)
    into.payload_bytes += other.payload_bytes
    into.consumed_to_ns = max(into.consumed_to_ns, other.consumed_to_ns)


LATENCY = Asked(_measure, _COLUMNS, _PART_SCHEMA)


def _merge(parts: pa.Table) -> pa.Table:
    """One row from all parts of one run and channel."""
    total = _Consumed()
    for part in parts.to_pylist():
        histogram = LogLinearHistogram.from_bytes(part["histogram"])
        _join(total, _Consumed(histogram, part["payload_bytes"], part["consumed_to_ns"]))
    row = {
        "run": parts["run"][0].as_py(),
        "channel": parts["channel"][0].as_py(),
        "payload_bytes": total.payload_bytes,
        "consumed_to_ns": total.consumed_to_ns,
        **asdict(total.histogram.summary()),
        "histogram": total.histogram.to_bytes(),
    }
    fields = [("run", pa.int64()), ("channel", pa.int64()), ("payload_bytes", pa.float64())]
    fields += [("consumed_to_ns", pa.int64()), ("count", pa.int64()), ("min", pa.int64())]
    fields += [(name, pa.float64()) for name in ("mean", "p50", "p75", "p90", "p95", "p99")]
    fields += [("p99_9", pa.float64()), ("max", pa.int64()), ("histogram", pa.binary())]
    return pa.Table.from_pylist([row], schema=pa.schema(fields))
