# mypyc
"""ViewRequests: the PartitionRequests of one connection, until each has a reader.

A request for an unregistered partition waits for it, up to a timeout. What a peer may do depends on
its requests so far (PeerTrust).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial

from flinknet.core.probe import ControlMessages, MessageKind, TracePoint
from flinknet.core.wire.frames import FRAME_BYTES_MAX, FrameDecoder
from flinknet.core.wire.ids import InputChannelID, ResultPartitionID, ResultSubpartitionIndexSet
from flinknet.core.wire.java_errors import (
    ILLEGAL_ARGUMENT_EXCEPTION,
    ILLEGAL_STATE_EXCEPTION,
    PARTITION_NOT_FOUND_EXCEPTION,
    JavaThrowable,
)
from flinknet.core.wire.messages import ErrorResponse, PartitionRequest
from flinknet.errors import FlinknetError, RemoteProtocolError

from .result_partition import PartitionRequestListener, ResultPartition, ResultPartitionManager
from .view_reader import CreditBasedSequenceNumberingViewReader, PartitionRequestQueue

FIRST_FRAME_BYTES_MAX = 4096
"""Longest frame before a connection has requested something of the run; a PartitionRequest has 97
bytes."""

STRANGE_REQUESTS_MAX = 128
"""Most requests for unknown receivers; a connection that makes more is closed."""

UNSENT_ERRORS_BYTES_MAX = 64 * 1024
"""A peer that leaves more unread is not read any further (Netty's high water mark)."""

_ERROR_RESPONSE = int(MessageKind.ERROR_RESPONSE)


class PeerTrust:
    """Counts a peer's requests outside the run, and answers with errors.

    Attributes:
        is_of_run: whether it has requested something of the run.
        strange_requests: number of messages for unknown receivers.
        is_read: False while too many errors are waiting to be sent.
    """

    def __init__(
        self, decoder: FrameDecoder, control: ControlMessages, channel_of: Mapping[bytes, int]
    ) -> None:
        self._decoder = decoder
        self._control = control
        self._channel_of = channel_of
        self.unsent_errors_bytes = 0
        self.is_of_run = False
        self.is_read = True
        self.strange_requests = 0

    def channel_of(self, receiver_id: bytes | None) -> int:
        """Index of a channel in the run; -1 if it is unknown."""
        return -1 if receiver_id is None else self._channel_of.get(receiver_id, -1)

    def admit(self) -> None:
        """Trust the peer: it has requested something of the run."""
        self.is_of_run = True
        self._decoder.frame_bytes_max = FRAME_BYTES_MAX

    def count_request(self, receiver_id: bytes) -> None:
        """Count a message of an unknown receiver. Raises: RemoteProtocolError after too many."""
        if receiver_id in self._channel_of:
            return
        self.strange_requests += 1
        if self.strange_requests > STRANGE_REQUESTS_MAX:
            raise RemoteProtocolError(
                f"more than {STRANGE_REQUESTS_MAX} requests for receivers that are not of this run"
            )

    def send_error(self, class_name: str, text: str, receiver_id: bytes | None) -> None:
        """Answer with an ErrorResponse, for one receiver or (None) fatal for the connection."""
        receiver = InputChannelID(receiver_id) if receiver_id is not None else None
        answer = ErrorResponse(JavaThrowable(class_name, text), receiver).encode()
        self._control.send(answer, _ERROR_RESPONSE, self.channel_of(receiver_id))
        self.unsent_errors_bytes += len(answer)
        if self.unsent_errors_bytes > UNSENT_ERRORS_BYTES_MAX:
            self.is_read = False

    @property
    def may_resume_reading(self) -> bool:
        """Whether it was not read, but has since read its answers."""
        return not self.is_read and not self.unsent_errors_bytes


_RECEIVED = int(TracePoint.RECEIVED)
_PARTITION_REQUEST = int(MessageKind.PARTITION_REQUEST)


ENDED_READERS_KEPT = 1024
"""Readers of ended channels whose last figures are kept for snapshots."""


class ViewRequests:
    """Creates readers and attaches them (Flink: CreditBasedSequenceNumberingViewReader with
    NettyPartitionRequestListener).

    Args:
        create_reader: creates the reader of a receiver, given its channel and initial credit.
        fail: closes the connection: an awaited partition cannot be read.
        timeout_ns: how long a request for an unknown partition waits (Flink checks once per
            timeout, so requests wait between one and two of them; here exactly one).

    Attributes:
        waiting: deadline and partition of each request that waits, by receiver.
        opened_readers: all attached readers and the latest ended ones, in the order of requests.
    """

    def __init__(
        self,
        partitions: ResultPartitionManager,
        queue: PartitionRequestQueue,
        peer: PeerTrust,
        control: ControlMessages,
        create_reader: Callable[[bytes, int, int], CreditBasedSequenceNumberingViewReader],
        fail: Callable[[FlinknetError], None],
        *,
        timeout_ns: int,
    ) -> None:
        self._partitions = partitions
        self._queue = queue
        self._peer = peer
        self._control = control
        self._create_reader = create_reader
        self._fail = fail
        self._timeout_ns = timeout_ns
        self.waiting: OrderedDict[bytes, tuple[int, ResultPartitionID]] = OrderedDict()
        self.opened_readers: list[CreditBasedSequenceNumberingViewReader] = []

    def open(self, message: PartitionRequest) -> None:
        """Handle a request: attach a reader, refuse it, or wait for the partition."""
        receiver_id, indices = message.receiver_id, message.queue_index_set
        control, peer = self._control, self._peer
        channel = peer.channel_of(receiver_id)
        reader = self._create_reader(receiver_id, channel, message.credit)
        partition = self._partitions.find(message.partition_id)
        refusal: tuple[str, str] | None = None  # exception class and text
        if receiver_id in self._queue.readers or receiver_id in self.waiting:
            text = f"receiver {receiver_id.hex()} has requested a subpartition already"
            refusal = ILLEGAL_STATE_EXCEPTION, text
        elif message.credit < 0:
            refusal = ILLEGAL_ARGUMENT_EXCEPTION, f"negative credit {message.credit}"
        elif self._partitions.is_waited_for(message.partition_id, receiver_id):
            text = f"receiver {receiver_id.hex()} waits for it over another connection"
            refusal = ILLEGAL_STATE_EXCEPTION, text
        elif partition is not None:
            refusal = self._attach(reader, indices, partition)
        is_refused = refusal is not None
        control.note(
            _RECEIVED,
            _PARTITION_REQUEST,
            channel,
            value=message.credit,
            credit_before=-1 if is_refused else 0,
            credit_after=-1 if is_refused else message.credit,
        )
        peer.count_request(receiver_id)
        if refusal is not None:
            peer.send_error(refusal[0], refusal[1], None)
            return
        if channel >= 0:
            peer.admit()
        if partition is None:
            due_ns = control.now_ns + self._timeout_ns
            self.waiting[receiver_id] = (due_ns, message.partition_id)
            listener = PartitionRequestListener(
                partial(self._serve, reader, indices), partial(self._refuse, receiver_id)
            )
            self._partitions.wait_for(message.partition_id, receiver_id, listener)

    def cancel(self, receiver_id: bytes) -> None:
        if receiver_id in self.waiting:
            _, partition_id = self.waiting.pop(receiver_id)
            self._partitions.stop_waiting(partition_id, receiver_id)

    def next_deadline_ns(self) -> int | None:
        for due_ns, _ in self.waiting.values():  # the oldest is first
            return due_ns
        return None

    def handle_deadline(self, *, now_ns: int) -> None:
        """Refuse requests that have waited too long for their partition."""
        while self.waiting:
            receiver_id = next(iter(self.waiting))
            due_ns, partition_id = self.waiting[receiver_id]
            if now_ns < due_ns:
                break
            self._partitions.stop_waiting(partition_id, receiver_id)
            self._refuse(receiver_id)

    def _attach(
        self,
        reader: CreditBasedSequenceNumberingViewReader,
        indices: ResultSubpartitionIndexSet,
        partition: ResultPartition,
    ) -> tuple[str, str] | None:
        """Attach a reader to its subpartitions. Returns: why not: exception class and text."""
        try:
            reader.attach(partition, indices.start_index, indices.end_index)
        except (IndexError, RuntimeError) as error:
            is_state = isinstance(error, RuntimeError)
            return ILLEGAL_STATE_EXCEPTION if is_state else ILLEGAL_ARGUMENT_EXCEPTION, str(error)
        self._queue.add(reader)
        self.opened_readers.append(reader)
        readers = self._queue.readers
        surplus = len(self.opened_readers) - len(readers) - ENDED_READERS_KEPT
        if surplus > ENDED_READERS_KEPT:  # a connection may outlive any number of attempts
            kept = []
            for each in self.opened_readers:
                if readers.get(each.receiver_id) is each or surplus <= 0:
                    kept.append(each)
                else:
                    surplus -= 1
            self.opened_readers[:] = kept
        self._peer.admit()
        return None

    def _serve(
        self,
        reader: CreditBasedSequenceNumberingViewReader,
        indices: ResultSubpartitionIndexSet,
        partition: ResultPartition,
    ) -> None:
        """Attach the reader of a waiting request: its partition is registered."""
        if self.waiting.pop(reader.receiver_id, None) is None:
            return  # the connection failed while an earlier request was served
        try:
            refusal = self._attach(reader, indices, partition)
        except FlinknetError as error:
            self._fail(error)
            return
        if refusal is not None:
            self._peer.send_error(refusal[0], refusal[1], None)

    def _refuse(self, receiver_id: bytes) -> None:
        """Refuse a waiting request: its partition was never registered."""
        _, partition_id = self.waiting.pop(receiver_id)
        self._peer.send_error(
            PARTITION_NOT_FOUND_EXCEPTION, f"Partition {partition_id} not found.", receiver_id
        )
