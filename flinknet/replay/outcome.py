"""A candidate to predict, and the outcome of its prediction."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from flinknet.options.what_if import Setting
from flinknet.results import LatencySummary

from .read import RecordedRun


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a run that is simulated."""

    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A setting to predict for a run, and the part of its measured window whose arrivals are
    used."""

    run: RecordedRun
    number: int
    setting: Setting
    to_ns: int
    capped_to_ns: int | None = None
    """Of the part that is used instead where the compiled model does not know the exchange; None
    for `to_ns`."""
    windows: tuple[Window, ...] = ()
    """That are spread over that part where not all of it is used; none: all of it."""
    is_asked: bool = False
    """That part was asked for: it is refused where it is too short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is predicted for a candidate; None where that is unknown.

    Attributes:
        candidate: its number.
        records: simulated; from here on to `window_to_ns` the whole exchange.
        debloating_target_ns: None without debloating.
        checkpoint_interval_ns: None without checkpoints.
        aligned_timeout_ns: of these checkpoints; 0: unaligned at once, -1: never.
        method: what computed it.
        window_to_ns: end of the part whose arrivals were used.
        windows: that are spread over this part; 1: all of it.
        simulated_ns: length of the windows together; None where all of the part was used.
        count: of the latencies; this and what follows are fields of `results.LatencySummary`.
        bounds: such fields as JSON: the ends of the 90% interval of each, where arrivals were
            assumed.
        checkpoints: fields of `results.CheckpointSummary` as JSON.
        buffers_low_per_s, buffers_high_per_s: the same of the buffers.
        latency_at_least_ns: mean latency of the recorded run at least, by Little's law on its
            backlog; None where that shows nothing.
        error: what the simulator said if it failed.
        why_no_latency: what contradicts the predicted latency and backlog.
    """

    run: int
    candidate: int
    buffer_timeout_ns: int
    exclusive_buffers: int
    floating_buffers: int
    segment_size_bytes: int
    flow_control: str
    round_trip_ns: int
    consumer_speed: float
    rate_factor: float
    debloating_target_ns: int | None = None
    checkpoint_interval_ns: int | None = None
    aligned_timeout_ns: int | None = None
    records: int | None = None
    duration_ns: int | None = None
    throughput_records_per_s: float | None = None
    buffers_per_s: float | None = None
    credits_per_s: float | None = None
    memory_bytes: int | None = None
    method: str | None = None
    window_to_ns: int
    windows: int = 1
    simulated_ns: int | None = None
    backlog_buffers_mean: float | None = None
    backlog_buffers_max: int | None = None
    count: int | None = None
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
    bounds: str | None = None
    checkpoints: str | None = None
    buffers_low_per_s: float | None = None
    buffers_high_per_s: float | None = None
    latency_at_least_ns: float | None = None
    notes: list[str] = field(default_factory=list)
    error: str | None = None
    why_no_latency: str | None = None

    @property
    def latency_ns(self) -> LatencySummary:
        """The latency; of no records where it is unknown."""
        if self.count is None:
            return LatencySummary(count=0)
        return LatencySummary(
            **{each.name: getattr(self, each.name) for each in fields(LatencySummary)}
        )
