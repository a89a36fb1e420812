"""A set of certificates for tests with TLS: an authority, a node's key, and the settings of both.

Every TaskManager of a cluster uses the same key store of the set and trusts the same authority, as
Flink's documentation recommends for internal connections. Keys are RSA, which Flink's default
cipher suites require. The stores are PKCS12 that Java can read, and the same content as PEM.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

KEY_BITS = 2048

NODE_STORE, TRUST_STORE = "node.p12", "truststore.p12"
NODE_PEM, AUTHORITY_PEM = "node.pem", "ca.pem"
CONFIG = "config.yaml"
"""The keys of `settings_for` as a file."""


def generate(
    directory: Path, password: str, *, hosts: Sequence[str] = ("localhost",), days: int = 365
) -> dict[str, str]:
    """Write the set into a directory, with one password for every store and key, and names and
    addresses for the node's certificate. Returns: the keys of Flink for it."""
    authority_key, node_key = (generate_private_key(65537, KEY_BITS) for _ in range(2))
    authority = _certificate("flinknet test authority", authority_key, days=days)
    node = _certificate("flinknet test node", node_key, (authority, authority_key), hosts, days)
    encryption = BestAvailableEncryption(password.encode())
    key_pem = node_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    authority_pem = authority.public_bytes(Encoding.PEM)
    settings = settings_for(directory, password)
    trusted = [pkcs12.PKCS12Certificate(authority, b"ca")]
    # JSON quotes strings as YAML does
    config = "".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items())
    directory.mkdir(parents=True, exist_ok=True)
    files = {
        NODE_STORE: pkcs12.serialize_key_and_certificates(
            b"node", node_key, node, [authority], encryption
        ),
        TRUST_STORE: pkcs12.serialize_java_truststore(trusted, encryption),
        NODE_PEM: key_pem + node.public_bytes(Encoding.PEM) + authority_pem,
        AUTHORITY_PEM: authority_pem,
        CONFIG: config.encode(),
    }
    for name, data in files.items():
        (directory / name).write_bytes(data)
    return settings


def settings_for(directory: Path, password: str, *, pem: bool = False) -> dict[str, str]:
    """The keys of Flink that turn TLS on with the set in a directory."""
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
    """A certificate for a key, signed by an issuer; without one, an authority's own."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begin = datetime.now(UTC) - timedelta(minutes=5)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
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
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
