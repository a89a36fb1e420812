"""How records lie in buffers, and who finds a TaskManager's partitions, waits for them, ends
them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core import producer
from flinknet.core.buffers import BufferConsumer, DataType
from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.producer.result_partition import PartitionRequestListener
from flinknet.core.wire.events import CancelCheckpointMarker
from tests import pair
from tests.probes import polled_by_hand

EVENT = CancelCheckpointMarker(1)


def queue_of(subpartition: producer.PipelinedSubpartition) -> list[BufferConsumer]:
    return list(subpartition._queue)


def polled(subpartition: producer.PipelinedSubpartition) -> list[bytes]:
    """Everything that can be polled, data buffers only, recycled."""
    data = []
    while (piece := subpartition.poll()) is not None:
        if piece.data_type in IS_BUFFER:
            data.append(bytes(piece.view))
        piece.recycle()
    return data


def written_bytes(partition: producer.PipelinedResultPartition, channel: int = 0) -> list[int]:
    """Bytes in each queued buffer."""
    sizes = []
    for consumer in queue_of(partition.subpartitions[channel]):
        consumer.look()
        sizes.append(consumer.visible_bytes)
    return sizes


@pytest.mark.row("S025")
@pytest.mark.parametrize(
    ("lengths", "written"),
    [([550], [100] * 5 + [50]), ([30, 30], [60]), ([100, 1], [100, 1])],
    ids=["spans", "shares", "fits"],
)
def test_records_span_and_share_buffers_and_close_full_ones(
    lengths: list[int], written: list[int]
) -> None:
    partition, _ = pair.partition_of()
    for number, length in enumerate(lengths):
        partition.emit(0, pair.records_of([length], number))
    assert written_bytes(partition) == written
    finished = [each.is_finished for each in queue_of(partition.subpartitions[0])]
    assert finished == [each == 100 for each in written]


@pytest.mark.row("S026")
@pytest.mark.parametrize("tail", [[], [20, 20]])
def test_each_buffer_knows_how_many_bytes_continue_an_earlier_record(tail: list[int]) -> None:
    partition, _ = pair.partition_of()
    partition.emit(0, pair.records_of([250, *tail]))
    queue = queue_of(partition.subpartitions[0])
    assert [each.partial_record_length for each in queue] == [0, 100, 50]
    # a new record is queued before its bytes, a continuation after them
    assert [each.visible_bytes for each in queue] == [0, 100, 50 + sum(tail)]


@pytest.mark.row("S027")
@pytest.mark.parametrize(
    ("pool_buffers", "sizes"),
    [
        (4, [70]),  # there are more buffers: the one that is full is closed
        (1, []),  # there are none: the rest of the segment is used before another is asked for
    ],
)
def test_without_buffers_to_be_had_a_trimmed_one_grows_again(
    pool_buffers: int, sizes: list[int]
) -> None:
    partition, _ = pair.partition_of(buffers=4, pool_buffers=pool_buffers)
    subpartition = partition.subpartitions[0]
    subpartition.buffer_size_bytes = 40
    partition.emit(0, pair.records_of([70]))
    finished = [
        consumer.visible_bytes
        for consumer in queue_of(subpartition)
        if consumer.look() is None and consumer.is_finished
    ]
    assert finished == sizes
    assert polled(subpartition) == [pair.record_bytes([70])]


@pytest.mark.row("S027")
def test_a_record_that_is_longer_than_a_trimmed_buffer_fills_its_segment_first() -> None:
    partition, _ = pair.partition_of(buffers=3, pool_buffers=1, max_overdraft_buffers=2)
    subpartition = partition.subpartitions[0]
    subpartition.buffer_size_bytes = 40
    # the only buffer goes to the first 100 bytes, overdraft to the rest, trimmed to no less
    partition.emit(0, pair.records_of([130]))
    partition.flush_all()
    assert [len(each) for each in polled(subpartition)] == [100, 30]


@pytest.mark.row("S024")
@pytest.mark.parametrize("length", [60, 100], ids=["part of it", "all of it"])
def test_a_broadcast_record_lies_in_one_segment_that_returns_after_the_last_reader(
    length: int,
) -> None:
    partition, memory = pair.partition_of(4)
    partition.emit(producer.BROADCAST, pair.records_of([length]))
    assert partition.pool.used_buffers == 1
    partition.broadcast_event(EVENT)
    for index, subpartition in enumerate(partition.subpartitions):
        assert partition.pool.used_buffers == 1
        assert polled(subpartition) == [pair.record_bytes([length])]
        assert partition.pool.used_buffers == (1 if index < 3 else 0)
    partition.release()
    assert memory.available_buffers == memory.total_buffers


def test_a_broadcast_buffer_has_the_smallest_of_the_desired_sizes() -> None:
    partition, _ = pair.partition_of(3)
    partition.subpartitions[1].buffer_size_bytes = 40
    partition.emit(producer.BROADCAST, pair.records_of([10] * 6))
    assert written_bytes(partition, 0) == [40, 20]


def test_a_broadcast_is_charged_to_the_first_channel() -> None:
    partition, _ = pair.partition_of(2, max_buffers_per_channel=2)
    partition.emit(producer.BROADCAST, pair.records_of([100]))
    assert partition.pool.is_available
    partition.emit(producer.BROADCAST, pair.records_of([100]))
    assert not partition.pool.is_available


def test_going_from_one_channel_to_all_and_back_closes_the_open_buffers() -> None:
    partition, _ = pair.partition_of(2)
    partition.emit(0, pair.records_of([10]))
    partition.emit(1, pair.records_of([10]))
    partition.emit(producer.BROADCAST, pair.records_of([20]))
    partition.emit(0, pair.records_of([30]))
    partition.flush_all()
    assert [len(each) for each in polled(partition.subpartitions[0])] == [10, 20, 30]
    assert [len(each) for each in polled(partition.subpartitions[1])] == [10, 20]
    assert partition.pool.used_buffers == 1


def test_a_channels_own_buffer_stays_open_while_others_are_written() -> None:
    partition, _ = pair.partition_of(2)
    for channel in (0, 1, 0, 1):
        partition.emit(channel, pair.records_of([10]))
    assert (written_bytes(partition, 0), written_bytes(partition, 1)) == ([20], [20])


def test_an_event_closes_open_buffers_and_stands_behind_them_in_every_queue() -> None:
    partition, _ = pair.partition_of(2)
    partition.emit(0, pair.records_of([10]))
    partition.broadcast_event(EVENT)
    partition.emit(0, pair.records_of([10]))
    types = [
        [each.data_type for each in queue_of(subpartition)]
        for subpartition in partition.subpartitions
    ]
    data, event = DataType.DATA_BUFFER, DataType.EVENT_BUFFER
    assert types == [[data, event, data], [event]]


def test_nothing_is_emitted_behind_the_end() -> None:
    partition, _ = pair.partition_of()
    partition.finish()
    with pytest.raises(RuntimeError, match="finished"):
        partition.emit(0, pair.records_of([1]))


def test_a_released_partition_gives_back_open_buffers_too() -> None:
    partition, memory = pair.partition_of(2)
    partition.emit(0, pair.records_of([150]))
    partition.emit(producer.BROADCAST, pair.records_of([10]))
    partition.release()
    partition.release()
    assert memory.available_buffers == memory.total_buffers
    assert memory.pools == ()


@pytest.mark.row("S004")
def test_an_exhausted_pool_stops_the_writer_after_its_size_and_room_lets_it_go_on() -> None:
    partition, _ = pair.partition_of(buffers=3, pool_buffers=3)
    batch = pair.records_of([100] * 7)
    subpartition = partition.subpartitions[0]
    position = partition.emit(0, batch)
    assert position == 300
    assert partition.emit(0, batch, position) == position
    data = polled(subpartition)
    position = partition.emit(0, batch, position)
    assert position == 600
    data += polled(subpartition)
    position = partition.emit(0, batch, position)
    data += polled(subpartition)
    assert position == 700
    assert b"".join(data) == bytes(batch.data)


def test_overdraft_buffers_only_finish_the_record_that_was_begun() -> None:
    partition, _ = pair.partition_of(buffers=9, pool_buffers=2, max_overdraft_buffers=3)
    batch = pair.records_of([150, 150, 150])
    assert partition.emit(0, batch) == 150  # the pool is empty: the rest of the segment stays free
    polled(partition.subpartitions[0])
    assert partition.emit(0, batch, 150) == 300
    polled(partition.subpartitions[0])
    long = pair.records_of([350, 50])
    assert partition.emit(0, long) == 350  # two buffers of the pool, then two of overdraft
    assert partition.pool.used_buffers == 4


def test_a_record_longer_than_pool_and_overdraft_waits_in_its_middle() -> None:
    partition, _ = pair.partition_of(buffers=9, pool_buffers=2, max_overdraft_buffers=1)
    batch = pair.records_of([550, 20])
    assert partition.emit(0, batch) == 300
    data = polled(partition.subpartitions[0])
    position = partition.emit(0, batch, 300)
    data += polled(partition.subpartitions[0])
    while position < 570:
        position = partition.emit(0, batch, position)
        partition.flush_all()
        data += polled(partition.subpartitions[0])
    assert b"".join(data) == bytes(batch.data)


def test_the_marks_of_the_slices_name_every_record_where_it_ends() -> None:
    partition, _ = pair.partition_of()
    partition.emit(0, pair.records_of([60, 60, 10, 130, 5], 1000))
    partition.flush_all()
    told = []
    while (piece := partition.subpartitions[0].poll()) is not None:
        told.append((piece.records, piece.first_record_ns, piece.last_record_ns))
        piece.recycle()
    assert told == [(1, 1000, 1000), (2, 1001, 1002), (2, 1003, 1004)]


# Batches against record-by-record writing


def buffers_written(
    lengths: Sequence[int],
    cuts: Sequence[int],
    *,
    pool_buffers: int,
    overdraft: int,
    desired_bytes: int,
    drain: Sequence[bool],
    channel: int,
) -> list[tuple[bytes, int, int]]:
    """(bytes, partial length, records) of every buffer when `lengths` are written in these batches.

    Whenever the writer has to wait the reader drains; it also drains behind the records whose
    number stands in `drain`.
    """
    partition, memory = pair.partition_of(
        2,
        segment_size_bytes=32,
        buffers=40,
        pool_buffers=pool_buffers,
        max_overdraft_buffers=overdraft,
    )
    for subpartition in partition.subpartitions:
        subpartition.buffer_size_bytes = desired_bytes
    found: list[tuple[bytes, int, int]] = []
    open_bytes, open_partial, open_records = bytearray(), -1, 0

    def drain_all() -> None:
        nonlocal open_bytes, open_partial, open_records
        reader = partition.subpartitions[0]
        while queue_of(reader):
            head = queue_of(reader)[0]
            piece = reader.poll()
            if piece is not None:
                open_bytes += piece.view
                open_partial = head.partial_record_length
                open_records += piece.records
                piece.recycle()
            if head.is_finished:
                found.append((bytes(open_bytes), open_partial, open_records))
                open_bytes, open_records = bytearray(), 0
            elif piece is None:
                break
        if channel == producer.BROADCAST:
            while (copy := partition.subpartitions[1].poll()) is not None:
                copy.recycle()

    edges = [0, *cuts, len(lengths)]
    for start, end in itertools.pairwise(edges):
        if start == end:
            continue
        batch = pair.records_of(lengths[start:end], start)
        position = 0
        for _ in range(10_000):
            position = partition.emit(channel, batch, position)
            if position == len(batch.data):
                break
            drain_all()
        else:
            raise AssertionError("the writer never got through")
        if end < len(lengths) and drain[end]:
            drain_all()
    partition.broadcast_event(EVENT)
    drain_all()
    partition.release()
    assert memory.available_buffers == 40
    return [each for each in found if each[0] != EVENT_BYTES]


EVENT_BYTES = b"\0\0\0\4" + bytes(7) + b"\1"


@pytest.mark.row("S013")
def test_a_reader_gets_what_is_there_of_a_buffer_that_is_still_being_filled() -> None:
    partition, _ = pair.partition_of()
    (subpartition, *_) = partition.subpartitions
    read = []
    for length in (30, 45):
        partition.emit(0, pair.records_of([length]))
        partition.flush_all()
        read.append(polled(subpartition))
        assert partition.pool.used_buffers == 1  # the writer still fills it
    partition.emit(0, pair.records_of([25]))
    assert partition.pool.used_buffers == 1  # and the reader has not seen its end
    read.append(polled(subpartition))
    assert [sum(map(len, each)) for each in read] == [30, 45, 25]
    assert b"".join(b"".join(each) for each in read) == b"".join(
        pair.record_bytes([length]) for length in (30, 45, 25)
    )
    assert partition.pool.used_buffers == 0


@pytest.mark.row("S013")
@given(st.data())
def test_any_split_into_batches_fills_the_same_buffers_as_record_by_record(
    data: st.DataObject,
) -> None:
    same = st.integers(1, 70).flatmap(lambda size: st.integers(1, 25).map(lambda n: [size] * n))
    mixed = st.lists(st.integers(1, 90), min_size=1, max_size=25)
    lengths = data.draw(same | mixed, label="lengths")
    count = len(lengths)
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=6), label="cuts"))
    settings = {
        "pool_buffers": data.draw(st.sampled_from([40, 3, 4]), label="pool"),
        "overdraft": data.draw(st.sampled_from([0, 2]), label="overdraft"),
        "desired_bytes": data.draw(st.sampled_from([1000, 20, 5]), label="desired"),
        "channel": data.draw(st.sampled_from([0, producer.BROADCAST]), label="channel"),
    }
    drains_at = data.draw(st.sets(st.integers(0, count)), label="drains")
    drain = [index in drains_at and index in cuts for index in range(count + 1)]
    in_batches = buffers_written(lengths, cuts, drain=drain, **settings)
    one_by_one = buffers_written(lengths, range(1, count), drain=drain, **settings)
    assert b"".join(each[0] for each in in_batches) == pair.record_bytes(lengths)
    assert sum(each[2] for each in in_batches) == count
    assert in_batches == one_by_one


class Request:
    """A request that notes what it is told."""

    def __init__(self) -> None:
        self.found: list[producer.PipelinedResultPartition] = []
        self.refusals = 0
        self.listener = PartitionRequestListener(self.found.append, self._refuse)

    def _refuse(self) -> None:
        self.refusals += 1


def test_a_partition_is_registered_once() -> None:
    manager = producer.ResultPartitionManager()
    partition, _ = pair.partition_of()
    manager.register(partition)
    with pytest.raises(RuntimeError, match="already registered"):
        manager.register(partition)
    assert manager.find(partition.partition_id) is partition
    assert manager.partitions == (partition,)


@pytest.mark.row("S038")
def test_every_request_that_waits_is_served_once_at_registration() -> None:
    manager = producer.ResultPartitionManager()
    early, other, elsewhere = Request(), Request(), Request()
    manager.wait_for(pair.partition_id(), pair.RECEIVER, early.listener)
    manager.wait_for(pair.partition_id(), pair.OTHER_RECEIVER, other.listener)
    manager.wait_for(pair.partition_id(1), pair.RECEIVER, elsewhere.listener)
    partition, _ = pair.partition_of()
    manager.register(partition)
    assert (early.found, other.found, elsewhere.found) == ([partition], [partition], [])
    manager.release(partition)
    assert (early.refusals, other.refusals, elsewhere.refusals) == (0, 0, 0)


def test_shutting_down_releases_everything_and_refuses_who_waits() -> None:
    manager = producer.ResultPartitionManager()
    partition, memory = pair.partition_of()
    manager.register(partition)
    request = Request()
    manager.wait_for(pair.partition_id(1), pair.RECEIVER, request.listener)
    manager.shut_down()
    assert partition.is_released
    assert memory.available_buffers == memory.total_buffers
    assert request.refusals == 1
    late, _ = pair.partition_of(identity=pair.partition_id(2))
    with pytest.raises(RuntimeError, match="shut down"):
        manager.register(late)


@pytest.mark.parametrize("closes_first", [True, False])
def test_a_pipelined_partition_goes_with_its_last_user(closes_first: bool) -> None:
    manager = producer.ResultPartitionManager()
    partition, memory = pair.partition_of(2)
    manager.register(partition)
    views = [each.create_read_view(polled_by_hand) for each in partition.subpartitions]
    assert partition.users == 3
    ends = [views[0].release, views[0].release, views[1].release]
    ends.insert(0 if closes_first else 3, partition.finish)
    for end in ends[:-1]:
        end()
        assert manager.find(partition.partition_id) is partition
        assert not partition.is_released
    ends[-1]()
    assert partition.users == 0
    assert partition.is_released
    assert manager.find(partition.partition_id) is None
    assert memory.available_buffers == memory.total_buffers


def test_data_outlives_the_producer_until_it_is_read() -> None:
    partition, memory = pair.partition_of()
    producer.ResultPartitionManager().register(partition)
    partition.emit(0, pair.records_of([100] * 3))
    partition.finish()
    assert memory.pools == ()
    assert memory.available_buffers == memory.total_buffers - 3
    view = partition.subpartitions[0].create_read_view(polled_by_hand)
    sizes = []
    while (piece := view.poll()) is not None:
        sizes.append(piece.size_bytes)
        piece.recycle()
    assert sizes == [100, 100, 100, 4]
    assert memory.available_buffers == memory.total_buffers


def test_fewer_than_no_users_is_an_error() -> None:
    partition, _ = pair.partition_of()
    partition.users = 0
    with pytest.raises(RuntimeError, match="fewer than no users"):
        partition.close()


def test_a_consumed_partition_that_somebody_waits_for_is_an_error() -> None:
    manager = producer.ResultPartitionManager()
    partition, _ = pair.partition_of()
    manager.wait_for(partition.partition_id, pair.RECEIVER, Request().listener)
    with pytest.raises(RuntimeError, match="a request waits for it"):
        manager.handle_consumed(partition)
