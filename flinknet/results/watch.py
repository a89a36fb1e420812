"""The view of `trace watch`: the newest part of traces that are being written, edge by edge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .measures import BacklogSummary


@dataclass(frozen=True, slots=True)
class LatencyBounds:
    """Between what two percentiles of the latency lie, in ns; None where no bound is known.

    Of a run that recorded itself both bounds are the latency until a record was consumed. Between
    processes there is an upper one for the time until it passed the tap: a record came after the
    buffer before it had left, and within the buffer timeout where that is known.

    Attributes:
        until: consumed or recorded.
        records: that were counted.
    """

    until: str
    records: int
    p50_min_ns: float | None
    p50_max_ns: float | None
    p99_min_ns: float | None
    p99_max_ns: float | None


@dataclass(frozen=True, slots=True)
class WatchedEdge:
    """An edge in the newest part of a run.

    Attributes:
        run: name of the run directory.
        edge_number: number of the edge in its job, from 1 in the direction of flow.
        edge: its name; None for the only edge of a run that does not name it.
        from_ns, to_ns: the part, by the clock of the trace.
        regimes: shares of the channels' time; None where they are unknown.
        starved, blocked: shares of the time of the channel that waited most for credit, and behind
            a barrier; None without a channel.
        verdict, why: what limits the edge, in a word and in a sentence.
        is_bottleneck: of the job; None where that is unknown.
    """

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


@dataclass(frozen=True, slots=True)
class WatchLook:
    """All runs at one moment.

    Attributes:
        batch: number of the micro-batch that brought the newest events; None before the first.
        events: number of events of all micro-batches.
        bottlenecks: limit of each job, in words, by run.
        waiting: runs without a result yet, with the reason.
    """

    batch: int | None
    events: int
    edges: tuple[WatchedEdge, ...]
    bottlenecks: Mapping[str, str]
    waiting: Mapping[str, str]
