"""The job of a trace, from ids on the wire and a plan."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flinknet.capture.rest.jobs import read_jobs
from flinknet.capture.rest.names import named
from flinknet.trace import RunManifest
from flinknet.trace.job_names import channel_names, named_edges
from tests.capture.rest.saved import (
    RELEASES,
    SOURCE,
    channel,
    job,
    saved,
    tapped,
    vertex,
    vertex_id,
)


def edges(manifest: RunManifest) -> list[tuple[str, Any, Any]]:
    return [
        (each.name, each.channels, each.local_channels) for each in named_edges(manifest).values()
    ]


@pytest.mark.parametrize("release", RELEASES)
def test_channels_have_the_names_of_their_tasks(release: str) -> None:
    manifest = named(
        tapped(channel(0, 0, SOURCE, 1, 2), channel(1, 0, SOURCE, 0, 0)), read_jobs(saved(release))
    )
    assert channel_names(manifest) == {
        0: "Source: source (2/2) → sink (3/3)",
        1: "Source: source (1/2) → sink (1/3)",
    }
    assert edges(manifest) == [("Source: source → sink", 6, 4 if release == "2.3.0" else 3)]
    RunManifest.from_dict(json.loads(json.dumps(manifest.to_dict())))


def test_edges_that_no_wire_carries_are_in_the_job() -> None:
    found = named(
        tapped(channel(0, 0, vertex_id(2), 0, 1)),
        [
            job(
                vertex(1, "A", 2, places=("x", "y")),
                vertex(2, "B", 2, (1, "FORWARD"), places=("x", "y")),
                vertex(3, "C", 2, (2, "HASH"), places=("x", "y")),
            )
        ],
    )
    assert edges(found) == [("A → B", 2, 2), ("B → C", 4, 2)]


def test_the_consumer_of_a_pointwise_channel_follows_from_the_plan() -> None:
    plan = job(vertex(1, "A", 2), vertex(2, "B", 4, (1, "RESCALE")))
    found = named(tapped(channel(0, 0, vertex_id(1), 1, 1)), [plan])
    assert found.channels[0].consumer == 3
    assert channel_names(found) == {0: "A (2/2) → B (4/4)"}
    assert edges(found) == [("A → B", 4, None)]


def test_outputs_of_a_vertex_are_told_apart_by_their_subpartitions() -> None:
    plan = job(
        vertex(1, "A", 1), vertex(2, "few", 2, (1, "HASH")), vertex(3, "many", 4, (1, "HASH"))
    )
    channels = [channel(0, 0, vertex_id(1), 0, 3), channel(1, 1, vertex_id(1), 0, 1)]
    assert [each[0] for each in edges(named(tapped(*channels), [plan]))] == ["A → many", "A → few"]


def test_outputs_that_are_alike_are_named_together() -> None:
    plan = job(
        vertex(1, "A", 1), vertex(2, "one", 2, (1, "HASH")), vertex(3, "other", 2, (1, "HASH"))
    )
    channels = [channel(0, 0, vertex_id(1), 0, 1), channel(1, 1, vertex_id(1), 0, 1)]
    found = named(tapped(*channels), [plan])
    assert [named_edges(found)[each].name for each in (0, 1)] == ["A → one or other"] * 2
    assert channel_names(found) == dict.fromkeys((0, 1), "A (1/1) → one or other")


def test_a_job_that_was_started_again_keeps_its_names_and_has_its_own_places() -> None:
    first, second = (
        job(
            vertex(1, "A", 1, places=("x",)),
            vertex(2, "B", 2, (1, "HASH"), places=places),
            started_at_ms=at,
        )
        for at, places in ((5, ("x", "y")), (9, ("y", "y")))
    )
    channels = [
        channel(0, 0, vertex_id(1), 0, 1, execution=7),
        channel(1, 1, vertex_id(1), 0, 0, execution=3),
    ]
    found = named(tapped(*channels), [second, first])
    assert edges(found) == [("A → B", 2, 1), ("A → B", 2, 0)]
    vertices = found.scenario["job"]["vertices"]
    assert [each["job"] for each in vertices] == [first.id, first.id, second.id, second.id]


def test_channels_that_were_on_the_wire_are_not_local_wherever_tasks_are_now() -> None:
    plan = job(vertex(1, "A", 1, places=("x",)), vertex(2, "B", 2, (1, "HASH"), places=("x", "x")))
    assert edges(named(tapped(channel(0, 0, vertex_id(1), 0, 1)), [plan])) == [("A → B", 2, 1)]


def test_a_program_that_runs_twice_is_told_apart_by_its_parallelism() -> None:
    wide, narrow = (
        job(vertex(1, "A", each), vertex(2, "B", each, (1, "HASH")), started_at_ms=at)
        for at, each in ((5, 4), (9, 2))  # the later one stays within a TaskManager
    )
    channels = [channel(number, 0, vertex_id(1), number, 3) for number in (0, 3)]
    found = named(tapped(*channels), [narrow, wide])
    assert channel_names(found) == {0: "A (1/4) → B (4/4)", 3: "A (4/4) → B (4/4)"}


def test_an_execution_more_than_jobs_are_known_is_one_of_the_same_job() -> None:
    plan = job(vertex(1, "A", 1), vertex(2, "B", 2, (1, "HASH")))
    channels = [channel(at, at, vertex_id(1), 0, at, execution=at) for at in range(2)]
    assert [each[0] for each in edges(named(tapped(*channels), [plan]))] == ["A → B", "A → B"]


def test_names_of_several_jobs_begin_with_the_job() -> None:
    jobs = [
        job(vertex(1, "A", 1), vertex(2, "B", 1, (1, "HASH")), name="one"),
        job(vertex(3, "A", 1), vertex(4, "B", 1, (3, "HASH")), name="two", started_at_ms=2),
    ]
    channels = [
        channel(0, 0, vertex_id(1), 0, 0),
        channel(1, 1, vertex_id(3), 0, 0, execution=1),
    ]
    assert [each[0] for each in edges(named(tapped(*channels), jobs))] == [
        "one: A → one: B",
        "two: A → two: B",
    ]


def test_a_trace_of_other_jobs_stays_as_it_is() -> None:
    manifest = tapped(channel(0, 0, vertex_id(9), 0, 0))
    assert named(manifest, [job(vertex(1, "A", 1))]) is manifest
