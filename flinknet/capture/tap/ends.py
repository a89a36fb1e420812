"""The two ends of a relayed connection: sockets that never block, plain or with TLS.

Both kinds have the same verbs and raise BlockingIOError where nothing can be done now.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from flinknet.errors import TlsError
from flinknet.runtime.tls import reason_of

from ..pem import load_authority, load_certificate


class PlainEnd:
    """An end without TLS."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.has_more = False  # received bytes are waiting that the selector does not report
        self.wants_to_write = False  # the handshake waits for the socket to become writable
        self.receive_into = sock.recv_into  # the available bytes, into a view; returns 0 at the end
        self.send = sock.send  # as many bytes as the socket takes

    def shake(self) -> bool:
        """Continue the handshake. Returns: whether it is complete. Raises: TlsError."""
        return True

    def finish(self) -> None:
        """End sending; the other direction stays open."""
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.sock.close()


class TlsEnd:
    """An end with TLS. A handshake is finished before anything is relayed."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, *, is_server: bool) -> None:
        self.sock: ssl.SSLSocket = context.wrap_socket(
            sock, server_side=is_server, do_handshake_on_connect=False, suppress_ragged_eofs=True
        )
        self.wants_to_write = False

    @property
    def has_more(self) -> bool:
        return self.sock.pending() > 0

    def shake(self) -> bool:
        self.wants_to_write = False
        try:
            self.sock.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            self.wants_to_write = isinstance(error, ssl.SSLWantWriteError)
            return False
        except OSError as error:
            why = reason_of(error) if isinstance(error, ssl.SSLError) else error.strerror or error
            raise TlsError(f"the TLS handshake failed: {why}") from None
        return True

    def receive_into(self, view: memoryview) -> int:
        """Receive all available bytes; TLS returns one record of 16 KiB at a time."""
        filled = 0
        while filled < len(view):
            try:
                count = self.sock.recv_into(view[filled:])
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                if not filled:
                    raise BlockingIOError from None
                break
            except ssl.SSLError as error:
                raise ConnectionError(errno.EPROTO, reason_of(error)) from None
            if not count:
                break
            filled += count
        return filled

    def send(self, view: memoryview) -> int:
        try:
            return self.sock.send(view)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        except ssl.SSLError as error:
            raise ConnectionError(errno.EPROTO, reason_of(error)) from None

    def finish(self) -> None:
        """Do nothing: TLS ends both directions at once, in `close`."""

    def close(self) -> None:
        with suppress(OSError, ValueError):
            self.sock.unwrap()
        self.sock.close()


End = PlainEnd | TlsEnd


class TlsContexts(NamedTuple):
    """The tap's TLS contexts for its two sides, with one certificate as in Flink's internal TLS."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def create_contexts(
    certificate: Path, key: Path, authority: Path, password: str = ""
) -> TlsContexts:
    """TLS for both sides from PEM files; both sides must show a certificate that `authority`
    signed. Host names are not checked, as in Flink before 2.3. `password` is that of the key.
    Raises: ConfigError naming the file that cannot be used."""
    contexts = TlsContexts(
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    for context in contexts:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        load_certificate(context, certificate, key, password, prefix="--tls")
        load_authority(context, authority, prefix="--tls")
    return contexts


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
    """The original destination of a connection. Raises: NotRedirectedError if the connection was
    not redirected."""
    own = plain(sock.getsockname()[:2])
    level, length = socket.SOL_IP, _IPV4_BYTES
    if ":" in own[0]:
        level, length = socket.IPPROTO_IPV6, _IPV6_BYTES
    try:
        found = address_of(sock.getsockopt(level, _SO_ORIGINAL_DST, length))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOPROTOOPT):
            raise
        found = own  # the kernel does not track this connection
    if found == own:
        raise NotRedirectedError(
            errno.EDESTADDRREQ,
            "made to the tap itself and not redirected to it, so its upstream is unknown; check the"
            " redirect rule",
        )
    return found


def plain(address: Address) -> Address:
    """The address without the prefix of mapped IPv4 addresses (::ffff:10.0.0.7)."""
    return address[0].removeprefix(_MAPPED), address[1]


def address_of(sockaddr: bytes) -> Address:
    """The address in a struct sockaddr_in (family, port, host) or sockaddr_in6, which has a flow
    label before the host."""
    port = int.from_bytes(sockaddr[2:4], "big")
    if len(sockaddr) < _IPV6_BYTES:
        return socket.inet_ntop(socket.AF_INET, sockaddr[4:8]), port
    return socket.inet_ntop(socket.AF_INET6, sockaddr[8:24]), port


def check_not_own(peer: Address, own: Collection[Address]) -> None:
    """Refuse a connection that the tap itself made, which would be redirected for ever: from one of
    the local addresses of its connections to upstreams (`own`). Raises: NotRedirectedError."""
    if plain(peer) in map(plain, own):
        raise NotRedirectedError(
            errno.ELOOP,
            "the tap's own connection came back to it: if connections are redirected, run the tap"
            " as another user, and redirect only what Flink's user sends (--uid-owner)",
        )
