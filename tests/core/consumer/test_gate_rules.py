"""SingleInputGate: requests, errors, priority, what comes with each element, waiting."""

from __future__ import annotations

import re

import pytest

from flinknet import errors
from flinknet.core.buffers import DataType, NetworkBufferPool
from flinknet.core.consumer import ConsumerConnection, RemoteInputChannel, SingleInputGate
from flinknet.core.consumer.input_gate import RECOVERED
from flinknet.core.consumer.priority_events import unpooled_buffer
from flinknet.core.probe import NullProbe
from flinknet.core.wire.checkpoint_barrier import AlignmentType, CheckpointBarrier
from flinknet.core.wire.events import (
    EndOfInputChannelStateEvent,
    EventAnnouncement,
    decode_event,
)
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.messages import BufferResponse, PartitionRequest
from tests.invariants import check_invariants
from tests.pair import Consumer, partition_id, receiver_ids, sent_bytes


class Clients:
    """Connections to TaskManagers by number, opened when they are first asked for."""

    def __init__(self, refused: tuple[int, ...] = ()) -> None:
        self.opened: dict[int, ConsumerConnection] = {}
        self._refused = refused

    def connect(self, task_manager: int) -> ConsumerConnection:
        if task_manager in self._refused:
            raise errors.LocalTransportError(f"tm-{task_manager}: connection refused")
        return self.opened.setdefault(
            task_manager, ConsumerConnection(f"tm-{task_manager}", NullProbe())
        )

    def requests(self) -> list[PartitionRequest]:
        found = []
        for connection in self.opened.values():
            messages = FrameDecoder(Direction.CONSUMER_TO_PRODUCER).feed(sent_bytes(connection))
            found += [each for each in messages if isinstance(each, PartitionRequest)]
        return found


def gate_of(
    clients: Clients,
    task_managers: list[int],
    *,
    subpartition: int = 0,
    channels: int | None = None,
) -> SingleInputGate:
    """A gate whose channel i reads a partition on the i-th of these TaskManagers."""
    memory = NetworkBufferPool(100, 100)
    pool = memory.create_buffer_pool(1, 8)
    gate = SingleInputGate(channels=channels, pool=pool)
    gate.set_channels(
        [
            RemoteInputChannel(
                index,
                receiver_id,
                partition_id(index),
                subpartition,
                gate.queue_channel,
                index,
                memory,
                pool,
                2,
                connect=lambda task_manager=task_manager: clients.connect(task_manager),  # type: ignore[misc]
            )
            for index, (task_manager, receiver_id) in enumerate(
                zip(task_managers, receiver_ids(len(task_managers)), strict=True)
            )
        ]
    )
    return gate


@pytest.mark.row("S041")
@pytest.mark.row("S044")
def test_partitions_are_requested_once_and_all_at_the_consumers_index() -> None:
    clients = Clients()
    gate = gate_of(clients, [0, 1, 0, 1], subpartition=3)
    gate.request_partitions(now_ns=0)
    gate.request_partitions(now_ns=0)
    requests = clients.requests()
    assert len(requests) == 4
    assert {(r.queue_index_set.start_index, r.queue_index_set.end_index) for r in requests} == {
        (3, 3)
    }
    assert {request.receiver_id for request in requests} == set(receiver_ids(4))
    assert clients.requests() == []


@pytest.mark.row("S041")
def test_a_gate_with_a_wrong_number_of_channels_requests_nothing() -> None:
    clients = Clients()
    gate = gate_of(clients, [0, 0], channels=3)
    with pytest.raises(RuntimeError, match="should have 3 channels, and 2 are set"):
        gate.request_partitions(now_ns=0)
    assert clients.requests() == []


@pytest.mark.row("S041")
def test_a_closed_gate_requests_nothing_and_tells_who_reads_it() -> None:
    clients = Clients()
    gate = gate_of(clients, [0])
    gate.close()
    with pytest.raises(RuntimeError, match="Already released"):
        gate.request_partitions(now_ns=0)
    with pytest.raises(errors.GateClosedError):
        gate.poll()
    gate.close()


def test_a_gate_that_was_closed_at_its_end_is_at_its_end() -> None:
    gate = gate_of(Clients(), [0, 0])
    gate.end_channel(gate.channels[0])
    gate.end_channel(gate.channels[1])
    gate.close()
    assert gate.poll() is None
    assert gate.is_finished


