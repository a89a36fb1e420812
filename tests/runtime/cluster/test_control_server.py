"""Who connects to the control port and does not say who it is, does not stay."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from flinknet.runtime import visitors
from flinknet.runtime.clock import monotonic_ns
from flinknet.runtime.cluster.control_connection import ControlConnection, ControlServer
from flinknet.runtime.event_loop import EventLoop
from flinknet.runtime.visitors import SILENCE_NS, VISITORS_MAX

pytestmark = pytest.mark.socket

TURNS_MAX = 1000


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
        with suppress(BlockingIOError):
            if not client.recv(1 << 16):  # behind the challenge
                return True
    return False


def test_who_says_nothing_is_sent_away_and_who_is_known_stays(
    loop: EventLoop, server: ControlServer
) -> None:
    silent = socket.create_connection(("127.0.0.1", server.port))
    accepted(loop, server, 1)
    known_client(loop, server)
    server.visited.close_silent(now_ns=monotonic_ns() + SILENCE_NS + 1)
    assert has_ended(loop, silent)
    assert server.connections[1].loss is None
    assert not server.connections[1].is_closing
    silent.close()


def test_a_byte_now_and_then_keeps_nobody(loop: EventLoop, server: ControlServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        accepted(loop, server, 1)
        transport, came_ns = server.connections[0].transport, monotonic_ns()
        assert transport is not None
        for part in range(2):
            slow.sendall(b"\0")
            for _ in range(TURNS_MAX):
                if transport.received_bytes > part:
                    break
                turn(loop)
            server.visited.close_silent(now_ns=came_ns + (part + 1) * (SILENCE_NS // 2 + 1))
        assert has_ended(loop, slow)


def test_who_came_while_the_process_was_busy_has_time_to_be_heard(
    loop: EventLoop, server: ControlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visitors, "CHECK_INTERVAL_NS", 0)
    with socket.create_connection(("127.0.0.1", server.port)):
        accepted(loop, server, 1)
        monkeypatch.setattr(visitors, "monotonic_ns", lambda: monotonic_ns() + 2 * SILENCE_NS)
        turn(loop)
        assert server.connections[0].loss is None


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
    for count in range(1, VISITORS_MAX + 1):
        silent.append(socket.create_connection(("127.0.0.1", server.port)))
        accepted(loop, server, count)
    client = known_client(loop, server)
    assert has_ended(loop, silent[0])
    assert client.loss is None
    assert all(each.loss is None for each in server.connections[1:])
    for each in silent:
        each.close()
