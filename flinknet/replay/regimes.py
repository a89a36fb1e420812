"""Regimes: where the time of a channel goes. Each instant belongs to one, so they sum to the whole.

At any instant the oldest record that its consumer is not done with is somewhere on its way; that
place is the channel's regime. Without such a record the channel is idle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM, DataType
from flinknet.core.probe import MessageKind, TracePoint

from .buffers import BUFFER_COLUMNS, ChannelBuffers, paired_buffers
from .intervals import NOTHING, Intervals, from_switches
from .stretches import Stretch, ascending, ask_stretches, stretches
from .throughput import window_width_ns
from .units import Answer, EventColumns, IntArray, RecordedRun, in_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, eq=False)
class Regimes:
    """The time of one channel, split; the intervals are disjoint."""

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


REGIMES = (*(each.name for each in fields(Regimes)), "idle")

_COLUMNS = (*BUFFER_COLUMNS, "backlog_buffers", "credit_after")
_SCHEMA = "run bigint, channel bigint, from_ns bigint, width_ns bigint, regime string, ns bigint"


def regimes_over_time(
    spark: SparkSession, runs: Sequence[RecordedRun], split: int | None = None
) -> DataFrame:
    """How long each channel was in each regime, window by window of the measured part.

    Args:
        split: stretches that each run is cut into; None for as many as suit its size. The answer
            does not depend on it.

    Returns: run, channel, from_ns (of the window, counted from the start of the measured part),
    width_ns, regime, ns. The regimes of a window sum to its width.
    """
    from pyspark.sql import functions as f

    keys = ("run", "channel", "from_ns", "regime")
    units = stretches(runs, spark.sparkContext.defaultParallelism, split)
    merged = (
        ask_stretches(spark, units, _split, _COLUMNS, _SCHEMA)
        .groupBy(*keys)
        .agg(f.sum("width_ns").alias("width_ns"), f.sum("ns").alias("ns"))
        .select("run", "channel", "from_ns", "width_ns", "regime", "ns")
    )
    return in_order(merged, *keys)


def regimes_of(
    buffers: ChannelBuffers,
    starved: Intervals,
    blocked: Intervals,
    from_ns: int,
    to_ns: int,
    offered: Intervals = NOTHING,
) -> Regimes:
    """Split the time of a channel.

    Args:
        buffers: of the channel, in the order of their sequence numbers.
        starved: when the producer had something to send and no credit.
        blocked: when a barrier kept the producer from sending.
        from_ns: start of the window.
        to_ns: end of the window.
        offered: when the producer of a local channel had something ready for its consumer.
    """
    done_before_ns = np.maximum.accumulate(np.r_[from_ns, buffers.consumed_ns])[:-1]
    has_instant = buffers.first_record_ns >= 0
    came_ns = np.where(has_instant, buffers.first_record_ns, buffers.sent_ns)
    oldest_from_ns = np.maximum(came_ns, done_before_ns)
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
        in_receiver_queue=in_receiver_queue.beside(before_consumer),
    )


def starved_intervals(events: EventColumns, to_ns: int) -> Intervals:
    """When the producer of a channel had a backlog and no credit, as its messages tell."""
    is_sent = (events["kind"] == MessageKind.BUFFER_RESPONSE) & (events["point"] == TracePoint.SENT)
    is_credit = (events["kind"] == MessageKind.ADD_CREDIT) & (
        events["point"] == TracePoint.RECEIVED
    )
    keep = is_sent | is_credit
    is_starved = is_sent & (events["credit_after"] == 0) & (events["backlog_buffers"] > 0)
    return _switched(events, keep, is_starved, to_ns)


def offered_intervals(events: EventColumns, to_ns: int) -> Intervals:
    """When more was ready on a local channel, which knows no credit, behind what its consumer had
    taken."""
    is_sent = (events["kind"] == MessageKind.BUFFER_RESPONSE) & (events["point"] == TracePoint.SENT)
    is_local = is_sent & (events["credit_after"] < 0)
    return _switched(events, is_sent, is_local & (events["backlog_buffers"] > 0), to_ns)


def blocked_intervals(events: EventColumns, to_ns: int) -> Intervals:
    """When a blocking event had left the producer of a channel and its consumer had not said to go
    on. On a local channel no message says so: what leaves next shows it, and the end of recovery,
    which has no alignment, blocks nothing.
    """
    is_sent = (events["kind"] == MessageKind.BUFFER_RESPONSE) & (events["point"] == TracePoint.SENT)
    is_local_recovery = (events["credit_after"] < 0) & (
        events["data_type"] == DataType.RECOVERY_COMPLETION
    )
    is_barrier = (
        is_sent & np.isin(events["data_type"], list(IS_BLOCKING_UPSTREAM)) & ~is_local_recovery
    )
    is_resume = (events["kind"] == MessageKind.RESUME_CONSUMPTION) & (
        events["point"] == TracePoint.RECEIVED
    )
    return _switched(events, is_sent | is_resume, is_barrier, to_ns)


def _switched(
    events: EventColumns,
    keep: npt.NDArray[np.bool_],
    is_on: npt.NDArray[np.bool_],
    to_ns: int,
) -> Intervals:
    rows = ascending({"at_ns": events["at_ns"], "is_on": is_on}, np.flatnonzero(keep))
    return from_switches(rows["at_ns"], rows["is_on"], to_ns)


def _split(unit: Stretch, events: Mapping[int, EventColumns]) -> Iterator[Answer]:
    for channel in unit.channels:
        yield from _split_channel(unit, channel, events[channel])


def _split_channel(unit: Stretch, channel: int, events: EventColumns) -> Iterator[Answer]:
    regimes = regimes_of(
        paired_buffers(events),
        starved_intervals(events, unit.to_ns),
        blocked_intervals(events, unit.to_ns),
        unit.from_ns,
        unit.to_ns,
        offered_intervals(events, unit.to_ns),
    )
    width_ns = window_width_ns(unit.measured_to_ns - unit.measured_from_ns)
    first = (unit.from_ns - unit.measured_from_ns) // width_ns
    starts_ns = np.arange(unit.measured_from_ns + first * width_ns, unit.to_ns, width_ns)
    edges_ns = np.r_[unit.from_ns, starts_ns[1:], unit.to_ns]
    spent: dict[str, IntArray] = {
        each.name: np.diff(getattr(regimes, each.name).until(edges_ns)) for each in fields(Regimes)
    }
    widths_ns = np.diff(edges_ns)
    spent["idle"] = widths_ns - np.sum(list(spent.values()), axis=0)
    for name, ns in spent.items():
        yield {
            "run": np.full(len(ns), unit.run),
            "channel": np.full(len(ns), channel),
            "from_ns": starts_ns - unit.measured_from_ns,
            "width_ns": widths_ns,
            "regime": [name] * len(ns),
            "ns": ns,
        }
