"""Observed figures of a run or an edge, in sections: facts, latency, channels over time, regimes,
fill ratios, messages, and Flink's own metrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from flinknet.results import EdgeAnswer, ReplayedChannel
from flinknet.results.figures import FIGURES, named
from flinknet.units import counted, human_bytes, human_count, human_duration

from . import charts, observed_tables
from .advice import span
from .bench import NINES, latency_points
from .page_parts import Fact, Facts, Lines, Part, Section, Table, Text, pairs_of
from .replay_headline import why_not_printed
from .trade_words import option_texts, settings_of, what_varies

CHANNELS_SHOWN = 16
"""Channels in tables and with bars, at most: those with the highest p99."""

SETTINGS_SHOWN = 20
"""Settings whose predicted checkpoints are shown."""

_FACTS = (
    *("duration_ns", "throughput_records_per_s", "throughput_bytes_per_s"),
    *(f"latency_{each}_ns" for each in ("min", "p50", "p90", "p99", "p99_9", "max")),
    *("backlog_mean_buffers", "backlog_max_buffers", "credit_starved_ns"),
)

LATENCY_UNKNOWN = (
    "Latency is not observed: messages between processes do not show when records came. Predictions"
    " come with 90% intervals."
)

FULL = (
    ": a buffer that left because its segment was full; it may still carry few bytes where"
    " earlier flushes had sent the rest of the segment"
)

_PANELS = [
    charts.Panel("rate", "records/s", "blue", FIGURES["throughput_records_per_s"].meaning),
    charts.Panel("backlog", "backlog, buffers", "orange",
          f"{FIGURES['backlog_mean_buffers'].meaning} Thin: the maximum of each window.",
          "backlogMax"),
    charts.Panel("credit", "credit, buffers", "green",
          "Buffers that the producer may still send after a message changed it, on average. Thin:"
          " the minimum of each window.", "creditMin"),
]  # fmt: skip


def observed_sections(
    answer: EdgeAnswer, wanted: Sequence[int] | None = None, *, is_predicted: bool
) -> Iterator[Section]:
    """All sections with data, with the wanted channels, or the slowest ones."""
    shown, notes = [each for each in answer.channels if each.channel in (wanted or ())], list[str]()
    if wanted is None:
        shown = observed_tables.slowest(answer.channels, CHANNELS_SHOWN)
        left = len(answer.channels) - len(shown) + answer.channels_left_out
        notes = _left_out(len(shown), left)
    facts: list[Part] = [_facts(answer)]
    if answer.observed.flushes.full and answer.observed.flushes.timeout:
        facts.append(Text("full", FULL))
    yield Section("observed", f"Observed {_observed_part(answer)}", "", facts)
    yield from (_latency(answer), *_over_time(answer), *_regimes(answer, shown), *_fill(answer))
    tables: list[Part] = [replace(observed_tables.channel_table(shown), notes=notes)]
    if answer.credit:
        tables.insert(0, Lines(observed_tables.credit_lines(answer), is_plain=True))
    tables.append(observed_tables.messages_table(answer.messages))
    yield Section("channels", "Channels and messages", "", tables)
    if checkpoints := replayed_checkpoints(answer, is_predicted=is_predicted):
        yield Section("checkpoints", "Checkpoints", "", checkpoints)
    yield from observed_tables.times_section([answer])
    if answer.flink is not None:
        yield observed_tables.flink_section(
            answer.flink.vertices, observed_tables.flink_notes(answer.flink)
        )


def _observed_part(answer: EdgeAnswer) -> str:
    part = answer.trace.part
    if answer.trace.is_of_run and part.is_whole:
        return "in the measured part"
    whole = human_duration(part.whole_ns)
    if part.is_whole:
        return f"in the whole trace of {whole}"
    what = "measured part" if answer.trace.is_of_run else "trace"
    return f"in {span(part.from_ns, part.to_ns)} of the {what} of {whole}"


def _facts(answer: EdgeAnswer) -> Facts:
    observed, credits = answer.observed, answer.observed.credits
    records = FIGURES["records"]
    shown = [
        Fact(each.title, each.text(observed), each.meaning)
        for each in named(_FACTS)
        if answer.trace.is_of_run or each.group != "latency"
    ]
    return Facts(
        [
            Fact(records.title, f"{observed.records:,}", records.meaning),
            *shown,
            *observed_tables.buffer_facts(observed, is_of_run=answer.trace.is_of_run),
            Fact("events", f"{observed.events:,}", "Barriers and other events between buffers."),
            Fact("credit", f"{credits.announced:,}", "Buffers that consumers announced."),
            Fact("credit messages", f"{credits.messages:,}", "Messages that announced credit."),
        ]
    )


def _latency(answer: EdgeAnswer) -> Section:
    if not answer.trace.is_of_run:
        return Section("latency", "Latency", "", [Text("", LATENCY_UNKNOWN)])
    found, observed = answer.latency_distribution, answer.observed.latency_ns
    total = sum(found.records)
    marks = [("p50", observed.p50), ("p99", observed.p99)]
    series = [charts.PercentileSeries("observed", [(q, ns) for q, ns in found.percentiles])]
    recorded = next((each for each in answer.trade_offs if each.is_recorded), None)
    if recorded is not None and why_not_printed(answer.alone) is None:
        known = latency_points(recorded.latency_ns)
        series += [charts.PercentileSeries("predicted for the recorded setting", known, "orange")]
    drawn: list[Part] = [
        charts.Histogram(
            "Distribution",
            list(zip(found.low_ns, found.high_ns, strict=True)),
            [charts.Series("records", [each / total for each in found.records])] if total else [],
            across="ns",
            unit="share",
            x="latency, log scale",
            y="share of the records",
            marks=[(ns, f"{name} {human_duration(ns)}") for name, ns in marks if ns is not None],
            is_log=True,
            meaning="Share of the records in each range of latency.",
        ),
        charts.Percentiles("By percentile", series, NINES),
    ]
    lead = (
        "From the instant at which a record was due until its consumer had read the buffer that"
        " holds its end."
    )
    return Section("latency", "Latency", lead, drawn)


def _left_out(shown: int, left: int) -> list[str]:
    text = f"The {shown} channels with the highest p99 are here, {left:,} more are not."
    return [text] if left else []


def _over_time(answer: EdgeAnswer) -> list[Section]:
    at_ns, drawn = [each.from_ns for each in answer.over_time], list[Part]()
    rate, backlog = named(["throughput_records_per_s", "backlog_mean_buffers"])
    if at_ns:
        values = [rate.read(each) for each in answer.over_time]
        series = [charts.TimeSeries(rate.name, at_ns, values)]
        drawn.append(charts.OverTime("Throughput", series, meaning=rate.meaning, y=rate.name))
        values = [backlog.read(each) for each in answer.over_time]
        series = [charts.TimeSeries("mean backlog", at_ns, values, "orange")]
        drawn.append(charts.OverTime("Backlog", series, meaning=backlog.meaning, y="buffers"))
    details = answer.details
    if details is None or not details.channels:
        return [Section("over-time", "Over time", "", drawn)] if drawn else []
    ends = {each.channel: each for each in answer.channels}

    def slowness(number: int) -> float:
        known = ends.get(number)
        return 0.0 if known is None else known.latency_ns.p99 or known.backlog_buffers.mean or 0.0

    numbers = [each.channel for each in details.channels]
    has_rate = any(any(each.windows["records"]) for each in details.channels)
    has_regimes = any(each.regimes.get("from_ns") for each in details.channels)
    timeline = charts.Timeline(
        [
            observed_tables.channel_name(ends[each]) if each in ends else str(each)
            for each in numbers
        ],
        details.channels,
        max(range(len(numbers)), key=lambda place: slowness(numbers[place])),
        details.duration_ns or answer.trace.measured_duration_ns,
        _PANELS if has_rate else _PANELS[1:],
        observed_tables.REGIMES if has_regimes else (),
    )
    leads = [
        "Drag to zoom, double click to reset; from the keyboard + and −, 0 to reset, arrows to read"
        " values.",
        *(["The strip splits each window by where its time went."] if has_regimes else []),
        *_left_out(len(numbers), details.channels_left_out),
    ]
    return [Section("over-time", "Over time", " ".join(leads), [*drawn, timeline])]


def _regimes(answer: EdgeAnswer, shown: Sequence[ReplayedChannel]) -> list[Section]:
    shares = answer.regimes or {}
    parts: list[Part] = [observed_tables.diagnosis_table(answer.alone)] if answer.diagnosis else []
    lead = ""
    if any(shares.values()):
        lead = (
            "At any instant, a channel's time counts for the place where its oldest record is that"
            " has not been consumed yet."
        )
        parts += observed_tables.share_bars(observed_tables.REGIMES, {"": shares}, "All channels")
        parts += observed_tables.share_bars(
            observed_tables.REGIMES,
            {observed_tables.channel_name(x): x.regimes for x in shown},
            "Channels",
        )
    return [Section("regimes", "Where the time went", lead, parts)] if parts else []


def _fill(answer: EdgeAnswer) -> list[Section]:
    if answer.details is None:
        return []
    fill = answer.details.fill
    size = human_bytes(fill.segment_size_bytes)
    lead = f"Payload of each data buffer by the segment size of {size}"
    if fill.mean is not None:
        lead += f": {fill.mean:.1%} on average. Emptier buffers mean more messages for the same"
        lead += " records"
    series = [
        charts.Series(each.name, getattr(fill, each.key), each.color, each.meaning)
        for each in observed_tables.FLUSHES
    ]
    ranges = [(place / fill.bins, (place + 1) / fill.bins) for place in range(fill.bins)]
    chart = charts.Histogram(
        "Fill ratio", ranges, series, "share", x="share of the segment that is filled", y="buffers"
    )
    return [Section("fill", "How full the buffers were", f"{lead}.", [chart])]


def environment(own: Sequence[EdgeAnswer]) -> Section:
    """The settings of the recording of a run or of some edges, and where it was made."""
    trace, about = own[0].trace, own[0].details and own[0].details.environment
    channels = sum(each.trace.channels for each in own)
    lead = (
        f"Recorded at {trace.started_at}: {human_count(trace.events)} events on"
        f" {counted(channels, 'channel')}, {human_duration(trace.measured_duration_ns)}"
        f" measured{', at the highest rate' if trace.is_max_rate else ''}."
    )
    groups = {
        "Flink's keys": trace.config,
        "Workload": option_texts(about.workload) if about else {},
        "Host": about.host if about else {},
        "Versions": about.versions if about else {},
    }
    parts = [pairs_of(title, values) for title, values in groups.items() if values]
    return Section("environment", "Environment", lead, parts)


def replayed_checkpoints(answer: EdgeAnswer, *, is_predicted: bool) -> list[Table]:
    """Checkpoints as recorded, and as predicted for each setting that was simulated with them,
    unless predictions are withheld; nothing without any."""
    recorded = answer.observed.checkpoints
    if recorded is None:
        return []
    varied = what_varies(answer.trade_offs)
    rows = [("recorded", [recorded])]
    for point in answer.trade_offs if is_predicted else ():
        settings = settings_of(point)
        if point.checkpoints is not None and len(rows) <= SETTINGS_SHOWN:
            name = ", ".join(settings[each] for each in varied)
            rows.append((f"predicted, {name}", [point.checkpoints]))
    return [observed_tables.checkpoint_table(rows, is_replayed=True)]
