"""A comparison as a comment in Markdown (GitHub, GitLab): outcome, doubts, tables, notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from flinknet.results.comparison import Comparison, Outcome, Trend

from .comparison_texts import (
    MEASURED_STACK,
    changes_table,
    decision_line,
    doubt_lines,
    environment_of,
    key_notes,
    load_line,
    load_notes,
    not_started_line,
    note_lines,
    outcome_line,
    settings_table,
    trend_lines,
    trend_tables,
)
from .page_parts import Lines, Pairs, Section, Table, Text
from .plain_text import printable

MarkdownPart = Lines | Pairs | Table | Text | Section

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&@])")

_TITLE = "### flinknet compare-configs"
_MARKS = {Outcome.PASS: "✓", Outcome.REGRESSION: "✗", Outcome.INCONCLUSIVE: "?"}


def comparison_markdown(comparison: Comparison, trends: Sequence[Trend]) -> str:
    """The comment."""
    line = outcome_line(comparison).rstrip(".")
    outcome = f": {_MARKS[comparison.outcome]} {_text(line)}" if line else ""
    head = f"{_TITLE}{outcome}\n{_text(MEASURED_STACK.capitalize())}.\n"
    known = [each for x in comparison.candidates for each in key_notes(comparison, x)]
    decisions = [
        f"{_MARKS[decision.outcome]} {decision.outcome.word}: {decision_line(candidate, decision)}"
        for candidate, decision in comparison.decisions
    ]
    parts: list[MarkdownPart] = [
        Lines(doubt_lines(comparison), is_doubt=True),
        Lines(decisions),
        *(Text("", sentence) for sentence in comparison.sentences()),
        Lines([*dict.fromkeys((*load_notes(comparison), *known))]),
        *(
            part
            for each in comparison.candidates
            for part in (
                settings_table(comparison, each),
                changes_table(comparison, each, has_notes=True),
            )
        ),
        Lines(note_lines(comparison) + trend_lines(trends)),
        *(Section(title=each.title, parts=[each]) for each in trend_tables(trends)),
        Section(title="Environment", parts=[Pairs("environment", environment_of(comparison))]),
    ]
    return f"{head}{_text(load_line(comparison))}\n\n{_markdown(parts)}\n"


def not_started_markdown(name: str, why: str) -> str:
    """The comment where a candidate cannot start."""
    mark = _MARKS[Outcome.REGRESSION]
    headline = f"{_TITLE}: {mark} {_text(not_started_line(name).rstrip('.'))}"
    return f"{headline}\n\n{_markdown([Lines([f'{mark} fail: {name}: {why}'])])}\n"


def _markdown(parts: Iterable[MarkdownPart]) -> str:
    """The parts with blank lines between them: lines as a list, marked where they are doubts, and
    sections folded away under their titles."""
    return "\n\n".join(block for part in parts for block in _blocks(part) if block)


def _text(text: str) -> str:
    """A text that means nothing in Markdown or HTML: names come from files of others."""
    return _SPECIAL.sub(r"\\\1", " ".join(printable(text).split()))


def _blocks(part: MarkdownPart) -> list[str]:
    match part:
        case Section():
            inside = _markdown(each for each in part.parts if isinstance(each, MarkdownPart))
            summary = f"<details><summary>{_text(part.title)}</summary>"
            return [f"{summary}\n\n{inside}\n\n</details>"]
        case Lines():
            mark = "⚠ " if part.is_doubt else ""
            return ["\n".join(f"- {mark}{_text(line)}" for line in part.lines)]
        case Text():
            return [_text(part.text)]
        case Pairs():
            rows = [[_text(each) for each in pair] for pair in part.pairs.items()]
            return [_table([_text(part.title), ""], rows, "ll")]
        case Table():
            strong = {"good", "bad"}
            rows = [
                [
                    f"**{_text(cell)}**" if row.tone in strong and head.is_text else _text(cell)
                    for head, cell in zip(part.heads, row.cells, strict=True)
                ]
                for row in part.rows
            ]
            sides = ["l" if not n or each.is_text else "r" for n, each in enumerate(part.heads)]
            table = _table([_text(each.name) for each in part.heads], rows, "".join(sides))
            return [table, *map(_text, part.notes)]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], sides: str) -> str:
    rule = ["---:" if side == "r" else "---" for side in sides]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))
