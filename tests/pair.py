"""Pair: a producer and a consumer joined by bytes and a hand-held clock, and the parts to make one.

Nothing happens unless a test says so: `step` moves what both sides have to say, `drive` steps until
nothing moves. The finer verbs (`send`, `deliver`) let a test hold bytes back and cut them anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate

import numpy as np

from flinknet.config import NetworkConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.connection import Connection
from flinknet.core.consumer import ConsumerConnection, RemoteInputChannel, SingleInputGate
from flinknet.core.probe import NullProbe, Probe
from flinknet.core.producer import (
    PipelinedResultPartition,
    ProducerConnection,
    ResultPartitionManager,
    SerializedRecords,
)
from flinknet.core.wire import ids
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.messages import Message

RECEIVER = ids.InputChannelID(bytes(range(1, 17)))
OTHER_RECEIVER = ids.InputChannelID(b"\xff" * 8 + b"\x7f" + b"\xff" * 7)
REQUEST_TIMEOUT_NS = 10_000_000_000


@cache
def partition_id(producer: int = 0) -> ids.ResultPartitionID:
    """The id of a producer's partition."""
    return ids.ResultPartitionID(
        ids.IntermediateResultPartitionID(ids.IntermediateDataSetID(b"d" * 16), producer),
        ids.ExecutionAttemptID(
            ids.ExecutionGraphID(b"g" * 16),
            ids.ExecutionVertexID(ids.JobVertexID(b"v" * 16), producer),
            0,
        ),
    )


def receiver_ids(count: int) -> list[ids.InputChannelID]:
    """As many receiver ids, each its own."""
    return [ids.InputChannelID(bytes([index + 1]) * 16) for index in range(count)]


def record_bytes(lengths: Iterable[int], first: int = 0) -> bytes:
    """Stand-ins for serialised records: that many bytes, all equal within one record."""
    return b"".join(bytes([(first + i) % 251]) * length for i, length in enumerate(lengths))


def records_of(lengths: Sequence[int], first: int = 0, *, data: bytes = b"") -> SerializedRecords:
    """A batch of records of these lengths; record i is due at instant `first` + i."""
    instants = np.arange(first, first + len(lengths), dtype=np.int64)
    view = memoryview(data or record_bytes(lengths, first))
    if len(set(lengths)) == 1:
        return SerializedRecords(view, instants, record_bytes=lengths[0])
    return SerializedRecords(view, instants, ends=list(accumulate(lengths)))


def partition_of(
    subpartitions: int = 1,
    *,
    segment_size_bytes: int = 100,
    buffers: int = 200,
    pool_buffers: int | None = None,
    exclusive_buffers: int = 2,
    max_buffers_per_channel: int = 1000,
    max_overdraft_buffers: int = 0,
    identity: ids.ResultPartitionID | None = None,
) -> tuple[PipelinedResultPartition, NetworkBufferPool]:
    """A partition with a pool of its own, and the global pool behind it."""
    network = NetworkBufferPool(buffers, segment_size_bytes)
    size = buffers if pool_buffers is None else pool_buffers
    pool = network.create_buffer_pool(
        min(subpartitions + 1, size),
        size,
        channels=subpartitions,
        max_buffers_per_channel=max_buffers_per_channel,
        max_overdraft_buffers=max_overdraft_buffers,
    )
    partition = PipelinedResultPartition(
        *(identity or partition_id(), subpartitions, lambda: pool),
        exclusive_buffers=exclusive_buffers,
    )
    partition.setup()
    return partition, network


def producer_of(
    *partitions: PipelinedResultPartition,
    probe: Probe | None = None,
    partition_request_timeout_ns: int = REQUEST_TIMEOUT_NS,
) -> tuple[ProducerConnection, ResultPartitionManager]:
    """A producer's connection that serves these partitions."""
    manager = ResultPartitionManager()
    for partition in partitions:
        manager.register(partition)
    connection = ProducerConnection(
        manager,
        probe or NullProbe(),
        {RECEIVER: 0},
        partition_request_timeout_ns=partition_request_timeout_ns,
    )
    return connection, manager


def sent_bytes(connection: Connection, now_ns: int = 0) -> bytes:
    """What the connection has to send now, all of it."""
    out = bytearray()
    while pieces := connection.data_to_send(now_ns=now_ns):
        for piece in pieces:
            out += piece
    return bytes(out)


