"""Strangers at the data port: what they may hold, how many there may be, how long they may be
silent, and that they are counted.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from flinknet.config import NetworkConfig
from flinknet.core.connection import RECEIVE_BYTES
from flinknet.core.producer.peer_trust import STRANGE_REQUESTS_MAX
from flinknet.core.wire.ids import InputChannelID
from flinknet.core.wire.messages import AddCredit
from flinknet.errors import LocalTransportError
from flinknet.results import Strangers
from flinknet.runtime import visitors
from flinknet.runtime.visitors import SILENCE_NS
from tests.node import HOST, Node, drive, settle
from tests.strangers import strange_request

pytestmark = pytest.mark.socket

HUGE_FRAME = struct.pack(">i", 64 << 20) + bytes.fromhex("badc0ffe03")
"""The header of a TaskEventRequest of 64 MiB."""


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    """Two nodes."""
    made = [Node(0), Node(1)]
    yield made
    for each in made:
        each.close()


@pytest.fixture
def node(nodes: list[Node]) -> Node:
    """The one that is visited."""
    return nodes[0]


@pytest.fixture
def sockets() -> Iterator[contextlib.ExitStack]:
    """Closes what visitors open."""
    with contextlib.ExitStack() as stack:
        yield stack


def visit(sockets: contextlib.ExitStack, node: Node) -> socket.socket:
    """A connection that was accepted."""
    expected = len(node.loop.transports) + 1
    sock = sockets.enter_context(socket.create_connection((HOST, node.port)))
    drive([node], lambda: len(node.loop.transports) >= expected)
    return sock


def test_nothing_is_kept_of_strangers_that_are_gone_but_their_number(
    node: Node, sockets: contextlib.ExitStack
) -> None:
    for number in range(3):
        visitor = visit(sockets, node)
        visitor.sendall(strange_request(number))
        drive([node], lambda: node.accepted[0].waiting_requests == 1)
        visitor.close()
        drive([node], lambda: node.loop.transports == [])
        assert node.accepted == []
    assert node.manager.strangers() == Strangers(3, 3, 3 * len(strange_request(0)))


def test_a_huge_frame_of_a_stranger_is_refused_before_it_comes(
    node: Node, sockets: contextlib.ExitStack
) -> None:
    visitor = visit(sockets, node)
    visitor.sendall(HUGE_FRAME + bytes(1000))
    drive([node], lambda: node.loop.transports == [])
    assert node.manager.strangers() == Strangers(1, 0, len(HUGE_FRAME) + 1000)


def test_requests_for_unknown_partitions_end_the_connection_and_hold_up_nobody(
    nodes: list[Node], sockets: contextlib.ExitStack
) -> None:
    one, other = nodes
    channel = other.read_from(one, 0)
    drive(nodes, lambda: bool(one.accepted) and one.accepted[0].trust.is_of_run)
    visitor = visit(sockets, one)
    visitor.sendall(b"".join(map(strange_request, range(2 * STRANGE_REQUESTS_MAX))))
    drive(nodes, lambda: len(one.loop.transports) == 1)
    assert len(one.accepted) == 1
    found = one.manager.strangers()
    assert (found.connections, found.requests) == (1, STRANGE_REQUESTS_MAX + 1)
    one.write(0, b"alive")
    drive(nodes, lambda: (channel.index, b"alive") in other.read())


def test_silent_strangers_are_sent_away_and_silent_consumers_stay(
    nodes: list[Node], sockets: contextlib.ExitStack
) -> None:
    one, other = nodes
    other.read_from(one, 0)
    drive(nodes, lambda: bool(one.accepted) and one.accepted[0].trust.is_of_run)
    visit(sockets, one)
    waiting = visit(sockets, one)
    waiting.sendall(strange_request(0))
    drive([one], lambda: one.accepted[-1].waiting_requests == 1)
    late_ns, port = time.monotonic_ns() + SILENCE_NS, one.manager.port
    assert port is not None
    port.close_silent(now_ns=late_ns)
    settle([one])
    assert len(one.loop.transports) == 2  # the consumer, and who waits for an answer
    one.accepted[-1].handle_deadline(now_ns=late_ns)
    port.close_silent(now_ns=late_ns + SILENCE_NS - 1)
    assert len(one.accepted) == 2
    port.close_silent(now_ns=late_ns + SILENCE_NS)
    assert [each.trust.is_of_run for each in one.accepted] == [True]


def test_the_server_looks_for_silent_strangers_while_there_are_any(
    node: Node, sockets: contextlib.ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visitors, "SILENCE_NS", 0)
    monkeypatch.setattr(visitors, "CHECK_INTERVAL_NS", 0)
    visit(sockets, node)
    drive([node], lambda: node.loop.transports == [])
    assert node.manager.strangers() == Strangers(1, 0, 0)


def test_one_stranger_too_many_ends_the_oldest_and_no_consumer(
    nodes: list[Node], sockets: contextlib.ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visitors, "VISITORS_MAX", 3)
    one, other = nodes
    channel = other.read_from(one, 0)
    drive(nodes, lambda: bool(one.accepted) and one.accepted[0].trust.is_of_run)
    first, *_ = [visit(sockets, one) for _ in range(3)]
    sockets.enter_context(socket.create_connection((HOST, one.port)))
    drive([one], lambda: one.manager.strangers().connections == 4)
    assert len(one.loop.transports) == 4
    assert first.recv(1) == b""
    assert channel.error is None


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """Every descriptor that this process may have is taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
    spare: list[int] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                spare.append(os.dup(0))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in spare:
            os.close(descriptor)


