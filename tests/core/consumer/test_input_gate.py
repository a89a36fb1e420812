"""Input gates: whose turn it is, also in a union of gates, and compressed buffers."""

from __future__ import annotations

import pytest

from flinknet.core.buffers import (
    DataType,
    MemorySegment,
    NetworkBuffer,
    NetworkBufferPool,
    free_memory,
)
from flinknet.core.consumer import RemoteInputChannel, SingleInputGate, UnionInputGate
from flinknet.core.consumer.input_gate import DecompressingInputGate
from flinknet.core.wire.compression import CompressionCodec, compress
from flinknet.core.wire.messages import BufferResponse
from flinknet.errors import FrameCorruptedError, ProducerFailedError
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


def test_a_channel_that_ended_is_never_queued_again() -> None:
    consumer = Consumer(channels=2)
    deliver(consumer, 0, 2)
    gate = consumer.gate
    polled = gate.poll()
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


class Inputs:
    """Two gates of two and one channels, with connections of their own, and their union."""

    def __init__(self) -> None:
        self.consumers = [Consumer(channels=2), Consumer(channels=1)]
        for number, consumer in enumerate(self.consumers):
            consumer.gate.index = number
            for channel in consumer.channels:
                channel.index += 10 * number
        self.union = UnionInputGate([consumer.gate for consumer in self.consumers])

    def deliver(
        self, gate: int, channel: int, count: int = 1, data_type: DataType = DataType.EVENT_BUFFER
    ) -> None:
        consumer = self.consumers[gate]
        target = consumer.channels[channel]
        for _ in range(count):
            number = target.expected_sequence_number
            consumer.receive(
                BufferResponse(target.receiver_id, channel, number, 0, data_type, False, b"event")
            )

    def turns(self) -> list[int]:
        """Places of the channels, in the order in which they are read."""
        found = []
        while (polled := self.union.poll()) is not None:
            found.append(polled[0].index_in_input)
            polled[1].recycle()
        return found


def test_channels_are_counted_through_in_the_order_of_the_gates() -> None:
    inputs = Inputs()
    assert [channel.index for channel in inputs.union.channels] == [0, 1, 10]
    assert [channel.index_in_input for channel in inputs.union.channels] == [0, 1, 2]
    assert [channel.index_in_gate for channel in inputs.union.channels] == [0, 1, 0]


def test_gates_take_turns_of_one_buffer() -> None:
    inputs = Inputs()
    inputs.deliver(0, 0, 2)
    inputs.deliver(0, 1, 2)
    inputs.deliver(1, 0, 3)
    assert inputs.turns() == [0, 2, 1, 2, 0, 2, 1]
    assert not inputs.union.is_available


def test_an_empty_gate_leaves_the_queue_and_comes_back() -> None:
    inputs = Inputs()
    inputs.deliver(1, 0)
    assert inputs.turns() == [2]
    assert not inputs.union.is_available
    inputs.deliver(0, 1)
    inputs.deliver(1, 0)
    assert inputs.union.is_available
    assert inputs.turns() == [1, 2]


def test_a_gate_with_a_priority_event_goes_first() -> None:
    inputs = Inputs()
    inputs.deliver(0, 0, 2)
    inputs.deliver(1, 0)
    inputs.deliver(1, 0, data_type=DataType.PRIORITIZED_EVENT_BUFFER)
    assert inputs.union.has_priority_events
    assert inputs.turns() == [2, 0, 2, 0]
    assert not inputs.union.has_priority_events


def test_gates_with_priority_events_keep_their_order() -> None:
    inputs = Inputs()
    inputs.deliver(0, 0)
    for gate, channel in ((1, 0), (0, 1)):
        inputs.deliver(gate, channel, data_type=DataType.PRIORITIZED_EVENT_BUFFER)
    assert inputs.turns() == [2, 1, 0]


def test_a_gate_stays_in_front_while_it_has_priority_events() -> None:
    inputs = Inputs()
    inputs.deliver(1, 0, 2)
    for channel in (0, 1):
        inputs.deliver(0, channel, data_type=DataType.PRIORITIZED_EVENT_BUFFER)
    assert inputs.turns() == [0, 1, 2, 2]


def test_what_was_there_before_the_union_is_read() -> None:
    consumers = [Consumer(), Consumer()]
    consumers[1].gate.index = 1
    consumers[1].gate.queue_channel(consumers[1].channels[0])
    union = UnionInputGate([consumer.gate for consumer in consumers])
    assert union.is_available


def test_it_is_finished_when_every_gate_is() -> None:
    inputs = Inputs()
    inputs.deliver(1, 0, 2)
    for channel in inputs.union.channels:
        assert not inputs.union.is_finished
        inputs.union.end_channel(channel)
    assert inputs.union.is_finished
    assert not inputs.union.is_available
    assert inputs.turns() == []


def test_a_union_needs_two_gates_that_can_be_told_apart() -> None:
    with pytest.raises(ValueError, match="at least two"):
        UnionInputGate([SingleInputGate()])
    with pytest.raises(ValueError, match="same index"):
        UnionInputGate([SingleInputGate(), SingleInputGate()])


DATA = b"the same again " * 6


def consumer_of(codec: CompressionCodec) -> Consumer:
    """A consumer of one channel whose gate decompresses."""
    consumer = Consumer()
    gate = DecompressingInputGate()
    gate.codec, gate.segment_size_bytes = codec, 100
    for channel in consumer.channels:
        channel._queue = gate.queue_channel
    gate.set_channels(consumer.channels)
    consumer.gate = gate
    return consumer


def response(consumer: Consumer, payload: bytes, *, is_compressed: bool) -> BufferResponse:
    channel = consumer.channels[0]
    number = channel.expected_sequence_number
    return BufferResponse(
        channel.receiver_id, 0, number, 0, DataType.DATA_BUFFER, is_compressed, payload
    )


@pytest.mark.parametrize("codec", [CompressionCodec.LZ4, CompressionCodec.ZSTD])
def test_buffers_come_out_as_they_went_in_and_memory_goes_back(codec: CompressionCodec) -> None:
    consumer = consumer_of(codec)
    packed = compress(codec, DATA)
    assert packed is not None
    consumer.receive(response(consumer, packed, is_compressed=True))
    consumer.receive(response(consumer, b"as it is", is_compressed=False))
    assert consumer.pool.used_buffers == 2  # lent to the channel for those that it holds
    assert [data for _, _, data in consumer.consume()] == [DATA, b"as it is"]
    assert consumer.channels[0].buffers.available_buffers == 2
    assert consumer.pool.used_buffers == 0


def test_bytes_of_another_codec_are_told_and_their_buffer_goes_back() -> None:
    consumer = consumer_of(CompressionCodec.ZSTD)
    packed = compress(CompressionCodec.LZ4, DATA)
    assert packed is not None
    consumer.receive(response(consumer, packed, is_compressed=True))
    with pytest.raises(FrameCorruptedError, match="not a ZSTD frame"):
        consumer.consume()
    assert consumer.channels[0].buffers.available_buffers == 2


def test_more_than_a_segment_is_not_believed() -> None:
    consumer = consumer_of(CompressionCodec.LZ4)
    packed = compress(CompressionCodec.LZ4, b"x" * 101)
    assert packed is not None
    consumer.receive(response(consumer, packed, is_compressed=True))
    with pytest.raises(FrameCorruptedError, match="101, at most 100"):
        consumer.consume()
