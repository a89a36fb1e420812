"""Jobs of several exchanges: which settings to predict them under, and the answers about them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from flinknet.errors import ConfigError
from flinknet.options import effective_flink_keys
from flinknet.options.what_if import Setting, ascending, situation_of
from flinknet.predict.exchange import has_own_timeout, is_max_rate, recorded_setting
from flinknet.predict.grid import Grid
from flinknet.results import (
    TAKEN_ALONE,
    BacklogSummary,
    Choice,
    JobAnswer,
    JobEdgePoint,
    JobObserved,
    JobPoint,
    LatencySummary,
    ModelError,
    ReplayAnswer,
    TradeOffPoint,
)
from flinknet.trace.job_names import Edge

from .advise.advice import choose, set_by_operators
from .advise.caveats import SET_BY_OPERATOR
from .advise.job_graph import (
    local_edges,
    local_share,
    not_to_the_end,
    received_per_s,
    whys_not_joined,
)
from .advise.targets import Target, between
from .candidates import grids_for, window_for
from .job_rows import WHOLE_JOB, JobCandidate, JobPlan, JobRow, predict_jobs, with_timeouts
from .observe.observed_run import ObservedRun
from .outcome import Window
from .predicted import Predicted
from .read import RecordedRun
from .spark.frames import collected
from .windows import at_least, spread_windows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS_MAX = 3_000_000
"""Records of a job, over its edges, that are simulated for each setting: some seconds of it."""

_NO_LATENCY = LatencySummary(count=0)


@dataclass(frozen=True, slots=True)
class EdgeTimeouts:
    """Buffer timeouts for some edges of a job, by the number of an edge or a part of its name; the
    others keep what was recorded."""

    of: tuple[tuple[str, int], ...]

    def on(self, edges: Sequence[Edge]) -> list[int | None]:
        """The timeout of each edge; None where it stays.

        Raises: ConfigError for an edge that does not exist, or a name of several.
        """
        found: list[int | None] = [None] * len(edges)
        for text, timeout_ns in self.of:
            if text.isdecimal():
                places = [n for n, each in enumerate(edges) if each.number == int(text)]
            else:
                places = [n for n, each in enumerate(edges) if text.lower() in each.name.lower()]
                starts = [n for n in places if edges[n].name.lower().startswith(text.lower())]
                places = starts if len(starts) == 1 else places
            if len(places) != 1:
                what = "several edges match" if places else "there is no edge"
                listed = "; ".join(each.title for each in edges)
                raise ConfigError(f"--edge-timeout: {what} {text!r}; the edges are {listed}")
            found[places[0]] = timeout_ns
        return found


def check_edge_timeouts(runs: Sequence[RecordedRun], asked: Sequence[EdgeTimeouts]) -> None:
    """Raises: ConfigError for timeouts of edges that do not exist."""
    groups = _of_jobs(runs)
    if asked and not groups:
        raise ConfigError("--edge-timeout is for jobs of several exchanges, and there is none")
    for group in groups:
        for each in asked:
            each.on([run.ends for run in group])


def _of_jobs(runs: Sequence[RecordedRun]) -> list[list[RecordedRun]]:
    """The edges, in the direction of flow, of each job that has several, or local channels."""
    groups = [list(group) for _, group in groupby(runs, key=lambda each: each.job)]
    whole = [
        sorted([*group, *local_edges(group)], key=lambda each: each.ends.number) for group in groups
    ]
    return [each for each in whole if len(each) > 1 or _is_to_be_filled_in(each[0])]


def _is_to_be_filled_in(run: RecordedRun) -> bool:
    """Whether some channels of an edge were not recorded, and Flink's counters tell of them."""
    index = run.ends.index
    return local_share(run, index) > 0 and received_per_s(run, index) is not None


def plan_jobs(
    observed: Sequence[ObservedRun],
    grid: Grid,
    edge_timeouts: Sequence[EdgeTimeouts],
    *,
    max_records: int | None,
) -> list[JobPlan]:
    """The jobs among some runs."""
    of_run = {each.run.run: each for each in observed}
    return [
        _plan(
            number,
            [of_run[run.run] for run in group if not run.is_unseen],
            group,
            grid,
            edge_timeouts,
            max_records,
        )
        for number, group in enumerate(_of_jobs([each.run for each in observed]))
    ]


