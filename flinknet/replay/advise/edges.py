"""The edges of a run with several exchanges: their names, who feeds them, and which one holds the
job up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flinknet.results import Verdict
from flinknet.trace import RunManifest
from flinknet.trace.job_names import named_edges

from .order import EdgeOrder, vertex_of

ONLY_EDGE = "producers → consumers"

VERTEX_DIGITS = 8
"""Of a vertex's id, as in the address of its page in Flink's web interface."""

PRESSED = frozenset({"bottleneck", "credit-starved"})
"""Verdicts of an edge whose producers have to wait for its consumers."""

NOT_FROM_SOURCES = (
    "its records come when the task before it has processed them, not at instants of their own; its"
    " predictions are with those of the job from end to end"
)


@dataclass(frozen=True, slots=True)
class EdgeEnds:
    """The vertices of an edge: indices and names."""

    source: int
    target: int
    source_name: str
    target_name: str

    @property
    def name(self) -> str:
        """How the edge is shown."""
        return f"{self.source_name} → {self.target_name}"


def ends_of(manifest: RunManifest, edge: int | None) -> EdgeEnds:
    """Who stands at the ends of an edge: by the job of the run, else by its relays, which stand in
    a row. Of what was recorded between processes the consumers are not known; see `order`.
    """
    only = {each.edge for each in manifest.channels} if edge is None else {edge}
    own = named_edges(manifest).get(only.pop()) if len(only) == 1 else None
    if own is not None:
        return EdgeEnds(own.source, own.target, own.source_name, own.target_name)
    if edge is None:
        return EdgeEnds(0, 1, *ONLY_EDGE.split(" → "))
    if manifest.is_from_between:
        vertex = vertex_of(manifest.of_edge(edge))
        of = "" if vertex is None else f" of vertex {vertex.hex()[:VERTEX_DIGITS]}"
        return EdgeEnds(edge, edge, f"data set {edge}{of}", "its consumers")
    relays = manifest.scenario.get("workload", {}).get("relays", 0)
    names = {0: "sources", relays + 1: "sinks"}
    return EdgeEnds(
        edge,
        edge + 1,
        names.get(edge, f"relays {edge}"),
        names.get(edge + 1, f"relays {edge + 1}"),
    )


def edge_name(manifest: RunManifest, edge: int | None) -> str | None:
    """The name of an edge; None where there is one exchange that has no name."""
    is_named = edge is not None or (manifest.is_from_between and named_edges(manifest))
    return ends_of(manifest, edge).name if is_named else None


def task_of(vertex: str, subtask: int, count: int) -> str:
    """A subtask of a vertex that has a name and whose subtasks have none: consumer 3 of 4."""
    singular, _, number = vertex.partition(" ")
    number = f"{number}." if number else ""
    return f"{singular.removesuffix('s')} {number}{subtask} of {count}"


def is_from_sources(manifest: RunManifest, edge: int | None) -> bool:
    """Whether the records of an edge came at instants of their own, or were captured."""
    if edge is None or manifest.is_from_between:
        return True
    job: Any = manifest.scenario.get("job")
    if not isinstance(job, Mapping):
        return edge == 0
    fed = {each["target"] for each in job["edges"]}
    return ends_of(manifest, edge).source not in fed


def pressed_from_behind(verdict: Verdict, behind: str) -> Verdict:
    """The verdict on an edge that is pressed and does not hold the job up itself.

    Args:
        behind: the edge that does.
    """
    text = (
        f"pressed from behind: {verdict.share:.0%} of the time its consumers did not get to its"
        f" records, for they waited for their own output; the bottleneck is further downstream, on"
        f" {behind}"
    )
    return replace(verdict, kind="pressed", text=text)


@dataclass(frozen=True, slots=True)
class Pressure:
    """Where the pressure on an edge that was recorded between processes comes from.

    Attributes:
        is_bottleneck: it holds the job up; None if an edge that is pressed as well may be behind
            it.
        behind: the pressed edges that are behind it, or may be.
    """

    is_bottleneck: bool | None
    behind: tuple[int, ...] = ()

    def verdict(self, of: Verdict, names: Sequence[str]) -> Verdict:
        """What a verdict on the edge becomes.

        Args:
            names: of the edges behind it.
        """
        those = " and ".join(names)
        are = "is" if len(names) == 1 else "are"
        if self.is_bottleneck is False:
            text = (
                f"pressed from behind: {of.share:.0%} of the time data waited for credit, and"
                f" {those}, behind it, {are} pressed as well"
            )
        else:
            text = (
                f"pressed: {of.share:.0%} of the time data waited for credit; {those} {are} pressed"
                " as well; messages between TaskManagers do not show which of them is further"
                " downstream; the one furthest downstream holds the job up"
            )
        return replace(of, kind="pressed", text=text)


def pressure_between(order: EdgeOrder, pressed: Sequence[int]) -> dict[int, Pressure]:
    """Where the pressure on each pressed edge comes from: one behind it, or its own consumers.

    Args:
        order: of all edges of one trace.
        pressed: those whose producers have to wait for credit.
    """
    found = {}
    for edge in pressed:
        behind = {other: order.is_behind(other, edge) for other in pressed if other != edge}
        sure = tuple(other for other, is_behind in behind.items() if is_behind)
        unsure = tuple(other for other, is_behind in behind.items() if is_behind is None)
        if sure:
            found[edge] = Pressure(False, sure)
        else:
            found[edge] = Pressure(None, unsure) if unsure else Pressure(True)
    return found


def upstream_of(edges: Sequence[EdgeEnds], last: EdgeEnds) -> list[bool]:
    """Of each edge of a run, whether what passes on it comes to the producers of another one."""
    vertices, before = {last.source}, set[int]()
    while vertices != before:
        before = set(vertices)
        vertices |= {each.source for each in edges if each.target in before}
    return [each.target in vertices for each in edges]
