"""Tables of observed figures: over time, by kind of message, by edge, by run, and by vertex with
Flink's own metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from rich.markup import escape
from rich.table import Table

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
    human_rate,
    human_share,
)

from .model_error import observed_part
from .settings_in_words import timeout_text
from .small_plots import (
    DISTRIBUTION_MARKS,
    distribution_line,
    regime_legend,
    sparkline,
    split_bar,
)

CHANNELS_SHOWN = 16
"""Channels in the table by channel: those with the highest p99 if there are more."""

BAR_MARKS = 10

_COUNTED_KINDS = ("DATA_BUFFER", "ADD_CREDIT")

_LATENCIES = ("min", "p50", "p90", "p99", "p99_9", "max")

OVER_TIME_MARKS = 80
"""Marks of a plot at most; where there is less room, windows share a mark."""

FULL = (
    "full: a buffer that left because its segment was full; it may carry few bytes where earlier"
    " flushes had sent the rest of the segment"
)

_REST_OF_ROW = 32
"""Columns that the names and the largest value take."""


def observed_table(answer: ReplayAnswer) -> Table:
    """Figures of an exchange, a line each."""
    observed = answer.observed
    table = _table(f"observed {observed_part(answer)}")
    table.add_column("what")
    table.add_column("value")
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
    for name, value in rows.items():
        table.add_row(name, value)
        if name == "buffers" and observed.flushes.full and observed.flushes.timeout:
            table.add_row("", f"[dim]{FULL}[/dim]")
        if name == "latency" and answer.latency_distribution.records:
            table.add_row("", _distribution_line(answer.latency_distribution))
    if answer.regimes and any(answer.regimes.values()):
        table.add_row("time", split_bar(answer.regimes))
        table.add_row("", regime_legend(answer.regimes))
    return table


def _distribution_line(distribution: LatencyDistribution) -> str:
    line = distribution_line(distribution, DISTRIBUTION_MARKS)
    low, high = distribution.low_ns[0], distribution.high_ns[-1]
    return f"{human_duration(low)} {line} {human_duration(high)}"


def channels_table(answer: ReplayAnswer, wanted: Sequence[int] | None) -> Table:
    """A row for each channel, or for the slowest ones."""
    channels: Sequence[ReplayedChannel] = answer.channels
    if wanted is not None:
        shown = [row for row in channels if row.channel in wanted]
    else:
        slowest = sorted(channels, key=lambda row: -(row.latency_ns.p99 or 0))
        shown = sorted(slowest[:CHANNELS_SHOWN], key=lambda row: row.channel)
    left_out = len(channels) - len(shown) + answer.channels_left_out
    table = _table("by channel" + (f" ({left_out:,} more not shown)" if left_out else ""))
    table.add_column("channel", justify="right", no_wrap=True)
    table.add_column("from → to", no_wrap=True)
    for name in ("records/s", "p50", "p99", "backlog", "max", "starved", "data", "credit"):
        table.add_column(name, justify="right", no_wrap=True)
    has_regimes = any(row.regimes is not None for row in shown)
    if has_regimes:
        table.add_column("time", no_wrap=True)
    for row in shown:
        messages = row.messages
        table.add_row(
            str(row.channel),
            row.name or " → ".join(str(e) if e >= 0 else "?" for e in (row.producer, row.consumer)),
            human_count(row.throughput_records_per_s),
            human_duration(row.latency_ns.p50),
            human_duration(row.latency_ns.p99),
            human_number(row.backlog_buffers.mean),
            human_number(row.backlog_buffers.max),
            human_duration(row.starved_ns),
            *(f"{messages.get(kind, 0):,}" for kind in _COUNTED_KINDS),
            *([split_bar(row.regimes or {}, BAR_MARKS)] if has_regimes else []),
        )
    return table


def diagnosis_table(own: Sequence[ReplayAnswer]) -> Table:
    """A row for each verdict on an edge."""
    table = _table("what limits each edge")
    for name in ("edge", "verdict", "share", "why"):
        table.add_column(name, justify="right" if name == "share" else "left")
    for each in (verdict for answer in own for verdict in answer.diagnosis):
        share = MISSING if each.share is None else f"{each.share:.0%}"
        table.add_row(escape(each.edge or ""), each.cause.value, share, escape(each.text))
    return table


def over_time_table(windows: Sequence[WindowMeasured], width: int) -> Table:
    """Throughput and backlog over time, in as many marks as there is room for."""
    marks = max(1, min(OVER_TIME_MARKS, width - _REST_OF_ROW, len(windows)))
    span = ""
    if windows:
        span = f", a mark is {human_duration(windows[0].width_ns * len(windows) / marks)}"
    table = _table(f"over time{span}")
    for name in ("what", "", "largest"):
        table.add_column(name, no_wrap=True)
    rates = [window.throughput_records_per_s for window in windows]
    means = [window.backlog_buffers.mean for window in windows]
    table.add_row(
        "throughput",
        sparkline(rates, marks, max(rates, default=0)),
        human_rate(max(rates, default=None)),
    )
    largest = max((mean for mean in means if mean is not None), default=None)
    table.add_row(
        "mean backlog",
        sparkline([mean or 0.0 for mean in means], marks, largest or 1),
        human_number(largest),
    )
    return table


def messages_table(messages: Sequence[MessageCount]) -> Table:
    """A row for each kind of message."""
    table = _table("messages by kind")
    table.add_column("kind")
    table.add_column("messages", justify="right")
    table.add_column("payload", justify="right")
    for row in messages:
        size = human_bytes(row.payload_bytes) if row.payload_bytes else MISSING
        table.add_row(row.kind, f"{row.messages:,}", size)
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=None)


def runs_table(answers: Sequence[ReplayAnswer]) -> Table:
    """A row for each run."""
    table = Table(box=None)
    table.add_column("run")
    table.add_column("timeout", justify="right")
    for name in ("records/s", "p50", "p99", "backlog", "max", "buffers/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("throughput", "p50", "p99"):
        table.add_column(f"error {name}", justify="right", no_wrap=True)
    for answer in answers:
        observed, error = answer.observed, answer.model_error
        table.add_row(
            answer.trace.path.rstrip("/").rsplit("/", 1)[-1],
            timeout_text(answer.trace.config),
            human_count(observed.throughput_records_per_s),
            human_duration(observed.latency_ns.p50),
            human_duration(observed.latency_ns.p99),
            human_number(observed.backlog_buffers.mean),
            human_number(observed.backlog_buffers.max),
            human_count(observed.buffers_per_s),
            *(human_change(each) for each in (error.throughput, error.p50, error.p99)),
        )
    return table


def edges_table(answers: Sequence[ReplayAnswer]) -> Table:
    """A row for each edge of a job: what went over it, and what its channels waited for."""
    table = _table("as recorded")
    table.add_column("edge", overflow="fold")
    for name in ("channels", "records/s", "buffers/s", "full", "backlog", "max", "starved"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for answer in answers:
        observed = answer.observed
        seconds_of_channels = observed.duration_ns * answer.trace.channels
        table.add_row(
            escape(f"{answer.trace.edge_number} {answer.trace.edge or ''}"),
            f"{answer.trace.channels:,}",
            human_count(observed.throughput_records_per_s),
            human_count(observed.buffers_per_s),
            _part_of(observed.flushes.full, observed.buffers),
            human_number(observed.backlog_buffers.mean),
            human_number(observed.backlog_buffers.max),
            _part_of(observed.credits.starved_ns, seconds_of_channels),
            _verdict(answer),
            style="bold" if answer.is_bottleneck else "",
        )
    return table


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
    table = _table("Flink's own metrics: mean over tasks (highest task)")
    table.add_column("vertex")
    for name in ("tasks", "busy", "idle", "back-pressured", "in/s", "out/s", "in pool", "out pool"):
        table.add_column(name, justify="right", no_wrap=True)
    for vertex in vertices:
        table.add_row(
            escape(vertex.name),
            str(vertex.parallelism),
            *(_share_cell(vertex, name) for name in _SHARES),
            *(human_count(getattr(vertex, name)) for name in _RATES),
            *(human_share(_highest(vertex.tasks, name)) for name in _USAGES),
        )
    return table


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
