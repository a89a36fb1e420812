"""BufferManager and RemoteInputChannel: where credit comes from, with golden traces of Flink."""

from __future__ import annotations

from collections import Counter

import pytest

from flinknet.core.buffers import (
    DataType,
    MemorySegment,
    NetworkBuffer,
    NetworkBufferPool,
    free_memory,
)
from flinknet.core.consumer import BufferManager, RemoteInputChannel
from flinknet.core.wire import messages
from tests.pair import Consumer


class Conversation(Consumer):
    """A consumer whose test speaks for the producer, with the right sequence numbers."""

    def data(self, channel: int, backlog: int, data_type: DataType = DataType.DATA_BUFFER) -> None:
        target = self.channels[channel]
        self.receive(
            messages.BufferResponse(
                target.receiver_id,
                channel,
                target.expected_sequence_number,
                backlog,
                data_type,
                False,
                b"payload",
            )
        )

    def take(self, channel: int) -> NetworkBuffer:
        """Take the next buffer of a channel without recycling it."""
        return self.channels[channel].received.popleft()[0]

    def state(self, channel: int = 0) -> str:
        """a, r and u as the golden traces write them."""
        target = self.channels[channel]
        buffers = target.buffers
        return (
            f"a{buffers.available_buffers} r{buffers.required_buffers} u{target.unannounced_credit}"
        )

    def credits(self) -> list[int]:
        return [
            message.credit for message in self.sent() if isinstance(message, messages.AddCredit)
        ]

    @property
    def pool_used(self) -> int:
        return self.pool.used_buffers


@pytest.mark.row("S056")
def test_trace_of_one_channel_with_two_exclusive_and_eight_floating_buffers() -> None:
    consumer = Conversation()
    assert consumer.state() == "a2 r0 u0"
    (request,) = consumer.sent()
    assert isinstance(request, messages.PartitionRequest)
    assert request.credit == 2
    consumer.data(0, 4)
    assert consumer.state() == "a6 r6 u5"
    assert len(consumer.channels[0].received) == 1
    assert (consumer.pool_used, consumer.pool.size_buffers) == (5, 8)
    assert consumer.credits() == [5]
    states = []
    for backlog in (3, 2, 1, 0):
        consumer.data(0, backlog)
        states.append(consumer.state())
    assert states == ["a5 r5 u0", "a4 r4 u0", "a3 r3 u0", "a2 r2 u0"]
    assert consumer.credits() == []
    used = []
    for _ in range(5):
        consumer.take(0).recycle()
        assert consumer.state() == "a2 r2 u0"
        used.append(consumer.pool_used)
    assert used == [4, 3, 2, 1, 0]


@pytest.mark.row("S007")
def test_trace_of_two_channels_that_share_three_floating_buffers() -> None:
    consumer = Conversation(channels=2, floating_buffers=3)
    consumer.sent()
    consumer.data(0, 5)
    assert consumer.state(0) == "a4 r7 u3"
    assert consumer.pool_used == 3
    consumer.data(1, 4)
    assert consumer.state(1) == "a1 r6 u0"
    assert consumer.credits() == [3]
    consumer.take(0).recycle()
    assert consumer.state(0) == "a5 r7 u1"
    consumer.take(1).recycle()
    assert consumer.state(1) == "a2 r6 u1"
    assert consumer.credits() == [1, 1]
    consumer.data(0, 0)
    assert consumer.state(0) == "a4 r2 u0"
    consumer.take(0).recycle()  # offered to channel 0, which has enough; channel 1 takes it
    assert consumer.state(0) == "a4 r2 u0"
    assert consumer.state(1) == "a3 r6 u1"
    assert consumer.pool_used == 3


def test_trace_of_a_channel_without_exclusive_buffers() -> None:
    consumer = Conversation(exclusive_buffers=0)
    (request,) = consumer.sent()
    assert isinstance(request, messages.PartitionRequest)
    assert request.credit == 0
    consumer.receive(messages.BacklogAnnouncement(3, consumer.channels[0].receiver_id))
    assert consumer.state() == "a3 r3 u3"
    assert consumer.credits() == [3]
    for backlog in (2, 1, 0):
        consumer.data(0, backlog)
    for _ in range(3):
        consumer.take(0).recycle()
    assert consumer.state() == "a0 r0 u0"
    assert consumer.pool_used == 0


@pytest.mark.row("S006")
def test_exclusive_buffers_belong_to_their_channel_and_return_to_the_global_pool() -> None:
    consumer = Conversation(channels=2, floating_buffers=1, buffers=10)
    assert consumer.memory.available_buffers == 6
    consumer.data(0, -1)
    buffer = consumer.take(0)
    assert consumer.channels[0].buffers.available_buffers == 1
    buffer.recycle()
    assert consumer.channels[0].buffers.available_buffers == 2
    assert consumer.channels[1].buffers.available_buffers == 2
    consumer.data(0, -1)
    buffer = consumer.take(0)
    consumer.channels[0].release()
    assert consumer.memory.available_buffers == 7
    buffer.recycle()
    assert consumer.memory.available_buffers == 8


