"""What the tasks at the ends of an edge did with their time: how long a producer's writer waited
for buffers and which of its channels could not go on meanwhile, and how long a consumer had
something to work on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from flinknet.core.probe import MessageKind, TracePoint
from flinknet.predict.intervals import NOTHING, Intervals, from_switches, merged
from flinknet.trace.buffers import SortedEvents, data_at, events_at

from ..spark.frames import Columns, columns_of
from .regimes import (
    Regimes,
    blocked_intervals,
    creditless_intervals,
    offered_intervals,
    regime_rows,
    regimes_in,
)
from .sums import Sums
from .time_slices import TimeSlice

EVERY = -1
"""Stands for the other end of all channels of a task."""

WORKING = "working"
"""Of a consumer: something lay in front of it, or was being processed."""

WAITS = "waits"
"""Of a producer: its writer waited for a buffer."""

AT_CONSUMER, AT_BARRIER, ON_THE_WAY, FOR_CREDIT = (
    "waits at consumer",
    "waits at barrier",
    "waits on the way",
    "waits for credit",
)
"""Of a channel, while the writer of its producer waited and it could take nothing: its consumer was
working; else a barrier blocked it; else data was on its way; else the receiver had nothing of it,
and its credit was not back."""

FOR_POOL = "waits for pool"
"""Of a producer: its writer waited although every channel could have gone on."""

TRANSITS, LATE_TRANSITS = "transits", "late transits"
"""Of a channel: data buffers that went from TaskManager to TaskManager, and those that took longer
than LATE_NS: numbers, not times."""

LATE_NS = 2_000_000
"""A buffer that is longer on its way than this was held up there: between idle processes of one
host it takes 0.1 ms."""


@dataclass(frozen=True, slots=True)
class TaskTimeRow:
    """Time of a channel, or of one end of all channels of a task (the other end is EVERY).

    Attributes:
        amount: ns; for transits a number.
    """

    run: int
    producer: int
    consumer: int
    what: str
    amount: int


MERGE_TASK_TIMES = Sums(("run", "producer", "consumer", "what"), ("amount",))

_Events = Mapping[int, SortedEvents]


def observe_slice(unit: TimeSlice, events: _Events) -> Mapping[str, Iterable[Columns]]:
    """Rows of RegimeRow and of TaskTimeRow of a slice."""
    regimes = {channel: regimes_in(unit, events[channel]) for channel in unit.channels}
    return {
        "regimes": [regime_rows(unit, channel, own) for channel, own in regimes.items()],
        "task_times": [columns_of(TaskTimeRow, _task_times(unit, events, regimes))],
    }


def _task_times(
    unit: TimeSlice, events: _Events, regimes: Mapping[int, Regimes]
) -> list[TaskTimeRow]:
    rows = []
    by_producer: dict[int, list[tuple[int, int]]] = {}
    by_consumer: dict[int, list[int]] = {}
    for channel, producer, consumer in zip(
        unit.channels, unit.producers, unit.consumers, strict=True
    ):
        by_producer.setdefault(producer, []).append((channel, consumer))
        by_consumer.setdefault(consumer, []).append(channel)
        for what, amount in _transits(unit, events[channel]).items():
            rows.append(TaskTimeRow(unit.run, producer, consumer, what, amount))
    working = {
        consumer: merged(regimes[channel].in_receiver_queue for channel in own)
        for consumer, own in by_consumer.items()
    }
    for consumer, busy in working.items():
        rows.append(TaskTimeRow(unit.run, EVERY, consumer, WORKING, busy.total_ns))
    for producer, own in by_producer.items():
        waits = _waits(unit, [events[channel] for channel, _ in own])
        rows.append(TaskTimeRow(unit.run, producer, EVERY, WAITS, waits.total_ns))
        if not len(waits.starts_ns):
            continue
        held, under_way = [], []
        for channel, consumer in own:
            blocked = blocked_intervals(events[channel], unit.to_ns)
            stopped = _stopped(unit, events[channel], blocked)
            held.append(stopped)
            under_way.append(regimes[channel].in_socket)
            causes = _causes(
                waits.both(stopped), working[consumer], blocked, regimes[channel].in_socket
            )
            rows += [
                TaskTimeRow(unit.run, producer, consumer, what, ns) for what, ns in causes.items()
            ]
        free = waits.without(merged(held))
        on_the_way = merged(under_way)
        for what, found in (
            (ON_THE_WAY, free.both(on_the_way)),
            (FOR_POOL, free.without(on_the_way)),
        ):
            rows.append(TaskTimeRow(unit.run, producer, EVERY, what, found.total_ns))
    return rows


def _causes(
    held: Intervals, working: Intervals, blocked: Intervals, in_socket: Intervals
) -> dict[str, int]:
    """Why a channel could take nothing, as the time that went to each cause."""
    rest = held.without(working)
    at_barrier = rest.both(blocked)
    rest = rest.without(blocked)
    on_the_way = rest.both(in_socket).total_ns
    return {
        AT_CONSUMER: held.both(working).total_ns,
        AT_BARRIER: at_barrier.total_ns,
        ON_THE_WAY: on_the_way,
        FOR_CREDIT: rest.total_ns - on_the_way,
    }


def _stopped(unit: TimeSlice, events: SortedEvents, blocked: Intervals) -> Intervals:
    """When a channel could take nothing: no credit, a barrier, or, on a local one, a consumer that
    had not taken what was ready."""
    stops = (
        creditless_intervals(events, unit.to_ns),
        blocked,
        offered_intervals(events, unit.to_ns),
    )
    return merged(stops).clipped(unit.from_ns, unit.to_ns)


def _waits(unit: TimeSlice, events: Iterable[SortedEvents]) -> Intervals:
    """When a writer waited. It notes that on one of its channels."""
    points = (TracePoint.WRITER_WAITS, TracePoint.WRITER_RESUMES)
    parts = [
        events_at(own, MessageKind.BUFFER_RESPONSE, point, ("at_ns",))["at_ns"]
        for point in points
        for own in events
    ]
    at_ns = np.concatenate(parts)
    if not len(at_ns):
        return NOTHING
    count = len(parts) // len(points)
    begins = np.zeros(len(at_ns), bool)
    begins[: sum(len(each) for each in parts[:count])] = True
    order = np.lexsort((begins, at_ns))  # who goes on and waits again at one instant, waits
    at_ns, begins = at_ns[order], begins[order]
    if not begins[0]:  # it has waited since before
        at_ns = np.r_[min(unit.from_ns, at_ns[0]), at_ns]
        begins = np.r_[True, begins]
    return from_switches(at_ns, begins, unit.to_ns).clipped(unit.from_ns, unit.to_ns)


def _transits(unit: TimeSlice, events: SortedEvents) -> dict[str, int]:
    """Buffers that were received within a slice, and the late ones of them."""
    sent, received = (
        data_at(events, point, ("at_ns", "sequence_number"))
        for point in (TracePoint.SENT, TracePoint.RECEIVED)
    )
    _, left, right = np.intersect1d(
        sent["sequence_number"], received["sequence_number"], return_indices=True
    )
    arrived_ns = received["at_ns"][right]
    inside = (arrived_ns >= unit.from_ns) & (arrived_ns < unit.to_ns)
    took_ns = (arrived_ns - sent["at_ns"][left])[inside]
    return {TRANSITS: len(took_ns), LATE_TRANSITS: int((took_ns > LATE_NS).sum())}
