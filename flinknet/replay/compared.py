"""Observations to compare predictions with, and the error of the model by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flinknet.predict.exchange import is_max_rate, recorded_setting
from flinknet.results import (
    Measured,
    ModelError,
    SimulatedPart,
    TradeOffPoint,
    sustained_per_s,
)

from .observe.latency import LatencyRow, total_latency
from .observe.measured import taken_per_s
from .observe.observed_run import ObservedRun
from .predictions import ALONE, Prediction
from .read import RecordedRun
from .spark.frames import collected
from .spark.units import work_units

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
        records = row.records or 0
        if row.job != ALONE:  # whose records are of all phases
            records = round(measured.records * row.simulated_ns / window_ns)
        return SimulatedPart(records, row.simulated_ns, False, row.windows)
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
        latency_ns=total.latency_ns,
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


def model_error(point: TradeOffPoint, observed: Measured, *, is_from_between: bool) -> ModelError:
    """Error of the prediction of the recorded setting; of messages where latency was not recorded.

    Args:
        observed: over the part that the prediction stands for, see `ComparedRun`.
    """
    least_ns = point.mean_latency_at_least_ns
    too_low = relative(point.latency_ns.mean, least_ns)
    return ModelError(
        throughput=relative(point.throughput_records_per_s, observed.throughput_records_per_s),
        p50=relative(point.latency_ns.p50, observed.latency_ns.p50),
        p99=relative(point.latency_ns.p99, observed.latency_ns.p99),
        buffers_per_s=_error_of_buffers(point, observed, is_from_between=is_from_between),
        latency_at_most=None if too_low is None or too_low >= 0 else too_low,
    )


def _error_of_buffers(
    point: TradeOffPoint, observed: Measured, *, is_from_between: bool
) -> float | None:
    predicted = point.buffers_per_s
    if predicted is None or not observed.buffers or not observed.duration_ns:
        return None
    if not is_from_between:  # over the length of time that throughput is of
        records_per_s = observed.throughput_records_per_s
        if not observed.records or records_per_s is None:
            return None
        return relative(predicted, observed.buffers / observed.records * records_per_s)
    return predicted * observed.duration_ns / (observed.buffers * 1e9) - 1


def relative(predicted: float | None, observed: float | None) -> float | None:
    """Relative error; None where one of both is unknown, or nothing was observed."""
    if predicted is None or not observed:
        return None
    return (predicted - observed) / observed