@pytest.mark.row("S042")
def test_the_first_channel_that_cannot_has_the_error_and_those_behind_it_send_nothing() -> None:
    clients = Clients(refused=(2,))
    gate = gate_of(clients, [0, 2, 0, 0])
    gate.request_partitions(now_ns=0)
    assert [request.receiver_id for request in clients.requests()] == receiver_ids(1)
    assert [channel.error is None for channel in gate.channels] == [True, False, True, True]
    with pytest.raises(errors.PartitionConnectionError):
        gate.poll()


@pytest.mark.row("S042")
def test_partitions_are_requested_when_what_was_recovered_of_every_channel_was_read() -> None:
    clients = Clients()
    gate = gate_of(clients, [0, 1])
    in_flight = unpooled_buffer(b"in flight", DataType.DATA_BUFFER)
    gate.channels[0].received.append((in_flight, RECOVERED))
    gate.finish_read_recovered_state()
    gate.state_listener = lambda consumed: consumed.request_partitions(now_ns=0)
    with pytest.raises(RuntimeError, match="not fully consumed"):
        gate.request_partitions(now_ns=0)
    read = []
    while (polled := gate.poll()) is not None:
        channel, buffer, _ = polled
        read.append((channel.index, bytes(buffer.payload)))
        if buffer.data_type == DataType.EVENT_BUFFER:
            assert isinstance(decode_event(buffer.payload), EndOfInputChannelStateEvent)
            assert not clients.opened
            gate.end_recovered_state(channel)
    end = EndOfInputChannelStateEvent().encode()
    assert sorted(read) == [(0, end), (0, b"in flight"), (1, end)]
    assert read.index((0, b"in flight")) < read.index((0, end))
    assert gate.is_state_consumed
    assert len(clients.requests()) == 2


@pytest.mark.row("S042")
def test_a_gate_that_is_closed_before_its_state_was_read_requests_nothing() -> None:
    clients = Clients()
    gate = gate_of(clients, [0])
    gate.finish_read_recovered_state()
    gate.close()
    with pytest.raises(errors.GateClosedError):
        gate.poll()
    assert not clients.opened


@pytest.mark.row("S046")
def test_a_client_is_created_where_there_is_none_and_the_second_call_sends_nothing() -> None:
    clients = Clients()
    gate = gate_of(clients, [5, 5])
    first, second = gate.channels
    first.request_subpartition(now_ns=0)
    client = clients.opened[5]
    first.request_subpartition(now_ns=0)
    assert len(clients.requests()) == 1
    second.request_subpartition(now_ns=0)
    assert clients.opened == {5: client}
    assert len(clients.requests()) == 1


@pytest.mark.row("S046")
def test_a_connection_that_is_refused_is_an_error_that_names_the_partition() -> None:
    gate = gate_of(Clients(refused=(7,)), [7])
    with pytest.raises(errors.PartitionConnectionError, match=re.escape(str(partition_id(0)))):
        gate.channels[0].request_subpartition(now_ns=0)


def deliver(
    consumer: Consumer,
    channel: int,
    data_type: DataType = DataType.EVENT_BUFFER,
    payload: bytes = b"event",
) -> None:
    target = consumer.channels[channel]
    consumer.receive(
        BufferResponse(
            target.receiver_id,
            channel,
            target.expected_sequence_number,
            0,
            data_type,
            False,
            payload,
        )
    )


@pytest.mark.row("S049")
def test_five_notifications_are_one_place_in_the_queue_and_one_wake_up() -> None:
    consumer = Consumer(channels=2)
    woken: list[tuple[SingleInputGate, bool]] = []
    consumer.gate.listener = lambda gate, has_priority: woken.append((gate, has_priority))
    assert consumer.gate.poll() is None  # who reads waits now
    deliver(consumer, 1)
    for _ in range(4):
        consumer.gate.queue_channel(consumer.channels[1])
    assert woken == [(consumer.gate, False)]
    polled = consumer.gate.poll()
    assert polled[0] is consumer.channels[1]
    assert consumer.gate.poll() is None


