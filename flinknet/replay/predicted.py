"""Predictions of all plans, computed by executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from flinknet.options.what_if import Setting
from flinknet.predict.outcome import is_pressure

from .plans import Plan
from .predictions import (
    ALONE,
    WHOLE_JOB,
    Prediction,
    PredictionUnit,
    Simulate,
    units_of,
    without_latency,
)
from .read import RecordedRun
from .simulations import prediction_of_slices, predictions_of
from .slices import PARTITIONS_MAX, SlicePart, simulated_slices, slice_plan
from .spark.frames import (
    Columns,
    collected,
    columns_of,
    flattened,
    frame_of,
    in_order,
    map_units,
    mapped,
    rows_of,
    table_of,
)
from .spark.units import Checkpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def predict(
    spark: SparkSession,
    plans: Sequence[Plan],
    known: Sequence[int] = (),
    *,
    simulate: Simulate | None = None,
    arrivals: DataFrame | None = None,
    checkpoint: Checkpoint | None = None,
) -> DataFrame:
    """Predict every candidate of every plan. Returns: rows of Prediction.

    Args:
        known: candidates of each plan that come first and were predicted before.
        simulate: simulation of an exchange; None for those of `predict.what_if`.
        arrivals: arrivals in the slices, from `ObservedTables.packed_arrivals`.
        checkpoint: where results of slices are kept; None: nowhere.
    """
    pairs = list(zip(plans, known or [0] * len(plans), strict=True))
    sliced = [pair for pair in pairs if pair[0].part.slicing is not None]
    units = [
        unit for plan, first in pairs if plan.part.slicing is None for unit in units_of(plan, first)
    ]
    table = map_units(spark, units, partial(_columns, simulate=simulate), Prediction)
    if not sliced:
        return table
    assert arrivals is not None
    of_slices = _predict_slices(sliced, arrivals, checkpoint)
    return of_slices.union(table) if units else of_slices


def _columns(unit: PredictionUnit, *, simulate: Simulate | None) -> Iterable[Columns]:
    return [columns_of(Prediction, list(predictions_of(unit, simulate)))]


def _predict_slices(
    sliced: Sequence[tuple[Plan, int]], arrivals: DataFrame, checkpoint: Checkpoint | None
) -> DataFrame:
    units: dict[tuple[int, int], PredictionUnit] = {}
    for plan, first in sliced:
        for unit in units_of(plan, first, len(plan.candidates)):
            units[plan.run.run, unit.candidates[0]] = unit
    plans = {plan.run.run: slice_plan(plan, first) for plan, first in sliced}

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = (part for batch in batches for part in rows_of(SlicePart, batch))
        for key, own in groupby(found, lambda part: (part.run, part.candidate)):
            parts = sorted(own, key=lambda part: part.slice_from_ns)
            row = prediction_of_slices(units[key], parts)
            yield from table_of(Prediction, [row]).to_batches()

    keys = ("run", "candidate")
    parts = simulated_slices(arrivals, plans, checkpoint)
    parts = parts.repartition(min(len(units), PARTITIONS_MAX), *keys)
    return in_order(mapped(parts.sortWithinPartitions(*keys), merge, Prediction), *keys)


@dataclass(frozen=True)
class Predictions:
    """All plans, and the rows that were computed for them."""

    plans: Sequence[Plan]
    rows: Sequence[Prediction]

    @cached_property
    def _by_key(self) -> Mapping[tuple[int, int, int], Prediction]:
        """By job and edge, or ALONE and run, and by candidate."""
        return {
            (each.job, each.run if each.job == ALONE else each.edge, each.candidate): each
            for each in self.rows
        }

    @property
    def jobs(self) -> list[Plan]:
        """The plans of jobs of several exchanges."""
        return [each for each in self.plans if each.job is not None]

    def plan_of(self, run: RecordedRun) -> Plan:
        """The plan of an exchange by itself."""
        return next(each for each in self.plans if each.job is None and each.run.run == run.run)

    @cached_property
    def _contradicted(self) -> Mapping[int, str | None]:
        """Reason why no latency of a job can be predicted, by the recorded backlog of an edge."""
        found: dict[int, str | None] = {}
        for number, plan in enumerate(self.jobs):
            recorded = [each for each in plan.edges if not each.is_unseen]
            whys = [(each, self.recorded_of(each).point.why_no_latency) for each in recorded]
            found[number] = next(
                (f"{each.ends.name}: {why}" for each, why in whys if why is not None), None
            )
        return found

    def of(self, plan: Plan, number: int, edge: int = 0) -> Prediction:
        """The row of a candidate; of an edge of a job, or of WHOLE_JOB."""
        if plan.job is None:
            return self._by_key[ALONE, plan.run.run, number]
        row, why = self._by_key[plan.job, edge, number], self._contradicted[plan.job]
        if why is None or row.why_unknown is not None:
            return row
        point = without_latency(row.point, why)
        if edge == WHOLE_JOB:
            point = replace(point, notes=row.point.notes)
        return replace(row, point=point, since_source_ns=None)

    def of_run(self, run: RecordedRun) -> list[tuple[Setting, Prediction]]:
        """The outcomes of an exchange with ascending settings: in its job, if it has one, under
        the same setting on all edges. Where the model of the job does not cover a setting, the
        exchange is taken alone.
        """
        plan = self.plan_of(run)
        alone = {plan.candidates[n][0]: self.of(plan, n) for n in plan.order}
        for job in self.jobs:
            for place, each in enumerate(job.edges):
                if each.run == run.run:
                    return list(self._in_job(job, place, alone))
        return list(alone.items())

    def _in_job(
        self, job: Plan, place: int, alone: Mapping[Setting, Prediction]
    ) -> Iterator[tuple[Setting, Prediction]]:
        recorded = job.recorded
        for number in job.order:
            settings = job.candidates[number]
            setting = settings[place]
            is_again = setting == recorded[place] and settings != recorded
            if settings in job.by_edge or is_again:
                continue
            row, single = self.of(job, number, place), alone.get(setting)
            if single is None:
                yield setting, row
                continue
            whys = [self.of(job, number, n).why_unknown for n in range(len(job.edges))]
            is_pressed = any(why is not None and is_pressure(why) for why in whys)
            if row.why_unknown is not None and not is_pressed and single.records is not None:
                yield setting, single
                continue
            point = replace(
                row.point,
                checkpoints=single.point.checkpoints,
                mean_latency_at_least_ns=single.point.mean_latency_at_least_ns,
                notes=(*single.assumed, *row.point.notes),
            )
            yield setting, replace(row, point=point)

    def recorded_of(self, run: RecordedRun) -> Prediction:
        """The row of an exchange by itself under the recorded setting."""
        plan = self.plan_of(run)
        return self.of(plan, plan.candidates.index(plan.recorded))

    def tables(self, spark: SparkSession) -> dict[str, DataFrame]:
        """The rows as tables: exchanges as `trade_offs`, jobs and their edges as `jobs`."""
        alone = [each.run for each in self.plans if each.job is None]
        of_jobs = [
            self.of(job, number, edge)
            for job in self.jobs
            for number in range(len(job.candidates))
            for edge in range(WHOLE_JOB, len(job.edges))
        ]
        exchanges = [row for run in alone for _, row in self.of_run(run)]
        named = {"trade_offs": exchanges} | ({"jobs": of_jobs} if of_jobs else {})
        return {
            name: flat_predictions(frame_of(spark, table_of(Prediction, rows)))
            for name, rows in named.items()
        }


def predict_all(
    compute: Callable[[Sequence[Plan], Sequence[int]], DataFrame],
    plans: Sequence[Plan],
    before: Predictions | None = None,
) -> Predictions:
    """Predict the candidates of some plans that were not predicted before.

    Args:
        compute: `predict` in a session.
        before: predictions for the same plans with fewer candidates.
    """
    known = [0] * len(plans) if before is None else [len(e.candidates) for e in before.plans]
    rows = collected(Prediction, compute(plans, known))
    return Predictions(plans, rows if before is None else [*before.rows, *rows])


_THROUGH = frozenset({"setting", "point", "latency_ns"})
"""Structs whose fields are columns under their own names."""


def flat_predictions(table: DataFrame) -> DataFrame:
    """Rows of Prediction with a column for each figure and each setting."""
    return flattened(table, _THROUGH)
