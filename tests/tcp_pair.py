"""A producer and a consumer of one connection without credit, joined by bytes in a test's hand."""

from __future__ import annotations

from flinknet.core.buffers import NetworkBufferPool
from flinknet.core.consumer import ConsumerConnection, RemoteInputChannel, SingleInputGate
from flinknet.core.probe import NullProbe, Probe
from flinknet.core.producer import ProducerConnection, ResultPartitionManager
from flinknet.core.wire.events import Event
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.messages import Message
from tests.pair import (
    REQUEST_TIMEOUT_NS,
    partition_id,
    partition_of,
    receiver_ids,
    records_of,
    sent_bytes,
)

SEGMENT_BYTES = 100
RECORD_BYTES = 50


class TcpPair:
    """`channels` producers of one subpartition each and as many gates of one channel each, all over
    one connection: A.i feeds B.i, and what is slow in one is nobody else's affair but for the
    connection.

    Args:
        gate_buffers: what each gate's pool holds; it has no other buffers.
    """

    def __init__(
        self, channels: int = 2, *, gate_buffers: int = 3, probe: Probe | None = None
    ) -> None:
        probe = probe or NullProbe()
        manager = ResultPartitionManager()
        self.receivers = receiver_ids(channels)
        self.partitions = []
        for index in range(channels):
            partition, _ = partition_of(1, identity=partition_id(index))
            manager.register(partition)
            self.partitions.append(partition)
        self.producer = ProducerConnection(
            manager,
            probe,
            {receiver: index for index, receiver in enumerate(self.receivers)},
            partition_request_timeout_ns=REQUEST_TIMEOUT_NS,
            is_credit_based=False,
        )
        self.memory = NetworkBufferPool(channels * gate_buffers, SEGMENT_BYTES)
        self.consumer = ConsumerConnection("the producer", probe, is_credit_based=False)
        self.gates = [SingleInputGate() for _ in range(channels)]
        self.pools = [self.memory.create_buffer_pool(1, gate_buffers) for _ in range(channels)]
        self.channels = []
        for index, gate in enumerate(self.gates):
            channel = RemoteInputChannel(
                index,
                self.receivers[index],
                partition_id(index),
                0,
                gate.queue_channel,
                0,
                self.memory,
                self.pools[index],
                0,
            )
            gate.set_channels([channel])
            self.channels.append(channel)
            self.consumer.request_subpartition(channel, now_ns=0)
        self.requests = sent_bytes(self.consumer)
        self.producer.receive_data(memoryview(self.requests), now_ns=0)

    def write(self, channel: int, buffers: int, first: int = 0) -> None:
        """Write so many full buffers of two records each."""
        batch = records_of([RECORD_BYTES] * (2 * buffers), first)
        self.partitions[channel].emit(0, batch, 0)
        self.partitions[channel].flush_all()

    def write_event(self, channel: int, event: Event) -> None:
        """Write an event behind what was written."""
        self.partitions[channel].broadcast_event(event)

    def carry(self, *, pieces_of: int = 1 << 20) -> int:
        """Take what the producer has to the consumer, cut into pieces. Returns: bytes."""
        data = sent_bytes(self.producer)
        for start in range(0, len(data), pieces_of):
            piece = memoryview(data)[start : start + pieces_of]
            self.consumer.receive_data(piece, now_ns=0)
        return len(data)

    def answers(self) -> list[Message]:
        """What the consumer has to say now, after its requests."""
        return FrameDecoder(Direction.CONSUMER_TO_PRODUCER).feed(sent_bytes(self.consumer))

    def take(self, channel: int) -> bytes | None:
        """Take the next buffer or event of a gate and recycle it; None if there is none."""
        polled = self.gates[channel].poll()
        if polled is None:
            return None
        _, buffer, _ = polled
        payload = bytes(buffer.payload)
        buffer.recycle()
        return payload

    def turn(self) -> None:
        """What a driver does in each turn behind the tasks."""
        deadline_ns = self.consumer.next_deadline_ns()
        if deadline_ns is not None and deadline_ns <= 0:
            self.consumer.handle_deadline(now_ns=0)

    @property
    def staged_bytes(self) -> int:
        """Bytes that the consumer has read and not handed to a channel."""
        return self.consumer.staged_bytes

    def waiting(self, channel: int) -> int:
        """Buffers and events that a channel holds."""
        return len(self.channels[channel].received)

    def close(self) -> None:
        """Release everything that the consumer holds."""
        self.consumer.receive_eof(now_ns=0)
        for channel, pool in zip(self.channels, self.pools, strict=True):
            channel.release()
            pool.destroy()
