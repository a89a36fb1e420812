"""A comparison as a page: each candidate against the base, its runs, and its results over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flinknet.results import without_consequences
from flinknet.results.comparison import (
    METRICS,
    Candidate,
    Comparison,
    Difference,
    Outcome,
    Trend,
    Verdict,
    label_of,
)

from .comparison_texts import (
    change_line,
    load_line,
    load_notes,
    metric_rows,
    note_lines,
    outcome_line,
    table_notes,
    trend_lines,
    trend_tables,
)
from .figures import CPU, FIGURES
from .page_parts import (
    Color,
    Curves,
    Head,
    Interval,
    Intervals,
    Lines,
    Page,
    Pairs,
    Part,
    Row,
    Section,
    Series,
    Table,
    Unit,
    View,
)
from .warning_lines import warning_lines

POINTS_MAX = 40
"""Dates on the axis of a curve over time, at most."""

_COLORS: Mapping[Verdict, Color] = {Verdict.BETTER: "green", Verdict.WORSE: "orange"}
_UNITS: Mapping[str, Unit] = {"ns": "ns", "bytes": "bytes"}
_FIELDS = {
    "throughput": "throughput_records_per_s",
    "throughput_bytes": "throughput_bytes_per_s",
    "backlog": "backlog_mean_buffers",
    "buffers": "buffers_per_s",
}
_MEANINGS = {
    **{name: FIGURES[field].meaning for name, field in _FIELDS.items()},
    **{name: FIGURES[f"latency_{name}_ns"].meaning for name in ("mean", "p50", "p99", "p99_9")},
    "cpu": CPU.meaning,
}
"""By the name of a metric."""

_RUN_METRICS = ("throughput", "p50", "p99")
"""Metrics drawn run by run where no limit names any."""


def comparison_page(comparison: Comparison, trends: Sequence[Trend]) -> Page:
    """The page, with a view for each candidate."""
    views = [
        _view(comparison, candidate, sentence, [x for x in trends if x.config == candidate.name])
        for candidate, sentence in zip(comparison.candidates, comparison.sentences(), strict=True)
    ]
    return Page("compare-configs", views)


def _view(
    comparison: Comparison, candidate: Candidate, sentence: str, trends: Sequence[Trend]
) -> View:
    invalid = comparison.invalid_lines()
    verdict = [*invalid, *(line for line in (outcome_line(comparison), sentence) if line)]
    is_unsure = bool(invalid) or comparison.is_mostly_disturbed
    is_doubt = is_unsure or comparison.outcome is not Outcome.PASS
    return View(
        candidate.name,
        f"{candidate.name} against {comparison.base.name}",
        [
            Lines(verdict, is_headed=True, is_doubt=is_doubt),
            Lines([load_line(comparison), *load_notes(comparison)], is_plain=True),
            *_doubts(comparison, trends),
            *_limits(candidate),
            _changes(comparison, candidate),
            _settings(comparison, candidate),
            _runs(comparison, candidate),
            *([_history(trends)] if trends else []),
            _about(comparison),
        ],
    )


def _doubts(comparison: Comparison, trends: Sequence[Trend]) -> list[Lines]:
    runs = [
        (x.name, without_consequences(run.warnings))
        for x in comparison.measured_here
        for run in x.runs
    ]
    steps = trend_lines(trends) if any(trend.step for trend in trends) else []
    known = warning_lines(runs, numbers=comparison.numbers, is_explained=True)
    warnings = [line.plain for line in known]
    lines = [*note_lines(comparison), *steps, *warnings]
    return [Lines(lines, is_doubt=True)] if lines else []


def _limits(candidate: Candidate) -> list[Section]:
    if not candidate.decisions:
        return []
    cells = [
        (
            f"fail if {each.limit.text}",
            each.outcome.word,
            change_line(candidate, each.limit.metric),
            each.reason,
        )
        for each in candidate.decisions
    ]
    names = ["limit", "outcome", "measured"]
    if any(each.reason for each in candidate.decisions):
        names.append("why")
    rows = [Row(each[: len(names)]) for each in cells]
    return [Section("limits", "Limits", "", [Table([Head(each) for each in names], rows)])]


def _changes(comparison: Comparison, candidate: Candidate) -> Section:
    interval = f"{comparison.confidence * 100:g}% interval"
    names = [comparison.base.name, candidate.name]
    heads = [Head(each) for each in ("metric", "change", "verdict", interval, *names)]
    rows = [
        Row([x.metric, x.change, x.verdict.value, x.interval, x.base, x.candidate])
        for x in metric_rows(candidate.differences)
    ]
    chart = Intervals(
        "Changes",
        [
            _interval(metric, each, candidate)
            for metric, each in candidate.differences.items()
            if each.is_ratio and each.change is not None
        ],
        f"Each with its {interval}; green is better, orange is worse.",
    )
    table = Table(heads, rows, notes=table_notes(comparison, candidate))
    return Section("changes", "What changed", "", [chart, table])


def _interval(metric: str, difference: Difference, candidate: Candidate) -> Interval:
    return Interval(
        label_of(metric),
        difference.change,
        difference.low,
        difference.high,
        _COLORS.get(difference.verdict, "grey"),
        f"{difference.verdict.value}. {_MEANINGS[metric]}",
        [each.limit.ratio for each in candidate.decisions if each.limit.metric == metric],
    )


def _settings(comparison: Comparison, candidate: Candidate) -> Section:
    rows = [
        Row([each.name, each.base or "not set", each.candidate or "not set"])
        for each in candidate.changes
    ]
    if not rows:
        return Section("settings", "Settings", "Both are the same configuration.", [])
    heads = [Head("setting"), Head(comparison.base.name), Head(candidate.name)]
    return Section("settings", "Settings that differ", "", [Table(heads, rows)])


def _runs(comparison: Comparison, candidate: Candidate) -> Section:
    limited = dict.fromkeys(each.limit.metric for each in candidate.decisions)
    configurations = (comparison.base, candidate.configuration)
    count = max(len(each.runs) for each in configurations)
    labels = [str(number) for number in range(1, count + 1)]
    colors: tuple[Color, Color] = ("grey", "blue")
    charts: list[Part] = [
        Curves(
            f"{label_of(metric)} of each run",
            labels,
            [
                Series(each.name, _padded(each.values(metric), count), color)
                for each, color in zip(configurations, colors, strict=True)
            ],
            unit=_UNITS.get(METRICS[metric].unit, "count"),
            meaning=_MEANINGS[metric],
        )
        for metric in limited or _RUN_METRICS
    ]
    if comparison.baseline is None:
        lead = "The runs of a round are neighbours in time and have the same arrivals."
    else:
        lead = "The runs of the baseline are of another day."
    return Section("runs", "Run by run", lead, charts)


def _history(trends: Sequence[Trend]) -> Section:
    parts: list[Part] = []
    for trend in trends:
        points = trend.points[-POINTS_MAX:]
        counted = [None if each.why_not else each.value for each in points]
        other = [each.value if each.why_not else None for each in points]
        series = [Series("counted", counted)]
        if any(value is not None for value in other):
            why = "; ".join(dict.fromkeys(each.why_not for each in points if each.why_not))
            series.append(Series("not counted", other, "grey", f"not counted: {why}"))
        dates = [(each.measured_at or "")[:10] for each in points]
        if len(set(dates)) < len(dates):  # several a day: with their time
            dates = [(each.measured_at or "")[5:16].replace("T", " ") for each in points]
        marks = {}
        if trend.step is not None:
            since = [each.measured_at for each in points]
            marks = {since.index(trend.step.since): "step"} if trend.step.since in since else {}
        for at, each in enumerate(points):
            if each.changed:
                marks.setdefault(at, "settings changed")
        parts.append(
            Curves(
                f"{label_of(trend.metric)} over time",
                dates,
                series,
                unit=_UNITS.get(METRICS[trend.metric].unit, "count"),
                meaning=_MEANINGS[trend.metric],
                marks=marks,
            )
        )
    parts += [
        Table([Head(each) for each in shown.heads], [Row(each) for each in shown.rows])
        for shown in trend_tables(trends)
    ]
    return Section("history", "Results over time", "\n".join(trend_lines(trends)), parts)


def _about(comparison: Comparison) -> Section:
    known = {name: str(x) for name, x in comparison.environment.items() if x is not None}
    runs = ", ".join(f"{len(each.runs)} of {each.name}" for each in comparison.configurations)
    pairs: list[Part] = [Pairs("environment", known | {"runs": runs, "seed": str(comparison.seed)})]
    return Section("about", "About", "", pairs)


def _padded(values: Sequence[float | None], count: int) -> list[float | None]:
    return [*values, *([None] * (count - len(values)))]
