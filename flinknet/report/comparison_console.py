"""A comparison on a terminal: differences with intervals, limits, doubts, trends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flinknet.results.comparison import Comparison, Difference, Outcome, Trend, Verdict

from .comparison_texts import (
    decision_line,
    load_line,
    metric_rows,
    note_lines,
    outcome_line,
    setting_lines,
    table_notes,
    trend_lines,
    trend_tables,
)
from .console import print_line
from .number_table import NAME_WIDTH, empty_table, folded_tables, width_of

MEAN_WIDTH = 8
"""Width of a number with its unit; the names of configurations above it are folded."""

_MEANS = _BASE, _CANDIDATE = ("base", "candidate")
_CHANGES = _CHANGE, _INTERVAL, _VERDICT = ("change", "interval", "verdict")
"""Columns."""

_VERDICT_STYLES = {Verdict.BETTER: "green", Verdict.WORSE: "red"}
_OUTCOME_STYLES = {Outcome.PASS: "green", Outcome.REGRESSION: "red", Outcome.INCONCLUSIVE: "yellow"}


def print_comparison(console: Console, comparison: Comparison) -> None:
    """For each candidate its settings, a table and a sentence; then doubts."""
    sentences = comparison.sentences()
    for candidate in comparison.candidates:
        for line in setting_lines(comparison, candidate):
            print_line(console, line)
        print_differences(
            console,
            comparison.base.name,
            candidate.name,
            candidate.differences,
            comparison.confidence,
        )
        for line in table_notes(comparison, candidate):
            print_line(console, line)
    for line in (
        *comparison.invalid_lines(),
        *sentences,
        load_line(comparison),
        *note_lines(comparison),
    ):
        print_line(console, line)


def print_differences(
    console: Console,
    base: str,
    candidate: str,
    differences: Mapping[str, Difference],
    confidence: float,
) -> None:
    """One row for each metric: both means, the change with its interval, the verdict. Numbers are
    never cut, and the names of the two are folded. Where there is no room the means stand below
    the rest.
    """
    interval = f"{confidence * 100:g}% interval"
    columns = (*_MEANS, *_CHANGES)

    def build(shown: Sequence[str], *, is_tight: bool, name_width: int | None) -> Table:
        title = f"{escape(candidate)} against {escape(base)}"
        is_first = len(shown) == len(columns) or shown[0] == _CHANGE
        table = empty_table(title if is_first else None, is_tight=is_tight)
        table.add_column("metric", no_wrap=True)
        names = {_BASE: base, _CANDIDATE: candidate, _CHANGE: "change", _INTERVAL: interval}
        for column in shown:
            if column in _MEANS:
                table.add_column(
                    escape(names[column]),
                    justify="right",
                    overflow="fold",
                    min_width=MEAN_WIDTH,
                    max_width=name_width and MEAN_WIDTH,
                )
            elif column == _VERDICT:
                table.add_column("verdict", no_wrap=True)
            else:
                table.add_column(names[column], justify="right", no_wrap=True)
        for row in metric_rows(differences, is_narrow=is_tight):
            cells: dict[str, str | Text] = {
                _BASE: row.base,
                _CANDIDATE: row.candidate,
                _CHANGE: row.change,
                _INTERVAL: row.interval,
                _VERDICT: Text(row.verdict.value, style=_VERDICT_STYLES.get(row.verdict, "")),
            }
            table.add_row(row.metric, *(cells[column] for column in shown))
        return table

    if width_of(build(columns, is_tight=True, name_width=NAME_WIDTH)) <= console.width:
        console.print(folded_tables(build, columns, console.width))
    else:
        for part in (_CHANGES, _MEANS):
            console.print(folded_tables(build, part, console.width))


def print_outcome(console: Console, comparison: Comparison) -> None:
    """One line for each limit with its outcome, and one for all."""
    for candidate, decision in comparison.decisions:
        outcome = decision.outcome
        begin = (outcome.word, _OUTCOME_STYLES[outcome])
        print_line(console, Text.assemble(begin, f": {decision_line(candidate, decision)}"))
    if result := outcome_line(comparison):
        print_line(console, Text(result, style=_OUTCOME_STYLES[comparison.outcome]))


def print_trends(console: Console, trends: Sequence[Trend]) -> None:
    """The newest results of each candidate, and a warning where there is a step."""
    for shown in trend_tables(trends):
        table = empty_table(escape(f"{shown.config} over time"), is_tight=True)
        for index, name in enumerate(shown.heads):
            is_text = index in (0, len(shown.heads) - 1)
            table.add_column(name, justify="left" if is_text else "right")
        for row in shown.rows:
            table.add_row(*map(escape, row))
        console.print(table)
    for line in trend_lines(trends):
        is_step = any(trend.step for trend in trends)
        begin = ("Warning", "yellow") if is_step else ("", "")
        print_line(console, Text.assemble(begin, ": " if is_step else "", line))
