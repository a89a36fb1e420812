"""Real JobManagers' answers about jobs, and the names that they give the channels of a trace."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from flinknet.capture.channels import ChannelTable, Ends, ObservedChannel
from flinknet.capture.rest.jobs import (
    read_job,
    read_jobs,
    read_settings,
    read_task_managers,
)
from flinknet.capture.rest.names import named
from flinknet.capture.rest.places import FLUSHES_COMPARED, Places
from flinknet.errors import RemoteTransportError
from flinknet.graph.running_job import RunningJob, RunningTaskManager, wiring_of
from flinknet.trace import ChannelInfo, RunManifest
from flinknet.trace.job_names import channel_names, named_edges
from tests.capture.rest.saved import (
    RELEASES,
    SINK,
    SOURCE,
    MadeAnswers,
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


X = RunningTaskManager("x", "host", 7001, 4, addresses=("10.0.0.1",))
Y = RunningTaskManager("y", "host", 7002, 4, addresses=("10.0.0.2",))
Z = RunningTaskManager("z", "host", 7003, 4, addresses=("10.0.0.2",))
X_TO_Y, Y_TO_X = (Ends("10.0.0.1:7001", "10.0.0.2:40000"), Ends("10.0.0.2:7002", "10.0.0.1:40000"))

MS = 1_000_000


def channels_of(
    *groups: tuple[Ends, Sequence[tuple[int, int]]], table: ChannelTable | None = None
) -> ChannelTable:
    """Channels with (subpartition, buffers sent so far), by the ends of their connection."""
    table = table or ChannelTable()
    for ends, seen in groups:
        for subpartition, sent in seen:
            channel = table.add(bytes(16), ends)
            assert channel is not None
            channel.subpartitions = subpartition, subpartition
            channel.next_sequence_number = channel.records = sent
    return table


def ends_of(table: ChannelTable) -> list[tuple[int, int, str]]:
    """Producer, consumer and first byte of the producing vertex of each channel; -1 if unknown."""

    def one(info: ChannelInfo, channel: ObservedChannel) -> tuple[int, int, str]:
        found = channel.partition_id
        if found is None:
            return -1, info.consumer, ""
        return info.producer, info.consumer, str(found.producer_id.execution_vertex_id)[:2]

    return [one(*each) for each in zip(table.infos(), table.channels, strict=True)]


def chain(*places: tuple[str, ...]) -> RunningJob:
    """A → B → C, all to all."""
    return job(
        vertex(1, "A", len(places[0]), places=places[0]),
        vertex(2, "B", len(places[1]), (1, "HASH"), places=places[1]),
        vertex(3, "C", len(places[2]), (2, "REBALANCE"), places=places[2]),
    )


def test_a_channel_that_is_the_only_one_of_its_kind_is_certain() -> None:
    plan = chain(("x",), ("y", "y"), ("x",))
    table = channels_of((X_TO_Y, [(1, 9), (0, 5)]), (Y_TO_X, [(0, 3)]))
    places = Places()
    places.place(table.channels, [plan], [X, Y], {}, {})
    assert ends_of(table)[:2] == [(0, 1, "01"), (0, 0, "01")]
    # two producers on y, of which one has sent nothing yet: nothing is guessed
    assert ends_of(table)[2] == (-1, 0, "")
    assert (places.placed, places.uncertain) == ({0, 1}, set())
    assert table.infos()[0].edge != table.infos()[2].edge


def test_numbers_of_buffers_tell_edges_apart() -> None:
    plan = chain(("x",), ("y", "x"), ("y",))
    # from x to y: A → B 0, and B 1 → C 0, both of subpartition 0
    table = channels_of((X_TO_Y, [(0, 1_010), (0, 490)]))
    received = {(plan.id, str(vertex_id(2)), 0): 500.0, (plan.id, str(vertex_id(3)), 0): 1_000.0}
    places = Places()
    places.place(table.channels, [plan], [X, Y], {}, {})
    assert places.placed == set()
    places.place(table.channels, [plan], [X, Y], received, {})
    assert ends_of(table) == [(1, 0, "02"), (0, 0, "01")]
    assert places.uncertain == set()
    received = dict.fromkeys(received, 700.0)
    places.place(table.channels, [plan], [X, Y], received, {})
    assert places.uncertain == {0, 1}


def test_channels_of_one_producer_are_those_whose_buffers_leave_together() -> None:
    plan = chain(("x", "x", "x"), ("y", "y"), ("y",))
    table = channels_of((X_TO_Y, [(at % 2, 100 + at * at) for at in range(6)]))
    of_producer = {0: 2, 3: 2, 1: 0, 2: 0, 4: 1, 5: 1}  # by channel
    places, choose = Places(), random.Random(1)
    for turn in range(FLUSHES_COMPARED):
        beats = [turn * 100 * MS + choose.randrange(50) * 2 * MS for _ in range(3)]
        for each in table.channels:
            each.last_ns = beats[of_producer[each.index]] + choose.randrange(MS // 2)
        places.look(table.channels)
    sent = {(plan.id, str(vertex_id(1)), at): count for at, count in enumerate((205, 241, 209))}
    places.place(table.channels, [plan], [X, Y], {}, sent)
    assert [producer for producer, _, _ in ends_of(table)] == [2, 0, 0, 2, 1, 1]
    assert len(places.uncertain) == 6


@pytest.mark.parametrize(
    ("seconds", "passed", "counted", "is_certain"),
    [
        (30, (15_000, 14_000, 6_000, 6_100), (12_000, 30_000), True),
        (30, (15_000, 14_000, 6_000, 6_100), (12_000, 50_000), False),
        (30, (15_000, 14_000, 6_000, 6_100), (0, 0), False),
        (30, (15_000, 15_050, 14_000, 14_020), (28_020, 30_050), False),
        (900, (15_000, 15_050, 14_000, 14_020), (28_020, 30_050), True),
        # counters may be of ten seconds before
        (15, (10_000, 10_000, 5_000, 5_000), (10_000, 20_000), False),
    ],
)
def test_producers_of_unequal_rates_are_certain_where_counters_agree(
    seconds: int, passed: tuple[int, ...], counted: tuple[int, int], is_certain: bool
) -> None:
    plan = chain(("x", "x"), ("y", "y"), ("y",))
    table = channels_of((X_TO_Y, [(at % 2, 100 + at) for at in range(4)]))
    producers = [(plan.id, str(vertex_id(1)), at) for at in range(2)]
    places = Places()
    # what had passed before the capture does not count
    places.place(table.channels, [plan], [X, Y], {}, dict(zip(producers, (90_000, 0), strict=True)))
    assert len(places.uncertain) == 4
    for each, more in zip(table.channels, passed, strict=True):
        each.records += more
        each.last_ns = seconds * 1_000 * MS
    sent = {
        key: before + more
        for key, before, more in zip(producers, (90_000, 0), counted, strict=True)
    }
    places.place(table.channels, [plan], [X, Y], {}, sent)
    if is_certain:
        assert [producer for producer, _, _ in ends_of(table)] == [1, 1, 0, 0]
    assert places.uncertain == (set() if is_certain else {0, 1, 2, 3})


def test_a_name_that_is_certain_stays() -> None:
    plan = chain(("x", "x", "x"), ("y",), ("y",))
    table = channels_of((X_TO_Y, [(0, 100 + at) for at in range(3)]))
    producers = [(plan.id, str(vertex_id(1)), at) for at in range(3)]
    places = Places()

    def place(minutes: int, passed: Sequence[int], counted: Sequence[int]) -> None:
        for each, records in zip(table.channels, passed, strict=True):
            each.records, each.last_ns = records, minutes * 60_000 * MS
        sent = dict(zip(producers, map(float, counted), strict=True))
        places.place(table.channels, [plan], [X, Y], {}, sent)

    place(0, (0, 0, 0), (0, 0, 0))
    place(10, (10_000, 20_000, 40_000), (10_000, 20_000, 40_000))
    assert places.uncertain == set()
    table.channels[0].is_ended = True  # so that the others are no longer assigned
    place(20, (10_000, 46_000, 45_000), (10_000, 44_000, 45_000))
    assert [producer for producer, _, _ in ends_of(table)] == [0, 1, 2]
    assert places.uncertain == set()


def test_the_plan_tells_task_managers_of_one_host_apart() -> None:
    plan = chain(("x",), ("y", "z", "z"), ("x",))
    to_other = Ends(X_TO_Y.producer, "10.0.0.2:40001")
    table = channels_of((to_other, [(2, 5), (1, 7)]), (X_TO_Y, [(0, 9)]))
    Places().place(table.channels, [plan], [X, Y, Z], {}, {})
    assert ends_of(table) == [(0, 2, "01"), (0, 1, "01"), (0, 0, "01")]


def test_a_task_manager_that_has_its_connection_has_no_other() -> None:
    plan = job(
        vertex(1, "A", 1, places=("x",)),
        vertex(2, "B", 2, (1, "HASH"), places=("y", "z")),
        vertex(3, "C", 1, (1, "HASH"), places=("z",)),
    )
    to_other = Ends(X_TO_Y.producer, "10.0.0.2:40001")
    # y takes subpartition 0 of one edge; z takes 0 of the other one, and 1
    table = channels_of((X_TO_Y, [(0, 9)]), (to_other, [(0, 9), (1, 5)]))
    Places().place(table.channels, [plan], [X, Y, Z], {}, {})
    assert ends_of(table) == [(0, 0, "01"), (0, 0, "01"), (0, 1, "01")]


def test_task_managers_that_cannot_be_told_apart_leave_their_channels_unnamed() -> None:
    plan = job(
        vertex(1, "A", 2, places=("x", "x")), vertex(2, "B", 2, (1, "FORWARD"), places=("y", "z"))
    )
    table = channels_of((X_TO_Y, [(0, 9)]))
    Places().place(table.channels, [plan], [X, Y, Z], {}, {})
    assert ends_of(table) == [(-1, 0, "")]


def test_a_channel_that_was_requested_keeps_its_name() -> None:
    plan = chain(("x",), ("y",), ("x",))
    table = channels_of((X_TO_Y, [(0, 9)]))
    places = Places()
    places.place(table.channels, [plan], [X, Y], {}, {})
    table.channels[0].is_ended = True
    placed = table.channels[0].partition_id
    places.place(table.channels, [chain(("x",), ("y",), ("y",))], [X, Y], {}, {})
    assert table.channels[0].partition_id == placed
