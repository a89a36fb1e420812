# mypyc
"""RemoteInputChannel: the consumer's end of one channel; checks sequence numbers, earns credit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Protocol

from flinknet import errors
from flinknet.core.buffers import LocalBufferPool, MemorySegment, NetworkBuffer, NetworkBufferPool
from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM, IS_BUFFER
from flinknet.core.wire import messages
from flinknet.core.wire.events import OtherEvent
from flinknet.core.wire.ids import InputChannelID, ResultPartitionID
from flinknet.core.wire.layout import next_sequence_number

from . import priority_events
from .buffer_manager import BufferManager

RUN_BYTES = 192 * 1024
"""Most data that a task reads at once: six segments, which are still in the cache."""


class PartitionRequestClient(Protocol):
    """A connection to a producer, for its channels (Flink: PartitionRequestClient)."""

    def request_subpartition(self, channel: RemoteInputChannel, *, now_ns: int) -> None:
        """Send the channel's PartitionRequest."""

    def request_again(self, channel: RemoteInputChannel, *, now_ns: int) -> None:
        """Send it again, now or later; or fail the channel after too many attempts."""

    def notify_credit_available(self, channel: RemoteInputChannel) -> None:
        """Send the channel's unannounced credit with the next bytes."""

    def send(
        self,
        channel: RemoteInputChannel,
        message: messages.Message,
        *,
        value: int = -1,
        now_ns: int | None = None,
    ) -> None:
        """Send a message, traced with this value, now or at the driver's last instant."""

    def close_channel(self, channel: RemoteInputChannel) -> None:
        """Send CancelPartitionRequest and remove the channel."""


class GateChannel:
    """State of a channel of a gate, over a connection or not (Flink: InputChannel).

    Args:
        queue: SingleInputGate.queue_channel: called when the channel becomes readable or fails
            (True: when it gets its first priority event).

    Attributes:
        received: buffers and events not yet read; of a local channel, recovered ones only.
    """

    def __init__(
        self,
        index: int,
        receiver_id: InputChannelID,
        partition_id: ResultPartitionID,
        subpartition: int,
        queue: Callable[[Any, bool], None],
        index_in_gate: int,
    ) -> None:
        self.index = index
        self.receiver_id = receiver_id
        self.partition_id = partition_id
        self.subpartition = subpartition
        self._queue = queue
        self.index_in_gate = index_in_gate
        self.index_in_input = index_in_gate
        self.received: priority_events.ReceivedBuffers = deque()
        self.is_released = False
        self.error: errors.FlinknetError | None = None

    def fail(self, error: errors.FlinknetError) -> None:
        """Store the first error; the gate raises it when the channel is polled."""
        if self.error is None:
            self.error = error
            self._queue(self, False)


