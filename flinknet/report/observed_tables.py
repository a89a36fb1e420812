"""Observed figures as parts of a view: totals, time, messages, channels, edges, runs, and metrics
of Flink itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from flinknet.results import (
    FlinkMetrics,
    LatencyDistribution,
    MessageCount,
    ReplayAnswer,
    ReplayedChannel,
    TaskMetrics,
    VertexMetrics,
    WindowMeasured,
)
from flinknet.units import (
    MISSING,
    human_bytes,
    human_change,
    human_count,
    human_duration,
    human_number,
    human_share,
)

from .charts import Bar, BarPart, Bars, OverTime, TimeSeries
from .model_error import observed_part
from .page_parts import Head, Part, Row, Table
from .settings_in_words import timeout_text
from .small_plots import DISTRIBUTION_MARKS, distribution_line

CHANNELS_SHOWN = 16
"""Channels in the table by channel: those with the highest p99 if there are more."""

_COUNTED_KINDS = ("DATA_BUFFER", "ADD_CREDIT")

_LATENCIES = ("min", "p50", "p90", "p99", "p99_9", "max")

FULL = (
    "full: a buffer that left because its segment was full; it may carry few bytes where earlier"
    " flushes had sent the rest of the segment"
)

REGIMES = (
    BarPart("waiting_for_flush", "waiting for flush", "blue", "The oldest record lay in a buffer"
            " that was neither full nor flushed, or that waited for its producer's turn."),
    BarPart("waiting_for_credit", "waiting for credit", "orange",
            "Records were ready to leave, but the receiver had no free buffer."),
    BarPart("blocked_by_alignment", "blocked by alignment", "purple",
            "Records waited behind a checkpoint barrier whose alignment went on."),
    BarPart("in_socket", "in the socket", "green",
            "The oldest record was handed to the transport and not decoded yet."),
    BarPart("in_receiver_queue", "in the receiver's queue", "gold",
            "The oldest record was received, and its consumer was not done with it."),
    BarPart("idle", "idle", "grey", "No record was on its way."),
)  # fmt: skip
"""Parts of a channel's time."""


def heads(*names: str, texts: Sequence[str] = ()) -> list[Head]:
    """Headings; those of texts may be folded."""
    return [Head(name, is_text=name in texts) for name in names]


def regime_bars(shares: Mapping[str, Mapping[str, float] | None], title: str = "") -> list[Bars]:
    """A bar for each name that has shares of time; nothing without any."""
    known = [Bar(name, each) for name, each in shares.items() if each and any(each.values())]
    return [Bars(title, REGIMES, known)] if known else []


def observed_parts(answer: ReplayAnswer) -> list[Part]:
    """Figures of an exchange, a line each, and its time."""
    observed = answer.observed
    shares = ", ".join(f"{count:,} {why}" for why, count in asdict(observed.flushes).items())
    credits = observed.credits
    rows = {
        "records": f"{observed.records:,} in {human_duration(observed.duration_ns)}",
        "throughput": f"{human_count(observed.throughput_records_per_s)} records/s,"
        f" {human_bytes(observed.throughput_bytes_per_s)}/s",
        "latency": "  ".join(
            f"{name.replace('_', '.')} {human_duration(getattr(observed.latency_ns, name))}"
            for name in _LATENCIES
        ),
        "buffers": f"{observed.buffers:,} data ({shares}), {observed.events:,} events",
        "backlog": f"mean {human_number(observed.backlog_buffers.mean)}, max"
        f" {human_number(observed.backlog_buffers.max)}"
        f" buffer{'' if observed.backlog_buffers.max == 1 else 's'}",
        "credit": f"{credits.announced:,} in {credits.messages:,} messages; "
        + (
            "how long data waited for it is unknown"
            if credits.starved_ns is None
            else f"starved for {human_duration(credits.starved_ns)}, summed over channels"
        ),
    }
    if not answer.trace.is_of_run:
        rows["latency"] = "unknown: messages between processes do not show when records came"
    if answer.latency_distribution.records:
        rows["distribution"] = _distribution_line(answer.latency_distribution)
    notes = [FULL] if observed.flushes.full and observed.flushes.timeout else []
    title = f"observed {observed_part(answer)}"
    table = Table(heads("", "", texts=[""]), list(map(Row, rows.items())), title, notes)
    return [table, *regime_bars({"": answer.regimes}, "time")]


