"""Node: the network of one TaskManager without its process, and several of them taking turns over
loopback sockets.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from flinknet.config import NetworkConfig
from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.consumer import ConsumerConnection, RemoteInputChannel, SingleInputGate
from flinknet.core.probe import NullProbe
from flinknet.core.producer import (
    ProducerConnection,
    ResultPartitionManager,
)
from flinknet.core.wire.ids import InputChannelID
from flinknet.runtime.connection_manager import ConnectionID, ConnectionManager, DataProtocol
from flinknet.runtime.event_loop import EventLoop
from tests.pair import REQUEST_TIMEOUT_NS, partition_id, partition_of, records_of

HOST = "127.0.0.1"
TURN_NS = 2_000_000
SEGMENT_BYTES = 4096


class Node:
    """A TaskManager `index` that serves a partition of the same number and reads those of others.

    Its channels are numbered as they are opened.
    """

    def __init__(
        self,
        index: int,
        network: NetworkConfig = NetworkConfig(),  # noqa: B008
        *,
        subpartitions: int = 4,
        flow_control: str = "credit",
        segment_bytes: int = SEGMENT_BYTES,
        partition_request_timeout_ns: int = REQUEST_TIMEOUT_NS,
    ) -> None:
        self.index = index
        network = replace(
            network,
            segment_size_bytes=segment_bytes,
            partition_request_timeout_ns=partition_request_timeout_ns,
        )
        self.loop = EventLoop(may_spin=False, transport=network.transport)
        self.partitions = ResultPartitionManager()
        self.partition, _ = partition_of(
            subpartitions,
            segment_size_bytes=segment_bytes,
            identity=partition_id(index),
            buffers=400,
        )
        self.partitions.register(self.partition)
        self.memory = NetworkBufferPool(400, segment_bytes)
        self.gate = SingleInputGate()
        self.channels: list[RemoteInputChannel] = []
        self.channel_of: dict[bytes, int] = {}
        protocol = DataProtocol(
            network, flow_control, self.partitions, NullProbe(), self.channel_of
        )
        self.manager = ConnectionManager(network, self.loop, protocol)
        self.port = self.manager.start()

    def address_of(self, other: Node, data_set: int = 0) -> ConnectionID:
        """What a channel to another node's partition asks for."""
        return ConnectionID(other.index, (HOST, other.port), data_set)

    def read_from(
        self, other: Node, subpartition: int, *, data_set: int = 0, initial_credit: int = 2
    ) -> RemoteInputChannel:
        """Open a channel to a subpartition of another node's partition."""
        client = self.manager.create_client(self.address_of(other, data_set))
        channel = self.channel_to(other, subpartition, initial_credit)
        client.request_subpartition(channel, now_ns=time.monotonic_ns())
        return channel

    def channel_to(
        self, other: Node, subpartition: int, initial_credit: int = 2
    ) -> RemoteInputChannel:
        """A channel that has not requested anything yet; the other side knows its number."""
        index = len(self.channels)
        receiver_id = InputChannelID(bytes([self.index + 1, index + 1]) * 8)
        other.channel_of[receiver_id] = index
        channel = RemoteInputChannel(
            index,
            receiver_id,
            partition_id(other.index),
            subpartition,
            self.gate.queue_channel,
            index,
            self.memory,
            self.memory.create_buffer_pool(1, 8),
            initial_credit,
        )
        self.channels.append(channel)
        self.gate.set_channels(self.channels)
        return channel

    @property
    def clients(self) -> list[ConsumerConnection]:
        """Every connection this node has made."""
        return self.manager.clients

    @property
    def accepted(self) -> list[ProducerConnection]:
        """Every connection this node has accepted."""
        return [each.connection for each in self.manager.accepted]

    def write(self, subpartition: int, text: bytes) -> None:
        """Write bytes that stand for a record, and flush."""
        assert self.partition.emit(subpartition, records_of([len(text)], data=text)) == len(text)
        self.partition.flush(subpartition)

    def read(self) -> list[tuple[int, bytes]]:
        """Everything the gate has: (channel, bytes)."""
        taken = []
        while (polled := self.gate.poll()) is not None:
            channel, buffer, _ = polled
            taken.append((channel.index, bytes(buffer.payload)))
            buffer.recycle()
        return taken

    def turn(self) -> None:
        """One turn of its loop, as a TaskManager takes them."""
        self.loop.run_once(until_ns=time.monotonic_ns() + TURN_NS)
        self.manager.handle_deadline(now_ns=time.monotonic_ns())

    def close(self) -> None:
        """Close port and connections."""
        self.manager.close()
        self.loop.close()


def drive(nodes: list[Node], is_done: Callable[[], bool], limit: int = 2000) -> None:
    """Let nodes take turns until something holds."""
    for _ in range(limit):
        if is_done():
            return
        for node in nodes:
            node.turn()
    raise AssertionError(f"not done after {limit} turns")


def settle(nodes: list[Node], turns: int = 20) -> None:
    """Let nodes take some turns, so that what might happen has happened."""
    for _ in range(turns):
        for node in nodes:
            node.turn()
