"""Parts of all results: summaries of samples, and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from flinknet.units import counted, human_bytes, human_count, human_duration, without_zeros

SAMPLES_PER_TAIL = 5
"""Samples that must lie on either side of a percentile, or it is not given: p50 from 10 samples,
p99 from 500, p99.9 from 5,000, p99.99 from 50,000. With fewer it would just be one of the
extremes."""


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

    @property
    def is_below_clocks(self) -> bool:
        """Whether p50 is unknown, and not for too few samples: it is below the clocks' error."""
        return self.p50 is None and self.count >= 2 * SAMPLES_PER_TAIL

    def known_within(self, error_ns: int) -> LatencySummary:
        """The summary without figures that are smaller than the error of their clocks."""
        figures = [(each.name, getattr(self, each.name)) for each in fields(self)]
        small = [name for name, ns in figures if ns is not None and ns < error_ns]
        unknown: dict[str, Any] = dict.fromkeys(set(small) - {"count"})
        return replace(self, **unknown)

    @property
    def without_tail(self) -> LatencySummary:
        """The summary without p99 and all beyond it."""
        return replace(self, p99=None, p99_9=None, p99_99=None, max=None)

    def moved(self, by_ns: int, known: LatencySummary) -> LatencySummary:
        """The figures that `known` has, each later by `by_ns` and at least 0."""
        each = {name: max(x + by_ns, 0) for name, x in asdict(self).items() if x is not None}
        has = {name for name, x in asdict(known).items() if x is not None}
        return LatencySummary(**{name: each[name] for name in has} | {"count": self.count})


