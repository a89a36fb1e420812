"""Both halves together: credit is conserved at every step, and every record arrives once."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flinknet.config import NetworkConfig
from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.consumer import RecordReader
from flinknet.core.producer import RebalanceSelector, RecordWriter
from flinknet.core.wire import events
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.messages import AddCredit, BufferResponse, Message
from flinknet.core.wire.records import Record, encode_record
from tests.pair import Pair, records_of
from tests.strategies import network_configs

CHANNELS = 2


def encoded(channel: int, number: int, value_bytes: int) -> bytes:
    """A record that says which of its channel it is."""
    value = number.to_bytes(4, "big") + bytes([channel]) * value_bytes
    return encode_record(Record(value))


def messages_on(wire: bytes | bytearray, rest: bytearray, direction: Direction) -> list[Message]:
    """Whole messages among the bytes still to be delivered, with those of a frame begun already."""
    return FrameDecoder(direction).feed(bytes(rest) + bytes(wire))


class Observed(Pair):
    """A pair that can say what is on its way: it keeps what came of a frame that is cut."""

    def __init__(self, network: NetworkConfig, channels: int) -> None:
        super().__init__(network, channels=channels)
        self.begun_to_consumer = bytearray()
        self.begun_to_producer = bytearray()

    def deliver(self, *, to_consumer: int | None = None, to_producer: int | None = None) -> bool:
        for wire, begun, limit in (
            (self.to_consumer, self.begun_to_consumer, to_consumer),
            (self.to_producer, self.begun_to_producer, to_producer),
        ):
            begun += wire[: len(wire) if limit is None else limit]
            while len(begun) >= 4 and len(begun) >= (size := int.from_bytes(begun[:4], "big")):
                del begun[:size]
        return super().deliver(to_consumer=to_consumer, to_producer=to_producer)

    def data_in_flight(self, receiver_id: bytes) -> int:
        """Data buffers whose header the receiver has not seen: no buffer is taken for them yet."""
        messages = messages_on(
            self.to_consumer, self.begun_to_consumer, Direction.PRODUCER_TO_CONSUMER
        )
        has_begun = len(self.begun_to_consumer) >= 47
        return sum(
            isinstance(message, BufferResponse)
            and message.receiver_id == receiver_id
            and message.data_type.is_buffer
            for message in messages[has_begun:]
        )

    def credit_in_flight(self, receiver_id: bytes) -> int:
        messages = messages_on(
            self.to_producer, self.begun_to_producer, Direction.CONSUMER_TO_PRODUCER
        )
        return sum(
            message.credit
            for message in messages
            if isinstance(message, AddCredit) and message.receiver_id == receiver_id
        )

    def check_credit(self) -> None:
        """Credit with the sender, on its way and unannounced, and data on its way: what is free."""
        for channel in self.channels:
            reader = self.producer.queue.readers.get(channel.receiver_id)
            if reader is None:
                continue
            assert reader.credits_available >= 0
            assert channel.unannounced_credit >= 0
            assert channel.error is None
            if channel.is_released:
                continue
            assert (
                reader.credits_available
                + self.credit_in_flight(channel.receiver_id)
                + channel.unannounced_credit
                + self.data_in_flight(channel.receiver_id)
                == channel.buffers.available_buffers
            )


class PairMachine(RuleBasedStateMachine):
    """Writing, flushing, moving bytes in any pieces, reading: in any order, with any settings."""

    pair: Observed

    @initialize(network=network_configs())
    def connect(self, network: NetworkConfig) -> None:
        self.pair = Observed(network, CHANNELS)
        self.writer = RecordWriter(
            self.pair.partition,
            RebalanceSelector(CHANNELS, 0),
            buffer_timeout_ns=network.buffer_timeout_ns,
        )
        self.readers = [RecordReader() for _ in range(CHANNELS)]
        self.sent: list[list[bytes]] = [[] for _ in range(CHANNELS)]
        self.received: list[list[bytes]] = [[] for _ in range(CHANNELS)]
        self.events = 0
        self.events_received = [0] * CHANNELS
        self.pair.drive()

    @precondition(lambda self: not self.writer.is_waiting)
    @rule(
        channel=st.integers(0, CHANNELS - 1),
        sizes=st.lists(st.integers(0, 120), min_size=1, max_size=8),
    )
    def write(self, channel: int, sizes: list[int]) -> None:
        first = len(self.sent[channel])
        records = [encoded(channel, first + i, size) for i, size in enumerate(sizes)]
        self.sent[channel] += records
        batch = records_of([len(each) for each in records], data=b"".join(records))
        self.writer.emit(channel, batch)

    @rule()
    def resume(self) -> None:
        self.writer.resume()

    @rule()
    def flush(self) -> None:
        self.pair.partition.flush_all()

    @precondition(lambda self: not self.writer.is_waiting)
    @rule()
    def send_event(self) -> None:
        self.pair.partition.broadcast_event(events.CancelCheckpointMarker(self.events))
        self.events += 1

    @rule()
    def hand_over(self) -> None:
        self.pair.send()

    @rule(to_consumer=st.integers(0, 300), to_producer=st.integers(0, 60))
    def move(self, to_consumer: int, to_producer: int) -> None:
        self.pair.deliver(to_consumer=to_consumer, to_producer=to_producer)

    @rule(count=st.integers(1, 4))
    def read(self, count: int) -> None:
        for _ in range(count):
            polled = self.pair.gate.poll()
            if polled is None:
                return
            channel, buffer, _ = polled
            if buffer.data_type in IS_BUFFER:
                reader = self.readers[channel.index]
                for memory, offset, records, size in reader.read(buffer.payload):
                    for index in range(records):
                        start = offset + index * size
                        self.received[channel.index].append(bytes(memory[start : start + size]))
            else:
                self.events_received[channel.index] += 1
            buffer.recycle()

    @invariant()
    def credit_is_conserved(self) -> None:
        self.pair.check_credit()

    @invariant()
    def what_arrived_was_sent_in_this_order(self) -> None:
        for sent, received in zip(self.sent, self.received, strict=True):
            assert received == sent[: len(received)]

    def teardown(self) -> None:
        if not hasattr(self, "pair"):
            return
        pair = self.pair
        for _ in range(10_000):
            moved = pair.step()
            self.read(100)
            if self.writer.is_waiting:
                self.writer.resume()
            elif not moved and not pair.gate.is_available:
                break
            pair.check_credit()
        pair.partition.broadcast_event(events.EndOfData())
        pair.partition.finish()
        for _ in range(10_000):
            moved = pair.step()
            self.read(100)
            if not moved and not pair.gate.is_available:
                break
        assert self.received == self.sent
        assert self.events_received == [self.events + 2] * CHANNELS
        for channel in pair.channels:
            channel.release()
        pair.drive()
        pair.input.pool.destroy()
        assert pair.partition.is_released
        for memory in (pair.producer_memory, pair.input.memory):
            assert memory.available_buffers == memory.total_buffers


TestPairs = PairMachine.TestCase
TestPairs.settings = settings(max_examples=80, stateful_step_count=50)


def read_all(pair: Pair, limit: int = 1000) -> list[tuple[int, int, bytes]]:
    """Move and read until nothing moves and nothing is there."""
    taken: list[tuple[int, int, bytes]] = []
    for _ in range(limit):
        moved = pair.step()
        found = pair.input.consume()
        taken += found
        if not moved and not found:
            return taken
    raise AssertionError(f"the pair still moves after {limit} steps")


@pytest.mark.row("S115")
@pytest.mark.row("S004")
def test_a_paused_consumer_stops_the_producer_and_what_fits_is_bounded() -> None:
    network = NetworkConfig(
        segment_size_bytes=100, exclusive_buffers=2, floating_buffers=8, max_overdraft_buffers=0
    )
    pair = Pair(network)
    writer = RecordWriter(pair.partition, RebalanceSelector(1, 0), buffer_timeout_ns=0)
    writer.emit(0, records_of([100] * 50))
    while True:
        pair.drive()
        written = pair.partition.pool.requested_buffers
        if not writer.resume() and pair.partition.pool.requested_buffers == written:
            break
    pair.drive()
    # ten buffers wait at the consumer, ten at the producer, and there is no credit left
    assert len(pair.channels[0].received) == 10
    assert pair.producer.queue.readers[pair.channels[0].receiver_id].credits_available == 0
    assert pair.partition.subpartitions[0].queued_elements == 10
    assert writer.is_waiting
    data = bytearray()
    while writer.is_waiting or pair.gate.is_available:
        data += b"".join(each for _, _, each in pair.input.consume())
        writer.resume()
        pair.drive()
    assert bytes(data) == bytes(records_of([100] * 50).data)


@pytest.mark.row("S108")
def test_a_channel_nobody_reads_holds_up_no_neighbour() -> None:
    network = NetworkConfig(segment_size_bytes=100, max_buffers_per_channel=1000)
    pair = Pair(network, channels=4)
    paused = pair.channels[2]
    for channel in range(4):
        pair.partition.emit(channel, records_of([100] * 3))
    pair.drive()
    held = []
    counts = [0] * 4
    for _ in range(30):
        while (polled := pair.gate.poll()) is not None:
            read, buffer, _ = polled
            counts[read.index] += 1
            if read is paused:
                held.append(buffer)
            else:
                buffer.recycle()
        for index in (0, 1, 3):
            pair.partition.emit(index, records_of([100]))
        pair.partition.flush_all()
        pair.drive()
    assert counts[2] == 3
    assert [counts[index] >= 30 for index in (0, 1, 3)] == [True] * 3


@pytest.mark.row("S059")
def test_the_backlog_on_the_wire_brings_the_credit_for_it() -> None:
    pair = Pair(NetworkConfig(segment_size_bytes=100, exclusive_buffers=2, floating_buffers=8))
    pair.partition.emit(0, records_of([100] * 9))
    pair.partition.flush_all()
    pair.drive()
    assert len(pair.channels[0].received) == 9


@pytest.mark.parametrize("exclusive_buffers", [0, 2])
def test_a_blocked_channel_goes_on_when_it_is_resumed(exclusive_buffers: int) -> None:
    pair = Pair(
        NetworkConfig(
            segment_size_bytes=100, exclusive_buffers=exclusive_buffers, floating_buffers=3
        )
    )
    pair.partition.broadcast_event(events.EndOfOutputChannelStateEvent())
    pair.partition.emit(0, records_of([100, 100]))
    pair.partition.flush_all()
    assert [len(data) for _, _, data in read_all(pair)] == [4]
    pair.channels[0].resume_consumption()
    assert [len(data) for _, _, data in read_all(pair)] == [100, 100]


@pytest.mark.row("S092")
def test_a_consumer_that_gives_up_leaves_the_others_alone() -> None:
    pair = Pair(NetworkConfig(segment_size_bytes=100), channels=2)
    for channel in range(2):
        pair.partition.emit(channel, records_of([100] * 4))
    pair.drive()
    pair.channels[0].release()
    pair.drive()
    pair.partition.finish()
    kinds = [(channel, len(data)) for channel, _, data in read_all(pair)]
    assert kinds == [(1, 100)] * 4 + [(1, 4)]
    assert pair.partition.subpartitions[0].is_released


@pytest.mark.row("S100")
def test_both_sides_give_everything_back_when_the_connection_breaks() -> None:
    pair = Pair(NetworkConfig(segment_size_bytes=100), channels=2)
    for channel in range(2):
        pair.partition.emit(channel, records_of([100] * 4))
    pair.drive(limit=1000)
    pair.send()
    pair.producer.receive_eof(now_ns=0)
    pair.consumer.receive_eof(now_ns=0)
    assert all(channel.error is not None for channel in pair.channels)
    pair.input.close()
    pair.partition.close()
    for memory in (pair.producer_memory, pair.input.memory):
        assert memory.available_buffers == memory.total_buffers


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
    assert reader.subpartition.backlog() == 3

    pair.partition.emit(B3, records_of([100]))
    pair.partition.flush_all()
    to_consumer, _ = sent(pair)
    (neighbours,) = to_consumer
    assert isinstance(neighbours, BufferResponse)
    assert neighbours.receiver_id == pair.channels[B3].receiver_id