def _plan(
    number: int,
    observed: Sequence[ObservedRun],
    runs: Sequence[RecordedRun],
    grid: Grid,
    edge_timeouts: Sequence[EdgeTimeouts],
    max_records: int | None,
) -> JobPlan:
    run = runs[0]
    grids = grids_for(runs, observed, grid)
    recorded = [recorded_setting(each.manifest) for each in runs]
    asked = [
        sorted(each.asked(own, is_max_rate=is_max_rate(run.manifest)), key=ascending)
        for own, each in zip(recorded, grids, strict=True)
    ]
    rows = {tuple(recorded), *zip(*asked, strict=True)}
    candidates = [JobCandidate(row) for row in sorted(rows, key=lambda row: [*map(ascending, row)])]
    for each in edge_timeouts:
        candidates.append(with_timeouts(recorded, each.on([own.ends for own in runs])))
    settings = [setting for each in candidates for setting in each.settings]
    records = sum(each.measured.records for each in observed)
    windows: tuple[Window, ...] = (Window(run.from_ns, run.to_ns),)
    is_asked = run.is_asked_part
    if max_records is not None:
        to_ns = window_for(run, max(each.measured.records for each in observed), max_records)
        windows = (Window(run.from_ns, at_least(run, to_ns, settings)),)
    elif records > RECORDS_MAX:
        windows = spread_windows(run, RECORDS_MAX / records, settings)
    used_ns = sum(each.to_ns - each.from_ns for each in windows)
    return JobPlan(
        number,
        tuple(runs),
        whys_not_joined(runs),
        tuple(dict.fromkeys(candidates)),
        windows,
        used_ns >= run.duration_ns,
        is_asked,
    )


@dataclass(frozen=True, slots=True)
class PredictedJobs:
    """Jobs with what is predicted for them, and the table of that."""

    plans: Sequence[JobPlan]
    rows: Sequence[JobRow]
    table: DataFrame


def predict_all_jobs(spark: SparkSession, plans: Sequence[JobPlan]) -> PredictedJobs:
    """Predict every candidate of every job."""
    table = predict_jobs(spark, plans).cache()
    return PredictedJobs(plans, collected(JobRow, table), table)


def refined_plans(plans: Sequence[JobPlan], answers: Sequence[JobAnswer]) -> list[JobPlan]:
    """The jobs whose choice leaves whole milliseconds below the next longer timeout, with these as
    further candidates."""
    found = []
    for plan, answer in zip(plans, answers, strict=True):
        choice = answer.choice
        if choice is None or choice.point is None or choice.next_longer_ns is None:
            continue
        settings = plan.candidates[choice.point].settings
        timeout_ns, *others = {*answer.points[choice.point].timeouts_ns}
        if others:
            continue
        steps_ns = between(timeout_ns, choice.next_longer_ns)
        more = [with_timeouts(settings, [each] * len(settings)) for each in steps_ns]
        more = [each for each in more if each not in plan.candidates]
        if more:
            count, after = len(plan.candidates), choice.point + 1
            order = [*range(after), *range(count, count + len(more)), *range(after, count)]
            candidates = (*plan.candidates, *more)
            found.append(replace(plan, candidates=candidates, order=tuple(order)))
    return found


def predict_more_jobs(
    spark: SparkSession, jobs: PredictedJobs, refined: Sequence[JobPlan]
) -> PredictedJobs:
    """Predict the further candidates of the same jobs, too."""
    known = {each.number: len(each.candidates) for each in jobs.plans}
    table = predict_jobs(spark, refined, known).cache()
    by_number = {each.number: each for each in refined}
    plans = [by_number.get(each.number, each) for each in jobs.plans]
    return PredictedJobs(plans, [*jobs.rows, *collected(JobRow, table)], jobs.table.union(table))


def job_answers(
    jobs: PredictedJobs,
    observed: Sequence[ObservedRun],
    predicted: Predicted,
    targets: Sequence[Target] = (),
) -> list[JobAnswer]:
    """The answer about each job.

    Args:
        targets: bounds on what the job as a whole comes to.
    """
    of_run = {each.run.run: each for each in observed}
    return [
        _answer(
            plan,
            [each for each in jobs.rows if each.job == plan.number],
            of_run,
            predicted,
            targets,
        )
        for plan in jobs.plans
    ]


def _answer(
    plan: JobPlan,
    rows: Sequence[JobRow],
    observed: Mapping[int, ObservedRun],
    predicted: Predicted,
    targets: Sequence[Target],
) -> JobAnswer:
    by_key = {(each.candidate, each.edge): each for each in rows}
    ends = [each.ends for each in plan.edges]
    names = tuple(each.name for each in ends)
    contradicted = _contradicted(plan, predicted)
    numbers = plan.order or range(len(plan.candidates))
    points = tuple(_point(plan, number, by_key, contradicted) for number in numbers)
    seen = _observed(plan, observed)
    recorded = next(each for each in points if each.total.is_recorded)
    total = by_key[plan.recorded, WHOLE_JOB]
    own = [
        name for name, run in zip(names, plan.edges, strict=True) if has_own_timeout(run.manifest)
    ]
    notes = [SET_BY_OPERATOR.format(", ".join(own))] if own else []
    error = ModelError(
        throughput=_relative(
            recorded.total.throughput_records_per_s, seen.throughput_records_per_s
        ),
        p50=_relative(recorded.total.latency_ns.p50, seen.latency_ns.p50),
        p99=_relative(recorded.total.latency_ns.p99, seen.latency_ns.p99),
        buffers_per_s=_relative(recorded.total.buffers_per_s, seen.buffers_per_s),
    )
    choice = chosen(points, targets, error)
    return JobAnswer(
        path=str(plan.edges[0].path),
        edges=names,
        feeding=tuple(
            next((n for n, other in enumerate(ends) if other.target == own.source), None)
            for own in ends
        ),
        observed=seen,
        model_error=error,
        points=points,
        simulated_ns=sum(each.to_ns - each.from_ns for each in plan.windows),
        is_whole=plan.is_whole,
        notes=(*not_to_the_end(plan.edges), *notes, *total.notes),
        choice=choice if choice is None or not own else set_by_operators(choice, points, recorded),
    )


