"""The metrics file of a run directory: one JSON object a line.

`at_ns` is an instant of the clock of the trace, `task_manager` its source, `task` the task it is
about (missing: the network memory of the TaskManager); the others are metrics by Flink's names.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

METRICS_NAME = "metrics.jsonl"


@dataclass(frozen=True, slots=True)
class MetricsDescription:
    """What is in the file: how many lines, about which tasks, and which metrics of them."""

    file: str
    size_bytes: int
    lines: int
    tasks: tuple[str, ...]
    names: tuple[str, ...]


def describe_metrics(directory: Path) -> MetricsDescription | None:
    """Describe the file of a run directory; None if there is none. A line that was cut by a crash
    is passed over.
    """
    path = directory / METRICS_NAME
    if not path.is_file():
        return None
    lines, tasks, names = 0, dict[str, None](), dict[str, None]()
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if not isinstance(entry, dict):
                continue
            lines += 1
            if "task" in entry:
                tasks[entry["task"]] = None
                names |= dict.fromkeys(entry)
    metrics = sorted(names.keys() - {"at_ns", "task_manager", "task"})
    return MetricsDescription(
        path.name, path.stat().st_size, lines, tuple(sorted(tasks)), tuple(metrics)
    )
