"""The progress of a long replay."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flinknet.replay.spark import units
from flinknet.replay.spark.units import QUIET_LOOKS, StageProgress, reporting_progress


def test_a_long_step_has_a_line_at_each_tenth_of_its_tasks() -> None:
    progress = StageProgress()
    progress.begin("reading 1 run")
    looks = [progress.look({3: (done, 40)}) for done in range(QUIET_LOOKS + 10)]
    assert [line for lines in looks for line in lines] == [
        "reading 1 run: 10 of 40 tasks",
        "reading 1 run: 12 of 40 tasks",
        "reading 1 run: 16 of 40 tasks",
    ]


def test_only_a_step_that_lasts_has_lines_for_each_of_its_stages() -> None:
    progress = StageProgress()
    for step in ("reading", "simulating"):
        progress.begin(step)
        assert not any(progress.look({1: (done, 20)}) for done in range(QUIET_LOOKS))
    assert progress.look({1: (12, 20), 2: (5, 10)}) == [
        "simulating: 12 of 20 tasks",
        "simulating: 5 of 10 tasks",
    ]


def test_spark_is_asked_while_the_block_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "LOOK_S", 0)
    monkeypatch.setattr(units, "QUIET_LOOKS", 0)
    info = SimpleNamespace(stageId=7, numCompletedTasks=3, numTasks=4)
    tracker = SimpleNamespace(
        getActiveStageIds=lambda: [7, 8], getStageInfo=lambda stage: info if stage == 7 else None
    )
    spark = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    said, is_said = [], Event()

    def say(line: str) -> None:
        said.append(line)
        is_said.set()

    with reporting_progress(cast(Any, spark), say) as begin:
        begin("simulating")
        assert is_said.wait(60)
    assert said[0].endswith(": 3 of 4 tasks")
    with reporting_progress(cast(Any, SimpleNamespace()), print) as begin:
        begin("reading")  # Spark Connect does not know it
