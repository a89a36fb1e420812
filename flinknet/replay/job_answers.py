"""Answers about jobs of several exchanges as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from flinknet.predict.exchange import has_own_timeout
from flinknet.results import (
    TAKEN_ALONE,
    Choice,
    JobAnswer,
    JobEdgePoint,
    JobObserved,
    JobPoint,
    ModelError,
    ReplayAnswer,
)

from .advise.advice import choose, set_by_operators
from .advise.caveats import SET_BY_OPERATOR
from .advise.targets import Target
from .answers import relative
from .edges import local_share, not_to_the_end, received_per_s
from .observe.measured import ObservedRun
from .plans import ALONE, Plan
from .predictions import UNKNOWN_LATENCY, WHOLE_JOB, Predictions
from .read import RecordedRun


def job_answer(
    plan: Plan,
    predictions: Predictions,
    observed: Mapping[int, ObservedRun],
    targets: Sequence[Target] = (),
) -> JobAnswer:
    """The answer about a job.

    Args:
        observed: its edges, by number of the run.
        targets: bounds on the figures of the job as a whole.
    """
    points = tuple(_point(plan, each, predictions) for each in plan.order)
    seen = _observed(plan, observed)
    recorded = next(each for each in points if each.total.is_recorded)
    ends = [each.ends for each in plan.edges]
    own = [each.ends.name for each in plan.edges if has_own_timeout(each.manifest)]
    notes = [SET_BY_OPERATOR.format(", ".join(own))] if own else []
    error = ModelError(
        throughput=relative(recorded.total.throughput_records_per_s, seen.throughput_records_per_s),
        p50=relative(recorded.total.latency_ns.p50, seen.latency_ns.p50),
        p99=relative(recorded.total.latency_ns.p99, seen.latency_ns.p99),
        buffers_per_s=relative(recorded.total.buffers_per_s, seen.buffers_per_s),
    )
    choice = chosen(points, targets, error)
    fed = [each.target for each in ends]
    assumed = predictions.of(plan, plan.candidates.index(plan.recorded), WHOLE_JOB).assumed
    return JobAnswer(
        path=str(plan.run.path),
        edges=tuple(each.name for each in ends),
        feeding=tuple(fed.index(each.source) if each.source in fed else None for each in ends),
        observed=seen,
        model_error=error,
        points=points,
        simulated_ns=plan.part.simulated_ns,
        is_whole=plan.part.simulated_ns >= plan.run.duration_ns,
        notes=(*not_to_the_end(plan.edges), *notes, *assumed),
        choice=choice if choice is None or not own else set_by_operators(choice, points, recorded),
    )


def chosen(
    points: Sequence[JobPoint], targets: Sequence[Target], error: ModelError
) -> Choice | None:
    """The setting of a job that meets the targets, as `advise.advice.choose`, among the recorded
    one and those with the same timeout on all edges. None without targets."""
    if not targets:
        return None
    places = [
        number
        for number, each in enumerate(points)
        if each.total.is_recorded or len({*each.timeouts_ns}) == 1
    ]
    choice = choose([points[place].total for place in places], targets, error)
    point, nearest = (
        None if each is None else places[each] for each in (choice.point, choice.nearest)
    )
    return replace(choice, point=point, nearest=nearest)


def with_remarks(
    answers: Sequence[ReplayAnswer], observed: Sequence[ObservedRun], predictions: Predictions
) -> list[ReplayAnswer]:
    """The answers about edges; those behind another edge that are taken alone say so."""
    fed = set()
    for plan in predictions.jobs:
        targets = {each.ends.target for each in plan.edges}
        fed |= {each.run for each in plan.edges if each.ends.source in targets}
    return [
        replace(answer, remarks=(*answer.remarks, TAKEN_ALONE))
        if run.run in fed and any(row.job == ALONE for _, row in predictions.of_run(run))
        else answer
        for answer, run in zip(answers, (each.run for each in observed), strict=True)
    ]


def _point(plan: Plan, number: int, predictions: Predictions) -> JobPoint:
    total = predictions.of(plan, number, WHOLE_JOB)
    edges = []
    for place, edge in enumerate(plan.edges):
        row = predictions.of(plan, number, place)
        edges.append(
            JobEdgePoint(
                edge.ends.number,
                edge.ends.name,
                row.setting.buffer_timeout_ns,
                row.point.throughput_records_per_s,
                row.point.latency_ns,
                row.since_source_ns or UNKNOWN_LATENCY,
                row.point.buffers_per_s,
                row.why_unknown,
            )
        )
    why = total.why_unknown
    if why is not None:
        first = next((each for each in edges if each.why_unknown == why), None)
        why = why if first is None else f"{first.edge}: {why}"
    timeouts_ns = tuple(each.network.buffer_timeout_ns for each in plan.candidates[number])
    return JobPoint(timeouts_ns, total.point, tuple(edges), why)


def _observed(plan: Plan, observed: Mapping[int, ObservedRun]) -> JobObserved:
    """Observations of the whole job: of channels that were not recorded, by Flink's counters; of
    buffers, the recorded ones."""
    sources = {each.ends.source for each in plan.edges}
    ends = [each for each in plan.edges if each.ends.target not in sources]
    rates = [_observed_rate(each, observed) for each in ends]
    buffers = [
        observed[each.run].measured.buffers * 1e9 / each.duration_ns
        for each in plan.edges
        if each.duration_ns and not each.is_unseen
    ]
    is_known = len(ends) == 1 and not ends[0].manifest.is_from_between
    return JobObserved(
        sum(each for each in rates if each is not None) if None not in rates else None,
        observed[ends[0].run].measured.latency_ns if is_known else UNKNOWN_LATENCY,
        sum(buffers) if buffers else None,
    )


def _observed_rate(run: RecordedRun, observed: Mapping[int, ObservedRun]) -> float | None:
    if local_share(run, run.ends.index):
        return received_per_s(run, run.ends.index)
    return observed[run.run].measured.throughput_records_per_s