class RemoteInputChannel(GateChannel):
    """Consumer's end of one channel over a connection (Flink: RemoteInputChannel).

    Invariant: `expected_sequence_number` is that of the next buffer; `unannounced_credit` >= 0.

    Args:
        exclusive_segments: segments of its exclusive buffers; None: requested now.
        connect: returns the connection to the producer's TaskManager, opened if necessary; None for
            a channel whose connection requests its subpartition.

    Attributes:
        check_producer: called with the instant when the producer does not have the partition, to
            decide about the request (SingleInputGate.triggerPartitionStateCheck). None: it is
            repeated.
        refusal: the producer's last answer that it does not have the partition.
    """

    is_local: ClassVar[Literal[False]] = False

    def __init__(
        self,
        index: int,
        receiver_id: InputChannelID,
        partition_id: ResultPartitionID,
        subpartition: int,
        queue: Callable[[RemoteInputChannel, bool], None],
        index_in_gate: int,
        global_pool: NetworkBufferPool,
        pool: LocalBufferPool,
        exclusive_buffers: int,
        *,
        exclusive_segments: list[MemorySegment] | None = None,
        connect: Callable[[], PartitionRequestClient] | None = None,
    ) -> None:
        super().__init__(index, receiver_id, partition_id, subpartition, queue, index_in_gate)
        self.expected_sequence_number = 0
        self.unannounced_credit = 0
        self.connection: PartitionRequestClient | None = None
        self.connect = connect
        self.check_producer: Callable[[RemoteInputChannel, int], None] | None = None
        self.refusal: errors.PartitionNotFoundError | None = None
        self.buffers = BufferManager(
            self.notify_credit, global_pool, pool, exclusive_buffers, exclusive_segments
        )

    @property
    def initial_credit(self) -> int:
        """Credit in the PartitionRequest: the exclusive buffers."""
        return self.buffers.initial_credit

    @property
    def queued_elements(self) -> int:
        return len(self.received)

    @property
    def queued_bytes(self) -> int:
        return sum(buffer.size_bytes for buffer, _ in self.received)

    @property
    def buffers_in_use(self) -> int:
        """Received buffers, and those that the producer needs beyond the exclusive ones."""
        buffers = self.buffers
        return len(self.received) + max(0, buffers.required_buffers - buffers.initial_credit)

    @property
    def buffers_handed_out(self) -> int:
        """Number of buffers and events that the gate has taken, without recovered ones."""
        return max(0, self.expected_sequence_number - len(self.received))

    def request_subpartition(self, *, now_ns: int) -> None:
        """Send the request, once. Raises: PartitionConnectionError, naming the partition."""
        if self.connection is not None:
            return
        assert self.connect is not None
        try:
            client = self.connect()
        except errors.TransportError as error:
            raise self.unreachable(error) from error
        client.request_subpartition(self, now_ns=now_ns)

    def receive_refusal(self, refusal: errors.PartitionNotFoundError, *, now_ns: int) -> None:
        """The producer does not have the partition (Flink: onFailedPartitionRequest)."""
        self.refusal = refusal
        if self.check_producer is None:
            self.request_again(now_ns=now_ns)
        else:
            self.check_producer(self, now_ns)

    def _client(self) -> PartitionRequestClient:
        """The connection, once it was requested (Flink: checkPartitionRequestQueueInitialized)."""
        if self.connection is None:
            raise errors.LocalProtocolError(
                f"the partition {self.partition_id} has not been requested: the channel has no"
                " connection"
            )
        return self.connection

    def request_again(self, *, now_ns: int) -> None:
        """Repeat a refused request, or fail (Flink: retriggerSubpartitionRequest)."""
        if self.connection is not None and self.error is None and not self.is_released:
            self.connection.request_again(self, now_ns=now_ns)

    def unreachable(self, error: errors.TransportError) -> errors.PartitionConnectionError:
        """The error of this channel if the connection cannot be opened."""
        return errors.PartitionConnectionError(
            f"Connection for partition {self.partition_id} not reachable: {error}"
        )

    def receive_buffer(
        self, buffer: NetworkBuffer, sequence_number: int, backlog_buffers: int
    ) -> None:
        """Take ownership of a complete buffer or event. Raises: BufferReorderingError;
        FrameCorruptedError for a blocking event with a backlog, or a barrier that may time out and
        is none.
        """
        self._check_sequence_number(sequence_number, buffer)
        if self.is_released:  # while this buffer arrived
            buffer.recycle()
            return
        if not buffer.size_bytes:  # only its backlog counts
            buffer.recycle()
        elif buffer.data_type in IS_BUFFER:
            received = self.received
            received.append((buffer, sequence_number))
            if len(received) == 1:
                self._queue(self, False)
        else:
            self._receive_event(buffer, sequence_number, backlog_buffers)
        if backlog_buffers >= 0:
            self.receive_backlog(backlog_buffers)

    def receive_run(self, buffers: Sequence[NetworkBuffer], backlog_buffers: int) -> None:
        """Take over data buffers with the next numbers; the last one came with the backlog."""
        number = self.expected_sequence_number
        end = number + len(buffers)
        self.expected_sequence_number = next_sequence_number(end - 1)
        received = self.received
        was_empty = not received
        received.extend(zip(buffers, range(number, end), strict=True))
        if was_empty:
            self._queue(self, False)
        self.receive_backlog(backlog_buffers)

    def take_run(self, buffer: NetworkBuffer, sequence_number: int) -> list[NetworkBuffer]:
        """Take the queued data with the next numbers that is adjacent in memory to this buffer,
        which was just taken. Returns: all these buffers, up to RUN_BYTES; none if nothing is
        adjacent.
        """
        segment, size, received = buffer.segment, buffer.size_bytes, self.received
        index = segment.index
        if index < 0 or size != len(segment.view):
            return []
        run: list[NetworkBuffer] = []
        last = index + RUN_BYTES // size - 1
        while received and index < last:
            following, number = received[0]
            index += 1
            sequence_number += 1
            if (
                number != sequence_number
                or following.segment.index != index
                or following.size_bytes != size
                or following.data_type != buffer.data_type
                or following.is_compressed
            ):
                break
            if not run:
                run.append(buffer)
            run.append(following)
            received.popleft()
        return run

    def receive_backlog(self, backlog_buffers: int) -> None:
        """Request floating buffers for an announced backlog, and announce them."""
        gained = self.buffers.request_for_backlog(backlog_buffers)
        if gained:
            self.notify_credit(gained)

    def notify_credit(self, credit: int) -> None:
        """Add free buffers to the credit; the amount is read when the message for it is sent."""
        before = self.unannounced_credit
        self.unannounced_credit = before + credit
        if not before and self.connection is not None:
            self.connection.notify_credit_available(self)

    def take_unannounced_credit(self) -> int:
        """The credit to send in an AddCredit now; it counts as announced."""
        credit, self.unannounced_credit = self.unannounced_credit, 0
        return credit

    def resume_consumption(self) -> None:
        """Let the producer continue after a blocking event. Raises: LocalProtocolError."""
        client = self._client()
        if self.initial_credit == 0:
            self.unannounced_credit = 0
        client.send(self, messages.ResumeConsumption(self.receiver_id))

    def acknowledge_all_records_processed(self) -> None:
        """Answer EndOfData. Raises: LocalProtocolError."""
        self._client().send(self, messages.AckAllUserRecordsProcessed(self.receiver_id))

    def send_task_event(self, event: OtherEvent) -> bool:
        """Send an event to the producing task; drops it if that has ended. Returns: False until
        data has arrived, since only then the task certainly exists.
        """
        if self.is_released:
            return True
        if self.connection is None or not self.expected_sequence_number:
            return False
        self.connection.send(
            self, messages.TaskEventRequest(event, self.partition_id, self.receiver_id)
        )
        return True

    def set_buffer_size(self, size_bytes: int, *, now_ns: int) -> None:
        if self.connection is not None:
            message = messages.NewBufferSize(size_bytes, self.receiver_id)
            self.connection.send(self, message, value=size_bytes, now_ns=now_ns)

    def release(self) -> None:
        """Drop received buffers, return all buffers, and cancel at the producer."""
        if self.is_released:
            return
        self.is_released = True
        while self.received:
            self.received.popleft()[0].recycle()
        self.buffers.release()
        if self.connection is not None:
            self.connection.close_channel(self)

    def convert_to_priority_event(self, sequence_number: int) -> None:
        if priority_events.make_unaligned(self.received, sequence_number, self.index):
            self._queue(self, True)

    def _receive_event(
        self, buffer: NetworkBuffer, sequence_number: int, backlog_buffers: int
    ) -> None:
        """Queue an event: with priority before all data; a barrier that may time out in order,
        announced.
        """
        data_type = buffer.data_type
        if data_type == priority_events.PRIORITIZED_EVENT:
            if priority_events.add_priority_event(self.received, buffer, sequence_number):
                self._queue(self, True)
            return
        if data_type in IS_BLOCKING_UPSTREAM:
            if backlog_buffers:
                buffer.recycle()
                raise errors.FrameCorruptedError(
                    f"a blocking event carries backlog {backlog_buffers}; it must be 0"
                )
            if self.initial_credit == 0:
                self.buffers.release_floating()
        self.received.append((buffer, sequence_number))
        if len(self.received) == 1:
            self._queue(self, False)
        if data_type == priority_events.TIMEOUTABLE_BARRIER and priority_events.announce_barrier(
            self.received, buffer, sequence_number
        ):
            self._queue(self, True)

    def _check_sequence_number(self, sequence_number: int, buffer: NetworkBuffer) -> None:
        expected = self.expected_sequence_number
        if sequence_number != expected:
            buffer.recycle()
            raise errors.BufferReorderingError(expected, sequence_number, self.receiver_id.hex())
        self.expected_sequence_number = (
            expected + 1 if expected != 0x7FFFFFFF else next_sequence_number(expected)
        )
