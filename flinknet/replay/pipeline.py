"""Replay is a pipe: runs that were read are observed; candidates are planned and predicted, which
fits the costs of each run inside the executors; advice follows from predictions and observations.

Each stage hands a typed value to the next one. JSON is made from the answers at the end, by
`report.export`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flinknet.predict.grid import Grid
from flinknet.results import JobAnswer, ReplayAnswer
from flinknet.units import counted

from .advise.targets import Target
from .answer import answers_of
from .candidates import grids_for, plan_candidates
from .job_answers import (
    EdgeTimeouts,
    check_edge_timeouts,
    job_answers,
    plan_jobs,
    predict_all_jobs,
    predict_more_jobs,
    refined_plans,
    with_remarks,
)
from .observe.details import run_details
from .observe.observed import collect, observe
from .predicted import compared_runs, predict_all, predict_more
from .price import priced_job
from .read import RecordedRun
from .simulations import Simulate
from .spark.checkpoint import Checkpoint
from .spark.units import work_units
from .trade_off import AdvisedRun, advise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Replay:
    """Answers of all runs, of their jobs as a whole, and what gives the tables that they were made
    from: each would take Spark a tenth of a second, read or not."""

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
        grid: candidates; the recorded setting is always one more.
        max_records: of each run, to simulate for each candidate; None for as many as take seconds.
        split: parts of its time that each run is cut into; None for as many as suit its size.
        simulate: the simulation; None for the one of `predict.what_if`.
        targets: bounds that the advice looks for a setting to meet.
        refine: predict timeouts between the chosen one and the next longer one, too.
        details: add what a page shows in addition.
        edge_timeouts: further settings of jobs of several exchanges.
        checkpoint: where what units find is kept, and taken from if it is there; None: nowhere.
        channels: that the answers are about, however many others there are.
        on_progress: takes a line that says what is being done.
    """
    check_edge_timeouts(runs, edge_timeouts)
    units = work_units(runs)
    on_progress(f"reading {counted(len(runs), 'run')} in {counted(len(units), 'work unit')}")
    if checkpoint is not None and checkpoint.kept:
        on_progress(f"going on from {counted(checkpoint.kept, 'unit')} in {checkpoint.directory}")
    tables = observe(spark, runs, split, checkpoint)
    observed = collect(tables, runs, channels)

    candidates = plan_candidates(
        observed, grid, max_records=max_records, split=split, may_slice=simulate is None
    )
    simulating = f"simulating {counted(len(candidates.all), 'setting')}"
    on_progress("; ".join([simulating, *candidates.why_long]))
    packed = tables.packed_arrivals()
    predicted = predict_all(spark, candidates, simulate, packed, checkpoint)

    plans = plan_jobs(observed, grid, edge_timeouts, max_records=max_records)
    jobs = None
    if plans and simulate is None:
        on_progress(f"simulating {counted(len(plans), 'job')} from end to end")
        jobs = predict_all_jobs(spark, plans)

    compared = compared_runs(spark, observed, predicted)
    grids = grids_for([each.run for each in compared], observed, grid)

    def all_advised() -> list[AdvisedRun]:
        return [
            advise(each, predicted, own, targets) for each, own in zip(compared, grids, strict=True)
        ]

    advised = all_advised()
    more = candidates.refined([each.advice for each in advised]) if refine else []
    if more:
        on_progress(f"simulating {counted(len(more), 'setting')} in finer steps")
        predicted = predict_more(spark, predicted, more, simulate, packed)
        advised = all_advised()

    if details:
        on_progress("reading details")
    found = run_details(spark, units, tables, runs) if details else [None] * len(runs)
    answers = answers_of(observed, compared, advised, found)

    def named() -> dict[str, DataFrame]:
        of_jobs = {"jobs": jobs.table} if jobs is not None else {}
        return tables.named() | {"trade_offs": predicted.table} | of_jobs

    if jobs is None:
        return Replay(answers, named)
    of_run = {each.run.run: answer for each, answer in zip(observed, answers, strict=True)}
    answered = job_answers(jobs, observed, predicted, targets)
    refined = refined_plans(jobs.plans, answered) if refine else []
    if refined:
        on_progress(f"simulating {counted(len(refined), 'job')} in finer steps")
        jobs = predict_more_jobs(spark, jobs, refined)
        answered = job_answers(jobs, observed, predicted, targets)
    wholes = [
        priced_job(whole, [of_run.get(run.run) for run in plan.edges])
        for whole, plan in zip(answered, jobs.plans, strict=True)
    ]
    return Replay(with_remarks(answers, observed, jobs), named, wholes)
