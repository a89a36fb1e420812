"""Checkpoints as a trace shows them: when each barrier left its producer, when its consumer read
it, and, between processes, when the consumer let the producer go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flinknet.arrays import IntArray
from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.histogram import LogLinearHistogram
from flinknet.results import CheckpointSummary
from flinknet.trace.event_block import EventBlock
from flinknet.units import NS_PER_MS

from ..spark.frames import Columns
from ..spark.units import Asked, WorkUnit

BARRIERS_MAX = 200_000
"""Barriers of a run that are brought to the driver; of more, those of every so many-th
checkpoint."""

INTERVAL_OFF_BY = 0.005
"""A recorded interval differs from the one that was set by less than this share."""

_TYPES = (
    DataType.PRIORITIZED_EVENT_BUFFER,
    DataType.ALIGNED_CHECKPOINT_BARRIER,
    DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER,
)
_IS_BARRIER_BY_TYPE = np.isin(np.arange(1 << 8), _TYPES)
_COLUMNS = ("at_ns", "channel", "point", "kind", "data_type", "sequence_number", "value")
_KEYS = ["run", "channel", "sequence_number"]
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class BarrierRow:
    """A barrier on a channel; -1 for what was not recorded. Before they are merged there are rows
    of answers as well, with which consumers let producers go on: they have only `read_ns`.

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


def combine_barriers(parts: pa.Table) -> pa.Table:
    """One row of all that was recorded of a barrier, and the answers as they are: which barrier
    they answer shows when there are no more."""
    names = ["checkpoint", "sent_ns", "read_ns", "unaligned"]
    is_answer = _is_answer(parts)
    barriers = parts.filter(pa.array(~is_answer)).group_by(_KEYS, use_threads=False)
    found = barriers.aggregate([(name, "max") for name in names])
    found = found.rename_columns([*_KEYS, *names]).select(parts.column_names)
    return pa.concat_tables([found, parts.filter(pa.array(is_answer))])


def _is_answer(rows: pa.Table) -> npt.NDArray[np.bool_]:
    number, sent_ns = (rows[name].to_numpy() for name in ("sequence_number", "sent_ns"))
    found: npt.NDArray[np.bool_] = (number == _UNKNOWN) & (sent_ns == _UNKNOWN)
    return found


def merge_barriers(parts: pa.Table) -> pa.Table:
    """The barriers, each with the first answer of its channel from when it left on."""
    whole = combine_barriers(parts)
    names = ("run", "channel", "sent_ns", "read_ns")
    run, channel, sent_ns, read_ns = (whole[name].to_numpy() for name in names)
    is_answer = _is_answer(whole)
    order = np.lexsort((is_answer, np.where(is_answer, read_ns, sent_ns), channel, run))
    places = np.where(is_answer[order], np.arange(len(order)), len(order))
    following = np.minimum.accumulate(places[::-1])[::-1]
    asks = (sent_ns[order] >= 0) & (read_ns[order] < 0) & (following < len(order))
    asking, answer = order[asks], order[following[asks]]
    is_own = (run[asking] == run[answer]) & (channel[asking] == channel[answer])
    read_ns = read_ns.copy()
    read_ns[asking[is_own]] = read_ns[answer[is_own]]
    place = whole.schema.get_field_index("read_ns")
    answered = whole.set_column(place, "read_ns", pa.array(read_ns)).filter(pa.array(~is_answer))
    return answered.sort_by([(name, "ascending") for name in _KEYS])


def known_barriers(barriers: pa.Table) -> pa.Table:
    """Barriers whose checkpoint is known."""
    return barriers.filter(pc.greater_equal(barriers["checkpoint"], 0))


def thinned_barriers(barriers: pa.Table) -> pa.Table:
    """Not too many of them: all of every so many-th checkpoint."""
    step = -(-len(barriers) // BARRIERS_MAX)
    if step > 1:
        barriers = barriers.filter(pa.array(barriers["checkpoint"].to_numpy() % step == 0))
    return barriers


def interval_ns_of(barriers: Sequence[BarrierRow]) -> int | None:
    """Time between two checkpoints, as somebody may have written it; None with less than two of
    them.
    """
    first_ns: dict[int, int] = {}
    for each in barriers:
        if each.sent_ns >= 0:
            before_ns = first_ns.get(each.checkpoint, each.sent_ns)
            first_ns[each.checkpoint] = min(before_ns, each.sent_ns)
    numbers = np.array(sorted(first_ns), np.int64)
    if len(numbers) < 2:
        return None
    begun_ns = np.array([first_ns[each] for each in numbers.tolist()], np.int64)
    median_ns = float(np.median(np.diff(begun_ns) / np.diff(numbers)))
    for step_ns in (1000 * NS_PER_MS, 100 * NS_PER_MS, 10 * NS_PER_MS):
        round_ns = round(median_ns / step_ns) * step_ns
        if abs(round_ns - median_ns) <= INTERVAL_OFF_BY * median_ns:
            return round_ns
    return max(round(median_ns / NS_PER_MS), 1) * NS_PER_MS


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
        if not is_between and block["data_type"].max(initial=0) < min(_TYPES):
            continue  # as good as all blocks: data alone
        is_known = block["channel"] >= 0
        is_barrier = _IS_BARRIER_BY_TYPE[block["data_type"]] & is_known
        is_barrier &= block["kind"] == MessageKind.BUFFER_RESPONSE
        is_sent = is_barrier & (block["point"] == TracePoint.SENT)
        is_read = is_barrier & (block["point"] == TracePoint.CONSUMED)
        if is_between:
            is_sent &= block["value"] >= 0
            is_read |= is_known & _goes_on(block)
        rows = np.flatnonzero(is_sent | is_read)
        if not len(rows):
            continue
        at_ns, sent, barrier = block["at_ns"][rows], is_sent[rows], is_barrier[rows]
        overtakes = barrier & (block["data_type"][rows] == _TYPES[0])
        # Between processes a barrier that overtakes data blocks nobody.
        has_read = ~sent | overtakes if is_between else ~sent
        yield {
            "run": np.full(len(rows), unit.run),
            "channel": block["channel"][rows].astype(np.int64),
            "sequence_number": _known(block["sequence_number"][rows], barrier),
            "checkpoint": _known(block["value"][rows], barrier),
            "sent_ns": _known(at_ns, sent),
            "read_ns": _known(at_ns, has_read),
            "unaligned": overtakes.astype(np.int64),
        }


def _goes_on(block: EventBlock) -> npt.NDArray[np.bool_]:
    """Which rows tell the producer of a channel to go on."""
    found: npt.NDArray[np.bool_] = block["kind"] == MessageKind.RESUME_CONSUMPTION
    found &= block["point"] == TracePoint.RECEIVED
    return found


def _known(values: IntArray, is_known: npt.NDArray[np.bool_]) -> IntArray:
    found: IntArray = np.where(is_known, values, _UNKNOWN).astype(np.int64)
    return found


BARRIERS = Asked(_barriers, _COLUMNS, BarrierRow)
