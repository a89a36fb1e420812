# mypyc
"""ViewRequests: the PartitionRequests of one connection, until each has a reader.

A request for a partition that is not registered (yet) waits for it, up to a time-out.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from flinknet.core.control_messages import ControlMessages
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.core.wire.ids import ResultPartitionID, ResultSubpartitionIndexSet
from flinknet.core.wire.java_errors import (
    ILLEGAL_ARGUMENT_EXCEPTION,
    ILLEGAL_STATE_EXCEPTION,
    PARTITION_NOT_FOUND_EXCEPTION,
)
from flinknet.core.wire.messages import PartitionRequest
from flinknet.errors import FlinknetError

from .peer_trust import PeerTrust
from .request_queue import PartitionRequestQueue
from .result_partition import PartitionRequestListener, ResultPartition, ResultPartitionManager
from .view_reader import CreditBasedSequenceNumberingViewReader

_RECEIVED = int(TracePoint.RECEIVED)
_PARTITION_REQUEST = int(MessageKind.PARTITION_REQUEST)


ENDED_READERS_KEPT = 1024
"""Readers of channels that have ended, of which a snapshot still has the last figures."""


class ViewRequests:
    """Makes readers and attaches them (Flink: CreditBasedSequenceNumberingViewReader with
    NettyPartitionRequestListener).

    Args:
        queue: takes the readers.
        create_reader: makes one for a receiver, its channel and its initial credit.
        fail: ends the connection: what a request waited for has come and cannot be read.
        timeout_ns: how long a request for an unknown partition waits (Flink checks in steps of the
            time-out, so that the wait there is between one and two of them; here it is one).

    Attributes:
        opened_readers: those that are attached and the last of those that were, in that order.
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
        self._waiting: OrderedDict[bytes, tuple[int, ResultPartitionID]] = OrderedDict()
        self.opened_readers: list[CreditBasedSequenceNumberingViewReader] = []

    @property
    def waiting(self) -> int:
        """Requests that wait for their partition."""
        return len(self._waiting)

    def open(self, message: PartitionRequest) -> None:
        """Serve a request, refuse it, or let it wait for its partition."""
        receiver_id, indices = message.receiver_id, message.queue_index_set
        control, peer = self._control, self._peer
        channel = peer.channel_of(receiver_id)
        reader = self._create_reader(receiver_id, channel, message.credit)
        partition = self._partitions.find(message.partition_id)
        refusal = self._objection_to(message)
        if refusal is None and partition is not None:
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
            self._waiting[receiver_id] = (due_ns, message.partition_id)
            listener = PartitionRequestListener(
                partial(self._serve, reader, indices), partial(self._refuse, receiver_id)
            )
            self._partitions.wait_for(message.partition_id, receiver_id, listener)

    def cancel(self, receiver_id: bytes) -> None:
        """Forget a request that waits."""
        if receiver_id in self._waiting:
            _, partition_id = self._waiting.pop(receiver_id)
            self._partitions.stop_waiting(partition_id, receiver_id)

    def cancel_all(self) -> None:
        """Forget all that wait."""
        for receiver_id in list(self._waiting):
            self.cancel(receiver_id)

    def next_deadline_ns(self) -> int | None:
        """When the oldest request times out."""
        for due_ns, _ in self._waiting.values():  # the oldest comes first
            return due_ns
        return None

    def handle_deadline(self, *, now_ns: int) -> None:
        """Refuse requests that waited too long for their partition."""
        while self._waiting:
            receiver_id = next(iter(self._waiting))
            due_ns, partition_id = self._waiting[receiver_id]
            if now_ns < due_ns:
                break
            self._partitions.stop_waiting(partition_id, receiver_id)
            self._refuse(receiver_id)

    def _objection_to(self, message: PartitionRequest) -> tuple[str, str] | None:
        """Why a request is refused, whatever its partition: class of the exception, and text."""
        if message.receiver_id in self._queue.readers or message.receiver_id in self._waiting:
            text = f"receiver {message.receiver_id.hex()} has requested a subpartition already"
            return ILLEGAL_STATE_EXCEPTION, text
        if message.credit < 0:
            return ILLEGAL_ARGUMENT_EXCEPTION, f"negative credit {message.credit}"
        if self._partitions.is_waited_for(message.partition_id, message.receiver_id):
            text = f"receiver {message.receiver_id.hex()} waits for it over another connection"
            return ILLEGAL_STATE_EXCEPTION, text
        return None

    def _attach(
        self,
        reader: CreditBasedSequenceNumberingViewReader,
        indices: ResultSubpartitionIndexSet,
        partition: ResultPartition,
    ) -> tuple[str, str] | None:
        """Let a reader read its subpartitions. Returns: why not, as `_objection_to`."""
        try:
            reader.attach(partition, indices.start_index, indices.end_index)
        except (IndexError, RuntimeError) as error:
            is_state = isinstance(error, RuntimeError)
            return ILLEGAL_STATE_EXCEPTION if is_state else ILLEGAL_ARGUMENT_EXCEPTION, str(error)
        self._queue.add(reader)
        self.opened_readers.append(reader)
        if len(self.opened_readers) - len(self._queue.readers) > 2 * ENDED_READERS_KEPT:
            self._forget_ended_readers()
        self._peer.admit()
        return None

    def _forget_ended_readers(self) -> None:
        """Forget all but the last of them: a connection may outlive any number of attempts."""
        readers = self._queue.readers
        surplus = len(self.opened_readers) - len(readers) - ENDED_READERS_KEPT
        kept = []
        for each in self.opened_readers:
            is_open = readers.get(each.receiver_id) is each
            if is_open or surplus <= 0:
                kept.append(each)
            else:
                surplus -= 1
        self.opened_readers[:] = kept

    def _serve(
        self,
        reader: CreditBasedSequenceNumberingViewReader,
        indices: ResultSubpartitionIndexSet,
        partition: ResultPartition,
    ) -> None:
        """The partition that a request waited for has come."""
        if self._waiting.pop(reader.receiver_id, None) is None:
            return  # the connection has failed with the one that waited before it
        try:
            refusal = self._attach(reader, indices, partition)
        except FlinknetError as error:
            self._fail(error)
            return
        if refusal is not None:
            self._peer.send_error(refusal[0], refusal[1], None)

    def _refuse(self, receiver_id: bytes) -> None:
        """The partition that a request waited for has not come."""
        _, partition_id = self._waiting.pop(receiver_id)
        self._peer.send_error(
            PARTITION_NOT_FOUND_EXCEPTION, f"Partition {partition_id} not found.", receiver_id
        )
