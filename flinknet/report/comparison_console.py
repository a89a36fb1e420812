"""A comparison on a terminal: limits and effects first, then the metrics that decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flinknet.results.comparison import (
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

from .comparison_texts import (
    MEASURED_STACK,
    brief_change,
    decision_line,
    load_line,
    metric_rows,
    note_lines,
    outcome_line,
    table_notes,
    trend_lines,
    trend_tables,
)
from .headline import Sentence, TerminalView
from .page_parts import Head, Lines, Pairs, Part, Row, Table, Tone
from .trade_words import length_words, load_words

_DECISIVE = ("throughput", "p50", "p99", "buffers", "cpu")
"""Metrics of the table, with those of limits."""

_TONES: Mapping[Verdict, Tone] = {Verdict.BETTER: "good", Verdict.WORSE: "bad"}
_DIFFERING = (Verdict.WORSE, Verdict.BETTER, Verdict.HIGHER, Verdict.LOWER)
_IN_ORDER = (*_DIFFERING, Verdict.NONE, Verdict.UNCLEAR)
_WORST_FIRST = (Outcome.REGRESSION, Outcome.INCONCLUSIVE, Outcome.PASS)


def comparison_view(
    comparison: Comparison,
    trends: Sequence[Trend],
    doubts: Sequence[str],
    *,
    is_explained: bool = False,
) -> TerminalView:
    """What compare-configs prints.

    Args:
        doubts: about the runs of this call.
        is_explained: print them all.
    """
    decisions = sorted(comparison.decisions, key=lambda x: _WORST_FIRST.index(x[1].outcome))
    limited = {decision.limit.metric for _, decision in decisions}
    has_doubts = bool(doubts or comparison.invalid)
    return TerminalView(
        [
            Sentence("compared", _compared(comparison), "; "),
            Sentence("verdict", _decided(comparison, decisions), "; ", takes_rest=not has_doubts),
            Sentence("effect", _effects(comparison), "; "),
            Sentence("trust", _trust(comparison, doubts), "; ", takes_rest=has_doubts),
            Sentence("next", _next(comparison, decisions), "; "),
        ],
        [
            *_settings(comparison),
            *(
                differences_table(comparison, each, {*_DECISIVE, *limited})
                for each in comparison.candidates
            ),
            *([Lines(doubts)] if is_explained else []),
            *_trend_parts(trends),
        ],
        [
            *(
                part
                for each in comparison.candidates
                for part in (
                    differences_table(comparison, each),
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
                    *(
                        f"{decision.outcome.word}: {decision_line(candidate, decision)}"
                        for candidate, decision in comparison.decisions
                    ),
                    *filter(None, [outcome_line(comparison)]),
                ]
            ),
        ],
    )


def differences_table(
    comparison: Comparison, candidate: Candidate, metrics: Sequence[str] | set[str] | None = None
) -> Table:
    """One row for each metric: the change with its interval, the verdict, and both means.

    Args:
        metrics: those to show; None: all.
    """
    base = comparison.base.name
    shown: dict[str, Difference] = {
        name: each
        for name, each in candidate.differences.items()
        if metrics is None or name in metrics
    }
    heads = [
        Head("metric"),
        Head("change"),
        Head(f"{comparison.confidence * 100:g}% interval"),
        Head("verdict", is_text=True),
        Head(base),
        Head(candidate.name),
    ]
    rows = [
        Row(
            [
                each.metric,
                each.change,
                each.interval,
                each.verdict.value,
                each.base,
                each.candidate,
            ],
            tone=_TONES.get(each.verdict, ""),
        )
        for each in metric_rows(shown, is_narrow=True)
    ]
    return Table(heads, rows, f"{candidate.name} against {base}")


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
            metrics = [
                f"{label_of(m)} {brief_change(x)}".rstrip()
                if verdict in _DIFFERING
                else label_of(m)
                for m, x in shown.items()
                if x.verdict is verdict
            ]
            if metrics:
                own.append(f"{begin}{verdict.value} in {', '.join(metrics)}")
                begin = ""
        what = what_would_decide(each.differences)
        if what and not comparison.decisions and not comparison.is_mostly_disturbed:
            own[-1] += f" ({what})"
        clauses += own
    return clauses


def _trust(comparison: Comparison, doubts: Sequence[str]) -> list[str]:
    notes = [*comparison.invalid_lines(), *note_lines(comparison)]
    briefs = [each.rstrip(".").split("; ")[0] for each in notes]
    kinds = [each for each in doubts if not each.startswith(("Invalid", "Other"))]
    known = [each[:1].lower() + each[1:] for each in (*briefs, *kinds)]
    if not comparison.decisions and not comparison.invalid and not comparison.disturbed:
        known.append("each metric has its own interval: 1 in 20 differs by chance")
    return [MEASURED_STACK, *known]


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


def _settings(comparison: Comparison) -> list[Part]:
    """Settings that differ, of each candidate."""
    base = comparison.base.name
    return [
        Pairs(
            f"{each.name} differs from {base} in",
            {
                change.name: f"{change.base or 'not set'} → {change.candidate or 'not set'}"
                for change in each.changes
            },
        )
        if each.changes
        else Lines(
            [f"{each.name} and {base} are the same configuration: any difference is chance."]
        )
        for each in comparison.candidates
    ]


def _trend_parts(trends: Sequence[Trend]) -> list[Part]:
    """The newest results of each candidate, and a warning where there is a step."""
    tables = [
        Table(
            [
                Head(name, is_text=number == len(shown.heads) - 1)
                for number, name in enumerate(shown.heads)
            ],
            [Row(row) for row in shown.rows],
            f"{shown.config} over time",
        )
        for shown in trend_tables(trends)
    ]
    lines = trend_lines(trends)
    is_step = any(trend.step for trend in trends)
    return [*tables, *([Lines(lines, is_doubt=is_step)] if lines else [])]
