"""TLS on the data port: contexts from Flink's settings, and TlsConnection, the first handler of the
pipeline.

Flink: SSLUtils and SSLHandlerFactory (Netty: SslHandler). Both ends show a certificate and check
the other's, by an authority of the trust store. Where we differ: Java's cipher names are mapped to
OpenSSL's, whatever the value of `security.ssl.provider`; each connection makes a full handshake, so
the session cache has no setting; settings with `security.ssl.internal.cert.fingerprint` are not
taken.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flinknet.certificates.stores import PKCS12, read_key_store, read_trust_store
from flinknet.config import NetworkConfig
from flinknet.core.connection import SEND_BATCH_BYTES, Connection
from flinknet.errors import ConfigError, RemoteProtocolError, TlsError, TransportError
from flinknet.whole_files import temporary_base

HANDSHAKE_TIMEOUT_NS = 10_000_000_000
"""Netty's default, for `security.ssl.internal.handshake-timeout: -1`."""

PLAIN_BYTES = 128 * 1024
"""Decrypted bytes passed on at once: several records of 16 KiB, still in the cache."""

_PROTOCOLS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

_CIPHERS = {
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA256": "AES256-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
}
"""Java's name -> OpenSSL's."""

_CIPHERS_1_3 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""The ciphers of TLS 1.3, which OpenSSL always offers with it."""

_REQUIRED = ("keystore", "truststore")
_PASSWORDS = ("keystore-password", "key-password", "truststore-password")
"""Ends of the keys security.ssl.internal.… that TLS needs, and of those that PKCS #12 adds."""


