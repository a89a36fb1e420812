"""How the tasks at the ends of an edge spend their time: how long the writer of a producer waited
for buffers, and how long a consumer had something to work on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinknet.arrays import IntArray
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.predict.intervals import NOTHING, Intervals, from_switches, merged
from flinknet.trace.buffers import SortedEvents, data_at_all

from ..spark.frames import Columns, columns_of
from .channel_events import ChannelEvents, Window
from .question import EVERY, Question
from .regimes import (
    REGIME_TIMES,
    regime_rows,
    regimes_in,
)
from .time_slices import TimeSlice

WORKING = "working"
"""Time in which a consumer had buffers in its queue or was processing one."""

WAITS = "waits"
"""Time in which the writer of a producer waited for a buffer."""

TRANSITS, LATE_TRANSITS = "transits", "late transits"
"""Number of data buffers that a channel carried between TaskManagers, and how many took longer than
LATE_NS."""

LATE_NS = 2_000_000
"""Longest time of a buffer on an undisturbed way: between idle processes of one host it takes
0.1 ms."""


@dataclass(frozen=True, slots=True)
class TaskTimeRow:
    """Time of a channel, or of a task over all its channels (the other end is EVERY).

    Attributes:
        what: one of the names above.
        amount: ns; for transits a number.
    """

    run: int
    producer: int
    consumer: int
    what: str
    amount: int


TASK_TIMES = Question(
    "task_times",
    TaskTimeRow,
    keys=("run", "producer", "consumer", "what"),
    sums=("amount",),
    by="producer",
)


def known_task_times(rows: pa.Table) -> pa.Table:
    """The rows with an amount."""
    return rows.filter(pc.greater(rows["amount"], 0))


def observe_slice(unit: TimeSlice, events: ChannelEvents) -> Iterator[tuple[str, Columns]]:
    """Columns of RegimeRow and of TaskTimeRow of a slice, each with the name of their table."""
    consumers = np.array(unit.consumers, np.int64)
    in_queue: dict[int, list[Intervals]] = {consumer: [] for consumer in unit.consumers}
    for places, own, window in events.laid_out(unit.from_ns, unit.to_ns):
        regimes = regimes_in(own, window)
        yield REGIME_TIMES.name, regime_rows(unit, events.channels[places], regimes, window)
        yield TASK_TIMES.name, _transits(unit, places, own, window)
        queued = _by_channel(unit, regimes.in_receiver_queue, window)
        for consumer, found in zip(consumers[places].tolist(), queued, strict=True):
            in_queue[consumer].append(found)
    rows = [
        TaskTimeRow(unit.run, EVERY, consumer, WORKING, merged(parts).total_ns)
        for consumer, parts in in_queue.items()
    ]
    rows += _waiting_rows(unit, events)
    yield TASK_TIMES.name, columns_of(TaskTimeRow, rows)


def _by_channel(unit: TimeSlice, found: Intervals, window: Window) -> list[Intervals]:
    """Intervals of each channel, in its own time, from intervals on an axis."""
    edges = np.searchsorted(found.starts_ns, window.on_axis(np.array([window.from_ns])).ravel())
    bounds = pairwise([*edges.tolist(), len(found.starts_ns)])
    shift_ns: IntArray | int = unit.from_ns - window.from_ns
    if window.channels > 1:
        shift_ns = shift_ns - window.places(found.starts_ns) * window.length_ns
    starts_ns, ends_ns = found.starts_ns + shift_ns, found.ends_ns + shift_ns
    return [Intervals(starts_ns[low:high], ends_ns[low:high]) for low, high in bounds]


def _waiting_rows(unit: TimeSlice, events: ChannelEvents) -> list[TaskTimeRow]:
    """Waiting times of producers."""
    by_producer: dict[int, list[int]] = {}
    for place, producer in enumerate(unit.producers):
        by_producer.setdefault(producer, []).append(place)
    return [
        TaskTimeRow(unit.run, producer, EVERY, WAITS, _waits(unit, events, places).total_ns)
        for producer, places in by_producer.items()
    ]


def _waits(unit: TimeSlice, events: ChannelEvents, places: Sequence[int]) -> Intervals:
    """Intervals in which the writer of the channels at some places waited; it notes them on one of
    these channels."""
    points = (TracePoint.WRITER_WAITS, TracePoint.WRITER_RESUMES)
    parts: tuple[list[IntArray], list[IntArray]] = ([], [])
    for point, found in zip(points, parts, strict=True):
        key = (int(MessageKind.BUFFER_RESPONSE), int(point))
        if key in events.rows:
            bounds, at_ns = events.bounds[key].tolist(), events.rows[key]["at_ns"]
            found += [at_ns[bounds[place] : bounds[place + 1]] for place in places]
    begun, ended = (np.concatenate([*found, np.zeros(0, np.int64)]) for found in parts)
    at_ns = np.concatenate([begun, ended])
    if not len(at_ns):
        return NOTHING
    begins = np.arange(len(at_ns)) < len(begun)
    order = np.lexsort((begins, at_ns))  # who goes on and waits again at one instant, waits
    at_ns, begins = at_ns[order], begins[order]
    if not begins[0]:  # it has waited since before
        at_ns = np.r_[min(unit.from_ns, at_ns[0]), at_ns]
        begins = np.r_[True, begins]
    return from_switches(at_ns, begins, unit.to_ns).clipped(unit.from_ns, unit.to_ns)


def _transits(unit: TimeSlice, places: range, events: SortedEvents, window: Window) -> Columns:
    """Columns of TaskTimeRow: buffers that channels received within a slice, and late ones."""
    columns = ("at_ns", "sequence_number", "channel")
    points = (TracePoint.SENT, TracePoint.RECEIVED)
    sent, received = data_at_all(events, points, (columns[:2], columns))
    arrived_ns, channel = received["at_ns"], received["channel"]
    inside = arrived_ns >= window.starts_ns(arrived_ns)
    inside &= arrived_ns < window.ends_ns(arrived_ns)
    late = inside & (arrived_ns - sent["at_ns"] > LATE_NS)
    count = len(places)
    numbers = (
        [np.bincount(channel[each], minlength=count) for each in (inside, late)]
        if count > 1
        else [[np.count_nonzero(each)] for each in (inside, late)]
    )
    return {
        "run": np.full(2 * count, unit.run),
        "producer": np.tile(np.array(unit.producers)[places], 2),
        "consumer": np.tile(np.array(unit.consumers)[places], 2),
        "what": np.repeat(np.array([TRANSITS, LATE_TRANSITS], object), count),
        "amount": np.concatenate(numbers),
    }
