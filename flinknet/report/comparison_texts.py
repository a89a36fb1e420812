"""A comparison in words: the cells of its table, the settings that differ, limits."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from flinknet.results import Validity, validity_by
from flinknet.results.comparison import (
    METRICS,
    REFUSED,
    Candidate,
    Comparison,
    Configuration,
    Difference,
    LimitDecision,
    Outcome,
    Verdict,
    label_of,
    what_would_decide,
)
from flinknet.results.figures import SHOWN
from flinknet.units import MISSING, human_change, human_count, human_share, signed

from .observed_tables import FLUSHES
from .page_parts import Lines, Row, Table, Tone, heads

_SAME = "{} and {} are the same configuration: any difference is chance."

_SOME_DIGIT = re.compile("[1-9]")
"""Without one, a change rounds to nothing and has no sign."""

CPU_NOTE = (
    "CPU cores are those of flinknet's Python, with a fixed part for each process: a percentage of"
    " them says nothing of a cluster."
)

RATIO_MAX = 100
"""An interval that reaches further from its middle, as a factor, is not a figure."""

SHARE_SHOWN = 0.015
"""A smaller share is not worth its words."""


_TONES: Mapping[Verdict, Tone] = {Verdict.BETTER: "good", Verdict.WORSE: "bad"}


def changes_table(
    comparison: Comparison, candidate: Candidate, metrics: Collection[str] = (), *, has_notes: bool
) -> Table:
    """One row for each of some metrics (none: all): the change with its interval, the verdict, and
    both means."""
    base, interval = comparison.base.name, f"{comparison.confidence * 100:g}% interval"
    rows = []
    for metric, each in candidate.differences.items():
        if metric in metrics or not metrics:
            means = [amount(x, metric) for x in (each.base_mean, each.candidate_mean)]
            cells = [label_of(metric), *change_cells(each, metric), each.verdict.value, *means]
            rows.append(Row(cells, tone=_TONES.get(each.verdict, "")))
    names = ("metric", "change", interval, "verdict", base, candidate.name)
    notes = table_notes(comparison, candidate) if has_notes else []
    title = f"{candidate.name} against {base}"
    return Table(heads(*names, texts=["verdict"]), rows, title, notes)


def change_cells(difference: Difference, metric: str) -> list[str]:
    """The change of a metric, and its interval without a percent sign."""
    change, low, high = difference.change, difference.low, difference.high
    shown = _change(change, difference, metric)
    if low is None or high is None:
        return [shown, MISSING]
    if not difference.is_ratio:
        return [shown, "…".join(_change(end, difference, metric) for end in (low, high))]
    if (1 + high) > RATIO_MAX**2 * (1 + low):
        return [shown, f">{RATIO_MAX}-fold"]
    return [shown, "…".join(signed(end * 100, "{:.1f}".format) for end in (low, high))]


def settings_table(comparison: Comparison, candidate: Candidate) -> Table | Lines:
    base, name = comparison.base.name, candidate.name
    if not candidate.changes:
        return Lines([_SAME.format(name, base)], is_plain=True)
    rows = [
        Row([each.name, each.base or "not set", each.candidate or "not set"])
        for each in candidate.changes
    ]
    columns = heads("setting", base, name, texts=["setting", base, name])
    return Table(columns, rows, f"{name} differs from {base} in")


def table_notes(comparison: Comparison, candidate: Candidate) -> list[str]:
    """Meanings of the table's columns, and of the reasons why buffers left."""
    note = "Columns are geometric means over the rounds; change is their ratio."
    zeros = [label_of(metric) for metric, x in candidate.differences.items() if not x.is_ratio]
    if zeros:
        has, are = ("has", "it is") if len(zeros) == 1 else ("have", "they are")
        note += f" {' and '.join(zeros)} {has} zeros, so {are} shown as arithmetic means and their"
        note += " difference."
    cpu = candidate.differences.get("cpu")
    is_judged = cpu is not None and cpu.verdict in (Verdict.BETTER, Verdict.WORSE)
    return [
        note,
        *([CPU_NOTE] if is_judged else []),
        *_why_buffers_left((comparison.base, candidate.configuration)),
    ]


def _why_buffers_left(configurations: Sequence[Configuration]) -> list[str]:
    parts, end = [], "."
    for each in configurations:
        counts = {why.name: getattr(each.flushes, why.key) for why in FLUSHES}
        if sent := sum(counts.values()):
            shares = {why: count / sent for why, count in counts.items()}
            shown = [f"{human_share(x)} {why}" for why, x in shares.items() if x >= SHARE_SHOWN]
            parts.append(f"{each.name} {', '.join(shown)}")
            if shares["full"] > 0.5:
                end = ". A buffer that is full does not wait for the timeout."
    return [f"Buffers were sent: {'; '.join(parts)}{end}"] if parts else []


def decision_line(candidate: Candidate, decision: LimitDecision) -> str:
    """A limit and its measured value, without the outcome in front."""
    reason = f"; {decision.reason}" if decision.reason else ""
    limit = decision.limit
    return f"{candidate.name}, fail if {limit.text}: {change_line(candidate, limit.metric)}{reason}"


