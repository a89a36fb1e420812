"""MetricsEndpoint: live values for Prometheus, over HTTP."""

from __future__ import annotations

import errno
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from flinknet.errors import LocalTransportError

_OF_THE_PORT = (errno.EADDRINUSE, errno.EACCES)
"""Errors for which another port is a remedy."""

THREADS_MAX = 40
"""Threads of the process from which further connections are closed at once."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    text = ""

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return threading.active_count() < THREADS_MAX


class _Handler(BaseHTTPRequestHandler):
    """Answers one request of a connection, which may be silent for so many seconds."""

    timeout = 5
    server: _Server

    def do_GET(self) -> None:
        is_known = self.path.partition("?")[0] in ("/metrics", "/")
        body = (self.server.text if is_known else "metrics are at /metrics\n").encode()
        self.send_response_only(200 if is_known else 404)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


class MetricsEndpoint:
    """Answers requests in threads, with the text published last. Raises: LocalTransportError if it
    cannot listen on the address.
    """

    def __init__(self, host: str, port: int) -> None:
        _Server.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._server = _Server((host, port), _Handler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            is_port = not isinstance(error, OSError) or error.errno in _OF_THE_PORT
            advice = "choose another port" if is_port else "give an address of this machine"
            raise LocalTransportError(
                f"--metrics-port {host}:{port}: cannot listen there ({why}); {advice}"
            ) from error
        self.address: tuple[str, int] = self._server.server_address[:2]  # type: ignore[assignment]
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    def publish(self, text: str) -> None:
        self._server.text = text

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
