"""Answers of real JobManagers as values, and what is refused."""

from __future__ import annotations

import pytest

from flinknet.capture.rest.jobs import (
    read_job,
    read_jobs,
    read_settings,
    read_task_managers,
)
from flinknet.errors import RemoteTransportError
from flinknet.graph.running_job import wiring_of
from tests.capture.rest.saved import RELEASES, SINK, SOURCE, MadeAnswers, saved


@pytest.mark.parametrize("release", RELEASES)
def test_a_job_has_its_vertices_in_order_and_their_places(release: str) -> None:
    (job,) = read_jobs(saved(release))
    assert (job.name, job.state, job.is_batch) == ("exchange", "RUNNING", False)
    assert [(each.id, each.name, each.parallelism) for each in job.vertices] == [
        (SOURCE, "Source: source", 2),
        (SINK, "sink", 3),
    ]
    assert {*job.vertices[0].task_managers, *job.vertices[1].task_managers} == {"tm-0", "tm-1"}
    ((source, target, joined),) = job.edges()
    assert joined.ship_strategy == "REBALANCE"
    assert wiring_of(source, target, joined).channels == 6
    assert target.task_name(2) == "sink (3/3)"


@pytest.mark.parametrize("release", RELEASES)
def test_task_managers_have_their_network_memory(release: str) -> None:
    found = read_task_managers(saved(release), with_memory=True)
    assert [(each.id, each.host, each.slots) for each in found] == [
        ("tm-0", "127.0.0.1", 2),
        ("tm-1", "127.0.0.1", 2),
    ]
    assert {each.network_memory_bytes for each in found} == {64 * 1024 * 1024}
    assert {each.network_segments for each in found} == {2048}
    assert all(0 < (each.network_segments_used or 0) < 100 for each in found)


@pytest.mark.parametrize("release", RELEASES)
def test_settings_are_those_of_the_cluster(release: str) -> None:
    assert read_settings(saved(release))["taskmanager.memory.network.max"] == "64m"


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {"jobs": 1},
        {"jobs": [{"jid": "../../x", "state": "RUNNING"}]},
        {"jobs": [{"state": "RUNNING"}]},
    ],
)
def test_what_is_no_list_of_jobs_is_refused(answer: object) -> None:
    with pytest.raises(RemoteTransportError, match="--rest"):
        read_jobs(MadeAnswers({"/jobs/overview": answer}))


@pytest.mark.parametrize(
    "change",
    [
        {"plan": {}},
        {"vertices": [{"id": "x", "name": "a", "parallelism": 1}]},
        {"vertices": [{"id": "0" * 32, "name": "a", "parallelism": 10**9}]},
        {"start-time": None},
    ],
)
def test_a_job_that_is_not_described_as_flink_does_is_refused(change: dict[str, object]) -> None:
    (job,) = read_jobs(saved("2.3.0"))
    answer = saved("2.3.0").get(f"/jobs/{job.id}") | change
    with pytest.raises(RemoteTransportError, match=r"not as expected of Flink|is not an id"):
        read_job(MadeAnswers({f"/jobs/{job.id}": answer}), job.id)


def test_a_state_that_is_no_text_is_none_of_the_last() -> None:
    strange = {"jobs": [{"jid": "0" * 32, "state": {}}]}
    with pytest.raises(RemoteTransportError, match="404"):
        read_jobs(MadeAnswers({"/jobs/overview": strange}))


def test_memory_that_is_not_described_as_flink_does_is_unknown() -> None:
    one = {"id": "tm-0", "path": "", "dataPort": 1, "slotsNumber": 1, "freeSlots": 1}
    answers = {
        "/taskmanagers": {"taskmanagers": [one]},
        "/taskmanagers/tm-0": {"memoryConfiguration": 7, "metrics": [1]},
    }
    (found,) = read_task_managers(MadeAnswers(answers), with_memory=True)
    assert (found.network_memory_bytes, found.network_segments) == (None, None)
