"""Data buffers of a channel with their lifetimes, from the first record to the instant at which the
consumer was done.

Producer and consumer write separate files, so the events of a channel are paired here by sequence
number; only the blocks with that channel are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from flinknet.arrays import EventColumns, IntArray
from flinknet.core.probe import MessageKind, TracePoint

from . import TraceReader
from .blocks import IS_DATA
from .trace_file import TraceFile


@dataclass(frozen=True, slots=True, eq=False)
class ChannelBuffers:
    """Data buffers of one channel that were sent, received and consumed; columns int64, ascending
    by sequence number.

    `first_record_ns` is when its first record was due, where known: the buffers of a record that
    spans several have the instant of that record; -1 without record instants.
    """

    sequence_number: IntArray
    first_record_ns: IntArray
    sent_ns: IntArray
    received_ns: IntArray
    consumed_ns: IntArray
    records: IntArray
    payload_bytes: IntArray
    reason: IntArray


def read_channel(
    files: Iterable[TraceFile],
    channel: int,
    columns: Sequence[str],
    from_ns: int | None,
    to_ns: int | None,
) -> EventColumns:
    """The events of a channel in the files of a run, by instant, in [from_ns, to_ns), where None is
    no bound. `columns` include `at_ns`.
    """
    parts: dict[str, list[IntArray]] = {name: [] for name in columns}
    for file in files:
        with TraceReader(file) as reader:
            for block in reader.events(columns, (channel,), from_ns, to_ns):
                for name in columns:
                    parts[name].append(block[name].astype(np.int64))
    joined = {
        name: np.concatenate(each) if each else np.zeros(0, np.int64)
        for name, each in parts.items()
    }
    by_instant = np.argsort(joined["at_ns"], kind="stable")
    return {name: values[by_instant] for name, values in joined.items()}


BUFFER_COLUMNS = (
    *("at_ns", "point", "kind", "data_type", "reason", "sequence_number"),
    *("payload_bytes", "records", "first_record_ns"),
)
"""Columns that `paired_buffers` needs."""


CHANNEL_BITS = 40
"""Bits of a sequence number when several channels are processed together: the position of the
channel is above them."""

_SENT_COLUMNS = (
    *("at_ns", "sequence_number", "payload_bytes", "records", "first_record_ns", "reason"),
)
_RECEIVED_COLUMNS = ("at_ns", "sequence_number")


class SortedEvents(dict[tuple[int, int], EventColumns]):
    """Events of one channel by kind and point, each in the order of recording, with the columns
    that apply; or of several channels one after the other, whose sequence numbers differ above
    CHANNEL_BITS."""


def events_at(
    events: EventColumns | SortedEvents, kind: int, point: int, columns: Sequence[str]
) -> EventColumns:
    """Columns of the events of one kind and point. `place` is their position among all events in
    the order of recording, if `events` has it, else their row."""
    if isinstance(events, SortedEvents):
        kept = events.get((kind, point))
        if kept is None:
            return {name: np.zeros(0, np.int64) for name in columns}
        return {name: kept[name] for name in columns}
    rows = np.flatnonzero((events["kind"] == kind) & (events["point"] == point))
    return {
        name: events[name].take(rows) if name in events or name != "place" else rows
        for name in columns
    }


def data_at(
    events: EventColumns | SortedEvents, point: int, columns: Sequence[str]
) -> EventColumns:
    rows = events_at(events, MessageKind.BUFFER_RESPONSE, point, (*columns, "data_type"))
    is_data = IS_DATA[rows.pop("data_type")]
    return rows if is_data.all() else _only(rows, np.flatnonzero(is_data))


def data_at_all(
    events: EventColumns | SortedEvents, points: Sequence[int], columns: Sequence[Sequence[str]]
) -> list[EventColumns]:
    """The data buffers known at every one of some points, by sequence number; columns per point,
    including `sequence_number`.
    """
    found = [
        _by_number(data_at(events, point, names))
        for point, names in zip(points, columns, strict=True)
    ]
    number = reduce(_common, (rows["sequence_number"] for rows in found))
    return [_of_numbers(rows, number) for rows in found]


def paired_buffers(events: EventColumns | SortedEvents) -> ChannelBuffers:
    """Pair the events of a channel buffer by buffer. A buffer that is missing at one of its three
    points (in flight when the recording ended) is left out.
    """
    points = (TracePoint.SENT, TracePoint.RECEIVED, TracePoint.CONSUMED)
    columns = (_SENT_COLUMNS, _RECEIVED_COLUMNS, _RECEIVED_COLUMNS)
    sent, received, consumed = data_at_all(events, points, columns)
    number = sent["sequence_number"]
    return ChannelBuffers(
        sequence_number=number,
        first_record_ns=_filled_back(sent["first_record_ns"], number >> CHANNEL_BITS),
        sent_ns=sent["at_ns"],
        received_ns=received["at_ns"],
        consumed_ns=consumed["at_ns"],
        records=np.maximum(sent["records"], 0),
        payload_bytes=sent["payload_bytes"],
        reason=sent["reason"],
    )


def _by_number(rows: EventColumns) -> EventColumns:
    """Rows by sequence number, usually their order already; only the first row of each."""
    number = rows["sequence_number"]
    if (number[1:] > number[:-1]).all():
        return rows
    order = np.argsort(number, kind="stable")
    is_first = np.r_[True, np.diff(number[order]) > 0]
    return _only(rows, order[is_first])


def _only(rows: EventColumns, wanted: npt.NDArray[Any]) -> EventColumns:
    return {name: values.take(wanted) for name, values in rows.items()}


def _common(left: IntArray, right: IntArray) -> IntArray:
    """Numbers in both arrays; ascending, like the arrays."""
    if not len(left) or not len(right):
        return left[:0]
    if len(left) == len(right) and (left == right).all():
        return left
    if _is_gapless(left) and _is_gapless(right):
        first, last = max(left[0], right[0]), min(left[-1], right[-1])
        return left[first - left[0] : max(last - left[0] + 1, 0)]
    place = np.minimum(np.searchsorted(right, left), len(right) - 1)
    common: IntArray = left[right[place] == left]
    return common


def _of_numbers(rows: EventColumns, number: IntArray) -> EventColumns:
    numbers = rows["sequence_number"]
    if len(numbers) == len(number):
        return rows
    if len(number) and _is_gapless(numbers) and _is_gapless(number):
        start = int(number[0]) - int(numbers[0])
        return {name: values[start : start + len(number)] for name, values in rows.items()}
    place = np.searchsorted(numbers, number)
    return {name: values.take(place) for name, values in rows.items()}


def _is_gapless(number: IntArray) -> bool:
    """Whether ascending numbers, at least one, have no gap."""
    return int(number[-1]) - int(number[0]) == len(number) - 1


def _filled_back(first_record_ns: IntArray, channel: IntArray) -> IntArray:
    """Replace each unknown instant by the next known one of its channel, which is that of the
    record it belongs to."""
    known = np.flatnonzero(first_record_ns >= 0)
    if len(known) in (0, len(first_record_ns)):
        return first_record_ns
    filled: IntArray = np.full(len(first_record_ns), -1)
    source = np.repeat(known, np.diff(known, prepend=-1))
    own = channel[: len(source)] == channel[source]
    filled[: len(source)] = np.where(own, first_record_ns[source], -1)
    return filled
