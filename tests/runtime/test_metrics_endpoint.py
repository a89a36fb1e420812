"""The endpoint that Prometheus asks: answers what is asked, waits for nobody."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from flinknet.errors import LocalTransportError
from flinknet.runtime.metrics_log import MetricsEndpoint, response_to


@pytest.fixture
def endpoint() -> Iterator[MetricsEndpoint]:
    opened = MetricsEndpoint("127.0.0.1", 0)
    yield opened
    opened.close()


def test_who_asks_gets_the_last_text(endpoint: MetricsEndpoint) -> None:
    with socket.create_connection(endpoint.address, timeout=5) as asking:
        asking.sendall(b"GET /metrics HTTP/1.1\r\n")
        endpoint.publish("old 1\n")
        asking.sendall(b"Host: x\r\n\r\n")
        endpoint.publish("new 2\n" + "more 3\n" * 10_000)
        received = b"".join(iter(lambda: asking.recv(1 << 16), b""))
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
    assert body.startswith(b"new 2\nmore 3\n")
    assert f"Content-Length: {len(body)}\r\n".encode() in head


def test_who_asks_nothing_is_let_go(endpoint: MetricsEndpoint) -> None:
    with socket.create_connection(endpoint.address, timeout=5) as silent:
        for _ in range(60):
            endpoint.poll()
        assert silent.recv(1) == b""


def test_a_response_larger_than_the_socket_takes_at_once_arrives_whole(
    endpoint: MetricsEndpoint,
) -> None:
    endpoint.publish("a_metric 1\n" * 1_000_000)
    with socket.create_connection(endpoint.address, timeout=5) as asking:
        asking.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        asking.setblocking(False)
        received, is_ended = bytearray(), False
        for _ in range(20_000):
            endpoint.poll()
            with contextlib.suppress(BlockingIOError):
                piece = asking.recv(1 << 20)
                received += piece
                is_ended = not piece
            if is_ended:
                break
    assert received.partition(b"\r\n\r\n")[2] == b"a_metric 1\n" * 1_000_000


def test_silent_connections_do_not_keep_a_request_waiting(endpoint: MetricsEndpoint) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(socket.create_connection(endpoint.address, timeout=5))
        endpoint.poll()
        asking = stack.enter_context(socket.create_connection(endpoint.address, timeout=5))
        asking.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        endpoint.publish("a 1\n")
        assert asking.recv(1 << 16).endswith(b"\r\n\r\na 1\n")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /metrics?x=1 HTTP/1.1", b"200 OK"),
        (b"GET /other HTTP/1.1", b"404 Not Found"),
        (b"POST /metrics HTTP/1.1", b"405 Method Not Allowed"),
        (b"\x16\x03\x01", b"405 Method Not Allowed"),
    ],
)
def test_each_request_has_an_answer(request_line: bytes, status: bytes) -> None:
    assert response_to(request_line + b"\r\n\r\n", "a 1\n").startswith(b"HTTP/1.1 " + status)
    assert response_to(b"HEAD /metrics HTTP/1.1\r\n\r\n", "a 1\n").endswith(b"\r\n\r\n")


def test_a_port_that_is_taken_is_one_line(endpoint: MetricsEndpoint) -> None:
    with pytest.raises(LocalTransportError, match="cannot listen there"):
        MetricsEndpoint(*endpoint.address)
