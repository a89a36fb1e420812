"""Terminals, and how views are drawn on them: the answer first, in at most six lines, then tables.

A table whose columns have no room continues below, with its names again; numbers are never cut. Of
an answer, clauses that do not fit are left out from the end: they stand in the tables of --details,
on the page and in the JSON."""

from __future__ import annotations

import errno
import io
import os
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import IO, Self

from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from flinknet.results.figures import SHOWN

from . import page_parts
from .charts import Bars, Histogram, OverTime, Places, TimeSeries
from .plain_text import DISTRIBUTION_MARKS, MARKS, distribution_line, printable

FOLDED_WIDTH = 22
"""Columns that names and sentences may be folded to, to make room for numbers."""

WIDTH_FOR_TWO = 80
"""Columns of a terminal on which facts stand in two columns."""

_BAR_MARKS, _BAR_MARKS_MIN = 40, 10

_STYLES = {"good": "green", "bad": "red", "doubt": "yellow", "weak": "dim"}
_COLORS = {"orange": "red", "gold": "yellow", "purple": "magenta", "grey": "bright_black"}
"""Colours of page parts that have another name on a terminal."""


class TerminalConsole(Console):
    """A console that prints its own control sequences, and removes those in printed texts, which
    come from files of others."""

    def on_broken_pipe(self) -> None:
        """Let the command line decide on the exit code; rich exits with 1, a failed check."""
        self.quiet = True
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

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
    """A console; without a terminal it has the width of an answer, unless COLUMNS sets another."""
    console = TerminalConsole(file=stream, highlight=False)
    if not console.is_terminal and not os.environ.get("COLUMNS", "").isdecimal():
        console.width = page_parts.WIDTH
    return console


def print_line(console: Console, line: Text | str, *, indent: int = 0) -> None:
    """Print a sentence, indented by some blanks, and folded."""
    text = Text(line) if isinstance(line, str) else line
    console.print(Padding(text, (0, 0, 0, indent), expand=False) if indent else text)


def print_page(console: Console, page: page_parts.Page, *, has_details: bool = False) -> None:
    """Print the views that have an answer or a table that decides; with details all of them, each
    under its title."""
    shown = [each for each in page.views if has_details or each.headline or each.parts]
    for number, view in enumerate(shown):
        if number:
            console.print()
        if view.parts and not view.headline:
            console.print(Text(view.title, style="bold"))
        print_view(console, replace(view, details=[]), has_details=has_details)
        if has_details and view.details:
            if view.headline or view.parts:
                console.print()
            console.rule(Text(view.title, style="bold"))
            print_parts(console, view.details)


def print_view(console: Console, view: page_parts.View, *, has_details: bool = False) -> None:
    """Print the answer, the parts that decide, and all others if they are asked for."""
    answer = page_parts.off_terminal(view.headline, "--details") if has_details else view.headline
    for line in page_parts.headline(answer, min(console.width, page_parts.WIDTH)):
        name, text = line[: page_parts.NAME_WIDTH], line[page_parts.NAME_WIDTH :]
        console.print(Text.assemble((name, "bold"), text), soft_wrap=True)
    shown = (*view.parts, *(view.details if has_details else ()))
    if view.headline and any(isinstance(x, _DRAWN) for each in shown for x in _within(each)):
        console.print()
    print_parts(console, shown)


def text_of(view: page_parts.View) -> str:
    """A view with its details, as without a terminal, whatever the environment is."""
    file = io.StringIO()
    width = page_parts.WIDTH
    console = TerminalConsole(file=file, width=width, force_terminal=False, highlight=False)
    print_view(console, view, has_details=True)
    return "\n".join(line.rstrip() for line in file.getvalue().split("\n"))


def _within(part: page_parts.Part | page_parts.Section) -> Sequence[page_parts.Part]:
    return part.parts if isinstance(part, page_parts.Section) else (part,)


class LivePanel:
    """Parts that are drawn in place on a terminal (`is_live`), and gone at the end; nothing
    elsewhere."""

    def __init__(self, console: Console, every_ns: int = 0, first_ns: int = 0) -> None:
        self.console = console
        self.is_live = console.is_terminal
        self._live = Live(console=console, transient=True, refresh_per_second=4)
        self._every_ns, self._due_ns = every_ns, first_ns

    def __enter__(self) -> Self:
        if self.is_live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def print(self, line: str) -> None:
        self.console.print(Text(line), soft_wrap=True)

    def is_due(self, elapsed_ns: int, *, is_urgent: bool = False) -> bool:
        """Whether a line is due where there is no terminal, by the time since the start: the next
        one is due `every_ns` after this one."""
        if not is_urgent and elapsed_ns < self._due_ns:
            return False
        self._due_ns = elapsed_ns + self._every_ns
        return True

    def draw(self, view: page_parts.View) -> None:
        if not self.is_live:
            return
        file = io.StringIO()
        has_colors = self.console.color_system is not None
        drawn = TerminalConsole(
            file=file, width=self.console.width, force_terminal=has_colors, highlight=False
        )
        print_view(drawn, view, has_details=True)
        self._live.update(Text.from_ansi(file.getvalue()))


