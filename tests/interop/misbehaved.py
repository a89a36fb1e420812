"""Flink's own producer and consumer, for the peers of tests/peers to misbehave to."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from flinknet.core.wire.frames import FrameDecoder
from flinknet.core.wire.ids import InputChannelID, ResultPartitionID
from flinknet.core.wire.layout import Direction
from flinknet.core.wire.messages import (
    CancelPartitionRequest,
    Message,
    PartitionRequest,
)
from tests.interop.exchange import Misbehaved
from tests.pair import partition_id
from tests.peers import by_producers as table
from tests.peers.by_consumers import Case as ConsumersCase
from tests.peers.by_producers import Case, buffer
from tests.peers.over_sockets import SUBPARTITIONS, UNFINISHED, partitions_of

SETTLED_S = 0.5
"""What was not done by then will not be."""

LOOK_S = 0.01
"""How long the consumer is listened to before its state is asked for again."""

PRODUCER_KEYS = {
    "taskmanager.memory.segment-size": "4kb",
    "taskmanager.network.partition-request-timeout": "300 ms",
}
CONSUMER_KEYS = {
    "taskmanager.memory.segment-size": "4kb",
    "taskmanager.network.request-backoff.initial": 0,
    "taskmanager.network.request-backoff.max": 0,
}
_CHANNEL = re.compile(re.escape(table.CHANNEL) + rb"(?!\x01)")  # a flag of 1 may stand before it

NO_CREDIT = {"taskmanager.network.memory.read-buffer.required-per-gate.max": 1}


class FlinkProducer:
    """Implements `tests.peers.over_sockets.Producer`."""

    late_s = 0.6  # it looks every 300 ms for what is older
    fails_s = 0.2
    patience_s = 1.0

    def __init__(self, process: Misbehaved) -> None:
        self._process = process
        self.address = ("127.0.0.1", process.port)

    def serve(self, case: ConsumersCase) -> None:
        """Make the partitions of a case."""
        for partition, subpartitions in zip(partitions_of(case), SUBPARTITIONS, strict=True):
            self._process.order("serve", partition, subpartitions)

    def write(self, partition: ResultPartitionID) -> None:
        self._process.order("write", partition)

    def fail(self, partition: ResultPartitionID) -> None:
        self._process.order("fail", partition)

    def was_told(self, partition: ResultPartitionID) -> bool:
        return self._process.order("told", partition) == "told true"


@dataclass(frozen=True, slots=True)
class _State:
    """What a channel of Flink's has made of what came."""

    number: int
    required: int
    is_failed: bool


class FlinkConsumer:
    """Two channels of Flink's that share a connection to a producer that misbehaves."""

    def __init__(self, process: Misbehaved, number: int) -> None:
        self._process = process
        self._partitions = tuple(partition_id(2 * number + index) for index in range(2))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._decoder = FrameDecoder(Direction.CONSUMER_TO_PRODUCER)
        self._heard: list[Message] = []
        self._is_closed = False
        process.order("read", self._listener.getsockname()[1], *self._partitions)
        self._socket, _ = self._listener.accept()
        self._hear(lambda: len(self._requests()) == 2)
        self.receivers = tuple(
            next(each.receiver_id for each in self._requests() if each.partition_id == partition)
            for partition in self._partitions
        )

    def close(self) -> None:
        """End the connection and both gates."""
        self._socket.close()
        self._listener.close()
        for partition in self._partitions:
            self._process.order("release", partition)

    def outcome(self, case: Case) -> str:
        """Misbehave as a case says; returns what the consumer did, in the words of the table."""
        channel, beside = self.receivers
        if case.when == table.RELEASED:
            self._process.order("release", self._partitions[0])
            self._hear(lambda: self._has_cancelled(channel))
        elif case.when == table.HALF:
            self._say(buffer(to=channel).encode()[:-1])
        before, _ = self._states()
        self._heard.clear()
        self._say(_CHANNEL.sub(lambda _: channel, case.data))
        self._say(buffer(to=beside, kind=table.EVENT, payload=bytes(4)).encode())
        is_taken = self._until(lambda: self._states()[1].number == 1 or self._states()[1].is_failed)
        self._until(lambda: self._did(before, is_taken) == case.must, SETTLED_S)
        return self._did(before, is_taken)

    def _did(self, before: _State, is_taken: bool) -> str:
        channel, beside = self._states()
        self._hear(lambda: False, LOOK_S)
        if beside.is_failed:
            return table.ALL_FAIL
        if not is_taken:
            return UNFINISHED
        if channel.is_failed:
            return table.FAILS
        if any(isinstance(each, CancelPartitionRequest) for each in self._heard):
            return table.CANCELED
        return table.NOTHING if channel == before else table.TAKEN

    def _states(self) -> tuple[_State, _State]:
        found = []
        for partition in self._partitions:
            words = self._process.order("state", partition).split()[1:4]
            number, required, failed = (each.partition("=")[2] for each in words)
            found.append(_State(int(number), int(required), failed == "true"))
        return found[0], found[1]

    def _until(self, holds: Callable[[], bool], timeout_s: float = 2.0) -> bool:
        end = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > end:
                return False
            self._hear(lambda: False, LOOK_S)
        return True

    def _say(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except ConnectionError:
            self._is_closed = True

    def _hear(self, has_come: Callable[[], bool], timeout_s: float = 5.0) -> None:
        self._socket.settimeout(timeout_s)
        while not has_come() and not self._is_closed:
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                return
            except ConnectionError:
                data = b""
            self._is_closed = not data
            self._heard += self._decoder.feed(data)

    def _requests(self) -> list[PartitionRequest]:
        return [each for each in self._heard if isinstance(each, PartitionRequest)]

    def _has_cancelled(self, receiver: InputChannelID) -> bool:
        return any(
            isinstance(each, CancelPartitionRequest) and each.receiver_id == receiver
            for each in self._heard
        )
