"""Names of channels whose requests were missed, from where the tasks run."""

from __future__ import annotations

import random
from collections.abc import Sequence

from flinknet.capture.channels import ChannelTable, Ends, ObservedChannel
from flinknet.capture.rest.places import FLUSHES_COMPARED, Places
from flinknet.graph.running_job import RunningJob, RunningTaskManager
from flinknet.trace import ChannelInfo
from tests.capture.rest.saved import job, vertex, vertex_id

X = RunningTaskManager("x", "host", 7001, 4, 0, addresses=("10.0.0.1",))
Y = RunningTaskManager("y", "host", 7002, 4, 0, addresses=("10.0.0.2",))
Z = RunningTaskManager("z", "host", 7003, 4, 0, addresses=("10.0.0.2",))
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
