"""Who connects to the control port and does not say who it is, does not stay."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from flinknet.runtime.clock import monotonic_ns
from flinknet.runtime.cluster.control_connection import (
    ACCEPT_PAUSE_NS,
    HELLO_WAIT_NS,
    UNKNOWN_MAX,
    ControlConnection,
    ControlServer,
)
from flinknet.runtime.event_loop import EventLoop

pytestmark = pytest.mark.socket

TURNS_MAX = 1000


@pytest.fixture
def server(loop: EventLoop) -> Iterator[ControlServer]:
    server = ControlServer(loop, "secret")
    yield server
    server.close()


@contextmanager
def no_file_descriptors() -> Iterator[None]:
    """No descriptor can be opened inside; those that are open can be polled by other threads."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


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
    known_client(loop, server)
    server.forget_unknown(now_ns=monotonic_ns() + HELLO_WAIT_NS + 1)
    assert has_ended(loop, silent)
    assert server.connections[1].loss is None
    assert not server.connections[1].is_closing
    silent.close()


def known_client(loop: EventLoop, server: ControlServer) -> ControlConnection:
    """Who has the secret connects and is taken."""
    client = ControlConnection("secret", role="client")
    loop.add_transport(socket.create_connection(("127.0.0.1", server.port)), client)
    for _ in range(TURNS_MAX):
        if any(each.peer_role is not None for each in server.connections):
            return client
        turn(loop)
    raise AssertionError("nobody is known")


def test_the_oldest_unknown_one_makes_room_for_who_has_the_secret(
    loop: EventLoop, server: ControlServer
) -> None:
    silent = []
    for count in range(1, UNKNOWN_MAX + 1):
        silent.append(socket.create_connection(("127.0.0.1", server.port)))
        accepted(loop, server, count)
    client = known_client(loop, server)
    assert has_ended(loop, silent[0])
    assert client.loss is None
    assert not any(each.is_closing for each in server.connections[1:])
    for each in silent:
        each.close()


def test_who_is_known_takes_no_room_of_the_unknown_and_is_never_dropped(
    loop: EventLoop, server: ControlServer
) -> None:
    client = known_client(loop, server)
    strangers = []
    for count in range(1, 2 * UNKNOWN_MAX):
        strangers.append(socket.create_connection(("127.0.0.1", server.port)))
        accepted(loop, server, 1 + count)
    assert has_ended(loop, strangers[0])
    open_ones = [each for each in server.connections if each.loss is None and not each.is_closing]
    assert len(open_ones) == 1 + UNKNOWN_MAX
    assert server.connections[0] in open_ones
    assert client.loss is None
    for each in strangers:
        each.close()


@pytest.mark.parametrize("strangers", [0, 1])
def test_nobody_is_accepted_for_a_while_without_file_descriptors(
    loop: EventLoop, server: ControlServer, strangers: int
) -> None:
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(strangers)]
    accepted(loop, server, strangers)
    client = socket.create_connection(("127.0.0.1", server.port))
    with no_file_descriptors():
        for _ in range(3):
            turn(loop)
    server.forget_unknown(now_ns=monotonic_ns() + ACCEPT_PAUSE_NS)
    accepted(loop, server, strangers + 1)
    for each in [*silent, client]:
        each.close()
