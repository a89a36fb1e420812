"""Consoles that results are printed on, and configurations compared on them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from flinknet.comparison import Difference, Outcome, Verdict
from flinknet.units import (
    MISSING,
    format_percent,
    human_bytes,
    human_count,
    human_duration,
)

from .number_table import (
    empty_table,
    fitting_table,
)
from .plain_text import printable

WIDTH_OFF_TERMINAL = 140


MEAN_WIDTH = 8
"""Of a number with its unit; the names of configurations above are folded."""


_VERDICT_STYLES = {Verdict.BETTER: "green", Verdict.WORSE: "red"}
_OUTCOME_STYLES = {Outcome.PASS: "green", Outcome.REGRESSION: "red", Outcome.INCONCLUSIVE: "yellow"}


class TerminalConsole(Console):
    """A console that prints its own control sequences and none that are in what it prints: names
    and texts come from files that others have written.

    Attributes:
        has_any_width: it is neither a terminal nor is its width asked for, so a table may be as
            wide as it needs.
    """

    has_any_width = False

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Take control characters, which have no width, out of every piece of text."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def console_for(stream: IO[str]) -> Console:
    """A console that does not squeeze tables into 80 columns where there is no terminal, unless
    COLUMNS sets its width."""
    console = TerminalConsole(file=stream, highlight=False)
    if console.is_terminal or os.environ.get("COLUMNS", "").isdecimal():
        return console
    console = TerminalConsole(file=stream, highlight=False, width=WIDTH_OFF_TERMINAL)
    console.has_any_width = True
    return console


def print_line(console: Console, line: Text | str) -> None:
    """Print a sentence: whole off a terminal, between words on one."""
    text = Text(line) if isinstance(line, str) else line
    console.print(text, soft_wrap=not console.is_terminal)


def print_comparison(
    console: Console,
    base: str,
    candidate: str,
    differences: Mapping[str, Difference],
    units: Mapping[str, str],
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
        for metric, each in differences.items():
            unit = units[metric]
            means = {base: each.base_mean, candidate: each.candidate_mean}
            table.add_row(
                metric,
                *(_amount(mean, unit) for name, mean in means.items() if name not in left_out),
                _change(each.change, each, unit),
                _interval(each, unit, is_narrow=is_tight),
                Text(each.verdict.value, style=_VERDICT_STYLES.get(each.verdict, "")),
            )
        return table

    console.print(fitting_table(build, [base, candidate], console.width))
    note = "Columns are geometric means over the rounds; change is their ratio."
    zeros = [metric for metric, each in differences.items() if not each.is_ratio]
    if zeros:
        one = len(zeros) == 1
        note += (
            f" {' and '.join(zeros)} {'has' if one else 'have'} zeros, so"
            f" {'it is' if one else 'they are'} shown as arithmetic means and their difference."
        )
    console.print(Text(note), soft_wrap=True)


def print_outcomes(console: Console, outcomes: Iterable[tuple[str, str, Outcome]]) -> None:
    """One line for each limit: candidate, limit, what it came to."""
    for name, limit, outcome in outcomes:
        style = _OUTCOME_STYLES[outcome]
        console.print(Text.assemble((outcome.value, style), f": {name}, fail if {limit}"))


def _change(value: float | None, difference: Difference, unit: str) -> str:
    """A change, or an end of its interval, in percent or in the metric's unit."""
    if value is None:
        return MISSING
    if difference.is_ratio:
        return format_percent(value)
    return f"{'+' if value >= 0 else ''}{_amount(value, unit)}"


def _interval(difference: Difference, unit: str, *, is_narrow: bool) -> str:
    low, high = difference.low, difference.high
    if low is None or high is None:
        return MISSING
    if is_narrow and difference.is_ratio:
        return f"{low * 100:+.1f}…{high * 100:+.1f}"
    ends = [_change(end, difference, unit) for end in (low, high)]
    return ("…" if is_narrow else " … ").join(ends)


def _amount(value: float | None, unit: str) -> str:
    if unit == "ns":
        return human_duration(value)
    return human_bytes(value) if unit == "bytes" else human_count(value)
