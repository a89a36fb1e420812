"""Sockets of the data port: port ranges, and errors that say which port and what to do."""

from __future__ import annotations

import errno
import socket

from flinknet.errors import ConfigError, LocalTransportError

PORT_MAX = 65_535


def bind_data_port(host: str, ports: str) -> socket.socket:
    """Listen on the first free port of `ports`: a number, a range "50100-50200", or a list; 0 for
    any.

    Raises: ConfigError for text that is no port; LocalTransportError naming the range when none is
        free.
    """
    for port in _ports(ports):
        server = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((host, port))
            server.listen()
            return server
        except OSError as error:
            server.close()
            if error.errno != errno.EADDRINUSE:
                raise LocalTransportError(
                    f"cannot listen on {host}:{port}: {error.strerror};"
                    " check taskmanager.bind-host and taskmanager.data.port"
                ) from error
    raise LocalTransportError(
        f"cannot listen on {host}: every port of {ports} is in use; give taskmanager.data.port a"
        " range such as 50100-50200 (one port for each task manager), or 0 for any free one"
    )


def connect_to(address: tuple[str, int]) -> socket.socket:
    """A non-blocking socket that is connecting, with Flink's client options."""
    host, port = address
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.connect_ex((host, port))
    return sock


def _ports(ports: str) -> list[int]:
    found: list[int] = []
    try:
        for part in ports.split(","):
            low, _, high = part.strip().partition("-")
            first, last = int(low), int(high or low)
            if not 0 <= first <= last <= PORT_MAX:
                raise ValueError(part)
            found.extend(range(first, last + 1))
    except ValueError:
        raise ConfigError(
            f"taskmanager.data.port {ports!r} is no port; give a number, a range such as"
            " 50100-50200, or a list of both"
        ) from None
    return found
