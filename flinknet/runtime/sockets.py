"""Sockets of the data port with Flink's options: listening, accepted, and connecting ones;
Listener: a listening socket that pauses while the process can open no more sockets; the loop's
selectors.
"""

from __future__ import annotations

import errno
import fcntl
import os
import selectors
import socket
import sys
import termios
from collections.abc import Callable
from typing import TypeVar

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigError, LocalTransportError, RemoteTransportError, TransportError
from flinknet.loopback import bound_host, family_of

BACKLOG = 128

_GONE = {
    errno.ECONNRESET: "was reset by it",
    errno.EPIPE: "was closed by it",
    errno.ETIMEDOUT: "is dead: nothing was acknowledged and keep-alive went unanswered",
    errno.EHOSTUNREACH: "is dead: its host cannot be reached",
    errno.ENETUNREACH: "is dead: its network cannot be reached",
}
"""Text for an errno that the peer or the network caused; any other is a fault of this side."""


def listen(network: NetworkConfig) -> socket.socket:
    """Listen on the first free port of `taskmanager.data.bind-port` (else `taskmanager.data.port`;
    see `listed_ports`). Raises: FlinknetError if there is no loopback address; LocalTransportError
    if no port is free, and at once for any other fault.
    """
    host, ports = bound_host(network.bind_host), network.bind_port or network.data_port
    key = "taskmanager.data.bind-port" if network.bind_port else "taskmanager.data.port"
    for port in listed_ports(ports):
        server = _open(host)
        try:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _set_buffer_sizes(server, network)
            server.bind((host, port))
            server.listen(network.server_backlog or BACKLOG)
            server.setblocking(False)
            return server
        except OSError as error:
            server.close()
            if error.errno != errno.EADDRINUSE:
                raise LocalTransportError(
                    f"cannot listen on {host}:{port}: {error.strerror};"
                    f" check taskmanager.bind-host and {key}"
                ) from error
    taken = f"port {ports}" if ports.strip().isdecimal() else f"every port of {ports}"
    raise LocalTransportError(
        f"cannot listen on {host}: {taken} is in use; give {key} a"
        " range such as 50100-50200 (one port for each task manager), or 0 for any free one"
    )


def accept(server: socket.socket) -> tuple[socket.socket, str]:
    """Accept the next connection. Returns: its socket, with the buffer sizes of the listening one,
    and its address "host:port", which is gone once the peer has disconnected.
    """
    sock, address = server.accept()
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock, f"{address[0]}:{address[1]}"


def connect(address: tuple[str, int], network: NetworkConfig) -> socket.socket:
    """Return a non-blocking socket that is connecting, with Flink's client options. Raises:
    TransportError if it fails at once; ConfigError for keep-alive settings that the system does not
    accept.
    """
    sock = _open(address[0])
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _set_keep_alive(sock, network)
        _set_buffer_sizes(sock, network)
        code = sock.connect_ex(address)
    except OSError as error:
        sock.close()
        raise LocalTransportError(
            f"cannot connect to {address[0]}:{address[1]}: {error.strerror}"
        ) from error
    if code not in (0, errno.EINPROGRESS):
        sock.close()
        raise connect_error(code)
    return sock


def connect_error(code: int) -> TransportError:
    if code in (errno.EMFILE, errno.ENFILE):
        return LocalTransportError("too many open files; raise the limit (ulimit -n)")
    return RemoteTransportError(os.strerror(code))


def loss_of(error: OSError) -> TransportError:
    """The error for a lost connection, for "connection to … {text}" (Flink: exceptionCaught)."""
    text = _GONE.get(error.errno or 0)
    if text is not None:
        return RemoteTransportError(text)
    return LocalTransportError(f"failed on this side: {os.strerror(error.errno or 0)}")


def _open(host: str) -> socket.socket:
    try:
        return socket.socket(family_of(host))
    except OSError as error:
        raise connect_error(error.errno or 0) from error


def _set_keep_alive(sock: socket.socket, network: NetworkConfig) -> None:
    """Turn on keep-alive; its three numbers are the system's unless configured. Raises: ConfigError
    for a number that the system does not accept.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, option, value in (
        ("keepIdleSec", "TCP_KEEPIDLE", network.keep_alive_idle_s),
        ("keepIntervalSec", "TCP_KEEPINTVL", network.keep_alive_interval_s),
        ("keepCount", "TCP_KEEPCNT", network.keep_alive_count),
    ):
        if value is None:
            continue
        try:
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        except (OSError, AttributeError):
            sock.close()
            raise ConfigError(
                f"taskmanager.network.netty.client.tcp.{name}: this system does not take {value};"
                " leave it out to have the system's own"
            ) from None


def _set_buffer_sizes(sock: socket.socket, network: NetworkConfig) -> None:
    if network.send_receive_buffer_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, network.send_receive_buffer_bytes)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, network.send_receive_buffer_bytes)


def listed_ports(ports: str) -> list[int]:
    """The ports of a number (0: any), a range or a list, in order."""
    found: list[int] = []
    for part in ports.split(","):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


def unacknowledged_bytes(sock: socket.socket) -> int:
    """Bytes that the socket has accepted and the peer has not acknowledged."""
    return _kernel_bytes(sock, termios.TIOCOUTQ)


def unread_bytes(sock: socket.socket) -> int:
    return _kernel_bytes(sock, termios.FIONREAD)


def _kernel_bytes(sock: socket.socket, request: int) -> int:
    return int.from_bytes(fcntl.ioctl(sock, request, bytes(4)), sys.byteorder, signed=True)


_Accepted = TypeVar("_Accepted")


class Listener:
    """A listening socket, which it owns, and its watch.

    Without a free file descriptor a selector would report a waiting connection again and again. So
    the socket is not watched from then on until `wake`; new connections wait in the kernel's
    backlog.

    Args:
        watch: makes the driver call `accept` when a connection waits. Called at once.

    Attributes:
        refusal: why no connection can be accepted, while the listener is paused; else None.
    """

    def __init__(
        self, sock: socket.socket, watch: Callable[[], object], unwatch: Callable[[], object]
    ) -> None:
        self.sock = sock
        self.refusal: str | None = None
        self._watch = watch
        self._unwatch = unwatch
        watch()

    @property
    def is_paused(self) -> bool:
        return self.refusal is not None

    def accept(self, take: Callable[[socket.socket], _Accepted]) -> _Accepted | None:
        """Return the result of `take` on the socket; None if no connection can be accepted now."""
        try:
            return take(self.sock)
        except (BlockingIOError, ConnectionError):  # it may have disconnected meanwhile
            return None
        except OSError as error:
            self.refusal = f"cannot accept: {connect_error(error.errno or 0)}"
            self._unwatch()
            return None

    def wake(self) -> None:
        if self.is_paused:
            self.refusal = None
            self._watch()

    def close(self) -> None:
        """End the watch and close the socket; a second call has no effect."""
        if self.sock.fileno() >= 0:
            if not self.is_paused:
                self._unwatch()
            self.refusal = None
            self.sock.close()


def create_selector(transport: str) -> selectors.BaseSelector:
    """Create a selector: select(2) for `nio`, else epoll.

    select(2), not poll(2), since its time-outs are exact to the microsecond. It holds 1024
    descriptors; a TaskManager has two connections for each other one.
    """
    return selectors.SelectSelector() if transport == "nio" else selectors.EpollSelector()
