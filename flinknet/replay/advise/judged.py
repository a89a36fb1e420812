"""What holds up each edge of a job, and the job: verdicts in the light of all its edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flinknet.core.probe import TracePoint
from flinknet.predict.exchange import is_blocking
from flinknet.results import Bottleneck, Cause, Verdict

from ..ledger import flink_ledger
from ..observe.observed_run import ObservedRun
from .between import bottleneck_between, judge_between
from .bottleneck import bottleneck_of
from .channel_times import channel_times
from .diagnose import diagnose, verdict_of_blocking
from .edges import PRESSED, pressed_from_behind, upstream_of
from .task_use import job_use


@dataclass(frozen=True, slots=True)
class JudgedEdge:
    """What holds an edge up.

    Attributes:
        is_bottleneck: it is what holds the job up; None where that is unknown.
        bottleneck: of the whole job, the same for all of its edges; None where that is unknown.
    """

    diagnosis: tuple[Verdict, ...]
    is_bottleneck: bool | None = None
    bottleneck: Bottleneck | None = None


def judged(edges: Sequence[ObservedRun]) -> list[JudgedEdge]:
    """The verdicts on the edges of one job, in their order."""
    if edges[0].run.counted_at == TracePoint.SENT:
        return _judged_between(edges)
    verdicts = [_diagnosis(each) for each in edges]
    if any(is_blocking(edge.run.manifest) for edge in edges):
        return [JudgedEdge(tuple(each)) for each in verdicts]
    bottleneck = bottleneck_of(job_use(edges))
    ends = [edge.run.ends for edge in edges]
    is_held = bottleneck.cause not in (Cause.NONE, Cause.BUFFER_TIMEOUT)
    holding = [is_held and each.name == bottleneck.edge for each in ends]
    upstream = upstream_of(ends, ends[holding.index(True)]) if is_held else [False] * len(ends)
    return [
        JudgedEdge(
            tuple(
                pressed_from_behind(each, bottleneck.edge or "")
                if is_upstream and each.kind in PRESSED
                else each
                for each in own
            ),
            is_holding,
            bottleneck,
        )
        for own, is_holding, is_upstream in zip(verdicts, holding, upstream, strict=True)
    ]


def _judged_between(edges: Sequence[ObservedRun]) -> list[JudgedEdge]:
    """The verdicts on a job whose consumers were not recorded, as between processes."""
    found = judge_between(edges)
    bottleneck = bottleneck_between(found, flink_ledger(edges[0].run))
    return [JudgedEdge(tuple(each.verdicts), each.is_bottleneck, bottleneck) for each in found]


def _diagnosis(observed: ObservedRun) -> list[Verdict]:
    run = observed.run
    if is_blocking(run.manifest):
        edge = run.ends.name
        return [verdict_of_blocking(edge, _written_share(observed))]
    return diagnose(channel_times(observed))


def _written_share(observed: ObservedRun) -> float | None:
    """Share of the time that had passed when the first buffer was taken."""
    first_ns = min((row.from_ns for row in observed.rows.throughput if row.buffers), default=None)
    return None if first_ns is None else min(first_ns / observed.measured.duration_ns, 1.0)
