"""Predictions of all candidates as the trade-off of a run, with the model's error on the recorded
setting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from flinknet.config import BUFFER_TIMEOUT_NEVER_NS, NetworkConfig
from flinknet.options import effective_flink_keys
from flinknet.results import BacklogSummary, LatencySummary, Measured, ModelError, TradeOffPoint

from .observed import latency_summary
from .units import RecordedRun
from .what_if import DEFAULT_MAX_RECORDS, DEFAULT_MAX_RECORDS_AT_MAX_RATE, Candidate

MS = 1_000_000
DEFAULT_TIMEOUTS_NS = (0, 1 * MS, 5 * MS, 10 * MS, 100 * MS, BUFFER_TIMEOUT_NEVER_NS)


def candidates_of(
    run: RecordedRun, recorded: NetworkConfig, timeouts_ns: Iterable[int], to_ns: int
) -> list[Candidate]:
    """One candidate for each timeout, the recorded one among them; shortest first, never last."""
    wanted = {*timeouts_ns, recorded.buffer_timeout_ns}
    in_order = sorted(wanted, key=lambda timeout: (timeout < 0, timeout))
    return [
        Candidate(run, number, replace(recorded, buffer_timeout_ns=timeout_ns), to_ns)
        for number, timeout_ns in enumerate(in_order)
    ]


def default_max_records(measured: Measured, *, is_max_rate: bool) -> int:
    """How many records of a run to simulate: fewer where a record fills several buffers."""
    records = DEFAULT_MAX_RECORDS_AT_MAX_RATE if is_max_rate else DEFAULT_MAX_RECORDS
    buffers_per_record = measured.buffers / max(measured.records, 1)
    return max(round(records / max(buffers_per_record, 1.0)), 1)


def window_for(run: RecordedRun, records: int, max_records: int) -> int:
    """End of the part of the measured window that holds some `max_records` records, if they come
    evenly."""
    if records <= max_records:
        return run.to_ns
    return run.from_ns + run.duration_ns * max_records // records


def trade_off_points(
    candidates: Sequence[Candidate], outcomes: Sequence[dict[str, Any]], recorded: NetworkConfig
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


def _point(candidate: Candidate, outcome: dict[str, Any], recorded: NetworkConfig) -> TradeOffPoint:
    notes = list(outcome["notes"])
    timeout_ns = candidate.network.buffer_timeout_ns
    is_longer = recorded.buffer_timeout_ns < 0 or recorded.buffer_timeout_ns > timeout_ns
    if timeout_ns >= 0 and is_longer:
        notes.append(
            "shorter than recorded: instants between the first and last record of a recorded"
            " buffer are taken as evenly spread"
        )
    if outcome["error"]:
        notes.append(f"not predicted: {outcome['error']}")
    return TradeOffPoint(
        config=dict(effective_flink_keys(candidate.network)),
        throughput_records_per_s=outcome["throughput_records_per_s"],
        latency_ns=latency_summary(outcome),
        backlog_buffers=BacklogSummary(
            outcome["backlog_buffers_mean"], outcome["backlog_buffers_max"]
        ),
        buffers_per_s=outcome["buffers_per_s"],
        is_recorded=candidate.network == recorded,
        notes=tuple(notes),
    )


def _relative(predicted: float | None, observed: float | None) -> float | None:
    if predicted is None or not observed:
        return None
    return (predicted - observed) / observed
