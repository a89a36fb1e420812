"""The gate of an exchange that may be compressed."""

from __future__ import annotations

import pytest

from flinknet.core.buffers import DataType
from flinknet.core.consumer.input_gate import DecompressingInputGate
from flinknet.core.wire.compression import CompressionCodec, compress
from flinknet.core.wire.messages import BufferResponse
from flinknet.errors import FrameCorruptedError
from tests.pair import Consumer

DATA = b"the same again " * 6


def consumer_of(codec: CompressionCodec) -> Consumer:
    """A consumer of one channel whose gate decompresses."""
    consumer = Consumer()
    gate = DecompressingInputGate(codec=codec, segment_size_bytes=100)
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
