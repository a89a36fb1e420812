"""MetricsEndpoint: live values for Prometheus, over HTTP."""

from __future__ import annotations

import errno
import socket
import threading
from dataclasses import dataclass

from flinknet.errors import LocalTransportError

_OF_THE_PORT = (errno.EADDRINUSE, errno.EACCES)
"""Errors for which another port is a remedy."""

_REQUEST_BYTES_MAX = 16 * 1024
_CONNECTIONS_MAX = 32
_WAITING_MAX = 128
"""Connections accepted in one look, and waiting in the kernel."""

_PAUSE_S = 0.1
_PATIENCE = 50
"""Between looks at the connections, and looks before one that sends no request or takes no response
is closed."""


@dataclass(slots=True)
class _Client:
    """A connection: its request, the rest of the response, and looks since progress."""

    request: bytes = b""
    unsent: memoryview | None = None
    idle_looks: int = 0


class MetricsEndpoint:
    """Answers requests in a thread, with the text published last; none of them makes another wait.
    Raises: LocalTransportError if it cannot listen on the address.
    """

    def __init__(self, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._sock = socket.socket(family)
        try:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._sock.bind((host, port))
            self._sock.listen(_WAITING_MAX)
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
        self._clients: dict[socket.socket, _Client] = {}
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def publish(self, text: str) -> None:
        self._text = text

    def close(self) -> None:
        self._has_ended.set()
        self._thread.join()
        for sock in list(self._clients):
            self._close(sock)
        self._sock.close()

    def _run(self) -> None:
        while not self._has_ended.wait(_PAUSE_S):
            self._look()

    def _look(self) -> None:
        """Answer waiting requests, and go on with long responses."""
        for sock in list(self._clients):
            self._serve(sock)
        for _ in range(_WAITING_MAX):
            try:
                sock, _ = self._sock.accept()
            except OSError:
                return
            sock.setblocking(False)
            self._clients[sock] = _Client()
            self._serve(sock)
            if len(self._clients) > _CONNECTIONS_MAX:
                self._close(max(self._clients, key=lambda each: self._clients[each].idle_looks))

    def _serve(self, sock: socket.socket) -> None:
        """Receive the request, then send what the socket takes of the response."""
        client = self._clients[sock]
        client.idle_looks += 1
        try:
            if client.unsent is None:
                received = sock.recv(_REQUEST_BYTES_MAX)
                client.request += received
                if b"\r\n\r\n" in client.request or b"\n\n" in client.request:
                    client.unsent = memoryview(_response_to(client.request, self._text))
                elif not received or len(client.request) > _REQUEST_BYTES_MAX:
                    self._close(sock)
                    return
            while client.unsent:
                client.unsent = client.unsent[sock.send(client.unsent) :]
                client.idle_looks = 0
            is_over = client.unsent is not None
        except BlockingIOError:
            is_over = False
        except OSError:
            is_over = True
        if is_over or client.idle_looks > _PATIENCE:
            self._close(sock)

    def _close(self, sock: socket.socket) -> None:
        sock.close()
        del self._clients[sock]


def _response_to(request: bytes, text: str) -> bytes:
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
