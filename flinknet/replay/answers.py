"""Answers about runs, and about jobs of several exchanges as a whole: observations, predictions,
advice and prices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from flinknet.options import effective_flink_keys
from flinknet.options.link import link_of, show_link
from flinknet.predict.exchange import (
    has_own_timeout,
    is_max_rate,
    recorded_network,
    recorded_setting,
)
from flinknet.predict.fit.costs import RATE_IS_FITTED
from flinknet.predict.grid import Grid
from flinknet.results import (
    TAKEN_ALONE,
    Advice,
    EdgeAnswer,
    JobAnswer,
    JobObserved,
    JobPoint,
    Measured,
    ModelError,
    RunDetails,
    SimulatedPart,
    TraceDescription,
    TraceLoss,
    TracePart,
    TradeOffPoint,
    sustained_per_s,
)
from flinknet.trace import file_index
from flinknet.trace.recordings import RunPlace

from .advise.advice import advice, advice_of_job, chosen, set_by_operators, withheld
from .advise.caveats import SET_BY_OPERATOR, caveats, warnings_of
from .advise.judged import JudgedEdge
from .advise.targets import Target
from .edges import local_share, not_to_the_end, received_per_s
from .observe.checkpoints import since_trigger
from .observe.flink_metrics import flink_metrics
from .observe.latency import LatencyRow, total_latency
from .observe.measured import (
    ObservedRun,
    latency_distribution,
    message_counts,
    over_time,
    regime_shares,
    replayed_channels,
    taken_per_s,
    uncounted_loss,
)
from .observe.record_times import record_times
from .observe.units import work_units
from .plans import ALONE, Plan
from .predictions import UNKNOWN_LATENCY, WHOLE_JOB, Prediction, Predictions
from .price import cpu_cost_of, priced, recorded_share
from .read import RecordedRun
from .spark.frames import collected
from .task_timeouts import TaskSearch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """Observations in the part of a run that the prediction of the recorded setting stands for:
    all of a part that windows are spread over, so the model's error includes that of the sample.

    Attributes:
        simulated: how much of the part the simulation used.
    """

    measured: Measured
    simulated: SimulatedPart


def compared_runs(
    spark: SparkSession, observed: Sequence[ObservedRun], recorded: Sequence[Prediction]
) -> list[ComparedRun]:
    """Observations to compare the recorded setting of each run with, given its predictions."""
    windows = [
        replace(each.run, to_ns=row.window_to_ns)
        for each, row in zip(observed, recorded, strict=True)
    ]
    parts = [
        window
        for window, each in zip(windows, observed, strict=True)
        if window.to_ns != each.run.to_ns and not window.manifest.is_from_between
    ]
    totals: dict[int, LatencyRow] = {}
    if parts:
        rows = collected(LatencyRow, total_latency(spark, work_units(parts)))
        totals = {row.run: row for row in rows}
    found = []
    for window, each, row in zip(windows, observed, recorded, strict=True):
        measured = each.measured
        if window.run in totals:
            measured = _measured_within(window, each, totals[window.run])
        elif window.manifest.is_from_between and window.to_ns != each.run.to_ns:
            measured = _captured_within(each, window.duration_ns)
        measured = _over_counted_time(window, measured)
        found.append(ComparedRun(measured, _simulated_part(each, measured, row)))
    return found


def _simulated_part(observed: ObservedRun, measured: Measured, row: Prediction) -> SimulatedPart:
    """How much of a run was simulated; if that failed, how much was compared."""
    window_ns = row.window_to_ns - observed.run.from_ns
    if row.simulated_ns is not None:
        return SimulatedPart(row.records or 0, row.simulated_ns, False, row.windows)
    return SimulatedPart(measured.records, window_ns, row.window_to_ns == observed.run.to_ns)


def _measured_within(window: RecordedRun, observed: ObservedRun, total: LatencyRow) -> Measured:
    records, part_ns = total.latency_ns.count, window.duration_ns
    duration_ns = max(window.to_ns, total.consumed_to_ns) - window.from_ns
    throughput = sustained_per_s(
        records,
        duration_ns,
        part_ns,
        [taken_per_s(observed.rows.throughput, part_ns)],
        is_max_rate=is_max_rate(window.manifest),
    )
    return replace(
        observed.measured,
        records=records,
        buffers=0,  # not counted up to there
        duration_ns=duration_ns,
        throughput_records_per_s=throughput,
        latency_ns=total.latency_ns.known_within(window.manifest.clock.error_ns),
    )


def _captured_within(observed: ObservedRun, duration_ns: int) -> Measured:
    """Messages up to an instant of the measured part, by the windows before it."""
    whole = [row for row in observed.rows.throughput if row.from_ns + row.width_ns <= duration_ns]
    if not whole:
        return observed.measured
    covered_ns = max(row.from_ns + row.width_ns for row in whole)
    records = sum(row.records for row in whole)
    return replace(
        observed.measured,
        records=records,
        buffers=sum(row.buffers for row in whole),
        duration_ns=covered_ns,
        throughput_records_per_s=records * 1e9 / covered_ns,
    )


def _over_counted_time(window: RecordedRun, measured: Measured) -> Measured:
    """The observations, with throughput over the length of time that a prediction counts."""
    if window.manifest.is_from_between or not measured.records:
        return measured
    from flinknet.predict.what_if import counted_ns

    timeout_ns = max(recorded_setting(window.manifest).network.buffer_timeout_ns, 0)
    # Records that typically wait longer than the timeout wait for something else.
    p50 = measured.latency_ns.p50 or 0
    waits_for_flush = not is_max_rate(window.manifest) and p50 <= timeout_ns
    length_ns = counted_ns(
        measured.duration_ns, window.duration_ns, timeout_ns if waits_for_flush else 0
    )
    counted_per_s = measured.records * 1e9 / length_ns
    throughput = max(counted_per_s, measured.throughput_records_per_s or 0.0)
    return replace(measured, throughput_records_per_s=throughput)


def model_error(
    point: TradeOffPoint, observed: Measured | JobObserved, buffers_per_s: float | None
) -> ModelError:
    """Error of the prediction of the recorded setting, without figures that the model was fitted
    to; `observed` is of the part that the prediction stands for, see `ComparedRun`."""
    if RATE_IS_FITTED in point.notes:
        point = replace(point, throughput_records_per_s=None, buffers_per_s=None)
    too_low = _relative(point.latency_ns.mean, point.mean_latency_at_least_ns)
    return ModelError(
        throughput=_relative(point.throughput_records_per_s, observed.throughput_records_per_s),
        p50=_relative(point.latency_ns.p50, observed.latency_ns.p50),
        p99=_relative(point.latency_ns.p99, observed.latency_ns.p99),
        buffers_per_s=_relative(point.buffers_per_s, buffers_per_s),
        latency_at_most=None if too_low is None or too_low >= 0 else too_low,
    )


def _relative(predicted: float | None, observed: float | None) -> float | None:
    """Relative error; None where one of both is unknown, or nothing was observed."""
    return None if predicted is None or not observed else (predicted - observed) / observed


def _buffers_per_s(observed: Measured, *, is_from_between: bool) -> float | None:
    """Buffers per second, over the length of time that throughput is of where that was recorded."""
    if is_from_between:
        return observed.buffers * 1e9 / observed.duration_ns if observed.duration_ns else None
    records_per_s = observed.throughput_records_per_s
    if not observed.records or records_per_s is None:
        return None
    return observed.buffers / observed.records * records_per_s


@dataclass(frozen=True, slots=True)
class AdvisedRun:
    """The predictions of a run with ascending settings, their error, advice, and the share of their
    records that were recorded; the others passed on local channels."""

    points: tuple[TradeOffPoint, ...]
    error: ModelError
    advice: Advice
    recorded_share: float = 1.0


def advise(
    run: RecordedRun,
    compared: ComparedRun,
    predictions: Predictions,
    grid: Grid,
    targets: Sequence[Target],
) -> AdvisedRun:
    """Advice on a run, among the settings that the grid asks for."""
    settings, rows = zip(*predictions.of_run(run), strict=True)
    points = tuple(row.point for row in rows)
    asked = grid.asked(recorded_setting(run.manifest), is_max_rate=is_max_rate(run.manifest))
    recorded = next(row for row in rows if row.point.is_recorded)
    measured = compared.measured
    share = 1.0 if recorded.job == ALONE else recorded_share(run, measured)
    if measured.throughput_records_per_s is not None:
        records_per_s = measured.throughput_records_per_s / share
        measured = replace(measured, throughput_records_per_s=records_per_s)
    is_from_between = run.manifest.is_from_between
    error = model_error(
        recorded.point, measured, _buffers_per_s(measured, is_from_between=is_from_between)
    )
    if error.is_tail_off:
        points = tuple(each.without_tail for each in points)
    found = advice(
        points,
        targets,
        error,
        asked=[place for place, each in enumerate(settings) if each in asked],
        why_not=withheld(error, points),
    )
    return AdvisedRun(points, error, found, share)


def answers_of(
    observed: Sequence[ObservedRun],
    compared: Sequence[ComparedRun],
    advised: Sequence[AdvisedRun],
    judged: Sequence[JudgedEdge],
    details: Sequence[RunDetails | None],
    predictions: Predictions,
) -> list[EdgeAnswer]:
    """The answer about each run, in their order; edges behind another one that are taken alone say
    so."""
    of_runs = zip(observed, compared, advised, judged, details, strict=True)
    answers = [_answer(*each) for each in of_runs]
    for place, each in enumerate(observed):
        if predictions.is_taken_alone(each.run):
            remarks = (*answers[place].remarks, TAKEN_ALONE)
            answers[place] = replace(answers[place], remarks=remarks)
    return answers


def _answer(
    observed: ObservedRun,
    compared: ComparedRun,
    advised: AdvisedRun,
    judged: JudgedEdge,
    details: RunDetails | None,
) -> EdgeAnswer:
    flink = flink_metrics(observed.run, observed.measured)
    messages, cpu_cost = message_counts(observed), cpu_cost_of(observed)
    points = advised.points
    if observed.run.manifest.is_from_between:
        points = since_trigger(points, observed.measured.checkpoints)
    return EdgeAnswer(
        trace=_described(observed.run, uncounted_loss(observed)),
        observed=observed.measured,
        model_error=advised.error,
        trade_offs=priced(points, observed.measured, messages, cpu_cost, advised.recorded_share),
        advice=advised.advice,
        simulated=compared.simulated,
        messages=messages,
        channels=replayed_channels(observed),
        latency_distribution=latency_distribution(observed.rows).known_within(
            observed.run.manifest.clock.error_ns
        ),
        regimes=regime_shares(observed.rows),
        diagnosis=judged.diagnosis,
        over_time=over_time(observed),
        remarks=caveats(observed, None if flink is None else flink.share),
        is_bottleneck=judged.is_bottleneck,
        bottleneck=judged.bottleneck,
        details=details,
        flink=flink,
        cpu_cost=cpu_cost,
        channels_left_out=observed.rows.channels_omitted,
        record_times=record_times(
            observed.run, observed.rows.record_times, observed.rows.watermarks
        ),
        credit=observed.credit,
    )


def _described(run: RecordedRun, losses: tuple[TraceLoss, ...]) -> TraceDescription:
    indexes = [(file, file_index(file)) for file in run.files]
    whole_from_ns, whole_to_ns = run.whole_ns or (run.from_ns, run.to_ns)
    link = link_of(run.manifest.scenario.get("link"))
    damaged = tuple(file.title for file, index in indexes if not index.is_whole)
    cut = dict.fromkeys([run.cut, *(f"{each} is cut off" for each in damaged)])
    return TraceDescription(
        path=str(run.path),
        started_at=run.manifest.started_at,
        config=effective_flink_keys(recorded_network(run.manifest))
        if has_own_timeout(run.manifest)
        else run.manifest.flink_keys,
        is_max_rate=is_max_rate(run.manifest),
        events=sum(index.events for _, index in indexes),
        channels=len(run.manifest.channels),
        measured_duration_ns=run.duration_ns,
        damaged_files=damaged,
        warnings=tuple(warnings_of(run)),
        edge_number=run.ends.number,
        edge=run.edge_name,
        origin=run.manifest.origin,
        part=TracePart(
            run.from_ns - whole_from_ns,
            run.to_ns - whole_from_ns,
            whole_to_ns - whole_from_ns,
            tuple(each for each in cut if each),
        ),
        recordings=run.described,
        losses=(*run.losses, *losses),
        link=None if link is None else show_link(link),
    )


# Jobs of several exchanges as a whole


def job_answer(
    plan: Plan,
    predictions: Predictions,
    observed: Mapping[int, ObservedRun],
    targets: Sequence[Target] = (),
) -> JobAnswer:
    """The answer about a job, from its edges by number of the run."""
    points = tuple(_point(plan, each, predictions) for each in plan.order)
    seen = _job_observed(plan, observed)
    recorded = next(each for each in points if each.is_recorded)
    ends = [each.ends for each in plan.edges]
    own = [each.ends.name for each in plan.edges if has_own_timeout(each.manifest)]
    notes = [SET_BY_OPERATOR.format(", ".join(own))] if own else []
    error = model_error(recorded, seen, seen.buffers_per_s)
    points = _to_rely_on(points, error)
    why_not = withheld(error, points)
    choice, by_task = None if why_not else chosen(points, targets, error), None
    search = TaskSearch.of(plan, predictions, choice, targets, error)
    if plan.searched and search is not None and (ended := search.ended()) is not None:
        shown, by_task = ended
        points = tuple(_point(plan, each, predictions) for each in shown.order)
        points = _to_rely_on(points, error)
    if choice is not None and own:
        choice = set_by_operators(choice, points, recorded)
    fed = [each.target for each in ends]
    assumed = predictions.of(plan, plan.candidates.index(plan.recorded), WHOLE_JOB).assumed
    return JobAnswer(
        path=str(plan.run.path),
        edges=tuple(each.name for each in ends),
        edge_numbers=tuple(each.number for each in ends),
        feeding=tuple(fed.index(each.source) if each.source in fed else None for each in ends),
        observed=seen,
        model_error=error,
        points=points,
        simulated_ns=plan.part.simulated_ns,
        is_whole=plan.part.simulated_ns >= plan.run.duration_ns,
        notes=(*not_to_the_end(plan.edges), *notes, *assumed),
        advice=Advice(withheld=why_not) if why_not else advice_of_job(choice, recorded),
        by_task=by_task,
    )


def whole_jobs(
    observed: Sequence[ObservedRun],
    answers: Sequence[EdgeAnswer],
    wholes: Mapping[tuple[RunPlace, int], JobAnswer],
) -> list[JobAnswer]:
    """The answers about recorded jobs with their edges; an exchange that is in no job of several is
    one by itself.

    Args:
        wholes: answers about jobs of several edges, by the key that their edges have in common.
    """
    jobs: list[JobAnswer] = []
    pairs = zip(observed, answers, strict=True)
    for key, group in groupby(pairs, key=lambda pair: pair[0].run.job):
        edges = [answer for _, answer in group]
        if key in wholes:
            edges.sort(key=lambda each: each.trace.edge_number)
            jobs.append(replace(wholes[key], answers=tuple(edges)))
        else:
            jobs += [each.alone for each in edges]
    return jobs


def search_further(
    predictions: Predictions, jobs: Sequence[JobAnswer], targets: Sequence[Target]
) -> list[Plan]:
    """The plans with the timeouts of tasks to simulate next; see `task_timeouts`."""
    plans = [each for each in predictions.plans if each.job == ALONE]
    for plan, job in zip(predictions.jobs, jobs, strict=True):
        search = TaskSearch.of(plan, predictions, job.choice, targets, job.model_error)
        plans.append(plan if search is None else search.further)
    return plans


def _point(plan: Plan, number: int, predictions: Predictions) -> JobPoint:
    total = predictions.of(plan, number, WHOLE_JOB).point
    edges = tuple(predictions.of(plan, number, place).point for place in range(len(plan.edges)))
    timeouts_ns = tuple(each.network.buffer_timeout_ns for each in plan.candidates[number])
    why = total.why_unknown
    if why is not None:
        pairs = zip(plan.edges, edges, strict=True)
        name = next((run.ends.name for run, each in pairs if each.why_unknown == why), None)
        total = replace(total, why_unknown=why if name is None else f"{name}: {why}")
    return JobPoint.of(total, timeouts_ns, edges)


def _to_rely_on(points: tuple[JobPoint, ...], error: ModelError) -> tuple[JobPoint, ...]:
    """The predictions of a job, without its p99 if the model is too far off in it alone."""
    if not error.is_tail_off:
        return points
    return tuple(each.without_tail for each in points)


def _job_observed(plan: Plan, observed: Mapping[int, ObservedRun]) -> JobObserved:
    """Observations of the whole job: of channels that were not recorded, by Flink's counters; of
    buffers, the recorded ones."""
    sources = {each.ends.source for each in plan.edges}
    ends = [each for each in plan.edges if each.ends.target not in sources]
    rates = [
        received_per_s(each, each.ends.index)
        if local_share(each, each.ends.index)
        else observed[each.run].measured.throughput_records_per_s
        for each in ends
    ]
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
