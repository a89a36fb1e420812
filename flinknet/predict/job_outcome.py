"""What a job of several exchanges comes to under a setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from flinknet.histogram import LogLinearHistogram

from .likely import DRAWS, Figures, LikelyRange, likely_range
from .simulated import merged

PHASES = DRAWS
"""Times that a job is computed with other phases of its flushers."""


@dataclass(frozen=True, slots=True, eq=False)
class HopOutcome:
    """What a job came to on one of its edges, over all phases.

    Attributes:
        latency: from when a record came to the edge.
        since_source: from when it came to the job.
        messages: of a job that was recorded between TaskManagers, those between them; None where
            they are unknown.
        duration_ns: that records and messages count over; 0 where they are unknown.
        why_unknown: None if all of this is known.
    """

    latency: LogLinearHistogram = field(default_factory=LogLinearHistogram)
    since_source: LogLinearHistogram = field(default_factory=LogLinearHistogram)
    records: int = 0
    messages: int | None = None
    duration_ns: int = 0
    memory_bytes: int | None = None
    why_unknown: str | None = None

    @property
    def throughput_records_per_s(self) -> float | None:
        """Records consumed a second."""
        return self.records * 1e9 / self.duration_ns if self.duration_ns else None

    @property
    def buffers_per_s(self) -> float | None:
        """Data buffers sent a second."""
        if self.messages is None or not self.duration_ns:
            return None
        return self.messages * 1e9 / self.duration_ns


@dataclass(frozen=True, slots=True, eq=False)
class JobOutcome:
    """What a job came to.

    Attributes:
        hops: of each edge.
        latency: from when a record came to the job until the last task on its way was done.
        by_phase: the same of each of the phases; `buffers_by_phase`: sent a second on all edges.
        throughput_records_per_s: that leave the job; known of a saturated job, too.
        why_unknown: None if all edges are known.
    """

    hops: tuple[HopOutcome, ...]
    latency: LogLinearHistogram
    by_phase: tuple[LogLinearHistogram, ...]
    buffers_by_phase: tuple[float, ...]
    throughput_records_per_s: float | None
    why_unknown: str | None = None

    @property
    def buffers_per_s(self) -> float | None:
        """Data buffers sent a second on all edges."""
        if self.why_unknown is not None:
            return None
        return sum(each.buffers_per_s or 0.0 for each in self.hops)

    @property
    def likely(self) -> LikelyRange | None:
        """The 90% interval of its figures; None where they are unknown, or certain."""
        if len(self.by_phase) < PHASES:
            return None
        figures = Figures(self.latency.summary(), self.buffers_per_s)
        each = zip(self.by_phase, self.buffers_by_phase, strict=True)
        drawn = [Figures(latency.summary(), buffers) for latency, buffers in each]
        return likely_range(figures, figures, drawn)


def joined_jobs(parts: Sequence[JobOutcome]) -> JobOutcome:
    """What the windows of a job came to together."""
    if len(parts) == 1:
        return parts[0]
    why = next((each.why_unknown for each in parts if each.why_unknown), None)
    edges = range(len(parts[0].hops))
    hops = tuple(joined_hops([each.hops[n] for each in parts]) for n in edges)
    rates = [each.throughput_records_per_s for each in parts]
    rate = None if None in rates else float(np.mean([each or 0.0 for each in rates]))
    if why is not None:
        return JobOutcome(hops, LogLinearHistogram(), (), (), rate, why)
    phases = range(len(parts[0].by_phase))
    return JobOutcome(
        hops,
        merged([each.latency for each in parts]),
        tuple(merged([each.by_phase[n] for each in parts]) for n in phases),
        tuple(float(np.mean([each.buffers_by_phase[n] for each in parts])) for n in phases),
        rate,
    )


def joined_hops(parts: Sequence[HopOutcome]) -> HopOutcome:
    """An edge over all phases."""
    why = next((each.why_unknown for each in parts if each.why_unknown), None)
    if why is not None:
        return HopOutcome(
            records=sum(each.records for each in parts),
            duration_ns=sum(each.duration_ns for each in parts),
            why_unknown=why,
        )
    return HopOutcome(
        merged([each.latency for each in parts]),
        merged([each.since_source for each in parts]),
        sum(each.records for each in parts),
        sum(each.messages or 0 for each in parts),
        sum(each.duration_ns for each in parts),
        parts[0].memory_bytes,
    )
