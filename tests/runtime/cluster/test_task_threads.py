"""Functions in threads, on real processes: they hold up their own task and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flinknet.results import JobStatus
from tests.runtime.cluster.live_job import LiveJob, gone
from tests.runtime.cluster.programs import BESIDE, HANGS

pytestmark = pytest.mark.socket

Start = Callable[..., LiveJob]

RECORDS = 1000


def records_in(status: JobStatus, name: str) -> int:
    return sum(each.records_in for each in status.vertices if each.name.startswith(name))


def test_a_function_that_sleeps_holds_up_neither_other_channels_nor_heart_beats(
    start: Start, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    mark.touch()
    beats = {"heartbeat.interval": "100ms", "heartbeat.timeout": "1500ms"}
    job = start(BESIDE, mark, RECORDS, task_managers=2, slots=2, settings=beats)
    job.until(lambda status: records_in(status, "Quick") == RECORDS)
    assert len(mark.read_text().split()) < 3
    job.until(lambda _: len(mark.read_text().split()) >= 1)
    assert job.client.cancel().state == "CANCELED"
    result = job.result()
    assert result["restarts"] == 0
    places = {
        vertex["name"].partition(" ")[0]: task["task_manager"]
        for vertex in result["vertices"]
        for task in vertex["tasks"]
    }
    assert places["Quick"] == places["Slow"] != places["Source:"]


@pytest.mark.slow("real processes, for rules tested without")
def test_a_canceled_function_that_does_not_return_costs_its_task_manager(
    start: Start, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    settings = {"task.cancellation.timeout": "200ms"}
    job = start(HANGS, mark, task_managers=1, settings=settings)
    processes = job.task_managers()
    job.until(lambda _: mark.exists())
    assert job.client.cancel().state == "CANCELED"
    assert gone(processes.values())
