"""Regimes: how a channel spends its time. Each instant belongs to one regime.

The regime of a channel at an instant is the place of its oldest record that has not been consumed
yet. Without such a record the channel is idle.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM, DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.predict.intervals import NOTHING, Intervals, from_switches
from flinknet.trace.buffers import (
    ChannelBuffers,
    SortedEvents,
    events_at,
    paired_buffers,
)
from flinknet.trace.event_block import EventColumns

from ..spark.frames import Columns
from .channel_events import Window
from .question import Question
from .time_slices import TimeSlice
from .traffic import window_width_ns


@dataclass(frozen=True, slots=True, eq=False)
class Regimes:
    """Intervals of one channel by regime; they are disjoint."""

    waiting_for_flush: Intervals
    """In a buffer that is still open, or that waits for its producer's turn."""
    waiting_for_credit: Intervals
    """Ready to leave, but the receiver has no free buffer."""
    blocked_by_alignment: Intervals
    """Behind a checkpoint barrier whose alignment goes on."""
    in_socket: Intervals
    """Handed to the transport, and not decoded yet."""
    in_receiver_queue: Intervals
    """Decoded, and its consumer is not done with it; on a local channel also ready to be read, for
    its consumer reads what the producer has queued."""


_NEVER_NS = 1 << 62

REGIMES = (*(each.name for each in fields(Regimes)), "idle")

_IS_BLOCKING_BY_TYPE = np.isin(np.arange(1 << 8), list(IS_BLOCKING_UPSTREAM))


@dataclass(frozen=True, slots=True)
class RegimeRow:
    """Time of a channel in each regime within a window, in ns; the regimes sum to its width.

    `from_ns` counts from the start of the measured part. More than 10,000 channels have fewer and
    wider windows.
    """

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

REGIME_TIMES = Question(
    "regimes",
    RegimeRow,
    keys=("run", "channel", "from_ns"),
    sums=("width_ns", *REGIMES),
)


def regimes_of(
    buffers: ChannelBuffers,
    starved: Intervals,
    blocked: Intervals,
    window: Window,
    offered: Intervals = NOTHING,
) -> Regimes:
    """Split the time of channels into regimes.

    Args:
        buffers: buffers of the channels, in the order of their sequence numbers.
        starved: intervals in which the producer had data and no credit.
        blocked: intervals in which a barrier kept the producer from sending.
        offered: intervals in which a local channel had data ready for its consumer.
    """
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
        in_receiver_queue=in_receiver_queue.union(before_consumer),
    )


def starved_intervals(events: SortedEvents, window: Window) -> Intervals:
    """Intervals in which the producer of a channel had a backlog and no credit, by its messages."""
    sent = _sent(events)
    is_starved = (sent["credit_after"] == 0) & (sent["backlog_buffers"] > 0)
    return _switched(events, is_starved, MessageKind.ADD_CREDIT, window)


def offered_intervals(events: SortedEvents, window: Window) -> Intervals:
    """Intervals in which a local channel, which has no credit, had data ready that its consumer had
    not taken."""
    sent = _sent(events)
    is_offered = (sent["credit_after"] < 0) & (sent["backlog_buffers"] > 0)
    return _switched(events, is_offered, None, window)


def blocked_intervals(events: SortedEvents, window: Window) -> Intervals:
    """Intervals from a blocking event that left the producer of a channel until the consumer
    resumed the channel.

    A local channel has no message for that: the next buffer shows it. The end of recovery, which
    has no alignment, blocks no local channel.
    """
    sent = _sent(events)
    is_barrier = _IS_BLOCKING_BY_TYPE[sent["data_type"]]
    if is_barrier.any():
        is_barrier &= (sent["credit_after"] >= 0) | (
            sent["data_type"] != DataType.RECOVERY_COMPLETION
        )
    return _switched(events, is_barrier, MessageKind.RESUME_CONSUMPTION, window)


def _sent(events: SortedEvents) -> EventColumns:
    columns = ("at_ns", "data_type", "backlog_buffers", "credit_after")
    return events_at(events, MessageKind.BUFFER_RESPONSE, TracePoint.SENT, columns)


def _switched(
    events: SortedEvents,
    is_on: npt.NDArray[np.bool_],
    ended_by: MessageKind | None,
    window: Window,
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


def regimes_in(events: SortedEvents, window: Window) -> Regimes:
    """Split the time of channels within a slice.

    Args:
        events: events of the channels, on the axis of the window.
    """
    return regimes_of(
        paired_buffers(events),
        starved_intervals(events, window),
        blocked_intervals(events, window),
        window,
        offered_intervals(events, window),
    )


def _width_ns(unit: TimeSlice) -> int:
    """Width of the windows of a slice: the usual one, or a multiple with very many channels."""
    measured_ns = unit.measured_to_ns - unit.measured_from_ns
    width_ns = window_width_ns(measured_ns)
    most = max(WINDOWS_OF_ALL_CHANNELS // max(len(unit.channels), 1), 1)
    return width_ns * max(-(-measured_ns // (width_ns * most)), 1)


def regime_rows(unit: TimeSlice, channels: IntArray, regimes: Regimes, window: Window) -> Columns:
    """Columns of RegimeRow for some channels of a slice."""
    width_ns = _width_ns(unit)
    first = (unit.from_ns - unit.measured_from_ns) // width_ns
    starts_ns = np.arange(unit.measured_from_ns + first * width_ns, unit.to_ns, width_ns)
    edges_ns = np.r_[unit.from_ns, starts_ns[1:], unit.to_ns]
    on_axis_ns = window.on_axis(edges_ns - unit.from_ns + window.from_ns)
    spent: dict[str, IntArray] = {}
    for each in fields(Regimes):
        before_ns = getattr(regimes, each.name).until(on_axis_ns.ravel())
        spent[each.name] = np.diff(before_ns.reshape(on_axis_ns.shape), axis=1)
    widths_ns = np.diff(edges_ns)
    spent["idle"] = widths_ns - np.sum(list(spent.values()), axis=0)
    count, times = len(starts_ns), len(channels)
    return {
        "run": np.full(times * count, unit.run),
        "channel": np.repeat(channels, count),
        "from_ns": np.tile(starts_ns - unit.measured_from_ns, times),
        "width_ns": np.tile(widths_ns, times),
        **{name: each.ravel() for name, each in spent.items()},
    }
