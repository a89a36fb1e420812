"""The metrics file of a run: what is no line of it is passed over, whatever it is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from flinknet.trace.metrics import METRICS_NAME, describe_metrics, read_series

LINE = {"at_ns": 5, "task_manager": "tm-0", "task": "source 0", "inPoolUsage": 0.5}


def write(directory: Path, *lines: object) -> Path:
    texts = [each if isinstance(each, str) else json.dumps(each) for each in lines]
    (directory / METRICS_NAME).write_text("\n".join(texts) + "\n")
    return directory


@pytest.mark.parametrize(
    "strange",
    [
        '{"at_ns": 6, "task_manager": "tm-0", "ta',
        "[" * 100_000,
        '{"at_ns": ' + "9" * 5000 + ', "task": "source 0"}',
        LINE | {"at_ns": 1 << 63},
        LINE | {"at_ns": None},
        LINE | {"at_ns": 6.5},
        LINE | {"task": ["source 0"]},
        LINE | {"task": {}},
        LINE | {"task_manager": 7},
        LINE | {"task": "\ud800"},
        LINE | {"job": [1]},
        LINE | {"vertex": {"a": 1}},
        LINE | {"attempt": [1]},
        LINE | {"subtask": 1 << 31},
        LINE | {"attempt": True},
        {"task": "source 0"},
        [LINE],
        7,
    ],
    ids=lambda each: str(each)[:40],
)
def test_what_is_no_line_is_passed_over(tmp_path: Path, strange: object) -> None:
    described = describe_metrics(write(tmp_path, LINE, strange))
    assert (described.lines, described.tasks, described.names) == (
        1,
        ("source 0",),
        ("inPoolUsage",),
    )
    (series,) = read_series(tmp_path, 0, 1 << 62)
    assert series.at_ns.tolist() == [5]


def test_instants_may_count_from_1970(tmp_path: Path) -> None:
    (series,) = read_series(
        write(tmp_path, LINE | {"at_ns": 1_800_000_000 * 10**9}), 10**18, 1 << 62
    )
    assert series.at_ns.tolist() == [1_800_000_000 * 10**9]


def test_a_value_that_is_no_number_is_unknown(tmp_path: Path) -> None:
    values = ["much", None, [1], 10**400]
    write(tmp_path, *(LINE | {"at_ns": at, "inPoolUsage": each} for at, each in enumerate(values)))
    (series,) = read_series(tmp_path, 0, 1 << 62)
    assert np.isnan(series.values["inPoolUsage"]).all()


def test_a_line_of_no_task_is_of_its_task_manager(tmp_path: Path) -> None:
    described = describe_metrics(write(tmp_path, LINE | {"task": None}, LINE))
    assert described.tasks == ("source 0",)


SECOND_NS = 1_000_000_000


def looked_at(at_s: float, age_s: float | None, records: int, **about: object) -> dict[str, object]:
    """A line of a task of a real Flink: noticed at an instant, as old as it says itself."""
    line = {"at_ns": round(at_s * SECOND_NS), "task_manager": "tm-0", "job": "j", "vertex": "v"}
    line |= {"task": "map (1/1)", "attempt": 0, "numRecordsIn": records}
    if age_s is not None:
        busy_ms, idle_ms = 100 * age_s, 700 * age_s
        line |= {"accumulateBusyTimeMs": busy_ms, "accumulateIdleTimeMs": idle_ms}
        line |= {"accumulateBackPressuredTimeMs": 200 * age_s}
    return line | about


def test_a_task_counts_by_its_own_clock(tmp_path: Path) -> None:
    ages = [2, 3, 4, 5, 7]
    lines = [looked_at(at, age, 100 * age) for at, age in zip([4, 6, 7, 8, 10], ages, strict=True)]
    (series,) = read_series(write(tmp_path, *lines), 0, 1 << 62)
    assert (series.at_ns / SECOND_NS).tolist() == [4, 5, 6, 7, 9]
    assert series.increase_per_s("numRecordsIn") == pytest.approx(100)
    assert series.increase_per_s("accumulateBusyTimeMs") == pytest.approx(100)


@pytest.mark.parametrize(
    "change", [{"job": None}, {"accumulateIdleTimeMs": None}, {"accumulateIdleTimeMs": 0}]
)
def test_without_a_clock_the_instant_of_the_line_counts(
    tmp_path: Path, change: dict[str, object]
) -> None:
    lines = [looked_at(4, 2, 1), looked_at(6, 3, 2), looked_at(7, 4, 3)]
    changed = range(3) if "job" in change else (1,)
    lines = [each | (change if number in changed else {}) for number, each in enumerate(lines)]
    (series,) = read_series(write(tmp_path, *lines), 0, 1 << 62)
    assert (series.at_ns / SECOND_NS).tolist() == [4, 6, 7]


@pytest.mark.parametrize(
    ("from_s", "to_s", "found"),
    [
        (0, 100, [10, 20, 30, 60]),
        (15, 35, [20, 30]),  # two lines are enough
        (15, 25, [10, 20, 30]),
        (21, 29, [20, 30]),
        (31, 40, [20, 30]),  # the next one is too far
        (21, 24, [20, 30]),
        (61, 99, [60]),
        (80, 99, None),
    ],
)
def test_of_a_short_part_the_lines_around_it_count(
    tmp_path: Path, from_s: int, to_s: int, found: list[int] | None
) -> None:
    write(tmp_path, *(looked_at(at, None, at) for at in (10, 20, 30, 60)))
    series = read_series(tmp_path, from_s * SECOND_NS, to_s * SECOND_NS)
    own = [(each.at_ns // SECOND_NS).tolist() for each in series]
    assert own == ([] if found is None else [found])


@pytest.mark.parametrize(
    ("idle_ms", "found"),
    [
        pytest.param((1_950, 3_962), 0, id="busy time is what the others leave of its age"),
        pytest.param((1_950, 62), None, id="a reset"),
        pytest.param((None, None), None, id="no clock"),
    ],
)
def test_a_busy_time_that_falls_while_its_task_grows_older_does_not_grow(
    tmp_path: Path, idle_ms: tuple[int | None, ...], found: float | None
) -> None:
    lines = [
        looked_at(at, None, at)
        | {"accumulateBusyTimeMs": busy_ms, "accumulateIdleTimeMs": own_ms}
        | {"accumulateBackPressuredTimeMs": 0}
        for at, busy_ms, own_ms in zip((2, 4), (50, 38), idle_ms, strict=True)
    ]
    (series,) = read_series(write(tmp_path, *lines), 0, 1 << 62)
    assert series.increase_per_s("accumulateBusyTimeMs") == found


@pytest.mark.parametrize(
    ("from_s", "to_s", "age_s", "busy_ms_per_s"),
    [
        pytest.param(0, 6, 6, 100, id="before its first line"),
        pytest.param(0, 9, 6, 100, id="with its first line"),
        pytest.param(0, 6, None, None, id="of unknown age"),
        pytest.param(9, 12, 6, 200, id="between two lines"),
    ],
)
def test_counters_of_a_task_grow_from_0_when_it_begins(
    tmp_path: Path, from_s: int, to_s: int, age_s: float | None, busy_ms_per_s: float | None
) -> None:
    first = looked_at(7, age_s, 600, inPoolUsage=1)
    later = looked_at(
        17, age_s and 16, 1600, accumulateBusyTimeMs=2600, accumulateIdleTimeMs=10_200
    )
    write(tmp_path, first, later)
    (series,) = read_series(tmp_path, from_s * SECOND_NS, to_s * SECOND_NS)
    found = series.increase_per_s("accumulateBusyTimeMs")
    assert found == (None if busy_ms_per_s is None else pytest.approx(busy_ms_per_s))
    assert series.mean("inPoolUsage") == 1


def test_the_attempt_with_most_lines_in_the_part_counts(tmp_path: Path) -> None:
    first = [looked_at(at, None, at, attempt=0) for at in (1, 2, 3, 4)]
    second = [looked_at(at, None, at, attempt=1) for at in (6, 7, 8)]
    write(tmp_path, *first, *second)
    for from_s, to_s, found in ((4, 9, [6, 7, 8]), (1, 7, [1, 2, 3, 4]), (5, 7, [6, 7])):
        (series,) = read_series(tmp_path, from_s * SECOND_NS, to_s * SECOND_NS)
        assert (series.at_ns // SECOND_NS).tolist() == found


def test_the_clock_of_a_task_that_has_ended_does_not_count(tmp_path: Path) -> None:
    lines = [looked_at(10, 10, 100), looked_at(12, 10.02, 100)]  # it ended 20 ms behind the first
    (series,) = read_series(write(tmp_path, *lines), 0, 1 << 62)
    assert (series.at_ns / SECOND_NS).tolist() == [10, 12]
    assert series.increase_per_s("accumulateBusyTimeMs") == pytest.approx(1)


@pytest.mark.parametrize(
    ("from_s", "to_s", "busy_ms_per_s"),
    [
        (1, 30, {"ended": 100, "other": 100}),
        (13, 15, {"ended": 100, "other": 100}),
        (16, 20, {"ended": 0, "other": 100}),
        (23, 27, {"ended": 0, "other": 100}),
        (30, 40, {"ended": None, "other": 100}),
    ],
)
def test_a_task_that_had_ended_before_a_part_did_nothing_in_it(
    tmp_path: Path, from_s: int, to_s: int, busy_ms_per_s: dict[str, float | None]
) -> None:
    lines = [looked_at(at, at, 100 * at, task="ended", inPoolUsage=1) for at in (2, 12, 14.5)]
    lines += [looked_at(at, at, 100 * at, task="other") for at in (2.1, 12.1, 22.1, 32.1)]
    write(tmp_path, *sorted(lines, key=lambda line: line["at_ns"]))
    series_of_tasks = read_series(tmp_path, from_s * SECOND_NS, to_s * SECOND_NS)
    found = {each.task: each for each in series_of_tasks}
    assert found.keys() >= {"other"}
    for task, expected in busy_ms_per_s.items():
        series = found.get(task)
        busy = None if series is None else series.increase_per_s("accumulateBusyTimeMs")
        assert busy == (None if expected is None else pytest.approx(expected))
        if busy == 0:
            assert series.mean("inPoolUsage") is None