@dataclass(frozen=True, slots=True)
class Tls:
    """The TLS settings of a TaskManager, for both ends (Flink: SSLHandlerFactory)."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    handshake_timeout_ns: int

    def around(self, connection: Connection, *, is_server: bool) -> TlsConnection:
        """Wrap a connection in a TLS handler."""
        return TlsConnection(
            connection,
            self.server if is_server else self.client,
            is_server=is_server,
            handshake_timeout_ns=self.handshake_timeout_ns,
        )


def create_tls(network: NetworkConfig) -> Tls:
    """Create TLS from the settings. Raises: ConfigError naming a missing or unusable key."""
    _check_required(network)
    if network.ssl_cert_fingerprint:
        raise ConfigError(
            "security.ssl.internal.cert.fingerprint: flinknet checks no fingerprints; remove it and"
            " give a truststore with the pinned certificate alone"
        )
    timeout_ms = network.ssl_handshake_timeout_ms
    key, trusted = _read_stores(network)
    return Tls(
        _context(network, ssl.PROTOCOL_TLS_SERVER, key, trusted),
        _context(network, ssl.PROTOCOL_TLS_CLIENT, key, trusted),
        HANDSHAKE_TIMEOUT_NS if timeout_ms < 0 else timeout_ms * 1_000_000,
    )


def openssl_ciphers(names: str) -> str:
    """OpenSSL's cipher list for a comma-separated list of Java's names; empty if all are of TLS
    1.3. Raises: ConfigError for an unknown name.
    """
    found = []
    for name in (each.strip() for each in names.split(",")):
        if name in _CIPHERS:
            found.append(_CIPHERS[name])
        elif name not in _CIPHERS_1_3:
            raise ConfigError(
                f"security.ssl.algorithms: {name!r} is not known; choose from"
                f" {', '.join((*_CIPHERS, *_CIPHERS_1_3))}"
            )
    return ":".join(found)


class TlsConnection:
    """A Connection around a Connection: encrypted bytes outside, plain bytes inside.

    The handshake uses the same bytes; the inner connection is asked for data only when it is over.
    The driver needs no knowledge of TLS, and without TLS there is no cost. Encrypting copies, so
    the inner connection's buffers are free as soon as they have been passed on.
    """

    def __init__(
        self,
        inner: Connection,
        context: ssl.SSLContext,
        *,
        is_server: bool,
        handshake_timeout_ns: int = HANDSHAKE_TIMEOUT_NS,
    ) -> None:
        self.inner = inner
        self.is_established = False
        self.error: TransportError | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=is_server)
        # Given a buffer it returns a count, which typeshed does not know.
        self._read: Callable[[int, memoryview], int] = self._tls.read  # type: ignore[assignment]
        self._handshake_timeout_ns = handshake_timeout_ns
        self._handshake_until_ns: int | None = None
        self._has_sent_close_notify = False
        self._plain = memoryview(bytearray(PLAIN_BYTES))

    @property
    def is_closing(self) -> bool:
        """Whether everything has been sent, including the close notification of TLS."""
        has_said_so = self._has_sent_close_notify or not self.is_established
        return self.error is not None or (self.inner.is_closing and has_said_so)

    @property
    def wants_data(self) -> bool:
        return self.inner.wants_data

    @property
    def is_ready(self) -> bool:
        return self.is_established and self.error is None and self.inner.is_ready

    def receive_data(self, data: memoryview, *, now_ns: int) -> None:
        """Decrypt data and pass it on. Raises: RemoteProtocolError if the handshake fails or the
        stream is not TLS; an alert is queued for sending.
        """
        self._incoming.write(data)
        if not self.is_established:
            self._do_handshake()
        if self.is_established:
            self._decrypt(now_ns)

    def receive_eof(self, *, now_ns: int, error: TransportError | None = None) -> None:
        """Inform the inner connection, with the error if it is known here."""
        if self.error is None and error is None and not self.is_established:
            error = TlsError("was closed by it in the TLS handshake")
        self.inner.receive_eof(now_ns=now_ns, error=self.error or error)

    def data_to_send(
        self, *, now_ns: int, unsent_bytes: int = 0, room_bytes: int = SEND_BATCH_BYTES
    ) -> Sequence[bytes | memoryview]:
        """Bytes of the handshake, then the encrypted data of the inner connection."""
        if self.error is None and self.is_established:
            pieces = self.inner.data_to_send(
                now_ns=now_ns, unsent_bytes=unsent_bytes, room_bytes=room_bytes
            )
            self._encrypt(pieces)
        elif self.error is None:
            if self._handshake_until_ns is None:
                self._handshake_until_ns = now_ns + self._handshake_timeout_ns
            with suppress(RemoteProtocolError):  # kept in `error`; the alert goes out
                self._do_handshake()
        return (self._outgoing.read(),) if self._outgoing.pending else ()

    def next_deadline_ns(self) -> int | None:
        if self.is_established:
            return self.inner.next_deadline_ns()
        return self._handshake_until_ns

    def handle_deadline(self, *, now_ns: int) -> None:
        """Give up the handshake, or let the inner connection handle its deadline."""
        if self.is_established:
            self.inner.handle_deadline(now_ns=now_ns)
            self._decrypt(now_ns)
        elif self._handshake_until_ns is not None and now_ns >= self._handshake_until_ns:
            self._handshake_until_ns = None
            seconds = self._handshake_timeout_ns / 1e9
            self._fail(f"TLS handshake took longer than {seconds:g} s")

    def _do_handshake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise self._fail(f"TLS handshake failed: {reason_of(error)}") from None
        self.is_established = True

    def _decrypt(self, now_ns: int) -> None:
        """Decrypt all available data, while the inner connection wants it, and pass it on."""
        plain, size = self._plain, 0
        while self.inner.wants_data:
            try:
                count = self._read(PLAIN_BYTES - size, plain[size:])
            except ssl.SSLWantReadError:
                count = 0
            except ssl.SSLError as error:
                raise self._fail(f"TLS failed: {reason_of(error)}") from None
            size += count
            if size and (not count or size == PLAIN_BYTES):
                self.inner.receive_data(plain[:size], now_ns=now_ns)
                size = 0
            if not count:
                return

    def _encrypt(self, pieces: Sequence[bytes | memoryview]) -> None:
        # Joined first: a TLS record for each frame header would cost more than this copy.
        left = memoryview(b"".join(pieces))
        while left:
            left = left[self._tls.write(left) :]
        if not pieces and self.inner.is_closing and not self._has_sent_close_notify:
            self._has_sent_close_notify = True
            with suppress(ssl.SSLError):  # do not wait for the peer's close notification
                self._tls.unwrap()

    def _fail(self, text: str) -> RemoteProtocolError:
        self.error = TlsError(f"failed: {text}")
        return RemoteProtocolError(text)


def reason_of(error: ssl.SSLError) -> str:
    """OpenSSL's reason in words, and its usual cause."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in (9, 10):  # OpenSSL's codes for not valid yet, and for expired
            why = "the peer's certificate, or one that signed it, is not valid today"
            why += f" ({error.verify_message})"
            return f"{why}; let it be renewed, and check the clocks of both hosts"
        why = f"the peer's certificate is not trusted ({error.verify_message})"
        return f"{why}; check security.ssl.internal.truststore"
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"):
        return f"the peer does not speak TLS ({reason})"
    if "ALERT" in (error.reason or ""):
        return f"the peer refused ({reason})"
    return reason


