"""Metrics on their way from a TaskManager to the live view and to the run directory."""

from __future__ import annotations

import json
from pathlib import Path

from flinknet.config import Scenario
from flinknet.job.load.plan import load_plan_of, task_name
from flinknet.runtime.cluster.collected import Collected, ProgressMeter
from flinknet.runtime.cluster.reports import Statistics, TaskCounts
from flinknet.runtime.metrics_log import MetricsLog
from flinknet.trace.metrics import METRICS_NAME, describe_metrics, metrics_lines

TIMES = {
    "busyTimeMsPerSecond": 700,
    "idleTimeMsPerSecond": 100,
    "backPressuredTimeMsPerSecond": 200,
}


def add(log: MetricsLog, index: int, *tasks: str, now_ns: int) -> None:
    log.add(index, dict.fromkeys(tasks, TIMES), {"UsedMemory": 7.0}, now_ns=now_ns)


def statistics_of(*tasks: str) -> Statistics:
    attempts = {task_name(each): each.attempt_id for each in load_plan_of(Scenario()).tasks}
    return Statistics(0, tuple(TaskCounts(attempts[each], each, dict(TIMES)) for each in tasks))


def test_each_task_has_a_line_and_the_memory_another(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    add(log, 0, "source 0", "source 1", now_ns=5)
    add(log, 1, "sink 0", now_ns=6)
    lines = [json.loads(line) for line in (tmp_path / METRICS_NAME).read_text().splitlines()]
    assert lines == [
        {"at_ns": 5, "task_manager": "tm-0", "task": "source 0", **TIMES},
        {"at_ns": 5, "task_manager": "tm-0", "task": "source 1", **TIMES},
        {"at_ns": 5, "task_manager": "tm-0", "UsedMemory": 7.0},
        {"at_ns": 6, "task_manager": "tm-1", "task": "sink 0", **TIMES},
        {"at_ns": 6, "task_manager": "tm-1", "UsedMemory": 7.0},
    ]
    log.close()
    described = describe_metrics(tmp_path)
    assert described is not None
    assert (described.lines, described.tasks) == (5, ("sink 0", "source 0", "source 1"))
    assert described.names == tuple(sorted(TIMES))


def test_a_file_that_cannot_be_written_is_given_up_and_reported(tmp_path: Path) -> None:
    (tmp_path / METRICS_NAME).mkdir()
    log = MetricsLog(tmp_path)
    add(log, 0, "sink 0", now_ns=5)
    add(log, 0, "sink 0", now_ns=6)
    assert log.error is not None
    assert log.error.startswith(f"{tmp_path / METRICS_NAME}: cannot be written (Is a directory)")
    log.close()
    assert describe_metrics(tmp_path) is None


def test_progress_keeps_the_last_metrics_of_each_task() -> None:
    meter = ProgressMeter(load_plan_of(Scenario()), Collected())
    meter.add(1, statistics_of("sink 0"), 1)
    meter.add(0, statistics_of("source 0"), 2)
    meter.add(1, statistics_of(), 3)
    tasks = meter.progress("starting", 4).tasks
    assert [(task.name, task.busy, task.idle, task.back_pressured) for task in tasks] == [
        ("source 0", 0.7, 0.1, 0.2),
        ("sink 0", 0.7, 0.1, 0.2),
    ]
    assert tasks[0].in_pool_usage is None


def test_what_is_kept_around_instants_adds_up(tmp_path: Path) -> None:
    kept_ns = (200, 260, 300, 1000)
    log = MetricsLog(tmp_path, keep_ns=100)
    for now_ns in range(0, 2000, 10):
        log.write([{"at_ns": now_ns, "task_manager": "tm-0"}])
        if now_ns in kept_ns:
            log.keep_around(now_ns)
        log.drop_old(now_ns)
    log.close()
    found = [line["at_ns"] for line in metrics_lines(tmp_path)]
    old = [each for each in found if each < 1800]
    assert old == [*range(100, 350, 10), *range(900, 1050, 10)]


def test_old_lines_are_dropped_but_for_those_that_are_to_be_kept(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, keep_ns=100)
    for now_ns in range(0, 1000, 10):
        log.write([{"at_ns": now_ns, "task_manager": "tm-0"}])
        if now_ns == 300:
            log.keep_around(now_ns)
        log.drop_old(now_ns)
    log.close()
    lines = (tmp_path / METRICS_NAME).read_text().splitlines()
    found = [json.loads(line)["at_ns"] for line in lines]
    kept = [each for each in found if each < 800]
    assert kept == list(range(200, 350, 10))
    assert found[-1] == 990
    assert len(found) < 40