def chosen(
    points: Sequence[JobPoint], targets: Sequence[Target], error: ModelError
) -> Choice | None:
    """The setting of a job that meets the targets, as `advise.advice.choose`; of those with the
    same timeout on all edges, and the recorded one. None without targets."""
    if not targets:
        return None
    places = [
        number
        for number, each in enumerate(points)
        if each.total.is_recorded or len({*each.timeouts_ns}) == 1
    ]
    totals = [points[place].total for place in places]
    choice = choose(totals, targets, error)
    point, nearest = (
        None if each is None else places[each] for each in (choice.point, choice.nearest)
    )
    return replace(choice, point=point, nearest=nearest)


def with_remarks(
    answers: Sequence[ReplayAnswer], observed: Sequence[ObservedRun], jobs: PredictedJobs
) -> list[ReplayAnswer]:
    """The answers about edges; those of a tap that are behind another one say what they leave
    out."""
    fed = {
        run.run
        for plan in jobs.plans
        for run in plan.edges
        if run.manifest.is_from_between
        and any(each.ends.target == run.ends.source for each in plan.edges)
    }
    return [
        replace(answer, remarks=(*answer.remarks, TAKEN_ALONE)) if each.run.run in fed else answer
        for answer, each in zip(answers, observed, strict=True)
    ]


def _contradicted(plan: JobPlan, predicted: Predicted) -> str | None:
    """Why no latency of the job can be predicted, by what contradicts that of one of its edges."""
    for run in plan.edges:
        if run.is_unseen:
            continue
        why = predicted.recorded_of(run).why_no_latency
        if why is not None:
            return f"{run.ends.name}: {why}"
    return None


def _point(
    plan: JobPlan,
    number: int,
    rows: Mapping[tuple[int, int], JobRow],
    contradicted: str | None,
) -> JobPoint:
    settings = plan.candidates[number].settings
    total = rows[number, WHOLE_JOB]
    edges = []
    for place, (run, setting) in enumerate(zip(plan.edges, settings, strict=True)):
        row = rows[number, place]
        since = LatencySummary(**json.loads(row.since_source)) if row.since_source else _NO_LATENCY
        is_known = contradicted is None
        edges.append(
            JobEdgePoint(
                run.ends.number,
                run.ends.name,
                setting.network.buffer_timeout_ns,
                row.throughput_records_per_s,
                row.latency_ns if is_known else _NO_LATENCY,
                since if is_known else _NO_LATENCY,
                row.buffers_per_s,
                row.why_unknown,
            )
        )
    why = total.why_unknown
    if why is not None:
        first = next((each for each in edges if each.why_unknown == why), None)
        why = why if first is None else f"{first.edge}: {why}"
    return JobPoint(
        tuple(each.network.buffer_timeout_ns for each in settings),
        _total(total, settings[0], number == plan.recorded, contradicted),
        tuple(edges),
        why,
    )


def _total(
    row: JobRow, setting: Setting, is_recorded: bool, contradicted: str | None
) -> TradeOffPoint:
    """The figures of the whole job; its config is that of its first edge."""
    bounds = json.loads(row.bounds) if row.bounds else (None, None)
    low, high = (each and LatencySummary(**each) for each in bounds)
    if contradicted is not None:
        low = high = None
    return TradeOffPoint(
        config=dict(effective_flink_keys(setting.network)),
        throughput_records_per_s=row.throughput_records_per_s,
        latency_ns=row.latency_ns if contradicted is None else _NO_LATENCY,
        backlog_buffers=BacklogSummary(None, None),
        buffers_per_s=row.buffers_per_s,
        buffers_low_per_s=row.buffers_low_per_s,
        buffers_high_per_s=row.buffers_high_per_s,
        is_recorded=is_recorded,
        memory_bytes=row.memory_bytes,
        **situation_of(setting),
        method=None if row.count is None else "kernel",
        latency_low_ns=low,
        latency_high_ns=high,
        why_no_latency=contradicted,
    )


def _observed(plan: JobPlan, observed: Mapping[int, ObservedRun]) -> JobObserved:
    """What was observed of the whole job: of channels that were not recorded, by Flink's counters;
    buffers are those that were recorded."""
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
        observed[ends[0].run].measured.latency_ns if is_known else _NO_LATENCY,
        sum(buffers) if buffers else None,
    )


def _observed_rate(run: RecordedRun, observed: Mapping[int, ObservedRun]) -> float | None:
    if local_share(run, run.ends.index):
        return received_per_s(run, run.ends.index)
    return observed[run.run].measured.throughput_records_per_s


def _relative(predicted: float | None, observed: float | None) -> float | None:
    if predicted is None or not observed:
        return None
    return (predicted - observed) / observed
