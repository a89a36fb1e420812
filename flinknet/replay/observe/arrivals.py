"""How many records came in each of the slices that a long run is cut into, to be simulated slice by
slice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from flinknet.arrays import IntArray
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.predict.exchange import is_max_rate
from flinknet.predict.ramps import Ramps
from flinknet.trace.event_block import IS_BUFFER_BY_TYPE, EventBlock

from ..read import RecordedRun
from ..spark.frames import Columns
from ..spark.units import Asked, WorkUnit
from .sums import Sums
from .time_slices import even_edges, events_within, most_events

EVENTS_PER_SLICE = 2_500_000
"""About as many recorded events are simulated at a time; shorter runs are not cut. More where a
slice of many files would have less of each than a block."""

EVENTS_PER_SLICE_MAX = 8_000_000
"""For each slice warms up, and has the whole exchange laid out for it."""

_COLUMNS = (
    *("at_ns", "channel", "point", "kind", "data_type"),
    *("payload_bytes", "records", "first_record_ns", "last_record_ns"),
)


@dataclass(frozen=True, slots=True)
class ArrivalsRow:
    """Records of a channel that came in a slice.

    Attributes:
        slice: its number.
        whole_records, payload_bytes: of buffers whose records all came in it.
        latest_ns: how long after the first of its records one of the buffers was sent, at most.
    """

    run: int
    channel: int
    slice: int
    records: int
    whole_records: int
    payload_bytes: int
    latest_ns: int


@dataclass(frozen=True, slots=True)
class SliceRecords:
    """Records of all channels that came in a slice; fields as of ArrivalsRow."""

    run: int
    slice: int
    records: int
    latest_ns: int


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a run to simulate.

    Attributes:
        number: of it among the slices of its run.
        from_ns: from when on records count.
        to_ns: up to when.
    """

    number: int
    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class Slicing:
    """How a run is cut.

    Attributes:
        slices: in their order; they cover the measured part, or are spread over it.
        latest_ns: how long after the first of its records a buffer was sent, at most.
        simulated_ns: length of the slices together; None where they cover the measured part.
    """

    slices: tuple[Slice, ...]
    latest_ns: int
    simulated_ns: int | None = None


@dataclass(frozen=True, slots=True)
class SliceLoad:
    """What comes in a slice over some channels of a run.

    Attributes:
        channels: those that carried records at any time.
        records: of each that came in the slice.
        records_before: of each that came before it in the measured part.
        record_wire_bytes: of each: mean bytes of a record in a buffer.
    """

    run: int
    slice: int
    channels: list[int]
    records: list[int]
    records_before: list[int]
    record_wire_bytes: list[float]


