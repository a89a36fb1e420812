"""What holds up each edge of a job, and the job: the rules of `results.verdict`, asked of the job's
ledger and of that of each edge alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from flinknet.results import Bottleneck, Cause, Symptom
from flinknet.results.bottleneck import NOTHING, PRESSED_FROM, SLOW_HOST_FROM, named
from flinknet.results.ledger import EdgeTime, Ledger, SeenBy, TaskTime, VertexTime, task_of
from flinknet.results.slow_tasks import pressed_edges, pressure
from flinknet.results.verdict import verdict, verdicts

from ..ledger import ledger_of
from ..observe.measured import ObservedRun

_NOTHING_ON_IT = "nothing holds the edge up"


@dataclass(frozen=True, slots=True)
class JudgedEdge:
    """The verdicts on an edge, the weightiest first; empty where too little was seen. Whether it
    holds the job up, and the verdict on the job; None where unknown."""

    diagnosis: tuple[Bottleneck, ...]
    is_bottleneck: bool | None = None
    bottleneck: Bottleneck | None = None


def judged(observed: Sequence[ObservedRun]) -> list[JudgedEdge]:
    """The verdicts on some edges, in their order; those of a job stand next to each other."""
    found: list[JudgedEdge] = []
    for _, group in groupby(observed, key=lambda each: each.run.job):
        edges = [*group]
        found += judged_ledger(ledger_of(edges))[: len(edges)]
    return found


def judged_ledger(ledger: Ledger) -> list[JudgedEdge]:
    """The verdicts on the edges of a ledger."""
    found, pressed = verdict(ledger), pressed_edges(ledger).keys()
    holding = None if found is None or found.is_healthy else found.edge
    held = {place for place, each in enumerate(ledger.edges) if each.name == holding}
    judged_edges = []
    stated = set(found.symptoms) if found is not None and held else set[Symptom]()
    for place, edge in enumerate(ledger.edges):
        behind = edge.behind & (held or pressed)
        unsure = frozenset[int]() if held or behind else edge.unsure & pressed
        own = verdicts(_alone(ledger, edge))
        if found is not None and place in held:
            own = [found, *(each for each in own if each.cause is not found.cause)]
        elif behind or unsure:
            others = [ledger.edges[each].name for each in sorted(behind or unsure)]
            own = _pressed(ledger, edge, own, found, others, is_sure=bool(behind))
        is_holding: bool | None = place in held
        if found is None and place in pressed and not behind:
            is_holding = None if unsure else True
        all_of = [
            replace(
                each,
                edge=edge.name,
                evidence=(each.evidence[0].replace(NOTHING, _NOTHING_ON_IT), *each.evidence[1:]),
                symptoms=tuple(x for x in each.symptoms if each is found or x not in stated),
            )
            for each in (*own, *_skews(ledger, edge, own))
        ]
        stated |= {symptom for each in all_of for symptom in each.symptoms}
        judged_edges.append(JudgedEdge(tuple(all_of), is_holding, found))
    return judged_edges


def _alone(ledger: Ledger, edge: EdgeTime) -> Ledger:
    """The ledger of an edge: its channels, the tasks that read it, and how long those that write it
    waited for their output, unless its readers waited for theirs, too."""
    vertices = {each: ledger.vertices[each] for each in (edge.target,) if each in ledger.vertices}
    waits = max((each.waits_for_output or 0.0 for each in vertices.values()), default=0.0)
    if (source := ledger.vertices.get(edge.source)) is not None:
        tasks = [
            TaskTime(
                each.name,
                each.task_manager,
                waits_for_output=each.waits_for_output if waits < PRESSED_FROM else None,
            )
            for each in source.tasks
        ]
        vertices[edge.source] = VertexTime(source.name, tasks)
    edges = [replace(edge, behind=frozenset(), unsure=frozenset())]
    return replace(ledger, vertices=vertices, edges=edges)


def _pressed(
    ledger: Ledger,
    edge: EdgeTime,
    own: list[Bottleneck],
    found: Bottleneck | None,
    others: Sequence[str],
    *,
    is_sure: bool,
) -> list[Bottleneck]:
    """The verdicts on an edge behind which others are pressed, for sure or perhaps."""
    share = max(pressure(edge)[0], ledger.waits_before(edge))
    if share < PRESSED_FROM or not own:
        return own
    if is_sure:
        said = (
            f"pressed from behind: records wait {share:.0%} of the time",
            f"the cause is further downstream, on {named(others)}",
        )
        rest = [each for each in own if each.cause is Cause.ALIGNMENT]
        pressed = replace(found or own[0], share=share, evidence=said, remedy=(), symptoms=())
        return [pressed, *rest]
    more = (
        f"{named(others)} {'is' if len(others) == 1 else 'are'} pressed as well",
        "messages between TaskManagers do not show which of them is further downstream",
        "the one furthest downstream holds the job up",
    )
    return [replace(own[0], remedy=(*own[0].remedy, *more)), *own[1:]]


def _skews(ledger: Ledger, edge: EdgeTime, own: Sequence[Bottleneck]) -> list[Bottleneck]:
    """Verdicts on a consumer, and a producer, with many more records than its siblings. Flink's
    counters include local channels, which no tap records: where they exist, they alone count, and
    say nothing if one is missing, or if the tasks read several edges."""
    if any(each.cause is Cause.SKEW for each in own):
        return []
    taken: dict[int, float] = {each.consumer: each.records for each in edge.inputs}
    sent, where = edge.sent, ""
    if ledger.tasks_by is SeenBy.FLINK:
        tasks = ledger.vertices[edge.target].tasks if edge.target in ledger.vertices else ()
        known = [each.records for each in tasks if each.records is not None]
        is_of_edge = len([x for x in ledger.edges if x.target == edge.target]) == 1
        is_used = is_of_edge and len(known) == len(tasks)
        taken, sent = dict(enumerate(known)) if is_used else {}, {}
    elif ledger.tasks_by is SeenBy.TAP:
        where = " on recorded channels"
    found = []
    for vertex, did, noun, records in (
        (edge.target, "took", "consumers", taken),
        (edge.source, "sent", "producers", sent),
    ):
        total, most = sum(records.values()), max(records, key=lambda x: records[x], default=0)
        if total and (share := records[most] / total) * len(records) >= SLOW_HOST_FROM:
            own_tasks = ledger.vertices[vertex].tasks if vertex in ledger.vertices else ()
            is_named = 0 <= most < len(own_tasks)
            name = own_tasks[most].name if is_named else task_of(noun, most, len(records))
            text = f"skew: {name} {did} {share:.0%} of the records{where}"
            found.append(Bottleneck(cause=Cause.SKEW, share=share, evidence=(text,)))
    return found
