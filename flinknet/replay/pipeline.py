"""Replay as a pipe: runs are observed; plans of their exchanges and jobs are predicted, with costs
that executors fit; advice follows from both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, repeat
from typing import TYPE_CHECKING

import pyarrow as pa

from flinknet.predict.grid import Grid
from flinknet.results import EdgeAnswer, JobAnswer, state_of
from flinknet.units import counted

from . import answers
from .advise.judged import judged
from .advise.targets import Target
from .edges import EdgeTimeouts
from .observe.details import run_details
from .observe.observed import collect, observe
from .plans import ALONE, Plan, check_edge_timeouts, grids_for, plan_exchanges, plan_jobs
from .predictions import WHOLE_JOB, Prediction, Predictions, PredictionUnit, units_of
from .price import priced_job
from .read import RecordedRun
from .simulations import predictions_of
from .slices import PARTITIONS_MAX, SlicePart, prediction_of_slices, simulated_slices
from .spark import frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Replay:
    """Answers about all recorded jobs. `tables` makes the tables behind them on demand."""

    jobs: list[JobAnswer]
    tables: Callable[[], dict[str, DataFrame]]

    @property
    def answers(self) -> list[EdgeAnswer]:
        return [each for job in self.jobs for each in job.answers]


def replay_runs(
    spark: SparkSession,
    runs: Sequence[RecordedRun],
    grid: Grid,
    *,
    max_records: int | None = None,
    details: bool = False,
    split: int | None = None,
    targets: Sequence[Target] = (),
    refine: bool = False,
    edge_timeouts: Sequence[EdgeTimeouts] = (),
    channels: Collection[int] = (),
    on_progress: Callable[[str], None] = lambda _: None,
    on_verdict: Callable[[str], None] = lambda _: None,
) -> Replay:
    """Observe all runs, and predict them under each setting.

    Args:
        grid: settings to predict; the recorded one is always one more.
        max_records: records of each run to simulate for each setting; None for some seconds' worth.
        split: slices of time that each run is cut into; None for as many as suit its size.
        refine: predict timeouts between the chosen one and the next longer one, too, and for jobs
            those that differ from task to task.
        edge_timeouts: further settings of jobs of several exchanges.
        channels: channels to report in full, however many others there are.
        on_progress: takes a line at the beginning of each step.
        on_verdict: takes the verdict on a job that is held up, before predictions begin.

    Raises: ConfigError for settings that no run can have.
    """
    check_edge_timeouts(runs, edge_timeouts)
    tables = observe(spark, runs, split)
    units = counted(len(tables.units.units), "work unit")
    on_progress(f"reading {counted(len(runs), 'run')} in {units}")
    observed = collect(tables, runs, channels)
    verdicts = judged(observed)
    for said in dict.fromkeys(each.bottleneck for each in verdicts):
        if said is not None and not said.is_healthy:
            on_verdict(f"{state_of(said.cause)}: {'; '.join((*said.evidence, *said.remedy))}")

    plans, why_long = plan_exchanges(observed, grid, max_records=max_records, split=split)
    plans += plan_jobs(observed, grid, edge_timeouts, max_records=max_records)
    settings = _settings_of(plans)
    on_progress("; ".join([f"simulating {counted(settings, 'setting')}", *why_long]))
    arrivals = tables.packed_arrivals()

    def predicted(plans: Sequence[Plan], before: Predictions) -> Predictions:
        """The predictions of plans whose first candidates were predicted before."""
        known = [len(each.candidates) for each in before.plans] or [0] * len(plans)
        table = predict(spark, plans, known, arrivals=arrivals)
        return Predictions(plans, [*before.rows, *frames.collected(Prediction, table)])

    predictions = predicted(plans, Predictions((), ()))
    recorded = [
        next(row for _, row in predictions.of_run(each.run) if row.point.is_recorded)
        for each in observed
    ]
    compared, simulated = answers.compared_runs(spark, observed, recorded)
    grids = grids_for([each.run for each in observed], observed, grid)
    of_run = {each.run.run: each for each in observed}
    holding = {each.run.job: said.bottleneck for each, said in zip(observed, verdicts, strict=True)}

    def answered(found: Predictions) -> tuple[list[answers.AdvisedRun], list[JobAnswer]]:
        advised = [
            answers.advise(each.run, part, found, own, targets, holding[each.run.job])
            for each, part, own in zip(observed, compared, grids, strict=True)
        ]
        return advised, [
            answers.job_answer(each, found, of_run, targets, holding[each.run.job])
            for each in found.jobs
        ]

    advised, jobs = answered(predictions)
    if refine:
        in_jobs = {each.run for plan in predictions.jobs for each in plan.edges}
        choices = [
            [] if each.run.run in in_jobs else own.advice.choices
            for each, own in zip(observed, advised, strict=True)
        ]
        choices += [each.advice.choices for each in jobs]
        further = [plan.refined(own) for plan, own in zip(plans, choices, strict=True)]
        for how in chain([" in finer steps"], repeat(", task by task")):
            if more := _settings_of(further) - _settings_of(predictions.plans):
                on_progress(f"simulating {counted(more, 'setting')}{how}")
                predictions = predicted(further, predictions)
                advised, jobs = answered(predictions)
            elif how == ", task by task":
                break
            further = answers.search_further(predictions, jobs, targets)

    if details:
        on_progress("reading details")
    found = run_details(spark, tables, observed) if details else [None] * len(runs)
    edge_answers = [
        answers.answer_of(*each, is_taken_alone=predictions.is_taken_alone(each[0].run))
        for each in zip(observed, simulated, advised, verdicts, found, strict=True)
    ]
    by_run = {
        each.run.run: (answer, own.recorded_share)
        for each, answer, own in zip(observed, edge_answers, advised, strict=True)
    }
    wholes = {
        plan.run.job: priced_job(job, [by_run.get(each.run) for each in plan.edges])
        for job, plan in zip(jobs, predictions.jobs, strict=True)
    }
    found_jobs: list[JobAnswer] = []
    for key, group in groupby(observed, key=lambda each: each.run.job):
        edges = [by_run[each.run.run][0] for each in group]
        if key in wholes:
            edges.sort(key=lambda each: each.trace.edge_number)
            found_jobs.append(replace(wholes[key], answers=tuple(edges)))
        else:
            found_jobs += [each.alone for each in edges]
    return Replay(found_jobs, lambda: tables.named() | _tables(spark, predictions))


def _settings_of(plans: Sequence[Plan]) -> int:
    return sum(len(each.candidates) for each in plans)


def predict(
    spark: SparkSession,
    plans: Sequence[Plan],
    known: Sequence[int] = (),
    *,
    arrivals: DataFrame | None = None,
) -> DataFrame:
    """Predict every candidate of every plan but the first ones that are known, slices by `arrivals`
    (`ObservedTables.packed_arrivals`). Returns: rows of Prediction."""
    pairs = [*zip(plans, known or [0] * len(plans), strict=True)]
    pairs = [(plan, first) for plan, first in pairs if first < len(plan.candidates)]
    sliced = [pair for pair in pairs if pair[0].part.latest_ns is not None]
    whole = [pair for pair in pairs if pair[0].part.latest_ns is None]
    units = [unit for pair in whole for unit in units_of(*pair)]
    table = frames.map_units(spark, units, _columns, Prediction)
    if not sliced:
        return table
    assert arrivals is not None
    of_slices = _predict_slices(sliced, arrivals)
    return of_slices.union(table) if units else of_slices


def _columns(unit: PredictionUnit) -> Iterable[frames.Columns]:
    return [frames.columns_of(Prediction, list(predictions_of(unit)))]


def _predict_slices(sliced: Sequence[tuple[Plan, int]], arrivals: DataFrame) -> DataFrame:
    units = {
        (plan.run.run, *unit.candidates): unit
        for plan, first in sliced
        for unit in units_of(plan, first, len(plan.candidates))
    }
    wholes = {plan.run.run: units_of(plan, first, 1)[0] for plan, first in sliced}

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = (part for batch in batches for part in frames.rows_of(SlicePart, batch))
        for key, own in groupby(found, lambda part: (part.run, part.candidate)):
            parts = sorted(own, key=lambda part: part.slice_from_ns)
            row = prediction_of_slices(units[key], parts)
            yield from frames.table_of(Prediction, [row]).to_batches()

    keys = ("run", "candidate")
    parts = simulated_slices(arrivals, wholes)
    parts = parts.repartition(min(len(units), PARTITIONS_MAX), *keys)
    return frames.in_order(
        frames.mapped(parts.sortWithinPartitions(*keys), merge, Prediction), *keys
    )


def _tables(spark: SparkSession, predictions: Predictions) -> dict[str, DataFrame]:
    alone = [each.run for each in predictions.plans if each.job == ALONE]
    named = {
        "trade_offs": [row for run in alone for _, row in predictions.of_run(run)],
        "jobs": [
            predictions.of(job, number, edge)
            for job in predictions.jobs
            for number in range(len(job.candidates))
            for edge in range(WHOLE_JOB, len(job.edges))
        ],
    }
    return {
        name: flat_predictions(frames.frame_of(spark, frames.table_of(Prediction, rows)))
        for name, rows in named.items()
        if rows
    }


def flat_predictions(table: DataFrame) -> DataFrame:
    return frames.flattened(table, ("setting", "point", "latency_ns"))
