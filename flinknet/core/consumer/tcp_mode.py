# mypyc
"""The consumer's end of a connection before Flink 1.5: no credit; without a free buffer the socket
is not read.

What that does to the neighbours is the reason why credits exist: one channel without buffers stops
the reading of the connection, and with it every other channel, barriers and all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from flinknet.core.buffers import MemorySegment, NetworkBuffer, free_memory
from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.connection import ConsumerSnapshot
from flinknet.core.probe import MessageKind, Probe, TracePoint, note_received
from flinknet.core.wire.header import DATA_TYPE, IS_COMPRESSED, RECEIVER, SIZE, Header
from flinknet.core.wire.messages import BacklogAnnouncement, BufferResponse, Message
from flinknet.errors import (
    BufferReorderingError,
    FrameCorruptedError,
    RemoteTransportError,
    TransportError,
)

from .connection import ConsumerConnection
from .input_channel import RemoteInputChannel

_READING_STOPS, _READING_RESUMES = int(TracePoint.READING_STOPS), int(TracePoint.READING_RESUMES)
_BUFFER_RESPONSE = int(MessageKind.BUFFER_RESPONSE)


class TcpConsumerConnection(ConsumerConnection):
    """Reads partitions without credit (Flink: PartitionRequestClientHandler).

    The buffers of a gate lie in its pool, for all its channels; a message takes one when it
    arrives. When there is none the message is *staged*, `wants_data` becomes False, and whatever is
    left of the bytes that were read is staged behind it: every message of every channel, events
    too. A recycled buffer takes the staged message, the others follow in their order, and with the
    last one reading goes on.

    Invariants: `wants_data` is True exactly when nothing is staged; the head of what is staged is a
        data buffer whose pool will tell of a recycled buffer, or `handle_deadline` is due.
    """

    def __init__(self, peer: str, probe: Probe) -> None:
        super().__init__(peer, probe)
        self._staged: deque[StagedBuffer | Message] = deque()
        self._needs_memory = False
        self._is_due = False
        self._unread_ns = 0
        self._unread_since_ns = 0

    def snapshot(self, *, now_ns: int) -> ConsumerSnapshot:
        """What a driver reports of it."""
        unread_ns = 0 if self.wants_data else now_ns - self._unread_since_ns
        return ConsumerSnapshot(self._unread_ns + unread_ns, self.staged_bytes)

    @property
    def staged_bytes(self) -> int:
        """Payload bytes of them."""
        return sum(each.size_bytes for each in self._staged if isinstance(each, StagedBuffer))

    def receive_eof(self, *, now_ns: int, error: TransportError | None = None) -> None:
        """The producer is gone: what is staged is lost with the channels."""
        while self._staged:
            arrived = self._staged.popleft()
            if isinstance(arrived, StagedBuffer):
                arrived.drop()
        self._now_ns = now_ns
        self._resume_reading()
        super().receive_eof(now_ns=now_ns, error=error)

    def next_deadline_ns(self) -> int | None:
        """At once when a buffer was recycled for what is staged."""
        return 0 if self._is_due else super().next_deadline_ns()

    def handle_deadline(self, *, now_ns: int) -> None:
        """Hand what is staged to the channels, until a buffer is missing again."""
        super().handle_deadline(now_ns=now_ns)
        self._is_due = False
        staged = self._staged
        while staged:
            head = staged[0]
            if isinstance(head, StagedBuffer):
                if not self._deliver(head):
                    return
                staged.popleft()
            else:
                staged.popleft()
                self._handle_message(head)
        self._resume_reading()

    def close_channel(self, channel: RemoteInputChannel) -> None:
        """Queue CancelPartitionRequest and forget the channel; the head of what is staged may have
        been its.
        """
        super().close_channel(channel)
        self._is_due = bool(self._staged)

    # What the decoder tells (wire.response_decoder.ResponseSink)

    def take_buffer(self, header: Header) -> memoryview | None:
        """Memory for a payload: a buffer of the gate's pool for data, plain memory, no larger than
        one, if there is none or something is staged.
        """
        receiver_id, data_type, size = header[RECEIVER], header[DATA_TYPE], header[SIZE]
        channel = self._channels.get(receiver_id)
        self._needs_memory = False
        if data_type not in IS_BUFFER or channel is None or channel.error is not None:
            return super().take_buffer(header)
        pool = channel.buffers.pool
        buffer = None if self._staged or not size else pool.try_request()
        if buffer is None:
            self._needs_memory = size > 0
            memory = bytearray(min(size, pool.segment_size_bytes))
            buffer = NetworkBuffer(MemorySegment(memoryview(memory)), free_memory)
        buffer.data_type = data_type
        buffer.size_bytes = size
        buffer.is_compressed = header[IS_COMPRESSED]
        self._channel, self._buffer = channel, buffer
        return buffer.view

    def free_memory(self, header: Header) -> Sequence[memoryview]:
        """None is told ahead: the buffers of the gate are all channels'."""
        return ()

    def receive_payload(self, header: Header) -> None:
        """A message is complete: hand it to its channel, or stage it."""
        channel, buffer = self._channel, self._buffer
        if channel is None:
            return
        assert buffer is not None
        self._buffer = None
        _, _, _, _, _, sequence_number, backlog, data_type, _, size = header
        pool = channel.buffers.pool
        note_received(
            self._record,
            self._now_ns,
            channel.index,
            data_type=data_type,
            sequence_number=sequence_number,
            payload_bytes=size,
            backlog_buffers=backlog,
            credit_before=-1,
            credit_after=-1,
            pool_available_buffers=pool.available_buffers,
            pool_size_buffers=pool.size_buffers,
        )
        arrived = StagedBuffer(self, channel, buffer, sequence_number, self._needs_memory)
        if self._staged or not self._deliver(arrived):
            self._stage(arrived)

    def receive_message(self, message: Message) -> None:
        """A message that is not a plain buffer waits its turn behind what is staged."""
        if self._staged:
            self._stage(message)
        else:
            self._handle_message(message)

    def handle_buffer_available(self) -> None:
        """The head of what is staged has got its buffer, or its pool is gone."""
        self._is_due = True

    def _stage(self, arrived: StagedBuffer | Message) -> None:
        if self.wants_data:
            self.wants_data = False
            self._unread_since_ns = self._now_ns
            assert isinstance(arrived, StagedBuffer)
            self._note(_READING_STOPS, 0, arrived.channel.index)
        self._staged.append(arrived)

    def _resume_reading(self) -> None:
        """Nothing is staged any more."""
        if not self.wants_data:
            self.wants_data = True
            self._unread_ns += self._now_ns - self._unread_since_ns
            self._note(_READING_RESUMES, 0, -1)

    def _handle_message(self, message: Message) -> None:
        if isinstance(message, BacklogAnnouncement):
            channel = self._channels.get(message.receiver_id)
            if channel is not None:
                text = f"{self.peer} waits for credit, but flow control is tcp here"
                self._fail_channel(channel, RemoteTransportError(text))
        elif isinstance(message, BufferResponse):
            channel = self._channels.get(message.receiver_id)
            if channel is not None:
                text = "several buffers in one message, which no producer without credit sends"
                self._fail_channel(channel, FrameCorruptedError(text))
        else:
            super().receive_message(message)

    def _deliver(self, arrived: StagedBuffer) -> bool:
        """Hand a message to its channel. Returns: False if it must wait for a buffer."""
        channel = arrived.channel
        if channel.is_released or channel.error is not None or channel.buffers.pool.is_destroyed:
            arrived.drop()
            return True
        if not arrived.find_memory():
            return False
        buffer = arrived.buffer
        try:
            # Backlog 0: without credit no buffers are asked for ahead.
            if buffer.size_bytes:
                channel.receive_buffer(buffer, arrived.sequence_number, 0)
            else:
                buffer.recycle()
                channel.receive_empty_buffer(arrived.sequence_number, 0)
        except (BufferReorderingError, FrameCorruptedError) as error:
            self._fail_channel(channel, error)
        return True


