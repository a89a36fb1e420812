"""What latency markers told of a job: Flink's histograms, and the truth next to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, sqrt

from .measures import LatencySummary


@dataclass(frozen=True, slots=True)
class MarkerSummary:
    """A histogram of Flink's (DescriptiveStatisticsHistogramStatistics), in ms."""

    count: int
    min: int
    max: int
    mean: float
    stddev: float
    p50: float
    p75: float
    p95: float
    p98: float
    p99: float
    p999: float

    @classmethod
    def of(cls, latencies_ms: Sequence[int]) -> MarkerSummary:
        """Of one or more latencies."""
        ordered = sorted(latencies_ms)
        count, mean = len(ordered), sum(ordered) / len(ordered)
        squares = sum((each - mean) ** 2 for each in ordered)
        return cls(
            count,
            ordered[0],
            ordered[-1],
            mean,
            sqrt(squares / (count - 1)) if count > 1 else 0.0,
            *(percentile(ordered, quantile) for quantile in (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)),
        )


@dataclass(frozen=True, slots=True)
class MarkerHistogram:
    """The histogram "latency" of one operator of one task.

    Attributes:
        metric: its name in Flink, behind the scope of the job.
        source: name of the operator that emitted the markers; empty with granularity single.
        source_subtask: None with another granularity than subtask.
        markers: that came in all; the summary is of the last of them.
    """

    metric: str
    source: str
    source_subtask: int | None
    operator: str
    subtask: int
    markers: int
    latency_ms: MarkerSummary


@dataclass(frozen=True, slots=True)
class MarkedOperator:
    """What the markers of a source told at an operator, over its tasks.

    Attributes:
        latency_ms: of all that the histograms of its tasks hold.
        records_ns: how old the records were, where the operator measures that.
    """

    source: str
    operator: str
    markers: int
    latency_ms: MarkerSummary
    records_ns: LatencySummary | None


@dataclass(frozen=True, slots=True)
class LatencyMarkersMeasured:
    """What latency markers told of a job.

    Attributes:
        history: latencies that a histogram holds.
    """

    interval_ns: int
    granularity: str
    history: int
    operators: tuple[MarkedOperator, ...]
    histograms: tuple[MarkerHistogram, ...]


def percentile(ordered: Sequence[int], quantile: float) -> float:
    """As Flink's histograms tell it, by the Percentile of Commons Math: between the two neighbours
    of (n + 1) * quantile.
    """
    position = quantile * (len(ordered) + 1)
    if position < 1:
        return float(ordered[0])
    if position >= len(ordered):
        return float(ordered[-1])
    below = floor(position)
    lower, upper = ordered[below - 1], ordered[below]
    return lower + (position - below) * (upper - lower)
