# mypyc
"""The consumer's end of a connection before Flink 1.5: without a free buffer, the socket is not
read.

This is why credit exists: one channel without buffers blocks every other channel of its connection,
barriers included.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from flinknet.core.buffers import MemorySegment, NetworkBuffer, free_memory
from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.probe import ControlMessages, TracePoint, note_received
from flinknet.core.wire.layout import DATA_TYPE, IS_COMPRESSED, RECEIVER, SIZE, Header
from flinknet.core.wire.messages import BacklogAnnouncement, BufferResponse, ErrorResponse, Message
from flinknet.errors import FrameCorruptedError, RemoteTransportError

from .client_handler import CreditBasedPartitionRequestClientHandler
from .input_channel import RemoteInputChannel

_READING_STOPS, _READING_RESUMES = int(TracePoint.READING_STOPS), int(TracePoint.READING_RESUMES)


class PartitionRequestClientHandler(CreditBasedPartitionRequestClientHandler):
    """Handles decoded messages without credit (Flink: PartitionRequestClientHandler).

    The buffers of a gate are in its pool, shared by all channels; a message takes one when it
    arrives. If there is none, the message is *staged*, `wants_data` becomes False, and the rest of
    the bytes read is staged after it, events included. A recycled buffer takes the staged message,
    the others follow in order, and after the last one reading resumes.

    Differs from Flink in that events, unknown receivers and errors are handled as with credit.

    Invariants: `wants_data` is True exactly when nothing is staged; the first staged message is a
        data buffer whose pool will offer it a recycled buffer, or `handle_deadline` is due.
    """

    def __init__(
        self,
        peer: str,
        channels: Mapping[bytes, RemoteInputChannel],
        control: ControlMessages,
        receive_error: Callable[[ErrorResponse], None],
    ) -> None:
        super().__init__(peer, channels, control, receive_error)
        self._staged: deque[StagedBuffer | Message] = deque()
        self._needs_memory = False
        self._is_due = False

    @property
    def staged_bytes(self) -> int:
        return sum(
            each.buffer.size_bytes for each in self._staged if isinstance(each, StagedBuffer)
        )

    def drop(self) -> None:
        while self._staged:
            arrived = self._staged.popleft()
            if isinstance(arrived, StagedBuffer):
                arrived.drop()
        self._resume_reading()
        super().drop()

    def next_deadline_ns(self) -> int | None:
        return 0 if self._is_due else None

    def handle_deadline(self) -> None:
        """Pass staged messages to their channels, until a buffer is missing again."""
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

    def handle_closed_channel(self) -> None:
        """Check the staged messages, since the first may belong to the closed channel."""
        self._is_due = bool(self._staged)

    # ResponseSink: called by the decoder

    def take_buffer(self, header: Header) -> memoryview | None:
        """Memory for a payload: a buffer of the gate's pool for data; plain memory of at most that
        size if there is none or messages are staged.
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
        self._channel, self.buffer = channel, buffer
        return buffer.view

    def free_memory(self, header: Header) -> Sequence[memoryview]:
        """None: all channels share the buffers of the gate."""
        return ()

    def receive_payload(self, header: Header) -> None:
        channel, buffer = self._channel, self.buffer
        if channel is None:
            return
        assert buffer is not None
        self.buffer = None
        _, _, _, _, _, sequence_number, backlog, data_type, _, size = header
        record, now_ns, pool = self._record, self._control.now_ns, channel.buffers.pool
        note_received(
            record, now_ns, channel.index, data_type, sequence_number, size, backlog, -1, -1, pool
        )
        arrived = StagedBuffer(self, channel, buffer, sequence_number, self._needs_memory)
        if self._staged or not self._deliver(arrived):
            self._stage(arrived)

    def receive_message(self, message: Message) -> None:
        if self._staged:
            self._stage(message)
        else:
            self._handle_message(message)

    def handle_buffer_available(self) -> None:
        """Note that the first staged message has got its buffer, or its pool is destroyed."""
        self._is_due = True

    def _stage(self, arrived: StagedBuffer | Message) -> None:
        if self.wants_data:
            self.wants_data = False
            assert isinstance(arrived, StagedBuffer)
            self._control.note(_READING_STOPS, 0, arrived.channel.index)
        self._staged.append(arrived)

    def _resume_reading(self) -> None:
        if not self.wants_data:
            self.wants_data = True
            self._control.note(_READING_RESUMES, 0, -1)

    def _handle_message(self, message: Message) -> None:
        if isinstance(message, BacklogAnnouncement):
            channel = self._channels.get(message.receiver_id)
            if channel is not None:
                text = f"{self._peer} waits for credit, but flow control is tcp here"
                self._fail_channel(channel, RemoteTransportError(text))
        elif isinstance(message, BufferResponse):
            channel = self._channels.get(message.receiver_id)
            if channel is not None:
                text = "several buffers in one message, which no producer without credit sends"
                self._fail_channel(channel, FrameCorruptedError(text))
        else:
            super().receive_message(message)

    def _deliver(self, arrived: StagedBuffer) -> bool:
        """Pass a message to its channel. Returns: False if it must wait for a buffer."""
        channel = arrived.channel
        if channel.is_released or channel.error is not None or channel.buffers.pool.is_destroyed:
            arrived.drop()
            return True
        if not arrived.find_memory():
            return False
        # Backlog 0: without credit no buffers are requested in advance.
        self._hand_over(channel, arrived.buffer, arrived.sequence_number, 0)
        return True


class StagedBuffer:
    """A received message that waits for a buffer of its gate's pool (Flink: BufferListenerTask)."""

    def __init__(
        self,
        handler: PartitionRequestClientHandler,
        channel: RemoteInputChannel,
        buffer: NetworkBuffer,
        sequence_number: int,
        needs_memory: bool,
    ) -> None:
        self._handler = handler
        self.channel = channel
        self.buffer = buffer
        self.sequence_number = sequence_number
        self._needs_memory = needs_memory
        self._memory: NetworkBuffer | None = None
        self._is_listening = False

    def find_memory(self) -> bool:
        """Move the payload to a buffer of the pool, if needed; False if it has to wait for one."""
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
        self._is_listening = False
        self.buffer.recycle()
        if self._memory is not None:
            self._memory.recycle()
            self._memory = None

    def receive_buffer(self, buffer: NetworkBuffer) -> bool:
        """Take a recycled buffer from the pool; refuses it if the message was dropped meanwhile."""
        if not self._is_listening:
            return False
        self._is_listening = False
        self._memory = buffer
        self._handler.handle_buffer_available()
        return True

    def handle_pool_destroyed(self) -> None:
        self._is_listening = False
        self._handler.handle_buffer_available()