def test_without_descriptors_the_listener_rests_and_accepts_later(
    node: Node, sockets: contextlib.ExitStack
) -> None:
    sockets.enter_context(socket.create_connection((HOST, node.port)))
    with no_descriptors():
        settle([node], turns=3)
        with pytest.raises(LocalTransportError, match=r"too many open files.*ulimit -n"):
            node.manager.check_accepting()
    assert node.accepted == []
    drive([node], lambda: len(node.accepted) == 1)
    node.manager.check_accepting()


def test_without_descriptors_a_stranger_makes_room(
    node: Node, sockets: contextlib.ExitStack
) -> None:
    stranger = visit(sockets, node)
    sockets.enter_context(socket.create_connection((HOST, node.port)))
    with no_descriptors():
        drive([node], lambda: node.manager.strangers().connections == 2)
        node.manager.check_accepting()
    assert stranger.recv(1) == b""
    assert len(node.accepted) == 1


def test_a_peer_that_does_not_read_its_answers_is_not_read(sockets: contextlib.ExitStack) -> None:
    node = sockets.enter_context(
        contextlib.closing(Node(0, replace(NetworkConfig(), send_receive_buffer_bytes=32 * 1024)))
    )
    receiver = InputChannelID(bytes(16))
    node.channel_of[receiver] = 0
    peer = visit(sockets, node)
    peer.setblocking(False)
    (transport,) = node.loop.transports
    flood = AddCredit(1, receiver).encode() * 10_000  # each is answered: there is no reader
    with contextlib.suppress(BlockingIOError):
        while peer.send(flood):
            settle([node], turns=5)
    assert not transport.wants_to_read
    assert transport.wants_to_write
    bound = 2 * RECEIVE_BYTES // len(AddCredit(1, receiver).encode()) * 400
    assert 0 < transport.unsent_bytes < bound
    received_bytes = transport.received_bytes
    settle([node])
    assert transport.received_bytes == received_bytes

    def is_read_on() -> bool:
        with contextlib.suppress(BlockingIOError):
            peer.recv(1 << 20)
        return transport.received_bytes > received_bytes

    drive([node], is_read_on)
