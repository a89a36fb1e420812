"""Runs with several exchanges: each edge by name, and which one holds the job up."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinknet.predict.grid import Grid
from flinknet.replay.edges import is_from_sources
from flinknet.replay.pipeline import replay_runs
from flinknet.replay.read import open_runs
from flinknet.trace import RunManifest
from flinknet.trace.job_names import Edge, edges_in_flow
from tests.edited_manifest import edit_manifest
from tests.replay_documents import documents

JOB = {
    "vertices": [
        {"index": 0, "name": "Source: Words"},
        {"index": 1, "name": "Enrich"},
        {"index": 2, "name": "Sink: Slow"},
    ],
    "edges": [
        {"index": 0, "source": 0, "target": 1},
        {"index": 1, "source": 1, "target": 2},
    ],
}


def with_two_edges(recorded: Path, directory: Path, **scenario: Any) -> Path:
    """The run with its last channel on a second edge."""
    shutil.copytree(recorded, directory)

    def change(manifest: dict[str, Any]) -> None:
        manifest["channels"][-1] |= {"edge": 1, "consumer": 0}
        manifest["scenario"] |= scenario

    edit_manifest(directory, change)
    return directory


def test_edges_are_named_by_the_job(sawtooth_run: Path, tmp_path: Path) -> None:
    manifest = RunManifest.load(with_two_edges(sawtooth_run, tmp_path / "run", job=JOB))
    _, second = edges_in_flow(manifest)
    assert second == Edge(2, 1, 1, 2, "Enrich", "Sink: Slow")
    assert second.name == "Enrich → Sink: Slow"
    assert is_from_sources(manifest, 0)
    assert not is_from_sources(manifest, 1)


def test_edges_of_relays_stand_in_a_row(sawtooth_run: Path) -> None:
    manifest = RunManifest.load(sawtooth_run)
    scenario = manifest.scenario | {"workload": {"relays": 2}}
    channels = [replace(manifest.channels[0], edge=edge) for edge in range(3)]
    manifest = replace(manifest, scenario=scenario, channels=tuple(channels))
    names = [each.name for each in edges_in_flow(manifest)]
    assert names == ["sources → relays 1", "relays 1 → relays 2", "relays 2 → sinks"]
    assert [is_from_sources(manifest, edge) for edge in range(3)] == [True, False, False]


def test_one_edge_has_no_name_of_its_own(sawtooth_run: Path) -> None:
    manifest = RunManifest.load(sawtooth_run)
    assert edges_in_flow(manifest)[0].name == "producers → consumers"
    assert is_from_sources(manifest, None)


def test_runs_are_opened_edge_by_edge(sawtooth_run: Path, tmp_path: Path) -> None:
    path = with_two_edges(sawtooth_run, tmp_path / "run", job=JOB)
    first, second, other = open_runs([path, sawtooth_run])
    assert [each.run for each in (first, second, other)] == [0, 1, 2]
    assert [each.edge for each in (first, second, other)] == [0, 1, None]
    assert [each.index for each in first.manifest.channels] == [0]
    assert [each.index for each in second.manifest.channels] == [1]


@pytest.mark.spark
def test_each_edge_has_an_answer(spark: Any, sawtooth_run: Path, tmp_path: Path) -> None:
    path = with_two_edges(sawtooth_run, tmp_path / "run", job=JOB)
    runs = open_runs([path, sawtooth_run])
    grid = Grid(buffer_timeouts_ns=(5_000_000,))
    first, second, whole = documents(replay_runs(spark, runs, grid))
    assert first["trace"]["edge"] == "Source: Words → Enrich"
    assert [each["channel"] for each in first["channels"]] == [0]
    assert [each["channel"] for each in second["channels"]] == [1]
    records = [each["observed"]["records"] for each in (first, second)]
    assert sum(records) == whole["observed"]["records"]
    for point in (*first["trade_offs"], *second["trade_offs"]):
        assert point["throughput_records_per_s"]
    assert not first["is_bottleneck"]
    assert "is_bottleneck" not in whole


@pytest.mark.spark
def test_details_of_an_edge_are_of_its_channels(
    spark: Any, sawtooth_run: Path, tmp_path: Path
) -> None:
    path = with_two_edges(sawtooth_run, tmp_path / "run", job=JOB)
    answers = documents(replay_runs(spark, open_runs([path, sawtooth_run]), Grid(), details=True))
    details = [each["details"] for each in answers]
    assert [[each["channel"] for each in one["channels"]] for one in details] == [[0], [1], [0, 1]]
    full, timeout = ([one["fill"][why] for one in details] for why in ("full", "timeout"))
    for first, second, whole in (full, timeout):
        assert sum(whole) > 0
        assert [a + b for a, b in zip(first, second, strict=True)] == whole
