"""Tables that fit the terminal: columns without room continue below, with the names again."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from statistics import median
from typing import TypeVar

from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Column, Table

from .figures import Figure

UNNAMED_SETTING = "this configuration"
"""Name of the only setting of a call that sweeps nothing."""

NAME_WIDTH = 22
"""Columns that a row's name may be folded to, to make room for its numbers."""

_T = TypeVar("_T")


def number_table(
    heading: str,
    columns: Sequence[Figure[_T]],
    rows: Sequence[tuple[str, Sequence[_T]]],
    width: int,
    *,
    title: str | None = None,
    styles: Sequence[str] = (),
) -> Group:
    """One row for each name, with the medians of what belongs to it. Numbers are never cut, and
    names are folded. What has no room stands below, with the names again.

    Args:
        styles: of the rows; empty for plain ones.
    """

    def build(shown: Sequence[Figure[_T]], *, is_tight: bool, name_width: int | None) -> Table:
        table = empty_table(title if shown[0] is columns[0] else None, is_tight=is_tight)
        table.add_column(f"\n{heading}", overflow="fold", max_width=name_width)
        group = ""
        for column in shown:  # a group is named above the first of its columns
            above, group = column.group if column.group != group else "", column.group
            table.add_column(f"{above}\n{column.name}", justify="right", no_wrap=True)
        for number, (name, values) in enumerate(rows):
            cells = [column.show(typical(map(column.read, values))) for column in shown]
            table.add_row(escape(name), *cells, style=styles[number] if styles else "")
        return table

    return folded_tables(build, columns, width)


def folded_tables(build: Callable[..., Table], columns: Sequence[_T], width: int) -> Group:
    """One table with all columns, or as many below each other as it takes to show all of them.

    Args:
        build: makes a table, of the columns that it is to have, `is_tight` (empty_table) and
            `name_width`, the most that a column of names may take, None for as much as there is.
        columns: in their order, the most important first.
    """
    if width_of(build(columns, is_tight=False, name_width=None)) <= width:
        return Group(build(columns, is_tight=False, name_width=None))
    if width_of(build(columns, is_tight=True, name_width=NAME_WIDTH)) <= width:
        return Group(build(columns, is_tight=True, name_width=None))
    tables = []
    while columns:
        count = 1
        while count < len(columns) and (
            width_of(build(columns[: count + 1], is_tight=True, name_width=NAME_WIDTH)) <= width
        ):
            count += 1
        tables.append(build(columns[:count], is_tight=True, name_width=None))
        columns = columns[count:]
    return Group(*tables)


def print_table(console: Console, table: Table, *, keys: int = 1) -> None:
    """Print any table; columns without room go below it. Off a terminal nothing is folded.

    Args:
        keys: columns at the left that name a row, and stand in every part.
    """
    if not is_limited(console):
        width = console.width
        console.width = max(width, width_of(table))  # print(width=…) takes no more than it has
        console.print(table)
        console.width = width
        return
    if width_of(_part(table, table.columns, is_measured=True)) <= console.width:
        console.print(table)
        return

    def build(shown: Sequence[Column], *, is_tight: bool, name_width: int | None) -> Table:
        columns = [*table.columns[:keys], *shown]
        part = _part(table, columns, is_measured=name_width is not None)
        _leave_out_empty_rows(part, keys)
        if shown[0] is not table.columns[keys]:
            part.title = None
        return part

    console.print(folded_tables(build, table.columns[keys:], console.width))


def is_limited(console: Console) -> bool:
    """Whether lines end at the width of a console: not in a pipe or a file, unless COLUMNS says
    so."""
    return not getattr(console, "has_any_width", False)


def width_of(table: Table) -> int:
    """Width of a table without any limit."""
    return Measurement.get(_RULER, _RULER.options, table).maximum


def _part(table: Table, columns: Sequence[Column], *, is_measured: bool) -> Table:
    """Some columns of a table.

    Args:
        is_measured: texts are as narrow as they may be folded to.
    """
    part = copy(table)
    part.columns = [replace(each, _index=number) for number, each in enumerate(columns)]
    for column, before in zip(part.columns, columns, strict=True):
        column._cells = before._cells
        if is_measured and not column.no_wrap and column.justify != "right":
            column.max_width = NAME_WIDTH
    return part


def _leave_out_empty_rows(part: Table, keys: int) -> None:
    """Take the rows out that have nothing but their names in these columns."""
    cells = [column._cells for column in part.columns]
    kept = [row for row in range(part.row_count) if any(of[row] for of in cells[keys:])]
    part.rows = [part.rows[row] for row in kept]
    for column, of in zip(part.columns, cells, strict=True):
        column._cells = [of[row] for row in kept]


def empty_table(title: str | None, *, is_tight: bool) -> Table:
    """A table without columns yet; a tight one has no more between them than it needs."""
    table = Table(box=box.SIMPLE, title=title, title_justify="left", pad_edge=not is_tight)
    if is_tight:
        table.padding = (0, 1, 0, 0)
    return table


def typical(values: Iterable[float | None]) -> float | None:
    """Median of the known values; None if there are none."""
    present = [value for value in values if value is not None]
    return median(present) if present else None


_RULER = Console(file=io.StringIO(), width=10_000)
"""Measures tables as they would be with all the room in the world."""
