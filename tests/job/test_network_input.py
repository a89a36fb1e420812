"""NetworkInput: what a task reads of its channels."""

from __future__ import annotations

from typing import Any

from flinknet.config import NetworkConfig
from flinknet.core.buffers import DataType
from flinknet.core.probe import TracePoint
from flinknet.core.wire.events import EndOfInputChannelStateEvent
from flinknet.core.wire.messages import BufferResponse
from flinknet.job.barriers import InputCheckpoints
from flinknet.job.network_input import ElementInput
from tests.pair import Consumer
from tests.simulation import Rows


def test_the_end_of_recovered_state_that_a_producer_sends_is_read_and_means_nothing() -> None:
    consumer, rows = Consumer(), Rows()
    gate, (channel,) = consumer.gate, consumer.channels
    checkpoints = InputCheckpoints("input", gate, (), NetworkConfig(), lambda _: None, lambda: None)
    receivers: Any = (None,)  # nobody receives records
    network_input = ElementInput(gate, receivers, rows, checkpoints, spills=None)
    gate.finish_read_recovered_state()
    end, kind = EndOfInputChannelStateEvent(), DataType.EVENT_BUFFER
    consumer.receive(BufferResponse(channel.receiver_id, 0, 0, 0, kind, False, end.encode()))
    reached = []
    while (polled := network_input.poll(0)) is not None:
        assert network_input.take_event(*polled, now_ns=0) == end
        consumed = [each for each in rows.rows if each.point == TracePoint.CONSUMED]
        reached.append((gate.is_state_consumed, len(consumed)))
    assert reached == [(True, 0), (True, 1)]
