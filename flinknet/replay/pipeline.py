"""Replay as a pipe: runs that were read are observed; plans of their exchanges and jobs are
predicted, which fits the costs of each run inside the executors; advice follows from predictions
and observations.

Each stage hands a typed value to the next one. JSON is made from the answers at the end, by
`report.export`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from flinknet.predict.grid import Grid
from flinknet.results import JobAnswer, ReplayAnswer
from flinknet.units import counted

from .advise.targets import Target
from .answers import AdvisedRun, advise, answers_of, compared_runs
from .job_answers import job_answer, with_remarks
from .observe.details import run_details
from .observe.observed import collect, observe
from .plans import EdgeTimeouts, check_edge_timeouts, grids_for, plan_exchanges, plan_jobs
from .predicted import Predictions, predict, predict_all
from .predictions import Simulate
from .price import priced_job
from .read import RecordedRun
from .spark.units import Checkpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Replay:
    """Answers about all runs and about their jobs as a whole. `tables` makes the tables behind them
    on demand: each takes Spark a tenth of a second."""

    answers: list[ReplayAnswer]
    tables: Callable[[], dict[str, DataFrame]]
    jobs: list[JobAnswer] = field(default_factory=list)


def replay_runs(
    spark: SparkSession,
    runs: Sequence[RecordedRun],
    grid: Grid,
    *,
    max_records: int | None = None,
    simulate: Simulate | None = None,
    details: bool = False,
    split: int | None = None,
    targets: Sequence[Target] = (),
    refine: bool = False,
    edge_timeouts: Sequence[EdgeTimeouts] = (),
    checkpoint: Checkpoint | None = None,
    channels: Collection[int] = (),
    on_progress: Callable[[str], None] = lambda _: None,
) -> Replay:
    """Observe all runs, and predict them under each setting.

    Args:
        grid: settings to predict; the recorded one is always one more.
        max_records: records of each run to simulate for each setting; None for as many as take
            seconds.
        split: slices of time that each run is cut into; None for as many as suit its size.
        simulate: simulation of exchanges, in place of those of `predict.what_if`; jobs as a whole
            are not predicted then.
        targets: bounds that the advice looks for a setting to meet.
        refine: predict timeouts between the chosen one and the next longer one, too.
        details: add the details of a page.
        edge_timeouts: further settings of jobs of several exchanges.
        checkpoint: directory with results of units that are kept and used again; None: none.
        channels: channels to report in full, however many others there are.
        on_progress: takes a line at the beginning of each step.

    Raises: ConfigError for settings that no run can have.
    """
    check_edge_timeouts(runs, edge_timeouts)
    tables = observe(spark, runs, split, checkpoint)
    units = counted(len(tables.units), "work unit")
    on_progress(f"reading {counted(len(runs), 'run')} in {units}")
    if checkpoint is not None and checkpoint.kept:
        on_progress(f"going on from {counted(checkpoint.kept, 'unit')} in {checkpoint.directory}")
    observed = collect(tables, runs, channels)

    plans, why_long = plan_exchanges(
        observed, grid, max_records=max_records, split=split, may_be_compiled=simulate is None
    )
    if simulate is None:
        plans += plan_jobs(observed, grid, edge_timeouts, max_records=max_records)
    settings = sum(len(each.candidates) for each in plans)
    on_progress("; ".join([f"simulating {counted(settings, 'setting')}", *why_long]))
    compute = partial(
        predict,
        spark,
        simulate=simulate,
        arrivals=tables.packed_arrivals(),
        checkpoint=checkpoint,
    )
    predictions = predict_all(compute, plans)

    recorded = [
        next(row for _, row in predictions.of_run(each.run) if row.point.is_recorded)
        for each in observed
    ]
    compared = compared_runs(spark, observed, recorded)
    grids = grids_for([each.run for each in observed], observed, grid)
    of_run = {each.run.run: each for each in observed}

    def answered(found: Predictions) -> tuple[list[AdvisedRun], list[JobAnswer]]:
        advised = [
            advise(each.run, part, found, own, targets)
            for each, part, own in zip(observed, compared, grids, strict=True)
        ]
        return advised, [job_answer(each, found, of_run, targets) for each in found.jobs]

    advised, jobs = answered(predictions)
    if refine:
        in_jobs = {each.run for plan in predictions.jobs for each in plan.edges}
        choices = [
            [] if each.run.run in in_jobs else own.choices
            for each, own in zip(observed, advised, strict=True)
        ]
        choices += [[each.choice] if each.choice else [] for each in jobs]
        refined = [plan.refined(own) for plan, own in zip(plans, choices, strict=True)]
        more = sum(len(each.candidates) for each in refined) - settings
        if more:
            on_progress(f"simulating {counted(more, 'setting')} in finer steps")
            predictions = predict_all(compute, refined, predictions)
            advised, jobs = answered(predictions)

    if details:
        on_progress("reading details")
    found = run_details(spark, tables, observed) if details else [None] * len(runs)
    answers = answers_of(observed, compared, advised, found)
    by_run = {
        each.run.run: (answer, own.recorded_share)
        for each, answer, own in zip(observed, answers, advised, strict=True)
    }
    wholes = [
        priced_job(job, [by_run.get(each.run) for each in plan.edges])
        for job, plan in zip(jobs, predictions.jobs, strict=True)
    ]
    return Replay(
        with_remarks(answers, observed, predictions),
        lambda: tables.named() | predictions.tables(spark),
        wholes,
    )