def _check_required(network: NetworkConfig) -> None:
    types = network.ssl_keystore_type.lower(), network.ssl_truststore_type.lower()
    has_passwords = PKCS12 in types
    for key in _REQUIRED + (_PASSWORDS if has_passwords else ()):
        if not getattr(network, f"ssl_{key.replace('-', '_')}"):
            raise ConfigError(
                f"security.ssl.internal.{key} is missing: TLS on the data port"
                " (security.ssl.internal.enabled) needs a certificate of its own and a trust store"
            )


def _context(network: NetworkConfig, purpose: int, key: bytes, trusted: str) -> ssl.SSLContext:
    context = ssl.SSLContext(purpose)
    context.check_hostname = False  # as in Flink on internal connections
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # Java trusts its whole store
    context.options |= ssl.OP_NO_TICKET
    _set_protocols(context, network)
    try:  # Python accepts ASCII only; other characters occur in comments between certificates
        context.load_verify_locations(cadata=trusted.encode("ascii", "replace").decode("ascii"))
    except ssl.SSLError as error:
        raise ConfigError(
            f"security.ssl.internal.truststore: {network.ssl_truststore}: OpenSSL does not take"
            f" it ({reason_of(error)})"
        ) from None
    _load_key(context, network, key)
    return context


def _set_protocols(context: ssl.SSLContext, network: NetworkConfig) -> None:
    names = [each.strip() for each in network.ssl_protocol.split(",")]
    for name in names:
        if name not in _PROTOCOLS:
            raise ConfigError(
                f"security.ssl.protocol: {name!r} is not known or no longer safe; write"
                f" {' or '.join(_PROTOCOLS)}"
            )
    wanted = [_PROTOCOLS[each] for each in names]
    context.minimum_version, context.maximum_version = min(wanted), max(wanted)
    ciphers = openssl_ciphers(network.ssl_algorithms)
    if ciphers:
        context.set_ciphers(ciphers)
    elif ssl.TLSVersion.TLSv1_2 in wanted:
        raise ConfigError("security.ssl.algorithms: none of them is of TLSv1.2; add one")


def _read_stores(network: NetworkConfig) -> tuple[bytes, str]:
    """The key and the trusted certificates, as PEM."""
    own, trusted = Path(network.ssl_keystore or ""), Path(network.ssl_truststore or "")
    passwords = network.ssl_keystore_password or "", network.ssl_key_password or ""
    name = "keystore"
    try:
        key = read_key_store(own, network.ssl_keystore_type, *passwords)
        name, password = "truststore", network.ssl_truststore_password or ""
        return key, read_trust_store(trusted, network.ssl_truststore_type, password)
    except ConfigError as error:
        raise ConfigError(f"security.ssl.internal.{name}: {error}") from None


def _load_key(context: ssl.SSLContext, network: NetworkConfig, key: bytes) -> None:
    """Load the key, which OpenSSL reads only from a file: private, encrypted, removed at once."""
    descriptor, path = tempfile.mkstemp(suffix=".pem", dir=temporary_base())
    try:
        with open(descriptor, "wb") as file:
            file.write(key)
        context.load_cert_chain(path, password=lambda: network.ssl_key_password or "")
    except ssl.SSLError as error:
        raise ConfigError(
            f"security.ssl.internal.keystore: {network.ssl_keystore}: OpenSSL does not take it"
            f" ({reason_of(error)}); is security.ssl.internal.key-password right?"
        ) from None
    finally:
        os.unlink(path)
