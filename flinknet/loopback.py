"""The address by which processes of this host reach each other."""

from __future__ import annotations

import socket
from functools import cache

from .errors import FlinknetError

LOOPBACK = "127.0.0.1"
LOOPBACK_6 = "::1"
_ANSWER_WAIT_S = 5.0


@cache
def loopback() -> str:
    """127.0.0.1, or ::1 on a host that has only that. Raises: FlinknetError if it has neither."""
    refusals = []
    for host in (LOOPBACK, LOOPBACK_6):
        try:
            with socket.create_server((host, 0), family=family_of(host)) as server:
                socket.create_connection(server.getsockname()[:2], _ANSWER_WAIT_S).close()
        except OSError as error:
            refusals.append(f"{host}: {(error.strerror or str(error)).partition(' (')[0]}")
        else:
            return host
    raise FlinknetError(
        f"this host has no loopback address ({', '.join(refusals)}); bring its interface up:"
        " ip link set lo up"
    )


def bound_host(host: str) -> str:
    """The address to listen on for a configured one: ::1 for 127.0.0.1 on a host that has only
    that. Raises: FlinknetError if it has neither.
    """
    return loopback() if host == LOOPBACK else host


def family_of(host: str) -> socket.AddressFamily:
    """The address family of a host name or address."""
    return socket.AF_INET6 if ":" in host else socket.AF_INET
