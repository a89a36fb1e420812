"""The metrics file of a run directory: one JSON object a line.

`at_ns` is an instant of the clock of the trace, `task_manager` its source, `task` the task it is
about (missing: the network memory of the TaskManager); the others are metrics by Flink's names.

Of a real Flink, whose REST API was asked, a line says more of its task (`job`, `vertex`, `subtask`,
`attempt`); there is one whenever counters have changed, and lines with a `checkpoint` are about
that checkpoint of a job.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from flinknet.arrays import FloatArray, IntArray
from flinknet.storage import AnyPath

from .plain_text import read_json

METRICS_NAME = "metrics.jsonl"

ABOUT = frozenset({"at_ns", "task_manager", "task", "job", "vertex", "subtask", "attempt"})
"""What a line is about; all else are metrics."""

_INSTANT = '{"at_ns": '
_INSTANT_DIGITS_MAX = 18

_TEXTS = ("task_manager", "task", "job", "vertex")
_INDEXES = ("subtask", "attempt")
_INDEX_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class MetricsDescription:
    """What is in the file: how many lines, about which tasks, and which metrics of them."""

    file: str
    size_bytes: int
    lines: int
    tasks: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """Metrics over time of one attempt of a task, or of one TaskManager: columns of one length.

    Attributes:
        task: None for a TaskManager.
        task_manager: where the task runs; None while it has no place.
        job, vertex: their ids, where names of tasks are not unique; None where they are.
        values: by Flink's names; NaN where a line does not have one.
    """

    task: str | None
    task_manager: str | None
    job: str | None
    vertex: str | None
    at_ns: IntArray
    values: dict[str, FloatArray]

    def increase_per_s(self, name: str) -> float | None:
        """How fast a counter grew from its first line to its last; None with less than two, and
        where it began again.
        """
        column = self.values.get(name)
        known = np.zeros(0, np.int64) if column is None else np.flatnonzero(~np.isnan(column))
        if column is None or len(known) < 2:
            return None
        first, last = known[0], known[-1]
        span_ns = int(self.at_ns[last] - self.at_ns[first])
        increase = float(column[last] - column[first])
        return increase * 1e9 / span_ns if span_ns > 0 and increase >= 0 else None

    def mean(self, name: str) -> float | None:
        """Mean of a level; None without one."""
        column = self.values.get(name)
        known = None if column is None else column[~np.isnan(column)]
        return None if known is None or not len(known) else float(known.mean())


def read_series(directory: AnyPath, from_ns: int, to_ns: int) -> list[Series]:
    """Metrics of all tasks and TaskManagers within [from_ns, to_ns), of a task's last attempt
    there; none without a file. A line that was cut by a crash is passed over.
    """
    found: dict[tuple[Any, ...], tuple[Any, list[dict[str, Any]]]] = {}
    for line in metrics_lines(directory, from_ns, to_ns):
        if "checkpoint" in line:
            continue
        key = line.get("job"), line.get("vertex"), line.get("task")
        if line.get("task") is None:
            key = None, line.get("task_manager"), None
        attempt = line.get("attempt")
        known = found.get(key)
        if known is None or known[0] != attempt:
            known = found[key] = attempt, []
        known[1].append(line)
    return [_series(lines) for _, lines in found.values()]


def describe_metrics(directory: AnyPath) -> MetricsDescription | None:
    """Describe the file of a run directory; None if there is none. A line that was cut by a crash
    is passed over.
    """
    path = directory / METRICS_NAME
    if not path.is_file():
        return None
    lines, tasks, names = 0, dict[str, None](), dict[str, None]()
    for entry in metrics_lines(directory):
        lines += 1
        if entry.get("task") is not None:
            tasks[entry["task"]] = None
            names |= dict.fromkeys(entry)
    metrics = sorted(names.keys() - ABOUT)
    return MetricsDescription(
        path.name, path.stat().st_size, lines, tuple(sorted(tasks)), tuple(metrics)
    )


def metrics_lines(
    directory: AnyPath, from_ns: int | None = None, to_ns: int | None = None
) -> Iterator[dict[str, Any]]:
    """The lines of a run within [from_ns, to_ns); none without a file. What is no line, such as one
    that a crash has cut, is passed over.
    """
    path = directory / METRICS_NAME
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            entry = _entry(line) if is_within(line, from_ns, to_ns) else None
            if entry is not None:
                yield entry


def is_within(line: str, from_ns: int | None, to_ns: int | None) -> bool:
    """Whether the instant of a line is; most of a long file need not be parsed."""
    if from_ns is None and to_ns is None:
        return True
    at_ns = instant_of(line)
    if at_ns is None:
        return False
    return (from_ns is None or from_ns <= at_ns) and (to_ns is None or at_ns < to_ns)


def instant_of(line: str) -> int | None:
    """The instant of a line, without parsing the rest; None for what is no line."""
    digits = line.removeprefix(_INSTANT).partition(",")[0]
    return int(digits) if digits.isdecimal() and len(digits) <= _INSTANT_DIGITS_MAX else None


def number_of(value: Any) -> float | None:
    """The value of a metric; None for what is no number."""
    is_number = isinstance(value, int | float) and abs(value) <= sys.float_info.max
    return float(value) if is_number else None


def _entry(line: str) -> dict[str, Any] | None:
    """A line of the file, None for what is not one."""
    try:
        entry = read_json(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or type(entry.get("at_ns")) is not int:
        return None
    is_line = (
        abs(entry["at_ns"]) < 10**_INSTANT_DIGITS_MAX
        and all(isinstance(entry.get(name), str | None) for name in _TEXTS)
        and all(_is_index(entry.get(name)) for name in _INDEXES)
    )
    return entry if is_line else None


def _is_index(value: Any) -> bool:
    return value is None or (type(value) is int and abs(value) <= _INDEX_MAX)


def _series(lines: list[dict[str, Any]]) -> Series:
    about = lines[-1]
    names = dict.fromkeys(name for line in lines for name in line if name not in ABOUT)
    return Series(
        about.get("task"),
        about.get("task_manager"),
        about.get("job"),
        about.get("vertex"),
        np.array([line["at_ns"] for line in lines], np.int64),
        {name: np.array([_or_nan(number_of(line.get(name))) for line in lines]) for name in names},
    )


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
