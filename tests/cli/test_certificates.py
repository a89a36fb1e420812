"""`flinknet certificates`: files, what it prints, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
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
    assert create_tls(network_config(settings)[0]).pinned is None
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


def test_a_directory_that_cannot_be_made_is_refused_with_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(main, ["certificates", "--out", str(tmp_path / "file" / "set")])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot be made" in result.stderr


def test_a_short_password_is_refused_with_exit_code_2(tmp_path: Path) -> None:
    arguments = ["certificates", "--out", str(tmp_path), "--password", "short"]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "at least 6 characters" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", ["", "a b", "ü.example", "a/b"])
def test_a_host_that_is_none_is_refused_with_exit_code_2(tmp_path: Path, host: str) -> None:
    result = CliRunner().invoke(main, ["certificates", "--out", str(tmp_path), "--host", host])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"flinknet: --host: {host!r} is not a name or address")
    assert list(tmp_path.iterdir()) == []


def test_a_validity_beyond_the_calendar_is_refused(tmp_path: Path) -> None:
    arguments = ["certificates", "--out", str(tmp_path), "--days", "100000000"]
    assert CliRunner().invoke(main, arguments).exit_code == 2


def test_any_password_comes_back_from_the_configuration(tmp_path: Path) -> None:
    password = 'a"b\\c#d: ü'
    arguments = ["certificates", "--out", str(tmp_path), "--password", password]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    settings, _ = read_flink_conf(tmp_path / "config.yaml")
    assert settings["security.ssl.internal.key-password"] == password
    create_tls(network_config(settings)[0])