class CountsCredit:
    """A channel that only adds up."""

    def __init__(self) -> None:
        self.credit = 0

    def notify_credit(self, credit: int) -> None:
        self.credit += credit


@pytest.mark.row("S008")
def test_floating_buffers_are_taken_first_and_given_back_first() -> None:
    memory = NetworkBufferPool(20, 1)
    pool = memory.create_buffer_pool(1, 8)
    channel = CountsCredit()
    manager = BufferManager(channel.notify_credit, memory, pool, 2)
    assert manager.request_for_backlog(3) == 3
    assert (manager.floating_buffers, manager.available_buffers) == (3, 5)
    taken = [manager.take() for _ in range(5)]
    assert all(taken)
    assert manager.take() is None
    for buffer in taken[:3]:
        buffer.recycle()
    assert pool.used_buffers == 0  # the first three were the floating ones
    manager.request_for_backlog(0)
    assert (manager.floating_buffers, channel.credit) == (2, 0)
    exclusive = taken[3]
    exclusive.recycle()  # above what is required: a floating buffer goes back in its stead
    assert (pool.used_buffers, manager.available_buffers, channel.credit) == (1, 2, 0)
    manager.required_buffers = 9
    taken[4].recycle()
    assert (manager.available_buffers, channel.credit) == (3, 1)


@pytest.mark.row("S057")
def test_a_channel_waits_for_the_pool_once_however_many_backlogs_come() -> None:
    consumer = Conversation(channels=2, floating_buffers=1)
    consumer.data(0, 9)
    for backlog in (4, 5, 6):
        consumer.data(1, backlog)
        consumer.take(1).recycle()
    assert len(consumer.pool._listeners) == 2


@pytest.mark.row("S011")
def test_a_channel_that_waits_gets_one_buffer_after_another() -> None:
    memory = NetworkBufferPool(20, 1)
    pool = memory.create_buffer_pool(3, 3)
    held = [pool.try_request() for _ in range(3)]
    channel = CountsCredit()
    manager = BufferManager(channel.notify_credit, memory, pool, 0)
    assert manager.request_for_backlog(3) == 0
    for count, buffer in enumerate(held, start=1):
        buffer.recycle()
        assert (manager.available_buffers, channel.credit) == (count, count)


@pytest.mark.row("S058")
def test_credit_gained_between_two_messages_is_announced_in_one() -> None:
    consumer = Conversation()
    consumer.sent()
    (channel,) = consumer.channels
    for _ in range(3):
        channel.notify_credit(1)
    assert list(consumer.connection._with_credit) == [channel]
    assert consumer.credits() == [3]
    assert consumer.credits() == []
    channel.notify_credit(2)  # counts from none again, and is announced again
    assert consumer.credits() == [2]


@pytest.mark.row("S059")
def test_each_source_of_credit_announces_alone() -> None:
    backlog = Conversation()
    backlog.sent()
    backlog.data(0, 1)
    assert backlog.credits() == [2]  # 1 + 2 required, 1 left

    recycled = Conversation()
    recycled.sent()
    recycled.data(0, -1)
    recycled.channels[0].buffers.required_buffers = 2
    assert recycled.credits() == []
    recycled.take(0).recycle()
    assert recycled.credits() == [1]

    listener = Conversation(floating_buffers=1)
    held = listener.pool.try_request()
    listener.sent()
    listener.data(0, 3)
    assert listener.credits() == []
    held.recycle()
    assert listener.credits() == [1]


@pytest.mark.row("S097")
def test_channels_with_credit_are_announced_in_order_and_released_ones_are_skipped() -> None:
    consumer = Conversation(channels=3)
    consumer.sent()
    for index in range(3):
        consumer.data(index, 1)
    consumer.channels[1].release()
    announced = [m for m in consumer.sent() if isinstance(m, messages.AddCredit)]
    assert [m.receiver_id for m in announced] == [
        consumer.channels[0].receiver_id,
        consumer.channels[2].receiver_id,
    ]


def test_a_blocking_event_takes_the_floating_buffers_of_a_channel_without_exclusive_ones() -> None:
    consumer = Conversation(exclusive_buffers=0)
    (channel,) = consumer.channels
    consumer.sent()
    consumer.receive(messages.BacklogAnnouncement(3, channel.receiver_id))
    consumer.data(0, 0, DataType.ALIGNED_CHECKPOINT_BARRIER)
    assert consumer.pool_used == 0
    assert channel.unannounced_credit == 3
    channel.resume_consumption()
    assert consumer.sent() == [messages.ResumeConsumption(channel.receiver_id)]
    consumer.receive(messages.BacklogAnnouncement(2, channel.receiver_id))
    assert consumer.credits() == [2]