def slice_edges(run: RecordedRun, split: int | None) -> list[int]:
    """Where a run is cut.

    Args:
        split: number of slices; None for as many as suit its size.
    """
    if is_max_rate(run.manifest) or run.manifest.is_from_between or run.edge is not None:
        return [run.from_ns, run.to_ns]
    files, channels = len(run.files), len(run.manifest.channels)
    most = most_events(EVENTS_PER_SLICE, files, channels, EVENTS_PER_SLICE_MAX)
    return even_edges(run, run.files, split or -(-events_within(run, run.files) // most))


def arrivals_asked(edges: Mapping[int, Sequence[int]]) -> Asked:
    """The question how many records came in each slice of each run."""
    question = partial(_count, edges={run: list(each) for run, each in edges.items()})
    return Asked(question, _COLUMNS, ArrivalsRow)


MERGE_ARRIVALS = Sums(
    ("run", "channel", "slice"), ("records", "whole_records", "payload_bytes"), ("latest_ns",)
)


SLICE_RECORDS = Sums(("run", "slice"), ("records",), ("latest_ns",))


def slicing_of(rows: Sequence[SliceRecords], edges: Sequence[int]) -> Slicing:
    """How a run is cut, and from its rows how late its buffers were."""
    return Slicing(
        tuple(Slice(number, *each) for number, each in enumerate(pairwise(edges))),
        max((row.latest_ns for row in rows), default=0),
    )


def loads_of(arrivals: pa.Table, slices: Sequence[int]) -> Iterator[SliceLoad]:
    """What comes in some slices.

    Args:
        arrivals: all ArrivalsRow of some channels of one run.
        slices: their numbers.
    """
    if not len(arrivals):
        return
    run = arrivals["run"][0].as_py()
    columns = [arrivals[name].to_numpy() for name in ("channel", "slice", "records")]
    sizes = [arrivals[name].to_numpy() for name in ("payload_bytes", "whole_records")]
    channels, place = np.unique(columns[0], return_inverse=True)
    total_bytes, whole = (np.bincount(place, each, len(channels)) for each in sizes)
    is_sized = whole > 0
    wire_bytes = total_bytes[is_sized] / whole[is_sized]
    order = np.argsort(columns[1], kind="stable")
    place, number, records = place[order], columns[1][order], columns[2][order]
    before, done = np.zeros(len(channels), np.int64), 0
    for wanted in sorted(slices):
        start, end = np.searchsorted(number, [wanted, wanted + 1]).tolist()
        np.add.at(before, place[done:start], records[done:start])
        own = np.bincount(place[start:end], records[start:end], len(channels)).astype(np.int64)
        done = start
        yield SliceLoad(
            run,
            wanted,
            channels[is_sized].tolist(),
            own[is_sized].tolist(),
            before[is_sized].tolist(),
            wire_bytes.tolist(),
        )


def _count(
    unit: WorkUnit, blocks: Iterator[EventBlock], *, edges: Mapping[int, Sequence[int]]
) -> Iterator[Columns]:
    from .sums_kernel import sum_slices

    own_edges = np.array(edges[unit.run])
    for block in blocks:
        spans = block.spans.of(MessageKind.BUFFER_RESPONSE, TracePoint.SENT)
        spans = spans.only(spans.channel >= 0)
        if not len(spans.starts):
            continue
        at_ns, records, first_ns, last_ns = (
            block[name] for name in ("at_ns", "records", "first_record_ns", "last_record_ns")
        )
        sums, cut = sum_slices(
            spans.starts,
            spans.ends,
            at_ns,
            block["data_type"],
            IS_BUFFER_BY_TYPE,
            records,
            block["payload_bytes"],
            first_ns,
            last_ns,
            own_edges,
            (unit.from_ns, unit.to_ns),
        )
        span, number, own_records, payload_bytes, latest_ns = sums.T
        yield {
            "run": np.full(len(span), unit.run),
            "channel": spans.channel[span],
            "slice": number,
            "records": own_records,
            "whole_records": own_records,
            "payload_bytes": payload_bytes,
            "latest_ns": latest_ns,
        }
        if len(cut):
            ramps = Ramps(
                *(each.take(cut).astype(np.int64) for each in (records, first_ns, last_ns))
            )
            late_ns = at_ns.take(cut) - ramps.first_ns
            yield _parts_of(unit, own_edges, block["channel"].take(cut), ramps, late_ns)


def _parts_of(
    unit: WorkUnit, edges: IntArray, channel: IntArray, ramps: Ramps, late_ns: IntArray
) -> Columns:
    """Records of buffers that lie in several slices, slice by slice."""
    row, at_ns = ramps.instants()
    number = np.searchsorted(edges, at_ns, side="right") - 1
    slices = len(edges) - 1
    inside = (number >= 0) & (number < slices)
    parts, records = np.unique(row[inside] * slices + number[inside], return_counts=True)
    row, number = np.divmod(parts, slices)
    nothing = np.zeros(len(parts), np.int64)
    return {
        "run": np.full(len(parts), unit.run),
        "channel": channel[row],
        "slice": number,
        "records": records,
        "whole_records": nothing,
        "payload_bytes": nothing,
        "latest_ns": late_ns[row],
    }
