"""MetricsEndpoint: answers GET /metrics with the latest published text."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import suppress

from flinknet.errors import LocalTransportError

_OF_THE_PORT = (errno.EADDRINUSE, errno.EACCES)
"""Errors for which another port is a remedy."""

_REQUEST_BYTES_MAX = 16 * 1024
_CONNECTIONS_MAX = 32
_PATIENCE = 50
"""Calls of `poll` before a connection without a request is closed."""

_SEND_BYTES = 1 << 20
"""Size of the send buffer, so that a response is sent at once; the kernel may allow less."""


class MetricsEndpoint:
    """A listening socket to be polled several times a second from an existing loop: it never waits,
    and needs no thread.

    Raises: LocalTransportError if it cannot listen on the address.
    """

    def __init__(self, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._sock = socket.socket(family)
        try:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._sock.bind((host, port))
            self._sock.listen(_CONNECTIONS_MAX)
            self._sock.setblocking(False)
        except (OSError, OverflowError) as error:
            self._sock.close()
            why = getattr(error, "strerror", None) or str(error)
            is_port = not isinstance(error, OSError) or error.errno in _OF_THE_PORT
            advice = "choose another port" if is_port else "give an address of this machine"
            raise LocalTransportError(
                f"--metrics-port {host}:{port}: cannot listen there ({why}); {advice}"
            ) from error
        self.address: tuple[str, int] = self._sock.getsockname()[:2]
        self._text = ""
        self._connections: dict[socket.socket, tuple[bytes, int]] = {}

    def publish(self, text: str) -> None:
        """Set the text of responses, and answer waiting requests."""
        self._text = text
        self.poll()

    def poll(self) -> None:
        """Answer waiting requests."""
        for sock in self._accepted():
            self._connections[sock] = b"", 0
        for sock, (known, calls) in list(self._connections.items()):
            self._serve(sock, known, calls)

    def close(self) -> None:
        """Stop listening."""
        for sock in [*self._connections, self._sock]:
            sock.close()
        self._connections.clear()

    def _accepted(self) -> Iterator[socket.socket]:
        while len(self._connections) < _CONNECTIONS_MAX:
            try:
                sock, _ = self._sock.accept()
            except OSError:
                return
            sock.setblocking(False)
            yield sock

    def _serve(self, sock: socket.socket, known: bytes, calls: int) -> None:
        try:
            received = sock.recv(_REQUEST_BYTES_MAX)
        except BlockingIOError:
            received = None
        except OSError:
            received = b""
        known += received or b""
        is_asked = b"\r\n\r\n" in known or b"\n\n" in known
        if is_asked:
            with suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
                sock.send(response_to(known, self._text))
        is_over = received == b"" or calls > _PATIENCE or len(known) > _REQUEST_BYTES_MAX
        if is_asked or is_over:
            sock.close()
            del self._connections[sock]
        else:
            self._connections[sock] = known, calls + 1


def response_to(request: bytes, text: str) -> bytes:
    """Return the response to an HTTP request."""
    method, _, rest = request.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in (b"GET", b"HEAD"):
        return _response("405 Method Not Allowed", "only GET\n", is_head=False)
    if path not in (b"/metrics", b"/"):
        return _response("404 Not Found", "metrics are at /metrics\n", is_head=method == b"HEAD")
    return _response("200 OK", text, is_head=method == b"HEAD")


def _response(status: str, text: str, *, is_head: bool) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\n"
        "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if is_head else body)