def print_parts(console: Console, parts: Iterable[page_parts.Part | page_parts.Section]) -> None:
    """Print parts that are not for a page alone, with a blank line before each that is no text."""
    known = [each for each in parts if any(isinstance(x, _DRAWN) for x in _within(each))]
    for number, part in enumerate(known):
        if number and not isinstance(part, page_parts.Lines | page_parts.Text):
            console.print()
        print_part(console, part)


_DRAWN = (
    *(page_parts.Lines, page_parts.Text, page_parts.Facts, page_parts.Table, page_parts.Code),
    *(Bars, OverTime, Places, Histogram),
)
"""Parts that are not for a page alone."""


def print_part(console: Console, part: page_parts.Part | page_parts.Section) -> None:
    """Print one part of a view. Parts that only a page can draw are left out."""
    match part:
        case page_parts.Section():
            if part.title:
                console.print(Text(part.title, style="bold"))
            print_parts(console, part.parts)
        case page_parts.Lines():
            for number, line in enumerate(part.lines):
                begin = ("! ", "yellow") if part.is_doubt else ("", "")
                style = "bold" if part.is_headed and not number else ""
                text = Text.assemble(begin, (line, style))
                has_path = bool(style) and not part.meaning
                console.print(text, soft_wrap=has_path)
        case page_parts.Text():
            style = "yellow" if part.is_doubt else "bold"
            meaning = f" ({part.meaning})" if part.meaning else ""
            print_line(console, Text.assemble((part.name, style), part.text, meaning))
            for note in part.notes:
                print_line(console, note, indent=2)
        case page_parts.Table():
            _print_table(console, part)
        case Bars():
            _print_bars(console, part)
        case OverTime():
            _print_over_time(console, [part])
        case Places():
            _print_places(console, part)
        case Histogram():
            _print_histogram(console, part)
        case page_parts.Facts():
            _print_facts(console, part.facts)
        case page_parts.Code():
            print_line(console, f"  {part.title}:")
            for line in part.text.splitlines():
                print_line(console, f"    {line}")


