"""Checkpoints of a run as a table: travel of their barriers, and data overtaken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from flinknet.results import CheckpointSummary, LatencySummary, ReplayAnswer
from flinknet.results.figures import Figure

from .page_parts import UNNAMED_SETTING, Table, figure_table
from .settings_in_words import settings_of, what_varies

SETTINGS_SHOWN = 20
"""Settings whose predicted checkpoints are shown."""


def checkpoint_table(settings: Iterable[tuple[str, Sequence[CheckpointSummary]]]) -> Table:
    """One row for each setting that had checkpoints; several runs show as their median. Columns of
    figures that none of them has are left out.
    """
    rows = [(setting or UNNAMED_SETTING, runs) for setting, runs in settings if runs]
    shown = [
        column
        for column in _COLUMNS
        if column.group not in _OFTEN_UNKNOWN
        or any(column.read(each) is not None for _, runs in rows for each in runs)
    ]
    return figure_table("checkpoints", shown, rows)


def replayed_checkpoints(answer: ReplayAnswer) -> list[Table]:
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
    return [checkpoint_table(rows)]


def _durations(
    group: str, read: Callable[[CheckpointSummary], LatencySummary]
) -> list[Figure[CheckpointSummary]]:
    return [
        Figure(group, "p50", lambda each: read(each).p50, "ns"),
        Figure(group, "p99", lambda each: read(each).p99, "ns"),
        Figure(group, "max", lambda each: read(each).max, "ns"),
    ]


_OFTEN_UNKNOWN = ("barrier travel", "start delay", "overtaken")
"""Groups of figures that a trace does not always have."""

_COLUMNS: Sequence[Figure[CheckpointSummary]] = (
    Figure("", "triggered", lambda each: each.triggered),
    Figure("", "completed", lambda each: each.completed),
    Figure("", "aborted", lambda each: each.aborted),
    Figure("", "unaligned", lambda each: each.unaligned),
    *_durations("alignment", lambda each: each.alignment_ns),
    *_durations("barrier travel", lambda each: each.travel_ns),
    *_durations("start delay", lambda each: each.start_delay_ns),
    Figure("overtaken", "mean", lambda each: each.overtaken_bytes_mean, "bytes"),
    Figure("overtaken", "max", lambda each: each.overtaken_bytes_max, "bytes"),
)
