"""Predictions of a replay, and their errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeVar

from .measures import BacklogSummary, CheckpointSummary, LatencySummary

ERROR_TO_BET_ON = 0.5
"""Relative error of the model beyond which its predictions are no more than a hint."""

TAIL_SPAN_MAX, TAIL_LEAST_NS = 10.0, 100_000
"""Factor between the ends of an interval of p99 above which it says nothing; shorter latencies
count as so long."""

OPEN_TAIL = "p99 cannot be predicted from this recording"
"""Beginning of the note on a prediction whose interval says nothing."""

PAUSES_NOTED = "TaskManagers stood still"
"""Beginning of the note on pauses that are in the intervals."""

MACHINE_DELAYED = "the machine delayed"
"""Begins the note of a prediction about how late a recorded machine was."""


GOOD_ERROR, FAIR_ERROR = 0.1, 0.25
"""Errors of the model on the recorded setting up to which predictions are good, and fair."""


@dataclass(frozen=True, slots=True)
class ModelError:
    """Relative error of the model on the recorded setting: (predicted - observed) / observed; None
    if unknown, and of throughput where the model was fitted to it. Predictions are judged by that
    of buffers per second only where latency was not recorded. `latency_at_most` is what the mean
    latency is too low by at least, by Little's law on the recorded backlog, as a negative share;
    None where the backlog does not show that, or latency was recorded."""

    throughput: float | None
    p50: float | None
    p99: float | None
    buffers_per_s: float | None = None
    latency_at_most: float | None = None

    @property
    def counting(self) -> dict[str, float]:
        """The errors that predictions are judged by, as far as they are known."""
        named = {
            "records/s": self.throughput,
            "p50": self.p50,
            "p99": self.p99,
            "mean latency": self.latency_at_most,
        }
        if self.p50 is None and self.p99 is None:
            named["buffers/s"] = self.buffers_per_s
        return {name: error for name, error in named.items() if error is not None}

    @property
    def _far(self) -> list[str]:
        return [name for name, x in self.counting.items() if abs(x) > ERROR_TO_BET_ON]

    @property
    def is_tail_off(self) -> bool:
        """Whether of all figures only p99 must not be relied on."""
        return self._far == ["p99"] and self.p50 is not None

    @property
    def misses(self) -> str | None:
        """Why not to rely on predictions: the recorded figures that the model is too far off in;
        None if there are none, or p99 alone."""
        if not self._far or self.is_tail_off:
            return None
        missed = " and ".join(self._far)
        return f"the model misses the recorded {missed} by more than {ERROR_TO_BET_ON:.0%}"

    @property
    def grade(self) -> str:
        """How far predictions can be relied on, in a word: by the largest of all errors, that of
        buffers per second, too, and at most fair where latency was not recorded."""
        largest = max(map(abs, self.counting.values()), default=math.inf)
        largest = max(largest, abs(self.buffers_per_s or 0.0))
        if largest <= GOOD_ERROR and self.p50 is not None:
            return "good"
        return "fair" if largest <= FAIR_ERROR else "poor"


@dataclass(frozen=True, slots=True)
class CpuCost:
    """CPU time of one more data buffer, on both sides and with its credit: learnt from the counters
    of the job, or assumed; `how` is the origin of the number."""

    ns_per_message: float
    how: str
    is_learnt: bool


@dataclass(frozen=True, slots=True)
class Price:
    """The cost of a setting; changes are against the prediction of the recorded setting; None where
    unknown."""

    messages_per_s: float  # data buffers, and the credit announced for them
    packets_per_s: float  # at most: every message leaves alone; without acknowledgements
    bytes_per_s: float  # payload, headers of messages and of packets
    messages_per_s_change: float | None
    cpu_cores_change: float | None


_LATENCIES = ("latency_ns", "latency_low_ns", "latency_high_ns", "since_source_ns")


@dataclass(frozen=True, slots=True)
class TradeOffPoint:
    """The prediction for an edge, or for a job, under one setting.

    Low and high figures are the ends of 90% intervals, where the trace does not contain when
    records came. The clocks of two hosts move those of latencies further apart by their error;
    without `buffers_low_per_s` that error is all that is between them. Checkpoints are those at the
    setting's interval; None without any, where the recorded interval is unknown and none was asked
    for, and where they were not simulated.
    """

    config: Mapping[str, str]
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
    mean_latency_at_least_ns: float | None = None  # by Little's law on the recorded backlog
    why_no_latency: str | None = None  # why predicted latency and backlog are unknown
    checkpoints: CheckpointSummary | None = None
    price: Price | None = None  # None where buffers per second are unknown
    since_source_ns: LatencySummary | None = None  # from arrival at the job; of edges in jobs alone
    why_unknown: str | None = None  # why nothing is predicted; None if something is

    @property
    def without_tail(self) -> Self:
        """The prediction without p99 and all beyond it."""
        known = {name: getattr(self, name) for name in _LATENCIES}
        return replace(self, **{name: x and x.without_tail for name, x in known.items()})

    @property
    def tail_span(self) -> float | None:
        """Factor between the ends of the interval of p99; None without one."""
        if self.latency_low_ns is None or self.latency_high_ns is None:
            return None
        low_ns, high_ns = self.latency_low_ns.p99, self.latency_high_ns.p99
        return None if low_ns is None or high_ns is None else high_ns / max(low_ns, TAIL_LEAST_NS)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPoint(TradeOffPoint):
    """The prediction for a job under one setting: records that leave the job, latency from the
    arrival of a record at the job until the last task on its way was done, buffers over all edges;
    and buffer timeouts of and predictions for the edges, both empty for an exchange by itself."""

    timeouts_ns: tuple[int, ...] = ()
    edges: tuple[TradeOffPoint, ...] = ()

    @classmethod
    def of(
        cls,
        point: TradeOffPoint,
        timeouts_ns: tuple[int, ...] = (),
        edges: tuple[TradeOffPoint, ...] = (),
    ) -> JobPoint:
        """The prediction with those for its edges."""
        own = {each.name: getattr(point, each.name) for each in fields(point)}
        return cls(**own, timeouts_ns=timeouts_ns, edges=edges)

    @property
    def without_tail(self) -> Self:
        """The prediction without p99 and all beyond it, of the job and of its edges."""
        point = super(JobPoint, self).without_tail  # super() alone fails with slots
        return replace(point, edges=tuple(each.without_tail for each in self.edges))


_Point = TypeVar("_Point", bound=TradeOffPoint)


def without_open_tails(point: _Point) -> _Point:
    """A prediction, and those for the edges of a job, without p99 where its interval says
    nothing."""
    if isinstance(point, JobPoint):
        point = replace(point, edges=tuple(map(without_open_tails, point.edges)))
    if (span := point.tail_span) is None or span <= TAIL_SPAN_MAX:
        return point
    edges: dict[str, Any] = {"edges": point.edges} if isinstance(point, JobPoint) else {}
    note = f"{OPEN_TAIL}: the ends of its interval differ by a factor of {span:,.0f}"
    return replace(point.without_tail, notes=(*point.notes, note), **edges)


def why_unchecked(points: Sequence[TradeOffPoint]) -> str:
    """Reason why the model's error is unknown, by the prediction of the recorded setting."""
    if any(each.is_recorded and each.throughput_records_per_s is not None for each in points):
        return "nothing was recorded to check the model with"
    return "the recorded setting could not be predicted"
