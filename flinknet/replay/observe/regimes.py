"""States of channels and of the tasks at their ends in slices of time.

Regimes say how a channel spends its time; each instant belongs to one. The regime at an instant is
the place of the oldest record that has not been consumed yet; without such a record the channel is
idle. Task times say how long the writer of a producer waited for buffers, and how long a consumer
had something to work on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.predict.intervals import NOTHING, Intervals, from_switches, merged
from flinknet.trace.buffers import (
    ChannelBuffers,
    SortedEvents,
    data_at_all,
    events_at,
    paired_buffers,
)

from ..spark.frames import Columns, columns_of
from .channel_events import ChannelEvents, Window
from .credit import CREDIT_TRIPS, own_trips
from .question import EVERY, Question
from .stretches import CHANNEL_TIMES, IS_BLOCKING_BY_TYPE, STARVED
from .traffic import window_width_ns
from .units import Group, Unit


@dataclass(frozen=True, slots=True, eq=False)
class Regimes:
    """Intervals of one channel by regime; they are disjoint."""

    waiting_for_flush: Intervals
    """In a buffer that is still open, or that waits for its producer's turn."""
    waiting_for_credit: Intervals  # ready to leave, but the receiver has no free buffer
    blocked_by_alignment: Intervals  # behind a checkpoint barrier whose alignment goes on
    in_socket: Intervals  # handed to the transport, and not decoded yet
    in_receiver_queue: Intervals
    """Decoded, and its consumer is not done with it; on a local channel also ready to be read, for
    its consumer reads what the producer has queued."""


_NEVER_NS = 1 << 62

REGIMES = (*(each.name for each in fields(Regimes)), "idle")


@dataclass(frozen=True, slots=True)
class RegimeRow:
    """Time of a channel in each regime within a window, in ns; the regimes sum to its width.
    `from_ns` counts from the start of the measured part. Very many channels have wider windows."""

    run: int
    channel: int
    from_ns: int
    width_ns: int
    waiting_for_flush: int
    waiting_for_credit: int
    blocked_by_alignment: int
    in_socket: int
    in_receiver_queue: int
    idle: int


WINDOWS_OF_ALL_CHANNELS = 600_000
"""Most windows of all channels of a group of files together; a window takes 80 bytes."""

WORKING = "working"
"""Time in which a consumer had buffers in its queue or was processing one."""

WAITS = "waits"
"""Time in which the writer of a producer waited for a buffer."""

TRANSITS, LATE_TRANSITS = "transits", "late transits"
"""Data buffers that a channel carried between TaskManagers; those that took over LATE_NS."""

LATE_NS = 2_000_000
"""Longest undisturbed time of a buffer; between idle processes of one host it is 0.1 ms."""


@dataclass(frozen=True, slots=True)
class TaskTimeRow:
    """Time in ns of a channel, or of a task over all its channels (the other end is EVERY); for
    transits a number. `what` is one of the names above."""

    run: int
    producer: int
    consumer: int
    what: str
    amount: int


class Hindrances(NamedTuple):
    """Intervals in which the producer of a channel did not send, by its messages. A local channel
    has no message that resumes it: the next buffer shows it. The end of recovery, which has no
    alignment, blocks no local channel."""

    starved: Intervals  # it had a backlog and no credit
    blocked: Intervals  # from a blocking event that left until the consumer resumed the channel
    offered: Intervals  # a local channel, without credit, had data that its consumer had not taken


def regimes_of(buffers: ChannelBuffers, hindrances: Hindrances, window: Window) -> Regimes:
    """Split the time of channels into regimes, by their buffers in ascending order."""
    starved, blocked, offered = hindrances
    from_ns, to_ns = window.starts_ns(buffers.sent_ns), window.ends_ns(buffers.sent_ns)
    done_before_ns = np.maximum.accumulate(np.r_[window.from_ns, buffers.consumed_ns])[:-1]
    has_instant = buffers.first_record_ns >= 0
    came_ns = np.where(has_instant, buffers.first_record_ns, buffers.sent_ns)
    oldest_from_ns = np.maximum(np.maximum(came_ns, done_before_ns), from_ns)
    edges = [oldest_from_ns]
    for instants_ns in (buffers.sent_ns, buffers.received_ns, buffers.consumed_ns):
        edges.append(np.maximum(edges[-1], instants_ns))
    queued, in_socket, in_receiver_queue = (
        Intervals(start_ns, end_ns).clipped(from_ns, to_ns) for start_ns, end_ns in pairwise(edges)
    )
    free = queued.without(blocked)
    before_consumer = free.both(offered)
    free = free.without(offered)
    return Regimes(
        waiting_for_flush=free.without(starved),
        waiting_for_credit=free.both(starved),
        blocked_by_alignment=queued.both(blocked),
        in_socket=in_socket,
        in_receiver_queue=merged([in_receiver_queue, before_consumer]),
    )


