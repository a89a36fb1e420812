"""Parts of all results: summaries of samples, and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Distribution of a latency in ns; a percentile is None when too few samples support it."""

    count: int
    min: int | None = None
    mean: float | None = None
    p50: float | None = None
    p75: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    p99_9: float | None = None
    p99_99: float | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True)
class LatencyDistribution:
    """Ranges of the latency with their records, and percentiles as (quantile, ns)."""

    low_ns: tuple[float, ...]
    high_ns: tuple[float, ...]
    records: tuple[int, ...]
    percentiles: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class BacklogSummary:
    """Backlog in buffers, over the data messages of the measured part."""

    mean: float | None
    max: int | None


@dataclass(frozen=True, slots=True)
class CreditSummary:
    """Credit announced, messages that announced it, and time with backlog but no credit, summed
    over channels."""

    announced: int
    messages: int
    starved_ns: int | None


@dataclass(frozen=True, slots=True)
class FlushCounts:
    """Why data buffers left: full, by the buffer timeout, pushed by an event (or the end)."""

    full: int
    timeout: int
    event: int


@dataclass(frozen=True, slots=True)
class CheckpointSummary:
    """The checkpoints that began in the measured part; `unaligned` of the completed ones did not
    wait for all barriers.

    A duration is the time from trigger to last acknowledgement. Start delay (to the first barrier)
    and alignment (first to last barrier) are those of each task; travel is the way of a barrier
    through a channel, from writing to reading. Bytes are summed over tasks: data that barriers have
    overtaken, data read during alignment. From a trace, `aborted`, start delay and bytes are
    unknown, duration and travel begin when a barrier leaves, and a task is the reader of one edge.
    """

    triggered: int
    completed: int
    aborted: int | None
    unaligned: int
    duration_ns: LatencySummary
    start_delay_ns: LatencySummary
    alignment_ns: LatencySummary
    travel_ns: LatencySummary
    overtaken_bytes_mean: float | None
    overtaken_bytes_max: int | None
    processed_bytes_mean: float | None

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> CheckpointSummary:
        """Back from plain data."""
        durations = ("duration_ns", "start_delay_ns", "alignment_ns", "travel_ns")
        return cls(**{**value, **{name: LatencySummary(**value[name]) for name in durations}})


@dataclass(frozen=True, slots=True)
class VertexTimes:
    """Instants since the first deployment of a job: the first task of a vertex was deployed, its
    output could first be read (None: nobody waited for that), and its last task had finished."""

    deployed_ns: int | None
    first_output_ns: int | None
    finished_ns: int | None


@dataclass(frozen=True, slots=True)
class RunWarning:
    """Something that makes a result doubtful, and what to do about it.

    Attributes:
        text: what, why and what to do.
        brief: what, in less than a line; if empty, the part of the text before its first "; ".
    """

    code: str
    text: str
    brief: str = ""

    @property
    def line(self) -> str:
        """The subject of the warning, in less than a line."""
        return self.brief or self.text.partition("; ")[0]
