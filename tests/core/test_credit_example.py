"""The example that explanations of credit use, step by step with its own numbers."""

from __future__ import annotations

import pytest

from flinknet.config import NetworkConfig
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.messages import AddCredit, BufferResponse, Message
from tests.pair import Pair, records_of

B4, B3 = 0, 1
"""Channels of one connection: A.2 -> B.4 with a backlog, and its neighbour."""


def sent(pair: Pair) -> tuple[list[Message], list[Message]]:
    """What both sides say now, to the consumer and to the producer; it is delivered."""
    pair.send()
    spoken = (
        FrameDecoder(Direction.PRODUCER_TO_CONSUMER).feed(bytes(pair.to_consumer)),
        FrameDecoder(Direction.CONSUMER_TO_PRODUCER).feed(bytes(pair.to_producer)),
    )
    pair.deliver()
    return spoken


@pytest.mark.row("S110")
def test_a_backlog_of_five_and_two_free_buffers_give_two_buffers_next() -> None:
    pair = Pair(
        NetworkConfig(segment_size_bytes=100, exclusive_buffers=1, floating_buffers=2), channels=2
    )
    pair.drive()
    pair.partition.emit(B4, records_of([600]))  # one record, six buffers
    pair.partition.flush_all()

    to_consumer, to_producer = sent(pair)
    (first,) = to_consumer
    assert isinstance(first, BufferResponse)
    assert first.backlog == 5
    assert to_producer == []
    assert pair.channels[B4].buffers.available_buffers == 2  # all that the pool has

    to_consumer, to_producer = sent(pair)
    assert to_consumer == []  # not one without credit
    (announced,) = to_producer
    assert isinstance(announced, AddCredit)
    assert announced.credit == 2

    to_consumer, to_producer = sent(pair)
    assert len(to_consumer) == 2
    assert to_producer == []
    for _ in range(3):
        assert sent(pair) == ([], [])
    reader = pair.producer.queue.readers[pair.channels[B4].receiver_id]
    assert reader.credits_available == 0
    assert reader.subpartition is not None
    assert reader.subpartition.backlog() == 3

    pair.partition.emit(B3, records_of([100]))
    pair.partition.flush_all()
    to_consumer, _ = sent(pair)
    (neighbours,) = to_consumer
    assert isinstance(neighbours, BufferResponse)
    assert neighbours.receiver_id == pair.channels[B3].receiver_id
