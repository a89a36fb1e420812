"""The test set of certificates: what is in it, and that it reads back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flinknet.certificates.stores import generate, read_key_store, read_trust_store, settings_for
from flinknet.errors import ConfigError
from flinknet.options import network_config, read_flink_conf

PASSWORD = "a secret"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("set") / "new"
    generate(path, PASSWORD, hosts=["tm.example", "10.0.0.7"])
    return path


def certificates_in(pem: str) -> list[str]:
    return re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", pem, re.DOTALL)


def test_the_files_of_a_set_are_for_their_owner_only(directory: Path) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}
    assert modes == dict.fromkeys(
        ("ca.pem", "config.yaml", "node.p12", "node.pem", "password", "truststore.p12"), 0o600
    )


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


def test_the_certificate_names_its_hosts_and_serves_both_ends(directory: Path) -> None:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    node = x509.load_pem_x509_certificates((directory / "node.pem").read_bytes())[0]
    names = node.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["tm.example"]
    addresses = [str(each) for each in names.get_values_for_type(x509.IPAddress)]
    assert addresses == ["10.0.0.7", "127.0.0.1", "::1"]
    usage = node.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usage) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert (node.not_valid_after_utc - node.not_valid_before_utc).days == 365


def test_the_configuration_file_turns_tls_on(directory: Path) -> None:
    settings, _ = read_flink_conf(directory / "config.yaml")
    assert settings == settings_for(directory, PASSWORD)
    network, warnings = network_config(settings)
    assert network.is_tls
    assert network.ssl_keystore == str(directory / "node.p12")
    assert warnings == ()


def test_a_set_never_overwrites_another(directory: Path) -> None:
    before = (directory / "node.p12").read_bytes()
    with pytest.raises(ConfigError, match=r"node\.p12 exists; remove it"):
        generate(directory, PASSWORD)
    assert (directory / "node.p12").read_bytes() == before


def test_a_password_that_java_would_refuse_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least 6"):
        generate(tmp_path / "x", "12345")
    assert not (tmp_path / "x").exists()


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
