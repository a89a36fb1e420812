"""Edges of a run with several exchanges: which of them holds the job up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flinknet.results import Verdict
from flinknet.trace import RunManifest
from flinknet.trace.job_names import Edge, edges_in_flow

from .order import EdgeOrder

PRESSED = frozenset({"bottleneck", "credit-starved"})
"""Verdicts of an edge whose producers have to wait for its consumers."""

NOT_FROM_SOURCES = (
    "its records come when the task before it has processed them, not at instants of their own; its"
    " predictions are with those of the job from end to end"
)


def task_of(vertex: str, subtask: int, count: int) -> str:
    """A subtask of a vertex that has a name and whose subtasks have none: consumer 3 of 4."""
    singular, _, number = vertex.partition(" ")
    number = f"{number}." if number else ""
    return f"{singular.removesuffix('s')} {number}{subtask} of {count}"


def is_from_sources(manifest: RunManifest, edge: int | None) -> bool:
    """Whether the records of an edge came at instants of their own, or were captured."""
    if edge is None or manifest.is_from_between:
        return True
    edges = edges_in_flow(manifest)
    own = next(each for each in edges if each.index == edge)
    return all(each.target != own.source for each in edges)


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


def upstream_of(edges: Sequence[Edge], last: Edge) -> list[bool]:
    """Of each edge of a run, whether what passes on it comes to the producers of another one."""
    vertices, before = {last.source}, set[int]()
    while vertices != before:
        before = set(vertices)
        vertices |= {each.source for each in edges if each.target in before}
    return [each.target in vertices for each in edges]
