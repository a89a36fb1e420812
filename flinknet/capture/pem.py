"""Certificates in PEM files, for TLS with a cluster."""

from __future__ import annotations

import ssl
from pathlib import Path

from flinknet.errors import ConfigError


def load_certificate(
    context: ssl.SSLContext, certificate: Path, key: Path, password: str | None, *, prefix: str
) -> None:
    """Load the certificate of our side, and its key.

    Args:
        password: the key's password, empty if it is not encrypted; None if the caller has no
            option for one.
        prefix: how the options for the files begin: `--tls` for --tls-cert and --tls-key.

    Raises: ConfigError naming the file that cannot be used.
    """
    _check_file(certificate, f"{prefix}-cert")
    _check_file(key, f"{prefix}-key")
    try:
        context.load_cert_chain(certificate, key, password=password or "")
    except (ssl.SSLError, OSError, ValueError) as error:
        encrypted = (
            "decrypt an encrypted key: openssl pkey -in FILE"
            if password is None
            else f"if the key is encrypted give {prefix}-password-file"
        )
        raise ConfigError(
            f"{prefix}-cert, {prefix}-key: {certificate} and {key} are not a certificate in PEM"
            f" with its key ({_reason(error)}); {encrypted}; of a PKCS12 store: openssl pkcs12 -in"
            " FILE -nodes"
        ) from None


def load_authority(context: ssl.SSLContext, authority: Path, *, prefix: str) -> None:
    """Trust the certificates in a file, and those that they signed. Raises: ConfigError if the file
    has no certificate."""
    _check_file(authority, f"{prefix}-ca")
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # Java trusts its whole store
    try:
        context.load_verify_locations(cafile=authority)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"{prefix}-ca: {authority} holds no certificate in PEM ({_reason(error)})"
        ) from None


def _check_file(path: Path, option: str) -> None:
    if not path.is_file():
        raise ConfigError(f"{option}: {path}: there is no such file")


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return str(error)
