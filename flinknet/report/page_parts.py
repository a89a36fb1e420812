"""The vocabulary of a view, as data: its answer in sentences, sections, texts and tables; with the
charts of `charts`.

A command describes its result with these values. `console` prints them, `page` puts them into one
HTML file, whose script draws them, `comparison_files` writes them into a comment, and `plot` draws
the main chart into an SVG or PNG file. Texts and cells stand everywhere as they are here.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, TypeVar

from flinknet import units
from flinknet.plain_values import to_plain
from flinknet.results.figures import SHOWN, Figure, reader, typical

from .charts import AnyChart, OverTime, TimeSeries
from .plain_text import sparkline

_T = TypeVar("_T")

Tone = Literal["", "good", "bad", "doubt", "weak"]
"""How a row of a table is meant: green, red, yellow or grey on a terminal."""

STOPS = ":;,."
"""Characters at the end of a clause that no sentence ends with."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One part of an answer."""

    name: str  # its subject, in a word
    clauses: Sequence[str]  # of falling weight; the last ones are left out for lack of room
    separator: str = "; "
    takes_rest: bool = False  # it fills the lines that the first clauses of the others leave
    is_list: bool = False  # one clause that does not fit makes room for those after it

    @property
    def text(self) -> str:
        """All clauses."""
        return self.separator.join(self.clauses).rstrip(STOPS)


@dataclass(frozen=True, slots=True)
class Lines:
    """Paragraphs. On a page they stand out: in green if they are headed."""

    lines: Sequence[str] = ()
    is_doubt: bool = False  # the colour is that of a warning
    is_headed: bool = False  # the first line is larger
    is_plain: bool = False  # no colour, for a heading that is neither good nor a doubt
    meaning: str = ""  # explanation of the first line
    id: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A sentence that begins with a bold name, explained by `meaning`, and notes below it. The name
    of a doubt has the colour of a warning."""

    name: str = ""
    text: str = ""
    meaning: str = ""
    is_doubt: bool = False
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """A number with its name; `meaning` shows when one points at it."""

    name: str
    value: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Numbers that stand next to each other."""

    facts: Sequence[Fact] = ()


