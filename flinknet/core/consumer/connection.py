# mypyc
"""ConsumerConnection: the consumer's end of a connection (Flink: NettyPartitionRequestClient)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from flinknet import errors
from flinknet.core.connection import SEND_BATCH_BYTES
from flinknet.core.probe import ControlMessages, MessageKind, Probe, TracePoint, note
from flinknet.core.wire import messages
from flinknet.core.wire.frames import LayoutDetectingDecoder
from flinknet.core.wire.ids import ResultSubpartitionIndexSet
from flinknet.core.wire.layout import encode_add_credit
from flinknet.core.wire.response_decoder import ResponseDecoder, ResponseSink

from .client_handler import CreditBasedPartitionRequestClientHandler
from .input_channel import RemoteInputChannel
from .request_backoff import RequestBackoff, RequestBackoffPolicy
from .tcp_mode import PartitionRequestClientHandler

_SENT, _RECEIVED = int(TracePoint.SENT), int(TracePoint.RECEIVED)
_ADD_CREDIT, _ERROR_RESPONSE = int(MessageKind.ADD_CREDIT), int(MessageKind.ERROR_RESPONSE)


class ConsumerConnection:
    """The reading side of a connection (implements `core.connection.ScatteringConnection`, and
    `input_channel.PartitionRequestClient` for its channels).

    Args:
        peer: the producer's address, for error messages.
        create_decoder: creates the decoder of the stream; by default of layout "2.x".
        is_credit_based: False for a connection as before Flink 1.5, without credit.

    Attributes:
        references: number of channels that use this connection and are not closed yet.
        is_reusable: whether it stays open after the last of them.
        error: what ended it; every channel failed with it, and new ones are refused.
    """

    def __init__(
        self,
        peer: str,
        probe: Probe,
        create_decoder: Callable[
            [ResponseSink], ResponseDecoder | LayoutDetectingDecoder
        ] = ResponseDecoder,
        *,
        is_credit_based: bool = True,
    ) -> None:
        self.peer = peer
        self.is_credit_based = is_credit_based
        self.backoff_policy = RequestBackoffPolicy()
        self.references = 0
        self.is_reusable = True
        self.error: errors.FlinknetError | None = None
        self.is_closing = False
        self._is_disposed = False
        self._unsent: list[RemoteInputChannel] = []  # their requests, or handed over just now
        self._are_handed_over = False
        self._backoffs: dict[bytes, RequestBackoff] = {}
        self._repetitions: dict[bytes, int] = {}  # when to repeat a request, by receiver
        self._channels: dict[bytes, RemoteInputChannel] = {}
        self._with_credit: deque[RemoteInputChannel] = deque()
        self._control = ControlMessages(probe)
        create_handler = CreditBasedPartitionRequestClientHandler
        if not is_credit_based:
            create_handler = PartitionRequestClientHandler
        self._handler = create_handler(peer, self._channels, self._control, self._receive_error)
        self._decoder = create_decoder(self._handler)

    # ScatteringConnection: called by the driver

    @property
    def wants_data(self) -> bool:
        return self._handler.wants_data

    @property
    def is_ready(self) -> bool:
        """Whether a channel has new credit, a message waits or a staged one has got its buffer."""
        return (
            bool(self._with_credit)
            or self._control.is_waiting
            or self._handler.next_deadline_ns() is not None
        )

    def receive_data(self, data: memoryview, *, now_ns: int) -> None:
        """Handle data. Raises: RemoteProtocolError; every channel has failed then."""
        self._control.now_ns = now_ns
        try:
            self._decoder.receive(data)
        except errors.RemoteProtocolError as error:
            self._fail_all(error)
            raise

    def memory_to_fill(self) -> Sequence[memoryview]:
        return self._decoder.memory_to_fill()

    def memory_filled(self, count: int, *, now_ns: int) -> None:
        self._control.now_ns = now_ns
        try:
            self._decoder.memory_filled(count)
        except errors.RemoteProtocolError as error:
            self._fail_all(error)
            raise

    def receive_eof(self, *, now_ns: int, error: errors.TransportError | None = None) -> None:
        """Fail all open channels, and remove those whose request was not sent."""
        self._control.now_ns = now_ns
        self._handler.drop()
        loss = error or errors.RemoteTransportError("was closed by it")
        self._is_disposed = True
        unsent, self._unsent = self._unsent, []
        for channel in unsent:
            text = f"channel {channel.index}: its partition request to {self.peer} was not sent"
            channel.fail(errors.LocalTransportError(f"{text}; the connection {loss}"))
        if self._channels:
            self.fail(loss, now_ns=now_ns)
        for channel in unsent:
            self._channels.pop(channel.receiver_id, None)

    def fail(self, error: errors.TransportError, *, now_ns: int) -> None:
        """Fail all channels ("the connection to … {error}"), and refuse new ones."""
        self._control.now_ns = now_ns
        self._fail_all(self._described(error))

    def fail_to_connect(self, error: errors.TransportError, *, now_ns: int) -> None:
        """Fail each channel with a PartitionConnectionError that names its partition."""
        self._control.now_ns = now_ns
        described = self._described(error)
        for channel in self._channels.values():
            channel.fail(channel.unreachable(described))
        self._fail_all(described)

    def _described(self, error: errors.TransportError) -> errors.TransportError:
        channels = sorted(channel.index for channel in self._channels.values())
        text = f"the connection to {self.peer} {error}"
        if isinstance(error, errors.RemoteTransportError):
            text += "; that task manager may be lost"
        if channels:
            text += f". {errors.failed_channels(channels)}"
        return type(error)(text, self.peer, channels)

    def data_to_send(
        self, *, now_ns: int, unsent_bytes: int = 0, room_bytes: int = SEND_BATCH_BYTES
    ) -> Sequence[bytes | memoryview]:
        """Requests and notices, then an AddCredit per channel with new credit; nothing while bytes
        wait for the socket, so that credit accumulates meanwhile.
        """
        if unsent_bytes:
            return ()
        self._control.now_ns = now_ns
        out: list[bytes | memoryview] = []
        if self._unsent:
            if self._are_handed_over:  # then they are sent by now
                self._unsent.clear()
            self._are_handed_over = True
        self._control.move_to(out)
        record, with_credit = self._control.record, self._with_credit
        while with_credit:
            channel = with_credit.popleft()
            credit = channel.take_unannounced_credit()
            if credit == 0 or channel.is_released:
                continue
            out.append(encode_add_credit(channel.receiver_id, credit))
            pool = channel.buffers.pool
            note(
                record,
                now_ns,
                channel.index,
                _SENT,
                _ADD_CREDIT,
                credit_before=credit,
                credit_after=0,
                pool_available_buffers=pool.available_buffers,
                pool_size_buffers=pool.size_buffers,
                value=credit,
            )
        return out

    def next_deadline_ns(self) -> int | None:
        due_ns = self._handler.next_deadline_ns()
        if due_ns is not None or not self._repetitions:
            return due_ns
        return min(self._repetitions.values())

    def handle_deadline(self, *, now_ns: int) -> None:
        self._control.now_ns = now_ns
        for receiver_id in [each for each, at_ns in self._repetitions.items() if now_ns >= at_ns]:
            del self._repetitions[receiver_id]
            channel = self._channels.get(receiver_id)
            if channel is not None and channel.error is None:
                self._send_request(channel)
        self._handler.handle_deadline()

    @property
    def staged_bytes(self) -> int:
        return self._handler.staged_bytes

    # PartitionRequestClient: called by channels and their creators

    @property
    def is_usable(self) -> bool:
        """Whether another channel may be opened on it."""
        return self.error is None and not self._is_disposed

    def request_subpartition(self, channel: RemoteInputChannel, *, now_ns: int) -> None:
        """Open a channel; its request goes out with the next bytes."""
        self._control.now_ns = now_ns
        if self.error is not None:
            channel.fail(self.error)
            return
        self._channels[channel.receiver_id] = channel
        channel.connection = self
        self._send_request(channel)

    def request_again(self, channel: RemoteInputChannel, *, now_ns: int) -> None:
        """Repeat a refused request, now or later, or fail its channel with the refusal."""
        self._control.now_ns = now_ns
        backoff = self._backoffs.setdefault(
            channel.receiver_id, RequestBackoff(self.backoff_policy)
        )
        delay_ns = backoff.next_delay_ns()
        if delay_ns is None:
            assert channel.refusal is not None
            channel.fail(channel.refusal)
        elif delay_ns:
            self._repetitions[channel.receiver_id] = now_ns + delay_ns
        else:
            self._send_request(channel)

    def notify_credit_available(self, channel: RemoteInputChannel) -> None:
        """Queue an AddCredit; the amount is determined when it is sent."""
        self._with_credit.append(channel)

    def send(
        self,
        channel: RemoteInputChannel,
        message: messages.Message,
        *,
        value: int = -1,
        now_ns: int | None = None,
    ) -> None:
        if now_ns is not None:
            self._control.now_ns = now_ns
        self._control.send(message.encode(), message.ID, channel.index, value=value)

    def close_channel(self, channel: RemoteInputChannel) -> None:
        """Remove the channel and queue CancelPartitionRequest; or CloseRequest, if it was the last
        one and the connection is not reusable. Then the producer closes it.
        """
        if self._channels.pop(channel.receiver_id, None) is not None:
            self._backoffs.pop(channel.receiver_id, None)
            self._repetitions.pop(channel.receiver_id, None)
            self.references = max(0, self.references - 1)
            if self.references or (self.is_reusable and self.error is None):
                self.send(channel, messages.CancelPartitionRequest(channel.receiver_id))
            elif not self._is_disposed:
                self._is_disposed = True
                self._control.send(messages.CloseRequest().encode(), MessageKind.CLOSE_REQUEST, -1)
        self._handler.handle_closed_channel()

    def _send_request(self, channel: RemoteInputChannel) -> None:
        subpartitions = ResultSubpartitionIndexSet(channel.subpartition, channel.subpartition)
        credit = channel.initial_credit
        self._unsent.append(channel)
        self._are_handed_over = False
        message = messages.PartitionRequest(
            channel.partition_id, subpartitions, channel.receiver_id, credit
        )
        self.send(channel, message, value=credit)

    def _receive_error(self, message: messages.ErrorResponse) -> None:
        """Fail all channels or one; a channel without a partition handles the refusal itself."""
        cause, control = message.cause, self._control
        text = f"{cause.class_name.rsplit('.', 1)[-1]}: {cause.message}"
        if message.receiver_id is None:
            control.note(_RECEIVED, _ERROR_RESPONSE, -1)
            self._fail_all(
                errors.RemoteTransportError(
                    f"fatal error at remote task manager {self.peer}: {text}"
                )
            )
            return
        channel = self._channels.get(message.receiver_id)
        if channel is None:
            return
        control.note(_RECEIVED, _ERROR_RESPONSE, channel.index)
        if not cause.class_name.endswith(".PartitionNotFoundException"):
            channel.fail(errors.ProducerFailedError(f"{self.peer}: {text}"))
            return
        refusal = errors.PartitionNotFoundError(f"{self.peer}: {text}")
        channel.receive_refusal(refusal, now_ns=control.now_ns)

    def _fail_all(self, error: errors.FlinknetError) -> None:
        """Fail every channel and close (Flink: notifyAllChannelsOfErrorAndClose)."""
        self.is_closing = True
        self._handler.drop()
        if self.error is None:
            self.error = error
        for channel in self._channels.values():
            channel.fail(error)
