"""A bench as views: the answer, the figures that decide, and all others. A terminal shows all
settings together; the page of a sweep then shows each on its own, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

from flinknet import results
from flinknet.results.comparison import Configuration
from flinknet.results.figures import CHANNEL_FIGURES, CPU, LINK_LIMIT, RUN_FIGURES, Figure, typical

from . import bench_words as words
from . import charts, page_parts
from .bench_words import BUFFERS, MARKS, P50, P99, RECORDS
from .live import channel_name
from .observed_tables import FLUSHES, TASK_PARTS, buffer_facts, checkpoint_table, share_bars
from .places import places_section
from .trade_words import option_texts
from .warning_lines import lowered, trust_words

CHANNELS_SHOWN = 64

NINES = "Each nine has the same room. Percentiles that too few records support are left out."
"""Meaning of a chart of percentiles."""

_TONES: Mapping[results.Validity, page_parts.Tone] = {
    results.Validity.INVALID: "bad",
    results.Validity.DOUBTFUL: "doubt",
}

_DECISIVE = [replace(each, group="") for each in (RECORDS, P50, P99, BUFFERS, CPU)]
"""Figures that decide."""


def bench_view(
    settings: Sequence[Configuration],
    environment: Mapping[str, Any] | None = None,
    *,
    next_step: str = "",
) -> page_parts.View:
    """The view of some settings, or of one. `next_step` is a command that goes on from here."""
    doubts = words.doubt_lines(settings)
    wrong = [f"{lowered(each)};" for each in doubts if each.startswith("Invalid")]
    begin = words.state_words(settings)
    limits = words.limit_clauses(settings)
    compared = words.trade_lines(settings, is_short=True)
    traded = words.first_trade(settings)
    first, *others = settings
    name = first.name or page_parts.UNNAMED_SETTING
    title = name if "=" in name else name[0].upper() + name[1:]
    if others:
        swept = _swept_name([each.name for each in settings])
        name, title = "all settings", f"{len(settings)} settings of {swept}"
        pictures: list[page_parts.Part | page_parts.Section] = [
            page_parts.Section("settings", "What each setting gives", "", _sweep_charts(settings))
        ]
    else:
        begin.append(f"{words.figures_of(first)};")
        title += f", the last of {len(first.results)} runs" if len(first.results) > 1 else ""
        last = first.results[-1]
        gates = [each for each in last.debloating if each.samples]
        pictures = [_latency_section(last.measured), *places_section(last), *task_bars(last)]
        pictures += [debloating_section(each.name, each) for each in gates]
    return page_parts.View(
        [
            page_parts.Sentence("measured", words.measured_words(settings)),
            page_parts.Sentence("verdict", [*wrong, *begin, *limits], " ", takes_rest=True),
            page_parts.Sentence("trade-off", [traded] if traded else compared[:1]),
            page_parts.Sentence("trust", trust_words(doubts, *words.few_runs(settings))),
            page_parts.Sentence(
                "next", words.next_words(settings, next_step, has_warnings=bool(doubts))
            ),
        ],
        [bench_table(settings, _DECISIVE), *_asked_parts(settings)],
        [
            *_details(settings),
            page_parts.Lines(words.doubt_lines(settings, is_explained=True), is_doubt=True),
            *([] if others else _about(first.results[-1], environment or {})),
        ],
        pictures,
        name=name,
        title=title,
    )


def _asked_parts(settings: Sequence[Configuration]) -> list[page_parts.Part]:
    checkpoints, lines = [], list[str]()
    for each in settings:
        last, known = each.results[-1], [run.measured.checkpoints for run in each.results]
        checkpoints.append((each.name, [summary for summary in known if summary is not None]))
        lines += words.debloating_lines(each.name, last.debloating)
        lines += [words.blocking_line(each.name, exchange) for exchange in last.blocking]
    has_any = any(runs for _, runs in checkpoints)
    return [
        *([checkpoint_table(checkpoints)] if has_any else []),
        *([page_parts.Lines(lines)] if lines else []),
    ]


def _details(settings: Sequence[Configuration]) -> list[page_parts.Part]:
    last = settings[0].results[-1]
    found: list[page_parts.Part] = [bench_table(settings, RUN_FIGURES)]
    if len(settings) == 1:
        found += [page_parts.Facts(buffer_facts(last.measured))]
        if len(last.channels) > 1:
            table = channel_table(last.channels[:CHANNELS_SHOWN])
            more = "{} more channels are not shown."
            notes = page_parts.left_out(last.channels, CHANNELS_SHOWN, more)
            found.append(replace(table, notes=notes))
    wirings = [each.wiring for setting in settings for each in setting.results if each.wiring]
    lines = [
        f"Bottleneck: {' '.join(words.limit_clauses(settings)).rstrip(page_parts.STOPS)}.",
        *dict.fromkeys(map(words.wiring_line, wirings)),
        *words.trade_lines(settings),
    ]
    return [*found, page_parts.Lines(lines)]


def bench_table(
    settings: Sequence[Configuration], figures: Sequence[Figure[results.RunResult]] = RUN_FIGURES
) -> page_parts.Table:
    """One row for each setting; with several runs each cell is their median. Those that are not
    valid are marked.
    """
    runs = max(len(setting.results) for setting in settings)
    if any(each.results[-1].link_records_per_s is not None for each in settings):
        figures = [figures[0], LINK_LIMIT, *figures[1:]]
    columns: dict[str, page_parts.Column] = {
        "setting": lambda each: MARKS[each.validity] + (each.name or page_parts.UNNAMED_SETTING),
        **page_parts.medians_of(figures, attrgetter("results")),
    }
    title = f"medians of {runs} runs" if runs > 1 else ""
    return page_parts.table_of(
        settings, columns, title, tone=lambda each: _TONES.get(each.validity, "")
    )


def channel_table(channels: Sequence[results.ChannelMeasured]) -> page_parts.Table:
    name = partial(channel_name, has_edges=any(each.edge for each in channels))
    return page_parts.table_of(
        channels, {"channel": name, **page_parts.columns_of(CHANNEL_FIGURES)}
    )


def bench_page(
    settings: Sequence[Configuration],
    environment: Mapping[str, Any],
    whole: page_parts.View | None = None,
) -> page_parts.Page:
    """The page of a bench: the view of all settings, which may be made already, and then each on
    its own."""
    several = [bench_view([each], environment) for each in settings if len(settings) > 1]
    return page_parts.Page("bench", [whole or bench_view(settings, environment), *several])


def task_shares(result: results.RunResult) -> dict[str, dict[str, float]]:
    """Shares of the time of each task in the measured part, by Flink's metrics of it."""
    metrics = result.metrics.tasks if result.metrics is not None else {}
    return {name: results.shares_of(values) for name, values in metrics.items()}


