"""What a replay predicts, and how far it is off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .measures import BacklogSummary, LatencySummary

ERROR_TO_BET_ON = 0.5
"""Relative error of the model beyond which its predictions are no more than a hint."""


@dataclass(frozen=True, slots=True)
class ModelError:
    """Relative error of the model on the recorded setting: (predicted - observed) / observed; None
    if unknown. That of buffers per second counts where latency was not recorded.

    Attributes:
        latency_at_most: what the mean latency is too low by at least, by Little's law on the
            recorded backlog, as a negative share. None where the backlog does not show that, or
            latency was recorded.
    """

    throughput: float | None
    p50: float | None
    p99: float | None
    buffers_per_s: float | None = None
    latency_at_most: float | None = None


@dataclass(frozen=True, slots=True)
class TradeOffPoint:
    """What the replay predicts for one candidate configuration.

    Attributes:
        latency_low_ns, latency_high_ns: ends of the 90 % interval of each figure, where the trace
            does not contain when records came.
        buffers_low_per_s, buffers_high_per_s: the same of the buffers.
        mean_latency_at_least_ns: of the recorded setting, by Little's law on the recorded backlog.
        why_no_latency: what in the trace contradicts the predicted latency and backlog, which are
            then unknown.
    """

    config: dict[str, Any]
    throughput_records_per_s: float | None
    latency_ns: LatencySummary
    backlog_buffers: BacklogSummary
    buffers_per_s: float | None
    is_recorded: bool = False
    notes: tuple[str, ...] = ()
    memory_bytes: int | None = None  # most that all pools can take
    credits_per_s: float | None = None
    flow_control: str = "credit"
    round_trip_ns: int = 0  # on top of the recorded way
    consumer_speed: float = 1.0
    rate_factor: float = 1.0
    method: str | None = None  # what computed it
    latency_low_ns: LatencySummary | None = None
    latency_high_ns: LatencySummary | None = None
    buffers_low_per_s: float | None = None
    buffers_high_per_s: float | None = None
    mean_latency_at_least_ns: float | None = None
    why_no_latency: str | None = None
