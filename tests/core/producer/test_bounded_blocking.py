"""Blocking partitions: written to the end, then read, any number of times."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core import producer
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.probe import NullProbe
from flinknet.core.producer.bounded_subpartition import read_stored
from flinknet.core.wire.buffer_response import STORED_HEADER
from flinknet.core.wire.compression import CompressionCodec, decompress
from flinknet.core.wire.events import EndOfData, EndOfPartitionEvent, encode_pipelined
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.ids import InputChannelID, ResultSubpartitionIndexSet
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.messages import (
    AddCredit,
    BufferResponse,
    CancelPartitionRequest,
    ErrorResponse,
    PartitionRequest,
)
from flinknet.errors import LocalTransportError
from tests import pair
from tests.probes import polled_by_hand


class Blocking:
    """A blocking partition, its memory and where its bytes are."""

    def __init__(
        self,
        subpartitions: int = 1,
        codec: CompressionCodec = CompressionCodec.NONE,
        buffers: int = 50,
    ) -> None:
        self.memory = NetworkBufferPool(buffers, 100)
        self.data = [producer.MemoryBoundedData() for _ in range(subpartitions)]
        self.partition = producer.BoundedBlockingResultPartition(
            pair.partition_id(),
            self.data,
            lambda: self.memory.create_buffer_pool(
                subpartitions + 1, buffers, channels=subpartitions
            ),
            codec=codec,
        )
        self.partition.setup()


def read(view) -> list[tuple[int, int, int, int, bytes]]:  # type: ignore[no-untyped-def]
    """Of everything that can be polled: type, sequence number, backlog, next type, bytes."""
    found = []
    while (piece := view.poll()) is not None:
        numbers = (
            piece.data_type,
            piece.sequence_number,
            piece.backlog_buffers,
            piece.next_data_type,
        )
        found.append((*numbers, bytes(piece.view)))
        piece.recycle()
    return found


@pytest.mark.row("S017")
def test_a_reader_before_the_end_fails_and_afterwards_all_data_comes() -> None:
    blocking = Blocking()
    partition, subpartition = blocking.partition, blocking.partition.subpartitions[0]
    partition.emit(0, pair.records_of([250]))
    with pytest.raises(RuntimeError, match="not finished"):
        subpartition.create_read_view(polled_by_hand)
    partition.broadcast_event(EndOfData())
    partition.finish()
    end_of_data = encode_pipelined(EndOfData())
    end_of_partition = encode_pipelined(EndOfPartitionEvent())
    assert read(subpartition.create_read_view(polled_by_hand)) == [
        (1, 0, 2, 1, b"\0" * 100),
        (1, 1, 1, 1, b"\0" * 100),
        (1, 2, 0, 2, b"\0" * 50),
        (2, 3, 0, 2, end_of_data),
        (2, 4, 0, 0, end_of_partition),
    ]


def test_readers_are_independent_and_may_come_again() -> None:
    blocking = Blocking()
    partition = blocking.partition
    partition.emit(0, pair.records_of([100] * 3))
    partition.finish()
    first, second = (partition.subpartitions[0].create_read_view(polled_by_hand) for _ in range(2))
    assert (first.backlog(), first.queued_elements) == (3, 4)
    assert [first.poll().sequence_number, second.poll().sequence_number] == [0, 0]
    assert (first.backlog(), first.queued_elements) == (2, 3)
    assert len(read(second)) == 3
    second.release()
    third = partition.subpartitions[0].create_read_view(polled_by_hand)
    assert len(read(third)) == 4
    assert len(read(first)) == 3


def test_the_end_comes_without_credit_but_data_does_not() -> None:
    blocking = Blocking()
    blocking.partition.emit(0, pair.records_of([10]))
    blocking.partition.finish()
    view = blocking.partition.subpartitions[0].create_read_view(polled_by_hand)
    assert (view.is_data_available, view.is_event_available) == (True, False)
    view.poll()
    assert (view.is_data_available, view.is_event_available) == (True, True)
    view.poll()
    assert (view.is_data_available, view.is_event_available) == (False, False)
    with pytest.raises(RuntimeError, match="blocked"):
        view.resume_consumption()


def test_writing_needs_no_more_memory_than_one_open_buffer_for_each_channel() -> None:
    blocking = Blocking(2, buffers=3)
    for _ in range(20):
        for channel in range(2):
            position, batch = 0, pair.records_of([70] * 9)
            while position < 630:
                reached = blocking.partition.emit(channel, batch, position)
                assert reached > position  # it never has to wait for anybody
                position = reached
    assert blocking.partition.pool.used_buffers <= 2
    blocking.partition.finish()
    assert blocking.memory.available_buffers == 3
    assert [each.data_bytes for each in blocking.partition.subpartitions] == [12600, 12600]


def test_a_flush_ends_the_open_buffer() -> None:
    blocking = Blocking(2)
    blocking.partition.emit(0, pair.records_of([10]))
    blocking.partition.emit(1, pair.records_of([10]))
    blocking.partition.flush(0)
    assert [each.data_buffers for each in blocking.partition.subpartitions] == [1, 0]
    blocking.partition.flush_all()
    assert [each.data_buffers for each in blocking.partition.subpartitions] == [1, 1]
    assert blocking.partition.pool.used_buffers == 0


def test_a_broadcast_is_stored_in_every_subpartition() -> None:
    blocking = Blocking(3)
    blocking.partition.emit(producer.BROADCAST, pair.records_of([70] * 5))
    blocking.partition.finish()
    views = [each.create_read_view(polled_by_hand) for each in blocking.partition.subpartitions]
    first, *others = [read(view) for view in views]
    assert len(first) == 5
    assert others == [first, first]
    assert blocking.memory.available_buffers == 50


@given(st.lists(st.integers(1, 330), min_size=1, max_size=12))
def test_what_is_read_is_what_was_written(lengths: list[int]) -> None:
    blocking = Blocking(codec=CompressionCodec.LZ4)
    records = pair.records_of(lengths)
    blocking.partition.emit(0, records)
    blocking.partition.finish()
    view = blocking.partition.subpartitions[0].create_read_view(polled_by_hand)
    data = bytearray()
    count = 0
    while (piece := view.poll()) is not None:
        if piece.data_type == 1:
            is_compressed = piece.buffer.is_compressed
            payload = bytes(piece.view)
            data += decompress(CompressionCodec.LZ4, payload, 100) if is_compressed else payload
            count += piece.records
    assert data == records.data
    assert count == len(lengths)


def test_its_bytes_are_gone_when_it_is_released_and_nobody_reads() -> None:
    blocking = Blocking(2)
    partition, (first, second) = blocking.partition, blocking.data
    partition.emit(0, pair.records_of([100] * 2))
    partition.finish()
    view = partition.subpartitions[0].create_read_view(polled_by_hand)
    partition.release()
    assert (first.is_released, second.is_released) == (False, True)
    assert len(read(view)) == 3
    view.release()
    assert first.is_released
    with pytest.raises(RuntimeError, match="released"):
        partition.subpartitions[0].create_read_view(polled_by_hand)


def test_giving_it_up_in_the_middle_gives_all_memory_back() -> None:
    blocking = Blocking(2)
    blocking.partition.emit(0, pair.records_of([130]))
    blocking.partition.emit(producer.BROADCAST, pair.records_of([30], 1))
    blocking.partition.release()
    assert blocking.memory.available_buffers == 50
    assert all(each.is_released for each in blocking.data)
    assert blocking.partition.subpartitions[0].add_complete([]) is None


def test_reading_does_not_release_it_but_its_scheduler_does() -> None:
    blocking = Blocking()
    partition = blocking.partition
    connection, manager = pair.producer_of(partition)
    partition.emit(0, pair.records_of([100] * 3))
    partition.finish()
    assert not partition.is_consumed
    for receiver_id in (pair.RECEIVER, pair.OTHER_RECEIVER):
        indices = ResultSubpartitionIndexSet(0, 0)
        request = PartitionRequest(pair.partition_id(), indices, receiver_id, 2)
        connection.receive_data(memoryview(request.encode()), now_ns=0)
        decoder = FrameDecoder(Direction.PRODUCER_TO_CONSUMER)
        messages = decoder.feed(pair.sent_bytes(connection))
        assert [m.backlog for m in messages if isinstance(m, BufferResponse)] == [2, 1]
        connection.receive_data(memoryview(AddCredit(1, receiver_id).encode()), now_ns=0)
        messages = decoder.feed(pair.sent_bytes(connection))
        assert [m.data_type for m in messages if isinstance(m, BufferResponse)] == [1, 2]
        assert not partition.is_consumed
        cancel = CancelPartitionRequest(receiver_id)
        connection.receive_data(memoryview(cancel.encode()), now_ns=0)
        assert partition.is_consumed
    assert manager.find(partition.partition_id) is partition
    assert not blocking.data[0].is_released
    manager.release(partition)
    assert blocking.data[0].is_released


@pytest.mark.row("S017")
def test_a_request_before_the_end_is_answered_with_an_error() -> None:
    blocking = Blocking()
    connection, _ = pair.producer_of(blocking.partition)
    request = PartitionRequest(
        pair.partition_id(), ResultSubpartitionIndexSet(0, 0), pair.RECEIVER, 2
    )
    connection.receive_data(memoryview(request.encode()), now_ns=0)
    (error,) = FrameDecoder(Direction.PRODUCER_TO_CONSUMER).feed(pair.sent_bytes(connection))
    assert isinstance(error, ErrorResponse)
    assert "not finished" in (error.cause.message or "")


class Cut(producer.MemoryBoundedData):
    """A file that somebody shortened to a number of bytes."""

    def __init__(self, left_bytes: int) -> None:
        super().__init__()
        self._left_bytes = left_bytes

    def read(self, offset: int, into: Sequence[memoryview]) -> int:
        """Fewer bytes than asked for."""
        return min(super().read(offset, into), self._left_bytes - offset)


def cut_partition(left_bytes: int) -> producer.BoundedBlockingResultPartition:
    """A complete partition of two buffers of 108 bytes and the end, in a file that was cut."""
    memory = NetworkBufferPool(5, 100)
    partition = producer.BoundedBlockingResultPartition(
        pair.partition_id(),
        [Cut(left_bytes)],
        lambda: memory.create_buffer_pool(2, 5, channels=1),
        codec=CompressionCodec.NONE,
    )
    partition.setup()
    partition.emit(0, pair.records_of([100, 100]))
    partition.finish()
    return partition


def test_a_file_that_was_changed_is_told() -> None:
    (subpartition,) = cut_partition(107).subpartitions
    with pytest.raises(LocalTransportError, match="107 bytes at 0 of a spill file where 108 were"):
        subpartition.create_read_view(polled_by_hand)
    whole = Blocking()
    whole.partition.emit(0, pair.records_of([100]))
    whole.partition.finish()
    (subpartition,) = whole.partition.subpartitions
    with pytest.raises(LocalTransportError, match="the header"):
        read_stored(subpartition.data, 1, subpartition.stored[:1], [memoryview(bytearray(100))])


@pytest.mark.row("S091")
@pytest.mark.parametrize("when", ["requested", "registered", "read"])
def test_a_file_that_cannot_be_read_fails_the_connection_that_reads_it_and_no_other(
    when: str,
) -> None:
    partition = cut_partition(108 if when == "read" else 50)
    reading, manager = pair.producer_of(*([] if when == "registered" else [partition]))
    living, living_memory = pair.partition_of(2, identity=pair.partition_id(1))
    manager.register(living)
    receivers = {receiver: index for index, receiver in enumerate(pair.receiver_ids(3))}
    bad, neighbour, stranger = receivers
    other = producer.ProducerConnection(
        manager, NullProbe(), receivers, partition_request_timeout_ns=pair.REQUEST_TIMEOUT_NS
    )
    living.emit(0, pair.records_of([100]))
    living.emit(1, pair.records_of([100]))
    living.flush_all()
    for connection, receiver, of, index in (
        (reading, neighbour, 1, 0),
        (reading, bad, 0, 0),
        (other, stranger, 1, 1),
    ):
        indices = ResultSubpartitionIndexSet(index, index)
        request = PartitionRequest(pair.partition_id(of), indices, receiver, 9).encode()
        connection.receive_data(memoryview(request), now_ns=0)
    if when == "registered":
        manager.register(partition)
    *_, error = FrameDecoder(Direction.PRODUCER_TO_CONSUMER).feed(pair.sent_bytes(reading))
    assert isinstance(error, ErrorResponse)
    assert error.receiver_id is None
    assert "of a spill file where" in (error.cause.message or "")
    assert error.cause.class_name == "java.io.IOException"
    assert reading.is_closing
    assert not reading.queue.readers
    assert "spill file" in str(reading.loss)
    late = AddCredit(1, InputChannelID(neighbour)).encode()
    reading.receive_data(memoryview(late), now_ns=0)
    assert pair.sent_bytes(reading) == b""
    (data_buffer,) = FrameDecoder(Direction.PRODUCER_TO_CONSUMER).feed(pair.sent_bytes(other))
    assert isinstance(data_buffer, BufferResponse)
    assert not other.is_closing
    for connection in (reading, other):
        connection.receive_eof(now_ns=0)
    living.close()
    assert living_memory.available_buffers == living_memory.total_buffers


def test_stored_headers_are_two_shorts_and_a_length_in_native_order() -> None:
    order = sys.byteorder
    header = (1).to_bytes(2, order) + bytes(2) + (70_000).to_bytes(4, order)
    assert STORED_HEADER.pack(True, False, 70_000) == header
