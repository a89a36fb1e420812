"""Flink's own metrics of an edge, from lines of a metrics file; rates computed by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinknet.capture.rest.names import named
from flinknet.replay.observe.flink_metrics import flink_metrics
from flinknet.replay.read import RecordedRun, edges_of
from flinknet.results import EdgeShare
from flinknet.trace.metrics import METRICS_NAME
from tests.capture.rest.saved import channel, job, tapped, vertex, vertex_id
from tests.page_answer import typed

S = 1_000_000_000


MEASURED = typed({"observed": {"throughput_records_per_s": 100.0}}).observed


def line(at_s: float, task: str, of: int, **metrics: Any) -> dict[str, Any]:
    return {
        "at_ns": int(at_s * S),
        "task_manager": "x",
        "task": task,
        "job": job().id,
        "vertex": str(vertex_id(of)),
        "attempt": 0,
        **metrics,
    }


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    """A tapped job: A, two subtasks of B, of which one is local to A."""
    plan = job(vertex(1, "A", 1, places=("x",)), vertex(2, "B", 2, (1, "HASH"), places=("x", "y")))
    manifest = named(tapped(channel(0, 0, vertex_id(1), 0, 1)), [plan])
    return RecordedRun(0, tmp_path, (), manifest, 10 * S, 20 * S)


def write(run: RecordedRun, *lines: dict[str, Any]) -> None:
    text = "".join(json.dumps(each) + "\n" for each in lines)
    (run.path / METRICS_NAME).write_text(text + '{"at_ns": 12')


def test_rates_and_shares_are_those_of_the_part_that_is_used(run: RecordedRun) -> None:
    def read(at_s: float, subtask: int, records: int, local: int, remote: int, busy: int) -> Any:
        return line(
            *(at_s, f"B ({subtask}/2)", 2),
            numRecordsIn=records,
            numBytesInLocal=local,
            numBytesInRemote=remote,
            accumulateBusyTimeMs=busy,
        )

    write(
        run,
        read(9, 1, 0, 0, 0, 0),
        read(11, 1, 100, 10, 0, 500),
        read(11, 2, 50, 0, 5, 0),
        read(16, 1, 600, 40, 0, 4500),
        read(16, 2, 550, 0, 15, 1000),
        read(21, 1, 9000, 0, 0, 0),
        {"at_ns": 12 * S, "task_manager": "x", "JVM.CPU.Time": 1 * S, "TotalMemorySegments": 64},
        {"at_ns": 14 * S, "task_manager": "x", "JVM.CPU.Time": 2 * S, "TotalMemorySegments": 64},
        {"at_ns": 12 * S, "job": "1", "checkpoint": 7, "status": "COMPLETED"},
    )
    found = flink_metrics(run, MEASURED)
    source, target = found.vertices
    assert (source.name, source.busy, source.records_out_per_s) == ("A", None, None)
    assert (target.busy, target.records_in_per_s) == (0.5, 200.0)
    assert [(each.name, each.busy) for each in target.tasks] == [
        ("B (1/2)", 0.8),
        ("B (2/2)", 0.2),
    ]
    assert found.share == EdgeShare(2, 1, 200.0, 0.5, 0.75)
    (task_manager,) = found.task_managers
    assert (task_manager.name, task_manager.cpu_cores, task_manager.network_segments) == (
        "x",
        0.5,
        64,
    )


def test_a_vertex_behind_channels_that_were_not_recorded_has_its_metrics_too(
    run: RecordedRun,
) -> None:
    plan = job(
        vertex(1, "A", 1, places=("x",)),
        vertex(2, "B", 1, (1, "HASH"), places=("y",)),
        vertex(3, "C", 1, (2, "FORWARD"), places=("y",)),
    )
    manifest = named(tapped(channel(0, 0, vertex_id(1), 0, 0)), [plan])
    (edge,) = edges_of(replace(run, manifest=manifest))
    lines = [line(at, "C (1/1)", 3, accumulateBusyTimeMs=900 * at) for at in (11, 12)]
    write(run, *lines)
    found = flink_metrics(edge, MEASURED)
    assert [(each.name, each.busy) for each in found.vertices] == [
        ("A", None),
        ("B", None),
        ("C", 0.9),
    ]


def test_without_metrics_the_channels_are_known_and_nothing_else(run: RecordedRun) -> None:
    found = flink_metrics(run, MEASURED)
    assert found.share == EdgeShare(2, 1, None, None, None)
    assert found.vertices[1].records_in_per_s is None
    assert found.task_managers == ()


def test_an_attempt_counts_from_its_own_first_line(run: RecordedRun) -> None:
    lines = [line(11, "B (1/2)", 2, numRecordsIn=1000), line(12, "B (1/2)", 2, numRecordsIn=10)]
    lines += [line(13, "B (1/2)", 2, numRecordsIn=40)]
    lines[1]["attempt"] = lines[2]["attempt"] = 1
    write(run, *lines)
    found = flink_metrics(run, MEASURED)
    assert found.vertices[1].tasks[0].records_in_per_s == 30.0


def test_a_trace_whose_job_is_not_known_has_none(run: RecordedRun) -> None:
    unnamed = replace(run, manifest=tapped(*run.manifest.channels))
    assert flink_metrics(unnamed, MEASURED) is None