def task_bars(result: results.RunResult) -> list[charts.Bars]:
    meaning = "By Flink's metrics, over the measured part."
    return share_bars(TASK_PARTS, task_shares(result), "Share of the time", meaning)


def _sweep_charts(settings: Sequence[Configuration]) -> list[page_parts.Part]:
    labels = labels_of([each.name for each in settings])
    swept = _swept_name([each.name for each in settings])

    def series(figure: Figure[results.RunResult], color: charts.Color = "blue") -> charts.Series:
        values = [typical(map(figure.read, each.results)) for each in settings]
        return charts.Series(figure.name, values, color, figure.meaning)

    latency, buffers = [series(P50), series(P99, "orange")], [series(BUFFERS, "purple")]
    return [
        charts.Curves("Latency", labels, latency, unit="ns", is_log=True, by=swept, y="latency"),
        charts.Curves("Buffers per second", labels, buffers, by=swept, y=BUFFERS.name),
        charts.Curves("Throughput", labels, [series(RECORDS, "green")], by=swept, y=RECORDS.name),
    ]


def _latency_section(measured: results.Measured) -> page_parts.Section:
    points, uncorrected = map(
        latency_points, (measured.latency_ns, measured.latency_uncorrected_ns)
    )
    series = [
        charts.PercentileSeries("latency", points),
        charts.PercentileSeries("uncorrected", uncorrected, "grey"),
    ]
    drawn: list[page_parts.Part] = [charts.Percentiles("Latency by percentile", series, NINES)]
    counts = {each.key: getattr(measured.flushes, each.key) for each in FLUSHES}
    if total := sum(counts.values()):
        shares = charts.Bar("buffers", {name: count / total for name, count in counts.items()})
        drawn.append(charts.Bars("Why buffers left", FLUSHES, [shares], x="the buffers"))
    lead = (
        "From the instant at which a record was due until it was consumed; uncorrected leaves"
        " out how long it waited to be sent."
    )
    return page_parts.Section("latency", "Latency", lead, drawn)


def latency_points(latency: results.LatencySummary) -> list[tuple[float, float]]:
    """The known percentiles of a latency as (quantile, ns)."""
    known = [(quantile, getattr(latency, name)) for name, quantile in results.PERCENTILES.items()]
    return [(quantile, value) for quantile, value in known if value is not None]


def debloating_section(name: str, gate: results.DebloatedGate) -> page_parts.Section:
    at_ns = [each.at_ns for each in gate.samples]
    sizes = [each.buffer_size_bytes for each in gate.samples]
    times_ns = [each.time_to_consume_ns for each in gate.samples]
    size = charts.TimeSeries("buffer size", at_ns, sizes)
    series = [
        charts.TimeSeries("estimate", at_ns, times_ns, "orange"),
        charts.TimeSeries("target", at_ns, [gate.target_ns] * len(at_ns), "grey"),
    ]
    drawn = [
        charts.OverTime("Buffer size", [size], "bytes", y="bytes"),
        charts.OverTime("Time to consume what is in flight", series, "ns", y="time"),
    ]
    return page_parts.Section("", f"Buffer debloating: {name}", "", drawn)


def _about(result: results.RunResult, environment: Mapping[str, Any]) -> list[page_parts.Part]:
    known = (
        ("Flink's keys", result.config),
        ("Workload", option_texts(result.workload)),
        ("Host and versions", environment),
    )
    return [page_parts.pairs_of(title, values) for title, values in known if values]


def labels_of(names: Sequence[str]) -> list[str]:
    """Names of settings without what all have in common: "5ms" for "buffer-timeout=5ms"."""
    keys = {name.rpartition("=")[0] for name in names}
    return [name.rpartition("=")[2] for name in names] if len(keys) == 1 else list(names)


def _swept_name(names: Sequence[str]) -> str:
    keys = dict.fromkeys(each.partition("=")[0] for name in names for each in name.split())
    return ", ".join(keys).replace("-", " ") or "this configuration"
