"""Producers that misbehave, one by one (`by_producers`): what the consumer does about it, and that
its other channels feel nothing.
"""

from __future__ import annotations

from types import NoneType

import pytest

from flinknet.core.consumer.request_backoff import RequestBackoffPolicy
from flinknet.core.wire.messages import CancelPartitionRequest
from flinknet.errors import RemoteProtocolError
from tests.pair import Consumer
from tests.peers.by_producers import (
    ALL_FAIL,
    CANCELED,
    CASES,
    CREDITLESS,
    DATA,
    EVENT,
    FAILS,
    HALF,
    NOTHING,
    RELEASED,
    TAKEN,
    Case,
    buffer,
)


def consumer_of(case: Case) -> Consumer:
    """Two channels of one connection, of which the first is as the case says."""
    consumer = Consumer(channels=2, exclusive_buffers=0 if case.when == CREDITLESS else 2)
    consumer.connection.requests.policy = RequestBackoffPolicy(0, 0, 0)
    consumer.sent()
    if case.when == RELEASED:
        consumer.channels[0].release()
        consumer.sent()
    elif case.when == HALF:
        consumer.connection.receive_data(memoryview(buffer().encode())[:-1], now_ns=0)
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
        return ALL_FAIL
    assert beside.error is None
    if channel.error is not None:
        return FAILS
    sent = consumer.sent()
    if any(isinstance(each, CancelPartitionRequest) for each in sent):
        return CANCELED
    is_taken = channel.expected_sequence_number != expected
    return TAKEN if is_taken or channel.buffers.required_buffers != required else NOTHING


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            each,
            id=f"C{each.number:02d}-{each.said}-{each.when}",
            marks=[pytest.mark.row(row) for row in each.rows],
        )
        for each in CASES
    ],
)
def test_a_producer_that(case: Case) -> None:
    consumer, other = consumer_of(case), Consumer()
    assert outcome(consumer, case.data) == case.must
    error = consumer.channels[0].error
    assert isinstance(error, case.error if case.must in (FAILS, ALL_FAIL) else NoneType)
    for each in (consumer, other):
        beside = each.channels[-1]
        if beside.error is None:
            kind = DATA if beside.initial_credit else EVENT
            each.receive(buffer(to=beside.receiver_id, kind=kind))
            assert len(beside.received) == 1
    assert other.channels[0].error is None
    for each in (consumer, other):
        each.close()
        each.connection.receive_eof(now_ns=0)
        assert each.memory.available_buffers == each.memory.total_buffers
