"""The order of the edges of a job, from what a tap knows of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.capture.rest.names import named
from flinknet.core.buffers.data_type import DataType
from flinknet.replay.edges import EdgeOrder, ProducedEdge, produced_edge
from flinknet.trace import RunManifest
from tests.capture.rest.saved import channel, job, tapped, vertex, vertex_id
from tests.tapped_job import SECOND, SOURCE, THIRD, TappedChannel, write_tapped_job

BARRIER = int(DataType.ALIGNED_CHECKPOINT_BARRIER)
CHOSEN = "f362c87ffabe89c8a91fa7d0a523ba6c"


def edge(vertex: str | None, *, graph: int = 1, **passed_ns: int) -> ProducedEdge:
    """An edge with the instants of its checkpoints, c1=… and so on."""
    return ProducedEdge(
        None if vertex is None else bytes.fromhex(vertex),
        frozenset({bytes([graph])}),
        {(BARRIER, int(name[1:])): at_ns for name, at_ns in passed_ns.items()},
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
