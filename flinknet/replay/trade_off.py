"""Predictions of all candidates as the trade-off of a run, with the model's error on the recorded
setting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from flinknet.options import effective_flink_keys
from flinknet.options.what_if import Setting, situation_of
from flinknet.predict.exchange import is_max_rate, recorded_setting
from flinknet.predict.grid import Grid
from flinknet.results import (
    Advice,
    BacklogSummary,
    CheckpointSummary,
    LatencySummary,
    Measured,
    ModelError,
    TradeOffPoint,
)
from flinknet.units import NS_PER_MS

from .advise.advice import advice, withheld
from .advise.targets import Target
from .outcome import Candidate, Outcome
from .predicted import ComparedRun, Predicted


def trade_off_points(
    candidates: Sequence[Candidate], outcomes: Sequence[Outcome], recorded: Setting
) -> tuple[TradeOffPoint, ...]:
    """The points of one run in the order of its candidates."""
    by_number = {outcome.candidate: outcome for outcome in outcomes}
    return tuple(_point(each, by_number[each.number], recorded) for each in candidates)


def model_error(point: TradeOffPoint, observed: Measured, *, is_from_between: bool) -> ModelError:
    """Prediction of the recorded setting against what was observed, where windows are spread over a
    run in all of it (see `ComparedRun`); messages per second where latency was not recorded."""
    return ModelError(
        throughput=_relative(point.throughput_records_per_s, observed.throughput_records_per_s),
        p50=_relative(point.latency_ns.p50, observed.latency_ns.p50),
        p99=_relative(point.latency_ns.p99, observed.latency_ns.p99),
        buffers_per_s=_error_of_buffers(point, observed, is_from_between=is_from_between),
        latency_at_most=_too_low_by(point.latency_ns.mean, point.mean_latency_at_least_ns),
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
        return _relative(predicted, observed.buffers / observed.records * records_per_s)
    return predicted * observed.duration_ns / (observed.buffers * 1e9) - 1


def _point(candidate: Candidate, outcome: Outcome, recorded: Setting) -> TradeOffPoint:
    setting = candidate.setting
    notes = list(outcome.notes)
    timeout_ns, recorded_ns = setting.network.buffer_timeout_ns, recorded.network.buffer_timeout_ns
    is_longer = recorded_ns < 0 or recorded_ns > timeout_ns
    bounds = json.loads(outcome.bounds) if outcome.bounds else (None, None)
    low, high = (each and LatencySummary(**each) for each in bounds)
    is_timed = low is None and outcome.why_no_latency is None  # records have instants
    if timeout_ns >= 0 and is_longer and is_timed:
        notes.append(
            "shorter than recorded: instants between the first and last record of a recorded"
            " buffer are taken as evenly spread"
        )
    if timeout_ns > 0 and timeout_ns % NS_PER_MS and setting != recorded:
        notes.append("not advised: Flink's buffer timeout is in whole milliseconds")
    if outcome.error:
        notes.append(f"not predicted: {outcome.error}")
    return TradeOffPoint(
        config=dict(effective_flink_keys(setting.network)),
        throughput_records_per_s=outcome.throughput_records_per_s,
        latency_ns=outcome.latency_ns,
        backlog_buffers=BacklogSummary(outcome.backlog_buffers_mean, outcome.backlog_buffers_max),
        buffers_per_s=outcome.buffers_per_s,
        is_recorded=setting == recorded,
        notes=tuple(notes),
        memory_bytes=outcome.memory_bytes,
        credits_per_s=outcome.credits_per_s,
        **situation_of(setting),
        method=outcome.method,
        latency_low_ns=low,
        latency_high_ns=high,
        buffers_low_per_s=outcome.buffers_low_per_s,
        buffers_high_per_s=outcome.buffers_high_per_s,
        mean_latency_at_least_ns=outcome.latency_at_least_ns if setting == recorded else None,
        why_no_latency=outcome.why_no_latency,
        checkpoints=CheckpointSummary.from_dict(json.loads(outcome.checkpoints))
        if outcome.checkpoints
        else None,
    )


def _relative(predicted: float | None, observed: float | None) -> float | None:
    if predicted is None or not observed:
        return None
    return (predicted - observed) / observed


def _too_low_by(predicted: float | None, at_least: float | None) -> float | None:
    error = _relative(predicted, at_least)
    return None if error is None or error >= 0 else error


@dataclass(frozen=True, slots=True)
class AdvisedRun:
    """The predictions of one run in the order of its candidates, how far they can be trusted, and
    what follows."""

    points: tuple[TradeOffPoint, ...]
    error: ModelError
    advice: Advice


def advise(
    compared: ComparedRun, predicted: Predicted, grid: Grid, targets: Sequence[Target]
) -> AdvisedRun:
    """Advice on one run; only what the grid asks for is advised."""
    run = compared.run
    recorded_at = recorded_setting(run.manifest)
    asked = grid.asked(recorded_at, is_max_rate=is_max_rate(run.manifest))
    candidates = predicted.candidates.of(run)
    points = trade_off_points(candidates, predicted.of(run), recorded_at)
    recorded = next(point for point in points if point.is_recorded)
    error = model_error(recorded, compared.measured, is_from_between=run.manifest.is_from_between)
    found = advice(
        points,
        targets,
        error,
        asked=[place for place, each in enumerate(candidates) if each.setting in asked],
        why_not=withheld(error, points),
    )
    return AdvisedRun(points, error, found)
