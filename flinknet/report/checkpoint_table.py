"""Checkpoints of a run as a table: how their barriers travelled, and what they overtook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich.table import Table

from flinknet.results import CheckpointSummary, LatencySummary, ReplayAnswer
from flinknet.units import human_bytes, human_count, human_duration

from .number_table import UNNAMED_SETTING, NumberColumn, number_table
from .settings_in_words import settings_of, what_varies

SETTINGS_SHOWN = 20
"""Settings whose predicted checkpoints are shown."""


def checkpoint_table(
    settings: Iterable[tuple[str, Sequence[CheckpointSummary]]], width: int
) -> Table:
    """One row for each setting that had checkpoints; several runs show as their median."""
    rows = [(setting or UNNAMED_SETTING, runs) for setting, runs in settings if runs]
    return number_table("checkpoints", _COLUMNS, rows, width)


def replayed_checkpoints(answer: ReplayAnswer, width: int) -> list[Table]:
    """The table of a replay: checkpoints as recorded, and as predicted for each setting that was
    simulated with them; nothing without any."""
    recorded = answer.observed.checkpoints
    if recorded is None:
        return []
    varied = what_varies(answer.trade_offs)
    rows = [("recorded", [recorded])]
    for point in answer.trade_offs:
        settings = settings_of(point)
        if point.checkpoints is not None and len(rows) <= SETTINGS_SHOWN:
            name = ", ".join(settings[each] for each in varied)
            rows.append((f"predicted, {name}", [point.checkpoints]))
    return [checkpoint_table(rows, width)]


def _durations(
    group: str, read: Callable[[CheckpointSummary], LatencySummary], ranks: tuple[int, int, int]
) -> list[NumberColumn[CheckpointSummary]]:
    p50, p99, longest = ranks
    return [
        NumberColumn(group, "p50", lambda each: read(each).p50, human_duration, p50),
        NumberColumn(group, "p99", lambda each: read(each).p99, human_duration, p99),
        NumberColumn(group, "max", lambda each: read(each).max, human_duration, longest),
    ]


_COLUMNS: Sequence[NumberColumn[CheckpointSummary]] = (
    NumberColumn("", "triggered", lambda each: each.triggered, human_count, 10),
    NumberColumn("", "completed", lambda each: each.completed, human_count, 0),
    NumberColumn("", "aborted", lambda each: each.aborted, human_count, 8),
    NumberColumn("", "unaligned", lambda each: each.unaligned, human_count, 7),
    *_durations("alignment", lambda each: each.alignment_ns, (6, 9, 3)),
    *_durations("barrier travel", lambda each: each.travel_ns, (2, 5, 1)),
    NumberColumn("overtaken", "mean", lambda each: each.overtaken_bytes_mean, human_bytes, 4),
)
