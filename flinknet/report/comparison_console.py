"""A comparison on a terminal: differences with intervals, limits, doubts, trends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flinknet.results.comparison import Comparison, Difference, Outcome, Trend, Verdict

from .comparison_texts import (
    columns_note,
    decision_line,
    metric_rows,
    note_lines,
    outcome_line,
    setting_lines,
    trend_lines,
    trend_tables,
)
from .number_table import empty_table, fitting_table

MEAN_WIDTH = 8
"""Of a number with its unit; the names of configurations above are folded."""

_VERDICT_STYLES = {Verdict.BETTER: "green", Verdict.WORSE: "red"}
_OUTCOME_STYLES = {Outcome.PASS: "green", Outcome.REGRESSION: "red", Outcome.INCONCLUSIVE: "yellow"}


def print_comparison(console: Console, comparison: Comparison) -> None:
    """For each candidate its settings, a table and a sentence; then doubts."""
    sentences = comparison.sentences()
    for candidate in comparison.candidates:
        for line in setting_lines(comparison, candidate):
            console.print(Text(line), soft_wrap=True)
        print_differences(
            console,
            comparison.base.name,
            candidate.name,
            candidate.differences,
            comparison.confidence,
        )
    for line in (*comparison.invalid_lines(), *sentences, *note_lines(comparison)):
        console.print(Text(line), soft_wrap=True)


def print_differences(
    console: Console,
    base: str,
    candidate: str,
    differences: Mapping[str, Difference],
    confidence: float,
) -> None:
    """One row for each metric: both means, the change with its interval, the verdict; below them
    what the means are. Numbers are never cut, and the names of the two are folded.
    """
    interval = f"{confidence * 100:g} % interval"

    def build(left_out: Sequence[str], *, is_tight: bool, name_width: int | None) -> Table:
        table = empty_table(f"{escape(candidate)} against {escape(base)}", is_tight=is_tight)
        table.add_column("metric", no_wrap=True)
        most = name_width and MEAN_WIDTH
        for name in (base, candidate):
            if name not in left_out:
                table.add_column(
                    escape(name),
                    justify="right",
                    overflow="fold",
                    min_width=MEAN_WIDTH,
                    max_width=most,
                )
        for name in ("change", interval):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("verdict", no_wrap=True)
        for row in metric_rows(differences, is_narrow=is_tight):
            means = {base: row.base, candidate: row.candidate}
            table.add_row(
                row.metric,
                *(mean for name, mean in means.items() if name not in left_out),
                row.change,
                row.interval,
                Text(row.verdict.value, style=_VERDICT_STYLES.get(row.verdict, "")),
            )
        return table

    console.print(fitting_table(build, [base, candidate], console.width))
    console.print(Text(columns_note(differences)), soft_wrap=True)


def print_outcome(console: Console, comparison: Comparison) -> None:
    """One line for each limit with what it came to, and one for all."""
    for candidate, decision in comparison.decisions:
        outcome = decision.outcome
        begin = (outcome.value, _OUTCOME_STYLES[outcome])
        console.print(
            Text.assemble(begin, f": {decision_line(candidate, decision)}"), soft_wrap=True
        )
    if result := outcome_line(comparison):
        console.print(Text(result, style=_OUTCOME_STYLES[comparison.outcome]), soft_wrap=True)


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
        console.print(Text.assemble(begin, ": " if is_step else "", line), soft_wrap=True)