def _print_facts(console: Console, facts: Sequence[page_parts.Fact]) -> None:
    count = 2 if console.width >= WIDTH_FOR_TWO else 1
    height = -(-len(facts) // count)
    known = [*facts, *[page_parts.Fact("", "")] * (count * height - len(facts))]
    rows = [
        page_parts.Row([x for each in known[number::height] for x in (each.name, each.value)])
        for number in range(height)
    ]
    _print_table(console, page_parts.Table([page_parts.Head("", is_text=True)] * (2 * count), rows))


def _print_table(console: Console, table: page_parts.Table) -> None:
    for part in _parts_of(table, console.width):
        console.print(part)
    for note in table.notes:
        print_line(console, Text(note, style="dim"), indent=2)


def _parts_of(table: page_parts.Table, limit: int) -> list[RichTable]:
    names, columns = range(table.keys), list(range(table.keys, len(table.heads)))
    whole = [*names, *columns]
    if _width_of(loose := _rich_table(table, whole, padding=2)) <= limit:
        return [loose]

    def fits(shown: Sequence[int]) -> bool:
        return _width_of(_rich_table(table, shown, is_folded=True)) <= limit

    if fits(whole):
        return [_rich_table(table, whole)]
    parts: list[RichTable] = []
    while columns:
        count = 1
        while count < len(columns) and fits([*names, *columns[: count + 1]]):
            count += 1
        groups = [table.heads[place].group for place in columns]
        whole_at = [n for n in range(1, len(groups)) if not groups[n] or groups[n] != groups[n - 1]]
        # no group is split where that can be
        count = max([n for n in (*whole_at, len(groups)) if n <= count], default=count)
        parts.append(_rich_table(table, [*names, *columns[:count]], is_continued=bool(parts)))
        columns = columns[count:]
    return parts


def _rich_table(
    table: page_parts.Table,
    shown: Sequence[int],
    *,
    padding: int = 1,
    is_folded: bool = False,
    is_continued: bool = False,
) -> RichTable:
    """Some columns of a table, without rows that have nothing but names in them; texts are as
    narrow as they may be folded to if asked for."""
    found = RichTable(box=None, pad_edge=False, padding=(0, padding, 0, 0), header_style="bold")
    found.title = None if is_continued or not table.title else Text(table.title)
    found.title_justify, found.title_style = "left", "bold"
    found.show_header = any(head.name for head in table.heads)
    above, group = any(table.heads[place].group for place in shown), ""
    for place in shown:
        head = table.heads[place]
        named = head.group if head.group != group else ""
        found.add_column(
            Text(f"{named}\n" if above else "")
            + (head.name if padding == 2 else textwrap.fill(head.name, FOLDED_WIDTH)),
            justify="left" if head.is_text or place < table.keys else "right",
            no_wrap=not (head.is_text or not place),
            overflow="fold",
            vertical="top",
            max_width=FOLDED_WIDTH if is_folded and (head.is_text or not place) else None,
        )
        group = head.group
    for row in table.rows:
        cells = [row.cells[place] for place in shown]
        if any(cells[table.keys :]) or not is_continued:
            style = "bold" if row.is_strong else _STYLES.get(row.tone, "")
            found.add_row(*map(Text, cells), style=style)
    return found


def _width_of(table: RichTable) -> int:
    return Measurement.get(_RULER, _RULER.options, table).maximum


_RULER = Console(file=io.StringIO(), width=10_000)


def _print_bars(console: Console, bars: Bars) -> None:
    if bars.title:
        console.print(Text(bars.title, style="bold"))
    widest = max((len(each.name) for each in bars.bars), default=0)
    marks = max(_BAR_MARKS_MIN, min(_BAR_MARKS, console.width - widest - 2))
    for bar in bars.bars:
        line, until, drawn = Text(f"{bar.name:<{widest}}  " if widest else ""), 0.0, 0
        for part in bars.parts:
            until += bar.shares.get(part.key, 0.0)
            end = min(round(until * marks), marks)
            line.append(
                MARKS.get(part.key, "█") * (end - drawn), _COLORS.get(part.color, part.color)
            )
            drawn = max(drawn, end)
        console.print(line)
    legend = Text()
    for part in bars.parts:
        shares = [each.shares.get(part.key, 0.0) for each in bars.bars]
        if any(shares):
            legend.append("  " if legend else "")
            legend.append(MARKS.get(part.key, "█"), _COLORS.get(part.color, part.color))
            legend.append(f" {part.name}" + (f" {shares[0]:.1%}" if len(shares) == 1 else ""))
    console.print(legend)


def _print_places(console: Console, places: Places) -> None:
    charts = []
    for run in places.runs:
        at_ns = [each.at_ns for each in run.steps]
        held = zip(*(each.levels for each in run.steps), strict=True)
        series = [
            TimeSeries(name, at_ns, own) for name, own in zip(places.names, held, strict=True)
        ]
        charts.append(OverTime(run.name, series, places.unit))
    if places.curve is not None:
        _print_over_time(console, [places.curve])
        console.print()
    _print_over_time(console, charts)


def _print_over_time(console: Console, charts: Sequence[OverTime]) -> None:
    table = page_parts.over_time_table(charts, console.width)
    if table is not None:
        _print_table(console, table)


def _print_histogram(console: Console, chart: Histogram) -> None:
    counts = [sum(each.values[n] or 0.0 for each in chart.series) for n in range(len(chart.ranges))]
    if any(counts) and chart.series:
        show = SHOWN[chart.across]
        line = distribution_line(chart.ranges, counts, DISTRIBUTION_MARKS, is_log=chart.is_log)
        low, high = show(chart.ranges[0][0]), show(chart.ranges[-1][1])
        print_line(console, Text.assemble((chart.title, "bold"), f": {low} {line} {high}"))


_CHECKS = {"ok": "[green]✓[/green]", "warning": "[yellow]![/yellow]", "missing": "[red]✗[/red]"}


def print_checks(checks: Iterable[Mapping[str, str]], console: Console | None = None) -> None:
    """Print one row for each check: mark, name, finding, remedy."""
    table = RichTable(box=None, show_header=False, pad_edge=False)
    for check in checks:
        text = check["found"] + (f"\n→ {check['advice']}" if check["advice"] else "")
        table.add_row(_CHECKS[check["status"]], check["name"], Text(text))
    (console or console_for(sys.stdout)).print(table)
