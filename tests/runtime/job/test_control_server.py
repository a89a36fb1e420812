"""Who connects to the control port and does not say who it is, does not stay."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from flinknet.runtime.clock import monotonic_ns
from flinknet.runtime.event_loop import EventLoop
from flinknet.runtime.job.control_connection import ControlConnection
from flinknet.runtime.job.control_server import HELLO_WAIT_NS, UNKNOWN_MAX, ControlServer

pytestmark = pytest.mark.socket

TURNS_MAX = 1000


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    loop = EventLoop(may_spin=False)
    yield loop
    loop.close()


@pytest.fixture
def server(loop: EventLoop) -> Iterator[ControlServer]:
    server = ControlServer(loop, "secret")
    yield server
    server.close()


def turn(loop: EventLoop) -> None:
    loop.run_once(until_ns=monotonic_ns() + 10_000_000)


def accepted(loop: EventLoop, server: ControlServer, count: int) -> None:
    """Let the loop turn until so many connections are known."""
    for _ in range(TURNS_MAX):
        if len(server.connections) >= count:
            return
        turn(loop)
    raise AssertionError(len(server.connections))


def has_ended(loop: EventLoop, client: socket.socket) -> bool:
    """Whether the other side closes the connection."""
    client.setblocking(False)
    for _ in range(TURNS_MAX):
        turn(loop)
        try:
            return client.recv(1) == b""
        except BlockingIOError:
            continue
    return False


def test_who_says_nothing_is_sent_away_and_who_is_known_stays(
    loop: EventLoop, server: ControlServer
) -> None:
    silent = socket.create_connection(("127.0.0.1", server.port))
    accepted(loop, server, 1)
    known = ControlConnection("secret", role="client")
    loop.add_transport(socket.create_connection(("127.0.0.1", server.port)), known)
    accepted(loop, server, 2)
    for _ in range(TURNS_MAX):
        if server.connections[1].is_open:
            break
        turn(loop)
    server.forget_unknown(now_ns=monotonic_ns() + HELLO_WAIT_NS + 1)
    assert has_ended(loop, silent)
    assert server.connections[1].is_open
    assert not server.connections[1].is_closing
    silent.close()


def test_there_are_no_more_unknown_ones_than_a_few(loop: EventLoop, server: ControlServer) -> None:
    clients = []
    for count in range(1, UNKNOWN_MAX + 1):
        clients.append(socket.create_connection(("127.0.0.1", server.port)))
        accepted(loop, server, count)
    clients.append(socket.create_connection(("127.0.0.1", server.port)))
    assert has_ended(loop, clients[-1])
    assert len(server.connections) == UNKNOWN_MAX
    for each in clients:
        each.close()