def hindrances_in(events: SortedEvents, window: Window) -> Hindrances:
    columns = ("at_ns", "data_type", "backlog_buffers", "credit_after")
    sent = events_at(events, MessageKind.BUFFER_RESPONSE, TracePoint.SENT, columns)
    has_backlog, is_local = sent["backlog_buffers"] > 0, sent["credit_after"] < 0
    is_barrier = IS_BLOCKING_BY_TYPE[sent["data_type"]]
    is_barrier &= ~(is_local & (sent["data_type"] == DataType.RECOVERY_COMPLETION))
    is_starved = (sent["credit_after"] == 0) & has_backlog
    return Hindrances(
        _switched(events, is_starved, MessageKind.ADD_CREDIT, window),
        _switched(events, is_barrier, MessageKind.RESUME_CONSUMPTION, window),
        _switched(events, is_local & has_backlog, None, window),
    )


def _switched(
    events: SortedEvents, is_on: npt.NDArray[np.bool_], ended_by: MessageKind | None, window: Window
) -> Intervals:
    """Intervals from sent messages that switch a state on until the next message is sent, or one of
    the kind `ended_by` is received, or the window ends."""
    if not is_on.any():
        return NOTHING
    columns = ("at_ns", "place")
    parts = [events_at(events, MessageKind.BUFFER_RESPONSE, TracePoint.SENT, columns)]
    if ended_by is not None:
        parts.append(events_at(events, ended_by, TracePoint.RECEIVED, columns))
    at_ns, place = (np.concatenate([part[name] for part in parts]) for name in columns)
    is_on = np.concatenate([is_on, np.zeros(len(at_ns) - len(is_on), bool)])
    order = np.argsort(place, kind="stable")
    order = order[np.argsort(at_ns[order], kind="stable")]
    found = from_switches(at_ns[order], is_on[order], _NEVER_NS)
    starts_ns, ends_ns = found.starts_ns, np.minimum(found.ends_ns, window.ends_ns(found.starts_ns))
    keep = starts_ns < ends_ns
    return Intervals(starts_ns[keep], ends_ns[keep])


