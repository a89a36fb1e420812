"""The answer of a replay about a recorded run, in the order of its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .bottleneck import Bottleneck
from .flink_metrics import FlinkMetrics
from .measures import BacklogSummary, LatencyDistribution
from .prediction import CpuCost, ModelError, TradeOffPoint
from .recordings import ReplayedRecording, TraceLoss
from .run import ChannelMeasured, Measured

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class TracePart:
    """The used part of a trace, as offsets from the start of the recording."""

    from_ns: int
    to_ns: int
    whole_ns: int

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out."""
        return self.to_ns - self.from_ns == self.whole_ns


@dataclass(frozen=True, slots=True)
class TraceDescription:
    """Which trace was replayed.

    Attributes:
        config: effective Flink keys of the recorded run.
        edge_number: number of the exchange in its job, from 1 in the direction of flow.
        edge: name of the exchange; None for the only one of a run that does not name it.
        origin: "run" if the run recorded itself, else what recorded the messages in between.
        recordings: that are the run, if they are several.
        losses: what the trace is known to lack.
    """

    path: str
    started_at: str
    config: Mapping[str, str]
    is_max_rate: bool
    events: int
    channels: int
    measured_duration_ns: int
    damaged_files: tuple[str, ...]
    warnings: tuple[str, ...]
    edge_number: int
    edge: str | None
    origin: str
    part: TracePart
    recordings: tuple[ReplayedRecording, ...] = ()
    losses: tuple[TraceLoss, ...] = ()

    @property
    def is_of_run(self) -> bool:
        """Whether the run recorded itself."""
        return self.origin == "run"


@dataclass(frozen=True, slots=True)
class Choice:
    """What to set for some targets.

    Attributes:
        point: index of the setting among the predicted ones; None if none meets the targets.
        is_safe: it meets them with the reserve that the model's error asks for.
        nearest: where no setting meets them, the one that misses by least.
        patch: the keys to change, in Flink's YAML; empty if none differs from the recorded ones.
        next_longer_ns: the next longer timeout that was predicted; None without one.
        next_longer_margin: how far that one is from the limit, as `margin`; None where
            unknown, and where it was left only because all settings are alike.
        is_known: False where no setting is known to meet the targets and a figure of some setting
            is missing, as p99 is of too few records.
    """

    targets: tuple[str, ...]
    point: int | None
    is_safe: bool
    margin: float | None
    nearest: int | None
    patch: str
    next_longer_ns: int | None = None
    next_longer_margin: float | None = None
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class SituationAdvice:
    """Advice for one combination of what no key of Flink changes.

    Attributes:
        why_no_knee: the reason, where several settings have none.
        is_alike: no setting differs from another by more than the model's error.
        beyond_keys: what a patch cannot say.
    """

    rate_factor: float
    consumer_speed: float
    round_trip_ns: int
    flow_control: str
    knee: int | None
    knee_patch: str
    why_no_knee: str | None
    is_alike: bool
    choice: Choice | None
    beyond_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Advice:
    """Which of the predicted settings are worth having; settings are indices among `trade_offs`.

    Attributes:
        knee: of the recorded situation, or of the first; likewise `knee_patch` and `choice`.
        withheld: why nothing is advised; None if something is.
    """

    frontier: tuple[int, ...] = ()
    knee: int | None = None
    knee_patch: str = ""
    choice: Choice | None = None
    withheld: str | None = None
    situations: tuple[SituationAdvice, ...] = ()


@dataclass(frozen=True, slots=True)
class SimulatedPart:
    """The part of the run that the prediction of the recorded setting used.

    Attributes:
        window_ns: length of the part.
        windows: number of windows, spread over the part of the trace that counts; 1: one at its
            begin.
    """

    records: int
    window_ns: int
    is_whole: bool
    windows: int = 1


@dataclass(frozen=True, slots=True)
class MessageCount:
    """Messages of one kind; buffers and events by data type."""

    kind: str
    messages: int
    payload_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedChannel(ChannelMeasured):
    """One channel as its trace shows it.

    Attributes:
        regimes: shares of its time; None where they are unknown.
        messages: by kind.
        name: of its tasks, such as `Enrich (3/8) → Sink (1/4)`; None where they have no names.
    """

    starved_ns: int | None
    regimes: Mapping[str, float] | None
    messages: Mapping[str, int]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class WindowMeasured:
    """A window of time; `from_ns` counts from the start of the measured part."""

    from_ns: int
    width_ns: int
    throughput_records_per_s: float
    backlog_buffers: BacklogSummary


@dataclass(frozen=True, slots=True)
class FillRatios:
    """How full data buffers were when they left: counts in `bins` equal ranges, by the reason."""

    bins: int
    mean: float | None
    segment_size_bytes: int
    full: tuple[int, ...]
    timeout: tuple[int, ...]
    event: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RecordedEnvironment:
    """Host, versions and load of the recording, as the manifest states them."""

    host: Mapping[str, Any]
    versions: Mapping[str, str]
    workload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChannelWindows:
    """A channel in narrow windows, in columns; windows in which nothing happened are left out."""

    from_ns: tuple[int, ...]
    records: tuple[int, ...]
    buffers: tuple[int, ...]
    backlog_sum: tuple[int, ...]
    credits: tuple[int, ...]
    credit_sum: tuple[int, ...]
    backlog_max: tuple[int | None, ...]
    credit_min: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class ChannelOverTime:
    """One channel over time.

    Attributes:
        regimes: columns of one length: from_ns, width_ns, and the time in each regime.
    """

    channel: int
    window_ns: int
    windows: ChannelWindows
    regimes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class RunDetails:
    """Details for a page; `duration_ns` ends when the last record was consumed."""

    fill: FillRatios
    environment: RecordedEnvironment
    duration_ns: int
    channels_left_out: int
    channels: tuple[ChannelOverTime, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayAnswer:
    """The answer about one run, or one edge of a run with several.

    Attributes:
        channels: those that carried something; of very many those that matter most, by p99, time
            without credit, and records.
        regimes: shares of the channels' time; None where they are unknown.
        remarks: caveats, as lines.
        diagnosis: what holds the edge up, the weightiest first; empty where too little was seen.
        is_bottleneck: of one of several edges; None where that is unknown.
        bottleneck: what holds the whole run up, the same for all of its edges; None where that
            is unknown.
        flink: Flink's own metrics; None where the job is not known.
        cpu_cost: what the prices of settings take a message to cost.
        channels_left_out: how many more channels carried something.
    """

    schema_version: int = SCHEMA_VERSION
    trace: TraceDescription
    observed: Measured
    model_error: ModelError
    trade_offs: tuple[TradeOffPoint, ...]
    advice: Advice
    simulated: SimulatedPart
    messages: tuple[MessageCount, ...]
    channels: tuple[ReplayedChannel, ...]
    latency_distribution: LatencyDistribution
    regimes: Mapping[str, float] | None
    diagnosis: tuple[Bottleneck, ...]
    over_time: tuple[WindowMeasured, ...]
    remarks: tuple[str, ...]
    is_bottleneck: bool | None = None
    bottleneck: Bottleneck | None = None
    details: RunDetails | None = None
    flink: FlinkMetrics | None = None
    cpu_cost: CpuCost | None = None
    channels_left_out: int = 0
