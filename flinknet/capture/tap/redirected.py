"""Connections that the kernel redirected to the tap: where they were on their way to.

A TaskManager whose data port is 0 listens on another port each time it starts, and tells consumers
that one, so that no proxy can be named to them. But the kernel can turn their connections away to
the tap (iptables' REDIRECT), and knows of each where it was to go.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Collection
from typing import Final

Address = tuple[str, int]

REDIRECTED: Final = "redirected"
"""Stands for such an upstream."""

_SO_ORIGINAL_DST: Final = 80
"""Of linux/netfilter_ipv4.h, and of netfilter_ipv6/ip6_tables.h: the same number."""

_MAPPED: Final = "::ffff:"

_IPV4_BYTES, _IPV6_BYTES = 16, 28
"""Of struct sockaddr_in and sockaddr_in6."""


class NotRedirectedError(OSError):
    """A connection that was made to the tap itself, or by it."""


def original_destination(sock: socket.socket) -> Address:
    """Where a connection was on its way to.

    Raises: NotRedirectedError if that is where it arrived.
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
        raise _not_redirected() from None  # the kernel does not follow this connection
    if found == own:
        raise _not_redirected()
    return found


def plain(address: Address) -> Address:
    """An address as IPv4 has it: to a socket of IPv6, a peer with IPv4 is ::ffff:10.0.0.7."""
    return address[0].removeprefix(_MAPPED), address[1]


def address_of(sockaddr: bytes) -> Address:
    """The address in a struct sockaddr_in, or sockaddr_in6: family, port, then the host, which an
    IPv6 address has behind its flow label.
    """
    port = int.from_bytes(sockaddr[2:4], "big")
    if len(sockaddr) < _IPV6_BYTES:
        return socket.inet_ntop(socket.AF_INET, sockaddr[4:8]), port
    return socket.inet_ntop(socket.AF_INET6, sockaddr[8:24]), port


def check_not_own(peer: Address, own: Collection[Address]) -> None:
    """Refuse a connection that the tap itself made: it would come back to it for ever.

    Args:
        own: from where the tap has connections to upstreams.

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
