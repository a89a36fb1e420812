"""The producer that consumers of `by_consumers` misbehave to, and what it does about it."""

from __future__ import annotations

from functools import cache
from typing import Any

from flinknet.core.probe import NullProbe
from flinknet.core.producer import PipelinedResultPartition, ProducerConnection, SerializedRecords
from flinknet.core.wire.events import OtherEvent
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.ids import InputChannelID, ResultSubpartitionIndexSet
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.messages import (
    BufferResponse,
    CancelPartitionRequest,
    ErrorResponse,
    Message,
    PartitionRequest,
)
from flinknet.errors import RemoteProtocolError
from tests.pair import (
    OTHER_RECEIVER,
    RECEIVER,
    REQUEST_TIMEOUT_NS,
    partition_id,
    partition_of,
    producer_of,
    records_of,
    sent_bytes,
)
from tests.peers import by_consumers as table

BUFFERS = 12
"""Of each partition: making the memory is what takes the time of a fuzzer."""


class Producer:
    """A producer with three connections: that of the peer, with a channel of its own beside the one
    that misbehaves, and one of somebody else.
    """

    def __init__(self, when: str) -> None:
        few = BUFFERS
        self.partition, self.memory = partition_of(3, buffers=few, identity=table.THERE)
        self.beside, self.beside_memory = partition_of(1, buffers=few, identity=partition_id(1))
        failing, self.failing_memory = partition_of(1, buffers=few, identity=partition_id(2))
        self.peer, self.manager = producer_of(self.partition, self.beside, failing)
        self.told: list[OtherEvent] = []
        for each in (self.partition, self.beside):
            each.task_events.subscribe(table.FOR_TASK.class_name, self.told.append)
            each.task_events.register()
        self.others = ProducerConnection(
            self.manager, NullProbe(), {OTHER_RECEIVER: 1}, partition_request_timeout_ns=1
        )
        tell(self.others, PartitionRequest(table.THERE, only(2), OTHER_RECEIVER, 9))
        if when != table.STRANGE:
            tell(self.peer, PartitionRequest(partition_id(1), only(0), OTHER_RECEIVER, 9))
        if when in (table.READS, table.CANCELED):
            tell(self.peer, table.request())
        elif when == table.WAITS:
            tell(self.peer, table.request(of=table.GONE))
        elif when == table.WAITED_FOR:
            tell(self.others, table.request(of=table.GONE))
        elif when == table.FAILED:
            tell(self.peer, table.request(of=partition_id(2)))
            failing.fail("why")
        if when == table.CANCELED:
            tell(self.peer, CancelPartitionRequest(RECEIVER))
        heard(self.peer)
        self.failing = failing

    def gets(self, connection: ProducerConnection, receiver: InputChannelID) -> bool:
        """Write something into every channel. Returns: whether this one gets its part."""
        for partition in (self.partition, self.beside):
            if not partition.is_released:
                write(partition)
        data = [each for each in heard(connection) if isinstance(each, BufferResponse)]
        return receiver in {each.receiver_id for each in data}

    def figures(self) -> tuple[Any, ...]:
        """What shows that a message of the peer came to something."""
        peer, others = self.peer, self.others
        channels = peer.snapshot(now_ns=0), others.snapshot(now_ns=0)
        requests = peer.waiting_requests, others.waiting_requests, peer.trust.strange_requests
        return *channels, requests, peer.lost_channels, len(self.told)

    def close(self) -> None:
        """Everything ends; nothing may be missing."""
        for connection in (self.peer, self.others):
            connection.receive_eof(now_ns=0)
        for partition in (self.partition, self.beside, self.failing):
            self.manager.release(partition)
        for memory in (self.memory, self.beside_memory, self.failing_memory):
            assert memory.available_buffers == memory.total_buffers


def only(index: int) -> ResultSubpartitionIndexSet:
    return ResultSubpartitionIndexSet(index, index)


def tell(connection: ProducerConnection, message: Message) -> None:
    connection.receive_data(memoryview(message.encode()), now_ns=0)


def heard(connection: ProducerConnection) -> list[Message]:
    return FrameDecoder(Direction.PRODUCER_TO_CONSUMER).feed(sent_bytes(connection))


@cache
def _record() -> SerializedRecords:
    """As long as a segment."""
    return records_of([100])


def write(partition: PipelinedResultPartition) -> None:
    for index in range(len(partition.subpartitions)):
        partition.emit(index, _record())
    partition.flush_all()


def outcome(producer: Producer, case: table.Case) -> str:
    """What the producer does."""
    peer = producer.peer
    try:
        peer.receive_data(memoryview(case.data), now_ns=0)
    except RemoteProtocolError:
        assert peer.is_closing
    errors = [each for each in heard(peer) if isinstance(each, ErrorResponse)]
    is_late = not errors and peer.next_deadline_ns() is not None and case.when != table.WAITS
    if is_late:
        assert peer.next_deadline_ns() == REQUEST_TIMEOUT_NS
        peer.handle_deadline(now_ns=REQUEST_TIMEOUT_NS)
        errors = [each for each in heard(peer) if isinstance(each, ErrorResponse)]
    if producer.told:
        assert (errors, producer.told) == ([], [table.FOR_TASK])
        return table.TOLD
    if not errors:
        return table.CLOSED if peer.is_closing else table.IGNORED
    (error,) = errors
    assert error.cause.message
    if error.receiver_id is None:
        return table.BROKEN if peer.is_closing else table.FATAL
    assert error.receiver_id == RECEIVER
    return table.LATE if is_late else table.REFUSED
