"""Observed figures of a run or an edge, as sections of a page: latency, channels over time,
regimes, fill ratios, messages, and Flink's own metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any

from flinknet.results import (
    FlinkMetrics,
    ReplayAnswer,
    TaskMetrics,
    VertexMetrics,
)
from flinknet.results.figures import FIGURES, Figure, Unit
from flinknet.units import (
    counted,
    human_bytes,
    human_count,
    human_duration,
    human_share,
)  # fmt: skip

from .bench import CHANNELS_SHOWN, latency_points, pair_text
from .charts import (
    Bar,
    Bars,
    Histogram,
    Panel,
    Percentiles,
    PercentileSeries,
    Series,
    Timeline,
)
from .observed_tables import (
    LATENCY_UNKNOWN,
    REGIMES,
    TIMES_TITLE,
    channel_name,
    channel_table,
    credit_lines,
    messages_table,
    slowest,
    times_parts,
)
from .page_parts import (
    Folded,
    Lines,
    Pairs,
    Part,
    Row,
    Section,
    Table,
    Text,
    heads,
    heads_of,
)
from .replay_headline import why_not_printed

BARS_SHOWN = 24
"""Channels with a bar of their own, at most."""

ROWS_OPEN = 12
"""Rows of a table that is not folded away, at most."""

_PANELS = [
    Panel("rate", "records/s", "blue", FIGURES["throughput_records_per_s"].meaning),
    Panel("backlog", "backlog", "orange", f"{FIGURES['backlog_mean_buffers'].meaning} Thin: the"
          " maximum of each window.", "backlogMax"),
    Panel("credit", "credit", "green", "Buffers that the producer may still send after a message"
          " changed it, on average. Thin: the minimum of each window.", "creditMin"),
]  # fmt: skip


def observed_sections(answer: ReplayAnswer) -> Iterator[Section]:
    """All sections, those without data left out."""
    yield _latency(answer)
    yield from (*_over_time(answer), *_regimes(answer), *_fill(answer))
    shown = slowest(answer.channels, CHANNELS_SHOWN)
    left = len(answer.channels) - len(shown) + answer.channels_left_out
    lead = _left_out(CHANNELS_SHOWN, left).strip()
    parts: list[Part] = [channel_table(shown), messages_table(answer.messages)]
    if answer.credit:
        parts.insert(0, Lines(credit_lines(answer), is_plain=True))
    yield Section("channels", "Channels and messages", lead, parts)
    if answer.record_times is not None:
        yield Section("times", TIMES_TITLE, "", times_parts([answer]))
    if answer.flink is not None:
        table = replace(
            flink_table(answer.flink.vertices, has_tasks=True),
            title="",
            notes=flink_lines(answer.flink),
        )
        is_open = len(table.rows) <= ROWS_OPEN
        folded = Folded("Vertices and their tasks", table, is_open=is_open)
        yield Section("flink", "Flink's own metrics", "", [folded])
    yield _environment(answer)


def _latency(answer: ReplayAnswer) -> Section:
    if not answer.trace.is_of_run:
        return Section("latency", "Latency", LATENCY_UNKNOWN)
    found, observed = answer.latency_distribution, answer.observed.latency_ns
    total = sum(found.records)
    marks = [("p50", observed.p50), ("p99", observed.p99)]
    series = [PercentileSeries("observed", [(q, ns) for q, ns in found.percentiles])]
    recorded = next((each for each in answer.trade_offs if each.is_recorded), None)
    if recorded is not None and why_not_printed(answer) is None:
        known = latency_points(recorded.latency_ns)
        series += [PercentileSeries("predicted for the recorded setting", known, "orange")]
    charts: list[Part] = [
        Histogram(
            "Distribution",
            list(zip(found.low_ns, found.high_ns, strict=True)),
            [Series("records", [each / total for each in found.records])] if total else [],
            across="ns",
            unit="share",
            marks=[(ns, f"{name} {human_duration(ns)}") for name, ns in marks if ns is not None],
            is_log=True,
            meaning="Share of the records in each range of latency.",
        ),
        Percentiles(
            "By percentile",
            series,
            "Each nine has the same room. Percentiles that too few records support are left out.",
        ),
    ]
    lead = (
        "From the instant at which a record was due until its consumer had read the buffer that"
        " holds its end."
    )
    return Section("latency", "Latency", lead, charts)


def _left_out(shown: int, left: int) -> str:
    """A sentence about channels without room."""
    if not left:
        return ""
    return f" The {shown} channels with the highest p99 are here, {left} more are not."


def _over_time(answer: ReplayAnswer) -> list[Section]:
    details = answer.details
    if details is None or not details.channels:
        return []
    ends = {each.channel: each for each in answer.channels}

    def slowness(number: int) -> float:
        known = ends.get(number)
        return 0.0 if known is None else known.latency_ns.p99 or known.backlog_buffers.mean or 0.0

    numbers = [each.channel for each in details.channels]
    has_rate = any(any(each.windows.records) for each in details.channels)
    has_regimes = any(each.regimes.get("from_ns") for each in details.channels)
    timeline = Timeline(
        [channel_name(ends[each]) if each in ends else str(each) for each in numbers],
        details.channels,
        max(range(len(numbers)), key=lambda place: slowness(numbers[place])),
        details.duration_ns or answer.trace.measured_duration_ns,
        _PANELS if has_rate else _PANELS[1:],
        REGIMES if has_regimes else (),
    )
    strip = " The strip splits each window by where its time went." if has_regimes else ""
    zoom = (
        "Drag to zoom, double click to reset; from the keyboard + and −, 0 to reset, arrows to read"
        " values."
    )
    lead = zoom + strip + _left_out(len(numbers), details.channels_left_out)
    return [Section("over-time", "Over time", lead, [timeline])]


def _regimes(answer: ReplayAnswer) -> list[Section]:
    shares = answer.regimes or {}
    parts: list[Part] = [
        Text(each.edge or "", f": {each.text}", f"Share of the time: {human_share(each.share)}")
        for each in answer.diagnosis
    ]
    lead = ""
    if any(shares.values()):
        known = [each for each in answer.channels if each.regimes]
        shown = slowest(known, BARS_SHOWN)
        left = len(known) - len(shown) + answer.channels_left_out
        lead = (
            "At any instant, a channel's time counts for the place where its oldest record is that"
            f" has not been consumed yet.{_left_out(BARS_SHOWN, left)}"
        )
        bars = [Bar("all", shares), *(Bar(channel_name(x), x.regimes or {}) for x in shown)]
        parts.append(Bars("Channels", REGIMES, bars))
    if not parts:
        return []
    return [Section("regimes", "Where the time went", lead, parts)]


def _fill(answer: ReplayAnswer) -> list[Section]:
    if answer.details is None:
        return []
    fill = answer.details.fill
    lead = "Payload of each data buffer by the segment size of"
    lead += f" {human_bytes(fill.segment_size_bytes)}"
    if fill.mean is not None:
        lead += f": {fill.mean:.1%} on average. Emptier buffers mean more messages for the same"
        lead += " records"
    lead += "."
    if any(fill.full):
        lead += (
            " A buffer that left because its segment was full may still carry few bytes: earlier"
            " flushes had sent the rest of that segment."
        )
    series = [
        Series("full", fill.full, "blue", "The segment was full."),
        Series("by the buffer timeout", fill.timeout, "orange", "The flusher took what was there."),
        Series("pushed by an event", fill.event, "purple",
               "An event, or the end of the data, pushed it out."),
    ]  # fmt: skip
    ranges = [(place / fill.bins, (place + 1) / fill.bins) for place in range(fill.bins)]
    chart = Histogram("Fill ratio", ranges, series, across="share")
    return [Section("fill", "How full the buffers were", lead, [chart])]


def _environment(answer: ReplayAnswer) -> Section:
    trace, about = answer.trace, answer.details and answer.details.environment
    lead = (
        f"Recorded at {trace.started_at}: {human_count(trace.events)} events on"
        f" {counted(trace.channels, 'channel')}, {human_duration(trace.measured_duration_ns)}"
        f" measured{', at the highest rate' if trace.is_max_rate else ''}."
    )
    groups = {
        "Flink's keys": trace.config,
        "Workload": about.workload if about else {},
        "Host": about.host if about else {},
        "Versions": about.versions if about else {},
    }
    parts = [
        Pairs(title, {name: pair_text(value) for name, value in values.items()})
        for title, values in groups.items()
        if values
    ]
    return Section("environment", "Environment", lead, parts)


def flink_table(vertices: Iterable[VertexMetrics], *, has_tasks: bool = False) -> Table:
    """A row for each vertex: means over its tasks, and the worst of them where they differ.

    Args:
        has_tasks: a row for each of its tasks, too.
    """
    rows = []
    for vertex in vertices:
        shares = [_share_cell(vertex, each.field) for each in _FLINK[:3]]
        rates = [each.text(vertex) for each in _FLINK[3:5]]
        usages = [human_share(_highest(vertex.tasks, each.field)) for each in _FLINK[5:]]
        cells = [vertex.name, str(vertex.parallelism), *shares, *rates, *usages]
        rows.append(Row(cells, is_strong=has_tasks))
        for task in vertex.tasks if has_tasks else ():
            rows.append(Row([task.name, "", *(each.text(task) for each in _FLINK)]))
    title = "Flink's own metrics: mean over tasks (highest task)"
    return Table([*heads("vertex", "tasks"), *heads_of(_FLINK)], rows, title)


def _flink_figure(name: str, field: str, unit: Unit, meaning: str = "") -> Figure[Any]:
    return Figure("", name, attrgetter(field), unit, field, meaning)


_FLINK = (
    _flink_figure("busy", "busy", "share", "Share of the time, by Flink's accumulateBusyTimeMs."),
    _flink_figure("idle", "idle", "share"),
    _flink_figure("back-pressured", "back_pressured", "share",
                  "Share of the time in which the task waited for its output."),
    _flink_figure("in/s", "records_in_per_s", "count", "Records that it read per second."),
    _flink_figure("out/s", "records_out_per_s", "count", "Records that it wrote per second."),
    _flink_figure("in pool", "in_pool_usage", "share", "Mean usage of its input pools."),
    _flink_figure("out pool", "out_pool_usage", "share", "Mean usage of its output pools."),
)  # fmt: skip


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
