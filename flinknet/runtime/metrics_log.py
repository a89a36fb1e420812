"""MetricsLog: the metrics of tasks and TaskManagers over time, in a file of the run directory;
and live values for Prometheus.
"""

from __future__ import annotations

import errno
import json
import socket
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from flinknet.errors import LocalTransportError
from flinknet.trace.metrics import METRICS_NAME, instant_of
from flinknet.whole_files import close_file, whole_file


class MetricsLog:
    """Appends a line for each task of a sample, and one for the memory of its TaskManager. Never
    raises: if the file cannot be written, it is given up, and `error` says why.

    Args:
        keep_ns: how much of the past `drop_old` keeps; None: all of it.
    """

    def __init__(self, directory: Path, *, keep_ns: int | None = None) -> None:
        self._path = directory / METRICS_NAME
        self._file: IO[str] | None = None
        self._keep_ns = keep_ns
        self._kept: list[tuple[int, int]] = []  # ascending, without overlaps
        self._dropped_at_ns = 0
        self.error: str | None = None

    def add(
        self,
        index: int,
        tasks: Mapping[str, Mapping[str, float]],
        memory: Mapping[str, float],
        *,
        now_ns: int,
    ) -> None:
        """Write a sample of one TaskManager: metrics of its tasks by name, and of its memory."""
        manager = {"at_ns": now_ns, "task_manager": f"tm-{index}"}
        lines = [{**manager, "task": name, **found} for name, found in tasks.items()]
        self.write([*lines, {**manager, **memory}])

    def write(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Append lines."""
        if self.error is not None:
            return
        try:
            if self._file is None:
                self._file = self._path.open("w", encoding="utf-8")
            self._file.writelines(json.dumps(line) + "\n" for line in lines)
            self._file.flush()
        except OSError as error:
            self.error = f"{self._path}: cannot be written ({error.strerror})"

    def keep_around(self, at_ns: int) -> None:
        """Let `drop_old` keep the lines from `keep_ns` before an instant to half of that after."""
        if self._keep_ns is None:
            return
        from_ns, to_ns = at_ns - self._keep_ns, at_ns + self._keep_ns // 2
        while self._kept and self._kept[-1][1] >= from_ns:
            first_ns, last_ns = self._kept.pop()
            from_ns, to_ns = min(from_ns, first_ns), max(to_ns, last_ns)
        self._kept.append((from_ns, to_ns))

    def drop_old(self, now_ns: int) -> None:
        """Drop lines that are too old; call this regularly, it rarely has to rewrite the file."""
        keep_ns = self._keep_ns
        if keep_ns is None or self._file is None or now_ns < self._dropped_at_ns + keep_ns:
            return
        self._dropped_at_ns = now_ns
        starts_ns = [first_ns for first_ns, _ in self._kept]
        try:
            with self._path.open(encoding="utf-8") as file, whole_file(self._path) as kept:
                for line in file:
                    at_ns = instant_of(line)
                    if at_ns is None:
                        continue
                    place = bisect_right(starts_ns, at_ns)
                    is_kept = place > 0 and at_ns < self._kept[place - 1][1]
                    if is_kept or now_ns - keep_ns <= at_ns <= now_ns:
                        kept.write(line.encode())
            close_file(self._file)
            self._file = self._path.open("a", encoding="utf-8")
        except OSError as error:
            self.error = f"{self._path}: cannot be written ({error.strerror})"

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # the disk is full, as `error` says
                self._file.close()


_OF_THE_PORT = (errno.EADDRINUSE, errno.EACCES)
"""Errors for which another port is a remedy."""

_REQUEST_BYTES_MAX = 16 * 1024
_CONNECTIONS_MAX = 32
_WAITING_MAX = 128
"""Connections accepted in one call of `poll`, and waiting in the kernel."""

_PATIENCE = 50
"""Calls of `poll` before a connection that sends no request or takes no response is closed."""


@dataclass(slots=True)
class _Client:
    """A connection: its request, the rest of the response, and calls of `poll` since progress."""

    request: bytes = b""
    unsent: memoryview | None = None
    idle_calls: int = 0


class MetricsEndpoint:
    """A listening socket to be polled several times a second from an existing loop: it never waits,
    and needs no thread. Raises: LocalTransportError if it cannot listen on the address.
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

    def publish(self, text: str) -> None:
        self._text = text
        self.poll()

    def poll(self) -> None:
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
                self._close(max(self._clients, key=lambda each: self._clients[each].idle_calls))

    def close(self) -> None:
        for sock in list(self._clients):
            self._close(sock)
        self._sock.close()

    def _serve(self, sock: socket.socket) -> None:
        """Receive the request, then send what the socket takes of the response."""
        client = self._clients[sock]
        client.idle_calls += 1
        try:
            if client.unsent is None:
                received = sock.recv(_REQUEST_BYTES_MAX)
                client.request += received
                if b"\r\n\r\n" in client.request or b"\n\n" in client.request:
                    client.unsent = memoryview(response_to(client.request, self._text))
                elif not received or len(client.request) > _REQUEST_BYTES_MAX:
                    self._close(sock)
                    return
            while client.unsent:
                client.unsent = client.unsent[sock.send(client.unsent) :]
                client.idle_calls = 0
            is_over = client.unsent is not None
        except BlockingIOError:
            is_over = False
        except OSError:
            is_over = True
        if is_over or client.idle_calls > _PATIENCE:
            self._close(sock)

    def _close(self, sock: socket.socket) -> None:
        sock.close()
        del self._clients[sock]


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
