"""ControlServer: the control port of a JobManager, and who has connected to it."""

from __future__ import annotations

import socket
from contextlib import suppress

from ..clock import monotonic_ns
from ..event_loop import EventLoop
from .control_connection import ControlConnection

LOOPBACK = "127.0.0.1"
UNKNOWN_MAX = 64
"""Connections that have not said who they are; there are no more of them at once."""

HELLO_WAIT_NS = 10_000_000_000


class ControlServer:
    """Listens on loopback and hands what it accepts to the event loop.

    Args:
        token: the secret of the cluster.

    Attributes:
        connections: those that were accepted and are not over, for who reads them.
    """

    def __init__(self, loop: EventLoop, token: str) -> None:
        self._loop = loop
        self._token = token
        self._socket = socket.create_server((LOOPBACK, 0))
        self._socket.setblocking(False)
        loop.add_reader(self._socket, self._accept)
        self.port: int = self._socket.getsockname()[1]
        self.connections: list[ControlConnection] = []
        self._unknown_since_ns: dict[ControlConnection, int] = {}

    def forget_unknown(self, *, now_ns: int) -> None:
        """Who has connected and does not say who it is, is sent away."""
        for connection, since_ns in list(self._unknown_since_ns.items()):
            if connection.peer_role is not None or connection.loss is not None:
                del self._unknown_since_ns[connection]
            elif now_ns - since_ns > HELLO_WAIT_NS:
                connection.close()

    def close(self) -> None:
        """Stop listening."""
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _accept(self) -> None:
        with suppress(BlockingIOError, ConnectionError):
            sock, _ = self._socket.accept()
            if len(self._unknown_since_ns) >= UNKNOWN_MAX:
                sock.close()
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = ControlConnection(self._token)
            self.connections.append(connection)
            self._unknown_since_ns[connection] = monotonic_ns()
            self._loop.add_transport(sock, connection)
