"""ControlConnection: one end of a control connection: length-prefixed JSON messages, in order;
ControlServer: the control port of a JobManager.

A ControlConnection is a `core.connection.Connection`, so that the event loop of the data plane
drives it. A message is 4 bytes of length (big-endian) and an object {"message": name, "body":
fields}.
"""

from __future__ import annotations

import hmac
import socket
from collections import deque
from collections.abc import Sequence
from typing import Any

from flinknet.core.connection import SEND_BATCH_BYTES
from flinknet.errors import RemoteProtocolError, RemoteTransportError, TransportError
from flinknet.loopback import family_of, loopback
from flinknet.plain_values import decode_message, encode_message

from ..clock import monotonic_ns
from ..event_loop import EventLoop
from ..sockets import Listener
from .control_messages import MESSAGES, PROTOCOL_VERSION, Hello, Refused

LENGTH_BYTES = 4
HELLO_MAX_BYTES = 4096
"""The longest message accepted from a peer that has not authenticated."""

MESSAGE_MAX_BYTES = 16 << 20
UNSENT_MAX_BYTES = 64 << 20
"""The connection is given up if the peer leaves more than this unread."""


def _framed(message: Any) -> bytes:
    data = encode_message(message)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


class ControlConnection:
    """One end of a control connection.

    Args:
        token: the secret of the cluster.
        role: role of this side, sent in its hello; None for the server side, which accepts no
            message before a hello with the secret.
        peer: address of the other end, for logs.

    Attributes:
        peer_role: role in the peer's hello; None before it.
        received: messages not yet consumed, oldest first.
        loss: why the connection ended, None while it is open.
        fault: how the peer violated the protocol, None if it did not.
    """

    def __init__(self, token: str, *, role: str | None = None, peer: str = "") -> None:
        self._token = token
        self.peer = peer
        self._is_server = role is None
        self.peer_role: str | None = None
        self.received: deque[Any] = deque()
        self.loss: TransportError | None = None
        self.fault: str | None = None
        self.is_closing = False
        self.wants_data = True
        self._unread = bytearray()
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        if role is not None:
            self.send(Hello(PROTOCOL_VERSION, role, token))

    @property
    def is_open(self) -> bool:
        return self.loss is None and (self.peer_role is not None or not self._is_server)

    @property
    def is_quiet(self) -> bool:
        """Whether no received message waits and the connection is open."""
        return not self.received and self.loss is None

    @property
    def is_ready(self) -> bool:
        return bool(self._unsent)

    def send(self, message: Any) -> None:
        """Queue a message; without effect after the connection has ended."""
        if self.loss is not None or self.is_closing:
            return
        data = _framed(message)
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes > UNSENT_MAX_BYTES:
            self.loss = RemoteTransportError("was given up: the other end does not read")
            self.is_closing = True

    def close(self) -> None:
        self.is_closing = True

    def receive_data(self, data: memoryview, *, now_ns: int) -> None:
        """Process bytes from the peer.

        Raises: RemoteProtocolError if they are not a valid message, which ends the connection.
        """
        self._unread += data
        try:
            while (message := self._next_message()) is not None:
                self._take(message)
        except RemoteProtocolError as error:
            self.fault = str(error)
            self.loss = TransportError(f"was closed for what came over it: {error}")
            self._refuse(self.fault)
            raise

    def receive_eof(self, *, now_ns: int, error: TransportError | None = None) -> None:
        """The peer has closed the connection."""
        if self.loss is None:
            self.loss = error or RemoteTransportError("was closed by it")

    def data_to_send(
        self, *, now_ns: int, unsent_bytes: int = 0, room_bytes: int = SEND_BATCH_BYTES
    ) -> Sequence[bytes | memoryview]:
        """Return all queued bytes, or nothing while the socket still holds the last ones."""
        if unsent_bytes:
            return ()
        out, self._unsent, self._unsent_bytes = self._unsent, [], 0
        return out

    def next_deadline_ns(self) -> int | None:
        """None: the users of the connection handle time-outs."""
        return None

    def handle_deadline(self, *, now_ns: int) -> None:
        """Do nothing: there are no deadlines."""

    def _next_message(self) -> Any:
        unread = self._unread
        if len(unread) < LENGTH_BYTES:
            return None
        length = int.from_bytes(unread[:LENGTH_BYTES], "big")
        is_known = self.peer_role is not None or not self._is_server
        if length > (MESSAGE_MAX_BYTES if is_known else HELLO_MAX_BYTES):
            raise RemoteProtocolError(f"a control message of {length} bytes is too long")
        if len(unread) < LENGTH_BYTES + length:
            return None
        data = bytes(unread[LENGTH_BYTES : LENGTH_BYTES + length])
        del unread[: LENGTH_BYTES + length]
        return decode_message(MESSAGES, data)

    def _take(self, message: Any) -> None:
        if not self._is_server or self.peer_role is not None:
            self.received.append(message)
            return
        if not isinstance(message, Hello):
            raise RemoteProtocolError("the first message is not a hello")
        token = message.token.encode(errors="surrogatepass")  # JSON can contain lone surrogates
        if not hmac.compare_digest(token, self._token.encode()):
            raise RemoteProtocolError("the hello lacks the secret of this cluster")
        if message.version != PROTOCOL_VERSION:
            raise RemoteProtocolError(
                f"the hello is of version {message.version}, here it is {PROTOCOL_VERSION}; use the"
                " same flinknet on both sides"
            )
        self.peer_role = message.role

    def _refuse(self, reason: str) -> None:
        data = _framed(Refused(reason))
        self._unsent.append(data)
        self.is_closing = True


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
