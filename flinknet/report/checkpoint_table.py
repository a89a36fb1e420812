"""Checkpoints of a run as a table: how their barriers travelled, and what they overtook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from rich import box
from rich.table import Table

from flinknet.results import CheckpointSummary, LatencySummary
from flinknet.units import human_bytes, human_count, human_duration

Number = float | None

WIDTH_FOR_ALL = 125
"""Of a terminal that has room for every column."""


def checkpoint_table(
    settings: Iterable[tuple[str, Sequence[CheckpointSummary]]], width: int = WIDTH_FOR_ALL
) -> Table:
    """One row for each setting that had checkpoints; several runs show as their median.

    A narrow terminal gets the columns that answer most; numbers are never cut.
    """
    columns = [each for each in _COLUMNS if each.is_essential or width >= WIDTH_FOR_ALL]
    table = Table(box=box.SIMPLE)
    table.add_column("\ncheckpoints", overflow="fold")
    group = ""
    for column in columns:
        # a group is named above the first of its columns
        heading = column.group if column.group != group else ""
        group = column.group
        table.add_column(f"{heading}\n{column.name}", justify="right", no_wrap=True)
    for setting, runs in settings:
        if runs:
            cells = [column.show(_typical(map(column.read, runs))) for column in columns]
            table.add_row(setting or "as asked", *cells)
    return table


def _typical(values: Iterable[Number]) -> Number:
    present = [value for value in values if value is not None]
    return median(present) if present else None


@dataclass(frozen=True, slots=True)
class _Column:
    """A number of the checkpoints, under the heading of a group if it belongs to one."""

    group: str
    name: str
    read: Callable[[CheckpointSummary], Number]
    show: Callable[[Number], str]
    is_essential: bool = True


def _durations(
    group: str, read: Callable[[CheckpointSummary], LatencySummary], *, has_essential_p50: bool
) -> list[_Column]:
    return [
        _Column(group, "p50", lambda each: read(each).p50, human_duration, has_essential_p50),
        _Column(group, "p99", lambda each: read(each).p99, human_duration, is_essential=False),
        _Column(group, "max", lambda each: read(each).max, human_duration),
    ]


_COLUMNS: Sequence[_Column] = (
    _Column("", "triggered", lambda each: each.triggered, human_count, is_essential=False),
    _Column("", "completed", lambda each: each.completed, human_count),
    _Column("", "aborted", lambda each: each.aborted, human_count, is_essential=False),
    _Column("", "unaligned", lambda each: each.unaligned, human_count, is_essential=False),
    *_durations("alignment", lambda each: each.alignment_ns, has_essential_p50=False),
    *_durations("barrier travel", lambda each: each.travel_ns, has_essential_p50=True),
    _Column("overtaken", "mean", lambda each: each.overtaken_bytes_mean, human_bytes),
)
