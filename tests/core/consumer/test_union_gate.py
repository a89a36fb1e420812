"""UnionInputGate: several gates read as one."""

from __future__ import annotations

import pytest

from flinknet.core.buffers import DataType
from flinknet.core.consumer import SingleInputGate, UnionInputGate
from flinknet.core.wire.messages import BufferResponse
from tests.pair import Consumer


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
