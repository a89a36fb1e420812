"""Key stores and trust stores: from the files of Flink's settings to PEM, which OpenSSL reads; and
a set of certificates for experiments with TLS: an authority, a node's key, and their settings.

Flink: SSLUtils.getKeyManagerFactory and getTrustManagerFactory. The types are PKCS12, Flink's
default, and PEM; Java's own JKS is refused with the command that converts it.

Every TaskManager of a cluster uses the same key store of the set and trusts the same authority, as
Flink's documentation recommends for internal connections. Keys are RSA, which Flink's default
cipher suites require. The stores are PKCS12 that Java can read, and the same content as PEM.
"""

from __future__ import annotations

import datetime
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flinknet.errors import ConfigError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
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


KEY_BITS = 2048
PASSWORD_LEAST_CHARACTERS = 6
"""Java's keytool rejects shorter passwords."""

NODE_STORE, TRUST_STORE = "node.p12", "truststore.p12"
NODE_PEM, AUTHORITY_PEM = "node.pem", "ca.pem"
CONFIG = "config.yaml"
PASSWORD = "password"
"""A file that contains only the password, as `trace tap --tls-password-file` reads it."""

_HOST_NAME = re.compile(r"[A-Za-z0-9*][A-Za-z0-9.-]*")


def generate(
    directory: Path, password: str, *, hosts: Sequence[str] = ("localhost",), days: int = 365
) -> dict[str, str]:
    """Write the set into a directory that has none yet.

    Args:
        password: password of every store and key.
        hosts: names and addresses in the node's certificate. Flink does not check them on internal
            connections.

    Returns: the Flink keys that turn TLS on with this set; they are in `config.yaml`, too.

    Raises: ConfigError if a file exists already, the password is too short or a host is invalid.
    """
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        pkcs12,
    )

    if len(password) < PASSWORD_LEAST_CHARACTERS:
        raise ConfigError(f"--password: Java wants at least {PASSWORD_LEAST_CHARACTERS} characters")
    authority_key, node_key = (generate_private_key(65537, KEY_BITS) for _ in range(2))
    authority = _certificate("flinknet test authority", authority_key, days=days)
    node = _certificate("flinknet test node", node_key, (authority, authority_key), hosts, days)
    encryption = BestAvailableEncryption(password.encode())
    key_pem = node_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    authority_pem = authority.public_bytes(Encoding.PEM)
    settings = settings_for(directory, password)
    trusted = [pkcs12.PKCS12Certificate(authority, b"ca")]
    files = {
        NODE_STORE: pkcs12.serialize_key_and_certificates(
            b"node", node_key, node, [authority], encryption
        ),
        TRUST_STORE: pkcs12.serialize_java_truststore(trusted, encryption),
        NODE_PEM: key_pem + node.public_bytes(Encoding.PEM) + authority_pem,
        AUTHORITY_PEM: authority_pem,
        PASSWORD: f"{password}\n".encode(),
        # JSON quotes strings as YAML does
        CONFIG: "".join(
            f"{key}: {json.dumps(value)}\n" for key, value in settings.items()
        ).encode(),
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"--out: {directory} cannot be made ({error.strerror}); give another directory"
        ) from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise ConfigError(f"--out: {directory} cannot be written to; give another directory")
    for name in files:
        if (directory / name).exists():
            raise ConfigError(f"{directory / name} exists; remove it, or give another --out")
    for name, data in files.items():
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(directory / name, flags, 0o600), "wb") as file:  # the owner's alone
            file.write(data)
    return settings


def settings_for(directory: Path, password: str, *, pem: bool = False) -> dict[str, str]:
    """The Flink keys that turn TLS on with the set in a directory."""
    place, prefix = directory.resolve(), "security.ssl.internal."
    kind = "PEM" if pem else "pkcs12"
    return {
        prefix + "enabled": "true",
        prefix + "keystore": str(place / (NODE_PEM if pem else NODE_STORE)),
        prefix + "keystore-password": password,
        prefix + "key-password": password,
        prefix + "keystore-type": kind,
        prefix + "truststore": str(place / (AUTHORITY_PEM if pem else TRUST_STORE)),
        prefix + "truststore-password": password,
        prefix + "truststore-type": kind,
    }


def _certificate(
    name: str,
    key: RSAPrivateKey,
    issuer: tuple[x509.Certificate, RSAPrivateKey] | None = None,
    hosts: Sequence[str] = (),
    days: int = 365,
) -> x509.Certificate:
    """Create a certificate for a key, signed by an issuer; without one, an authority's own."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begin = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if issuer is not None:
        names = [_general_name(host) for host in dict.fromkeys((*hosts, "127.0.0.1", "::1"))]
        both_ends = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(
            x509.SubjectAlternativeName(names), critical=False
        ).add_extension(x509.ExtendedKeyUsage(both_ends), critical=False)
    return builder.sign(issuer[1] if issuer else key, hashes.SHA256())


def _general_name(host: str) -> x509.GeneralName:
    """Raises: ConfigError for text that is neither a name nor an address."""
    import ipaddress

    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not _HOST_NAME.fullmatch(host):
            raise ConfigError(
                f"--host: {host!r} is not a name or address; a name has letters, digits, dots and"
                " hyphens (an international one is written xn--…)"
            ) from None
        return x509.DNSName(host)
