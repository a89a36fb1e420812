"""SingleInputGate: whose turn it is."""

from __future__ import annotations

import pytest

from flinknet.core.buffers import (
    DataType,
    MemorySegment,
    NetworkBuffer,
    NetworkBufferPool,
    free_memory,
)
from flinknet.core.consumer import RemoteInputChannel
from flinknet.core.wire.messages import BufferResponse
from flinknet.errors import ProducerFailedError
from tests.pair import RECEIVER, Consumer, partition_id


def deliver(consumer: Consumer, channel: int, count: int = 1) -> None:
    """Events that say whose they are: they cost no buffer."""
    target = consumer.channels[channel]
    for _ in range(count):
        consumer.receive(
            BufferResponse(
                target.receiver_id,
                channel,
                target.expected_sequence_number,
                0,
                DataType.EVENT_BUFFER,
                False,
                b"event",
            )
        )


def turns(consumer: Consumer) -> list[int]:
    return [channel for channel, _, _ in consumer.consume()]


@pytest.mark.row("S051")
def test_channels_take_turns_of_one_buffer() -> None:
    consumer = Consumer(channels=3)
    for channel in range(3):
        deliver(consumer, channel, 3)
    assert turns(consumer) == [0, 1, 2, 0, 1, 2, 0, 1, 2]


@pytest.mark.row("S051")
def test_an_empty_channel_leaves_the_queue_and_comes_back_with_its_next_buffer() -> None:
    consumer = Consumer(channels=2)
    deliver(consumer, 0)
    assert turns(consumer) == [0]
    assert not consumer.gate.is_available
    deliver(consumer, 1)
    deliver(consumer, 0)
    assert consumer.gate.is_available
    assert turns(consumer) == [1, 0]


@pytest.mark.row("S049")
def test_a_channel_stands_in_the_queue_once() -> None:
    consumer = Consumer(channels=2)
    deliver(consumer, 0)
    for _ in range(5):
        consumer.gate.queue_channel(consumer.channels[0])
    assert list(consumer.gate._ready) == [consumer.channels[0]]


class NotedCalls:
    """Stands in for the gate's queue: notes whether it is called for data or a priority event."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def __call__(self, channel: RemoteInputChannel, has_priority: bool) -> None:
        self.notes.append("priority" if has_priority else "data")


@pytest.mark.row("S047")
def test_the_gate_is_told_of_the_first_buffer_only_and_order_is_kept() -> None:
    memory, gate = NetworkBufferPool(10, 100), NotedCalls()
    pool = memory.create_buffer_pool(1, 8)
    channel = RemoteInputChannel(0, RECEIVER, partition_id(), 0, gate, 0, memory, pool, 2)
    for number, data_type in enumerate([DataType.DATA_BUFFER] * 2 + [DataType.EVENT_BUFFER] * 2):
        segment = MemorySegment(memoryview(bytearray(5)))
        channel.receive_buffer(NetworkBuffer(segment, free_memory, data_type, 5), number, 0)
    assert gate.notes == ["data"]
    assert [number for _, number in channel.received] == [0, 1, 2, 3]
    channel.received.clear()
    segment = MemorySegment(memoryview(bytearray(5)))
    channel.receive_buffer(NetworkBuffer(segment, free_memory, size_bytes=5), 4, 0)
    assert gate.notes == ["data", "data"]


@pytest.mark.row("S047")
def test_what_comes_to_a_released_channel_is_dropped_and_recycled() -> None:
    memory, gate = NetworkBufferPool(10, 100), NotedCalls()
    pool = memory.create_buffer_pool(1, 8)
    channel = RemoteInputChannel(0, RECEIVER, partition_id(), 0, gate, 0, memory, pool, 2)
    buffer = channel.buffers.take()
    assert buffer is not None
    channel.release()
    assert memory.available_buffers + 1 == memory.total_buffers
    channel.receive_buffer(buffer, 0, 7)
    assert not channel.received
    assert gate.notes == []
    assert memory.available_buffers == memory.total_buffers
    assert pool.used_buffers == 0


def test_an_empty_gate_gives_nothing() -> None:
    assert Consumer().gate.poll() is None


def test_a_channel_that_ended_is_never_queued_again() -> None:
    consumer = Consumer(channels=2)
    deliver(consumer, 0, 2)
    gate = consumer.gate
    polled = gate.poll()
    assert polled is not None
    gate.end_channel(polled[0])
    assert not gate.is_available
    gate.queue_channel(consumer.channels[0])
    assert not gate.is_available
    assert not gate.is_finished
    with pytest.raises(RuntimeError, match="twice"):
        gate.end_channel(consumer.channels[0])
    gate.end_channel(consumer.channels[1])
    assert gate.is_finished


def test_a_channel_that_failed_gives_what_it_has_and_then_its_error() -> None:
    consumer = Consumer(channels=2)
    deliver(consumer, 0)
    deliver(consumer, 1, 2)
    consumer.channels[0].fail(ProducerFailedError("first"))
    consumer.channels[0].fail(ProducerFailedError("second"))
    order = []
    for _ in range(2):
        polled = consumer.gate.poll()
        assert polled is not None
        order.append(polled[0].index)
    assert order == [0, 1]
    with pytest.raises(ProducerFailedError, match="first"):
        consumer.gate.poll()
    assert turns(consumer) == [1]


def test_a_channel_that_lost_its_buffers_is_passed_over() -> None:
    consumer = Consumer(channels=2)
    deliver(consumer, 0)
    deliver(consumer, 1)
    consumer.channels[0].release()
    assert turns(consumer) == [1]
