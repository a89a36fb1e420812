"""Checkpoints: when each barrier left its producer, when its consumer read it, and, between
processes, when the consumer resumed the channel; and the checkpoints that the run counted itself,
or that Flink reported to a tap."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flinknet.arrays import IntArray
from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.histogram import LogLinearHistogram
from flinknet.results import CheckpointSummary, LatencySummary, TradeOffPoint
from flinknet.trace.event_block import EventBlock
from flinknet.trace.metrics import number_of
from flinknet.trace.recordings import checkpoints_within
from flinknet.units import NS_PER_MS, human_duration

from ..read import RecordedRun, result_of
from ..spark.frames import Columns
from .flink_metrics import recorded_edge
from .question import Question, is_at, of_blocks
from .units import Unit

BARRIERS_MAX = 200_000
"""Most barriers that the driver gets of a run; of more, those of every n-th checkpoint."""

COMPLETED, FAILED = "COMPLETED", "FAILED"
BEFORE_PRODUCERS = (
    "start delays count from Flink's trigger: the predicted ones have {} for what comes before this"
    " edge, as recorded"
)

NOTICED_NS = 10_000_000_000
"""Longest time from the end of a checkpoint until the tap has read it."""

_NOT_IN_A_TRACE = (
    *("aborted", "overtaken_bytes_mean", "overtaken_bytes_max", "processed_bytes_mean"),
)

BARRIER_TYPES = (
    DataType.PRIORITIZED_EVENT_BUFFER,
    DataType.ALIGNED_CHECKPOINT_BARRIER,
    DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER,
)
_IS_BARRIER_BY_TYPE = np.isin(np.arange(1 << 8), BARRIER_TYPES)
_KEYS = ("run", "channel", "sequence_number")
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class BarrierRow:
    """A barrier on a channel; -1 for values that were not recorded. Until they are merged, the
    resumptions by consumers are rows, too, with only `read_ns`, and its complement as number."""

    run: int
    channel: int
    sequence_number: int
    checkpoint: int
    sent_ns: int  # when it left its producer
    read_ns: int  # when its consumer was done, or between processes resumed the channel
    unaligned: int  # 1 if it overtook data


def _answered(whole: pa.Table) -> pa.Table:
    """The barriers, each with the first resumption of its channel after it left."""
    names = ("run", "channel", "sequence_number", "sent_ns", "read_ns")
    run, channel, number, sent_ns, read_ns = (whole[name].to_numpy() for name in names)
    is_answer = number < _UNKNOWN
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


def thinned_barriers(barriers: pa.Table) -> pa.Table:
    step = -(-len(barriers) // BARRIERS_MAX)
    if step > 1:
        barriers = barriers.filter(pa.array(barriers["checkpoint"].to_numpy() % step == 0))
    return barriers


def _by_checkpoint(barriers: Iterable[BarrierRow]) -> dict[int, list[BarrierRow]]:
    found: dict[int, list[BarrierRow]] = {}
    for each in barriers:
        if each.sent_ns >= 0:
            found.setdefault(each.checkpoint, []).append(each)
    return found


def begun_ns(barriers: Iterable[BarrierRow]) -> dict[int, int]:
    """When the first barrier of each checkpoint left."""
    of_each = _by_checkpoint(barriers).items()
    return {number: min(each.sent_ns for each in own) for number, own in of_each}


def interval_ns_of(barriers: Sequence[BarrierRow]) -> int | None:
    """Interval between checkpoints, rounded as it may be configured; None with fewer than two."""
    of_each = sorted(begun_ns(barriers).items())
    if len(of_each) < 2:
        return None
    numbers, instants_ns = zip(*of_each, strict=True)
    median_ns = float(np.median(np.diff(instants_ns) / np.diff(numbers)))
    for step_ns in (1000 * NS_PER_MS, 100 * NS_PER_MS, 10 * NS_PER_MS):
        round_ns = round(median_ns / step_ns) * step_ns
        if abs(round_ns - median_ns) <= 0.005 * median_ns:
            return round_ns
    return max(round(median_ns / NS_PER_MS), 1) * NS_PER_MS


def begun_within(
    barriers: Sequence[BarrierRow], from_ns: int, to_ns: int
) -> dict[int, list[BarrierRow]]:
    """The barriers of each checkpoint whose first one left within [from_ns, to_ns)."""
    return {
        number: own
        for number, own in _by_checkpoint(barriers).items()
        if from_ns <= min(each.sent_ns for each in own) < to_ns
    }


def checkpoints_of(
    begun: Collection[Sequence[BarrierRow]],
    consumer_of: Mapping[int, int],
    *,
    is_from_between: bool,
) -> CheckpointSummary:
    """Summarise checkpoints by their barriers. One is complete when each channel that ever had a
    barrier has had this one. The network shows neither triggers nor bytes. Between processes the
    travel of a barrier is unknown, and its alignment lasts until its producer may go on."""
    channels = len({each.channel for own in begun for each in own})
    duration, alignment, travel = (LogLinearHistogram() for _ in range(3))
    for own in begun:
        read = [each for each in own if each.read_ns >= 0]
        if len({each.channel for each in read}) < channels:
            continue
        duration.add([max(each.read_ns for each in read) - min(each.sent_ns for each in read)])
        if not is_from_between:
            travel.add([each.read_ns - each.sent_ns for each in read])
        by_consumer: dict[int, list[int]] = {}
        for each in read:
            time_ns = each.read_ns - each.sent_ns * is_from_between
            by_consumer.setdefault(consumer_of.get(each.channel, _UNKNOWN), []).append(time_ns)
        since_first = 0 if is_from_between else 1
        alignment.add([max(x) - since_first * min(x) for x in by_consumer.values()])
    return CheckpointSummary(
        triggered=len(begun),
        completed=duration.count,
        aborted=None,
        unaligned=sum(any(each.unaligned for each in own) for own in begun),
        duration_ns=duration.summary(),
        start_delay_ns=LogLinearHistogram().summary(),
        alignment_ns=alignment.summary(),
        travel_ns=travel.summary(),
        overtaken_bytes_mean=None,
        overtaken_bytes_max=None,
        processed_bytes_mean=None,
    )


def _barriers(unit: Unit, block: EventBlock) -> Iterator[Columns]:
    is_between = unit.counted_at == TracePoint.SENT
    if not is_between and block["data_type"].max(initial=0) < min(BARRIER_TYPES):
        return  # nearly all blocks: only data
    is_known = block["channel"] >= 0
    is_barrier = _IS_BARRIER_BY_TYPE[block["data_type"]] & is_known
    is_barrier &= block["kind"] == MessageKind.BUFFER_RESPONSE
    is_sent = is_barrier & (block["point"] == TracePoint.SENT)
    is_read = is_barrier & (block["point"] == TracePoint.CONSUMED)
    if is_between:
        is_sent &= block["value"] >= 0
        is_read |= is_known & is_at(block, MessageKind.RESUME_CONSUMPTION, TracePoint.RECEIVED)
    rows = np.flatnonzero(is_sent | is_read)
    if not len(rows):
        return
    at_ns, sent, barrier = block["at_ns"][rows], is_sent[rows], is_barrier[rows]
    overtakes = barrier & (block["data_type"][rows] == BARRIER_TYPES[0])
    # Between processes a barrier that overtakes data blocks nobody.
    has_read = ~sent | overtakes if is_between else ~sent
    yield {
        "channel": block["channel"][rows].astype(np.int64),
        "sequence_number": np.where(barrier, block["sequence_number"][rows], ~at_ns).astype(
            np.int64
        ),
        "checkpoint": _known(block["value"][rows], barrier),
        "sent_ns": _known(at_ns, sent),
        "read_ns": _known(at_ns, has_read),
        "unaligned": overtakes.astype(np.int64),
    }


def _known(values: IntArray, is_known: npt.NDArray[np.bool_]) -> IntArray:
    found: IntArray = np.where(is_known, values, _UNKNOWN).astype(np.int64)
    return found


BARRIERS = Question(
    "barriers",
    BarrierRow,
    keys=_KEYS,
    maxima=("checkpoint", "sent_ns", "read_ns", "unaligned"),
    ask=of_blocks(_barriers),
    finish=_answered,
)


def checkpoints_in(run: RecordedRun, barriers: Sequence[BarrierRow]) -> CheckpointSummary | None:
    """The checkpoints of a run; None without any. Where a tap asked Flink, it adds times of the
    tasks that read the edge, and bytes of the whole job; a whole run of flinknet adds its own."""
    consumer_of = {info.index: info.consumer for info in run.manifest.channels} if barriers else {}
    is_from_between = run.manifest.is_from_between
    begun = begun_within(barriers, run.from_ns, run.to_ns)
    if not begun:
        return None
    summary = checkpoints_of(begun.values(), consumer_of, is_from_between=is_from_between)
    if not is_from_between:
        return _counted(summary, run)
    stated = run.manifest.scenario.get("job")
    job = stated if isinstance(stated, Mapping) else {}
    reported = checkpoints_within(run.place, run.from_ns, run.to_ns + NOTICED_NS)
    lines = [
        each
        for each in reported
        if each.get("job") in (job.get("ids") or ()) and each["checkpoint"] >= min(begun)
    ]
    sent_ns = begun_ns(barriers)
    triggered_ns = {each["checkpoint"]: _triggered_ns(each) for each in lines}
    apart_ns = [sent_ns[each] - triggered_ns[each] for each in triggered_ns.keys() & begun.keys()]
    until_ns = run.to_ns - min(apart_ns, default=0)  # by the clock of triggers
    if apart_ns:  # also checkpoints whose barriers did not reach this edge within the part
        lines = [each for each in lines if triggered_ns[each["checkpoint"]] < until_ns]
    else:
        lines = [each for each in lines if each["checkpoint"] <= max(begun)]
    if not lines:
        return summary
    vertices = job["vertices"] if (edge := recorded_edge(run)) else ()
    targets = (each.get("id") for each in vertices if edge and each["index"] == edge.target)
    return _joined(summary, lines, next(targets, None))


def _triggered_ns(line: Mapping[str, Any]) -> int:
    return int((number_of(line.get("triggered_at_ms")) or 0) * NS_PER_MS)


def since_trigger(
    points: Sequence[TradeOffPoint], recorded: CheckpointSummary | None
) -> tuple[TradeOffPoint, ...]:
    """Make the start delays that are predicted for a tap count from the trigger, as Flink's do: a
    simulation begins when the producers of an edge send a barrier, and the time until then is taken
    from the recorded setting."""
    simulated = next((each.checkpoints for each in points if each.is_recorded), None)
    if recorded is None or simulated is None:
        return tuple(points)
    ends = recorded.start_delay_ns.p50, simulated.start_delay_ns.p50
    if ends[0] is None or ends[1] is None or ends[0] <= ends[1]:
        return tuple(points)
    before_ns = round(ends[0] - ends[1])
    note = BEFORE_PRODUCERS.format(human_duration(before_ns))
    found = []
    for each in points:
        if (summary := each.checkpoints) is not None:
            later_ns = summary.start_delay_ns.moved(before_ns, summary.start_delay_ns)
            summary = replace(summary, start_delay_ns=later_ns)
            each = replace(each, checkpoints=summary, notes=(*each.notes, note))
        found.append(each)
    return tuple(found)


def _counted(summary: CheckpointSummary, run: RecordedRun) -> CheckpointSummary:
    measured = result_of(run).get("measured")
    stated = measured.get("checkpoints") if isinstance(measured, Mapping) else None
    if not isinstance(stated, Mapping) or run.edge is not None or run.is_asked_part:
        return summary
    try:
        delays = LatencySummary(**stated["start_delay_ns"])
        counted = {name: stated[name] for name in _NOT_IN_A_TRACE}
    except (TypeError, KeyError):  # of another release
        return summary
    return replace(summary, start_delay_ns=delays, **counted)


def _joined(
    summary: CheckpointSummary, lines: Iterable[Mapping[str, Any]], vertex: str | None
) -> CheckpointSummary:
    aborted, overtaken, processed = 0, list[float](), list[float]()
    delays, alignments = LogLinearHistogram(), LogLinearHistogram()
    for each in lines:
        aborted += each.get("status") == FAILED
        if each.get("status") != COMPLETED:
            continue
        overtaken += _numbers([each.get("persisted_bytes")])
        processed += _numbers([each.get("processed_bytes")])
        for times, histogram in (("start_delays_ms", delays), ("alignments_ms", alignments)):
            of = each.get(times)
            own_ms = _numbers(of.get(vertex) if isinstance(of, Mapping) else None)
            histogram.add([round(value * NS_PER_MS) for value in own_ms])
    return replace(
        summary,
        aborted=aborted,
        start_delay_ns=delays.summary(),
        alignment_ns=alignments.summary() if alignments.count else summary.alignment_ns,
        overtaken_bytes_mean=sum(overtaken) / len(overtaken) if overtaken else None,
        overtaken_bytes_max=round(max(overtaken)) if overtaken else None,
        processed_bytes_mean=sum(processed) / len(processed) if processed else None,
    )


def _numbers(values: Any) -> list[float]:
    found = (number_of(each) for each in (values if isinstance(values, list) else ()))
    return [each for each in found if each is not None and each >= 0]
