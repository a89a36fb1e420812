"""One owner count, one recycler, once."""

from __future__ import annotations

import pytest

from flinknet.core.buffers import (
    BufferConsumer,
    DataType,
    MemorySegment,
    NetworkBuffer,
    NetworkBufferPool,
    free_memory,
)
from flinknet.core.buffers.builder import BufferSlice
from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM


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
    with pytest.raises(RuntimeError, match="more often"):
        buffer.recycle()


def test_a_recycled_buffer_cannot_be_retained() -> None:
    buffer = NetworkBuffer(segment(), free_memory)
    buffer.recycle()
    with pytest.raises(RuntimeError, match="retained"):
        buffer.retain()


def test_the_payload_is_what_was_filled() -> None:
    memory = MemorySegment(memoryview(bytearray(b"abcdef")))
    assert memory.size_bytes == 6
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


FLAGS = {
    DataType.NONE: "",
    DataType.DATA_BUFFER: "buffer",
    DataType.EVENT_BUFFER: "event",
    DataType.PRIORITIZED_EVENT_BUFFER: "event priority",
    DataType.ALIGNED_CHECKPOINT_BARRIER: "event blocks",
    DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER: "event blocks",
    DataType.RECOVERY_COMPLETION: "event blocks",
    DataType.END_OF_SEGMENT: "event",
    DataType.DATA_BUFFER_WITH_CLEAR_END: "buffer",
    DataType.END_OF_DATA: "event",
    DataType.END_OF_PARTITION: "event",
    DataType.RECOVERY_METADATA: "event",
    DataType.ALIGNED_WATERMARK_EVENT: "event blocks",
    DataType.UNALIGNED_WATERMARK_EVENT: "event",
}


@pytest.mark.parametrize("data_type", DataType)
def test_the_flags_of_a_data_type_are_those_of_flink(data_type: DataType) -> None:
    flags = {
        "buffer": data_type.is_buffer,
        "event": data_type.is_event,
        "blocks": data_type in IS_BLOCKING_UPSTREAM,
        "priority": data_type.has_priority,
    }
    assert {name for name, is_set in flags.items() if is_set} == set(FLAGS[data_type].split())
