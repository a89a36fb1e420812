"""What was observed over time and by kind of message, as tables of a replay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table

from flinknet.results import MessageCount, WindowMeasured
from flinknet.units import MISSING, human_bytes, human_count, human_duration

_BLOCKS = " ▁▂▃▄▅▆▇█"


def sparkline(values: Iterable[float | None]) -> str:
    """One block for each value, its height in proportion to the largest one; a gap for None."""
    known = list(values)
    largest = max((value for value in known if value is not None), default=0) or 1
    top = len(_BLOCKS) - 1
    return "".join(
        " " if value is None else _BLOCKS[max(min(round(value / largest * top), top), 1)]
        for value in known
    )


def over_time_table(windows: Sequence[WindowMeasured]) -> Table:
    """Throughput and backlog, a mark for each window."""
    width = f", a mark is {human_duration(windows[0].width_ns)}" if windows else ""
    table = _table(f"over time{width}")
    for name in ("what", "", "largest"):
        table.add_column(name)
    rates = [window.throughput_records_per_s for window in windows]
    means = [window.backlog_buffers.mean for window in windows]
    table.add_row("throughput", sparkline(rates), f"{human_count(max(rates, default=None))}/s")
    largest = max((mean for mean in means if mean is not None), default=None)
    table.add_row(
        "mean backlog", sparkline(means), MISSING if largest is None else f"{largest:.2f}"
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
