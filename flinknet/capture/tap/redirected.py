"""Original destinations of connections that the kernel redirected to the tap.

A TaskManager whose data port is 0 listens on another port each time it starts, and announces this
port to consumers, so a proxy's port cannot be configured. But the kernel can redirect their
connections to the tap (iptables' REDIRECT), and keeps the original destination of each.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Collection
from typing import Final

Address = tuple[str, int]

REDIRECTED: Final = "redirected"
"""Name of the upstream of redirected connections, in place of an address."""

_SO_ORIGINAL_DST: Final = 80
"""Socket option of linux/netfilter_ipv4.h; netfilter_ipv6/ip6_tables.h has an equal number."""

_MAPPED: Final = "::ffff:"

_IPV4_BYTES, _IPV6_BYTES = 16, 28
"""Sizes of struct sockaddr_in and sockaddr_in6, in bytes."""


class NotRedirectedError(OSError):
    """A connection that was made directly to the tap, or by the tap."""


def original_destination(sock: socket.socket) -> Address:
    """The original destination of a connection.

    Raises: NotRedirectedError if the connection was not redirected.
    """
    own = plain(sock.getsockname()[:2])
    is_ipv6 = ":" in own[0]
    level = socket.IPPROTO_IPV6 if is_ipv6 else socket.SOL_IP
    length = _IPV6_BYTES if is_ipv6 else _IPV4_BYTES
    try:
        found = address_of(sock.getsockopt(level, _SO_ORIGINAL_DST, length))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOPROTOOPT):
            raise
        raise _not_redirected() from None  # the kernel does not track this connection
    if found == own:
        raise _not_redirected()
    return found


def plain(address: Address) -> Address:
    """The address without the prefix of mapped IPv4 addresses (::ffff:10.0.0.7)."""
    return address[0].removeprefix(_MAPPED), address[1]


def address_of(sockaddr: bytes) -> Address:
    """The address in a struct sockaddr_in (family, port, host) or sockaddr_in6, which has a flow
    label before the host.
    """
    port = int.from_bytes(sockaddr[2:4], "big")
    if len(sockaddr) < _IPV6_BYTES:
        return socket.inet_ntop(socket.AF_INET, sockaddr[4:8]), port
    return socket.inet_ntop(socket.AF_INET6, sockaddr[8:24]), port


def check_not_own(peer: Address, own: Collection[Address]) -> None:
    """Refuse a connection that the tap itself made, which would be redirected for ever.

    Args:
        own: local addresses of the tap's connections to upstreams.

    Raises: NotRedirectedError.
    """
    if plain(peer) in map(plain, own):
        raise NotRedirectedError(
            errno.ELOOP,
            "the tap's own connection came back to it: if connections are redirected, run the tap"
            " as another user, and redirect only what Flink's user sends (--uid-owner)",
        )


def _not_redirected() -> NotRedirectedError:
    return NotRedirectedError(
        errno.EDESTADDRREQ,
        "made to the tap itself and not redirected to it, so its upstream is unknown; check the"
        " redirect rule",
    )