def _distribution_line(distribution: LatencyDistribution) -> str:
    line = distribution_line(distribution, DISTRIBUTION_MARKS)
    low, high = distribution.low_ns[0], distribution.high_ns[-1]
    return f"{human_duration(low)} {line} {human_duration(high)}"


def channel_parts(answer: ReplayAnswer, wanted: Sequence[int] | None) -> list[Part]:
    """A row for each channel, or for the slowest ones, and their time."""
    channels: Sequence[ReplayedChannel] = answer.channels
    if wanted is not None:
        shown = [row for row in channels if row.channel in wanted]
    else:
        slowest = sorted(channels, key=lambda row: -(row.latency_ns.p99 or 0))
        shown = sorted(slowest[:CHANNELS_SHOWN], key=lambda row: row.channel)
    left_out = len(channels) - len(shown) + answer.channels_left_out
    title = "by channel" + (f" ({left_out:,} more not shown)" if left_out else "")
    names = {row.channel: _ends_of(row) for row in shown}
    rows = [
        Row(
            [
                str(row.channel),
                names[row.channel],
                human_count(row.throughput_records_per_s),
                human_duration(row.latency_ns.p50),
                human_duration(row.latency_ns.p99),
                human_number(row.backlog_buffers.mean),
                human_number(row.backlog_buffers.max),
                human_duration(row.starved_ns),
                *(f"{row.messages.get(kind, 0):,}" for kind in _COUNTED_KINDS),
            ]
        )
        for row in shown
    ]
    columns = ("records/s", "p50", "p99", "backlog", "max", "starved", "data", "credit")
    table = Table(heads("channel", "from → to", *columns), rows, title, keys=2)
    bars = regime_bars(
        {f"{n} {names[n]}": row.regimes for n, row in zip(names, shown, strict=True)}
    )
    return [table, *bars]


def _ends_of(row: ReplayedChannel) -> str:
    ends = (str(each) if each >= 0 else "?" for each in (row.producer, row.consumer))
    return row.name or " → ".join(ends)


def diagnosis_table(own: Sequence[ReplayAnswer]) -> Table:
    """A row for each verdict on an edge."""
    rows = [
        Row([each.edge or "", each.cause.value, human_share(each.share), each.text])
        for answer in own
        for each in answer.diagnosis
    ]
    columns = heads("edge", "verdict", "share", "why", texts=["verdict", "why"])
    return Table(columns, rows, "what limits each edge")


def over_time(windows: Sequence[WindowMeasured]) -> OverTime:
    """Throughput and backlog over time."""
    at_ns = [each.from_ns for each in windows]
    rates = [each.throughput_records_per_s for each in windows]
    means = [each.backlog_buffers.mean for each in windows]
    series = [
        TimeSeries("records/s", at_ns, rates),
        TimeSeries("mean backlog", at_ns, means, "orange"),
    ]
    return OverTime("over time", series)


def messages_table(messages: Sequence[MessageCount]) -> Table:
    """A row for each kind of message."""
    rows = [
        Row(
            [
                each.kind,
                f"{each.messages:,}",
                human_bytes(each.payload_bytes) if each.payload_bytes else MISSING,
            ]
        )
        for each in messages
    ]
    return Table(heads("kind", "messages", "payload"), rows, "messages by kind")


