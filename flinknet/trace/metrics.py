"""The metrics file of a run directory: one JSON object per line.

`at_ns` is an instant of the trace's clock, `task_manager` the source, `task` the task (missing: the
network memory of the TaskManager); the other keys are metrics under Flink's names. In traces of a
real Flink, from its REST API, a line also identifies its task (`job`, `vertex`, `subtask`,
`attempt`); there is a line whenever counters have changed, and lines with a `checkpoint` describe
that checkpoint of a job.

The JobManager answers with values that it fetched up to a second before, sometimes at once and
sometimes late. In a short recording that is several percent of a rate. Most tasks say themselves
when their values were current: their busy, idle and back-pressured time add up to the time since
they began. `read_series` counts by that clock; sources and TaskManagers have none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from flinknet.arrays import FloatArray, IntArray
from flinknet.storage import AnyPath

from .plain_text import read_json

METRICS_NAME = "metrics.jsonl"

FETCHED_NS = 15_000_000_000
"""How far from a short part lines may lie that show how counters grow in it: the JobManager fetches
metrics every `metrics.fetcher.update-interval`, 10 s by default."""

LOOK_NS = 1_000_000_000
"""How much later the change of a counter may be noticed than another one of the same answer."""

LIVES_FROM = 0.1
"""A task that grows older by a smaller share of the time between its lines has ended meanwhile, so
its own clock stood."""

ABOUT = frozenset({"at_ns", "task_manager", "task", "job", "vertex", "subtask", "attempt"})
"""Keys that identify a line; all others are metrics."""

CLOCK = ("accumulateBusyTimeMs", "accumulateIdleTimeMs", "accumulateBackPressuredTimeMs")
"""Add up to the age of a task of a real Flink."""

_INSTANT = '{"at_ns": '
_INSTANT_NS_MAX = 1 << 62  # the year 2116, by the wall clock of a capture

_TEXTS = ("task", "task_manager", "job", "vertex")
_INDEXES = ("subtask", "attempt")
_INDEX_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class MetricsDescription:
    """Content of the metrics file: number of lines, tasks and metrics."""

    file: str
    size_bytes: int
    lines: int
    tasks: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """Metrics over time of one attempt of a task, or of one TaskManager (no task): columns of equal
    length, by Flink's names, with NaN where a line has no value.

    Attributes:
        task_manager: TaskManager of the task; None while it is not placed.
        job, vertex: their ids, if names of tasks are not unique; else None.
    """

    task: str | None
    task_manager: str | None
    job: str | None
    vertex: str | None
    at_ns: IntArray
    values: dict[str, FloatArray]

    def increase_per_s(self, name: str) -> float | None:
        """Growth of a counter per second, first line to last; None for one line, or a reset. Busy
        time is what Flink's other times leave of the age of a task, and falls when they catch up.
        """
        column = self.values.get(name)
        known = np.zeros(0, np.int64) if column is None else np.flatnonzero(~np.isnan(column))
        if column is None or len(known) < 2:
            return None
        first, last = known[0], known[-1]
        span_ns = int(self.at_ns[last] - self.at_ns[first])
        increase = float(column[last] - column[first])
        if name in CLOCK and self.values.keys() >= set(CLOCK):
            grown = sum(float(self.values[each][last] - self.values[each][first]) for each in CLOCK)
            increase = max(increase, 0.0) if grown >= 0 else increase
        return increase * 1e9 / span_ns if span_ns > 0 and increase >= 0 else None

    def mean(self, name: str) -> float | None:
        column = self.values.get(name)
        known = None if column is None else column[~np.isnan(column)]
        return None if known is None or not len(known) else float(known.mean())


def read_series(directory: AnyPath, from_ns: int, to_ns: int) -> list[Series]:
    """Metrics of all tasks and TaskManagers within [from_ns, to_ns); empty without a file. Those of
    a task are of its attempt with most lines. Where that has fewer than two there, the nearest ones
    before and after count, too, up to FETCHED_NS away, since counters grow in between, from 0 when
    the task began; those of a task that had ended before have counters that do not. Lines truncated
    by a crash are skipped.
    """
    found: dict[tuple[Any, ...], dict[Any, list[dict[str, Any]]]] = {}
    for line in metrics_lines(directory, from_ns - FETCHED_NS, to_ns + FETCHED_NS):
        if "checkpoint" in line:
            continue
        key = line.get("job"), line.get("vertex"), line.get("task")
        if line.get("task") is None:
            key = None, line.get("task_manager"), None
        found.setdefault(key, {}).setdefault(line.get("attempt"), []).append(line)

    newest_ns: dict[Any, int] = {}  # by job
    for (job, _, task), attempts in found.items():
        if task is not None:
            ends_ns = (each[-1]["at_ns"] for each in attempts.values())
            newest_ns[job] = max([newest_ns.get(job, 0), *ends_ns])

    def within(lines: list[dict[str, Any]]) -> int:
        return sum(from_ns <= each["at_ns"] < to_ns for each in lines)

    series = []
    for (job, _, task), attempts in found.items():
        lines = max(reversed(attempts.values()), key=within)
        if task is not None and _has_ended(lines, from_ns, newest_ns[job]):
            stood = {name: each for name, each in lines[-1].items() if _is_counter(name)}
            lines = [stood, stood | {"at_ns": newest_ns[job]}]
        series.append(_series(_near(lines, from_ns, to_ns)))
    return series


def _has_ended(lines: list[dict[str, Any]], from_ns: int, newest_ns: int) -> bool:
    """Whether a task had ended before an instant: it has no line there, and has missed one where
    others of its job have theirs, since the counters of a running task change."""
    at_ns = [each["at_ns"] for each in lines]
    usual_ns = max((b - a for a, b in pairwise(at_ns)), default=FETCHED_NS)
    last_ns: int = at_ns[-1]
    return last_ns < from_ns and newest_ns - last_ns > usual_ns + LOOK_NS


def _is_counter(name: str) -> bool:
    return name in ABOUT or (name.startswith(("num", "accumulate")) and "PerSecond" not in name)


def _near(lines: list[dict[str, Any]], from_ns: int, to_ns: int) -> list[dict[str, Any]]:
    """The lines of an attempt within [from_ns, to_ns), or two or more around it."""
    first = sum(each["at_ns"] < from_ns for each in lines)
    end = sum(each["at_ns"] < to_ns for each in lines)
    if end - first < 2:
        begin = None if first else _begin_of(lines[0])
        if begin is not None and from_ns - FETCHED_NS <= begin["at_ns"] < to_ns:
            return _near([begin, *lines], from_ns, to_ns)
        first, end = max(first - 1, 0), end + 1
    return lines[max(min(first, len(lines) - 2), 0) : end]


def _begin_of(line: dict[str, Any]) -> dict[str, Any] | None:
    """A line for the begin of a task of a real Flink, whose counters were 0 then; None unless it
    says how old it is."""
    times_ms = [number_of(line.get(name)) for name in CLOCK]
    if line.get("job") is None or None in times_ms:
        return None
    age_ns = round(1e6 * sum(each or 0.0 for each in times_ms))
    counters = {name: 0 for name in line if _is_counter(name) and name not in ABOUT}
    return {**counters, "at_ns": line["at_ns"] - age_ns}


def describe_metrics(directory: AnyPath) -> MetricsDescription | None:
    """Describe the metrics file of a run directory; None if there is none."""
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
    """The lines of a run within [from_ns, to_ns); none without a file. Invalid lines, such as one
    truncated by a crash, are skipped.
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
    """Whether a line is within [from_ns, to_ns), without parsing all of it."""
    if from_ns is None and to_ns is None:
        return True
    at_ns = instant_of(line)
    if at_ns is None:
        return False
    return (from_ns is None or from_ns <= at_ns) and (to_ns is None or at_ns < to_ns)


