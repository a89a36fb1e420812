"""`flinknet certificates`: files, what it prints, and what it refuses."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from flinknet.certificates.stores import settings_for
from flinknet.cli import main
from flinknet.cli.certificates import certificates
from flinknet.config import HIDDEN
from flinknet.options import network_config, read_flink_conf
from flinknet.runtime.tls import create_tls


def test_its_config_turns_tls_on_and_it_prints_all_of_it_but_the_password(tmp_path: Path) -> None:
    result = CliRunner().invoke(certificates, ["--out", str(tmp_path / "set")])
    assert result.exit_code == 0
    config = tmp_path / "set" / "config.yaml"
    settings, warnings = read_flink_conf(config)
    password = settings["security.ssl.internal.keystore-password"]
    assert (settings, warnings) == (settings_for(tmp_path / "set", password), ())
    create_tls(network_config(settings)[0])
    assert password not in result.output
    printed = dict(line.split(": ", 1) for line in result.stdout.splitlines())
    assert {key: value.replace(password, HIDDEN) for key, value in settings.items()} == printed
    assert f"--flink-conf {config}" in result.stderr


def test_each_set_has_a_password_of_its_own(tmp_path: Path) -> None:
    passwords = set()
    for name in ("a", "b"):
        CliRunner().invoke(certificates, ["--out", str(tmp_path / name)])
        settings, _ = read_flink_conf(tmp_path / name / "config.yaml")
        passwords.add(settings["security.ssl.internal.key-password"])
    assert len(passwords) == 2
    assert all(len(password) >= 16 for password in passwords)


def test_a_set_that_is_there_is_left_alone_with_exit_code_2(tmp_path: Path) -> None:
    arguments = ["certificates", "--out", str(tmp_path), "--password", "a secret"]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "exists; remove it, or give another --out" in result.stderr
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_any_password_comes_back_from_the_configuration(tmp_path: Path) -> None:
    password = 'a"b\\c#d: ü'
    arguments = ["certificates", "--out", str(tmp_path), "--password", password]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    settings, _ = read_flink_conf(tmp_path / "config.yaml")
    assert settings["security.ssl.internal.key-password"] == password
    create_tls(network_config(settings)[0])
