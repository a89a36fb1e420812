"""What a tap's questions and the end of a job delay is no part of the machine."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from flinknet.predict.captured_rows import (
    ENDING_NS,
    FETCHED_BEFORE_NS,
    SETTLED_AFTER_NS,
    disturbed_within,
)
from flinknet.trace.metrics import METRICS_NAME
from flinknet.trace.recordings import delay_of_tap_ns

MS = 1_000_000
S = 1_000 * MS


def run_asked(directory: Path, *at_ns: int) -> Path:
    """A run whose tap had answers about a task at these instants, and about a checkpoint once."""
    lines = [{"at_ns": each, "task_manager": "tm-0", "task": "sink (1/1)"} for each in at_ns]
    lines.append({"at_ns": 7 * S, "checkpoint": 1})
    text = "".join(json.dumps(each) + "\n" for each in lines)
    (directory / METRICS_NAME).write_text(text)
    return directory


def test_around_its_questions_and_at_the_end_a_run_is_disturbed(tmp_path: Path) -> None:
    path = run_asked(tmp_path, 2 * S, 2 * S + 20 * MS, 3 * S)
    found = disturbed_within(path, S, 10 * S, 10 * S)
    assert found.starts_ns.tolist() == [
        *(2 * S - FETCHED_BEFORE_NS, 3 * S - FETCHED_BEFORE_NS),
        10 * S - ENDING_NS,
    ]
    assert found.ends_ns.tolist() == [
        *(2 * S + 20 * MS + SETTLED_AFTER_NS, 3 * S + SETTLED_AFTER_NS),
        10 * S,
    ]
    assert found.hold(np.array([2 * S, 5 * S, 7 * S])).tolist() == [True, False, False]


def test_where_questions_never_end_they_disturb_nothing(tmp_path: Path) -> None:
    path = run_asked(tmp_path, *range(S, 10 * S, 100 * MS))
    assert disturbed_within(path, S, 10 * S, 10 * S).total_ns == ENDING_NS


@pytest.mark.parametrize(
    ("recorded_to_ns", "disturbed"),
    [
        (10 * S - 200 * MS, [(10 * S - 300 * MS, 10 * S - 150 * MS)]),
        (10 * S, [(10 * S - 100 * MS, 10 * S)]),
        (12 * S, []),
        (None, []),
    ],
)
def test_without_questions_the_end_of_the_recording_alone_is_disturbed(
    tmp_path: Path, recorded_to_ns: int | None, disturbed: list[tuple[int, int]]
) -> None:
    found = disturbed_within(tmp_path, S, 10 * S, recorded_to_ns)
    assert list(zip(found.starts_ns, found.ends_ns, strict=True)) == disturbed


@pytest.mark.parametrize(
    ("text", "delay_ns"),
    [
        ('{"added_delay_ns": {"p50": 35000.0}}', 35_000),
        ('{"added_delay_ns": {"p50": null}}', 0),
        ('{"added_delay_ns": {"p50": [1]}}', 0),
        ('{"added_delay_ns": {"p50": -5}}', 0),
        ('{"added_delay_ns": {"p50": 1e400}}', 0),
        ('{"added_delay_ns": 5}', 0),
        ("{", 0),
    ],
)
def test_a_tap_says_what_it_adds(tmp_path: Path, text: str, delay_ns: int) -> None:
    (tmp_path / "result.json").write_text(text)
    assert delay_of_tap_ns(tmp_path) == delay_ns
    assert delay_of_tap_ns(tmp_path / "elsewhere") == 0
