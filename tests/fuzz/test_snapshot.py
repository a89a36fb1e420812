"""Snapshots of what fuzz targets use again for each input."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

import pytest

from flinknet import interpreted_because
from flinknet.core.connection import Connection
from flinknet.errors import RemoteProtocolError
from tests.fuzz.snapshot import Snapshot
from tests.fuzz.target import read_corpus
from tests.fuzz.wire_targets import WHEN_AT_CONSUMER, WHEN_AT_PRODUCER, consumers, producers
from tests.pair import sent_bytes
from tests.peers.consumer import consumer_of
from tests.peers.producer import Producer


class Plain:
    """An object with everything that can change."""

    def __init__(self) -> None:
        self.number = 1
        self.list = [[1], [2]]
        self.dict: dict[str, Any] = {"a": {"b": 1}}
        self.deque = deque([1, 2], maxlen=5)
        self.set = {1}
        self.gathered = bytearray(b"abc")
        self.memory = memoryview(bytearray(b"memory"))
        self.call = partial(self.deque.append, 3)
        self.slotted = Slotted()
        self.me = self

    def state(self) -> Any:
        """Everything, as values."""
        return (
            *(self.number, repr((self.list, self.dict, self.deque, self.set, self.gathered))),
            *(bytes(self.memory), self.slotted.value, self.slotted.more, sorted(vars(self))),
        )


class Slotted:
    """An object with slots."""

    __slots__ = ("more", "value")

    def __init__(self) -> None:
        self.value = 1
        self.more = [1]


def test_everything_is_as_it_was() -> None:
    plain = Plain()
    before, snapshot = plain.state(), Snapshot(plain)
    held = plain.list[0]
    for _ in range(2):
        view = memoryview(plain.gathered)  # cannot be resized meanwhile
        plain.number = 2
        plain.list[0].append(3)
        plain.list = []
        plain.dict["c"] = plain.dict.pop("a")
        plain.call()
        plain.set.clear()
        plain.gathered = bytearray(b"x")
        plain.memory[:2] = b"xx"
        plain.slotted.value = 2
        plain.slotted.more.clear()
        plain.new = 1  # type: ignore[attr-defined]
        assert snapshot.restored() is plain
        assert plain.state() == before
        assert plain.list[0] is held
        view.release()


def test_what_cannot_be_restored_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot restore"):
        Snapshot([iter([])])


@pytest.mark.skipif(interpreted_because is None, reason="out of reach in a compiled core")
@pytest.mark.parametrize("side", ["producer", "consumer"])
def test_a_restored_scene_does_what_a_new_one_does(side: str) -> None:
    for _, data in read_corpus(side):
        if side == "producer":
            when = WHEN_AT_PRODUCER[data[0] % len(WHEN_AT_PRODUCER)]
            answers = [
                answer(make().peer, data) for make in (partial(Producer, when), producers(when))
            ]
        else:
            when = WHEN_AT_CONSUMER[data[0] % len(WHEN_AT_CONSUMER)]
            makers = partial(consumer_of, when), consumers(when)
            answers = [answer(make().connection, data) for make in makers]
        assert answers[0] == answers[1]


def answer(connection: Connection, data: bytes) -> tuple[str, bytes]:
    """What a connection makes of an input."""
    error = ""
    try:
        connection.receive_data(memoryview(data)[3:], now_ns=0)
    except RemoteProtocolError as found:
        error = str(found)
    return error, sent_bytes(connection)
