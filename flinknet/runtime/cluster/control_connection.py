"""ControlConnection: one end of a control connection: length-prefixed JSON messages, in order;
ControlServer: the control port of a JobManager or of a worker.

A ControlConnection is a `core.connection.Connection`, so that the event loop of the data plane
drives it. A message is 4 bytes of length (big-endian) and an object {"message": name, "body":
fields}.

The secret does not travel: the server sends a nonce, the client answers with its own and an HMAC of
both, and sends nothing else before the server has proved the same.
"""

from __future__ import annotations

import hmac
import secrets
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import flinknet
from flinknet import errors
from flinknet.core.connection import SEND_BATCH_BYTES
from flinknet.loopback import family_of, loopback
from flinknet.plain_values import decode_message, encode_message
from flinknet.units import format_address

from ..clock import monotonic_ns
from ..event_loop import EventLoop
from ..visitors import VisitedPort
from . import control_messages as messages

if TYPE_CHECKING:
    from ..tls import Tls
    from ..transport import TcpTransport

LENGTH_BYTES = 4
HELLO_MAX_BYTES = 4096
"""The longest message accepted from a peer that has not authenticated."""

MESSAGE_MAX_BYTES = 16 << 20
UNSENT_MAX_BYTES = 64 << 20
"""The connection is given up if the peer leaves more than this unread."""


def _framed(message: Any) -> bytes:
    data = encode_message(message)
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def proof_of(secret: str, *parts: str) -> str:
    text = "\0".join(parts).encode(errors="surrogatepass")  # JSON can contain lone surrogates
    return hmac.new(secret.encode(), text, "sha256").hexdigest()


