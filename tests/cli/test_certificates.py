"""`flinknet certificates`: files, the keys it prints, and what it refuses."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from flinknet.certificates.generate import settings_for
from flinknet.cli import main
from flinknet.cli.certificates import certificates
from flinknet.options import network_config
from flinknet.runtime.tls import create_tls


def test_the_keys_it_prints_turn_tls_on(tmp_path: Path) -> None:
    result = CliRunner().invoke(certificates, ["--out", str(tmp_path / "set")])
    assert result.exit_code == 0
    printed = dict(line.split(": ", 1) for line in result.stdout.splitlines())
    assert printed == settings_for(
        tmp_path / "set", printed["security.ssl.internal.keystore-password"]
    )
    network, warnings = network_config(printed)
    assert warnings == ()
    assert create_tls(network).fingerprints == frozenset()
    assert f"--flink-conf {tmp_path / 'set' / 'config.yaml'}" in result.stderr


def test_each_set_has_a_password_of_its_own(tmp_path: Path) -> None:
    printed = [
        CliRunner().invoke(certificates, ["--out", str(tmp_path / name)]).stdout
        for name in ("a", "b")
    ]
    key = "security.ssl.internal.key-password: "
    passwords = {text.split(key)[1].splitlines()[0] for text in printed}
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


def test_a_short_password_is_refused_with_exit_code_2(tmp_path: Path) -> None:
    arguments = ["certificates", "--out", str(tmp_path), "--password", "short"]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "at least 6 characters" in result.stderr
    assert list(tmp_path.iterdir()) == []
