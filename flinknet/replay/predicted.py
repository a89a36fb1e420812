"""Predictions of all candidates, and what was observed in the part of each run that they stand
for: all of it where windows spread over it were simulated, else the part that was simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flinknet.predict.exchange import is_max_rate, recorded_setting
from flinknet.results import Measured, SimulatedPart, sustained_per_s

from .candidates import Candidates
from .observe.latency import LatencyRow, total_latency
from .observe.measured import taken_per_s
from .observe.observed_run import ObservedRun
from .outcome import Candidate, Outcome
from .read import RecordedRun
from .simulations import Simulate, predict
from .spark.checkpoint import Checkpoint
from .spark.frames import collected
from .spark.units import work_units

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Predicted:
    """All candidates with their outcomes, and the table of these."""

    candidates: Candidates
    outcomes: list[Outcome]
    table: DataFrame

    def of(self, run: RecordedRun) -> list[Outcome]:
        """The outcomes of one run."""
        return [each for each in self.outcomes if each.run == run.run]

    def recorded_of(self, run: RecordedRun) -> Outcome:
        """The outcome of the recorded setting of a run."""
        recorded = recorded_setting(run.manifest)
        numbers = {each.number for each in self.candidates.of(run) if each.setting == recorded}
        return next(each for each in self.of(run) if each.candidate in numbers)


def predict_all(
    spark: SparkSession,
    candidates: Candidates,
    simulate: Simulate | None,
    arrivals: DataFrame | None = None,
    checkpoint: Checkpoint | None = None,
) -> Predicted:
    """Predict every candidate.

    Args:
        arrivals, checkpoint: see `predict`.
    """
    table = predict(spark, candidates.all, simulate, candidates.slicings, arrivals, checkpoint)
    table = table.cache()
    return Predicted(candidates, collected(Outcome, table), table)


def predict_more(
    spark: SparkSession,
    predicted: Predicted,
    more: Sequence[Candidate],
    simulate: Simulate | None,
    arrivals: DataFrame | None = None,
) -> Predicted:
    """Predict further candidates of the same runs, too."""
    found = predict_all(spark, replace(predicted.candidates, all=more), simulate, arrivals)
    return Predicted(
        predicted.candidates.with_more(more),
        predicted.outcomes + found.outcomes,
        predicted.table.union(found.table),
    )


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """What was observed in the part of a run that the prediction of the recorded setting stands
    for. Of windows spread over a part that is all of the part, so its error holds that of the
    sample, too.

    Attributes:
        window: the run, with that part as its measured window.
        simulated: how much of it the simulation used.
    """

    run: RecordedRun
    window: RecordedRun
    measured: Measured
    simulated: SimulatedPart


def compared_runs(
    spark: SparkSession, observed: Sequence[ObservedRun], predicted: Predicted
) -> list[ComparedRun]:
    """What to compare predictions with, for each run."""
    recorded = [predicted.recorded_of(each.run) for each in observed]
    windows = [
        replace(each.run, to_ns=outcome.window_to_ns)
        for each, outcome in zip(observed, recorded, strict=True)
    ]
    parts = {
        window.run: window
        for window, each in zip(windows, observed, strict=True)
        if window.to_ns != each.run.to_ns and not window.manifest.is_from_between
    }
    totals: dict[int, LatencyRow] = {}
    if parts:
        units = work_units(list(parts.values()))
        totals = {row.run: row for row in collected(LatencyRow, total_latency(spark, units))}
    found = []
    for window, each, outcome in zip(windows, observed, recorded, strict=True):
        measured = each.measured
        if window.run in totals:
            measured = _measured_within(window, each, totals[window.run])
        elif window.manifest.is_from_between and window.to_ns != each.run.to_ns:
            measured = _captured_within(each, window.duration_ns)
        measured = _over_counted_time(window, measured)
        found.append(ComparedRun(each.run, window, measured, _simulated(each, measured, outcome)))
    return found


def _simulated(observed: ObservedRun, measured: Measured, outcome: Outcome) -> SimulatedPart:
    """What was simulated of a run; where that failed, what was compared."""
    window_ns = outcome.window_to_ns - observed.run.from_ns
    if outcome.simulated_ns is not None:
        return SimulatedPart(outcome.records or 0, outcome.simulated_ns, False, outcome.windows)
    return SimulatedPart(measured.records, window_ns, outcome.window_to_ns == observed.run.to_ns)


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
        latency_ns=total.latency_ns,
    )


def _captured_within(observed: ObservedRun, duration_ns: int) -> Measured:
    """What had passed up to an instant of the measured part, by the windows before it."""
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
    """What was observed, with its throughput over the length of time that a prediction counts."""
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
