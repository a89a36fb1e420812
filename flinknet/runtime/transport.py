# mypyc
"""TcpTransport: drives a Connection over a non-blocking socket."""

from __future__ import annotations

import socket
from collections.abc import Callable

from flinknet.core.connection import SEND_BATCH_BYTES, Connection, ScatteringConnection
from flinknet.errors import RemoteProtocolError, TransportError

from .clock import monotonic_ns
from .sockets import loss_of, unacknowledged_bytes

PIECES_MAX = 512
"""The most pieces in one gathered write; the kernel allows 1024."""

JOIN_BELOW_BYTES = 2048
"""Pieces smaller than this on average are joined before they are sent: cheaper than gathering."""


class TcpTransport:
    """Carries the bytes of one connection.

    Args:
        sock: connected socket, owned by the transport from now on.
        watch: called when `wants_to_read` or `wants_to_write` has changed.
        closed: called when the transport is closed and the connection has been informed.

    Attributes:
        unsent_bytes: bytes that the connection has passed on and the socket has not accepted
            (Netty's outbound buffer).
    """

    def __init__(
        self,
        sock: socket.socket,
        connection: Connection,
        receive_buffer: memoryview,
        watch: Callable[[TcpTransport], None],
        forget: Callable[[TcpTransport], None],
        closed: Callable[[TcpTransport], None] | None = None,
    ) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.connection = connection
        self.is_closed = False
        self.sent_bytes = 0
        self.received_bytes = 0
        self._scattering = connection if isinstance(connection, ScatteringConnection) else None
        self._receive_buffer = receive_buffer
        self._watch = watch
        self._forget = forget
        self._closed = closed
        self.unsent_bytes = 0
        self._unsent: list[bytes | memoryview] = []
        self._room_until_bytes = 0
        self._asked_at_bytes = -1
        self.wants_to_write = False
        self.wants_to_read = True

    @property
    def is_ready(self) -> bool:
        return not self.is_closed and not self.unsent_bytes and self.connection.is_ready

    def follow_wants_data(self) -> None:
        """Stop or resume reading, as the connection wants; call this when that may have changed."""
        wants_data = self.connection.wants_data
        if wants_data != self.wants_to_read and not self.is_closed:
            self.wants_to_read = wants_data
            self._watch(self)

    def handle_readable(self) -> None:
        """Read once and pass the data on; level-triggered polling reports the rest."""
        scattering = self._scattering
        memory = scattering.memory_to_fill() if scattering is not None else ()
        try:
            if memory:
                count = self.sock.recvmsg_into(memory)[0]
            else:
                count = self.sock.recv_into(self._receive_buffer)
        except BlockingIOError:
            return
        except OSError as error:
            self.close(loss_of(error))
            return
        if count == 0:
            self.close()
            return
        self.received_bytes += count
        try:
            if memory and scattering is not None:
                scattering.memory_filled(count, now_ns=monotonic_ns())
            else:
                self.connection.receive_data(self._receive_buffer[:count], now_ns=monotonic_ns())
        except RemoteProtocolError:
            self.pump()
            self.close()
            return
        if not self.connection.wants_data:
            self.follow_wants_data()

    def handle_writable(self) -> None:
        self._set_waiting(False)
        self.pump()

    def pump(self) -> None:
        """Send the connection's data until it has none or the socket accepts no more."""
        connection = self.connection
        while not self.is_closed:
            out = connection.data_to_send(
                now_ns=monotonic_ns(),
                unsent_bytes=self.unsent_bytes,
                room_bytes=0 if self.unsent_bytes else self._room_bytes(),
            )
            if out:
                added_bytes = sum(map(len, out))
                self.unsent_bytes += added_bytes
                if added_bytes < JOIN_BELOW_BYTES * len(out):
                    self._unsent.append(b"".join(out))
                else:
                    self._unsent += out
            elif not self.unsent_bytes:
                if connection.is_closing:
                    self.close()
                return
            if self.wants_to_write:
                return
            self._send()

    def close(self, error: TransportError | None = None) -> None:
        """Close the socket and inform the connection, with the error if there is one."""
        if self.is_closed:
            return
        self.is_closed = True
        self._forget(self)
        self.sock.close()
        self.connection.receive_eof(now_ns=monotonic_ns(), error=error)
        self._unsent.clear()
        if self._closed is not None:
            self._closed(self)

    def _room_bytes(self) -> int:
        """Bytes that the socket would accept at once, by estimate: only half of its buffer is
        counted, as the kernel keeps more in it than payload. The kernel is asked again only when
        that is used up and something has been sent since.
        """
        room_bytes = self._room_until_bytes - self.sent_bytes
        if room_bytes < SEND_BATCH_BYTES and self._asked_at_bytes != self.sent_bytes:
            self._asked_at_bytes = self.sent_bytes
            buffer_bytes = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            room_bytes = max(0, buffer_bytes // 2 - unacknowledged_bytes(self.sock))
            self._room_until_bytes = self.sent_bytes + room_bytes
        return room_bytes

    def _send(self) -> None:
        """Send once, and keep the bytes that the socket did not accept."""
        pieces = self._unsent
        try:
            count = self.sock.sendmsg(pieces if len(pieces) <= PIECES_MAX else pieces[:PIECES_MAX])
        except BlockingIOError:
            self._set_waiting(True)
            return
        except OSError as error:
            self.close(loss_of(error))
            return
        self.sent_bytes += count
        self.unsent_bytes -= count
        if not self.unsent_bytes:
            self._unsent = []
            return
        for index, piece in enumerate(pieces):
            if count < len(piece):
                self._unsent = [memoryview(piece)[count:], *pieces[index + 1 :]]
                return
            count -= len(piece)

    def _set_waiting(self, is_waiting: bool) -> None:
        if is_waiting != self.wants_to_write:
            self.wants_to_write = is_waiting
            self._watch(self)