def test_with_exclusive_buffers_a_blocking_event_changes_no_credit() -> None:
    consumer = Conversation()
    (channel,) = consumer.channels
    consumer.data(0, 3)
    before = consumer.state()
    consumer.data(0, 0, DataType.ALIGNED_CHECKPOINT_BARRIER)
    assert consumer.channels[0].buffers.available_buffers == 5
    assert before == "a5 r5 u4"
    channel.resume_consumption()
    assert channel.unannounced_credit == 4


def test_a_released_channel_refuses_buffers_that_the_pool_offers() -> None:
    consumer = Conversation(floating_buffers=1)
    held = consumer.pool.try_request()
    consumer.data(0, 3)
    manager = consumer.channels[0].buffers
    consumer.channels[0].release()
    manager.release()
    held.recycle()
    assert consumer.pool_used == 0
    consumer.pool.destroy()
    assert consumer.memory.available_buffers == consumer.memory.total_buffers


def test_a_channel_that_waits_survives_the_end_of_its_pool() -> None:
    consumer = Conversation(floating_buffers=1)
    held = consumer.pool.try_request()
    consumer.data(0, 3)
    consumer.pool.destroy()
    held.recycle()
    consumer.channels[0].release()
    assert consumer.memory.available_buffers == consumer.memory.total_buffers


class Recycled:
    """Counts how often each kind of buffer goes to its recycler, and lets it through."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def watch(self, name: str, buffer: NetworkBuffer) -> NetworkBuffer:
        recycler = buffer.recycler

        def count(segment: MemorySegment) -> None:
            self.calls[name] += 1
            recycler(segment)

        buffer.recycler = count
        return buffer


@pytest.mark.row("S009")
def test_every_kind_of_buffer_goes_back_where_it_came_from_once() -> None:
    consumer = Conversation()
    consumer.data(0, 3)  # an exclusive buffer was there for it
    consumer.data(0, 3)  # a floating one
    consumer.data(0, 3, DataType.EVENT_BUFFER)
    output_pool = consumer.memory.create_buffer_pool(1, 1, channels=1)
    output = output_pool.try_request(0)
    assert output is not None
    manager = consumer.channels[0].buffers
    manager.required_buffers = 99  # nothing is above the need
    recycled = Recycled()
    kinds = {
        "exclusive": consumer.take(0),
        "floating": consumer.take(0),
        "event": consumer.take(0),
        "output": output,
    }
    recyclers = {kind: buffer.recycler for kind, buffer in kinds.items()}
    assert recyclers["event"] is free_memory
    assert len(set(map(id, recyclers.values()))) == 4
    for kind, buffer in kinds.items():
        recycled.watch(kind, buffer)

    def places() -> tuple[int, int, int]:
        """Free exclusive buffers, floating ones out, output buffers out."""
        exclusive = manager.available_buffers - manager.floating_buffers
        return exclusive, consumer.pool_used, output_pool.used_buffers

    exclusive, floating, _ = places()
    kinds["exclusive"].recycle()
    assert places() == (exclusive + 1, floating, 1)
    kinds["floating"].recycle()
    assert places() == (exclusive + 1, floating - 1, 1)
    kinds["event"].recycle()
    assert places() == (exclusive + 1, floating - 1, 1)
    kinds["output"].retain().recycle()
    assert places() == (exclusive + 1, floating - 1, 1)
    kinds["output"].recycle()
    assert places() == (exclusive + 1, floating - 1, 0)
    for buffer in kinds.values():
        with pytest.raises(RuntimeError):
            buffer.recycle()
    assert recycled.calls == {"exclusive": 1, "floating": 1, "event": 1, "output": 1}


def test_a_channel_without_exclusive_buffers_goes_on_when_the_global_pool_recovers() -> None:
    consumer = Conversation(exclusive_buffers=0, floating_buffers=2, buffers=2)
    held = [consumer.memory.try_request_segment() for _ in range(2)]
    consumer.sent()
    consumer.receive(messages.BacklogAnnouncement(3, consumer.channels[0].receiver_id))
    assert consumer.state() == "a0 r3 u0"
    assert consumer.credits() == []
    for segment in held:
        assert segment is not None
        consumer.memory.recycle_segment(segment)
    assert consumer.state() == "a2 r3 u2"
    assert consumer.credits() == [2]


def test_a_channel_without_a_connection_keeps_its_credit() -> None:
    consumer = Conversation()
    channel = RemoteInputChannel(
        1,
        consumer.channels[0].receiver_id,
        consumer.channels[0].partition_id,
        0,
        consumer.gate.queue_channel,
        0,
        consumer.memory,
        consumer.pool,
        1,
    )
    channel.notify_credit(2)
    assert channel.take_unannounced_credit() == 2
    channel.release()