def instant_of(line: str) -> int | None:
    """The instant of a line, without parsing the rest; None for an invalid line."""
    digits = line.removeprefix(_INSTANT).partition(",")[0]
    if not digits.isdecimal() or len(digits) > len(str(_INSTANT_NS_MAX)):
        return None
    return at_ns if (at_ns := int(digits)) <= _INSTANT_NS_MAX else None


def number_of(value: Any) -> float | None:
    """The value of a metric; None if it is not a number."""
    is_number = isinstance(value, int | float) and abs(value) <= sys.float_info.max
    return float(value) if is_number else None


def _entry(line: str) -> dict[str, Any] | None:
    try:
        entry = read_json(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or type(entry.get("at_ns")) is not int:
        return None
    is_line = (
        abs(entry["at_ns"]) <= _INSTANT_NS_MAX
        and all(isinstance(entry.get(name), str | None) for name in _TEXTS)
        and all(
            value is None or (type(value) is int and abs(value) <= _INDEX_MAX)
            for value in map(entry.get, _INDEXES)
        )
    )
    return entry if is_line else None


def _series(lines: list[dict[str, Any]]) -> Series:
    """The series at the instants at which its values were current, if its task says how old it is:
    as if its least late line were in time.
    """
    about = lines[-1]
    names = dict.fromkeys(name for line in lines for name in line if name not in ABOUT)
    at_ns = np.array([line["at_ns"] for line in lines], np.int64)
    values = {
        name: np.array([number_of(line.get(name)) for line in lines], np.float64) for name in names
    }
    if about.get("job") is not None and values.keys() >= set(CLOCK):
        age_ms: FloatArray = np.sum([values[name] for name in CLOCK], axis=0)
        lasted_ns, between_ns = 1e6 * (age_ms[-1] - age_ms[0]), at_ns[-1] - at_ns[0]
        if (np.diff(age_ms) >= 0).all() and lasted_ns >= between_ns * LIVES_FROM:
            age_ns = (age_ms * 1e6).astype(np.int64)
            at_ns = (at_ns - age_ns).min() + age_ns
    task, task_manager, job, vertex = map(about.get, _TEXTS)
    return Series(task, task_manager, job, vertex, at_ns, values)
