"""Messages by kind, throughput and backlog over time, and arrivals in the slices of a long run,
which are simulated one by one.

Throughput is the data that consumers took or, recorded between processes, the data that passed. The
backlog is the number of buffers that the producers still had queued when a data buffer left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import pyarrow as pa

from flinknet.arrays import IntArray
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.predict.exchange import is_max_rate
from flinknet.predict.ramps import Ramps
from flinknet.trace.blocks import IS_DATA
from flinknet.trace.event_block import EventBlock

from ..read import RecordedRun
from ..spark.frames import Columns
from .question import Question, of_blocks
from .units import Unit, blocks_within, even_edges, most_events

WINDOWS_MAX = 60
"""Most windows of the measured part of a run; their width is a round number."""

_WINDOW_KEYS = ("run", "channel", "from_ns", "width_ns")
_BYTES = ("payload_bytes", "uncounted_bytes")


@dataclass(frozen=True, slots=True)
class MessagesRow:
    """Messages of the measured window and of the drain after it, which carries its last records.
    Ordinals are those of the trace; `credit` is what AddCredit messages announced, summed."""

    run: int
    channel: int
    point: int
    kind: int
    data_type: int
    reason: int
    messages: int
    payload_bytes: int
    credit: int


@dataclass(frozen=True, slots=True)
class ThroughputWindow:
    """Data that a channel carried in one window of the measured part or of the drain, which starts
    `from_ns` after the measured part began; `uncounted_bytes` of the payload are in buffers whose
    records could not be counted."""

    run: int
    channel: int
    from_ns: int
    width_ns: int
    buffers: int
    records: int
    payload_bytes: int
    uncounted_bytes: int = 0


@dataclass(frozen=True, slots=True)
class BacklogWindow:
    """Backlog that the data messages of a channel announced in a window; `buffers` are samples."""

    run: int
    channel: int
    from_ns: int
    width_ns: int
    buffers: int
    backlog_buffers_sum: int
    backlog_buffers_max: int


EVENTS_PER_SLICE = 2_500_000
"""Recorded events of a slice, about; shorter runs are not cut. A slice has more where it would
otherwise have less than a block of each file."""

EVENTS_PER_SLICE_MAX = 8_000_000
"""Most events of a slice with many files: each slice warms up, and lays out the whole exchange."""


@dataclass(frozen=True, slots=True)
class ArrivalsRow:
    """Records of a channel that arrived in a slice; records and bytes of the buffers whose records
    all did; `latest_ns` is the longest time from a buffer's first record until it was sent."""

    run: int
    channel: int
    slice: int
    records: int
    whole_records: int
    payload_bytes: int
    latest_ns: int


@dataclass(frozen=True, slots=True)
class SliceLoad:
    """Arrivals in a slice on some channels of a run."""

    run: int
    slice: int
    channels: list[int]  # channels that carried records at any time
    records: list[int]  # arrivals of each channel in the slice
    records_before: list[int]  # arrivals of each channel in the measured part before the slice
    record_wire_bytes: list[float]  # mean bytes of a record in the buffers of each channel


def window_width_ns(duration_ns: int) -> int:
    """The smallest of 1, 2, 5, 10 … ns that cuts a duration into at most WINDOWS_MAX windows."""
    widths_ns = (int(factor * 10**power) for power in count() for factor in (1, 2, 5))
    return next(each for each in widths_ns if duration_ns <= each * WINDOWS_MAX)


def _count(unit: Unit, block: EventBlock) -> Iterator[Columns]:
    from .kernels import REASONS, count_kinds

    spans = block.spans
    span, number, messages, payload_bytes, credit = count_kinds(
        spans.starts,
        spans.ends,
        block["at_ns"],
        block["data_type"],
        block["reason"],
        block["payload_bytes"],
        block["value"],
        spans.kind == MessageKind.ADD_CREDIT,
        (unit.from_ns, unit.until_ns),
    ).T
    data_type, reason = np.divmod(number, REASONS)
    yield {
        "channel": spans.channel[span],
        "point": spans.point[span],
        "kind": spans.kind[span],
        "data_type": data_type,
        "reason": reason,
        "messages": messages,
        "payload_bytes": payload_bytes,
        "credit": credit,
    }


def _by_window(
    unit: Unit, block: EventBlock, *, column: str, names: Sequence[str]
) -> Iterator[Columns]:
    """Add up a column of data buffers by channel and window: records where they are counted, the
    backlog where it was sent and is known. `names` are those of the figures of
    `kernels.sum_windows` in the answer; empty to leave one out."""
    from .kernels import sum_windows

    is_backlog = column == "backlog_buffers"
    width_ns = window_width_ns(unit.to_ns - unit.from_ns)
    point = TracePoint.SENT if is_backlog else unit.counted_at
    spans = block.spans.of(MessageKind.BUFFER_RESPONSE, point)
    if not len(spans.starts):
        return
    span, window, *figures = sum_windows(
        spans.starts,
        spans.ends,
        block["at_ns"],
        block["data_type"],
        IS_DATA,
        block[column],
        block["payload_bytes"],
        (unit.from_ns, unit.until_ns, width_ns),
        is_backlog,
    ).T
    yield {
        "channel": spans.channel[span],
        "from_ns": window * width_ns,
        "width_ns": np.full(len(span), width_ns),
        **{name: each for name, each in zip(names, figures, strict=True) if name},
    }