def change_line(candidate: Candidate, metric: str) -> str:
    found = candidate.differences[metric]
    if found.verdict is Verdict.UNKNOWN:
        return f"{label_of(metric)} was not measured"
    before, after = (amount(each, metric) for each in (found.base_mean, found.candidate_mean))
    return f"{label_of(metric)} {before} → {after} {brief_change(found, metric)}"


def brief_change(difference: Difference, metric: str = "throughput") -> str:
    """A change with its interval: "(−7.8%, −35.6…+32.0%)"; empty where it was not measured."""
    if difference.change is None:
        return ""
    change, ends = change_cells(difference, metric)
    unit = "%" if difference.is_ratio and not ends.startswith(">") else ""
    return f"({change}, {ends}{unit})"


_DIFFERING = (Verdict.WORSE, Verdict.BETTER, Verdict.HIGHER, Verdict.LOWER)


def effect_clauses(
    candidate: Candidate, metrics: Collection[str] = (), *, is_undecided: bool = True
) -> list[str]:
    """How a candidate differs in some metrics, with their intervals (none: in all, without), the
    worst first, and how many runs would decide what is unclear."""
    found = []
    for verdict in (*_DIFFERING, *([Verdict.NONE] if metrics else []), Verdict.UNCLEAR):
        names = []
        for metric, each in candidate.differences.items():
            if each.verdict is verdict and (not metrics or metric in metrics):
                change = brief_change(each) if metrics else f"({human_change(each.change)})"
                has_change = verdict in _DIFFERING and (metrics or each.is_ratio)
                names.append(f"{label_of(metric)} {change}" if has_change else label_of(metric))
        if names:
            found.append(f"{verdict.value} in {', '.join(names)}")
    what = what_would_decide(candidate.differences)
    if found and what and is_undecided and not candidate.decisions:
        found[-1] += f" ({what})"
    return found or ["no difference"]


def effect_sentence(comparison: Comparison, candidate: Candidate) -> str:
    against = f"{candidate.name} against {comparison.base.name}"
    if candidate.unlike:
        against += f" (another workload: {', '.join(candidate.unlike)})"
    return f"{against}: {'; '.join(effect_clauses(candidate))}."


def outcome_line(comparison: Comparison) -> str:
    """The outcome of all limits in a sentence; empty where there are none."""
    if comparison.is_refused:
        return f"Undecided: {REFUSED}."
    outcomes = [decision.outcome for _, decision in comparison.decisions]
    is_one, count = len(outcomes) == 1, outcomes.count(comparison.outcome)
    what = "the limit" if is_one else f"{count} of {len(outcomes)} limits"
    said = {
        Outcome.REGRESSION: f"Failed: {what} {'is' if count == 1 else 'are'} broken.",
        Outcome.INCONCLUSIVE: f"Undecided: {what} could not be decided.",
        Outcome.PASS: f"Passed: {'the' if is_one else 'every'} limit holds.",
    }
    return said[comparison.outcome] if outcomes else ""


def not_started_line(name: str) -> str:
    return f"Failed: {name} cannot start, so nothing was measured."


def load_notes(comparison: Comparison) -> list[str]:
    """Settings that differ and that this load hardly exercises, a line each."""
    notes = dict.fromkeys(note for each in comparison.candidates for note in each.notes)
    return [f"Note: {each}" for each in notes]


def key_notes(comparison: Comparison, candidate: Candidate) -> list[str]:
    """Warnings about keys that differ, or that only one of two configurations has, because Flink or
    flinknet ignores them."""
    base, own = (
        {
            text.removeprefix(f"{each.name}: "): text
            for result in each.results
            for warning in result.warnings
            if validity_by(warning) is Validity.VALID and (text := warning.brief or warning.text)
        }
        for each in (comparison.base, candidate.configuration)
    )
    names = tuple(f"{each.name}:" for each in candidate.changes)
    shown = [x for x in own | base if x.startswith(names) or (x in own) != (x in base)]
    return [f"Note: {(own | base)[each]}" for each in shown]


def environment_of(comparison: Comparison) -> dict[str, Any]:
    known = {name: x for name, x in comparison.environment.items() if x is not None}
    runs = ", ".join(f"{len(each.runs)} of {each.name}" for each in comparison.configurations)
    return known | {"runs": runs, "seed": comparison.seed}


def amount(value: float | None, metric: str) -> str:
    """A value of a metric with three digits."""
    unit = METRICS[metric].figure.unit
    if unit == "cores":
        return f"{value:.3f}" if value is not None and value < 1 else human_count(value)
    return SHOWN[unit](value)


def _change(value: float | None, difference: Difference, metric: str) -> str:
    if value is None:
        return MISSING
    if difference.is_ratio:
        return human_change(value)
    size = amount(abs(value), metric)
    return signed(value, lambda _: size) if _SOME_DIGIT.search(size) else size
