"""The bottleneck of a job that was recorded between its processes: what waits for credit, and what
barriers block, shows there; what the tasks do meanwhile does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from flinknet.results import Bottleneck, Cause, Remedy, TaskMetrics, Verdict, VertexMetrics

from ..observe.flink_metrics import flink_metrics
from ..observe.observed_run import ObservedRun
from ..observe.unanswered import LONG_NS
from .channel_times import channel_ends, times_between
from .diagnose import (
    ASK_WHETHER_BUSY,
    SKEWED_FROM,
    ChannelTimes,
    diagnose_captured,
    in_groups,
    named,
)
from .edges import PRESSED, Pressure, ends_of, pressure_between, task_of
from .order import EdgeOrder, produced_edge

_NOTHING_SHOWS = (
    "nothing between the TaskManagers holds the job up: no barrier blocks a channel for long, and"
    " data waits for credit at most {:.0%} of the time on any channel"
)


@dataclass(frozen=True, slots=True)
class CapturedEdge:
    """An edge of a captured job.

    Attributes:
        is_bottleneck: it holds the job up; None where that is unknown.
        records: of each consumer.
        process_of: each consumer.
        tasks: what Flink reported of the consumers, by subtask; empty where it was not recorded.
        unanswered: of each consumer, the share of the time in which buffers waited long for any
            credit; of its channels the one with least.
        starved: share of the time in which data waited for credit, of the channel that waited most.
        producers: what Flink reported of the producers together; None if it did not.
    """

    name: str
    is_bottleneck: bool | None
    verdicts: Sequence[Verdict]
    records: Mapping[int, int]
    process_of: Mapping[int, str]
    tasks: Sequence[TaskMetrics] = ()
    unanswered: Mapping[int, float] = field(default_factory=dict)
    starved: float = 0.0
    producers: VertexMetrics | None = None

    def task(self, consumer: int) -> TaskMetrics | None:
        """What Flink reported of a consumer; None if it did not."""
        return self.tasks[consumer] if 0 <= consumer < len(self.tasks) else None

    def task_name(self, consumer: int) -> str:
        """How a consumer is called."""
        if consumer < 0:
            return "an unknown consumer"
        task, count = self.task(consumer), max(max(self.records) + 1, len(self.records))
        return task_of("consumers", consumer, count) if task is None else task.name

    def busy(self, consumers: Sequence[int]) -> float | None:
        """Share of the time in which the busiest of some was busy; None if that is unknown."""
        found = [task.busy for each in consumers if (task := self.task(each)) is not None]
        known = [each for each in found if each is not None]
        return max(known) if known else None

    @property
    def waits(self) -> float:
        """Share of the time in which data waited for the channel that waited most."""
        return max((each.share for each in self.verdicts if each.kind in _KINDS), default=0.0)


_KINDS = PRESSED | {"alignment"}

STANDS_STILL_FROM = 0.03
"""A TaskManager that answers nothing for so much of the time, in long stretches, stands still."""

PRESSED_FROM = 0.5
"""Producers that Flink reports back-pressured for so much of the time wait for something, although
no channel of theirs alone waits for credit for long."""

LOADED_FROM = 0.85
"""A task that is busy for so much of its time has next to none left."""

OF_THE_SLOWEST = 0.5
"""Its like that are busy for this much of that are slow as well."""

IDLE_BELOW = 0.4
"""A task that is busy for less of its time than this is not what its producers wait for."""


def judge_between(edges: Sequence[ObservedRun]) -> list[CapturedEdge]:
    """The edges of a captured job, each with the verdicts on it in the light of the others."""
    times = [times_between(each) for each in edges]
    ends = [ends_of(each.run.manifest, each.run.edge) for each in edges]
    found = [diagnose_captured(each) for each in times]
    order = EdgeOrder([produced_edge(each.run.manifest, each.rows.milestones) for each in edges])
    pressed = [
        place for place, own in enumerate(found) if PRESSED & {verdict.kind for verdict in own}
    ]
    pressures = pressure_between(order, pressed)
    judged = []
    for place, verdicts in enumerate(found):
        pressure = pressures.get(place, Pressure(False))
        behind = [ends[other].source_name for other in pressure.behind]
        consumers, of_consumer = in_groups(times[place].consumer)
        records = np.zeros(len(consumers), np.int64)
        np.add.at(records, of_consumer, times[place].records)
        metrics = flink_metrics(edges[place].run, edges[place].measured)
        judged.append(
            CapturedEdge(
                ends[place].name,
                pressure.is_bottleneck,
                [
                    pressure.verdict(each, behind) if behind and each.kind in PRESSED else each
                    for each in verdicts
                ],
                dict(zip(consumers, records.tolist(), strict=True)),
                {
                    info.consumer: info.consumer_process
                    for info in edges[place].run.manifest.channels
                },
                () if metrics is None else metrics.vertices[1].tasks,
                _unanswered(edges[place]),
                _starved(times[place]),
                None if metrics is None else metrics.vertices[0],
            )
        )
    return judged


def _starved(channels: ChannelTimes) -> float:
    return float(channels.shares("waiting_for_credit").max(initial=0.0))


def _unanswered(edge: ObservedRun) -> dict[int, float]:
    channel, _, consumer = channel_ends(edge.run.manifest)
    shares = edge.rows.unanswered.of(channel, "unanswered_ns") / edge.run.duration_ns
    consumers, place = in_groups(consumer)
    least = np.ones(len(consumers))
    np.minimum.at(least, place, shares)
    return dict(zip(consumers, least.tolist(), strict=True))


def bottleneck_between(edges: Sequence[CapturedEdge]) -> Bottleneck | None:
    """What holds a captured job up; None where several edges may."""
    unsure = [each for each in edges if each.is_bottleneck is None]
    if any(each.busy(list(each.records)) is None for each in unsure):
        return None
    pressed = [each for each in edges if each.is_bottleneck and each.waits]
    if unsure:  # of two tasks that are pressed the one behind is busier
        pressed.append(max(unsure, key=lambda each: each.busy(list(each.records)) or 0.0))
    blocked = [each for each in edges if any(own.kind == "alignment" for own in each.verdicts)]
    if not pressed and not blocked:
        return (
            _standing_still(edges)
            or _pressed_by_nobody(edges)
            or _busy_beside(edges, 0.0)
            or _nothing_shows(edges)
        )
    if not pressed:
        busy_task = _busy_beside(edges, max(each.waits for each in blocked))
        if busy_task is not None:
            return busy_task
    edge = max(pressed or blocked, key=lambda each: each.waits)
    verdict = next(each for each in edge.verdicts if each.kind in _KINDS | {"pressed"})
    slow = verdict.consumers or tuple(sorted(edge.records))
    tasks = tuple(edge.task_name(each) for each in slow)
    cause, place, text, helps = _cause(edge, verdict, slow, edges)
    said = f"{text}on {edge.name}: {verdict.text}"
    busy = edge.busy(slow)
    if busy is not None:
        said = said.removesuffix(ASK_WHETHER_BUSY)
        said += f"; Flink reported {named(tasks)} busy {busy:.0%} of the time"
        if busy < IDLE_BELOW and cause is not Cause.ALIGNMENT:
            said += ", so more buffers or a shorter round trip help"
            cause, place, helps = Cause.FEW_BUFFERS, None, (Remedy.BUFFERS, Remedy.NETWORK)
        elif busy >= LOADED_FROM and cause is Cause.SLOW_TASKS:
            said += (
                ", so a higher parallelism or less work for each record helps, more buffers do not"
            )
            helps = (Remedy.PARALLELISM,)
    return Bottleneck(cause, tasks, verdict.share, said, edge.name, place, helps)


def _nothing_shows(edges: Sequence[CapturedEdge]) -> Bottleneck:
    text = _NOTHING_SHOWS.format(max((each.starved for each in edges), default=0.0))
    busy = {
        edge.task_name(each): share
        for edge in edges
        for each in edge.records
        if (share := edge.busy([each])) is not None
    }
    if busy:
        most = max(busy, key=lambda each: busy[each])
        text += f"; the busiest task, {most}, is busy {busy[most]:.0%} of the time"
    return Bottleneck(Cause.NONE, (), None, text)


def _busy_beside(edges: Sequence[CapturedEdge], blocked: float) -> Bottleneck | None:
    """The verdict on the busiest task, if it has next to no time left: what queues before it holds
    up barriers, too.

    Args:
        blocked: share of the time in which barriers blocked a channel.
    """
    busy = {
        (place, each): edge.busy([each]) or 0.0
        for place, edge in enumerate(edges)
        for each in edge.records
    }
    place, _ = max(busy, key=lambda each: busy[each])
    edge, share = edges[place], max(busy.values())
    if share < LOADED_FROM or share <= blocked:
        return None
    own = {each: busy[place, each] for each in edge.records}
    slow = sorted(each for each in own if own[each] >= OF_THE_SLOWEST * share)
    tasks = tuple(edge.task_name(each) for each in slow)
    text = f"Flink reported {named(tasks)} busy {share:.0%} of the time"
    if blocked:
        text += f"; barriers, which queue before it, blocked a channel {blocked:.0%} of the time"
    else:
        text += ", though no data waits long for credit"
    verdict = Verdict(edge.name, "busy", share, text, () if len(slow) == len(own) else tuple(slow))
    cause, where, lead, helps = _cause(edge, verdict, slow, edges)
    return Bottleneck(cause, tasks, share, f"{lead}on {edge.name}: {text}", edge.name, where, helps)


def _standing_still(edges: Sequence[CapturedEdge]) -> Bottleneck | None:
    """The verdict on a TaskManager that none of its senders hears of at times, while others answer
    and its tasks have little to do."""
    shares: dict[str, list[float]] = {}
    for edge in edges:
        for consumer, share in edge.unanswered.items():
            shares.setdefault(edge.process_of[consumer], []).append(share)
    for process, own in sorted(shares.items(), key=lambda each: -min(each[1])):
        others = [share for other, found in shares.items() if other != process for share in found]
        if min(own) < STANDS_STILL_FROM or max(others, default=0.0) > min(own) / 2:
            continue
        at = [
            (edge, [each for each in edge.unanswered if edge.process_of[each] == process])
            for edge in edges
        ]
        busy = [each for edge, there in at if there for each in [edge.busy(there)] if each]
        if max(busy, default=0.0) >= IDLE_BELOW:
            continue
        edge, there = max(at, key=lambda each: len(each[1]))
        text = (
            f"{process} stops at times: {min(own):.0%} of the time no credit comes from it for over"
            f" {LONG_NS // 1_000_000} ms, on any channel; check its CPU, its garbage collection and"
            " what runs next to it"
        )
        return Bottleneck(
            Cause.SLOW_HOST,
            tuple(edge.task_name(each) for each in there),
            min(own),
            text,
            edge.name,
            process,
            (Remedy.HOST,),
        )
    return None


def _pressed_by_nobody(edges: Sequence[CapturedEdge]) -> Bottleneck | None:
    """The verdict on producers that wait for their output while every task behind them has little
    to do: with few buffers they wait for one channel after the other, for a short time each."""
    pressed = [
        (each, each.producers.name, share)
        for each in edges
        if each.producers is not None
        and (share := each.producers.back_pressured or 0.0) >= PRESSED_FROM
    ]
    busy = [each.busy(list(each.records)) for each in edges]
    if not pressed or any(each is None or each >= IDLE_BELOW for each in busy):
        return None
    edge, producers, share = max(pressed, key=lambda found: found[0].starved)
    most = max(each or 0.0 for each in busy)
    text = (
        f"few buffers between {edge.name}: Flink reported {producers} back-pressured {share:.0%} of"
        f" the time, while no task behind is busy for more than {most:.0%}; on the"
        f" channel that waits most, data waits for credit {edge.starved:.0%} of the time, and a"
        " producer waits for one channel after the other; more buffers or a shorter round trip help"
    )
    tasks = tuple(edge.task_name(each) for each in sorted(edge.records))
    helps = (Remedy.BUFFERS, Remedy.NETWORK)
    return Bottleneck(Cause.FEW_BUFFERS, tasks, share, text, edge.name, None, helps)


def _cause(
    edge: CapturedEdge, verdict: Verdict, slow: Sequence[int], edges: Sequence[CapturedEdge]
) -> tuple[Cause, str | None, str, tuple[Remedy, ...]]:
    if verdict.kind == "alignment":
        return Cause.ALIGNMENT, None, "", (Remedy.CHECKPOINTS,)
    others = [each for each in edge.records if each not in slow]
    if not others:
        return Cause.SLOW_TASKS, None, "", (Remedy.PARALLELISM, Remedy.BUFFERS)
    taken = sum(edge.records[each] for each in slow)
    mean_of_others = sum(edge.records[each] for each in others) / len(others)
    if taken / len(slow) >= SKEWED_FROM * max(mean_of_others, 1):
        share = taken / (sum(edge.records.values()) or 1)
        return Cause.SKEW, None, f"skew, {share:.0%} of the records go there; ", (Remedy.BALANCE,)
    process = _slow_process(edge, slow, edges)
    if process is not None:
        return Cause.SLOW_HOST, process, f"{process} is slow; ", (Remedy.HOST,)
    places = {edge.process_of[each] for each in slow}
    place = places.pop() if len(places) == 1 else None
    return Cause.SLOW_SUBTASK, place, "", (Remedy.HOST,)


def _slow_process(
    edge: CapturedEdge, slow: Sequence[int], edges: Sequence[CapturedEdge]
) -> str | None:
    """The TaskManager with at least two slow consumers, over all edges, and no other ones."""
    processes = {edge.process_of[each] for each in slow}
    if len(processes) != 1:
        return None
    (process,) = processes
    count = 0
    for each in edges:
        starved = {
            consumer
            for verdict in each.verdicts
            if verdict.kind in _KINDS | {"pressed"}
            for consumer in verdict.consumers or each.records
        }
        own = {consumer for consumer in each.records if each.process_of[consumer] == process}
        if starved and not own <= starved:
            return None
        count += len(own & starved)
    return process if count > 1 else None
