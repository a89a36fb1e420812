"""What is kept of units of a replay, and the progress of a long one."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flinknet.replay.observe import tree as tree_module
from flinknet.replay.observe.measured import ObservedRun
from flinknet.replay.observe.observed import _observed, tree_of
from flinknet.replay.observe.tree import answers_of, tables_here
from flinknet.replay.observe.units import work_units
from flinknet.replay.read import RecordedRun, open_recorded_run
from flinknet.replay.spark import units
from flinknet.replay.spark.units import QUIET_LOOKS, Checkpoint, StageProgress, reporting_progress
from tests.recorded_run import write_run


@dataclass(frozen=True)
class Unit:
    number: int


@dataclass(frozen=True)
class Row:
    text: str
    share: float | None = None


def observed(run: RecordedRun, split: int, checkpoint: Checkpoint | None) -> ObservedRun:
    tree = replace(tree_of([run], split), checkpoint=checkpoint)
    (found,) = _observed(tables_here(work_units([run], split), tree), tree, [run])
    return found


def test_rows_are_made_once_and_come_back_as_they_were(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path), "stamp")
    rows = [Row("a", 0.5), Row("b")]
    assert checkpoint.rows(Unit(1), "", Row, lambda: rows) == rows
    assert checkpoint.rows(Unit(1), "", Row, lambda: []) == rows
    assert checkpoint.rows(Unit(2), "", Row, lambda: []) == []
    assert checkpoint.rows(Unit(1), "else", Row, lambda: []) == []
    assert checkpoint.kept == 3
    assert replace(checkpoint, stamp="other").rows(Unit(1), "", Row, lambda: []) == []


def test_a_unit_that_runs_twice_at_the_same_time_is_kept_once(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path), "stamp")
    rows = [Row("a")]

    def twin() -> list[Row]:
        return checkpoint.rows(Unit(1), "", Row, lambda: rows)

    assert checkpoint.rows(Unit(1), "", Row, twin) == rows
    assert checkpoint.rows(Unit(1), "", Row, lambda: []) == rows
    assert [each.suffix for each in tmp_path.iterdir()] == [".arrow"]


def test_what_a_killed_executor_left_is_removed_after_a_day(tmp_path: Path) -> None:
    old, new = (tmp_path / f".{name}.arrow.1f.unfinished" for name in "ab")
    for each in (old, new):
        each.touch()
    day_ago_s = new.stat().st_mtime - 86_500
    os.utime(old, (day_ago_s, day_ago_s))
    Checkpoint.of(tmp_path, [])
    assert [*tmp_path.iterdir()] == [new]


def test_a_replay_goes_on_from_what_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_recorded_run(write_run(tmp_path / "run"), 0)
    (tmp_path / "kept").mkdir()
    checkpoint = Checkpoint.of(tmp_path / "kept", run.files)
    plain = observed(run, 4, None)
    assert observed(run, 4, checkpoint) == plain
    kept = sorted((tmp_path / "kept").iterdir())
    assert len(kept) == checkpoint.kept == 4

    asked = []
    monkeypatch.setattr(
        tree_module, "answers_of", lambda unit, *rest: asked.append(unit) or answers_of(unit, *rest)
    )
    kept[0].unlink()
    assert observed(run, 4, checkpoint) == plain
    assert len(asked) == 1
    observed(run, 3, checkpoint)
    assert len(asked) == 4  # none of another cut

    os.utime(run.files[0].path, ns=(1, 1))
    changed = Checkpoint.of(tmp_path / "kept", run.files)
    assert observed(run, 4, changed) == plain
    assert len(asked) == 8


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