def slice_edges(run: RecordedRun, split: int | None) -> list[int]:
    """The edges of `split` slices of a run; None for a number that suits its size."""
    if is_max_rate(run.manifest) or run.manifest.is_from_between or run.edge is not None:
        return [run.from_ns, run.to_ns]
    files, channels = len(run.files), len(run.manifest.channels)
    most = most_events(EVENTS_PER_SLICE, files, channels, EVENTS_PER_SLICE_MAX)
    events = int(blocks_within(run, run.files)[2].sum())
    return even_edges(run, run.files, split or -(-events // most))


def arrivals_in(edges: Mapping[int, Sequence[int]]) -> Question:
    """The question how many records arrived in each slice; edges of slices by run."""
    return Question(
        "arrivals",
        ArrivalsRow,
        keys=("run", "channel", "slice"),
        sums=("records", "whole_records", "payload_bytes"),
        maxima=("latest_ns",),
        ask=of_blocks(_count_arrivals, edges=edges),
    )


def loads_of(arrivals: pa.Table, slices: Sequence[int]) -> Iterator[SliceLoad]:
    """The load of some slices, from all ArrivalsRows of some channels of one run."""
    if not len(arrivals):
        return
    column = {name: arrivals[name].to_numpy() for name in arrivals.column_names}
    channels, place = np.unique(column["channel"], return_inverse=True)
    total_bytes, whole = (
        np.bincount(place, column[name], len(channels))
        for name in ("payload_bytes", "whole_records")
    )
    is_sized = whole > 0
    wire_bytes = total_bytes[is_sized] / whole[is_sized]
    order = np.argsort(column["slice"], kind="stable")
    place, number, records = (each[order] for each in (place, column["slice"], column["records"]))
    before, done = np.zeros(len(channels), np.int64), 0
    for wanted in sorted(slices):
        start, end = np.searchsorted(number, [wanted, wanted + 1]).tolist()
        np.add.at(before, place[done:start], records[done:start])
        own = np.bincount(place[start:end], records[start:end], len(channels)).astype(np.int64)
        done = start
        sized = (each[is_sized].tolist() for each in (channels, own, before))
        of_records = {"record_wire_bytes": wire_bytes.tolist()}
        yield SliceLoad(int(column["run"][0]), wanted, *sized, **of_records)


def _count_arrivals(
    unit: Unit, block: EventBlock, *, edges: Mapping[int, Sequence[int]]
) -> Iterator[Columns]:
    from .kernels import sum_slices

    own_edges = np.array(edges[unit.run])
    spans = block.spans.of(MessageKind.BUFFER_RESPONSE, TracePoint.SENT)
    spans = spans.only(spans.channel >= 0)
    if not len(spans.starts):
        return
    at_ns, records, first_ns, last_ns = (
        block[name] for name in ("at_ns", "records", "first_record_ns", "last_record_ns")
    )
    sums, cut = sum_slices(
        spans.starts,
        spans.ends,
        at_ns,
        block["data_type"],
        IS_DATA,
        records,
        block["payload_bytes"],
        first_ns,
        last_ns,
        own_edges,
        (unit.from_ns, unit.to_ns),
    )
    span, number, own_records, payload_bytes, latest_ns = sums.T
    yield {
        "channel": spans.channel[span],
        "slice": number,
        "records": own_records,
        "whole_records": own_records,
        "payload_bytes": payload_bytes,
        "latest_ns": latest_ns,
    }
    if len(cut):
        ramps = Ramps(*(each.take(cut).astype(np.int64) for each in (records, first_ns, last_ns)))
        late_ns = at_ns.take(cut) - ramps.first_ns
        yield _parts_of(own_edges, block["channel"].take(cut), ramps, late_ns)


def _parts_of(edges: IntArray, channel: IntArray, ramps: Ramps, late_ns: IntArray) -> Columns:
    """Records of buffers whose records arrived in several slices, slice by slice."""
    row, at_ns = ramps.instants()
    number = np.searchsorted(edges, at_ns, side="right") - 1
    slices = len(edges) - 1
    inside = (number >= 0) & (number < slices)
    parts, records = np.unique(row[inside] * slices + number[inside], return_counts=True)
    row, number = np.divmod(parts, slices)
    nothing = np.zeros(len(parts), np.int64)
    return {
        "channel": channel[row],
        "slice": number,
        "records": records,
        "whole_records": nothing,
        "payload_bytes": nothing,
        "latest_ns": late_ns[row],
    }


MESSAGES = Question(
    "messages",
    MessagesRow,
    keys=("run", "channel", "point", "kind", "data_type", "reason"),
    sums=("messages", "payload_bytes", "credit"),
    ask=of_blocks(_count),
)
THROUGHPUT = Question(
    "throughput",
    ThroughputWindow,
    keys=_WINDOW_KEYS,
    sums=("buffers", "records", "payload_bytes", "uncounted_bytes"),
    ask=of_blocks(_by_window, column="records", names=("buffers", "records", "", *_BYTES)),
)
BACKLOG = Question(
    "backlog",
    BacklogWindow,
    keys=_WINDOW_KEYS,
    sums=("buffers", "backlog_buffers_sum"),
    maxima=("backlog_buffers_max",),
    ask=of_blocks(
        _by_window,
        column="backlog_buffers",
        names=("buffers", "backlog_buffers_sum", "backlog_buffers_max", "", ""),
    ),
)