@pytest.mark.row("S050")
def test_a_priority_event_goes_before_what_is_queued() -> None:
    consumer = Consumer(channels=3)
    for channel in (0, 1):
        deliver(consumer, channel)
    deliver(consumer, 1, DataType.PRIORITIZED_EVENT_BUFFER)
    assert consumer.gate.has_priority_events
    turns = consumer.consume()
    assert [channel for channel, _, _ in turns] == [1, 0, 1]
    assert turns[0][1] == DataType.PRIORITIZED_EVENT_BUFFER


@pytest.mark.row("S050")
def test_priority_events_of_a_channel_keep_their_order() -> None:
    consumer = Consumer()
    priority = DataType.PRIORITIZED_EVENT_BUFFER
    deliver(consumer, 0, payload=b"before")
    for payload in (b"first", b"second", b"third"):
        deliver(consumer, 0, priority, payload)
    deliver(consumer, 0, payload=b"behind")
    payloads = [payload for _, _, payload in consumer.consume()]
    assert payloads == [b"first", b"second", b"third", b"before", b"behind"]


def test_a_barrier_that_times_out_stays_before_that_of_the_next_checkpoint() -> None:
    consumer = Consumer()
    (channel,) = consumer.channels
    deliver(consumer, 0, payload=b"data before it")
    barriers = [
        CheckpointBarrier(each, 0, alignment=AlignmentType.ALIGNED, aligned_timeout_ms=1).encode()
        for each in (1, 2)
    ]
    deliver(consumer, 0, DataType.TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER, barriers[0])
    announced = consumer.gate.poll()
    assert isinstance(decode_event(announced[1].payload), EventAnnouncement)
    deliver(consumer, 0, DataType.PRIORITIZED_EVENT_BUFFER, barriers[1])
    channel.convert_to_priority_event(announced[2])
    check_invariants(channel)
    check_invariants(consumer.gate)
    events = [decode_event(payload) for _, _, payload in consumer.consume()[:2]]
    assert [each.checkpoint_id for each in events if isinstance(each, CheckpointBarrier)] == [1, 2]


@pytest.mark.row("S050")
def test_priority_channels_keep_their_order_and_a_second_notification_changes_nothing() -> None:
    consumer = Consumer(channels=4)
    gate = consumer.gate
    deliver(consumer, 0)
    for channel in (3, 2):
        deliver(consumer, channel, DataType.PRIORITIZED_EVENT_BUFFER)
        gate.queue_channel(consumer.channels[channel], True)
        gate.queue_channel(consumer.channels[channel])
    assert [channel for channel, _, _ in consumer.consume()] == [3, 2, 0]


@pytest.mark.row("S050")
def test_after_its_end_of_partition_a_channel_is_not_queued_even_with_priority() -> None:
    consumer = Consumer(channels=2)
    gate = consumer.gate
    deliver(consumer, 0, DataType.PRIORITIZED_EVENT_BUFFER)
    gate.end_channel(consumer.channels[0])
    assert (gate.is_available, gate.has_priority_events) == (False, False)
    gate.queue_channel(consumer.channels[0])
    gate.queue_channel(consumer.channels[0], True)
    assert (gate.is_available, gate.has_priority_events) == (False, False)


@pytest.mark.row("S052")
def test_what_is_told_with_each_element_is_the_state_of_the_queue() -> None:
    consumer = Consumer(channels=3)
    gate = consumer.gate
    deliver(consumer, 0)
    deliver(consumer, 0)
    deliver(consumer, 1, DataType.PRIORITIZED_EVENT_BUFFER)
    deliver(consumer, 2, DataType.PRIORITIZED_EVENT_BUFFER)
    deliver(consumer, 2)
    told = []
    while (polled := gate.poll()) is not None:
        told.append((polled[0].index, gate.is_available, gate.has_priority_events))
        polled[1].recycle()
    assert told == [
        (1, True, True),
        (2, True, False),
        (0, True, False),
        (2, True, False),
        (0, False, False),
    ]
    assert not gate.is_available


@pytest.mark.row("S053")
def test_an_empty_gate_answers_at_once() -> None:
    consumer = Consumer()
    assert consumer.gate.poll() is None
    deliver(consumer, 0)
    assert consumer.gate.poll() is not None
    assert consumer.gate.poll() is None