class Consumer:
    """The consuming half alone: a gate whose channel i reads subpartition i, and a connection."""

    def __init__(
        self,
        *,
        channels: int = 1,
        exclusive_buffers: int = 2,
        floating_buffers: int = 8,
        segment_size_bytes: int = 100,
        buffers: int = 200,
        probe: Probe | None = None,
    ) -> None:
        self.memory = NetworkBufferPool(buffers, segment_size_bytes)
        self.pool = self.memory.create_buffer_pool(1, floating_buffers)
        self.gate = SingleInputGate()
        self.channels = [
            RemoteInputChannel(
                index,
                receiver_id,
                partition_id(),
                index,
                self.gate.queue_channel,
                index,
                self.memory,
                self.pool,
                exclusive_buffers,
            )
            for index, receiver_id in enumerate(receiver_ids(channels))
        ]
        self.gate.set_channels(self.channels)
        self.connection = ConsumerConnection("the producer", probe or NullProbe())
        for channel in self.channels:
            self.connection.request_subpartition(channel, now_ns=0)

    def receive(self, *messages: Message) -> None:
        """Take messages of the producer."""
        data = b"".join(message.encode() for message in messages)
        self.connection.receive_data(memoryview(data), now_ns=0)

    def sent(self) -> list[Message]:
        """What the consumer has to say now."""
        return FrameDecoder(Direction.CONSUMER_TO_PRODUCER).feed(sent_bytes(self.connection))

    def consume(self) -> list[tuple[int, int, bytes]]:
        """Take everything that the gate has, and recycle it: (channel, data type, bytes)."""
        taken = []
        while (polled := self.gate.poll()) is not None:
            channel, buffer, _ = polled
            taken.append((channel.index, int(buffer.data_type), bytes(buffer.payload)))
            buffer.recycle()
        return taken

    def close(self) -> None:
        """Release all channels and the pool of the gate."""
        for channel in self.channels:
            channel.release()
        self.pool.destroy()


class Pair:
    """One TaskManager that produces, one that consumes, one TCP connection between them.

    Args:
        network: sizes of segments and pools; channel i of the gate reads subpartition i.
        channels: subpartitions of the one partition, and channels of the one gate.
    """

    def __init__(
        self,
        network: NetworkConfig,
        *,
        channels: int = 1,
        buffers: int = 200,
        probe: Probe | None = None,
    ) -> None:
        self.now_ns = 0
        self.exclusive_buffers = network.exclusive_buffers
        self.producer_memory = NetworkBufferPool(buffers, network.segment_size_bytes)
        output_pool = self.producer_memory.create_buffer_pool(
            channels + 1,
            channels * network.exclusive_buffers + network.floating_buffers,
            channels=channels,
            max_buffers_per_channel=network.max_buffers_per_channel,
            max_overdraft_buffers=network.max_overdraft_buffers,
        )
        self.partition = PipelinedResultPartition(
            *(partition_id(), channels, lambda: output_pool),
            exclusive_buffers=network.exclusive_buffers,
        )
        self.partition.setup()
        self.producer, self.manager = producer_of(self.partition, probe=probe)
        self.input = Consumer(
            channels=channels,
            exclusive_buffers=network.exclusive_buffers,
            floating_buffers=network.floating_buffers,
            segment_size_bytes=network.segment_size_bytes,
            buffers=buffers,
            probe=probe,
        )
        self.consumer, self.gate = self.input.connection, self.input.gate
        self.channels = self.input.channels
        self.to_consumer = bytearray()
        self.to_producer = bytearray()

    def send(self) -> bool:
        """Let each side whose last bytes were all delivered hand over new ones.

        Returns: whether any came.
        """
        moved = False
        for connection, wire in (
            (self.producer, self.to_consumer),
            (self.consumer, self.to_producer),
        ):
            if not wire:
                for piece in connection.data_to_send(now_ns=self.now_ns):
                    wire += piece
                moved = moved or bool(wire)
        return moved

    def deliver(self, *, to_consumer: int | None = None, to_producer: int | None = None) -> bool:
        """Deliver so many of the bytes on their way, all by default.

        Returns: whether there were any.
        """
        moved = False
        for connection, wire, limit in (
            (self.consumer, self.to_consumer, to_consumer),
            (self.producer, self.to_producer, to_producer),
        ):
            count = len(wire) if limit is None else min(limit, len(wire))
            if count:
                data = bytes(wire[:count])
                del wire[:count]
                connection.receive_data(memoryview(data), now_ns=self.now_ns)
                moved = True
        return moved

    def step(self) -> bool:
        """One exchange in both directions. Returns: whether anything moved."""
        has_sent = self.send()
        return self.deliver() or has_sent

    def drive(self, limit: int = 1000) -> None:
        """Step until nothing moves; a pair that never comes to rest fails."""
        for _ in range(limit):
            if not self.step():
                return
        raise AssertionError(f"the pair still moves after {limit} steps")