def observe_slice(unit: Unit, group: Group, events: ChannelEvents) -> Iterator[tuple[str, Columns]]:
    """Columns of RegimeRow, TaskTimeRow, CreditRow and Stretch, with the name of their table."""
    in_queue: dict[int, list[Intervals]] = {each: [] for each in group.consumers.tolist()}
    measured_ns = unit.to_ns - unit.from_ns
    width_ns = window_width_ns(measured_ns)  # with very many channels, of several windows in one
    most = max(WINDOWS_OF_ALL_CHANNELS // max(len(group.channels), 1), 1)
    width_ns *= max(-(-measured_ns // (width_ns * most)), 1)
    for places, own, window in events.laid_out(unit.slice_from_ns, unit.slice_to_ns):
        hindrances = hindrances_in(own, window)
        regimes = regimes_of(paired_buffers(own), hindrances, window)
        channels, producers, consumers = (each[places] for each in group.ends)
        yield REGIME_TIMES.name, _regime_rows(unit, channels, regimes, window, width_ns)
        yield TASK_TIMES.name, _transits(producers, consumers, own, window)
        yield CREDIT_TRIPS.name, own_trips(channels, own, window)
        yield CHANNEL_TIMES.name, _starved(unit, channels, hindrances.starved, window)
        queued = _by_channel(unit, regimes.in_receiver_queue, window)
        for consumer, found in zip(consumers.tolist(), queued, strict=True):
            in_queue[consumer].append(found)
    rows = [
        TaskTimeRow(unit.run, EVERY, consumer, WORKING, merged(parts).total_ns)
        for consumer, parts in in_queue.items()
    ]
    places_of: dict[int, list[int]] = {}
    for place, producer in enumerate(group.producers.tolist()):
        places_of.setdefault(producer, []).append(place)
    rows += [
        TaskTimeRow(unit.run, producer, EVERY, WAITS, _waits(unit, events, own).total_ns)
        for producer, own in places_of.items()
    ]
    yield TASK_TIMES.name, columns_of(TaskTimeRow, rows)


def _by_channel(unit: Unit, found: Intervals, window: Window) -> list[Intervals]:
    """Intervals of each channel, in its own time, from intervals on an axis."""
    edges = np.searchsorted(found.starts_ns, window.on_axis(np.array([window.from_ns])).ravel())
    bounds = pairwise([*edges.tolist(), len(found.starts_ns)])
    shift_ns: IntArray | int = unit.slice_from_ns - window.from_ns
    if window.channels > 1:
        shift_ns = shift_ns - window.places(found.starts_ns) * window.length_ns
    starts_ns, ends_ns = found.starts_ns + shift_ns, found.ends_ns + shift_ns
    return [Intervals(starts_ns[low:high], ends_ns[low:high]) for low, high in bounds]


def _regime_rows(
    unit: Unit, channels: IntArray, regimes: Regimes, window: Window, width_ns: int
) -> Columns:
    """Columns of RegimeRow for some channels of a slice, in windows of a width."""
    first = (unit.slice_from_ns - unit.from_ns) // width_ns
    starts_ns = np.arange(unit.from_ns + first * width_ns, unit.slice_to_ns, width_ns)
    edges_ns = np.r_[unit.slice_from_ns, starts_ns[1:], unit.slice_to_ns]
    spent = {
        each.name: _spent_ns(getattr(regimes, each.name), unit, edges_ns, window)
        for each in fields(Regimes)
    }
    widths_ns = np.diff(edges_ns)
    spent["idle"] = widths_ns - np.sum(list(spent.values()), axis=0)
    count, times = len(starts_ns), len(channels)
    return {
        "channel": np.repeat(channels, count),
        "from_ns": np.tile(starts_ns - unit.from_ns, times),
        "width_ns": np.tile(widths_ns, times),
        **{name: each.ravel() for name, each in spent.items()},
    }


def _spent_ns(found: Intervals, unit: Unit, edges_ns: IntArray, window: Window) -> IntArray:
    on_axis_ns = window.on_axis(edges_ns - unit.slice_from_ns + window.from_ns)
    before_ns = found.until(on_axis_ns.ravel()).reshape(on_axis_ns.shape)
    return np.diff(before_ns, axis=1)


def _starved(unit: Unit, channels: IntArray, starved: Intervals, window: Window) -> Columns:
    """Columns of Stretch: time of some channels without credit in a slice."""
    from_ns, to_ns = unit.slice_from_ns, unit.slice_to_ns
    alike = {
        **{"state": STARVED, "window_to_ns": unit.to_ns, "ends_on": False},
        **{"begun_ns": from_ns, "first_ns": from_ns, "last_ns": to_ns},
    }
    return {
        "channel": channels,
        "on_ns": _spent_ns(starved, unit, np.array([from_ns, to_ns]), window).ravel(),
        **{name: np.full(len(channels), each) for name, each in alike.items()},
    }


def _waits(unit: Unit, events: ChannelEvents, places: Sequence[int]) -> Intervals:
    """Intervals in which the writer of some channels waited; they are noted on one of them."""
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
        at_ns = np.r_[min(unit.slice_from_ns, at_ns[0]), at_ns]
        begins = np.r_[True, begins]
    return from_switches(at_ns, begins, unit.slice_to_ns).clipped(
        unit.slice_from_ns, unit.slice_to_ns
    )


def _transits(
    producers: IntArray, consumers: IntArray, events: SortedEvents, window: Window
) -> Columns:
    """Columns of TaskTimeRow: buffers that channels received within a slice, and late ones."""
    columns = ("at_ns", "sequence_number", "channel")
    points = (TracePoint.SENT, TracePoint.RECEIVED)
    sent, received = data_at_all(events, points, (columns[:2], columns))
    arrived_ns, channel = received["at_ns"], received["channel"]
    inside = arrived_ns >= window.starts_ns(arrived_ns)
    inside &= arrived_ns < window.ends_ns(arrived_ns)
    late = inside & (arrived_ns - sent["at_ns"] > LATE_NS)
    count = len(producers)
    numbers = [np.bincount(channel[each], minlength=count) for each in (inside, late)]
    return {
        "producer": np.tile(producers, 2),
        "consumer": np.tile(consumers, 2),
        "what": np.repeat(np.array([TRANSITS, LATE_TRANSITS], object), count),
        "amount": np.concatenate(numbers),
    }


REGIME_TIMES = Question(
    "regimes",
    RegimeRow,
    keys=("run", "channel", "from_ns"),
    sums=("width_ns", *REGIMES),
    ask_slice=observe_slice,
)
TASK_TIMES = Question(
    "task_times",
    TaskTimeRow,
    keys=("run", "producer", "consumer", "what"),
    sums=("amount",),
    by="producer",
    ask_slice=observe_slice,
)
