"""The consumer that producers of `by_producers` misbehave to, and what it does about it."""

from __future__ import annotations

from flinknet.core.consumer.request_backoff import RequestBackoffPolicy
from flinknet.core.wire.messages import CancelPartitionRequest
from flinknet.errors import RemoteProtocolError
from tests.pair import Consumer
from tests.peers import by_producers as table

BUFFERS = 16
"""Making the memory is what takes the time of a fuzzer."""


def consumer_of(when: str) -> Consumer:
    """Two channels of one connection, of which the first is in this state."""
    exclusive_buffers = 0 if when == table.CREDITLESS else 2
    consumer = Consumer(channels=2, exclusive_buffers=exclusive_buffers, buffers=BUFFERS)
    consumer.connection.backoff_policy = RequestBackoffPolicy(0, 0, 0)
    consumer.sent()
    if when == table.RELEASED:
        consumer.channels[0].release()
        consumer.sent()
    elif when == table.HALF:
        consumer.connection.receive_data(memoryview(table.buffer().encode())[:-1], now_ns=0)
    return consumer


def outcome(consumer: Consumer, data: bytes) -> str:
    """What the consumer does."""
    channel, beside = consumer.channels
    expected = channel.expected_sequence_number
    required = channel.buffers.required_buffers
    try:
        consumer.connection.receive_data(memoryview(data), now_ns=0)
    except RemoteProtocolError:
        assert consumer.connection.is_closing
    if consumer.connection.is_closing:
        assert channel.error is not None
        assert beside.error is channel.error
        return table.ALL_FAIL
    assert beside.error is None
    if channel.error is not None:
        return table.FAILS
    sent = consumer.sent()
    if any(isinstance(each, CancelPartitionRequest) for each in sent):
        return table.CANCELED
    is_taken = channel.expected_sequence_number != expected
    return (
        table.TAKEN if is_taken or channel.buffers.required_buffers != required else table.NOTHING
    )