class StagedBuffer:
    """A message that was read and has no buffer yet; listens to the pool of its gate (Flink:
    PartitionRequestClientHandler.BufferListenerTask).
    """

    __slots__ = (
        "_connection",
        "_is_listening",
        "_memory",
        "_needs_memory",
        "buffer",
        "channel",
        "sequence_number",
    )

    def __init__(
        self,
        connection: TcpConsumerConnection,
        channel: RemoteInputChannel,
        buffer: NetworkBuffer,
        sequence_number: int,
        needs_memory: bool,
    ) -> None:
        self._connection = connection
        self.channel = channel
        self.buffer = buffer
        self.sequence_number = sequence_number
        self._needs_memory = needs_memory
        self._memory: NetworkBuffer | None = None
        self._is_listening = False

    @property
    def size_bytes(self) -> int:
        """Bytes of its payload."""
        return self.buffer.size_bytes

    def find_memory(self) -> bool:
        """Move the payload into a buffer of the pool if it must; False if there is none, and the
        pool will tell.
        """
        if not self._needs_memory:
            return True
        pool = self.channel.buffers.pool
        while self._memory is None:
            if self._is_listening:
                return False
            self._memory = pool.try_request()
            if self._memory is None:
                self._is_listening = pool.add_listener(self)
        plain, memory = self.buffer, self._memory
        memory.view[: plain.size_bytes] = plain.payload
        memory.data_type = plain.data_type
        memory.size_bytes = plain.size_bytes
        memory.is_compressed = plain.is_compressed
        self.buffer, self._memory = memory, None
        self._needs_memory = False
        plain.recycle()
        return True

    def drop(self) -> None:
        """The channel is gone: give everything back."""
        self._is_listening = False
        self.buffer.recycle()
        if self._memory is not None:
            self._memory.recycle()
            self._memory = None

    def receive_buffer(self, buffer: NetworkBuffer) -> bool:
        """The pool offers a recycled buffer; refused when the message was dropped meanwhile."""
        if not self._is_listening:
            return False
        self._is_listening = False
        self._memory = buffer
        self._connection.handle_buffer_available()
        return True

    def handle_pool_destroyed(self) -> None:
        """The pool of the gate is gone, and so is the message."""
        self._is_listening = False
        self._connection.handle_buffer_available()
