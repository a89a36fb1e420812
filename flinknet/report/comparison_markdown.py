"""A comparison as Markdown, for the comment of a pull request (GitHub, GitLab)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from flinknet.results.comparison import (
    Candidate,
    Comparison,
    LimitDecision,
    Outcome,
    Trend,
    Verdict,
)

from .comparison_texts import (
    MEASURED_STACK,
    TrendTable,
    decision_line,
    doubt_lines,
    key_notes,
    load_line,
    load_notes,
    metric_rows,
    not_started_line,
    note_lines,
    outcome_line,
    table_notes,
    trend_lines,
    trend_tables,
)
from .plain_text import printable

_MARKS = {Outcome.PASS: "✓", Outcome.REGRESSION: "✗", Outcome.INCONCLUSIVE: "?"}
_STRONG = frozenset((Verdict.BETTER, Verdict.WORSE))
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&@])")


def comparison_markdown(comparison: Comparison, trends: Sequence[Trend]) -> str:
    """The comment: outcome, doubts, then tables and notes."""
    title = f"### flinknet compare-configs{_headline(comparison)}"
    blocks = [f"{title}\n{_text(MEASURED_STACK.capitalize())}.\n{_text(load_line(comparison))}"]
    blocks.append("\n".join(f"- ⚠ {_text(line)}" for line in doubt_lines(comparison)))
    if comparison.decisions:
        blocks.append("\n".join(_decision(*each) for each in comparison.decisions))
    blocks += [_text(sentence) for sentence in comparison.sentences()]
    known = [key_notes(comparison, each) for each in comparison.candidates]
    notes = dict.fromkeys((*load_notes(comparison), *(line for lines in known for line in lines)))
    blocks.append("\n".join(f"- {_text(note)}" for note in notes))
    for candidate in comparison.candidates:
        blocks += [_settings(comparison, candidate), _metrics(comparison, candidate)]
    lines = note_lines(comparison) + trend_lines(trends)
    blocks.append("\n".join(f"- {_text(line)}" for line in lines))
    blocks += [_trend(each) for each in trend_tables(trends)]
    blocks.append(_environment(comparison))
    return "\n\n".join(block for block in blocks if block) + "\n"


def not_started_markdown(name: str, why: str) -> str:
    """The comment where a candidate cannot start."""
    mark = _MARKS[Outcome.REGRESSION]
    headline = f"### flinknet compare-configs: {mark} {_text(not_started_line(name).rstrip('.'))}"
    return f"{headline}\n\n- {mark} fail: {_text(name)}: {_text(why)}\n"


def _headline(comparison: Comparison) -> str:
    line = outcome_line(comparison).rstrip(".")
    return f": {_MARKS[comparison.outcome]} {_text(line)}" if line else ""


def _decision(candidate: Candidate, decision: LimitDecision) -> str:
    mark = _MARKS[decision.outcome]
    return f"- {mark} {decision.outcome.word}: {_text(decision_line(candidate, decision))}"


def _settings(comparison: Comparison, candidate: Candidate) -> str:
    if not candidate.changes:
        return "Both are the same configuration: any difference is chance."
    rows = [(each.name, each.base, each.candidate) for each in candidate.changes]
    cells = [[_text(cell or "not set") for cell in row] for row in rows]
    return _table(["setting", _text(comparison.base.name), _text(candidate.name)], cells, "lll")


def _metrics(comparison: Comparison, candidate: Candidate) -> str:
    interval = f"{comparison.confidence * 100:g}% interval"
    names = [_text(comparison.base.name), _text(candidate.name)]
    rows = [
        [
            *(_text(each) for each in (row.metric, row.change)),
            f"**{row.verdict.value}**" if row.verdict in _STRONG else row.verdict.value,
            *(_text(each) for each in (row.interval, row.base, row.candidate)),
        ]
        for row in metric_rows(candidate.differences)
    ]
    table = _table(["metric", "change", "verdict", interval, *names], rows, "lrlrrr")
    return "\n\n".join([table, *map(_text, table_notes(comparison, candidate))])


def _trend(shown: TrendTable) -> str:
    rows = [[_text(cell) for cell in row] for row in shown.rows]
    table = _table(shown.heads, rows, "l" + "r" * (len(shown.heads) - 2) + "l")
    title = f"{_text(shown.config)} over time"
    return f"<details><summary>{title}</summary>\n\n{table}\n\n</details>"


def _environment(comparison: Comparison) -> str:
    known = comparison.environment
    names = ("flinknet", "python", "core", "cpu", "cores", "kernel", "load_average", "started_at")
    rows = [[name, _text(str(known[name]))] for name in names if known.get(name) is not None]
    runs = ", ".join(f"{len(each.runs)} of {each.name}" for each in comparison.configurations)
    rows += [["runs", _text(runs)], ["seed", str(comparison.seed)]]
    table = _table(["environment", ""], rows, "ll")
    return f"<details><summary>Environment</summary>\n\n{table}\n\n</details>"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], alignment: str) -> str:
    rule = ["---:" if side == "r" else "---" for side in alignment]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))


def _text(text: str) -> str:
    """A text that means nothing in Markdown or HTML: names come from files of others."""
    return _SPECIAL.sub(r"\\\1", " ".join(printable(text).split()))
