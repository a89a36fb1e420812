"""What was observed over time and by kind of message, as tables of a replay."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from flinknet.results import MessageCount, WindowMeasured
from flinknet.units import MISSING, human_bytes, human_duration, human_number, human_rate

from .small_plots import sparkline

OVER_TIME_MARKS = 80
"""Of a plot at most; where there is less room, windows share a mark."""

FULL = (
    "full: a buffer that left because its segment was full; it may carry few bytes where earlier"
    " flushes had sent the rest of the segment"
)

_REST_OF_ROW = 32
"""Columns that the names and the largest value take."""


def over_time_table(windows: Sequence[WindowMeasured], width: int) -> Table:
    """Throughput and backlog over time, in as many marks as there is room for."""
    marks = max(1, min(OVER_TIME_MARKS, width - _REST_OF_ROW, len(windows)))
    span = ""
    if windows:
        span = f", a mark is {human_duration(windows[0].width_ns * len(windows) / marks)}"
    table = _table(f"over time{span}")
    for name in ("what", "", "largest"):
        table.add_column(name, no_wrap=True)
    rates = [window.throughput_records_per_s for window in windows]
    means = [window.backlog_buffers.mean for window in windows]
    table.add_row(
        "throughput",
        sparkline(rates, marks, max(rates, default=0)),
        human_rate(max(rates, default=None)),
    )
    largest = max((mean for mean in means if mean is not None), default=None)
    table.add_row(
        "mean backlog",
        sparkline([mean or 0.0 for mean in means], marks, largest or 1),
        human_number(largest),
    )
    return table


def messages_table(messages: Sequence[MessageCount]) -> Table:
    """A row for each kind of message."""
    table = _table("messages by kind")
    table.add_column("kind")
    table.add_column("messages", justify="right")
    table.add_column("payload", justify="right")
    for row in messages:
        size = human_bytes(row.payload_bytes) if row.payload_bytes else MISSING
        table.add_row(row.kind, f"{row.messages:,}", size)
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=None)
