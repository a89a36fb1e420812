"""The cases of consumers (`by_consumers`) over sockets, against any producer that listens: one of
flinknet's, or Flink's own.

Each case takes partitions of its own, so that one listening process does for all of them. That the
producer has taken everything that was said shows in its answer to a marker: a TaskEventRequest for
a partition that is nowhere.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.ids import InputChannelID, ResultPartitionID
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.messages import (
    BufferResponse,
    CancelPartitionRequest,
    ErrorResponse,
    Message,
    PartitionRequest,
    TaskEventRequest,
)
from tests.pair import OTHER_RECEIVER, RECEIVER, partition_id
from tests.peers import by_consumers as table
from tests.peers.by_consumers import Case, request
from tests.peers.producer import only

SUBPARTITIONS = (3, 1, 1)
"""Of the partitions of a case: that which the peer reads, that beside it, and that which fails."""

UNFINISHED = "waits for more bytes"
"""What a producer does that believes a length."""

_FIRST = 100
_NOWHERE = partition_id(90)
_MARKERS = tuple(InputChannelID(b"marker %08d " % number) for number in range(4))


class Producer(Protocol):
    """Who is misbehaved to.

    Attributes:
        address: of its data port.
        late_s: it answers requests of unknown partitions after this time.
        fails_s: it tells readers of a task that has failed by then, if it tells them at all.
        patience_s: what it has not answered by then it will not answer.
    """

    address: tuple[str, int]
    late_s: float
    fails_s: float
    patience_s: float

    def write(self, partition: ResultPartitionID) -> None:
        """Write something into every subpartition, and flush."""

    def fail(self, partition: ResultPartitionID) -> None:
        """The task of this partition fails."""

    def was_told(self, partition: ResultPartitionID) -> bool:
        """Whether the task of this partition has got an event."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a case.

    Attributes:
        did: one of the answers of the table.
        goes_on: the channel that misbehaved still gets data.
        beside_goes_on: another channel of the same connection gets data.
        others_go_on: a channel of another connection gets data.
    """

    did: str
    goes_on: bool
    beside_goes_on: bool
    others_go_on: bool


def expected(case: Case) -> Outcome:
    """What the table says."""
    is_open = case.must not in table.ENDS and case.when != table.STRANGE
    return Outcome(case.must, is_open and case.goes_on, is_open, True)


def partitions_of(case: Case) -> tuple[ResultPartitionID, ...]:
    """The partitions of a case, in the order of SUBPARTITIONS."""
    return tuple(partition_id(_FIRST + 3 * case.number + index) for index in range(3))


class _Talk:
    """One connection: what is heard on it, in order."""

    def __init__(self, producer: Producer) -> None:
        self._patience_s = producer.patience_s
        self._socket = socket.create_connection(producer.address, timeout=self._patience_s)
        self._decoder = FrameDecoder(Direction.PRODUCER_TO_CONSUMER)
        self.heard: list[Message] = []
        self.is_closed = False

    def __enter__(self) -> _Talk:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def say(self, data: bytes | Message) -> None:
        with suppress(ConnectionError):  # hearing shows it, too
            self._socket.sendall(data if isinstance(data, bytes) else data.encode())

    def listen(self, has_come: Callable[[Message], bool], timeout_s: float | None = None) -> bool:
        """Hear until this has come; False if the connection ends before, or nothing comes."""
        if any(map(has_come, self.heard)):
            return True
        self._socket.settimeout(self._patience_s if timeout_s is None else timeout_s)
        while not self.is_closed:
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                return False
            except ConnectionError:
                data = b""
            self.is_closed = not data
            new = self._decoder.feed(data)
            self.heard += new
            if any(map(has_come, new)):
                return True
        return False

    def mark(self, number: int) -> bool:
        """Wait until all was taken that was said; False if the connection was closed."""
        marker = _MARKERS[number]
        self.say(TaskEventRequest(table.FOR_TASK, _NOWHERE, marker))
        return self.listen(lambda each: _is_error(each, marker))

    def errors(self) -> list[ErrorResponse]:
        """The errors heard so far, without those of markers, which are forgotten."""
        found = [each for each in self.heard if isinstance(each, ErrorResponse)]
        self.heard = [each for each in self.heard if not isinstance(each, ErrorResponse)]
        return [each for each in found if each.receiver_id not in _MARKERS]


def _is_error(message: Message, receiver: InputChannelID) -> bool:
    return isinstance(message, ErrorResponse) and message.receiver_id == receiver


def _is_data(receiver: InputChannelID) -> Callable[[Message], bool]:
    return lambda each: isinstance(each, BufferResponse) and each.receiver_id == receiver


def outcome(case: Case, producer: Producer) -> Outcome:
    """Misbehave as a case says."""
    there, beside, failing = partitions = partitions_of(case)
    with _Talk(producer) as peer, _Talk(producer) as other:
        other.say(PartitionRequest(there, only(2), OTHER_RECEIVER, 9))
        other.mark(0)
        if case.when != table.STRANGE:
            peer.say(PartitionRequest(beside, only(0), OTHER_RECEIVER, 9))
        if case.when in (table.READS, table.CANCELED):
            peer.say(request(of=there))
        elif case.when == table.WAITS:
            peer.say(request(of=partition_id(90)))
        elif case.when == table.FAILED:
            peer.say(request(of=failing))
        elif case.when == table.WAITED_FOR:
            other.say(request(of=partition_id(90)))
            other.mark(1)
        if case.when == table.CANCELED:
            peer.say(CancelPartitionRequest(RECEIVER))
        if case.when != table.STRANGE:
            peer.mark(0)
        if case.when == table.FAILED:
            producer.fail(failing)
            peer.listen(lambda each: _is_error(each, RECEIVER), producer.fails_s)
        peer.errors()
        did = _reaction(peer, _data_of(case, partitions), producer, partitions, case)
        goes_on = beside_goes_on = False
        producer.write(there)
        if not peer.is_closed and case.when != table.STRANGE:
            producer.write(beside)
            beside_goes_on = peer.listen(_is_data(OTHER_RECEIVER))
            peer.mark(2)
            goes_on = any(map(_is_data(RECEIVER), peer.heard))
        return Outcome(did, goes_on, beside_goes_on, other.listen(_is_data(OTHER_RECEIVER)))


def _data_of(case: Case, partitions: tuple[ResultPartitionID, ...]) -> bytes:
    """What is said, about the partitions of this case."""
    data = case.data
    for index, own in enumerate(partitions):
        data = data.replace(partition_id(index).encode(), own.encode())
    return data.replace(table.GONE.encode(), _NOWHERE.encode())


def _reaction(
    peer: _Talk,
    data: bytes,
    producer: Producer,
    partitions: tuple[ResultPartitionID, ...],
    case: Case,
) -> str:
    peer.say(data)
    is_open = peer.mark(1)
    errors = peer.errors()
    is_late = case.must == table.LATE and not errors and is_open
    if is_late:
        peer.listen(lambda each: _is_error(each, RECEIVER), producer.late_s + producer.patience_s)
        errors = peer.errors()
    if not errors:
        if any(map(producer.was_told, partitions)):
            return table.TOLD
        return table.IGNORED if is_open else table.CLOSED if peer.is_closed else UNFINISHED
    if any(error.receiver_id is None for error in errors):
        return table.FATAL if is_open else table.BROKEN
    return table.LATE if is_late else table.REFUSED
