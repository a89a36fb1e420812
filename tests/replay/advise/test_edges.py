"""Edges of a job: each by name, their order, and which one holds the job up."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinknet.capture.rest.names import named
from flinknet.predict.grid import Grid
from flinknet.replay.edges import EdgeOrder, ProducedEdge, is_from_sources, produced_edge
from flinknet.replay.pipeline import replay_runs
from flinknet.replay.read import open_runs
from flinknet.trace import RunManifest
from flinknet.trace.job_names import Edge, edges_in_flow
from tests.capture.rest.saved import channel, job, tapped, vertex, vertex_id
from tests.edited_manifest import edit_manifest
from tests.replay_documents import documents
from tests.tapped_job import SECOND, SOURCE, THIRD, TappedChannel, write_tapped_job

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
    (edge,) = edges_in_flow(RunManifest.load(sawtooth_run))
    assert edge.name == "producers → consumers"


@pytest.mark.spark
def test_each_edge_has_an_answer_with_details_of_its_channels(
    spark: Any, sawtooth_run: Path, tmp_path: Path
) -> None:
    path = with_two_edges(sawtooth_run, tmp_path / "run", job=JOB)
    runs = open_runs([path, sawtooth_run])
    assert [(each.run, each.edge) for each in runs] == [(0, 0), (1, 1), (2, None)]
    grid = Grid(buffer_timeouts_ns=(5_000_000,))
    answers = documents(replay_runs(spark, runs, grid, details=True))
    first, second, whole = answers
    assert first["trace"]["edge"] == "Source: Words → Enrich"
    assert [each["channel"] for each in first["channels"]] == [0]
    assert [each["channel"] for each in second["channels"]] == [1]
    records = [each["observed"]["records"] for each in (first, second)]
    assert sum(records) == whole["observed"]["records"]
    for point in (*first["trade_offs"], *second["trade_offs"]):
        assert point["throughput_records_per_s"]
    assert not first["is_bottleneck"]
    assert "is_bottleneck" not in whole
    details = [each["details"] for each in answers]
    assert [[each["channel"] for each in one["channels"]] for one in details] == [[0], [1], [0, 1]]
    full, timeout = ([one["fill"][why] for one in details] for why in ("full", "timeout"))
    for first, second, whole in (full, timeout):
        assert sum(whole) > 0
        assert [a + b for a, b in zip(first, second, strict=True)] == whole


CHOSEN = "f362c87ffabe89c8a91fa7d0a523ba6c"


def edge(vertex: str | None, *, graph: int = 1, **passed_ns: int) -> ProducedEdge:
    """An edge with the instants of its checkpoints, c1=… and so on."""
    return ProducedEdge(
        None if vertex is None else bytes.fromhex(vertex),
        frozenset({bytes([graph])}),
        {int(name[1:]): at_ns for name, at_ns in passed_ns.items()},
    )


@pytest.mark.parametrize(
    ("later", "earlier", "expected"),
    [
        (edge(SECOND), edge(SOURCE), True),
        (edge(THIRD), edge(SOURCE), True),
        (edge(SOURCE), edge(SECOND), False),
        (edge(SOURCE), edge(CHOSEN), False),
        (edge(CHOSEN), edge(SOURCE), None),
        (edge(SECOND, c1=5), edge(SOURCE, c1=7), True),
        (edge(CHOSEN, c1=5), edge(SOURCE, c1=7), False),
        (edge(CHOSEN, c1=8), edge(SOURCE, c1=7), None),
        (edge(CHOSEN, c1=5), edge(SOURCE, c2=7), None),
        (edge(CHOSEN, graph=1), edge(SOURCE, graph=2), False),
        (edge(None, c1=5), edge(SOURCE, c1=7), None),
    ],
)
def test_one_edge_is_behind_another_where_ids_or_barriers_show_it(
    later: ProducedEdge, earlier: ProducedEdge, expected: bool | None
) -> None:
    between = [edge(SECOND)] if later.vertex == bytes.fromhex(THIRD) else []
    assert EdgeOrder([later, earlier, *between]).is_behind(0, 1) is expected


def test_which_of_two_outputs_leads_on_does_not_show() -> None:
    order = EdgeOrder([edge(SOURCE), edge(SOURCE), edge(SECOND)])
    assert order.is_behind(2, 0) is None
    assert order.is_behind(1, 0) is False


@pytest.mark.parametrize("partition", ["z" * 120, "f" * 120, "", "00"])
def test_text_that_is_no_partition_names_no_vertex(tmp_path: Path, partition: str) -> None:
    manifest = RunManifest.load(write_tapped_job(tmp_path / "run", [TappedChannel(SOURCE)]))
    assert produced_edge(manifest, ()).vertex == bytes.fromhex(SOURCE)
    edited = replace(manifest.channels[0], partition=partition)
    assert produced_edge(replace(manifest, channels=(edited,)), ()).vertex is None


def test_where_the_job_is_known_its_plan_says_what_is_behind_what() -> None:
    plan = job(
        vertex(1, "A", 1),
        vertex(2, "B", 1, (1, "HASH")),
        vertex(3, "C", 2, (2, "HASH")),
        vertex(4, "D", 1, (1, "HASH")),
    )
    channels = [channel(0, 0, vertex_id(1), 0, 0), channel(1, 1, vertex_id(2), 0, 1)]
    manifest = named(tapped(*channels), [plan])
    order = EdgeOrder([produced_edge(manifest.of_edge(each), ()) for each in (0, 1)])
    # which of A's two outputs was recorded is not known, so neither is what is behind it
    assert (order.is_behind(1, 0), order.is_behind(0, 1)) == (None, False)
    single = replace(plan, vertices=plan.vertices[:3])
    manifest = named(tapped(*channels), [single])
    order = EdgeOrder([produced_edge(manifest.of_edge(each), ()) for each in (0, 1)])
    assert (order.is_behind(1, 0), order.is_behind(0, 1)) == (True, False)
