"""Finer steps around the timeout that holds a target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinknet.config import NetworkConfig
from flinknet.options.what_if import Setting
from flinknet.predict.grid import Grid
from flinknet.replay.advise.targets import Target, between
from flinknet.replay.pipeline import replay_runs
from flinknet.replay.plans import first_of, plan_of
from flinknet.replay.read import open_recorded_run, open_runs
from flinknet.results import Choice
from tests.replay_documents import documents

MS = 1_000_000


def choice(point: int | None, next_longer_ns: int | None) -> Choice:
    return Choice(("p99<=20ms",), point, True, 0.1, None, "", next_longer_ns)


def test_steps_are_whole_milliseconds_between_two_timeouts() -> None:
    assert between(15 * MS, 20 * MS) == [16 * MS, 17 * MS, 18 * MS, 19 * MS]
    assert between(30 * MS, 40 * MS) == [each * MS for each in range(31, 40)]
    assert between(0, MS) == between(5 * MS, 6 * MS) == []
    assert between(500_000, 2_500_000) == [MS, 2 * MS]


def test_wide_gaps_are_cut_evenly_and_not_too_often() -> None:
    assert between(500 * MS, 1000 * MS) == [each * MS for each in range(550, 1000, 50)]
    steps = between(50 * MS, 70 * MS)
    assert len(steps) == len(set(steps)) == 9
    assert all(step % MS == 0 and 50 * MS < step < 70 * MS for step in steps)


def test_each_situation_gets_steps_around_its_own_choice(sawtooth_run: Path) -> None:
    run = open_recorded_run(sawtooth_run, 0)
    settings = [
        Setting(NetworkConfig(buffer_timeout_ns=each * MS), rate_factor=factor)
        for factor in (1.0, 2.0)
        for each in (3, 5, 7)
    ]
    plan = plan_of(run, settings, first_of(run, run.duration_ns))
    found = plan.refined([choice(0, 5 * MS), choice(4, 7 * MS), choice(None, None)])
    more = [setting for (setting,) in found.candidates[6:]]
    assert [(each.rate_factor, each.network.buffer_timeout_ns) for each in more] == [
        (1.0, 4 * MS),
        (2.0, 6 * MS),
    ]
    assert found.order == [0, 6, 1, 2, 3, 4, 7, 5]
    assert plan.refined([choice(2, None)]) == plan


@pytest.mark.spark
@pytest.mark.parametrize(("is_refined", "held_ns"), [(True, 19 * MS), (False, 15 * MS)])
def test_the_longest_timeout_that_holds_is_found_to_the_millisecond(
    spark: Any, sawtooth_run: Path, is_refined: bool, held_ns: int
) -> None:
    (answer,) = documents(
        replay_runs(
            spark,
            open_runs([sawtooth_run]),
            Grid(buffer_timeouts_ns=(15 * MS, 20 * MS, 25 * MS)),
            targets=[Target.parse("p99<=20ms")],
            refine=is_refined,
        )
    )
    points = answer["trade_offs"]
    timeouts = [each["config"]["execution.buffer-timeout.interval"] for each in points]
    wanted = ["10 ms", "15 ms", *(f"{each} ms" for each in range(16, 20) if is_refined)]
    assert timeouts == [*wanted, "20 ms", "25 ms"]
    assert timeouts[answer["advice"]["choice"]["point"]] == f"{held_ns // MS} ms"
