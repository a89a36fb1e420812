"""Key stores and trust stores: from the files of Flink's settings to PEM, which OpenSSL reads.

Flink: SSLUtils.getKeyManagerFactory and getTrustManagerFactory. The types are PKCS12, Flink's
default, and PEM; Java's own JKS is refused with the command that converts it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flinknet.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

PKCS12, PEM = "pkcs12", "pem"


def read_key_store(path: Path, kind: str, store_password: str, key_password: str) -> bytes:
    """Return the certificate chain and its private key as PEM; the key is encrypted with
    `key_password`, unless that is empty.

    Raises: ConfigError for a file that cannot be read or opened, or contains no key.
    """
    data = _read(path)
    if _known(path, kind) == PEM:
        if b"PRIVATE KEY-----" not in data or b"BEGIN CERTIFICATE" not in data:
            raise ConfigError(f"{path}: holds no private key with its certificate in PEM")
        return data
    from cryptography.hazmat.primitives import serialization

    if key_password != store_password:
        raise ConfigError(
            f"{path}: a PKCS12 store has one password, for itself and its key; give the same twice"
        )
    store = _open_pkcs12(path, data, store_password)
    if store.key is None or store.cert is None:
        raise ConfigError(f"{path}: holds no private key with its certificate")
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if key_password:
        encryption = serialization.BestAvailableEncryption(key_password.encode())
    key = store.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    chain = [store.cert, *store.additional_certs]
    return key + b"".join(
        each.certificate.public_bytes(serialization.Encoding.PEM) for each in chain
    )


def read_trust_store(path: Path, kind: str, password: str) -> str:
    """Return the trusted certificates as PEM.

    Raises: ConfigError for a file that cannot be read or opened, or contains none.
    """
    data = _read(path)
    if _known(path, kind) == PEM:
        pem = data.decode("ascii", "replace")
        if "BEGIN CERTIFICATE" not in pem:
            raise ConfigError(f"{path}: holds no certificate in PEM")
        return pem
    from cryptography.hazmat.primitives.serialization import Encoding

    store = _open_pkcs12(path, data, password)
    trusted = [*store.additional_certs, *([store.cert] if store.cert else [])]
    if not trusted:
        raise ConfigError(f"{path}: holds no trusted certificate")
    return "".join(each.certificate.public_bytes(Encoding.PEM).decode() for each in trusted)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None


def _known(path: Path, kind: str) -> str:
    if kind.lower() in (PKCS12, PEM):
        return kind.lower()
    advice = "it must be pkcs12 or PEM"
    if kind.lower() == "jks":
        advice = "convert it: keytool -importkeystore -srckeystore FILE -deststoretype pkcs12 …"
    raise ConfigError(f"{path}: stores of type {kind!r} are not read; {advice}")


def _open_pkcs12(path: Path, data: bytes, password: str) -> PKCS12KeyAndCertificates:
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        return pkcs12.load_pkcs12(data, password.encode())
    except ValueError as error:
        raise ConfigError(
            f"{path}: is not a PKCS12 store, or its password is wrong ({error})"
        ) from None
