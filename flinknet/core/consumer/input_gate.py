# mypyc
"""SingleInputGate: channels of one input, read in turns; UnionInputGate: several gates as one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from flinknet.core.buffers import (
    BufferSlice,
    DataType,
    LocalBufferPool,
    MemorySegment,
    NetworkBuffer,
    free_memory,
)
from flinknet.core.wire.compression import CompressionCodec, decompress
from flinknet.core.wire.events import EndOfInputChannelStateEvent, OtherEvent
from flinknet.errors import FlinknetError, GateClosedError

from .input_channel import RemoteInputChannel
from .local_channel import LocalInputChannel
from .priority_events import PRIORITIZED_EVENT, unpooled_buffer

InputChannel = RemoteInputChannel | LocalInputChannel
"""A channel of either kind; see `is_local`."""

InputBuffer = NetworkBuffer | BufferSlice
"""A received buffer or event, in the consumer's memory or the producer's. Both have `view`,
`size_bytes`, `data_type`, `payload` and `recycle`."""

Polled = tuple[InputChannel, InputBuffer, int]
"""Channel, buffer or event, sequence number."""

RECOVERED = -1
"""Sequence number of recovered buffers, which were not sent."""


ReadableT = TypeVar("ReadableT")


class ReadyQueue(Generic[ReadableT]):
    """Channels or gates that have something to read, in turn (Flink: PrioritizedDeque).

    Invariants: each is in the queue at most once, and while it has something to read; those with a
        priority event are at the front.
    """

    def __init__(self) -> None:
        self._ready: deque[ReadableT] = deque()
        self._priority_elements = 0  # at the front

    @property
    def is_available(self) -> bool:
        return bool(self._ready)

    @property
    def has_priority_events(self) -> bool:
        """Whether the next element has a priority event."""
        return self._priority_elements > 0

    def _enqueue(self, element: ReadableT, has_priority: bool) -> None:
        """Queue an element: with a priority event after others of that kind and before the rest."""
        if has_priority:
            self._ready.insert(self._priority_elements, element)
            self._priority_elements += 1
        else:
            self._ready.append(element)

    def _withdraw(self, element: ReadableT) -> bool:
        """Remove a queued element without a priority event. Returns: whether it is removed."""
        position = self._ready.index(element)
        if position < self._priority_elements:
            return False
        del self._ready[position]
        return True

    def _remove(self, element: ReadableT) -> None:
        if not self._withdraw(element):
            self._ready.remove(element)
            self._priority_elements -= 1


class SingleInputGate(ReadyQueue[InputChannel]):
    """The consuming end of one edge in one subtask (Flink: SingleInputGate).

    After a poll, `is_available` and `has_priority_events` are what Flink returns with each element
    as "more available" and "more priority events"; they also replace its two availability futures.

    Args:
        channels: expected number of channels; None for any.
        pool: pool of the floating buffers, destroyed when the gate is closed.

    Attributes:
        listener: called when the gate becomes readable, or (True) gets its first priority event.
        is_state_consumed: whether there is no unread recovered state; until then no partition is
            requested.
        state_listener: called when that becomes true, in the turn of the reading task (Flink:
            getStateConsumedFuture).
    """

    def __init__(
        self, index: int = 0, *, channels: int | None = None, pool: LocalBufferPool | None = None
    ) -> None:
        super().__init__()
        self.index = index
        self.channels: Sequence[InputChannel] = ()
        self.is_requested = False
        self.is_closed = False
        self.listener: Callable[[SingleInputGate, bool], None] | None = None
        self.is_state_consumed = True
        self.state_listener: Callable[[SingleInputGate], None] | None = None
        self._recovering: set[int] = set()
        self._expected_channels = channels
        self._pool = pool
        self._local: Sequence[LocalInputChannel] = ()
        self._is_queued: list[bool] = []
        self._ended: set[int] = set()
        self._unsent: list[tuple[InputChannel, OtherEvent]] = []

    def set_channels(self, channels: Sequence[InputChannel]) -> None:
        """Attach the channels, once, in the order of the producers."""
        self.channels = tuple(channels)
        self._local = [each for each in channels if isinstance(each, LocalInputChannel)]
        self._is_queued = [False] * len(self.channels)

    def request_partitions(self, *, now_ns: int) -> None:
        """Request the subpartitions of all channels; only the first call has an effect. The first
        channel that fails keeps its error until it is polled, and the ones after it request
        nothing.

        Raises: RuntimeError if the gate is closed, has a wrong number of channels, or has unread
        recovered state.
        """
        if self.is_requested:
            return
        if self.is_closed:
            raise RuntimeError("Already released.")
        if not self.is_state_consumed:
            raise RuntimeError("recovered state is not fully consumed")
        expected = self._expected_channels
        if expected is not None and expected != len(self.channels):
            raise RuntimeError(
                f"the gate should have {expected} channels, and {len(self.channels)} are set"
            )
        self.is_requested = True
        for channel in self.channels:
            try:
                channel.request_subpartition(now_ns=now_ns)
            except FlinknetError as error:
                channel.fail(error)
                return

    def finish_read_recovered_state(self) -> None:
        """Append the end of the recovered state to the queue of every channel.

        Differs from Flink, where recovered state is in channels of another class; here only its end
        is ever there, since checkpoints store nothing.
        """
        end = EndOfInputChannelStateEvent().encode()
        self.is_state_consumed = False
        self._recovering = {each.index_in_gate for each in self.channels}
        for channel in self.channels:
            channel.received.append((unpooled_buffer(end, DataType.EVENT_BUFFER), RECOVERED))
            self.queue_channel(channel)

    def end_recovered_state(self, channel: InputChannel) -> None:
        self._recovering.discard(channel.index_in_gate)
        if not self._recovering:
            self.is_state_consumed = True
            if self.state_listener is not None:
                self.state_listener(self)

    def send_task_event(self, event: OtherEvent) -> None:
        """Send an event to the producer of every channel, once it exists (Flink: sendTaskEvent)."""
        self._unsent += [(channel, event) for channel in self.channels]
        self.send_pending_events()

    def send_pending_events(self) -> bool:
        """Send events to producers that exist by now. Returns: whether some are still missing."""
        self._unsent = [each for each in self._unsent if not each[0].send_task_event(each[1])]
        return bool(self._unsent)

    @property
    def remote_channels(self) -> list[RemoteInputChannel]:
        return [each for each in self.channels if isinstance(each, RemoteInputChannel)]

    def next_deadline_ns(self) -> int | None:
        due = (each.next_deadline_ns() for each in self._local)
        return min((each for each in due if each is not None), default=None)

    def handle_deadline(self, *, now_ns: int) -> None:
        for channel in self._local:
            channel.handle_deadline(now_ns=now_ns)

    def queue_channel(self, channel: InputChannel, has_priority: bool = False) -> None:
        """Append a readable channel to the ready queue, unless it is queued. A channel with a
        priority event goes after others of that kind and before the rest.
        """
        if has_priority:
            self._queue_priority_channel(channel)
            return
        index = channel.index_in_gate
        if not self._is_queued[index] and index not in self._ended:
            self._is_queued[index] = True
            self._ready.append(channel)
            if self.listener is not None and len(self._ready) == 1:
                self.listener(self, False)

    def _queue_priority_channel(self, channel: InputChannel) -> None:
        index = channel.index_in_gate
        if index in self._ended or (self._is_queued[index] and not self._withdraw(channel)):
            return
        self._is_queued[index] = True
        self._enqueue(channel, True)
        if self.listener is not None and self._priority_elements == 1:
            self.listener(self, True)

    @property
    def is_finished(self) -> bool:
        return len(self._ended) == len(self.channels)

    def poll(self, now_ns: int = 0) -> Polled | None:
        """The next buffer or event with its channel and sequence number; the caller recycles it.
        Never waits (Flink: pollNext): a task that got None is stepped again once the gate is
        available.

        Differs from Flink in that a failed channel is first read to the end of what had arrived, so
        that the hot path does not check for an error at every buffer.

        Args:
            now_ns: instant at which a local channel's buffer counts as sent and received.

        Raises: the error of a failed channel; GateClosedError.
        """
        ready = self._ready
        while ready:
            channel = ready.popleft()
            index = channel.index_in_gate
            self._is_queued[index] = False
            if self._priority_elements:
                self._priority_elements -= 1
            received = channel.received
            if not received:
                if channel.error is not None:
                    raise channel.error
                if channel.is_local:
                    polled = self._poll_local(channel, now_ns)
                    if polled is not None:
                        return polled
                continue
            buffer, sequence_number = received.popleft()
            if received or channel.error is not None:
                self._is_queued[index] = True
                if buffer.data_type != PRIORITIZED_EVENT:
                    ready.append(channel)
                else:
                    is_next = received and received[0][0].data_type == PRIORITIZED_EVENT
                    self._enqueue(channel, bool(is_next))
            return channel, buffer, sequence_number
        if self.is_closed and not self.is_finished:
            raise GateClosedError("the input gate is closed")
        return None

    def poll_run(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int
    ) -> list[NetworkBuffer]:
        """The run that begins with the buffer just polled: it and the next data buffers adjacent in
        memory. Empty if none is adjacent, or if other channels wait for their turn.
        """
        received = channel.received
        if not received or len(self._ready) != 1 or channel.is_local:
            return []
        assert isinstance(buffer, NetworkBuffer)
        run = channel.take_run(buffer, sequence_number)
        if not received and channel.error is None:
            self._ready.clear()
            self._is_queued[channel.index_in_gate] = False
        return run

    def end_channel(self, channel: InputChannel) -> None:
        """End a channel, after its EndOfPartition: release it and never queue it again."""
        index = channel.index_in_gate
        if index in self._ended:
            raise RuntimeError(f"channel {channel.index} ended twice")
        self._ended.add(index)
        if self._is_queued[index]:
            self._remove(channel)
            self._is_queued[index] = False
        channel.release()

    def close(self) -> None:
        """Release all channels and the pool; later polls raise GateClosedError."""
        if self.is_closed:
            return
        self.is_closed = True
        self._ready.clear()
        self._priority_elements = 0
        self._is_queued = [False] * len(self.channels)
        for channel in self.channels:
            channel.release()
        if self._pool is not None:
            self._pool.destroy()

    def _poll_local(self, channel: LocalInputChannel, now_ns: int) -> Polled | None:
        piece = channel.poll_view(now_ns)
        if piece is None:
            return None
        if piece.next_data_type and not self._is_queued[channel.index_in_gate]:
            self._is_queued[channel.index_in_gate] = True
            self._enqueue(channel, piece.next_data_type == PRIORITIZED_EVENT)
        return channel, piece, piece.sequence_number


class DecompressingInputGate(SingleInputGate):
    """Decompresses buffers, with a codec that is not on the wire (Flink: BufferDecompressor)."""

    codec = CompressionCodec.NONE
    segment_size_bytes = 0

    def poll(self, now_ns: int = 0) -> Polled | None:
        """Raises: as SingleInputGate; FrameCorruptedError for data that is not of the codec."""
        polled = super().poll(now_ns)
        if polled is None:
            return None
        channel, buffer, sequence_number = polled
        holder = buffer.buffer if isinstance(buffer, BufferSlice) else buffer
        if not holder.is_compressed:
            return polled
        try:
            data = decompress(self.codec, buffer.payload, self.segment_size_bytes)
        finally:
            buffer.recycle()
        segment = MemorySegment(memoryview(data))
        return channel, NetworkBuffer(segment, free_memory, size_bytes=len(data)), sequence_number


class UnionInputGate(ReadyQueue[SingleInputGate]):
    """Two or more gates, for a task that reads a union of streams; they are set up, requested and
    closed one by one. `channels` are those of all gates, in order of `index_in_input`.

    Raises: ValueError for fewer than two gates, or for duplicate indexes.
    """

    def __init__(self, gates: Sequence[SingleInputGate]) -> None:
        super().__init__()
        if len(gates) < 2:
            raise ValueError("a union takes at least two input gates")
        if len({gate.index for gate in gates}) != len(gates):
            raise ValueError("two input gates of a union have the same index")
        self.gates = tuple(gates)
        self.channels: Sequence[InputChannel] = tuple(
            [channel for gate in gates for channel in gate.channels]
        )
        for index, channel in enumerate(self.channels):
            channel.index_in_input = index
        self._gate_of = {channel.index: gate for gate in gates for channel in gate.channels}
        for gate in gates:
            gate.listener = self.queue_gate
            if gate.is_available:
                self.queue_gate(gate, gate.has_priority_events)

    def queue_gate(self, gate: SingleInputGate, has_priority: bool) -> None:
        if gate not in self._ready or (has_priority and self._withdraw(gate)):
            self._enqueue(gate, has_priority)

    @property
    def is_finished(self) -> bool:
        return all(gate.is_finished for gate in self.gates)

    def poll(self, now_ns: int = 0) -> Polled | None:
        ready = self._ready
        while ready:
            gate = ready.popleft()
            if self._priority_elements:
                self._priority_elements -= 1
            polled = gate.poll(now_ns)
            if gate.is_available:
                self.queue_gate(gate, gate.has_priority_events)
            if polled is not None:
                return polled
        return None

    def poll_run(
        self, channel: InputChannel, buffer: InputBuffer, sequence_number: int
    ) -> list[NetworkBuffer]:
        """See SingleInputGate; empty while other gates wait for their turn."""
        if len(self._ready) != 1:
            return []
        gate = self._ready[0]
        run = gate.poll_run(channel, buffer, sequence_number)
        if not gate.is_available:
            self._ready.clear()
        return run

    def end_recovered_state(self, channel: InputChannel) -> None:
        self._gate_of[channel.index].end_recovered_state(channel)

    def end_channel(self, channel: InputChannel) -> None:
        gate = self._gate_of[channel.index]
        gate.end_channel(channel)
        if not gate.is_available and gate in self._ready:
            self._remove(gate)
