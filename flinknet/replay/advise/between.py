"""The bottleneck of a job that was recorded between its processes: what waits for credit, and what
barriers block, shows there; what the tasks do meanwhile does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flinknet.results import Bottleneck, Cause, Remedy, Verdict

from ..observe.observed import ObservedRun
from .channel_times import times_between
from .diagnose import SKEWED_FROM, diagnose_captured
from .edges import PRESSED, Pressure, ends_of, pressure_between, task_of
from .order import EdgeOrder, produced_edge

NOTHING_SHOWS = (
    "nothing that shows between TaskManagers holds the job up: no data waits long for credit, and"
    " no barrier blocks a channel long"
)


@dataclass(frozen=True, slots=True)
class CapturedEdge:
    """An edge of a captured job.

    Attributes:
        is_bottleneck: it holds the job up; None where that is unknown.
        records: of each consumer.
        process_of: each consumer.
    """

    name: str
    is_bottleneck: bool | None
    verdicts: Sequence[Verdict]
    records: Mapping[int, int]
    process_of: Mapping[int, str]

    @property
    def waits(self) -> float:
        """Share of the time in which data waited for the channel that waited most."""
        return max((each.share for each in self.verdicts if each.kind in _KINDS), default=0.0)


_KINDS = PRESSED | {"alignment"}


def judge_between(edges: Sequence[ObservedRun]) -> list[CapturedEdge]:
    """The edges of a captured job, each with the verdicts on it in the light of the others."""
    times = [times_between(each) for each in edges]
    ends = [ends_of(each.run.manifest, each.run.edge) for each in edges]
    found = [diagnose_captured(own.name, each) for own, each in zip(ends, times, strict=True)]
    order = EdgeOrder([produced_edge(each.run.manifest, each.rows.milestones) for each in edges])
    pressed = [
        place for place, own in enumerate(found) if PRESSED & {verdict.kind for verdict in own}
    ]
    pressures = pressure_between(order, pressed)
    judged = []
    for place, verdicts in enumerate(found):
        pressure = pressures.get(place, Pressure(False))
        behind = [ends[other].source_name for other in pressure.behind]
        records: dict[int, int] = {}
        for channel in times[place]:
            records[channel.consumer] = records.get(channel.consumer, 0) + channel.records
        judged.append(
            CapturedEdge(
                ends[place].name,
                pressure.is_bottleneck,
                [
                    pressure.verdict(each, behind) if behind and each.kind in PRESSED else each
                    for each in verdicts
                ],
                records,
                {
                    info.consumer: info.consumer_process
                    for info in edges[place].run.manifest.channels
                },
            )
        )
    return judged


def bottleneck_between(edges: Sequence[CapturedEdge]) -> Bottleneck | None:
    """What holds a captured job up; None where several edges may."""
    if any(each.is_bottleneck is None for each in edges):
        return None
    pressed = [each for each in edges if each.is_bottleneck and each.waits]
    blocked = [each for each in edges if any(own.kind == "alignment" for own in each.verdicts)]
    if not pressed and not blocked:
        return Bottleneck(Cause.NONE, (), None, NOTHING_SHOWS)
    edge = max(pressed or blocked, key=lambda each: each.waits)
    verdict = next(each for each in edge.verdicts if each.kind in _KINDS)
    slow = verdict.consumers or tuple(sorted(edge.records))
    count = max(max(edge.records) + 1, len(edge.records))
    tasks = tuple(task_of("consumers", each, count) for each in slow)
    cause, place, text, helps = _cause(edge, verdict, slow, edges)
    said = f"{text}on {edge.name}: {verdict.text}"
    return Bottleneck(cause, tasks, verdict.share, said, edge.name, place, helps)


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
