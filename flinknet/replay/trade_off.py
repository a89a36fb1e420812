"""Predictions of all candidates as the trade-off of a run, with the model's error on the recorded
setting."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from flinknet.options import effective_flink_keys
from flinknet.predict.exchange import is_max_rate
from flinknet.predict.grid import Grid
from flinknet.predict.recorded import Setting
from flinknet.results import BacklogSummary, LatencySummary, Measured, ModelError, TradeOffPoint
from flinknet.units import NS_PER_MS

from .observe.observed import latency_summary
from .spark.units import RecordedRun
from .what_if import (
    DEFAULT_MAX_RECORDS,
    DEFAULT_MAX_RECORDS_AT_MAX_RATE,
    DEFAULT_MAX_RECORDS_IN_PASSING,
    Candidate,
)


def candidates_of(run: RecordedRun, recorded: Setting, grid: Grid, to_ns: int) -> list[Candidate]:
    """One candidate for each setting of a grid, the recorded one among them."""
    settings = grid.settings(recorded, is_max_rate=is_max_rate(run.manifest))
    return [Candidate(run, number, each, to_ns) for number, each in enumerate(settings)]


def default_max_records(measured: Measured, *, is_max_rate: bool) -> int:
    """How many records of a run to simulate: fewer where a record fills several buffers."""
    records = DEFAULT_MAX_RECORDS_AT_MAX_RATE if is_max_rate else DEFAULT_MAX_RECORDS
    if measured.latency_ns.count == 0:  # seen in passing: the simulator alone knows those
        records = DEFAULT_MAX_RECORDS_IN_PASSING
    buffers_per_record = measured.buffers / max(measured.records, 1)
    return max(round(records / max(buffers_per_record, 1.0)), 1)


def window_for(run: RecordedRun, records: int, max_records: int) -> int:
    """End of the part of the measured window that holds some `max_records` records, if they come
    evenly."""
    if records <= max_records:
        return run.to_ns
    return run.from_ns + run.duration_ns * max_records // records


def trade_off_points(
    candidates: Sequence[Candidate], outcomes: Sequence[dict[str, Any]], recorded: Setting
) -> tuple[TradeOffPoint, ...]:
    """The points of one run in the order of its candidates."""
    by_number = {outcome["candidate"]: outcome for outcome in outcomes}
    return tuple(_point(each, by_number[each.number], recorded) for each in candidates)


def model_error(
    point: TradeOffPoint, throughput_records_per_s: float | None, latency: LatencySummary
) -> ModelError:
    """Prediction of the recorded setting against what was observed in the same window."""
    return ModelError(
        throughput=_relative(point.throughput_records_per_s, throughput_records_per_s),
        p50=_relative(point.latency_ns.p50, latency.p50),
        p99=_relative(point.latency_ns.p99, latency.p99),
    )


def _point(candidate: Candidate, outcome: dict[str, Any], recorded: Setting) -> TradeOffPoint:
    setting = candidate.setting
    notes = list(outcome["notes"])
    timeout_ns, recorded_ns = setting.network.buffer_timeout_ns, recorded.network.buffer_timeout_ns
    is_longer = recorded_ns < 0 or recorded_ns > timeout_ns
    bounds = json.loads(outcome["bounds"]) if outcome["bounds"] else (None, None)
    low, high = (each and LatencySummary(**each) for each in bounds)
    is_timed = low is None and outcome["why_no_latency"] is None  # records have instants
    if timeout_ns >= 0 and is_longer and is_timed:
        notes.append(
            "shorter than recorded: instants between the first and last record of a recorded"
            " buffer are taken as evenly spread"
        )
    if timeout_ns > 0 and timeout_ns % NS_PER_MS and setting != recorded:
        notes.append("not advised: Flink reads the buffer timeout in whole milliseconds")
    if outcome["error"]:
        notes.append(f"not predicted: {outcome['error']}")
    return TradeOffPoint(
        config=dict(effective_flink_keys(setting.network)),
        throughput_records_per_s=outcome["throughput_records_per_s"],
        latency_ns=latency_summary(outcome),
        backlog_buffers=BacklogSummary(
            outcome["backlog_buffers_mean"], outcome["backlog_buffers_max"]
        ),
        buffers_per_s=outcome["buffers_per_s"],
        is_recorded=setting == recorded,
        notes=tuple(notes),
        memory_bytes=outcome["memory_bytes"],
        credits_per_s=outcome["credits_per_s"],
        flow_control=setting.flow_control,
        round_trip_ns=setting.round_trip_ns,
        consumer_speed=setting.consumer_speed,
        rate_factor=setting.rate_factor,
        method=outcome["method"],
        latency_low_ns=low,
        latency_high_ns=high,
        why_no_latency=outcome["why_no_latency"],
    )


def _relative(predicted: float | None, observed: float | None) -> float | None:
    if predicted is None or not observed:
        return None
    return (predicted - observed) / observed
