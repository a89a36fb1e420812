"""The bottleneck of a job that was recorded between its processes: what waits for credit, and what
barriers block, shows there; what the tasks do meanwhile does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from flinknet.results import Bottleneck, Cause, Remedy, TaskMetrics, Verdict

from ..ledger import Ledger
from ..observe.flink_metrics import flink_metrics
from ..observe.observed_run import ObservedRun
from ..observe.stretches import LONG_NS
from ..verdict.saturated import IDLE_BELOW, healthy, saturated, starved_of_buffers
from .caveats import BARRIERS
from .channel_times import channel_ends, times_between
from .diagnose import (
    SKEWED_FROM,
    ChannelTimes,
    diagnose_captured,
    in_groups,
)
from .edges import PRESSED, Pressure, pressure_between, task_of
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
        tasks: names of the consumers and TaskManagers by subtask; empty where they are not known.
        unanswered: of each consumer, the share of the time in which buffers waited long for any
            credit; of its channels the one with least.
        starved: share of the time in which data waited for credit, of the channel that waited most;
            None where that is unknown.
        is_started: enough checkpoints passed to judge how they align: the first ones of a job wait
            for tasks that are still being deployed.
    """

    name: str
    is_bottleneck: bool | None
    verdicts: Sequence[Verdict]
    records: Mapping[int, int]
    process_of: Mapping[int, str]
    tasks: Sequence[TaskMetrics] = ()
    unanswered: Mapping[int, float] = field(default_factory=dict)
    starved: float | None = 0.0
    is_started: bool = True

    def task(self, consumer: int) -> TaskMetrics | None:
        """The name and place of a consumer, and its time; None where they are not known."""
        return self.tasks[consumer] if 0 <= consumer < len(self.tasks) else None

    def task_name(self, consumer: int) -> str:
        """How a consumer is called."""
        if consumer < 0:
            return "an unknown consumer"
        task, count = self.task(consumer), max(max(self.records) + 1, len(self.records))
        return task_of("consumers", consumer, count) if task is None else task.name

    def place_name(self, consumer: int) -> str:
        """The TaskManager of a consumer: its name, else its address."""
        task = self.task(consumer)
        place = None if task is None else task.task_manager
        return place or self.process_of[consumer]

    def busy(self, consumers: Sequence[int]) -> float | None:
        """Share of the time in which the busiest of some was busy; None if that is unknown."""
        found = [task.busy for each in consumers if (task := self.task(each)) is not None]
        return max((each for each in found if each is not None), default=None)

    @property
    def waits(self) -> float:
        """Share of the time in which data waited for the channel that waited most."""
        return max((each.share for each in self.verdicts if each.kind in _KINDS), default=0.0)


_KINDS = PRESSED | {"alignment"}

CHECKPOINTS_MIN = 3
BLOCKED_NS_MIN = 10_000_000_000
"""Barriers of fewer checkpoints show nothing, unless one of them blocks a channel for so long."""

STANDS_STILL_FROM = 0.03
"""A TaskManager that answers nothing for so much of the time, in long stretches, stands still."""


def judge_between(edges: Sequence[ObservedRun]) -> list[CapturedEdge]:
    """The edges of a captured job, each with the verdicts on it in the light of the others."""
    times = [times_between(each) for each in edges]
    ends = [each.run.ends for each in edges]
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
                _is_started(edges[place], times[place]),
            )
        )
    return judged


def _starved(channels: ChannelTimes) -> float | None:
    if not channels.is_credit_known:
        return None
    return float(channels.shares("waiting_for_credit").max(initial=0.0))


def _is_started(edge: ObservedRun, channels: ChannelTimes) -> bool:
    checkpoints = {each.value for each in edge.rows.milestones if each.data_type in BARRIERS}
    blocked_ns = channels.spent_ns["blocked_by_alignment"].max(initial=0)
    return len(checkpoints) >= CHECKPOINTS_MIN or blocked_ns >= BLOCKED_NS_MIN


def _unanswered(edge: ObservedRun) -> dict[int, float]:
    channel, _, consumer = channel_ends(edge.run.manifest)
    shares = edge.rows.unanswered.of(channel, "ns") / edge.run.duration_ns
    consumers, place = in_groups(consumer)
    least = np.ones(len(consumers))
    np.minimum.at(least, place, shares)
    return dict(zip(consumers, least.tolist(), strict=True))


def bottleneck_between(
    edges: Sequence[CapturedEdge], ledger: Ledger | None = None
) -> Bottleneck | None:
    """The verdict on a captured job; None where several edges may hold it up.

    Args:
        ledger: of the whole job; None where Flink's metrics were not recorded, so that messages
            are the only evidence.
    """
    if ledger is None:
        return _by_messages(edges)
    return (
        saturated(ledger)
        or _standing_still(edges)
        or starved_of_buffers(ledger)
        or _aligning(edges)
        or healthy(ledger)
    )


def _by_messages(edges: Sequence[CapturedEdge]) -> Bottleneck | None:
    if any(each.is_bottleneck is None for each in edges):
        return None
    pressed = [each for each in edges if each.is_bottleneck and each.waits]
    if not pressed:
        return _aligning(edges) or _standing_still(edges) or _nothing_shows(edges)
    edge = max(pressed, key=lambda each: each.waits)
    verdict = next(each for each in edge.verdicts if each.kind in _KINDS | {"pressed"})
    return _verdict_on(edge, verdict, edges)


def _aligning(edges: Sequence[CapturedEdge]) -> Bottleneck | None:
    """The verdict on barriers that block channels; None where they do not for long."""
    found = [
        (verdict.share, place, verdict)
        for place, edge in enumerate(edges)
        for verdict in edge.verdicts
        if verdict.kind == "alignment" and edge.is_started
    ]
    if not found:
        return None
    _, place, verdict = max(found, key=lambda each: each[0])
    return _verdict_on(edges[place], verdict, edges)


def _verdict_on(edge: CapturedEdge, verdict: Verdict, edges: Sequence[CapturedEdge]) -> Bottleneck:
    slow = verdict.consumers or tuple(sorted(edge.records))
    tasks = tuple(edge.task_name(each) for each in slow)
    cause, place, text, helps = _cause(edge, verdict, slow, edges)
    said = f"{text}on {edge.name}: {verdict.text}"
    return Bottleneck(cause, tasks, verdict.share, said, edge.name, place, helps)


def _nothing_shows(edges: Sequence[CapturedEdge]) -> Bottleneck | None:
    shares = [each.starved for each in edges if each.starved is not None]
    if len(shares) < len(edges):
        return None
    most = max(shares, default=0.0)
    return Bottleneck(Cause.NONE, (), None, _NOTHING_SHOWS.format(most))


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
        place = edge.place_name(there[0])
        text = (
            f"{place} stops at times: {min(own):.0%} of the time no credit comes from it for over"
            f" {LONG_NS // 1_000_000} ms, on any channel; check its CPU, its garbage collection and"
            " what runs next to it"
        )
        return Bottleneck(
            Cause.SLOW_HOST,
            tuple(edge.task_name(each) for each in there),
            min(own),
            text,
            edge.name,
            place,
            (Remedy.HOST,),
        )
    return None


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
