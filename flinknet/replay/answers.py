"""Answers about runs, and about jobs of several exchanges as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flinknet import results
from flinknet.histogram import LogLinearHistogram
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
from flinknet.trace import file_index

from .advise.advice import advice, advice_of_job, chosen, set_by_operators, withheld
from .advise.caveats import SET_BY_OPERATOR, caveats, warnings_of
from .advise.judged import JudgedEdge
from .advise.targets import Target
from .edges import local_share, not_to_the_end, received_per_s
from .observe import measured as observation
from .observe.checkpoints import since_trigger
from .observe.flink_metrics import flink_metrics
from .observe.latency import LatencyRow, distribution, total_latency
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


def compared_runs(
    spark: SparkSession, observed: Sequence[observation.ObservedRun], recorded: Sequence[Prediction]
) -> tuple[list[results.Measured], list[results.SimulatedPart]]:
    """Observations in the part of each run that the prediction of its recorded setting stands for,
    all of a part that windows are spread over, so that the model's error includes that of the
    sample; and how much of the part was simulated or, if that failed, compared."""
    windows = [
        replace(each.run, to_ns=row.window_to_ns)
        for each, row in zip(observed, recorded, strict=True)
    ]
    cut = {w.run for w, each in zip(windows, observed, strict=True) if w.to_ns != each.run.to_ns}
    own = [each for each in windows if each.run in cut and not each.manifest.is_from_between]
    totals: dict[int, LatencyRow] = {}
    if own:
        rows = collected(LatencyRow, total_latency(spark, work_units(own)))
        totals = {row.run: row for row in rows}
    observations, simulated = [], []
    for window, each, row in zip(windows, observed, recorded, strict=True):
        measured = each.measured
        if window.run in totals:
            measured = _measured_within(window, each, totals[window.run])
        elif window.run in cut and window.manifest.is_from_between:
            measured = _captured_within(each, window.duration_ns)
        measured = _over_counted_time(window, measured)
        observations.append(measured)
        part = results.SimulatedPart(measured.records, window.duration_ns, window.run not in cut)
        if row.simulated_ns is not None:
            part = results.SimulatedPart(row.records or 0, row.simulated_ns, False, row.windows)
        simulated.append(part)
    return observations, simulated


def _measured_within(
    window: RecordedRun, observed: observation.ObservedRun, total: LatencyRow
) -> results.Measured:
    records = total.latency_ns.count
    duration_ns = max(window.to_ns, total.consumed_to_ns) - window.from_ns
    windows = observed.rows.throughput
    throughput = observation.sustained_per_s(window, windows, records, duration_ns)
    return replace(
        observed.measured,
        records=records,
        buffers=0,  # not counted up to there
        duration_ns=duration_ns,
        throughput_records_per_s=throughput,
        latency_ns=total.latency_ns.known_within(window.manifest.clock.error_ns),
    )


def _captured_within(observed: observation.ObservedRun, duration_ns: int) -> results.Measured:
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


def _over_counted_time(window: RecordedRun, measured: results.Measured) -> results.Measured:
    """The observations, with throughput over the length of time that a prediction counts."""
    if window.manifest.is_from_between or not measured.records:
        return measured
    from flinknet.predict.what_if import counted_ns

    timeout_ns = max(recorded_setting(window.manifest).network.buffer_timeout_ns, 0)
    if is_max_rate(window.manifest) or (measured.latency_ns.p50 or 0) > timeout_ns:
        timeout_ns = 0  # records that typically wait longer wait for something else
    length_ns = counted_ns(measured.duration_ns, window.duration_ns, timeout_ns)
    throughput = max(measured.records * 1e9 / length_ns, measured.throughput_records_per_s or 0.0)
    return replace(measured, throughput_records_per_s=throughput)


def model_error(
    point: results.TradeOffPoint,
    observed: results.Measured | results.JobObserved,
    buffers_per_s: float | None,
) -> results.ModelError:
    """Error of the prediction of the recorded setting, without figures that the model was fitted
    to; `observed` is of the part that the prediction stands for, see `compared_runs`."""
    if RATE_IS_FITTED in point.notes:
        point = replace(point, throughput_records_per_s=None, buffers_per_s=None)
    too_low = _relative(point.latency_ns.mean, point.mean_latency_at_least_ns)
    return results.ModelError(
        throughput=_relative(point.throughput_records_per_s, observed.throughput_records_per_s),
        p50=_relative(point.latency_ns.p50, observed.latency_ns.p50),
        p99=_relative(point.latency_ns.p99, observed.latency_ns.p99),
        buffers_per_s=_relative(point.buffers_per_s, buffers_per_s),
        latency_at_most=None if too_low is None or too_low >= 0 else too_low,
    )


def _relative(predicted: float | None, observed: float | None) -> float | None:
    return None if predicted is None or not observed else (predicted - observed) / observed


@dataclass(frozen=True, slots=True)
class AdvisedRun:
    """The predictions of a run with ascending settings, their error, advice, and the share of their
    records that were recorded; the others passed on local channels."""

    points: tuple[results.TradeOffPoint, ...]
    error: results.ModelError
    advice: results.Advice
    recorded_share: float = 1.0


def advise(
    run: RecordedRun,
    measured: results.Measured,
    predictions: Predictions,
    grid: Grid,
    targets: Sequence[Target],
    found: results.Bottleneck | None,
) -> AdvisedRun:
    """Advice on a run among the settings of a grid; `measured` as of `compared_runs`, `found` the
    verdict on the job."""
    settings, rows = zip(*predictions.of_run(run), strict=True)
    points = tuple(row.point for row in rows)
    asked = grid.asked(recorded_setting(run.manifest), is_max_rate=is_max_rate(run.manifest))
    recorded = next(row for row in rows if row.point.is_recorded)
    share = 1.0 if recorded.job == ALONE else recorded_share(run, measured)
    records_per_s, buffers_per_s = measured.throughput_records_per_s, None
    if records_per_s is not None:
        records_per_s /= share
        measured = replace(measured, throughput_records_per_s=records_per_s)
    if run.manifest.is_from_between:
        buffers_per_s = measured.buffers * 1e9 / max(measured.duration_ns, 1)
    elif measured.records and records_per_s is not None:
        buffers_per_s = measured.buffers / measured.records * records_per_s  # over the same time
    error = model_error(recorded.point, measured, buffers_per_s)
    if error.is_tail_off:
        points = tuple(each.without_tail for each in points)
    places = [place for place, each in enumerate(settings) if each in asked]
    why_not = withheld(error, points, found)
    advised = advice(points, targets, error, asked=places, why_not=why_not)
    return AdvisedRun(tuple(map(results.without_open_tails, points)), error, advised, share)


def answer_of(
    observed: observation.ObservedRun,
    simulated: results.SimulatedPart,
    advised: AdvisedRun,
    judged: JudgedEdge,
    details: results.RunDetails | None,
    *,
    is_taken_alone: bool,
) -> results.EdgeAnswer:
    """The answer about a run; an edge behind another one that is taken alone says so."""
    flink = flink_metrics(observed.run, observed.measured)
    messages, cpu_cost = observation.message_counts(observed), cpu_cost_of(observed)
    points = advised.points
    if observed.run.manifest.is_from_between:
        points = since_trigger(points, observed.measured.checkpoints)
    remarks = caveats(observed, None if flink is None else flink.share)
    latency = LogLinearHistogram.from_bytes(*(each.histogram for each in observed.rows.totals))
    return results.EdgeAnswer(
        trace=_described(observed.run, observation.uncounted_loss(observed)),
        observed=observed.measured,
        model_error=advised.error,
        trade_offs=priced(points, observed.measured, messages, cpu_cost, advised.recorded_share),
        advice=advised.advice,
        simulated=simulated,
        messages=messages,
        channels=observation.replayed_channels(observed),
        latency_distribution=distribution(latency).known_within(
            observed.run.manifest.clock.error_ns
        ),
        regimes=observation.regime_shares(observed.rows),
        diagnosis=judged.diagnosis,
        over_time=observation.over_time(observed),
        remarks=(*remarks, results.TAKEN_ALONE) if is_taken_alone else remarks,
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


def _described(run: RecordedRun, losses: tuple[results.TraceLoss, ...]) -> results.TraceDescription:
    indexes = [(file, file_index(file)) for file in run.files]
    whole_from_ns, whole_to_ns = run.whole_ns or (run.from_ns, run.to_ns)
    link, config = link_of(run.manifest.scenario.get("link")), run.manifest.flink_keys
    if has_own_timeout(run.manifest):
        config = effective_flink_keys(recorded_network(run.manifest))
    damaged = tuple(file.title for file, index in indexes if not index.is_whole)
    cut = dict.fromkeys([run.cut, *(f"{each} is cut off" for each in damaged)])
    return results.TraceDescription(
        path=str(run.path),
        started_at=run.manifest.started_at,
        config=config,
        is_max_rate=is_max_rate(run.manifest),
        events=sum(index.events for _, index in indexes),
        channels=len(run.manifest.channels),
        measured_duration_ns=run.duration_ns,
        damaged_files=damaged,
        warnings=tuple(warnings_of(run)),
        edge_number=run.ends.number,
        edge=run.edge_name,
        origin=run.manifest.origin,
        part=results.TracePart(
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
    observed: Mapping[int, observation.ObservedRun],
    targets: Sequence[Target],
    found: results.Bottleneck | None,
) -> results.JobAnswer:
    seen = _job_observed(plan, observed)
    points = _points(plan, predictions)
    recorded = next(each for each in points if each.is_recorded)
    ends = [each.ends for each in plan.edges]
    own = [each.ends.name for each in plan.edges if has_own_timeout(each.manifest)]
    notes = [SET_BY_OPERATOR.format(", ".join(own))] if own else []
    error = model_error(recorded, seen, seen.buffers_per_s)
    points = _points(plan, predictions, error)
    why_not = withheld(error, points, found)
    choice, by_task = None if why_not else chosen(points, targets, error), None
    search = TaskSearch.of(plan, predictions, choice, targets, error)
    if plan.searched and search is not None and (ended := search.ended()) is not None:
        shown, by_task = ended
        points = _points(shown, predictions, error)
    if choice is not None and own:
        choice = set_by_operators(choice, points, recorded)
    fed = [each.target for each in ends]
    assumed = predictions.of(plan, plan.candidates.index(plan.recorded), WHOLE_JOB).assumed
    return results.JobAnswer(
        path=str(plan.run.path),
        edges=tuple(each.name for each in ends),
        edge_numbers=tuple(each.number for each in ends),
        feeding=tuple(fed.index(each.source) if each.source in fed else None for each in ends),
        observed=seen,
        model_error=error,
        points=tuple(map(results.without_open_tails, points)),
        simulated_ns=plan.part.simulated_ns,
        is_whole=plan.part.simulated_ns >= plan.run.duration_ns,
        notes=(*not_to_the_end(plan.edges), *notes, *assumed),
        advice=results.Advice(withheld=why_not) if why_not else advice_of_job(choice, recorded),
        by_task=by_task,
    )


def search_further(
    predictions: Predictions, jobs: Sequence[results.JobAnswer], targets: Sequence[Target]
) -> list[Plan]:
    plans = [each for each in predictions.plans if each.job == ALONE]
    for plan, job in zip(predictions.jobs, jobs, strict=True):
        search = TaskSearch.of(plan, predictions, job.choice, targets, job.model_error)
        plans.append(plan if search is None else search.further)
    return plans


def _points(
    plan: Plan, predictions: Predictions, error: results.ModelError | None = None
) -> tuple[results.JobPoint, ...]:
    """The predictions of a job, without its p99 if the model is too far off in it alone."""
    found = []
    for number in plan.order:
        total = predictions.of(plan, number, WHOLE_JOB).point
        edges = tuple(predictions.of(plan, number, place).point for place in range(len(plan.edges)))
        timeouts_ns = tuple(each.network.buffer_timeout_ns for each in plan.candidates[number])
        if (why := total.why_unknown) is not None:
            pairs = zip(plan.edges, edges, strict=True)
            name = next((run.ends.name for run, each in pairs if each.why_unknown == why), None)
            total = replace(total, why_unknown=why if name is None else f"{name}: {why}")
        point = results.JobPoint.of(total, timeouts_ns, edges)
        found.append(point.without_tail if error is not None and error.is_tail_off else point)
    return tuple(found)


def _job_observed(
    plan: Plan, observed: Mapping[int, observation.ObservedRun]
) -> results.JobObserved:
    """Observations of the whole job, by Flink's counters of unrecorded channels."""

    def rate_of(edge: RecordedRun) -> float | None:
        if local_share(edge, edge.ends.index):
            return received_per_s(edge, edge.ends.index)
        return observed[edge.run].measured.throughput_records_per_s

    sources = {each.ends.source for each in plan.edges}
    ends = [each for each in plan.edges if each.ends.target not in sources]
    rates = [rate_of(each) for each in ends]
    buffers = [
        observed[each.run].measured.buffers * 1e9 / each.duration_ns
        for each in plan.edges
        if each.duration_ns and not each.is_unseen
    ]
    is_known = len(ends) == 1 and not ends[0].manifest.is_from_between
    return results.JobObserved(
        sum(each for each in rates if each is not None) if None not in rates else None,
        observed[ends[0].run].measured.latency_ns if is_known else UNKNOWN_LATENCY,
        sum(buffers) if buffers else None,
    )
