"""Checkers: each of them notices what it is there for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.core.producer.view_reader import PartitionRequestQueue
from flinknet.errors import InvariantViolatedError
from flinknet.job.checkpoint_coordinator import CheckpointCoordinator
from flinknet.simulator.cluster import START_NS, Cluster
from tests.checkers import (
    FlushChecker,
    check_credits,
    check_invariants,
    check_memory,
    check_records,
    run_checked,
)
from tests.driving import run_on, run_until
from tests.invariants import unflushed_bytes
from tests.pair import records_of
from tests.protocol_checker import ProtocolChecker
from tests.simulated_scenario import cluster_of
from tests.simulation import MS, Rows, finished, scenario

REQUEST = int(MessageKind.PARTITION_REQUEST)
CREDIT = int(MessageKind.ADD_CREDIT)
BUFFER = int(MessageKind.BUFFER_RESPONSE)
SENT, RECEIVED, CONSUMED = TracePoint.SENT, TracePoint.RECEIVED, TracePoint.CONSUMED

Event = tuple[int, int, int, int, int, int]
"""Instant, point, kind, sequence number, credit afterwards, value."""

OPENED: list[Event] = [(0, RECEIVED, REQUEST, -1, 2, 2)]
FIRST_TWO: list[Event] = [*OPENED, (5, SENT, BUFFER, 0, 1, -1), (6, SENT, BUFFER, 1, 0, -1)]
ANNOUNCED: list[Event] = [*FIRST_TWO, (9, SENT, CREDIT, -1, 0, 3)]


def tell(checker: ProtocolChecker, events: list[Event]) -> None:
    for at_ns, point, kind, sequence_number, credit_after, value in events:
        checker.record(
            *(at_ns, 0, point, kind, 1, 0, sequence_number, 10, 1, 0, 0, 0, -1, credit_after),
            *(-1, -1, value),
        )


@pytest.mark.parametrize(
    ("before", "event", "complaint"),
    [
        (OPENED, (5, SENT, BUFFER, 1, 1, -1), "sent 1, expected 0"),
        (OPENED, (5, SENT, BUFFER, 0, 2, -1), "credit is 2, should be 1"),
        (FIRST_TWO, (7, SENT, BUFFER, 2, -1, -1), "credit is -1"),
        (FIRST_TWO, (7, RECEIVED, BUFFER, 1, -1, -1), "received 1, expected 0"),
        (FIRST_TWO, (4, RECEIVED, BUFFER, 0, -1, -1), "0 arrived before it left"),
        (FIRST_TWO, (7, CONSUMED, BUFFER, 0, -1, -1), "consumed 0, expected None"),
        (FIRST_TWO, (7, SENT, CREDIT, -1, 0, 0), "an AddCredit of 0"),
        (FIRST_TWO, (7, RECEIVED, CREDIT, -1, 1, 1), "more credit arrived than was announced"),
        (ANNOUNCED, (10, RECEIVED, CREDIT, -1, 4, 3), "credit is 4, not 3"),
    ],
)
def test_what_breaks_the_protocol_is_noticed(
    before: list[Event], event: Event, complaint: str
) -> None:
    checker = ProtocolChecker(seed=42)
    tell(checker, before)
    with pytest.raises(InvariantViolatedError, match=rf"channel 0: {complaint}.*seed 42"):
        tell(checker, [event])


def test_a_sound_exchange_passes_and_is_handed_on() -> None:
    rows = Rows()
    checker = ProtocolChecker(1, rows)
    events: list[Event] = [
        *ANNOUNCED,
        (7, RECEIVED, BUFFER, 0, -1, -1),
        (8, RECEIVED, BUFFER, 1, -1, -1),
        (9, CONSUMED, BUFFER, 0, -1, -1),
        (10, RECEIVED, CREDIT, -1, 3, 3),
        (11, SENT, BUFFER, 2, 2, -1),
    ]
    tell(checker, events)
    assert [(row.at_ns, row.point, row.kind) for row in rows.rows] == [
        event[:3] for event in events
    ]


def running() -> tuple[Cluster, ProtocolChecker]:
    checker = ProtocolChecker(1)
    cluster = cluster_of(
        scenario(MS, rate_per_s=100_000.0, records=2000), probes=(checker, checker)
    )
    run_until(cluster, START_NS + 5 * MS)
    check_credits(cluster, checker)
    return cluster, checker


def test_a_backlog_that_changes_on_its_way_is_noticed() -> None:
    checker = ProtocolChecker(seed=42)
    tell(checker, FIRST_TWO)
    arrived = (7, 0, RECEIVED, BUFFER, 1, 0, 0, 10, 1, 0, 0, 3, -1, -1, -1, -1, -1)
    with pytest.raises(InvariantViolatedError, match="0 arrived with backlog 3, left with 0"):
        checker.record(*arrived)


@pytest.mark.parametrize("error", [1, -1])
def test_a_backlog_that_is_not_that_of_the_queue_is_noticed(error: int) -> None:
    checker = ProtocolChecker(1)
    cluster = cluster_of(scenario(records=2000), probes=(checker, checker))
    run_until(cluster, START_NS)
    cluster.partitions[0].subpartitions[0].buffers_in_backlog += error
    checker.watch(cluster)
    with pytest.raises(InvariantViolatedError, match="carries backlog"):
        cluster.run_until_idle()


def leave_a_closed_channel_in_the_line(cluster: Cluster) -> None:
    queue = cluster.channels.producer_connections[0].queue
    (reader,) = queue.readers.values()
    if not reader.is_enqueued:
        queue.available.append(reader)
    queue.readers.clear()


def give_back_twice(cluster: Cluster) -> None:
    pool = cluster.partitions[0].pool
    buffer = pool.try_request()
    assert buffer is not None
    pool.recycle(buffer.segment)
    pool.recycle(buffer.segment)


def give_back_to_all_twice(cluster: Cluster) -> None:
    memory = cluster.task_managers[0].memory
    segment = memory.try_request_segment()
    assert segment is not None
    memory.recycle_segment(segment)
    memory.recycle_segment(segment)


def forget_a_segment(cluster: Cluster) -> None:
    cluster.partitions[0].pool.requested_buffers = 0


def request_twice(cluster: Cluster) -> None:
    cluster.partitions[0].pool.requested_buffers += cluster.task_managers[0].memory.total_buffers


def grow_beyond_the_memory(cluster: Cluster) -> None:
    cluster.partitions[0].pool.size_buffers = 10_000


def give_credit_back_twice(cluster: Cluster) -> None:
    buffer = cluster.gates[0].remote_channels[0].buffers.take()
    assert buffer is not None
    for _ in range(2):
        buffer.recycler(buffer.segment)


def miscount_floating_buffers(cluster: Cluster) -> None:
    buffers = cluster.gates[0].remote_channels[0].buffers
    buffers.floating_buffers = buffers.available_buffers + 1


def miscount_the_backlog(cluster: Cluster) -> None:
    cluster.partitions[0].subpartitions[0].buffers_in_backlog += 1


def spend_credit_that_is_not_there(cluster: Cluster) -> None:
    (reader,) = cluster.channels.producer_connections[0].queue.readers.values()
    reader.credits_available = -1


def starve_with_credit(cluster: Cluster) -> None:
    (reader,) = cluster.channels.producer_connections[0].queue.readers.values()
    reader.credits_available, reader.starved_since_ns = 1, 0


def announce_too_much(cluster: Cluster) -> None:
    channel = cluster.gates[0].remote_channels[0]
    channel.unannounced_credit = channel.buffers.available_buffers + 1


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (give_back_twice, "channels are charged .*, 0 segments are out"),
        (give_back_to_all_twice, "a segment is free in two places"),
        (forget_a_segment, "segments are free of 0 requested|channels are charged"),
        (request_twice, "segments are free|segments are kept"),
        (grow_beyond_the_memory, "pools of 100"),
        (give_credit_back_twice, "a segment is free twice"),
        (miscount_floating_buffers, "of them floating"),
        (miscount_the_backlog, r"backlog \d+, \d+ data buffers are queued"),
        (spend_credit_that_is_not_there, "credit -1"),
        (starve_with_credit, "starved with credit 1"),
        (announce_too_much, r"unannounced credit \d+ with \d+ free buffers"),
        (leave_a_closed_channel_in_the_line, "channel 0 is closed and queued"),
    ],
)
def test_what_breaks_an_invariant_is_noticed_at_once(
    damage: Callable[[Cluster], None], complaint: str
) -> None:
    cluster, checker = running()
    check_invariants(cluster)
    damage(cluster)
    with pytest.raises(InvariantViolatedError, match=complaint):
        check_invariants(cluster)
    with pytest.raises(InvariantViolatedError):
        run_checked(cluster, checker)


def test_credit_without_a_buffer_is_noticed() -> None:
    cluster, checker = running()
    cluster.gates[0].channels[0].unannounced_credit += 1
    with pytest.raises(InvariantViolatedError, match="buffers free for"):
        check_credits(cluster, checker)


def test_a_lost_record_is_noticed() -> None:
    cluster, _ = running()
    finished(cluster)
    check_records(cluster)
    cluster.sinks[0].receivers[0].records -= 1
    with pytest.raises(InvariantViolatedError, match="1999 records of 2000"):
        check_records(cluster)


def test_a_lost_buffer_is_noticed() -> None:
    cluster, checker = running()
    assert cluster.partitions[0].pool.try_request() is not None
    with pytest.raises(InvariantViolatedError, match="tm-0: 29 of 30 buffers came back"):
        run_checked(cluster, checker)


def test_memory_is_not_whole_before_the_end() -> None:
    cluster, _ = running()
    with pytest.raises(InvariantViolatedError, match="pools are left"):
        check_memory(cluster)


def test_a_consumer_that_wants_other_buffers_than_its_backlog_says_is_noticed() -> None:
    cluster, checker = running()
    cluster.gates[0].remote_channels[0].buffers.required_buffers += 1
    with pytest.raises(InvariantViolatedError, match=r"channel 0 wants .* for a backlog of"):
        check_credits(cluster, checker)


def with_a_line_of(checker: ProtocolChecker, *channels: int) -> PartitionRequestQueue:
    """Let a checker see the line of a connection whose channels are 0 and 1, and in which these
    stand.
    """
    cluster = cluster_of(scenario(consumers=2, partitioner="rebalance", records=10))
    run_until(cluster, START_NS - 1)
    (connection,) = cluster.channels.producer_connections
    checker._connections = (connection,)
    queue = connection.queue
    reader_of = {each.channel: each for each in queue.readers.values()}
    assert set(reader_of) == {0, 1}
    queue.available.clear()
    queue.available.extend(reader_of[each] for each in channels)
    return queue


def test_two_turns_in_a_row_are_noticed_if_somebody_waited() -> None:
    checker = ProtocolChecker(seed=42)
    with_a_line_of(checker, 1, 0)
    tell(checker, FIRST_TWO[:2])
    with pytest.raises(InvariantViolatedError, match=r"two turns in a row, and \{1\} had none"):
        tell(checker, FIRST_TWO[2:])


def test_who_left_the_line_is_owed_nothing() -> None:
    checker = ProtocolChecker(seed=42)
    queue = with_a_line_of(checker, 1)
    tell(checker, FIRST_TWO[:2])
    queue.available.clear()
    tell(checker, FIRST_TWO[2:])


@pytest.mark.parametrize("timeout_ns", [0, MS])
def test_bytes_that_wait_for_a_flush_for_too_long_are_noticed(timeout_ns: int) -> None:
    cluster = cluster_of(scenario(timeout_ns, rate_per_s=100_000.0, records=2000))
    checker = FlushChecker(cluster)
    run_until(cluster, START_NS + 5 * MS)
    checker.check()
    (queue,) = cluster.partitions[0].subpartitions
    while (piece := queue.poll()) is not None:
        piece.recycle()
    cluster.partitions[0].emit(0, records_of([20]))
    assert unflushed_bytes(queue) >= 20
    if timeout_ns:
        checker.check()
        cluster.scheduler.now_ns += 4 * MS
    with pytest.raises(InvariantViolatedError, match="bytes wait for a flush"):
        checker.check()


def test_a_checkpoint_that_is_complete_without_an_answer_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def complete(coordinator: CheckpointCoordinator, *_: object) -> None:
        coordinator._pending = None

    each = scenario(MS, rate_per_s=100_000.0, records=2000)
    network = replace(each.network, checkpoint_interval_ns=2 * MS)
    cluster = cluster_of(replace(each, network=network))
    monkeypatch.setattr(CheckpointCoordinator, "_complete", complete)
    with pytest.raises(
        InvariantViolatedError, match="checkpoint 1 is complete with 1 answers of 2"
    ):
        run_on(cluster)


def test_priority_events_that_change_places_are_noticed() -> None:
    checker = ProtocolChecker(seed=42, first_number=2**31 - 1)
    priority = int(DataType.PRIORITIZED_EVENT_BUFFER)

    def note(point: int, number: int) -> None:
        row = (0, 0, point, BUFFER, priority, 0, number, 10, 0, 0, 0, 0, -1, -1, -1, -1, -1)
        checker.record(*row)

    numbers = (2**31 - 1, -(2**31), -(2**31) + 1)
    for point in (SENT, RECEIVED):
        for number in numbers:
            note(point, number)
    for number in numbers[::2]:
        note(CONSUMED, number)
    with pytest.raises(InvariantViolatedError, match="consumed -2147483648 behind -2147483647"):
        note(CONSUMED, numbers[1])
