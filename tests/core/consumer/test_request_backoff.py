"""What a remote channel asks of its connection, and when a refused request is repeated."""

from __future__ import annotations

import pytest

from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.consumer import RemoteInputChannel, SingleInputGate
from flinknet.core.consumer.request_backoff import RequestBackoff, RequestBackoffPolicy
from flinknet.core.wire.messages import Message, PartitionRequest
from flinknet.errors import PartitionNotFoundError
from tests import pair

MS = 1_000_000


def delays_ms(policy: RequestBackoffPolicy, limit: int = 100) -> list[int]:
    backoff = RequestBackoff(policy)
    found = []
    while (delay_ns := backoff.next_delay_ns()) is not None:
        assert len(found) < limit
        found.append(delay_ns // MS)
    assert backoff.next_delay_ns() is None
    return found


def test_where_producers_refuse_at_once_the_delay_doubles_up_to_its_maximum() -> None:
    policy = RequestBackoffPolicy(listener_timeout_ns=0)
    assert delays_ms(policy) == [100, 200, 400, 800, 1600, 3200, 6400, 10000]


@pytest.mark.parametrize(
    ("initial", "most", "delays"),
    [(0, 10_000, []), (100, 0, []), (300, 100, [100]), (100, 100, [100]), (1, 6, [1, 2, 4, 6])],
)
def test_delays_follow_the_two_keys(initial: int, most: int, delays: list[int]) -> None:
    assert delays_ms(RequestBackoffPolicy(initial * MS, most * MS, 0)) == delays


@pytest.mark.parametrize(
    ("timeout_ms", "max_ms", "repetitions"),
    [(10_000, 10_000, 1), (1_000, 10_000, 19), (20_000, 10_000, 0), (10_000, 0, 0)],
)
def test_where_they_let_requests_wait_it_is_repeated_at_once_while_patience_lasts(
    timeout_ms: int, max_ms: int, repetitions: int
) -> None:
    policy = RequestBackoffPolicy(100 * MS, max_ms * MS, timeout_ms * MS)
    assert delays_ms(policy) == [0] * repetitions


class Asking:
    """A consumer whose producer has none of the partitions that it asks for."""

    def __init__(self, policy: RequestBackoffPolicy, timeout_ns: int, *, channels: int = 2) -> None:
        self.input = pair.Consumer(channels=channels)
        self.connection = self.input.connection
        self.connection.backoff_policy = policy
        self.producer, self.manager = pair.producer_of(partition_request_timeout_ns=timeout_ns)
        self.now_ns = 0

    def exchange(self) -> list[object]:
        """What the consumer says, told to the producer, and its answers taken."""
        said = self.input.sent()
        for message in said:
            self.producer.receive_data(memoryview(message.encode()), now_ns=self.now_ns)
        if self.producer.next_deadline_ns() is not None:
            self.producer.handle_deadline(now_ns=self.now_ns)
        answers = pair.sent_bytes(self.producer)
        if answers:
            self.connection.receive_data(memoryview(answers), now_ns=self.now_ns)
        return [type(message) for message in said]


@pytest.mark.row("S037")
def test_a_missing_partition_is_asked_for_again_and_again_then_its_channels_fail() -> None:
    asking = Asking(RequestBackoffPolicy(100 * MS, 400 * MS, 0), timeout_ns=0)
    requests = asking.exchange()
    for delay_ms in (100, 200, 400):
        assert asking.connection.next_deadline_ns() == asking.now_ns + delay_ms * MS
        asking.connection.handle_deadline(now_ns=asking.now_ns + delay_ms * MS - 1)
        assert asking.exchange() == []
        asking.now_ns += delay_ms * MS
        assert all(channel.error is None for channel in asking.input.channels)
        asking.connection.handle_deadline(now_ns=asking.now_ns)
        requests += asking.exchange()
    assert requests == [PartitionRequest] * 8
    assert asking.connection.next_deadline_ns() is None
    for channel in asking.input.channels:
        assert isinstance(channel.error, PartitionNotFoundError)
    assert asking.connection.error is None


@pytest.mark.row("S037")
def test_exactly_the_channel_that_asked_for_it_fails_and_the_others_go_on() -> None:
    asking = Asking(RequestBackoffPolicy(0, 0, 0), timeout_ns=pair.REQUEST_TIMEOUT_NS, channels=1)
    consumer, (missing,) = asking.input, asking.input.channels
    there, _ = pair.partition_of(identity=pair.partition_id(1))
    asking.manager.register(there)
    reading = RemoteInputChannel(
        *(1, pair.OTHER_RECEIVER, pair.partition_id(1), 0),
        *(consumer.gate.queue_channel, 1, consumer.memory, consumer.pool, 2),
    )
    consumer.gate.set_channels([missing, reading])
    asking.connection.request_subpartition(reading, now_ns=0)
    there.emit(0, pair.records_of([100]))
    there.flush_all()
    asking.exchange()
    asking.now_ns = pair.REQUEST_TIMEOUT_NS
    asking.exchange()
    assert isinstance(missing.error, PartitionNotFoundError)
    assert asking.connection.error is None
    there.emit(0, pair.records_of([50], 1))
    there.flush_all()
    asking.exchange()
    assert [buffer.size_bytes for buffer, _ in reading.received] == [100, 50]
    assert reading.error is None


def test_a_partition_that_comes_in_between_is_read_by_the_next_request() -> None:
    asking = Asking(RequestBackoffPolicy(listener_timeout_ns=0), timeout_ns=0)
    asking.exchange()
    partition, _ = pair.partition_of(2)
    asking.manager.register(partition)
    partition.finish()
    asking.now_ns = 100 * MS
    asking.connection.handle_deadline(now_ns=asking.now_ns)
    asking.exchange()
    taken = asking.input.consume()
    assert [channel for channel, _, _ in taken] == [0, 1]


def test_a_closed_channel_asks_no_more() -> None:
    asking = Asking(RequestBackoffPolicy(listener_timeout_ns=0), timeout_ns=0)
    asking.exchange()
    for channel in asking.input.channels:
        channel.release()
    asking.exchange()
    assert asking.connection.next_deadline_ns() is None
    asking.now_ns = 100 * MS
    asking.connection.handle_deadline(now_ns=asking.now_ns)
    assert asking.exchange() == []


class RecordingClient:
    """Stands for the connection: notes what it is asked, and for which channel."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.channels: set[int] = set()

    def request_subpartition(self, channel: RemoteInputChannel, *, now_ns: int) -> None:
        self.calls.append("add and request")
        self.channels.add(channel.index)
        channel.connection = self

    def notify_credit_available(self, channel: RemoteInputChannel) -> None:
        self.calls.append(f"credit {channel.take_unannounced_credit()}")

    def send(self, channel: RemoteInputChannel, message: Message, **_: int | None) -> None:
        self.calls.append(type(message).__name__)

    def close_channel(self, channel: RemoteInputChannel) -> None:
        self.calls.append("cancel and remove")
        self.channels.discard(channel.index)


@pytest.mark.row("S096")
def test_a_channel_is_added_first_and_removed_last() -> None:
    memory = NetworkBufferPool(20, 100)
    client = RecordingClient()
    channel = RemoteInputChannel(
        0,
        pair.RECEIVER,
        pair.partition_id(),
        0,
        SingleInputGate(),
        0,
        memory,
        memory.create_buffer_pool(1, 8),
        2,
        connect=lambda: client,
    )
    assert client.calls == []
    channel.request_subpartition(now_ns=0)
    channel.request_subpartition(now_ns=0)  # asked for already
    assert client.channels == {0}
    channel.receive_backlog(3)
    channel.resume_consumption()
    channel.acknowledge_all_records_processed()
    channel.release()
    channel.release()
    assert client.calls == [
        "add and request",
        "credit 3",
        "ResumeConsumption",
        "AckAllUserRecordsProcessed",
        "cancel and remove",
    ]
    assert client.channels == set()
