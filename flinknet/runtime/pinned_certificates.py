"""PinnedCertificates: certificates trusted by their SHA-1 fingerprint, whoever issued them (Netty:
FingerprintTrustManagerFactory, which Flink uses in place of the trust store's authorities).

A client checks the fingerprint after the handshake: nothing has been sent before. A server cannot
request a certificate without OpenSSL verifying it, and Python's ssl has no option to change how. So
a callback reads the handshake messages: a pinned certificate is added to OpenSSL's authorities
right before OpenSSL verifies it.
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
        shown: fingerprint of the certificate checked last.
    """

    def __init__(self, fingerprints: frozenset[str]) -> None:
        self._fingerprints = fingerprints
        self._known: set[str] = set()
        self.shown = ""

    @property
    def is_shown_listed(self) -> bool:
        return self.shown in self._fingerprints

    @property
    def fault(self) -> str:
        """What is wrong with the certificate checked last, if it is not listed."""
        key = "security.ssl.internal.cert.fingerprint"
        return f"the peer's certificate has the fingerprint {self.shown}, which {key} does not list"

    def use(self, context: ssl.SSLContext, *, is_server: bool) -> None:
        """Make a context accept these certificates and no others, together with `check`.

        As in Java, neither their dates nor their issuers matter. OpenSSL still refuses a client
        certificate whose purpose is not to be a client's.

        Raises: ConfigError if this Python has no callback for handshake messages.
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

        def on_message(
            _: Any, direction: str, version: int, content: int, kind: int, data: bytes
        ) -> None:
            if kind == _CERTIFICATE and content == 22 and direction == "read":
                certificate = _first_certificate(data, version)
                if self.check(certificate) and self.shown not in self._known:
                    self._known.add(self.shown)
                    context.load_verify_locations(cadata=certificate)

        context._msg_callback = on_message  # type: ignore[attr-defined]

    def check(self, certificate: bytes | None) -> bool:
        """Whether the certificate that a peer has shown, and has the key of, is pinned."""
        self.shown = hashlib.sha1(certificate or b"", usedforsecurity=False).hexdigest()
        return self.is_shown_listed


def _first_certificate(message: bytes, version: int) -> bytes:
    """The peer's own certificate in its Certificate message (RFC 5246 7.4.2, RFC 8446 4.4.2)."""
    begin = 4  # after type and length
    if version >= ssl.TLSVersion.TLSv1_3:
        begin += 1 + message[begin] if len(message) > begin else 0
    begin += 3  # length of the list
    size = int.from_bytes(message[begin : begin + 3])
    return message[begin + 3 : begin + 3 + size]
