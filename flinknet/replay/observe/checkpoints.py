"""Checkpoints as a trace shows them: when each barrier left its producer, when its consumer read
it, and, between processes, when the consumer let the producer go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinknet.arrays import IntArray
from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.histogram import LogLinearHistogram
from flinknet.results import CheckpointSummary
from flinknet.trace.event_block import EventBlock

from ..spark.frames import Columns
from ..spark.units import Asked, WorkUnit

BARRIERS_MAX = 200_000
"""Barriers of a run that are brought to the driver; of more, those of every so many-th
checkpoint."""

_TYPES = (
    DataType.PRIORITIZED_EVENT_BUFFER,
    DataType.ALIGNED_CHECKPOINT_BARRIER,
    DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER,
)
_COLUMNS = ("at_ns", "channel", "point", "kind", "data_type", "sequence_number", "value", "order")
_KEYS = ["run", "channel", "sequence_number"]
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class BarrierRow:
    """A barrier on a channel; -1 for what was not recorded.

    Attributes:
        sent_ns: when it left its producer.
        read_ns: when its consumer was done with it; between processes, when the consumer told the
            producer to go on.
        unaligned: 1 if it overtook data.
    """

    run: int
    channel: int
    sequence_number: int
    checkpoint: int
    sent_ns: int
    read_ns: int
    unaligned: int


def merge_barriers(parts: pa.Table) -> pa.Table:
    """One row of all that was recorded of a barrier."""
    names = ["checkpoint", "sent_ns", "read_ns", "unaligned"]
    found = parts.group_by(_KEYS, use_threads=False).aggregate([(name, "max") for name in names])
    found = found.rename_columns([*_KEYS, *names]).select(parts.column_names)
    return found.sort_by([(name, "ascending") for name in _KEYS])


def known_barriers(barriers: pa.Table) -> pa.Table:
    """Barriers whose checkpoint is known."""
    return barriers.filter(pc.greater_equal(barriers["checkpoint"], 0))


def thinned_barriers(barriers: pa.Table) -> pa.Table:
    """Not too many of them: all of every so many-th checkpoint."""
    step = -(-len(barriers) // BARRIERS_MAX)
    if step > 1:
        barriers = barriers.filter(pa.array(barriers["checkpoint"].to_numpy() % step == 0))
    return barriers


def checkpoints_of(
    barriers: Sequence[BarrierRow],
    consumer_of: Mapping[int, int],
    window_ns: tuple[int, int],
    *,
    is_from_between: bool,
) -> CheckpointSummary | None:
    """The checkpoints whose first barrier left within a window; None if there are none.

    A checkpoint is complete when each channel that has ever had a barrier has had this one. What
    the network does not show is unknown: when a checkpoint was triggered, and its bytes. Between
    processes the travel of a barrier is unknown, and its alignment lasts until its producer may go
    on.

    Args:
        consumer_of: channels.
    """
    of: dict[int, list[BarrierRow]] = {}
    for each in barriers:
        if each.sent_ns >= 0:
            of.setdefault(each.checkpoint, []).append(each)
    from_ns, to_ns = window_ns
    of = {
        checkpoint: own
        for checkpoint, own in of.items()
        if from_ns <= min(each.sent_ns for each in own) < to_ns
    }
    if not of:
        return None
    channels = len({each.channel for own in of.values() for each in own})
    duration, alignment, travel = (LogLinearHistogram() for _ in range(3))
    completed = 0
    for own in of.values():
        read = [each for each in own if each.read_ns >= 0]
        if len({each.channel for each in read}) < channels:
            continue
        completed += 1
        duration.add([max(e.read_ns for e in read) - min(e.sent_ns for e in read)])
        if not is_from_between:
            travel.add([each.read_ns - each.sent_ns for each in read])
        alignment.add(_alignments(read, consumer_of, is_from_between=is_from_between))
    return CheckpointSummary(
        triggered=len(of),
        completed=completed,
        aborted=None,
        unaligned=sum(any(each.unaligned for each in own) for own in of.values()),
        duration_ns=duration.summary(),
        start_delay_ns=LogLinearHistogram().summary(),
        alignment_ns=alignment.summary(),
        travel_ns=travel.summary(),
        overtaken_bytes_mean=None,
        overtaken_bytes_max=None,
        processed_bytes_mean=None,
    )


def _alignments(
    read: Sequence[BarrierRow], consumer_of: Mapping[int, int], *, is_from_between: bool
) -> list[int]:
    """How long each consumer aligned a checkpoint."""
    by_consumer: dict[int, list[BarrierRow]] = {}
    for each in read:
        by_consumer.setdefault(consumer_of.get(each.channel, _UNKNOWN), []).append(each)
    if is_from_between:
        return [max(each.read_ns - each.sent_ns for each in own) for own in by_consumer.values()]
    return [
        max(each.read_ns for each in own) - min(each.read_ns for each in own)
        for own in by_consumer.values()
    ]


def _barriers(unit: WorkUnit, blocks: Iterator[EventBlock]) -> Iterator[Columns]:
    is_between = unit.counted_at == TracePoint.SENT
    for block in blocks:
        is_barrier = np.isin(block["data_type"], _TYPES) & (block["channel"] >= 0)
        is_barrier &= block["kind"] == MessageKind.BUFFER_RESPONSE
        if not is_barrier.any():
            continue
        is_sent = is_barrier & (block["point"] == TracePoint.SENT)
        is_read = is_barrier & (block["point"] == TracePoint.CONSUMED)
        if is_between:
            is_sent &= block["value"] >= 0
        rows = np.flatnonzero(is_sent | is_read)
        at_ns, sent = block["at_ns"][rows].astype(np.int64), is_sent[rows]
        read_ns = np.where(sent, _UNKNOWN, at_ns)
        if is_between:
            read_ns = _goes_on_ns(block, rows)
        yield {
            "run": np.full(len(rows), unit.run),
            "channel": block["channel"][rows].astype(np.int64),
            "sequence_number": block["sequence_number"][rows].astype(np.int64),
            "checkpoint": block["value"][rows].astype(np.int64),
            "sent_ns": np.where(sent, at_ns, _UNKNOWN),
            "read_ns": read_ns,
            "unaligned": (block["data_type"][rows] == _TYPES[0]).astype(np.int64),
        }


def _goes_on_ns(block: EventBlock, rows: IntArray) -> IntArray:
    """When the producers of barriers were told to go on, within the block; a barrier that overtakes
    data blocks nobody."""
    goes_on = block["kind"] == MessageKind.RESUME_CONSUMPTION
    goes_on &= block["point"] == TracePoint.RECEIVED
    told = np.flatnonzero(goes_on)
    found = np.full(len(rows), _UNKNOWN, np.int64)
    channel, at_ns = block["channel"], block["at_ns"]
    for place, row in enumerate(rows.tolist()):
        if block["data_type"][row] == _TYPES[0]:
            found[place] = at_ns[row]
            continue
        later = at_ns[told[(channel[told] == channel[row]) & (at_ns[told] >= at_ns[row])]]
        if len(later):
            found[place] = later.min()
    return found


BARRIERS = Asked(_barriers, _COLUMNS, BarrierRow)
