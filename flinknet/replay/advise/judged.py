"""What holds up each edge of a job, and the job: verdicts in the light of all its edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flinknet.predict.exchange import is_blocking
from flinknet.results import Bottleneck, Verdict
from flinknet.results.ledger import Ledger
from flinknet.results.slow_tasks import pressed_edges
from flinknet.results.verdict import verdict

from ..ledger import ledger_of
from ..observe.measured import ObservedRun
from .diagnose import PRESSED, diagnose, pressed_from_behind, verdict_of_blocking


@dataclass(frozen=True, slots=True)
class JudgedEdge:
    """The verdicts on an edge.

    Attributes:
        is_bottleneck, bottleneck: it holds the job up, and the verdict on the job; None: unknown.
    """

    diagnosis: tuple[Verdict, ...]
    is_bottleneck: bool | None = None
    bottleneck: Bottleneck | None = None


def judged(edges: Sequence[ObservedRun]) -> list[JudgedEdge]:
    """The verdicts on the edges of one job, in their order."""
    if any(is_blocking(edge.run.manifest) for edge in edges):
        return [JudgedEdge(tuple(_without_job(each))) for each in edges]
    return judged_ledger(ledger_of(edges))[: len(edges)]


def judged_ledger(ledger: Ledger) -> list[JudgedEdge]:
    """The verdicts on the edges of a ledger."""
    found = verdict(ledger)
    pressed = set(pressed_edges(ledger))
    held = set()
    if found is not None and not found.is_healthy:
        held = {place for place, each in enumerate(ledger.edges) if each.name == found.edge}
    judged_edges = []
    for place, edge in enumerate(ledger.edges):
        behind = edge.behind & (held or pressed)
        unsure = set() if held or behind else edge.unsure & pressed
        names = [ledger.edges[each].name for each in sorted(behind or unsure)]
        verdicts = tuple(
            pressed_from_behind(each, names, is_sure=bool(behind))
            if names and place not in held and each.kind in PRESSED
            else each
            for each in diagnose(edge)
        )
        is_holding: bool | None = place in held
        if found is None and place in pressed and not behind:
            is_holding = None if unsure else True
        judged_edges.append(JudgedEdge(verdicts, is_holding, found))
    return judged_edges


def _without_job(observed: ObservedRun) -> list[Verdict]:
    """The verdicts on an edge of a job with a blocking exchange."""
    run, rows = observed.run, observed.rows
    if not is_blocking(run.manifest):
        return diagnose(ledger_of([observed]).edges[0])
    first_ns = min((row.from_ns for row in rows.throughput if row.buffers), default=None)
    share = None if first_ns is None else min(first_ns / observed.measured.duration_ns, 1.0)
    return [verdict_of_blocking(run.ends.name, share)]
