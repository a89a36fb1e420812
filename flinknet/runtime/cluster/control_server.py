"""ControlServer: the control port of a JobManager, and the connections to it."""

from __future__ import annotations

import socket

from flinknet.loopback import family_of, loopback

from ..clock import monotonic_ns
from ..event_loop import EventLoop
from ..listener import Listener
from .control_connection import ControlConnection

UNKNOWN_MAX = 64
"""The most connections at once that have not authenticated. The oldest is closed for a new one: a
process that has the secret sends it at once, and is never among the oldest.
"""

HELLO_WAIT_NS = 10_000_000_000
ACCEPT_PAUSE_NS = 100_000_000
"""How long to wait before the next accept after running out of file descriptors."""


class ControlServer:
    """Listens on loopback and adds accepted connections to the event loop.

    Args:
        token: the secret of the cluster.

    Attributes:
        connections: accepted connections; their reader removes those that have ended.
    """

    def __init__(self, loop: EventLoop, token: str) -> None:
        self._loop = loop
        self._token = token
        sock = socket.create_server((loopback(), 0), family=family_of(loopback()))
        sock.setblocking(False)
        self._listener = Listener(
            sock,
            watch=lambda: loop.add_reader(sock, self._accept),
            unwatch=lambda: loop.remove_reader(sock),
        )
        self._paused_until_ns = 0
        self.port: int = sock.getsockname()[1]
        self.connections: list[ControlConnection] = []
        self._unknown_since_ns: dict[ControlConnection, int] = {}

    def forget_unknown(self, *, now_ns: int) -> None:
        """Close connections that have not authenticated in time; call this in every turn."""
        if now_ns >= self._paused_until_ns:
            self._listener.wake()
        for connection, since_ns in list(self._unknown_since_ns.items()):
            if connection.peer_role is not None or connection.loss is not None:
                del self._unknown_since_ns[connection]
            elif now_ns - since_ns > HELLO_WAIT_NS:
                connection.close()

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _accept(self) -> None:
        taken = self._listener.accept(socket.socket.accept)
        if taken is None:
            if self._listener.is_paused:  # close one without the secret to free a descriptor
                if self._drop_oldest_unknown():
                    self._listener.wake()
                else:
                    self._paused_until_ns = monotonic_ns() + ACCEPT_PAUSE_NS
            return
        sock, (host, port, *_) = taken
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = ControlConnection(self._token, peer=f"{host}:{port}")
        while len(self._unknown_since_ns) >= UNKNOWN_MAX:
            self._drop_oldest_unknown()
        self.connections.append(connection)
        self._unknown_since_ns[connection] = monotonic_ns()
        self._loop.add_transport(sock, connection)

    def _drop_oldest_unknown(self) -> bool:
        """Close the oldest unauthenticated connection. Returns: whether there was one."""
        while self._unknown_since_ns:
            connection = next(iter(self._unknown_since_ns))
            del self._unknown_since_ns[connection]
            if connection.peer_role is None and connection.loss is None:
                connection.close()
                return True
        return False
