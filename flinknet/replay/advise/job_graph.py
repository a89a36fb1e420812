"""The graph of a job from its edges: which of them leads to the producers of which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flinknet.graph.lineage import ancestors
from flinknet.predict.local_channels import counts_of, planned_edge
from flinknet.trace.job_names import named_edges

from ..read import RecordedRun
from .edges import VERTEX_DIGITS, ends_of
from .order import vertex_of

NOT_SHOWN = (
    "which task its records come from does not show between TaskManagers: the ids of its vertices"
    " follow from uids, or a vertex before it was not recorded"
)
SEVERAL_OUTPUTS = (
    "the task before it has several outputs, and which of them leads to it does not show between"
    " TaskManagers"
)
NOT_RECORDED = "the edge before it was not recorded, most likely because its channels are local"
NOT_TO_THE_END = (
    "{} was not recorded, most likely because its channels are local: the job's figures end before"
    " it"
)
NOT_ASKED_FOR = "the requests for its channels were not recorded, so its producers are unknown"


@dataclass(frozen=True, slots=True)
class JoinedEdge:
    """An edge and the vertices at its ends, as numbers that edges of one job share.

    Attributes:
        name: how it is shown.
        why_unknown: why it is not known what it is behind; None if it is.
    """

    run: RecordedRun
    name: str
    source: int
    target: int
    why_unknown: str | None = None


def number_of(run: RecordedRun) -> int:
    """The number of an edge, also where it is the only one."""
    if run.edge is not None:
        return run.edge
    return next((each.edge for each in run.manifest.channels), 0)


def local_edges(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
    """The edges of the job of some recorded ones all of whose channels are local, so that none of
    them was recorded, and whose tasks Flink's counters tell of; as runs without any channel."""
    run, recorded = runs[0], {number_of(each) for each in runs}
    named = named_edges(run.manifest)
    if not run.manifest.is_from_between or not recorded <= named.keys():
        return []
    vertices = {each["index"]: each for each in run.manifest.scenario["job"]["vertices"]}
    jobs = {vertices[named[each].source]["job"] for each in recorded}
    return [
        replace(run, run=_NO_NUMBER, edge=index, manifest=run.manifest.of_edge(index))
        for index, each in named.items()
        if index not in recorded
        and vertices[each.source]["job"] in jobs
        and local_share(run, index) == 1
        and received_per_s(run, index) is not None
    ]


_NO_NUMBER = -1


def local_share(run: RecordedRun, index: int) -> float:
    """Of the channels of an edge, those within TaskManagers, which were not recorded; 0 where Flink
    was not asked for its plan."""
    planned = planned_edge(run.manifest, index) if run.manifest.is_from_between else None
    return 0.0 if planned is None else len(planned.local) / planned.wiring.channels


def received_per_s(run: RecordedRun, index: int) -> float | None:
    """Records that the consumers of an edge took, by Flink's counters; None where these are not
    there."""
    found = counts_of(run.place, run.manifest, index, run.from_ns, run.to_ns).received_per_s
    known = [each for each in found if each is not None]
    return sum(known) if known and len(known) == len(found) else None


def joined_edges(runs: Sequence[RecordedRun]) -> list[JoinedEdge]:
    """The edges of one trace, those of one task before those behind it."""
    manifest, recorded = runs[0].manifest, {number_of(run) for run in runs}
    named = named_edges(manifest)
    if manifest.is_from_between and not recorded <= named.keys():
        return _in_order(_between(runs))
    found = []
    for run in runs:
        ends = ends_of(run.manifest, number_of(run) if named else run.edge)
        before = {each.index for each in named.values() if each.target == ends.source}
        why = None if before <= recorded else NOT_RECORDED
        found.append(JoinedEdge(run, ends.name, ends.source, ends.target, why))
    return _in_order(found)


def not_to_the_end(runs: Sequence[RecordedRun]) -> tuple[str, ...]:
    """Says which edges of a job lead on from the recorded ones and were not recorded, as far as
    Flink's plan of the job is known."""
    named, recorded = named_edges(runs[0].manifest), {number_of(run) for run in runs}
    if not recorded <= named.keys():
        return ()
    targets = {each.target for each in named.values() if each.index in recorded}
    left = [each for each in named.values() if each.index not in recorded]
    return tuple(NOT_TO_THE_END.format(each.name) for each in left if each.source in targets)


def _between(runs: Sequence[RecordedRun]) -> list[JoinedEdge]:
    """By the ids of vertices, as far as they show who feeds whom."""
    vertices = [vertex_of(run.manifest) for run in runs]
    known = [each for each in vertices if each is not None]
    before = ancestors(known)
    numbers = {vertex: number for number, vertex in enumerate(dict.fromkeys(known))}
    children: dict[bytes, list[bytes]] = {}
    for each in dict.fromkeys(known):
        for parent in before.get(each, ())[:1]:
            children.setdefault(parent, []).append(each)
    found = []
    for place, (run, vertex) in enumerate(zip(runs, vertices, strict=True)):
        own = place + len(runs)  # a vertex that no other edge has
        ends = ends_of(run.manifest, run.edge)
        if vertex is None:
            found.append(JoinedEdge(run, ends.name, own, own + len(runs), NOT_ASKED_FOR))
            continue
        behind = children.get(vertex, [])
        is_only = known.count(vertex) == 1 and len(behind) == 1
        target, name = own + len(runs), ends.name
        if is_only:
            target = numbers[behind[0]]
            name = f"{ends.source_name} → vertex {behind[0].hex()[:VERTEX_DIGITS]}"
        why = None
        if vertex not in before:
            why = NOT_SHOWN
        elif before[vertex]:
            parent = before[vertex][0]
            if known.count(parent) != 1 or len(children[parent]) != 1:
                why = SEVERAL_OUTPUTS
        found.append(JoinedEdge(run, name, numbers[vertex], target, why))
    return found


def _in_order(edges: Sequence[JoinedEdge]) -> list[JoinedEdge]:
    """Those of one task before those behind it; what goes round comes last."""
    left, found = list(edges), list[JoinedEdge]()
    while left:
        waiting = {each.target for each in left}
        free = [each for each in left if each.source not in waiting] or left
        found += free
        left = [each for each in left if each not in free]
    return found
