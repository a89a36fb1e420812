"""The view of a comparison: limits and effects first, then the metrics that decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flinknet.results.comparison import (
    METRICS,
    REACHABLE,
    WORST_FIRST,
    Candidate,
    Comparison,
    LimitDecision,
    Outcome,
    Verdict,
    label_of,
)

from . import comparison_texts as texts
from .bench_words import doubt_lines
from .charts import Color, Curves, Interval, Intervals, Series
from .page_parts import Lines, Part, Section, Sentence, View, pairs_of
from .trade_words import link_words, load_words, runs_words
from .warning_lines import lowered

MEASURED_STACK = "measured in flinknet's own network stack with synthetic records, not in your job"

_DECISIVE = ("throughput", "p50", "p99", "buffers", "cpu")
"""Metrics of the table, with those of limits."""

_RUN_METRICS = ("throughput", "p50", "p99")
"""Metrics drawn run by run where no limit names any."""

_COLORS: Mapping[Verdict, Color] = {Verdict.BETTER: "green", Verdict.WORSE: "orange"}


def comparison_view(comparison: Comparison) -> View:
    """The view of all candidates, with doubts about all runs."""
    doubts = doubt_lines(comparison.configurations)
    explained = doubt_lines(comparison.configurations, is_explained=True)
    decisions = sorted(comparison.decisions, key=lambda x: WORST_FIRST.index(x[1].outcome))
    decisive = {*_DECISIVE, *(decision.limit.metric for _, decision in decisions)}
    has_doubts = bool(doubts or comparison.invalid or comparison.is_elsewhere)
    is_long = len(decisions) > 1 or comparison.is_refused or not has_doubts
    candidates = comparison.candidates
    base, names = comparison.base.name, " and ".join(each.name for each in candidates)
    notes = texts.load_notes(comparison)
    notes += [note for each in candidates for note in texts.key_notes(comparison, each)]
    return View(
        [
            Sentence("compared", [f"{names} against {base}", *_loads(comparison)]),
            Sentence("verdict", _decided(comparison, decisions), " ", takes_rest=is_long),
            Sentence("effect", _effects(comparison)),
            Sentence("trust", _trust(comparison, doubts), takes_rest=has_doubts),
            Sentence("next", _next(comparison, decisions)),
        ],
        [
            *(texts.settings_table(comparison, each) for each in candidates),
            *(
                texts.changes_table(comparison, each, decisive, has_notes=False)
                for each in candidates
            ),
        ],
        [
            *(texts.changes_table(comparison, each, has_notes=True) for each in candidates),
            Lines(
                [
                    *comparison.invalid_lines(),
                    *(f"Effect: {texts.effect_sentence(comparison, each)}" for each in candidates),
                    f"Load: {'; '.join(_loads(comparison))}.",
                    *_notes(comparison),
                    *(
                        f"{x.outcome.word}: {texts.decision_line(c, x)}"
                        for c, x in comparison.decisions
                    ),
                    *filter(None, [texts.outcome_line(comparison)]),
                ]
            ),
            Lines(explained, is_doubt=True),
            pairs_of("Environment", texts.environment_of(comparison)),
        ],
        [Section("", each.name, "", _pictures(comparison, each)) for each in candidates],
        name="compared",
        title=f"{names} against {base}",
        lead="\n".join(dict.fromkeys(notes)),
    )


def _notes(comparison: Comparison) -> list[str]:
    baseline, few = comparison.baseline_lines(), comparison.few_runs_lines()
    return [*baseline, *few, *comparison.disturbed_lines()]


def _pictures(comparison: Comparison, candidate: Candidate) -> list[Part]:
    intervals = [
        Interval(
            label_of(metric),
            each.change,
            each.low,
            each.high,
            _COLORS.get(each.verdict, "grey"),
            METRICS[metric].figure.meaning,
            [x.limit.ratio for x in candidate.decisions if x.limit.metric == metric],
            each.verdict.value,
        )
        for metric, each in candidate.differences.items()
        if each.is_ratio and each.change is not None
    ]
    meaning = (
        f"Each with its {comparison.confidence * 100:g}% interval; green is better, orange is"
        " worse."
    )
    charts: list[Part] = [Intervals("Changes", intervals, meaning)]
    limited = dict.fromkeys(each.limit.metric for each in candidate.decisions)
    both = (comparison.base, candidate.configuration)
    count = max(len(each.runs) for each in both)
    colors: tuple[Color, Color] = ("grey", "blue")
    labels = list(map(str, range(1, count + 1)))
    for metric in limited or _RUN_METRICS:
        figure, name, series = METRICS[metric].figure, label_of(metric), []
        for each, color in zip(both, colors, strict=True):
            values = each.values(metric)
            series.append(Series(each.name, [*values, *[None] * (count - len(values))], color))
        unit = figure.unit if figure.unit in ("ns", "bytes") else "count"
        charts.append(Curves(name, labels, series, unit, meaning=figure.meaning, by="run", y=name))
    return charts


def _loads(comparison: Comparison) -> list[str]:
    """Runs, load and link, each with the names of its configurations unless all have the same."""
    loads = [(x.name, len(x.runs), x.results[0].workload) for x in comparison.configurations]
    parts = []
    for own in (
        {name: runs_words(runs, workload, " each") for name, runs, workload in loads},
        {name: load_words(workload) for name, _, workload in loads},
        {name: link_words(workload) for name, _, workload in loads},
    ):
        for text in filter(None, dict.fromkeys(own.values())):
            whose = " and ".join(name for name, other in own.items() if other == text)
            parts.append(text if len({*own.values()}) == 1 else f"{whose}: {text}")
    return parts


def _decided(
    comparison: Comparison, decisions: Sequence[tuple[Candidate, LimitDecision]]
) -> list[str]:
    is_one = len(comparison.candidates) == 1
    groups: dict[tuple[str, str], list[str]] = {}
    reasons: dict[str, list[str]] = {}
    for candidate, decision in decisions:
        change = texts.brief_change(candidate.differences[decision.limit.metric])
        kind = decision.outcome.word, "" if is_one else candidate.name
        groups.setdefault(kind, []).append(f"{decision.limit.text} {change}".rstrip())
        if decision.reason:
            reasons.setdefault(decision.reason, []).append(decision.limit.text)
    lines = []
    for (word, name), named in groups.items():
        count = f"{len(named)} of {len(decisions)}" if len(decisions) > 1 else ""
        marks = ", ".join(filter(None, (count, name)))
        *others, last = named
        begin, *more = [*(f"{each}," for each in others), f"{last};"]
        lines += [f"{word}{f' ({marks})' if marks else ''}: {begin}", *more]
    why = [
        f"{reason};" if len(reasons) == 1 else f"{', '.join(dict.fromkeys(of))}: {reason};"
        for reason, of in reasons.items()
    ]
    if comparison.is_refused and not decisions:
        return [lowered(texts.outcome_line(comparison))]
    return [*lines, *why]


def _effects(comparison: Comparison) -> list[str]:
    is_one = len(comparison.candidates) == 1
    clauses, counts_runs = [], not comparison.is_mostly_disturbed
    for each in comparison.candidates:
        begin = "" if is_one else f"{each.name}: "
        begin += f"another workload ({', '.join(each.unlike)}): " if each.unlike else ""
        first, *more = texts.effect_clauses(each, _DECISIVE, is_undecided=counts_runs)
        clauses += [begin + first, *more]
    return clauses


def _trust(comparison: Comparison, doubts: Sequence[str]) -> list[str]:
    invalid, notes = (
        [each.rstrip(".").split("; ")[0] for each in lines]
        for lines in (comparison.invalid_lines(), _notes(comparison))
    )
    kinds = [each for each in doubts if not each.startswith(("Invalid", "Other"))]
    machine = [notes.pop(0)] if comparison.is_elsewhere else []
    known = [each[:1].lower() + each[1:] for each in (*invalid, *machine, *kinds, *notes)]
    if not comparison.decisions and not comparison.invalid and not comparison.disturbed:
        known.append("each metric has its own interval: 1 in 20 differs by chance")
    is_doubtful = comparison.disturbed or doubts or comparison.is_elsewhere
    grade = "poor" if comparison.is_poor else "fair" if is_doubtful else "good"
    first, *others = [*known, MEASURED_STACK] if grade != "good" else [MEASURED_STACK, *known]
    return [f"{grade}: {first}", *others]


def _next(
    comparison: Comparison, decisions: Sequence[tuple[Candidate, LimitDecision]]
) -> list[str]:
    undecided = [each for _, each in decisions if each.outcome is Outcome.INCONCLUSIVE]
    unlike = dict.fromkeys(name for each in comparison.candidates for name in each.unlike)
    found = [*dict.fromkeys(each.step for each in undecided if each.step)]
    if comparison.is_mostly_disturbed or comparison.is_refused:
        found = [*(each for each in found if each == REACHABLE), "find a quieter machine"]
    elif undecided:
        found = found or ["a person has to decide"]
    elif not decisions and unlike:
        found = [f"a gate needs the same {', '.join(unlike)} for all"]
    elif not decisions:
        found = ["--fail-if 'p99>+10%' makes it a gate"]
    return [*found, "--details shows all metrics and doubts"]
