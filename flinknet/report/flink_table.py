"""Flink's own metrics as a table, and lines next to what a trace shows."""

from __future__ import annotations

from collections.abc import Iterable

from rich.markup import escape
from rich.table import Table

from flinknet.results import FlinkMetrics, TaskMetrics, VertexMetrics
from flinknet.units import human_count, human_share

_SHARES = ("busy", "idle", "back_pressured")
_RATES = ("records_in_per_s", "records_out_per_s")
_USAGES = ("in_pool_usage", "out_pool_usage")


def flink_table(vertices: Iterable[VertexMetrics]) -> Table:
    """A row for each vertex: means over its tasks, and the worst of them where they differ."""
    table = Table(
        title="Flink's own metrics: mean over tasks (highest task)",
        title_justify="left",
        title_style="bold",
        box=None,
    )
    table.add_column("vertex")
    for name in ("tasks", "busy", "idle", "back-pressured", "in/s", "out/s", "in pool", "out pool"):
        table.add_column(name, justify="right", no_wrap=True)
    for vertex in vertices:
        table.add_row(
            escape(vertex.name),
            str(vertex.parallelism),
            *(_share_cell(vertex, name) for name in _SHARES),
            *(human_count(getattr(vertex, name)) for name in _RATES),
            *(human_share(_highest(vertex.tasks, name)) for name in _USAGES),
        )
    return table


def flink_lines(flink: FlinkMetrics) -> list[str]:
    """Local traffic, which no trace shows, and what TaskManagers used."""
    lines = []
    if flink.share.local_bytes_share is not None:
        lines.append(f"local: {flink.share.local_bytes_share:.0%} of the bytes that consumers read")
    known = [each for each in flink.task_managers if each.cpu_cores is not None]
    if known:
        cores = ", ".join(f"{each.name} {each.cpu_cores:.2f}" for each in known)
        lines.append(f"CPU, in cores: {cores}")
    return lines


def _share_cell(vertex: VertexMetrics, name: str) -> str:
    mean, highest = getattr(vertex, name), _highest(vertex.tasks, name)
    if mean is None or highest is None or f"{mean:.0%}" == f"{highest:.0%}":
        return human_share(mean)
    return f"{mean:.0%} ({highest:.0%})"


def _highest(tasks: Iterable[TaskMetrics], name: str) -> float | None:
    return max((each for task in tasks if (each := getattr(task, name)) is not None), default=None)
