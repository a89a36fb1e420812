"""Key stores and trust stores are read as PEM, and what cannot be used says why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flinknet.certificates.stores import read_key_store, read_trust_store
from flinknet.errors import ConfigError
from tests.certificate_set import generate

PASSWORD = "a secret"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("set") / "new"
    generate(path, PASSWORD, hosts=["tm.example", "10.0.0.7"])
    return path


def certificates_in(pem: str) -> list[str]:
    return re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", pem, re.DOTALL)


def test_the_key_store_holds_the_node_and_its_authority_and_the_trust_store_the_authority(
    directory: Path,
) -> None:
    chain = read_key_store(directory / "node.p12", "pkcs12", PASSWORD, PASSWORD).decode()
    trusted = read_trust_store(directory / "truststore.p12", "PKCS12", PASSWORD)
    (authority,) = certificates_in(trusted)
    assert certificates_in(chain)[1] == authority
    assert authority == certificates_in((directory / "ca.pem").read_text())[0]
    assert "BEGIN ENCRYPTED PRIVATE KEY" in chain
    assert certificates_in(chain) == certificates_in((directory / "node.pem").read_text())


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("nowhere.p12", "pkcs12", r"nowhere\.p12: cannot be read \(No such file"),
        ("node.p12", "jks", "keytool -importkeystore"),
        ("node.p12", "p7b", "'p7b' are not read; it must be pkcs12 or PEM"),
        ("ca.pem", "pkcs12", "is not a PKCS12 store, or its password is wrong"),
        ("ca.pem", "pem", "holds no private key"),
        ("truststore.p12", "pkcs12", "holds no private key"),
    ],
)
def test_a_key_store_that_cannot_be_used_says_why(
    directory: Path, name: str, kind: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        read_key_store(directory / name, kind, PASSWORD, PASSWORD)


def test_a_wrong_password_is_reported(directory: Path) -> None:
    with pytest.raises(ConfigError, match="its password is wrong"):
        read_key_store(directory / "node.p12", "pkcs12", "wrong", "wrong")
    with pytest.raises(ConfigError, match="its password is wrong"):
        read_trust_store(directory / "truststore.p12", "pkcs12", "wrong")
    with pytest.raises(ConfigError, match="one password"):
        read_key_store(directory / "node.p12", "pkcs12", PASSWORD, "wrong")


@pytest.mark.parametrize(("name", "kind"), [("config.yaml", "pem"), ("config.yaml", "pkcs12")])
def test_a_trust_store_without_certificates_is_refused(
    directory: Path, name: str, kind: str
) -> None:
    with pytest.raises(ConfigError, match=r"config\.yaml: (holds no|is not a PKCS12)"):
        read_trust_store(directory / name, kind, PASSWORD)
