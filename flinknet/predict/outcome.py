"""Outcomes of predictions: of an edge, of a job from end to end, and of its checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.histogram import LogLinearHistogram
from flinknet.results import BacklogSummary, CheckpointSummary, LatencySummary

PHASES = 8
"""Number of times that a job is computed of which something is unknown, such as when records came
and how long messages were on their way."""

T_OF_DRAWS = 2.01
"""Factor of the 90% prediction interval: standard deviations of PHASES values that hold the next
one in nine cases of ten (Student's t with 7 degrees of freedom, times sqrt(1 + 1/8))."""

RANGES_OF_PHASES = (
    "ranges: 90% intervals over the phases of flushers, and where the trace does not show when"
    " records came, over draws of that"
)

MODEL_SHARE = 0.1
"""Share that the model is off by where nothing is left open, chosen so that about nine of ten
intervals hold for jobs on a real Flink (`bench/flink/jobs.py`); for taps of flinknet's own runs
0.04 would do (`bench/arrival_intervals.py`)."""

MODEL_NS = 50_000
"""Latency that the model is off by at least: threads wake sooner where messages are frequent, by
about as much."""

BEHIND_UNKNOWN = "what comes to it is unknown, because the edge before it is unknown"
SEVERAL_INPUTS = "its task has {} inputs, and which of them its records follow is unknown"
NO_RECORDS = "the trace has no instants of its records"
SATURATED = (
    "saturated: it can carry only {:.0%} of the load, so its producers wait for buffers, and"
    " everything upstream waits, too; the latency in that state was not recorded"
)
SATURATED_AT_TIMES = (
    "its producers wait for buffers at times, and everything upstream waits, too; the latency at"
    " these times cannot be predicted"
)
FALLS_BEHIND = (
    "its producers wait for buffers, and with its neighbors it falls behind what comes; how long"
    " records wait then depends on how long the job runs"
)
HELD_UP = "another edge of the job is saturated and holds this one up"
SHARES_CONNECTIONS = (
    "without credit its connections are not read at times, and other edges share them: how these"
    " hold each other up cannot be predicted"
)
NO_MODEL = (
    "this is predicted only for an exchange by itself and in short parts (--details, --max-records)"
)
"""Ends the reason of an exchange that the compiled model does not know."""


def has_no_model(why: str | None) -> bool:
    """Whether an edge is unknown because the compiled model does not know such exchanges."""
    return why is not None and why.endswith(NO_MODEL)


def is_pressure(why: str) -> bool:
    """Whether an edge is unknown because producers wait for buffers, on it or on another edge."""
    known = (SATURATED_AT_TIMES, FALLS_BEHIND, HELD_UP, SHARES_CONNECTIONS)
    return why in known or why.startswith("saturated: ")


_SUMS = (
    *("triggered", "completed", "aborted", "unaligned"),
    *("processed_bytes", "overtaken_bytes"),
)
_LATENCIES = tuple(each.name for each in fields(LatencySummary) if each.name != "count")

_SENT, _WRITER_RESUMES = int(TracePoint.SENT), int(TracePoint.WRITER_RESUMES)
_BUFFER_RESPONSE, _ADD_CREDIT = int(MessageKind.BUFFER_RESPONSE), int(MessageKind.ADD_CREDIT)


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a simulation, delays of the machine included."""

    latency_ns: LatencySummary
    buffers_per_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointTimes:
    """Numbers and times of checkpoints; adds up."""

    triggered: int
    completed: int
    aborted: int
    unaligned: int
    processed_bytes: int  # data that consumers read between the first and the last barrier
    overtaken_bytes: int  # data that barriers overtook, of all together
    overtaken_bytes_max: int  # and most of one
    times: tuple[LogLinearHistogram, ...]  # checkpoints, start delays, alignments, barriers' travel

    def summary(self) -> CheckpointSummary:
        """The summary that a coordinator would give."""
        duration, start_delay, alignment, travel = (each.summary() for each in self.times)
        completed = self.completed
        return CheckpointSummary(
            triggered=self.triggered,
            completed=completed,
            aborted=self.aborted,
            unaligned=self.unaligned,
            duration_ns=duration,
            start_delay_ns=start_delay,
            alignment_ns=alignment,
            travel_ns=travel,
            overtaken_bytes_mean=self.overtaken_bytes / completed if completed else None,
            overtaken_bytes_max=self.overtaken_bytes_max if completed else None,
            processed_bytes_mean=self.processed_bytes / completed if completed else None,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Outcome of an edge, alone or in its job, or of a job from end to end.

    Latency counts from the intended instant of a record, or when it came to the edge or the job,
    until it was consumed; at the highest rate from when it was emitted. Predictions of jobs include
    the delays of the machine, simulations of exchanges do not. An exchange alone lasts until the
    last record was consumed, less one buffer timeout, and at least for the length of the window; at
    the highest rate until the last record was consumed.
    """

    latency: LogLinearHistogram = field(default_factory=LogLinearHistogram)
    records: int = 0
    messages: int | None = None  # data buffers, of taps between TaskManagers; None if unknown
    duration_ns: int = 0  # virtual time that records and messages count over; 0 if unknown
    backlog_buffers: BacklogSummary = field(default_factory=lambda: BacklogSummary(None, None))
    memory_bytes: int | None = None  # most that all partitions and gates take; None if unknown
    credits: int = 0
    method: str = "simulator"
    checkpoints: CheckpointTimes | None = None  # None also where they are not simulated
    since_source: LogLinearHistogram = field(default_factory=LogLinearHistogram)  # of edges in jobs
    why_unknown: str | None = None  # reason; None if known. A saturated job's throughput is known
    phases: tuple[Outcome, ...] = ()  # in each phase of the flushers; of jobs and their edges
    edges: tuple[Outcome, ...] = ()  # of a job; empty for an edge
    ends: tuple[int, ...] = ()  # places of the edges that lead out of the job

    @property
    def likely(self) -> tuple[Figures, Figures] | None:
        """Ends of the 90% interval over the phases; None without them, and where figures are
        unknown."""
        if len(self.phases) < PHASES or self.why_unknown is not None:
            return None
        return likely_range(
            *(Figures(each.latency.summary(), each.buffers_per_s) for each in (self, *self.phases))
        )

    @property
    def throughput_records_per_s(self) -> float | None:
        """Records consumed per second of virtual time; of a job, on the edges that lead out."""
        if self.edges:
            rates = [self.edges[n].throughput_records_per_s for n in self.ends]
            return None if None in rates else sum(each or 0.0 for each in rates)
        return self.records * 1e9 / self.duration_ns if self.duration_ns > 0 else None

    @property
    def buffers_per_s(self) -> float | None:
        """Data buffers sent per second of virtual time; of a job, on all edges."""
        if self.edges and self.why_unknown is None:
            return sum(each.buffers_per_s or 0.0 for each in self.edges)
        if self.messages is None or self.duration_ns <= 0:
            return None
        return self.messages * 1e9 / self.duration_ns


def outcome_of_job(
    edges: Sequence[Outcome], ends: tuple[int, ...], latency: LogLinearHistogram
) -> Outcome:
    """The outcome of a job, with the places of the edges that lead out of it, and its latency from
    end to end, which is left out where an edge is unknown."""
    whys = [each.why_unknown for each in edges]
    if any(whys):
        others = (why for why in reversed(whys) if why not in (None, BEHIND_UNKNOWN, HELD_UP))
        return Outcome(edges=tuple(edges), ends=ends, why_unknown=next(others, None))
    return Outcome(
        latency,
        sum(each.records for each in edges),
        memory_bytes=sum(each.memory_bytes or 0 for each in edges),
        method="kernel",
        edges=tuple(edges),
        ends=ends,
    )


def joined(parts: Sequence[Outcome]) -> Outcome:
    """The outcome of several windows or phases together, in each of their phases, too."""
    first = parts[0]
    if len(parts) == 1:
        return first
    phases = tuple(map(joined, zip(*(each.phases for each in parts), strict=False)))
    if first.edges:
        edges = [joined([each.edges[n] for each in parts]) for n in range(len(first.edges))]
        found = outcome_of_job(edges, first.ends, merged([each.latency for each in parts]))
        return replace(found, phases=phases)
    records = sum(each.records for each in parts)
    duration_ns = sum(each.duration_ns for each in parts)
    why = next((each.why_unknown for each in parts if each.why_unknown), None)
    if why is not None:
        return Outcome(records=records, duration_ns=duration_ns, why_unknown=why)
    messages = sum(each.messages or 0 for each in parts)
    backlog = sum((each.backlog_buffers.mean or 0.0) * (each.messages or 0) for each in parts)
    most = [each.backlog_buffers.max for each in parts if each.backlog_buffers.max is not None]
    of_windows = parts if first.phases else parts[:1]  # in each phase they are the same ones
    checkpoints = [each.checkpoints for each in of_windows if each.checkpoints is not None]
    return Outcome(
        merged([each.latency for each in parts]),
        records,
        messages,
        duration_ns,
        BacklogSummary(backlog / messages if messages else None, max(most, default=None)),
        max((each.memory_bytes for each in parts if each.memory_bytes is not None), default=None),
        sum(each.credits for each in parts),
        next((each.method for each in parts if each.records), first.method),
        added_checkpoints(checkpoints) if checkpoints else None,
        merged([each.since_source for each in parts]),
        phases=phases,
    )


def added_checkpoints(parts: Sequence[CheckpointTimes]) -> CheckpointTimes:
    """The times of several parts of an exchange together."""
    return CheckpointTimes(
        **{name: sum(getattr(each, name) for each in parts) for name in _SUMS},
        overtaken_bytes_max=max(each.overtaken_bytes_max for each in parts),
        times=tuple(merged(own) for own in zip(*(each.times for each in parts), strict=True)),
    )


def merged(latencies: Sequence[LogLinearHistogram]) -> LogLinearHistogram:
    latency = LogLinearHistogram()
    for each in latencies:
        latency.merge(each)
    return latency


def likely_range(predicted: Figures, *drawn: Figures) -> tuple[Figures, Figures]:
    """Ends of the interval around a prediction, from the figures of phases or draws."""
    low: dict[str, float | None] = {}
    high: dict[str, float | None] = {}
    for name in _LATENCIES:
        value, *others = (getattr(each.latency_ns, name) for each in (predicted, *drawn))
        below, above = _range(value, others)
        low[name] = None if below is None else max(below - MODEL_NS, 0.0)
        high[name] = None if above is None else above + MODEL_NS
    buffers = _range(predicted.buffers_per_s, [each.buffers_per_s for each in drawn])
    known: Any = predicted.latency_ns
    ends = zip((low, high), buffers, strict=True)
    first, last = (Figures(replace(known, **own), of_buffers) for own, of_buffers in ends)
    return first, last


def _range(value: float | None, drawn: Sequence[float | None]) -> tuple[float | None, float | None]:
    """The ends for one figure, as shares of the prediction; figures vary by factors."""
    values = [each for each in drawn if each is not None and each > 0]
    if not value or len(values) < len(drawn):
        return value, value
    logs = np.log(np.array(values) / value)
    reach = np.hypot(T_OF_DRAWS * logs.std(ddof=1), np.log1p(MODEL_SHARE))
    low, high = logs.mean() - reach, logs.mean() + reach
    return value * float(np.exp(min(low, 0.0))), value * float(np.exp(max(high, 0.0)))


class BacklogProbe:
    """A Probe that keeps the backlog of data messages, how much credit came, and when a writer last
    went on that had waited for buffers."""

    def __init__(self) -> None:
        self.messages = self.backlog_total = self.credits = self.resumed_ns = 0
        self.backlog_max: int | None = None

    def record(self, at_ns: int, _channel: int, point: int, kind: int, *rest: int) -> None:
        """Count a data message or an AddCredit that was sent; note a writer that goes on."""
        data_type, backlog_buffers, credit_before = rest[0], rest[7], rest[8]
        if point == _SENT and kind == _BUFFER_RESPONSE and data_type in IS_BUFFER:
            self.messages += 1
            self.backlog_total += backlog_buffers
            self.backlog_max = max(backlog_buffers, self.backlog_max or 0)
        elif point == _SENT and kind == _ADD_CREDIT:
            self.credits += credit_before
        elif point == _WRITER_RESUMES:
            self.resumed_ns = at_ns

    def summary(self) -> BacklogSummary:
        mean = self.backlog_total / self.messages if self.messages else None
        return BacklogSummary(mean, self.backlog_max)
