"""Recordings that make up a run, known losses, Flink's own metrics while they were recorded, and
the answer of `trace watch` about the newest part of those that are being written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .measures import BacklogSummary

SAME_CLOCK, MESSAGES, WALL_CLOCKS, ASSUMED = "same clock", "messages", "wall clocks", "assumed"
BASES = (SAME_CLOCK, MESSAGES, WALL_CLOCKS, ASSUMED)
"""Relations of two clocks, the surest first: recorded on one host; by messages that both recorded;
by the wall clocks of the hosts; by the assumption that their data began at the same time."""


@dataclass(frozen=True, slots=True)
class ClockRelation:
    """Relation of the clock of a recording to that of the first one, with one of BASES: the offset
    to add to its instants, and the largest error of that; None if unknown."""

    basis: str
    offset_ns: int
    error_ns: int | None


@dataclass(frozen=True, slots=True)
class ReplayedRecording:
    """One of several recordings that make up a run. Instants of its first and last data buffer are
    from the start of the measured part of the run, None without data."""

    path: str
    label: str  # name among them
    started_at: str
    channels: int
    channels_counted: int  # channels that count here, because no other recording has more of them
    from_ns: int | None
    to_ns: int | None
    clock: ClockRelation


@dataclass(frozen=True, slots=True)
class TraceLoss:
    """A known loss of a trace, such as dropped_events; damaged_blocks, damaged_file and left_out
    are losses that `--on-damage skip` allowed."""

    path: str  # path of the recording
    file: str | None  # None for all of its files
    kind: str
    count: int | None  # size of the loss; None if unknown
    text: str


@dataclass(frozen=True, slots=True)
class RecordingSet:
    """Recordings in the directory `path` that make up one run, with the numbers of its channels and
    exchanges, and the time from its first data buffer to the last one; None without data."""

    path: str
    recordings: tuple[ReplayedRecording, ...]
    channels: int
    edges: int
    duration_ns: int | None
    losses: tuple[TraceLoss, ...]


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """One subtask, over the used part of the trace; None where nothing was reported. Pool usages
    and the length of the input queues are means of the reports, the first three shares of the
    time."""

    name: str
    task_manager: str | None
    busy: float | None
    idle: float | None
    back_pressured: float | None
    records_in_per_s: float | None
    records_out_per_s: float | None
    in_pool_usage: float | None
    out_pool_usage: float | None
    input_queue_buffers: float | None = None


@dataclass(frozen=True, slots=True)
class VertexMetrics:
    """One vertex: means of shares and sums of rates over its tasks; None unless all reported it."""

    name: str
    parallelism: int
    busy: float | None
    idle: float | None
    back_pressured: float | None
    records_in_per_s: float | None
    records_out_per_s: float | None
    tasks: tuple[TaskMetrics, ...]


@dataclass(frozen=True, slots=True)
class TaskManagerMetrics:
    """One TaskManager: cores that its process used, segments of its network memory, and how many of
    them were used, on average."""

    name: str
    cpu_cores: float | None
    network_segments: int | None
    network_segments_used: float | None


@dataclass(frozen=True, slots=True)
class EdgeShare:
    """The part of an edge that a trace from between TaskManagers has: local channels are never on
    the wire. `recorded_share` of the records of the whole edge are in the trace;
    `local_bytes_share` of the bytes that its consumers read came on local channels."""

    channels: int | None
    local_channels: int | None
    records_per_s: float | None
    recorded_share: float | None
    local_bytes_share: float | None


@dataclass(frozen=True, slots=True)
class FlinkMetrics:
    """Flink's own metrics of the two vertices of an edge, for the first edge of a job also of those
    at no recorded edge, and of all TaskManagers."""

    vertices: tuple[VertexMetrics, ...]
    task_managers: tuple[TaskManagerMetrics, ...]
    share: EdgeShare


@dataclass(frozen=True, slots=True)
class LatencyBounds:
    """Bounds of two percentiles of the latency, in ns, and the number of records behind them; None
    where no bound is known.

    For a run that recorded itself both bounds are the latency until a record was consumed. Between
    processes there is an upper one for the time until it passed the tap: a record came after the
    buffer before it had left, and within the buffer timeout where that is known. `until` is
    consumed or recorded.
    """

    until: str
    records: int
    p50_min_ns: float | None
    p50_max_ns: float | None
    p99_min_ns: float | None
    p99_max_ns: float | None


@dataclass(frozen=True, slots=True)
class WatchedEdge:
    """An edge in the newest part of a run: ends of the part by the clock of the trace; shares of
    the time of the channel that waited most for credit, and behind a barrier, None without a
    channel; the limit of the edge in a word (`verdict`) and in a sentence. Records per second are
    as in a replay; where some channels are local, those of all channels by Flink's counters, if it
    has them. Others are as of TraceDescription and EdgeAnswer."""

    run: str
    edge_number: int
    edge: str | None
    from_ns: int
    to_ns: int
    channels: int
    records: int
    records_per_s: float
    bytes_per_s: float
    latency: LatencyBounds
    backlog_buffers: BacklogSummary
    regimes: Mapping[str, float] | None
    starved: float | None
    blocked: float | None
    verdict: str
    share: float
    why: str
    is_bottleneck: bool | None
    behind_ns: int = 0  # records that passed are known for so much longer, and count per second
    local_channels: int = 0  # whose records are counted, too
    uncounted_channels: int = 0  # local ones whose records nobody counts


@dataclass(frozen=True, slots=True)
class WatchLook:
    """All runs at one moment."""

    events: int  # number of those that have been written so far
    edges: tuple[WatchedEdge, ...]
    bottlenecks: Mapping[str, str]  # limit of each job, in words, by run
    waiting: Mapping[str, str]  # runs without a result yet, with the reason
    has_ended: bool = False  # all runs have, and no more begin in their directory
