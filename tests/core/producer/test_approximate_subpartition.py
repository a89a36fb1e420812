"""A subpartition that may be read anew, with a loss: where the next reader begins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.producer import PipelinedResultPartition, ResultPartitionType
from flinknet.core.wire.events import EndOfOutputChannelStateEvent
from flinknet.core.wire.ids import ResultSubpartitionIndexSet
from flinknet.core.wire.messages import CancelPartitionRequest, PartitionRequest
from tests.pair import OTHER_RECEIVER, RECEIVER, partition_id, partition_of, producer_of, records_of
from tests.probes import polled_by_hand


def approximate(segment_size_bytes: int = 100, buffers: int = 200) -> PipelinedResultPartition:
    _, memory = partition_of(segment_size_bytes=segment_size_bytes, buffers=buffers)
    return PipelinedResultPartition(
        partition_id(),
        1,
        lambda: memory.create_buffer_pool(2, buffers, channels=1),
        exclusive_buffers=2,
        partition_type=ResultPartitionType.PIPELINED_APPROXIMATE,
    )


def filled(*batches: list[int]) -> PipelinedResultPartition:
    """A partition with records of these lengths; record i consists of bytes i, each batch was
    written at once.
    """
    partition = approximate()
    partition.setup()
    first = 0
    for lengths in batches:
        partition.emit(0, records_of(lengths, first))
        first += len(lengths)
    partition.flush_all()
    return partition


def pieces(view, limit: int = 1000) -> list[tuple[int, bytes]]:  # type: ignore[no-untyped-def]
    """Sequence number and bytes of what can be polled."""
    found = []
    while len(found) < limit and (piece := view.poll()) is not None:
        found.append((piece.sequence_number, bytes(piece.view)))
        piece.recycle()
    return found


def test_without_a_failure_it_is_read_like_any_other() -> None:
    partition = filled([60, 250, 40])
    view = partition.subpartitions[0].create_read_view(polled_by_hand)
    data = b"".join(data for _, data in pieces(view))
    assert data == b"\0" * 60 + b"\1" * 250 + b"\2" * 40


def test_a_new_reader_skips_the_rest_of_a_record_that_the_old_one_had_begun() -> None:
    partition = filled([60, 250, 40])
    subpartition = partition.subpartitions[0]
    old = subpartition.create_read_view(polled_by_hand)
    assert pieces(old, limit=1) == [(0, b"\0" * 60 + b"\1" * 40)]
    old.release()
    new = subpartition.create_read_view(polled_by_hand)
    # the second buffer is nothing but the record's middle, the third begins with its end
    assert pieces(new) == [(0, b"\2" * 40)]
    assert subpartition.buffers_in_backlog == 1  # the last one is open
    assert old.poll() is None


def test_who_reads_several_buffers_at_once_skips_it_too() -> None:
    partition = filled([60, 250, 40])
    subpartition = partition.subpartitions[0]
    pieces(subpartition.create_read_view(polled_by_hand), limit=1)
    new = subpartition.create_read_view(polled_by_hand)
    (piece,) = new.poll_run(10, 1000)
    assert (piece.sequence_number, bytes(piece.view)) == (0, b"\2" * 40)
    assert new.poll_run(10, 1000) == []


def test_a_record_that_ends_with_its_buffer_is_skipped_with_it() -> None:
    partition = filled([50, 150, 30])
    old = partition.subpartitions[0].create_read_view(polled_by_hand)
    pieces(old, limit=1)
    new = partition.subpartitions[0].create_read_view(polled_by_hand)
    assert old.is_released
    assert pieces(new) == [(0, b"\2" * 30)]


def test_what_was_read_of_an_open_buffer_ended_with_a_record() -> None:
    partition = filled([30])
    subpartition = partition.subpartitions[0]
    old = subpartition.create_read_view(polled_by_hand)
    assert pieces(old) == [(0, b"\0" * 30)]
    old.release()
    partition.emit(0, records_of([50], 1))
    partition.flush_all()
    new = subpartition.create_read_view(polled_by_hand)
    assert pieces(new) == [(0, b"\1" * 50)]


def test_a_skipped_record_may_end_in_a_buffer_that_is_still_open() -> None:
    partition = filled([120])
    subpartition = partition.subpartitions[0]
    old = subpartition.create_read_view(polled_by_hand)
    assert pieces(old, limit=1) == [(0, b"\0" * 100)]
    old.release()
    new = subpartition.create_read_view(polled_by_hand)
    assert pieces(new) == []
    partition.emit(0, records_of([30], 1))
    partition.flush_all()
    assert pieces(new) == [(0, b"\1" * 30)]


def test_a_blocked_subpartition_is_open_to_the_next_reader() -> None:
    partition = approximate()
    partition.setup()
    subpartition = partition.subpartitions[0]
    partition.broadcast_event(EndOfOutputChannelStateEvent())
    old = subpartition.create_read_view(polled_by_hand)
    assert len(pieces(old)) == 1
    assert subpartition.is_blocked
    old.release()
    partition.emit(0, records_of([10]))
    partition.flush_all()
    assert pieces(subpartition.create_read_view(polled_by_hand)) == [(0, b"\0" * 10)]


@given(
    st.lists(st.lists(st.integers(1, 320), min_size=1, max_size=4), min_size=1, max_size=4),
    st.lists(st.integers(0, 6), min_size=1, max_size=4),
)
def test_every_reader_gets_whole_records_in_order(
    batches: list[list[int]], polls: list[int]
) -> None:
    partition = filled(*batches)
    lengths = [length for batch in batches for length in batch]
    subpartition = partition.subpartitions[0]
    next_record = 0
    for turn, limit in enumerate([*polls, 1000]):
        view = subpartition.create_read_view(polled_by_hand)
        got = pieces(view, limit)
        assert [number for number, _ in got] == list(range(len(got)))
        data = b"".join(data for _, data in got)
        is_last = turn == len(polls)
        while data:
            record = data[0]
            assert record >= next_record
            next_record = record + 1
            whole = bytes([record]) * lengths[record]
            if not is_last and len(data) < len(whole):
                whole = whole[: len(data)]  # the reader failed in the middle of it
            assert data.startswith(whole)
            data = data[len(whole) :]
        view.release()
    assert subpartition.buffers_in_backlog <= 1


def test_a_lost_consumer_keeps_the_partition_and_its_next_one_goes_on() -> None:
    partition = filled([100, 150, 30])
    connection, manager = producer_of(partition)

    def request(receiver_id) -> PartitionRequest:  # type: ignore[no-untyped-def]
        return PartitionRequest(partition_id(), ResultSubpartitionIndexSet(0, 0), receiver_id, 1)

    connection.receive_data(memoryview(request(RECEIVER).encode()), now_ns=0)
    assert len(b"".join(connection.data_to_send(now_ns=0))) > 100
    connection.receive_data(memoryview(CancelPartitionRequest(RECEIVER).encode()), now_ns=0)
    assert manager.find(partition.partition_id) is partition
    assert not partition.subpartitions[0].is_released
    connection.receive_data(memoryview(request(OTHER_RECEIVER).encode()), now_ns=0)
    sent = b"".join(connection.data_to_send(now_ns=0))
    assert sent.endswith(b"\1" * 100)


def test_it_is_consumed_when_a_reader_came_to_the_end_and_left() -> None:
    partition = filled([10])
    subpartition = partition.subpartitions[0]
    view = subpartition.create_read_view(polled_by_hand)
    partition.finish()
    assert not partition.is_consumed
    pieces(view, limit=1)
    view.release()
    assert not partition.is_consumed
    view = subpartition.create_read_view(polled_by_hand)
    assert len(pieces(view)) == 1
    view.release()
    assert partition.is_consumed
    assert not partition.is_released
    partition.release()
    with pytest.raises(RuntimeError, match="released"):
        subpartition.create_read_view(polled_by_hand)
