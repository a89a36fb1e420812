"""One side writes a segment, the other reads it meanwhile; the last owner returns it, once."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.buffers import (
    BufferBuilder,
    BufferConsumer,
    BufferSlice,
    DataType,
    MemorySegment,
    NetworkBuffer,
    NetworkBufferPool,
    free_memory,
)

SEGMENT_BYTES = 50


def builder_of(recycled: list[MemorySegment], size_bytes: int = SEGMENT_BYTES) -> BufferBuilder:
    return BufferBuilder(
        NetworkBuffer(MemorySegment(memoryview(bytearray(size_bytes))), recycled.append)
    )


def publish(builder: BufferBuilder, data: bytes) -> int:
    """Lay bytes into a buffer as far as they fit, as a partition does. Returns: how many."""
    start = builder.written_bytes
    count = min(len(data), builder.capacity_bytes - start)
    builder.view[start : start + count] = data[:count]
    builder.written_bytes = builder.committed_bytes = start + count
    return count


def take(piece: BufferSlice) -> bytes:
    data = bytes(piece.view)
    assert len(data) == piece.size_bytes
    piece.recycle()
    return data


@given(
    st.lists(
        st.one_of(
            st.binary(min_size=0, max_size=20),
            st.sampled_from(["build", "copy"]),
            st.integers(0, 60),
        ),
        max_size=30,
    ),
    st.booleans(),
)
def test_slices_joined_are_the_published_bytes_whatever_the_turns(
    actions: list[bytes | str | int], closes_builder_first: bool
) -> None:
    recycled: list[MemorySegment] = []
    builder = builder_of(recycled)
    consumers = [builder.create_consumer()]
    read = [bytearray()]
    written = bytearray()
    records_marked = 0
    records_read = [0]
    for action in actions:
        if isinstance(action, bytes):
            written += action[: publish(builder, action)]
            builder.marks.append((2, 10, 20))
            records_marked += 2
        elif isinstance(action, int):
            builder.trim(action)
            assert builder.capacity_bytes == min(max(action, len(written)), SEGMENT_BYTES)
        elif action == "copy":
            consumers.append(consumers[0].copy())
            read.append(bytearray(read[0]))
            records_read.append(records_read[0])
        else:
            for index, consumer in enumerate(consumers):
                assert consumer.is_data_available == (len(read[index]) < len(written))
                piece = consumer.build()
                records_read[index] += piece.records
                read[index] += take(piece)
                assert read[index] == written
        assert builder.written_bytes == len(written)
    assert builder.finish(1) == len(written)
    for index, consumer in enumerate(consumers):
        assert not consumer.is_finished
        piece = consumer.build()
        records_read[index] += piece.records
        read[index] += take(piece)
        assert consumer.is_finished
        assert bytes(read[index]) == bytes(written)
        assert records_read[index] == records_marked
    sides: list[BufferBuilder | BufferConsumer] = [builder, *consumers]
    for side in sides if closes_builder_first else reversed(sides):
        assert recycled == []
        side.close()
    assert len(recycled) == 1


def test_a_consumer_sees_a_partial_buffer_before_it_is_full() -> None:
    builder = builder_of([])
    consumer = builder.create_consumer()
    publish(builder, b"12345")
    assert take(consumer.build()) == b"12345"
    assert not consumer.is_finished
    assert take(consumer.build()) == b""
    publish(builder, b"678")
    assert take(consumer.build()) == b"678"


def test_a_queued_consumer_says_unfinished_until_it_is_built() -> None:
    builder = builder_of([])
    consumer = builder.create_consumer()
    publish(builder, b"12345")
    builder.finish(1)
    assert not consumer.is_finished
    consumer.look()
    assert (consumer.is_finished, consumer.visible_bytes) == (True, 5)


def test_a_builder_that_finishes_empty_gives_one_empty_slice() -> None:
    recycled: list[MemorySegment] = []
    builder = builder_of(recycled)
    consumer = builder.create_consumer()
    assert builder.finish(1) == 0
    builder.close()
    assert take(consumer.build()) == b""
    assert consumer.is_finished
    consumer.close()
    assert len(recycled) == 1


def test_a_builder_has_one_consumer() -> None:
    builder = builder_of([])
    builder.create_consumer()
    with pytest.raises(RuntimeError, match="exactly one"):
        builder.create_consumer()


def test_a_late_consumer_begins_where_the_builder_stands() -> None:
    builder = builder_of([])
    publish(builder, b"old")
    consumer = builder.create_consumer()
    publish(builder, b"new")
    assert take(consumer.build()) == b"new"


def test_a_trimmed_builder_may_grow_back_to_its_segment() -> None:
    builder = builder_of([])
    publish(builder, b"0123456789")
    builder.trim(4)
    assert builder.capacity_bytes == 10
    builder.trim(1000)
    assert builder.capacity_bytes == SEGMENT_BYTES


@pytest.mark.parametrize("reads", list(itertools.product([False, True], repeat=2)))
def test_each_slice_tells_of_the_records_that_ended_in_it(reads: tuple[bool, bool]) -> None:
    builder = builder_of([])
    consumer = builder.create_consumer()
    told = []
    for (records, first_ns, last_ns), is_read in zip(
        [(3, 100, 120), (1, 130, 130), (2, 140, 150)], (*reads, True), strict=True
    ):
        publish(builder, b"x")
        builder.marks.append((records, first_ns, last_ns))
        if is_read:
            piece = consumer.build()
            told.append((piece.records, piece.first_record_ns, piece.last_record_ns))
            piece.recycle()
    expected = {
        (False, False): [(6, 100, 150)],
        (False, True): [(4, 100, 130), (2, 140, 150)],
        (True, False): [(3, 100, 120), (3, 130, 150)],
        (True, True): [(3, 100, 120), (1, 130, 130), (2, 140, 150)],
    }
    assert told == expected[reads]
    piece = consumer.build()
    assert (piece.records, piece.first_record_ns, piece.last_record_ns) == (0, -1, -1)


def segment(size_bytes: int = 8) -> MemorySegment:
    return MemorySegment(memoryview(bytearray(size_bytes)), 3)


def test_the_last_reference_hands_the_segment_to_its_recycler_once() -> None:
    recycled: list[MemorySegment] = []
    memory = segment()
    buffer = NetworkBuffer(memory, recycled.append)
    buffer.retain()
    buffer.recycle()
    assert recycled == []
    buffer.recycle()
    assert recycled == [memory]


def test_a_buffer_cannot_be_recycled_more_often_than_it_was_retained() -> None:
    buffer = NetworkBuffer(segment(), free_memory)
    buffer.recycle()
    with pytest.raises(RuntimeError, match="recycled more often"):
        buffer.recycle()


def test_a_recycled_buffer_cannot_be_retained() -> None:
    buffer = NetworkBuffer(segment(), free_memory)
    buffer.recycle()
    with pytest.raises(RuntimeError, match="retained"):
        buffer.retain()


def test_the_payload_is_what_was_filled() -> None:
    memory = MemorySegment(memoryview(bytearray(b"abcdef")))
    assert bytes(NetworkBuffer(memory, free_memory, size_bytes=4).payload) == b"abcd"


@pytest.mark.row("S060")
def test_an_event_lies_in_plain_memory_of_its_exact_size() -> None:
    pool = NetworkBufferPool(1, 8)
    held = pool.try_request_segment()
    consumer = BufferConsumer.of_event(b"123456789012", DataType.EVENT_BUFFER)
    piece = consumer.build()
    assert held is not None
    assert (bytes(piece.view), piece.size_bytes, consumer.is_buffer) == (b"123456789012", 12, False)
    assert pool.available_buffers == 0
    assert consumer.is_data_available is False
    piece.recycle()
    consumer.close()
    with pytest.raises(RuntimeError):
        consumer.close()


def test_a_slice_shares_the_count_of_its_buffer() -> None:
    recycled: list[MemorySegment] = []
    buffer = NetworkBuffer(segment(), recycled.append)
    piece = BufferSlice(buffer, buffer.view[2:5], 3)
    piece.recycle()
    assert len(recycled) == 1