class ControlConnection:
    """One end of a control connection.

    Args:
        token: the secret of the cluster.
        role: role of this side, sent in its hello; None for the server side, which accepts no
            message before a hello that proves the secret.
        peer: address of the other end, for logs.
        facts: what a client that has proved the secret learns of this server.

    Attributes:
        welcome: the facts of the other end, once it has proved that it knows the secret.
        local_host, transport: of an accepted connection, the address of this end, and its socket's.
        loss: why the connection ended, None while it is open.
        fault: how the peer violated the protocol, None if it did not.
    """

    def __init__(
        self,
        token: str,
        *,
        role: str | None = None,
        peer: str = "",
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self._token = token
        self.peer = peer
        self._role = role
        self._facts = dict(facts or {})
        self._nonce, self._nonce_there = secrets.token_hex(16), ""
        self._held: list[Any] = []
        self._payload_of: messages.Heartbeat | None = None
        self.welcome: dict[str, Any] | None = None
        self.local_host = ""
        self.transport: TcpTransport | None = None
        self.heard_ns = monotonic_ns()
        self.peer_role: str | None = None
        self.received: deque[Any] = deque()
        self.loss: errors.TransportError | None = None
        self.fault: str | None = None
        self.is_closing, self.wants_data = False, True
        self._unread = bytearray()
        self._unsent: list[bytes] = []
        self._unsent_bytes = self._payload_bytes = 0
        if role is None:
            version = messages.PROTOCOL_VERSION, flinknet.__version__
            self._queue(messages.Challenge(*version, self._nonce))

    @property
    def _is_known(self) -> bool:
        """Whether the other end has shown that it knows the secret."""
        return (self.welcome if self._role is not None else self.peer_role) is not None

    @property
    def is_quiet(self) -> bool:
        return not self.received and self.loss is None

    @property
    def is_ready(self) -> bool:
        return bool(self._unsent)

    def send(self, message: Any) -> None:
        """Queue a message, behind the proofs of the secret, unless the connection has ended."""
        if self._role is not None and self.welcome is None:
            self._held.append(message)
        else:
            self._queue(message)

    def _queue(self, message: Any) -> None:
        if self.loss is not None or self.is_closing:
            return
        data = _framed(message)
        self._unsent_bytes += len(data)  # a payload, which measures the way, may be longer
        if isinstance(message, messages.Heartbeat):
            data += bytes(message.payload_bytes)
        self._unsent.append(data)
        if self._unsent_bytes > UNSENT_MAX_BYTES:
            self.loss = errors.RemoteTransportError("was given up: the other end does not read")
            self.is_closing = True

    def close(self) -> None:
        self.is_closing = True

    def give_up(self, fault: str) -> None:
        """End an accepted connection at once, with what is unsent."""
        self.fault = self.fault or fault
        self.close()
        if self.transport is not None:
            self.transport.close()

    def receive_data(self, data: memoryview, *, now_ns: int) -> None:
        """Process bytes from the peer. Raises: RemoteProtocolError for an invalid message."""
        self.heard_ns = now_ns
        self._unread += data
        try:
            while (message := self._next_message()) is not None:
                self._take(message)
        except errors.RemoteProtocolError as error:
            self.fault = str(error)
            self.loss = errors.TransportError(f"was closed because of a wrong message: {error}")
            self._unsent.append(_framed(messages.Refused(self.fault)))
            self.is_closing = True
            raise

    def receive_eof(self, *, now_ns: int, error: errors.TransportError | None = None) -> None:
        if self.loss is None:
            self.loss = error or errors.RemoteTransportError("was closed by it")

    def data_to_send(
        self, *, now_ns: int, unsent_bytes: int = 0, room_bytes: int = SEND_BATCH_BYTES
    ) -> Sequence[bytes | memoryview]:
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
        if self._payload_bytes:
            count = min(self._payload_bytes, len(unread))
            del unread[:count]
            self._payload_bytes -= count
            return None if self._payload_bytes else self._payload_of
        if len(unread) < LENGTH_BYTES:
            return None
        length = int.from_bytes(unread[:LENGTH_BYTES], "big")
        if length > (MESSAGE_MAX_BYTES if self._is_known else HELLO_MAX_BYTES):
            raise errors.RemoteProtocolError(f"a control message of {length} bytes is too long")
        if len(unread) < LENGTH_BYTES + length:
            return None
        data = bytes(unread[LENGTH_BYTES : LENGTH_BYTES + length])
        del unread[: LENGTH_BYTES + length]
        message = decode_message(messages.MESSAGES, data)
        if isinstance(message, messages.Heartbeat) and message.payload_bytes > 0 and self._is_known:
            self._payload_of, self._payload_bytes = message, message.payload_bytes
            return self._next_message()
        return message

    def _take(self, message: Any) -> None:
        if self._is_known:
            self.received.append(message)
        elif self._role is not None:
            self._greet(self._role, message)
        elif not isinstance(message, messages.Hello):
            raise errors.RemoteProtocolError("the first message is not a hello")
        else:
            self._admit(message)

    def _greet(self, role: str, message: Any) -> None:
        """Answer the challenge of a server, and check that it knows the secret, too."""
        if isinstance(message, messages.Refused):
            self.received.append(message)
        elif isinstance(message, messages.Challenge) and not self._nonce_there:
            version, release = messages.PROTOCOL_VERSION, flinknet.__version__
            if (message.version, message.release) != (version, release):
                raise errors.RemoteProtocolError(
                    f"it runs flinknet {message.release:.40} (protocol {message.version}), here it"
                    f" is {release} (protocol {version}); use the same flinknet on both sides"
                )
            self._nonce_there = message.nonce
            parts = message.nonce, self._nonce, role
            proof = f"{self._nonce} {proof_of(self._token, 'hello', *parts)}"
            self._queue(messages.Hello(version, role, proof))
        elif isinstance(message, messages.Welcome) and self._nonce_there:
            if not self._proves(message.proof, "welcome", self._nonce_there, self._nonce, role):
                raise errors.RemoteProtocolError("it does not know the secret")
            self.welcome = message.facts
            held, self._held = self._held, []
            for each in held:
                self._queue(each)
        else:
            raise errors.RemoteProtocolError("it has not shown that it knows the secret")

    def _proves(self, proof: str, *parts: str) -> bool:
        given = proof.encode(errors="surrogatepass")  # JSON can contain lone surrogates
        return hmac.compare_digest(given, proof_of(self._token, *parts).encode())

    def _admit(self, message: messages.Hello) -> None:
        """Check the proof of the secret in a client's hello."""
        if message.version != messages.PROTOCOL_VERSION:
            raise errors.RemoteProtocolError(
                f"the hello is of version {str(message.version)[:20]}, here it is"
                f" {messages.PROTOCOL_VERSION}; use the same flinknet on both sides"
            )
        nonce, _, given = message.token.partition(" ")
        parts = self._nonce, nonce, message.role
        if not self._proves(given, "hello", *parts):
            lacks = "the hello lacks the proof of the secret"
            raise errors.RemoteProtocolError("the secrets differ" if given else lacks)
        self.peer_role = message.role
        self._queue(messages.Welcome(proof_of(self._token, "welcome", *parts), self._facts))


class ControlServer:
    """Listens, on loopback unless another host is given, and adds accepted connections to the loop.

    Args:
        token: the secret of the cluster.
        tls: wraps connections, whose clients must show a certificate; None: no TLS.
        facts: what clients that know the secret learn.

    Attributes:
        connections: accepted connections; their reader removes those that have ended.

    Raises: LocalTransportError if the address cannot be used.
    """

    def __init__(
        self,
        loop: EventLoop,
        token: str,
        *,
        address: tuple[str, int] | None = None,
        tls: Tls | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self._loop = loop
        self._token = token
        self._tls = tls
        self._facts = facts
        where = address or (loopback(), 0)
        try:
            sock = socket.create_server(where, family=family_of(where[0]))
        except OSError as error:
            fault = f"cannot listen on {format_address(*where)}: {error.strerror or error}"
            advice = "give an address of this host and a free port"
            raise errors.LocalTransportError(f"{fault}; {advice}") from error
        sock.setblocking(False)
        self.host: str
        self.host, self.port = sock.getsockname()[:2]
        self.connections: list[ControlConnection] = []
        self.visited = VisitedPort(
            loop,
            sock,
            self._add,
            is_known=lambda connection: connection.peer_role is not None,
            has_renewal=False,
        )

    def close(self) -> None:
        self.visited.close()

    def _add(self, sock: socket.socket, peer: str) -> tuple[TcpTransport, ControlConnection]:
        connection = ControlConnection(self._token, peer=peer, facts=self._facts)
        connection.local_host = sock.getsockname()[0]
        self.connections.append(connection)
        wrapped = connection if self._tls is None else self._tls.around(connection, is_server=True)
        transport = connection.transport = self._loop.add_transport(sock, wrapped)
        return transport, connection
