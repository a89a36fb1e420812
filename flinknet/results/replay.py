"""The answers of a replay, in the order of their JSON: about a recorded job, and about each of its
edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .bottleneck import Bottleneck
from .measures import BacklogSummary, CreditPath, LatencyDistribution, LatencySummary, RecordTimes
from .prediction import CpuCost, JobPoint, ModelError, TradeOffPoint
from .recordings import FlinkMetrics, ReplayedRecording, TraceLoss
from .run import ChannelMeasured, Measured

SCHEMA_VERSION = 2
"""Version of the document; history: 1, the first; 2: without a knee of the frontier."""


@dataclass(frozen=True, slots=True)
class TracePart:
    """The used part of a trace, as offsets from the start of the recording, and what ended that
    early: files that are cut off, an interruption."""

    from_ns: int
    to_ns: int
    whole_ns: int
    cut: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return self.to_ns - self.from_ns == self.whole_ns


@dataclass(frozen=True, slots=True)
class TraceDescription:
    """The trace that was replayed."""

    path: str
    started_at: str
    config: Mapping[str, str]  # effective Flink keys of the recorded run
    is_max_rate: bool
    events: int
    channels: int
    measured_duration_ns: int
    damaged_files: tuple[str, ...]
    warnings: tuple[str, ...]  # those of the run itself
    edge_number: int  # number of the exchange in its job, from 1 in the direction of flow
    edge: str | None  # name of the exchange; None for the only one of a run that does not name it
    origin: str  # "run" if the run recorded itself, else the program that recorded it in between
    part: TracePart
    recordings: tuple[ReplayedRecording, ...] = ()  # those of the run, if there are several
    losses: tuple[TraceLoss, ...] = ()
    link: str | None = None  # emulated link over which the run was recorded, as text

    @property
    def is_of_run(self) -> bool:
        return self.origin == "run"


@dataclass(frozen=True, slots=True)
class Choice:
    """What to set for some targets. `next_longer_margin` is unknown, too, where the next longer
    timeout was left only because all settings are alike. `is_known` is False where no setting is
    known to meet the targets and a figure of some setting is missing, as p99 is of too few
    records."""

    targets: tuple[str, ...]
    point: int | None  # place among the predicted settings; None if none meets the targets
    is_safe: bool  # it meets them with the reserve that the model's error asks for
    margin: float | None
    nearest: int | None  # where no setting meets them, the one that misses by least
    patch: str  # keys to change, in Flink's YAML; empty if none differs from the recorded ones
    next_longer_ns: int | None = None  # the next longer timeout that was predicted
    next_longer_margin: float | None = None  # how far that one is from the limit, as `margin`
    is_known: bool = True
    recorded_margin: float | None = None  # of the recorded setting, if it keeps the limit as surely

    @property
    def settled(self) -> int | None:
        """The setting that meets the targets, or misses them by least."""
        return self.nearest if self.point is None else self.point


@dataclass(frozen=True, slots=True)
class TaskTimeouts:
    """Buffer timeouts task by task with which a job meets some targets at the least cost. `longer`
    has for each task the point with twice its timeout, and its margin; None where that was not
    tried."""

    tasks: tuple[str, ...]  # names of the tasks that send, in the direction of flow
    timeouts_ns: tuple[int, ...]
    choice: Choice  # these timeouts among the points; its patch has the call for each task
    longer: tuple[tuple[int, float | None] | None, ...]
    saved: float | None  # share of the buffers per second of the best timeout for all tasks
    settings: int  # number of settings that the search simulated
    is_ended: bool  # no timeout can be doubled; False where the search would have taken too long


@dataclass(frozen=True, slots=True)
class SituationAdvice:
    """Advice for one situation: a combination of conditions that no key of Flink changes."""

    rate_factor: float
    consumer_speed: float
    round_trip_ns: int
    flow_control: str
    is_alike: bool = False  # no setting differs from another by more than the model's error
    choice: Choice | None = None
    beyond_keys: tuple[str, ...] = ()  # changes that no key of Flink makes


@dataclass(frozen=True, slots=True)
class Advice:
    """Which of the predicted settings are worth having, as indices among `trade_offs`; `choice` is
    that of the recorded situation, or of the first. `withheld` is the reason why nothing is
    advised."""

    frontier: tuple[int, ...] = ()
    choice: Choice | None = None
    withheld: str | None = None
    situations: tuple[SituationAdvice, ...] = ()

    @property
    def choices(self) -> list[Choice]:
        """The setting chosen for the targets in each situation where settings differ."""
        return [x.choice for x in self.situations if x.choice is not None and not x.is_alike]


@dataclass(frozen=True, slots=True)
class SimulatedPart:
    """The part of the run that the prediction of the recorded setting used: windows of `window_ns`
    spread over the part of the trace that counts; a single one stands at its begin."""

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
    """One channel of a trace: shares of its time by regime, None where they are unknown; a name
    such as `Enrich (3/8) → Sink (1/4)`, None where its tasks have none."""

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
class ChannelOverTime:
    """One channel over time, in columns of one length each: of narrow windows, those in which
    nothing happened left out, and of `regimes`, with from_ns, width_ns, and the time in each."""

    channel: int
    window_ns: int
    windows: Mapping[str, tuple[int | None, ...]]
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
class EdgeAnswer:
    """The answer about one edge of a job: all of a run that has no other. Of very many channels it
    has those that matter most, by p99, time without credit, and records."""

    schema_version: int = SCHEMA_VERSION
    trace: TraceDescription
    observed: Measured
    model_error: ModelError
    trade_offs: tuple[TradeOffPoint, ...]
    advice: Advice
    simulated: SimulatedPart
    messages: tuple[MessageCount, ...]
    channels: tuple[ReplayedChannel, ...]  # those that carried something
    latency_distribution: LatencyDistribution
    regimes: Mapping[str, float] | None  # shares of the channels' time; None where unknown
    diagnosis: tuple[Bottleneck, ...]  # the weightiest first; empty where too little was seen
    over_time: tuple[WindowMeasured, ...]
    remarks: tuple[str, ...]
    is_bottleneck: bool | None = None  # whether this one holds the job up; None where unknown
    bottleneck: Bottleneck | None = None  # the verdict on the whole run, equal for all of its edges
    details: RunDetails | None = None
    flink: FlinkMetrics | None = None  # Flink's own metrics; None where the job is not known
    cpu_cost: CpuCost | None = None  # cost of a message behind the prices of settings
    channels_left_out: int = 0  # number of the others
    record_times: RecordTimes | None = None  # None where no element of a capture has any
    credit: tuple[CreditPath, ...] = ()  # by pair of TaskManagers with recorded round trips

    @property
    def alone(self) -> JobAnswer:
        """The exchange by itself, as a job of this one edge."""
        seen = self.observed
        return JobAnswer(
            path=self.trace.path,
            edges=() if self.trace.edge is None else (self.trace.edge,),
            observed=JobObserved(
                seen.throughput_records_per_s,
                seen.latency_ns,
                seen.buffers_per_s if seen.duration_ns else None,
            ),
            model_error=self.model_error,
            points=tuple(map(JobPoint.of, self.trade_offs)),
            simulated_ns=self.simulated.window_ns,
            is_whole=self.simulated.is_whole,
            cpu_cost=self.cpu_cost,
            advice=self.advice,
            answers=(self,),
        )


TAKEN_ALONE = (
    "predictions for this edge alone take its records to come as recorded under any setting; the"
    " job from end to end counts what other settings do to the edges before it"
)
"""Remark on an edge behind another one."""


@dataclass(frozen=True, slots=True)
class JobObserved:
    """The job as recorded: records that left it, and buffers over all edges; None where the trace
    does not contain them."""

    throughput_records_per_s: float | None
    latency_ns: LatencySummary
    buffers_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAnswer:
    """The answer about a recorded job; an exchange by itself is a job of one edge."""

    path: str
    edges: tuple[str, ...]  # names, in the direction of flow; empty where the only one has none
    edge_numbers: tuple[int, ...] = ()  # their numbers; empty for an exchange by itself
    feeding: tuple[int | None, ...] = ()  # place of the edge before each; empty for one edge
    observed: JobObserved
    model_error: ModelError  # error on the recorded setting, where it was observed
    points: tuple[JobPoint, ...]
    simulated_ns: int  # length of the simulated part, for each phase
    is_whole: bool  # whether that is all of the part that is used
    notes: tuple[str, ...] = ()  # assumptions, as lines
    cpu_cost: CpuCost | None = None  # cost of a message behind the price of each setting
    advice: Advice = Advice()
    by_task: TaskTimeouts | None = None  # that meet the targets; None: not searched
    answers: tuple[EdgeAnswer, ...] = ()  # one for each recorded edge, in the direction of flow

    @property
    def is_exchange(self) -> bool:
        """Whether it is one exchange by itself, with predictions for it alone."""
        return not self.feeding

    @property
    def choice(self) -> Choice | None:
        """The setting that meets the targets; None where nothing is advised."""
        return self.advice.choice

    def costs_no_more(self, choice: Choice) -> bool:
        """Whether a choice is known to take no more buffers per second than the recorded
        setting."""
        recorded = next((each.buffers_per_s for each in self.points if each.is_recorded), None)
        own = None if choice.point is None else self.points[choice.point].buffers_per_s
        return own is not None and recorded is not None and own <= recorded

    def lacks_tail(self, choice: Choice) -> bool:
        """Whether a target bounds p99 or more, and the model is too far off in that alone."""
        bounds_tail = any(each.lstrip().startswith(("p99", "max")) for each in choice.targets)
        return self.model_error.is_tail_off and bounds_tail

    @property
    def edge_titles(self) -> list[str]:
        return [f"{each} {name}" for each, name in zip(self.edge_numbers, self.edges, strict=True)]