@dataclass(frozen=True, slots=True)
class Head:
    """The heading of a column; `group` stands above several of them. On a terminal, names and
    sentences (`is_text`) may be folded, numbers never are."""

    name: str
    meaning: str = ""
    group: str = ""
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """Cells as text; a strong row is the one that the others are compared with."""

    cells: Sequence[str]
    is_strong: bool = False
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings; the first `keys` columns hold names, which stand next to every part of a
    table that is too wide for a terminal. A page may fold it away under its title."""

    heads: Sequence[Head] = ()
    rows: Sequence[Row] = ()
    title: str = ""
    notes: Sequence[str] = ()
    keys: int = 1
    fold: Literal["", "open", "closed"] = ""


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to copy, such as keys of a configuration."""

    title: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Names with values, folded away under a title."""

    title: str = ""
    pairs: Mapping[str, str] = field(default_factory=dict)


Part = Lines | Text | Facts | Table | Code | Pairs | AnyChart


@dataclass(frozen=True, slots=True)
class Section:
    """Parts under a heading; charts stand next to each other where there is room."""

    id: str = ""
    title: str = ""
    lead: str = ""
    parts: Sequence[Part] = ()


@dataclass(frozen=True, slots=True)
class View:
    """The content of one screen of a page, or of the output of a command."""

    headline: Sequence[Sentence] = ()  # the answer
    parts: Sequence[Part | Section] = ()  # the table that decides, and what to copy
    details: Sequence[Part | Section] = ()  # all else; a terminal prints it with --details
    page: Sequence[Part | Section] = ()  # what only a page draws, between the two others
    name: str = ""  # on the button of the screen
    title: str = ""  # heading of the screen
    lead: str = ""  # below the title
    meaning: str = ""  # of the title


@dataclass(frozen=True, slots=True)
class Page:
    """Views of one result, the first shown first; `command` stands at the top and in the title."""

    command: str
    views: Sequence[View]


UNNAMED_SETTING = "this configuration"
"""Name of the only setting of a call that sweeps nothing."""


def heads(*names: str, texts: Collection[str] = ()) -> list[Head]:
    """Headings without a meaning; those of texts may be folded."""
    return [Head(name, is_text=name in texts) for name in names]


Column = str | Figure[Any] | Callable[[Any], object]
"""A field of each row, a figure of it, or a function that makes its cell."""


def columns_of(figures: Iterable[Figure[Any]]) -> dict[str, Column]:
    """Columns of figures, under their own headings."""
    return {each.title: each for each in figures}


def medians_of(
    figures: Iterable[Figure[_T]], several: Callable[[Any], Iterable[_T]]
) -> dict[str, Column]:
    """Columns of figures that each row has several of, such as those of all runs of a setting."""

    def median_of(figure: Figure[_T]) -> Figure[Any]:
        return replace(figure, read=lambda row: typical(map(figure.read, several(row))))

    return columns_of(map(median_of, figures))


_BY_ENDING: Mapping[str, Callable[[Any], str]] = {
    "bytes_per_s": lambda value: f"{units.human_bytes(value)}/s",
    "_per_s": units.human_count,
    "_ns": units.human_duration,
    "_bytes": units.human_bytes,
    "_share": units.human_share,
    "index": str,
}


def table_of(
    rows: Iterable[_T],
    columns: Mapping[str, Column],
    title: str = "",
    notes: Sequence[str] = (),
    *,
    texts: Collection[str] = (),
    keys: int = 1,
    is_strong: Callable[[_T], object] = lambda row: False,
    tone: Callable[[_T], Tone] = lambda row: "",
    unknown: str = units.MISSING,
) -> Table:
    """A table with a row for each mapping or object, and a column for each heading; those of texts
    may be folded. A number is shown in the unit of its figure, or in that which its field ends
    with; `unknown` stands for one that is not known."""
    found = [
        Row([_cell(row, x, unknown) for x in columns.values()], bool(is_strong(row)), tone(row))
        for row in rows
    ]
    names = [
        Head(each.name, each.meaning, each.group)
        if isinstance(each, Figure)
        else Head(name, is_text=name in texts)
        for name, each in columns.items()
    ]
    return Table(names, found, title, notes, keys)


def _cell(row: Any, column: Column, unknown: str) -> str:
    if isinstance(column, Figure):
        value: Any = column.read(row)
        return unknown if value is None else column.show(value)
    field = column if isinstance(column, str) else ""
    value = reader(column)(row) if isinstance(column, str) else column(row)
    if value is None or isinstance(value, str):
        return unknown if value is None else value
    if (show := _shown_by(field)) is not None:
        return show(value)
    return f"{value:,}" if isinstance(value, int) else units.human_number(value)


def _shown_by(name: str) -> Callable[[Any], str] | None:
    return next((each for end, each in _BY_ENDING.items() if name.endswith(end)), None)


def pairs_of(title: str, values: Mapping[str, Any]) -> Pairs:
    """Values of a configuration or an environment with their names. A number is in the unit that
    its name ends with, so durations and sizes have a name without it."""
    return Pairs(title, dict(_pair(*each) for each in values.items()))


def _pair(name: str, value: Any) -> tuple[str, str]:
    if (show := _shown_by(name)) is not None and isinstance(value, int | float):
        return name.removesuffix("_ns").removesuffix("_bytes"), show(value)
    return name, units.MISSING if value is None else str(to_plain(value))


def left_out(known: Sequence[object], most: int, note: str) -> list[str]:
    """A note, with {} for their number, on those of some rows that are not shown; none where all
    are."""
    hidden = len(known) - most
    return [note.format(f"{hidden:,}")] if hidden > 0 else []


PLOT_MARKS = 80
"""Marks of a plot over time, at most."""

_NAME_OF_PLOT, _REST_OF_PLOT = 20, 12
"""Columns that the name of a plot takes at least, and its largest value."""


def over_time_table(charts: Sequence[OverTime], width: int) -> Table | None:
    """A line of marks for each curve, with its largest value, that fit a width; None without any.
    Charts side by side have the same curves. Sizes and shares of one chart have one
    scale, other curves have their own."""
    series = [each for chart in charts for each in chart.series if each.at_ns]
    if not series:
        return None
    first, what = charts[0], charts[0].in_lanes.partition(",")[0]
    spans = {each.name: [(each.from_ns, each.to_ns)] for each in first.spans}
    spans |= {f"{what}, {each.name}": [*each.spans] for each in first.lanes}
    longest = max(map(len, (*spans, *(each.name for each in series))))
    names = max(longest + 2, _NAME_OF_PLOT)
    room = (width - names) // len(charts) - _REST_OF_PLOT
    marks = max(1, min(PLOT_MARKS, room, max(len(each.at_ns) for each in series)))
    end_ns = max(2 * each.at_ns[-1] - (*each.at_ns[-2:-1], 0)[0] for each in series) or 1
    values = [[_spread(each, end_ns, marks) for each in chart.series] for chart in charts]
    rows = []
    for name, known in spans.items():
        bounds = pairwise(end_ns * place // marks for place in range(marks + 1))
        line = "".join(
            "━" if any(begin < to and from_ns < end for begin, end in known) else " "
            for from_ns, to in bounds
        )
        rows.append(Row([name, *(x for _ in charts for x in (line, ""))]))
    has_one_scale = len(charts) == 1 and first.unit in ("bytes", "share")
    most = max(max(line) for own in values for line in own)
    for place, each in enumerate(first.series):
        lines = [own[place] for own in values]
        top = first.top or (most if has_one_scale else max(map(max, lines)))
        cells = [
            cell
            for chart, line in zip(charts, lines, strict=True)
            for cell in (sparkline(line, marks, top), SHOWN[chart.unit](max(line)))
        ]
        rows.append(Row([each.name, *cells]))
    mark = f"a mark is {units.human_duration(end_ns / marks)}"
    is_one = len(charts) == 1
    columns = [Head("" if is_one else mark)]
    for chart in charts:
        title = "" if is_one else textwrap.fill(chart.title, marks)
        columns += [Head(title, is_text=True), Head("largest")]
    return Table(columns, rows, f"{first.title}, {mark}" if is_one else "")


def _spread(series: TimeSeries, end_ns: int, marks: int) -> list[float]:
    values = [0.0] * marks
    place, known = -1, 0.0
    for at_ns, value in zip(series.at_ns, series.values, strict=True):
        here = min(marks - 1, at_ns * marks // end_ns)
        values[place + 1 : here] = [known] * (here - place - 1)
        known = value or 0.0
        values[here] = max(known, values[here] if here == place else 0.0)
        place = here
    values[place + 1 :] = [known] * (marks - place - 1)
    return values


LINES_MAX, WIDTH = 6, 100
"""Lines, and columns of each, at most."""
NAME_WIDTH = 11
"""Columns for the name of a sentence, such as "verdict"."""


def headline(sentences: Iterable[Sentence], width: int = WIDTH) -> list[str]:
    """The lines of an answer; sentences without clauses are left out. On a terminal narrower than
    WIDTH each sentence takes as many lines as it needs."""
    known = [each for each in sentences if each.clauses]
    lines = [_fitted(each, width, 1) for each in known]  # of first clauses at least
    for place in sorted(range(len(known)), key=lambda place: not known[place].takes_rest):
        others = sum(map(len, lines)) - len(lines[place])
        lines[place] = _fitted(known[place], width, max(1, LINES_MAX - others))
    return [line for own in lines for line in own]


def off_terminal(sentences: Iterable[Sentence], option: str = "--") -> list[Sentence]:
    """An answer without what only a terminal can do, or without advice to give one option."""
    own = [
        replace(each, clauses=[x for x in each.clauses if not x.startswith(option)])
        for each in sentences
    ]
    return [each for each in own if each.clauses]


def last_part(path: str) -> str:
    """The name of a run directory without the directories above it."""
    return path.rstrip("/").rsplit("/", 1)[-1]


def clauses_of(text: str) -> list[str]:
    """Sentences split where their clauses end, outside brackets, to be joined with spaces."""
    found: list[str] = []
    for each in re.split(r"(?<=;) |(?<=\.) (?=[A-Z0-9])", text):
        if found and found[-1].count("(") > found[-1].count(")"):
            found[-1] += f" {each}"
        else:
            found.append(each)
    return found


def _fitted(sentence: Sentence, width: int, most: int) -> list[str]:
    """The lines of a sentence, `most` of them at WIDTH columns unless one clause needs more."""
    room, clauses, separator = width - NAME_WIDTH, list(sentence.clauses), sentence.separator
    most = most if width >= WIDTH else room * len(clauses)
    wrapper = textwrap.TextWrapper(room, break_on_hyphens=False)  # options are kept whole

    def wrapped(clauses: Sequence[str]) -> list[str]:
        return wrapper.wrap(separator.join(clauses).rstrip(STOPS))

    if sentence.is_list:
        first, *others = clauses
        clauses = [first]
        for each in others:
            clauses += [each] * (len(wrapped([*clauses, each])) <= most)
    while len(lines := wrapped(clauses)) > most:
        if len(clauses) == 1:  # a comma may stand in mid-phrase: "in runs 1, 3 and 5"
            clauses, separator = clauses_of(clauses[0]), " "
        if len(clauses) == 1:  # it is never cut off in mid-sentence
            break
        clauses.pop()
    indents = [sentence.name.ljust(NAME_WIDTH), *[" " * NAME_WIDTH] * (len(lines) - 1)]
    return [indent + line for indent, line in zip(indents, lines, strict=True)]