def runs_table(answers: Sequence[ReplayAnswer]) -> Table:
    """A row for each run."""
    rows = []
    for answer in answers:
        observed, error = answer.observed, answer.model_error
        cells = [
            answer.trace.path.rstrip("/").rsplit("/", 1)[-1],
            timeout_text(answer.trace.config),
            human_count(observed.throughput_records_per_s),
            human_duration(observed.latency_ns.p50),
            human_duration(observed.latency_ns.p99),
            human_number(observed.backlog_buffers.mean),
            human_number(observed.backlog_buffers.max),
            human_count(observed.buffers_per_s),
            *(human_change(each) for each in (error.throughput, error.p50, error.p99)),
        ]
        rows.append(Row(cells))
    figures = ("records/s", "p50", "p99", "backlog", "max", "buffers/s")
    errors = (f"error {name}" for name in ("throughput", "p50", "p99"))
    return Table(heads("run", "timeout", *figures, *errors), rows)


def edges_table(answers: Sequence[ReplayAnswer]) -> Table:
    """A row for each edge of a job: what went over it, and what its channels waited for."""
    rows = []
    for answer in answers:
        observed = answer.observed
        seconds_of_channels = observed.duration_ns * answer.trace.channels
        cells = [
            f"{answer.trace.edge_number} {answer.trace.edge or ''}",
            f"{answer.trace.channels:,}",
            human_count(observed.throughput_records_per_s),
            human_count(observed.buffers_per_s),
            _part_of(observed.flushes.full, observed.buffers),
            human_number(observed.backlog_buffers.mean),
            human_number(observed.backlog_buffers.max),
            _part_of(observed.credits.starved_ns, seconds_of_channels),
            _verdict(answer),
        ]
        rows.append(Row(cells, is_strong=bool(answer.is_bottleneck)))
    names = ("channels", "records/s", "buffers/s", "full", "backlog", "max", "starved", "verdict")
    return Table(heads("edge", *names, texts=["verdict"]), rows, "as recorded")


def _verdict(answer: ReplayAnswer) -> str:
    if not answer.diagnosis:
        return ""
    cause, share = answer.diagnosis[0].cause.value, answer.diagnosis[0].share
    return f"{cause}, {share:.0%}" if share else cause


def _part_of(part: float | None, whole: float) -> str:
    return f"{part / whole:.0%}" if whole and part is not None else MISSING


_SHARES = ("busy", "idle", "back_pressured")
_RATES = ("records_in_per_s", "records_out_per_s")
_USAGES = ("in_pool_usage", "out_pool_usage")


def flink_table(vertices: Iterable[VertexMetrics]) -> Table:
    """A row for each vertex: means over its tasks, and the worst of them where they differ."""
    rows = [
        Row(
            [
                vertex.name,
                str(vertex.parallelism),
                *(_share_cell(vertex, name) for name in _SHARES),
                *(human_count(getattr(vertex, name)) for name in _RATES),
                *(human_share(_highest(vertex.tasks, name)) for name in _USAGES),
            ]
        )
        for vertex in vertices
    ]
    names = ("tasks", "busy", "idle", "back-pressured", "in/s", "out/s", "in pool", "out pool")
    title = "Flink's own metrics: mean over tasks (highest task)"
    return Table(heads("vertex", *names), rows, title)


def flink_lines(flink: FlinkMetrics) -> list[str]:
    """Local traffic, which no trace shows, and what TaskManagers used."""
    lines = []
    if flink.share.local_bytes_share is not None:
        lines.append(f"local: {flink.share.local_bytes_share:.0%} of the bytes that consumers read")
    known = [each for each in flink.task_managers if each.cpu_cores is not None]
    if known:
        cores = ", ".join(f"{each.name} {each.cpu_cores:.2f}" for each in known)
        lines.append(f"CPU, in cores: {cores}")
    return lines


def _share_cell(vertex: VertexMetrics, name: str) -> str:
    mean, highest = getattr(vertex, name), _highest(vertex.tasks, name)
    if mean is None or highest is None or f"{mean:.0%}" == f"{highest:.0%}":
        return human_share(mean)
    return f"{mean:.0%} ({highest:.0%})"


def _highest(tasks: Iterable[TaskMetrics], name: str) -> float | None:
    return max((each for task in tasks if (each := getattr(task, name)) is not None), default=None)
