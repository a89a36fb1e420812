"""A comparison as views: limits and effects first, then the metrics that decide. The terminal shows
all candidates together, the page one on each screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from flinknet.results import without_consequences
from flinknet.results.comparison import (
    METRICS,
    Candidate,
    Comparison,
    Difference,
    LimitDecision,
    Outcome,
    Trend,
    Verdict,
    label_of,
    what_would_decide,
)

from .charts import Color, Curves, Interval, Intervals, Series
from .comparison_texts import (
    MEASURED_STACK,
    brief_change,
    change_line,
    changes_table,
    decision_line,
    environment_of,
    load_line,
    load_notes,
    note_lines,
    outcome_line,
    settings_table,
    table_notes,
    trend_lines,
    trend_tables,
)
from .page_parts import Lines, Page, Pairs, Part, Row, Section, Sentence, Table, View, heads
from .trade_words import length_words, load_words
from .warning_lines import warning_lines

POINTS_MAX = 40
"""Dates on the axis of a curve over time, at most."""

_DECISIVE = ("throughput", "p50", "p99", "buffers", "cpu")
"""Metrics of the table, with those of limits."""

_RUN_METRICS = ("throughput", "p50", "p99")
"""Metrics drawn run by run where no limit names any."""

_COLORS: Mapping[Verdict, Color] = {Verdict.BETTER: "green", Verdict.WORSE: "orange"}
_DIFFERING = (Verdict.WORSE, Verdict.BETTER, Verdict.HIGHER, Verdict.LOWER)
_IN_ORDER = (*_DIFFERING, Verdict.NONE, Verdict.UNCLEAR)
_WORST_FIRST = (Outcome.REGRESSION, Outcome.INCONCLUSIVE, Outcome.PASS)


def comparison_view(
    comparison: Comparison,
    trends: Sequence[Trend],
    doubts: Sequence[str],
    *,
    is_explained: bool = False,
) -> View:
    """All candidates, for a terminal.

    Args:
        doubts: about the runs of this call.
        is_explained: print them all.
    """
    decisions = sorted(comparison.decisions, key=lambda x: _WORST_FIRST.index(x[1].outcome))
    decisive = {*_DECISIVE, *(decision.limit.metric for _, decision in decisions)}
    has_doubts = bool(doubts or comparison.invalid)
    lines = trend_lines(trends)
    candidates = comparison.candidates
    return View(
        [
            Sentence("compared", _compared(comparison), "; "),
            Sentence("verdict", _decided(comparison, decisions), "; ", takes_rest=not has_doubts),
            Sentence("effect", _effects(comparison), "; "),
            Sentence("trust", _trust(comparison, doubts), "; ", takes_rest=has_doubts),
            Sentence("next", _next(comparison, decisions), "; "),
        ],
        [
            *(settings_table(comparison, each) for each in candidates),
            *(
                changes_table(comparison, each, decisive, has_notes=False, is_narrow=True)
                for each in candidates
            ),
            *([Lines(doubts)] if is_explained else []),
            *trend_tables(trends),
            *([Lines(lines, is_doubt=_has_step(trends))] if lines else []),
        ],
        [
            *(
                part
                for each in candidates
                for part in (
                    changes_table(comparison, each, has_notes=False, is_narrow=True),
                    Lines(table_notes(comparison, each)),
                )
            ),
            Lines(
                [
                    *comparison.invalid_lines(),
                    *comparison.sentences(),
                    load_line(comparison),
                    *note_lines(comparison),
                    *([] if is_explained else doubts),
                    *(f"{x.outcome.word}: {decision_line(c, x)}" for c, x in comparison.decisions),
                    *filter(None, [outcome_line(comparison)]),
                ]
            ),
        ],
    )


def comparison_page(comparison: Comparison, trends: Sequence[Trend]) -> Page:
    """The page, with a view for each candidate."""
    views = [
        _page_view(comparison, candidate, sentence, [x for x in trends if x.config == own])
        for candidate, sentence in zip(comparison.candidates, comparison.sentences(), strict=True)
        for own in [candidate.name]
    ]
    return Page("compare-configs", views)


def _page_view(
    comparison: Comparison, candidate: Candidate, sentence: str, trends: Sequence[Trend]
) -> View:
    invalid = comparison.invalid_lines()
    verdict = [*invalid, *(line for line in (outcome_line(comparison), sentence) if line)]
    is_unsure = bool(invalid) or comparison.is_mostly_disturbed
    is_doubt = is_unsure or comparison.outcome is not Outcome.PASS
    limits = [_limits_table(candidate)] if candidate.decisions else []
    return View(
        name=candidate.name,
        title=f"{candidate.name} against {comparison.base.name}",
        parts=[
            Lines(verdict, is_headed=True, is_doubt=is_doubt),
            Lines([load_line(comparison), *load_notes(comparison)], is_plain=True),
            *_page_doubts(comparison, trends),
            *([Section("limits", "Limits", "", limits)] if limits else []),
            _changes(comparison, candidate),
            Section("settings", "Settings", "", [settings_table(comparison, candidate)]),
            _runs(comparison, candidate),
            *([_history(trends)] if trends else []),
            Section("about", "About", "", [Pairs("environment", environment_of(comparison))]),
        ],
    )


def _has_step(trends: Iterable[Trend]) -> bool:
    return any(trend.step for trend in trends)


def _page_doubts(comparison: Comparison, trends: Sequence[Trend]) -> list[Lines]:
    runs = [
        (x.name, without_consequences(run.warnings))
        for x in comparison.measured_here
        for run in x.runs
    ]
    steps = trend_lines(trends) if _has_step(trends) else []
    known = warning_lines(runs, numbers=comparison.numbers, is_explained=True)
    lines = [*note_lines(comparison), *steps, *(line.plain for line in known)]
    return [Lines(lines, is_doubt=True)] if lines else []


def _limits_table(candidate: Candidate) -> Table:
    rows = [
        (limit.text, each.outcome.word, change_line(candidate, limit.metric), each.reason)
        for each in candidate.decisions
        for limit in [each.limit]
    ]
    names = ("fail if", "outcome", "measured", "why")[: 4 if any(row[3] for row in rows) else 3]
    return Table(heads(*names), [Row(row[: len(names)]) for row in rows])


def _changes(comparison: Comparison, candidate: Candidate) -> Section:
    chart = Intervals(
        "Changes",
        [
            Interval(
                label_of(metric),
                each.change,
                each.low,
                each.high,
                _COLORS.get(each.verdict, "grey"),
                f"{each.verdict.value}. {METRICS[metric].figure.meaning}",
                [x.limit.ratio for x in candidate.decisions if x.limit.metric == metric],
            )
            for metric, each in candidate.differences.items()
            if each.is_ratio and each.change is not None
        ],
        f"Each with its {comparison.confidence * 100:g}% interval; green is better, orange is"
        " worse.",
    )
    table = changes_table(comparison, candidate, has_notes=True)
    return Section("changes", "What changed", "", [chart, table])


def _runs(comparison: Comparison, candidate: Candidate) -> Section:
    limited = dict.fromkeys(each.limit.metric for each in candidate.decisions)
    both = (comparison.base, candidate.configuration)
    count = max(len(each.runs) for each in both)
    colors: tuple[Color, Color] = ("grey", "blue")
    charts: list[Part] = []
    for metric in limited or _RUN_METRICS:
        series = []
        for each, color in zip(both, colors, strict=True):
            values = each.values(metric)
            series.append(Series(each.name, [*values, *[None] * (count - len(values))], color))
        labels = list(map(str, range(1, count + 1)))
        charts.append(_curves(metric, f"{label_of(metric)} of each run", labels, series))
    if comparison.baseline is None:
        lead = "The runs of a round are neighbours in time and have the same arrivals."
    else:
        lead = "The runs of the baseline are of another day."
    return Section("runs", "Run by run", lead, charts)


def _curves(
    metric: str,
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    marks: Mapping[int, str] | None = None,
) -> Curves:
    figure = METRICS[metric].figure
    unit = figure.unit if figure.unit in ("ns", "bytes") else "count"
    return Curves(title, labels, series, unit, meaning=figure.meaning, marks=marks or {})


def _history(trends: Sequence[Trend]) -> Section:
    parts: list[Part] = []
    for trend in trends:
        points = trend.points[-POINTS_MAX:]
        series = [Series("counted", [None if x.why_not else x.value for x in points])]
        other = [each.value if each.why_not else None for each in points]
        if any(value is not None for value in other):
            why = "; ".join(dict.fromkeys(each.why_not for each in points if each.why_not))
            series.append(Series("not counted", other, "grey", f"not counted: {why}"))
        dates = [(each.measured_at or "")[:10] for each in points]
        if len(set(dates)) < len(dates):  # several a day: with their time
            dates = [(each.measured_at or "")[5:16].replace("T", " ") for each in points]
        marks = {at: "settings changed" for at, each in enumerate(points) if each.changed}
        since = [each.measured_at for each in points]
        if trend.step is not None and trend.step.since in since:
            marks[since.index(trend.step.since)] = "step"
        title = f"{label_of(trend.metric)} over time"
        parts.append(_curves(trend.metric, title, dates, series, marks))
    parts += trend_tables(trends)
    return Section("history", "Results over time", "\n".join(trend_lines(trends)), parts)


def _compared(comparison: Comparison) -> list[str]:
    base = comparison.base
    names = " and ".join(each.name for each in comparison.candidates)
    run = base.runs[0]
    length = length_words(run.workload)
    count = f"{len(base.runs)} runs each" + (f" of {length}" if length else "")
    parts = (f"{names} against {base.name}", count, load_words(run.workload))
    return [each for each in parts if each]


def _decided(
    comparison: Comparison, decisions: Sequence[tuple[Candidate, LimitDecision]]
) -> list[str]:
    """The outcome of the limits; nothing without limits."""
    is_one = len(comparison.candidates) == 1
    lines = []
    for candidate, decision in decisions:
        change = brief_change(candidate.differences[decision.limit.metric])
        begin = decision.outcome.word + ("" if is_one else f" ({candidate.name})")
        lines.append(f"{begin}: {decision.limit.text} {change}".rstrip())
        lines += [decision.reason] if decision.reason else []
    all_of_them = outcome_line(comparison).rstrip(".")
    is_summed = len(decisions) > 1 or comparison.is_refused
    return [*([all_of_them[:1].lower() + all_of_them[1:]] if is_summed else []), *lines]


def _effects(comparison: Comparison) -> list[str]:
    """How each candidate differs in the metrics that decide, the worst first."""
    is_one = len(comparison.candidates) == 1
    clauses = []
    for each in comparison.candidates:
        shown = {m: x for m, x in each.differences.items() if m in _DECISIVE}
        begin = "" if is_one else f"{each.name}: "
        if each.unlike:
            begin += f"another workload ({', '.join(each.unlike)}): "
        own = []
        for verdict in _IN_ORDER:
            metrics = [_effect(m, x) for m, x in shown.items() if x.verdict is verdict]
            if metrics:
                own.append(f"{begin}{verdict.value} in {', '.join(metrics)}")
                begin = ""
        what = what_would_decide(each.differences)
        if what and not comparison.decisions and not comparison.is_mostly_disturbed:
            own[-1] += f" ({what})"
        clauses += own
    return clauses


def _effect(metric: str, difference: Difference) -> str:
    change = brief_change(difference) if difference.verdict in _DIFFERING else ""
    return f"{label_of(metric)} {change}".rstrip()


def _trust(comparison: Comparison, doubts: Sequence[str]) -> list[str]:
    notes = [*comparison.invalid_lines(), *note_lines(comparison)]
    briefs = [each.rstrip(".").split("; ")[0] for each in notes]
    kinds = [each for each in doubts if not each.startswith(("Invalid", "Other"))]
    known = [each[:1].lower() + each[1:] for each in (*briefs, *kinds)]
    if not comparison.decisions and not comparison.invalid and not comparison.disturbed:
        known.append("each metric has its own interval: 1 in 20 differs by chance")
    grade = "poor" if comparison.invalid else "fair" if comparison.disturbed or doubts else "good"
    return [f"{grade}: {MEASURED_STACK}", *known]


def _next(
    comparison: Comparison, decisions: Sequence[tuple[Candidate, LimitDecision]]
) -> list[str]:
    found = []
    undecided = [each for _, each in decisions if each.outcome is Outcome.INCONCLUSIVE]
    if comparison.is_mostly_disturbed:
        found.append("find a quieter machine")
    elif undecided:
        found.append("repeat it with more --runs, or with a wider limit")
    elif not decisions:
        found.append("--fail-if 'p99>+10%' makes it a gate")
    return [*found, "--details shows all metrics and doubts"]
