"""Checkpoints of a run as a table: how their barriers travelled, and what they overtook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median

from rich import box
from rich.table import Table

from flinknet.results import CheckpointSummary, LatencySummary
from flinknet.units import human_bytes, human_count, human_duration

Number = float | None


def checkpoint_table(settings: Iterable[tuple[str, Sequence[CheckpointSummary]]]) -> Table:
    """One row for each setting that had checkpoints; several runs show as their median."""
    table = Table(box=box.SIMPLE)
    table.add_column("\ncheckpoints", overflow="fold")
    for name, _, _ in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for setting, runs in settings:
        if runs:
            cells = [show(_typical(map(read, runs))) for _, read, show in _COLUMNS]
            table.add_row(setting or "as asked", *cells)
    return table


def _typical(values: Iterable[Number]) -> Number:
    present = [value for value in values if value is not None]
    return median(present) if present else None


_Column = tuple[str, Callable[[CheckpointSummary], Number], Callable[[Number], str]]


def _durations(name: str, read: Callable[[CheckpointSummary], LatencySummary]) -> list[_Column]:
    return [
        (f"{name}\np50", lambda each: read(each).p50, human_duration),
        ("\np99", lambda each: read(each).p99, human_duration),
        ("\nmax", lambda each: read(each).max, human_duration),
    ]


_COLUMNS: Sequence[_Column] = (
    ("\ntriggered", lambda each: each.triggered, human_count),
    ("\ncompleted", lambda each: each.completed, human_count),
    ("\naborted", lambda each: each.aborted, human_count),
    ("\nunaligned", lambda each: each.unaligned, human_count),
    *_durations("alignment", lambda each: each.alignment_ns),
    *_durations("barrier travel", lambda each: each.travel_ns),
    ("overtaken\nmean", lambda each: each.overtaken_bytes_mean, human_bytes),
)
