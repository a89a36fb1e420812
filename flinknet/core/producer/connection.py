# mypyc
"""ProducerConnection: the producer's end of a TCP connection (Flink: PartitionRequestQueue)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from flinknet import errors
from flinknet.core.buffers import BufferSlice, LocalBufferPool
from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.connection import SEND_BATCH_BYTES, ProducerChannelSnapshot, WriteWaterMarks
from flinknet.core.probe import ControlMessages, Probe, note_sent
from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.java_errors import ILLEGAL_STATE_EXCEPTION
from flinknet.core.wire.layout import (
    BUFFER_RESPONSE_HEADER_BYTES,
    Direction,
    decode_add_credits,
    encode_buffer_response_header,
)

from .peer_trust import FIRST_FRAME_BYTES_MAX, PeerTrust
from .result_partition import ResultPartitionManager
from .server_handler import ChannelAdopter, PartitionRequestServerHandler
from .view_reader import CreditBasedSequenceNumberingViewReader, PartitionRequestQueue


class ProducerConnection:
    """The serving side of a connection (implements `core.connection.Connection`).

    Args:
        channel_of: index of each channel in the run, by receiver id; unknown ones are traced as -1.
        partition_request_timeout_ns: how long a request for an unknown partition waits.
        is_credit_based, adopt: see `PartitionRequestServerHandler`.

    Attributes:
        trust: how far the consumer is trusted.
        water_marks: limits on bytes waiting for the socket, by default Netty's: above the high mark
            no buffer is handed over, until they are below the low one.
        batch_bytes: bytes after which no further buffer is handed over in one call.
        loss: what ended the connection while channels were open; `lost_channels` are these.
    """

    def __init__(
        self,
        partitions: ResultPartitionManager,
        probe: Probe,
        channel_of: Mapping[bytes, int],
        *,
        partition_request_timeout_ns: int,
        is_credit_based: bool = True,
        adopt: ChannelAdopter | None = None,
        water_marks: WriteWaterMarks | None = None,
    ) -> None:
        self._record = probe.record
        self._control = ControlMessages(probe)
        self._decoder = FrameDecoder(
            Direction.CONSUMER_TO_PRODUCER, frame_bytes_max=FIRST_FRAME_BYTES_MAX
        )
        self.trust = PeerTrust(self._decoder, self._control, channel_of)
        self.queue = PartitionRequestQueue()
        self._handler = PartitionRequestServerHandler(
            partitions,
            self.queue,
            self.trust,
            self._control,
            partition_request_timeout_ns=partition_request_timeout_ns,
            is_credit_based=is_credit_based,
            adopt=adopt,
        )
        self.batch_bytes = SEND_BATCH_BYTES
        self.water_marks = water_marks or WriteWaterMarks()
        self.loss: errors.TransportError | None = None
        self.lost_channels: list[int] = []
        self._is_writable = True
        self._handed_over_bytes = 0
        self._in_flight: deque[tuple[int, LocalBufferPool, int, Sequence[BufferSlice]]] = deque()

    @property
    def is_closing(self) -> bool:
        return self._handler.is_closing

    @property
    def wants_data(self) -> bool:
        """Whether to read from the peer: False while it does not read its answers."""
        return self.trust.is_read

    @property
    def is_ready(self) -> bool:
        """Whether a reader was notified, an answer waits, or the peer has read its answers."""
        return (
            bool(self._handler.notified)
            or self._control.is_waiting
            or self.trust.may_resume_reading
        )

    @property
    def waiting_requests(self) -> int:
        return len(self._handler.waiting)

    @property
    def opened_readers(self) -> list[CreditBasedSequenceNumberingViewReader]:
        """The latest ended readers, then those that are open."""
        return [*self._handler.ended_readers, *self.queue.readers.values()]

    def receive_data(self, data: memoryview, *, now_ns: int) -> None:
        """Handle messages of the consumer; ignored once the connection has failed or is closing.

        Raises: RemoteProtocolError for invalid bytes; a fatal ErrorResponse remains to be sent.
        """
        if self.is_closing:
            return
        self._control.now_ns = now_ns
        handler = self._handler
        try:
            credits = None if self._decoder.pending_bytes else decode_add_credits(data)
            if credits is not None:
                for credit, receiver_id in credits:
                    handler.add_credit(credit, receiver_id)
            else:
                for message in self._decoder.messages(data):
                    handler.handle(message)
        except errors.RemoteProtocolError as error:
            self._fail(error, "because of a wrong message")
            raise
        except errors.FlinknetError as error:
            self._fail(error)

    def receive_eof(self, *, now_ns: int, error: errors.TransportError | None = None) -> None:
        """Release all readers: the consumer is gone. Those not canceled are `lost`."""
        self._control.now_ns = now_ns
        self._lose(error or errors.RemoteTransportError("was closed by it"))
        self._handler.release_all()
        self._recycle_in_flight(self._handed_over_bytes)
        self._control.clear()
        self._decoder = FrameDecoder(Direction.CONSUMER_TO_PRODUCER)

    def data_to_send(
        self, *, now_ns: int, unsent_bytes: int = 0, room_bytes: int = SEND_BATCH_BYTES
    ) -> Sequence[bytes | memoryview]:
        """Control messages, then buffers in turn: as many as the socket has room for, up to
        `batch_bytes`, and those that exceed the high water mark.
        """
        if unsent_bytes or not self._is_writable:
            self.water_marks.set_pending(unsent_bytes)
            self._is_writable = self.water_marks.is_writable
        if self._in_flight:
            self._recycle_in_flight(self._handed_over_bytes - unsent_bytes)
        if self._handler.notified:
            self._handler.enqueue_notified(now_ns=now_ns)
        out: list[bytes | memoryview] = []
        if not unsent_bytes:
            self.trust.unsent_errors_bytes = 0
        self._move_answers_to(out)
        available = self.queue.available
        if not available or not self._is_writable:
            return out
        left_bytes = self.batch_bytes
        is_limited = room_bytes < left_bytes + unsent_bytes
        if is_limited:  # each buffer is counted with its header then
            left_bytes = min(
                left_bytes, room_bytes + self.water_marks.high_bytes - unsent_bytes + 1
            )
        while available and left_bytes > 0:
            try:
                polled = self.queue.poll(1 if is_limited else left_bytes)
            except errors.FlinknetError as error:
                self._control.now_ns = now_ns
                self._fail(error)
                self._move_answers_to(out)
                break
            if polled is None:
                break
            left_bytes -= self._frame(*polled, out, now_ns)
        return out

    def snapshot(self, *, now_ns: int) -> tuple[ProducerChannelSnapshot, ...]:
        return tuple(
            [
                ProducerChannelSnapshot(
                    reader.channel,
                    0 if reader.subpartition is None else reader.subpartition.backlog(),
                    reader.credits_available,
                    reader.starved_until(now_ns),
                )
                for reader in self.opened_readers
            ]
        )

    def next_deadline_ns(self) -> int | None:
        """When the oldest waiting request times out; now to read the peer again."""
        return 0 if self.trust.may_resume_reading else self._handler.next_deadline_ns()

    def handle_deadline(self, *, now_ns: int) -> None:
        """Refuse requests that have waited too long; read the peer again."""
        self._control.now_ns = now_ns
        self._handler.handle_deadline(now_ns=now_ns)
        if not self.trust.unsent_errors_bytes:
            self.trust.is_read = True

    def _frame(
        self,
        reader: CreditBasedSequenceNumberingViewReader,
        run: Sequence[BufferSlice],
        out: list[bytes | memoryview],
        now_ns: int,
    ) -> int:
        """Frame a reader's buffers, or one event. Returns: bytes of the frames."""
        assert reader.partition is not None
        assert reader.subpartition is not None
        record, receiver_id, channel = self._record, reader.receiver_id, reader.channel
        subpartition_id, pool = reader.subpartition.index, reader.partition.pool
        data_type = run[0].data_type
        price = reader.credit_per_buffer if data_type in IS_BUFFER else 0
        credit = reader.credits_available + price * len(run)
        sent_bytes = len(run) * BUFFER_RESPONSE_HEADER_BYTES
        append, encode = out.append, encode_buffer_response_header
        for piece in run:
            size, number, backlog = piece.size_bytes, piece.sequence_number, piece.backlog_buffers
            is_compressed = piece.buffer.is_compressed
            append(
                encode(
                    receiver_id, subpartition_id, number, backlog, data_type, is_compressed, size
                )
            )
            if size:
                append(piece.view)
                sent_bytes += size
            note_sent(record, now_ns, channel, piece, credit, credit - price, pool)
            credit -= price
        if not credit and backlog:
            reader.note_starved(now_ns=now_ns)
        self._handed_over_bytes += sent_bytes
        self._in_flight.append((self._handed_over_bytes, pool, subpartition_id, run))
        return sent_bytes

    def _move_answers_to(self, out: list[bytes | memoryview]) -> None:
        if self._control.is_waiting:
            first = len(out)
            self._control.move_to(out)
            self._handed_over_bytes += sum([len(each) for each in out[first:]])

    def _fail(self, error: errors.FlinknetError, why: str = "for it could not be served") -> None:
        """Fail the connection: release its readers, send a fatal error to the consumer, and close
        once it is sent (Flink: PartitionRequestQueue.exceptionCaught).
        """
        self.trust.send_error(ILLEGAL_STATE_EXCEPTION, str(error))
        self._lose(errors.TransportError(f"was closed {why}: {error}"))
        self._handler.release_all()
        self._handler.is_closing = True

    def _lose(self, loss: errors.TransportError) -> None:
        """Record what ended the connection, if channels are open; the first reason is kept."""
        if self.loss is None and self.queue.readers:
            self.loss = loss
            self.lost_channels = sorted(reader.channel for reader in self.queue.readers.values())

    def _recycle_in_flight(self, sent_bytes: int) -> None:
        """Recycle buffers that the socket has taken, up to this number of bytes handed over."""
        in_flight = self._in_flight
        while in_flight and in_flight[0][0] <= sent_bytes:
            _, pool, channel, run = in_flight.popleft()
            pool.recycle_slices(channel, run)
