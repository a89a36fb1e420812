"""PinnedCertificates: certificates that are trusted for their SHA-1 fingerprint, whoever issued
them (Netty: FingerprintTrustManagerFactory, which Flink puts in place of the trust store's
authorities).

A client reads the fingerprint when the handshake is over: until then nothing was said. A server
cannot ask for a certificate without letting OpenSSL verify it, and Python's ssl has no way to say
how. So the messages of the handshake are listened to: a certificate that is pinned is made known to
OpenSSL, as an authority of its own, right before OpenSSL looks at it.
"""

from __future__ import annotations

import hashlib
import ssl
from typing import Any

from flinknet.errors import ConfigError

_CERTIFICATE = 11
"""Type of the handshake message."""

_NO_CHECK_TIME = 0x20_0000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which Python's ssl does not name."""


class PinnedCertificates:
    """The fingerprints of one TaskManager (see `tls.fingerprints_of`).

    Attributes:
        shown: fingerprint of the certificate that was looked at last.
    """

    def __init__(self, fingerprints: frozenset[str]) -> None:
        self._fingerprints = fingerprints
        self._known: set[str] = set()
        self.shown = ""

    @property
    def is_shown_one_listed(self) -> bool:
        """Whether the certificate that was looked at last is one of these."""
        return self.shown in self._fingerprints

    def use(self, context: ssl.SSLContext, *, is_server: bool) -> None:
        """Let a context take these certificates and no others, once `check` is asked, too.

        As in Java, neither their dates count nor who issued them. OpenSSL still refuses a client's
        whose purpose is not to be a client's.

        Raises: ConfigError where Python does not tell of the messages of a handshake.
        """
        if not is_server:
            context.verify_mode = ssl.CERT_NONE
            return
        if not hasattr(ssl.SSLContext, "_msg_callback"):
            raise ConfigError(
                "security.ssl.internal.cert.fingerprint: this Python cannot check the certificates"
                " of clients by it; leave the key out, so that security.ssl.internal.truststore"
                " decides"
            )
        context.verify_flags |= _NO_CHECK_TIME

        def heard(
            _: Any, direction: str, version: int, content: int, kind: int, data: bytes
        ) -> None:
            if kind == _CERTIFICATE and content == 22 and direction == "read":
                self._learn(context, _first_certificate(data, version))

        context._msg_callback = heard  # type: ignore[attr-defined]

    def check(self, certificate: bytes | None) -> bool:
        """Whether the certificate that a peer has shown, and has the key of, is one of these."""
        self.shown = _fingerprint(certificate or b"")
        return self.is_shown_one_listed

    def _learn(self, context: ssl.SSLContext, certificate: bytes) -> None:
        if self.check(certificate) and self.shown not in self._known:
            self._known.add(self.shown)
            context.load_verify_locations(cadata=certificate)


def _fingerprint(certificate: bytes) -> str:
    return hashlib.sha1(certificate, usedforsecurity=False).hexdigest()


def _first_certificate(message: bytes, version: int) -> bytes:
    """That of the peer itself, out of its Certificate message (RFC 5246 7.4.2, RFC 8446 4.4.2);
    empty if there is none.
    """
    begin = 4  # behind type and length
    if version >= ssl.TLSVersion.TLSv1_3:
        begin += 1 + message[begin] if len(message) > begin else 0
    begin += 3  # length of the list
    size = int.from_bytes(message[begin : begin + 3])
    return message[begin + 3 : begin + 3 + size]