PERCENTILES = {
    **{"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95},
    **{"p99": 0.99, "p99_9": 0.999, "p99_99": 0.9999},
}
"""Percentiles of a LatencySummary, by its fields."""


@dataclass(frozen=True, slots=True)
class LatencyDistribution:
    """Ranges of the latency with their records, and percentiles as (quantile, ns)."""

    low_ns: tuple[float, ...]
    high_ns: tuple[float, ...]
    records: tuple[int, ...]
    percentiles: tuple[tuple[float, float], ...]

    def known_within(self, error_ns: int) -> LatencyDistribution:
        """The distribution without percentiles that are smaller than the error of their clocks."""
        return replace(self, percentiles=tuple(x for x in self.percentiles if x[1] >= error_ns))


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
    """Why data buffers left: full, by the buffer timeout, pushed by an event or the end (between
    processes these look alike: all count as `timeout`)."""

    full: int
    timeout: int
    event: int


_SHARES = {
    "busy": "busyTimeMsPerSecond",
    "idle": "idleTimeMsPerSecond",
    "back_pressured": "backPressuredTimeMsPerSecond",
}


def shares_of(metrics: Mapping[str, float | str]) -> dict[str, float]:
    """Shares of the time in which a task was busy, idle and back-pressured, by its metrics."""
    return {name: float(metrics.get(metric, 0)) / 1000 for name, metric in _SHARES.items()}


@dataclass(frozen=True, slots=True)
class WindowAge:
    """Age of the records that passed in a window; `from_ns` counts from the start of the measured
    part."""

    from_ns: int
    width_ns: int
    p50: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class ChannelWatermark:
    """The watermarks of one channel of an exchange."""

    channel: int
    name: str | None  # such as `Enrich (3/8) → Sink (1/4)`; None where its tasks have no names
    lag_ns: float | None  # clock minus watermark when it passed, the median; None if not near
    behind_ns: float  # behind the median of its task's other channels, where it was the last one
    held_share: float  # share of the time in which it was the last by a second or more
    idle_share: float  # share of the time in which it was idle


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """What the times of stream elements on an exchange show, recorded between processes. The
    difference between the ages on two exchanges is the time between them, by one clock."""

    records: int  # records with a timestamp
    follows_clock: bool  # almost all timestamps are near the clock; else no age is derived
    age_ns: LatencySummary  # clock minus timestamp when a record passed
    travel_ns: LatencySummary  # age of latency markers
    over_time: tuple[WindowAge, ...]  # by window, those without such records left out
    watermarks: tuple[ChannelWatermark, ...]  # of the channels that have any

    @property
    def held_back(self) -> ChannelWatermark | None:
        """The channel that holds a watermark back most of the time; None without one."""
        found = max(
            self.watermarks, key=lambda each: each.held_share * each.behind_ns, default=None
        )
        return found if found is not None and found.held_share >= HELD_SHARE_MIN else None


HELD_SHARE_MIN = 0.5
"""Share of the time in which a channel must be the last one to hold a watermark back."""


@dataclass(frozen=True, slots=True)
class CheckpointSummary:
    """The checkpoints that began in the measured part; `unaligned` of the completed ones did not
    wait for all barriers.

    A duration is the time from trigger to last acknowledgement. Start delay (to the first barrier)
    and alignment (first to last barrier) are those of each task; travel is the way of a barrier
    through a channel, from writing to reading. Bytes are summed over tasks: data that barriers have
    overtaken, data read during alignment. From a trace, `aborted`, start delay and bytes are
    unknown, duration and travel begin when a barrier leaves, and a task is the reader of one edge:
    a checkpoint is `triggered` when a barrier leaves, `completed` when all channels had theirs.
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


@dataclass(frozen=True, slots=True)
class VertexTimes:
    """Instants since the first deployment of a job: the first task of a vertex was deployed, its
    output could first be read (None: nobody waited for that), and its last task had finished."""

    deployed_ns: int | None
    first_output_ns: int | None
    finished_ns: int | None


@dataclass(frozen=True, slots=True)
class RunWarning:
    """Something that makes a result doubtful: what, why and what to do; and `brief`, what in less
    than a line. If that is empty, it is the part of the text before its first "; "."""

    code: str
    text: str
    brief: str = ""

    @property
    def line(self) -> str:
        """The subject of the warning, in less than a line."""
        return self.brief or self.text.partition("; ")[0]


CREDIT_WAITS_FROM = 0.1
"""Share of the time with buffers queued and no credit, from which credit is a limit."""

CREDIT_USED_FROM = 0.75
"""Share of the credits under way, on average, from which credit is a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditPath:
    """Credit between two TaskManagers, and the most that it lets pass.

    A round trip is the typical time from a buffer leaving until its credit is back; recorded
    between TaskManagers, from the place of the recording to the consumer and back. `reader_ns` is
    the mean part of it from the arrival of a buffer until its consumer was done; None where that
    was not recorded.
    """

    sender: str
    receiver: str
    channels: int
    round_trip_ns: float
    reader_ns: float | None
    credits: float  # buffers that may be under way on all channels together
    segment_size_bytes: int
    bytes_per_s: float
    buffers_per_s: float
    waits: float  # share of the time with data and no credit, on the channel with the largest
    most_bytes_per_s: float = field(init=False)  # with all credits always under way

    def __post_init__(self) -> None:
        most = self.credits * self.segment_size_bytes * 1e9 / max(self.round_trip_ns, 1.0)
        object.__setattr__(self, "most_bytes_per_s", most)

    @property
    def used(self) -> float:
        """Share of the credits that are under way, on average."""
        return min(self.buffers_per_s * self.round_trip_ns / 1e9 / max(self.credits, 1.0), 1.0)

    @property
    def is_limit(self) -> bool | None:
        """Whether credit limits the throughput, and not a consumer that keeps the buffers; None
        where the consumer was not recorded."""
        if self.waits < CREDIT_WAITS_FROM and self.used < CREDIT_USED_FROM:
            return False
        return None if self.reader_ns is None else self.reader_ns <= self.round_trip_ns / 2

    @property
    def text(self) -> str:
        """The round trip and what passes, in a line without a full stop."""
        where = " (from the recording on)" if self.reader_ns is None else ""
        text = (
            f"{self.sender} → {self.receiver}: credit returns after"
            f" {human_duration(self.round_trip_ns)}{where};"
            f" {counted(round(self.credits), 'buffer')} of {self._segments(1)} carry at most"
            f" {human_count(self.most_bytes_per_s)}B/s; {human_count(self.bytes_per_s)}B/s used"
        )
        if self.waits < CREDIT_WAITS_FROM:
            return text
        return f"{text}, with data and no credit for {self.waits:.0%} of the time"

    @property
    def remedy(self) -> str | None:
        """A clause on what carries more, or why more buffers would not; None where unknown."""
        if self.is_limit:
            buffers = counted(2 * round(self.credits), "buffer")
            larger = f"segments of {self._segments(2)}"
            return f"{buffers} (fixed in Flink 2.x), or {larger}, carry up to twice as much"
        if self.is_limit is None or self.waits < CREDIT_WAITS_FROM:
            return None
        kept = human_duration(self.reader_ns)
        return f"buffers stay with the consumer for {kept}, so more carry no more"

    def _segments(self, factor: int) -> str:
        return without_zeros(human_bytes(factor * self.segment_size_bytes))
