"""The command group: quick help, version, unknown commands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flinknet import __version__
from flinknet.cli import main

from .conftest import RecordingRun


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_names_every_command(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0
    for command in ("bench", "trace", "compare-configs", "doctor"):
        assert command in result.stdout


def test_version() -> None:
    assert __version__ in CliRunner().invoke(main, ["--version"]).stdout


LIBRARIES = {"pyspark", "pandas", "py4j"}
HEAVY = {*LIBRARIES, "numpy", "pyarrow", "rich", "psutil"}


@pytest.mark.parametrize(
    ("command", "unwanted"),
    [
        ("--help", HEAVY),
        ("bench --help", HEAVY),
        ("trace --help", HEAVY),
        ("trace replay --help", LIBRARIES),
        ("doctor", LIBRARIES),
    ],
)
def test_help_and_doctor_load_nothing_heavy(command: str, unwanted: set[str]) -> None:
    code = (
        "import sys; sys.argv[0] = 'flinknet'; from flinknet.cli import main\n"
        f"try: main({command.split()!r})\n"
        "except SystemExit: pass\n"
        f"heavy = {unwanted!r} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_a_closed_pipe_is_not_a_failed_check() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "flinknet", "bench", "config"]
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, b"")


@pytest.mark.parametrize("command", [["bench"], ["compare-configs", "base", "base"]])
def test_a_bug_has_its_traceback_and_an_exit_code_of_its_own(
    run: RecordingRun, flinknet: Callable[..., Result], command: list[str]
) -> None:
    run.fail_at, run.error = 1, ZeroDivisionError("records of none")
    ended = flinknet(*command, "--no-trace")
    assert ended.exit_code == 70
    assert "ZeroDivisionError: records of none" in ended.stderr
    *_, last = ended.stderr.splitlines()
    assert last == "flinknet: a bug in flinknet: please report it with the lines above"


@pytest.mark.parametrize("command", ["bench", "compare-configs"])
def test_every_option_of_a_long_help_stands_in_a_section(command: str) -> None:
    text = CliRunner().invoke(main, [command, "--help"]).stdout
    headings = [line[:-1] for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    known = ("Commands", "Rare options (explained by --help-all)")
    headings = [each.partition(" (")[0] for each in headings if each not in known]
    order = ["Comparison", "Load", "Tasks", "Exchange", "Network", "Output", "Other options"]
    assert headings == [each for each in order if each in headings]
    others = text.partition("Other options:\n")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in others.splitlines()][-1:] == ["-h,"]


INTERRUPTED = """\
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from flinknet.cli import main
{between}
main(["doctor"])
"""


@pytest.mark.parametrize(
    ("module", "between"),
    [
        ("flinknet.compiled_core", ""),
        ("click", ""),
        ("flinknet.cli.doctor", ""),
        ("", "os.kill(os.getpid(), signal.SIGINT)"),
    ],
)
def test_a_ctrl_c_during_the_imports_ends_without_a_traceback(
    tmp_path: Path, module: str, between: str
) -> None:
    command = tmp_path / "flinknet"
    command.write_text(INTERRUPTED.format(module=module, between=between))
    ended = subprocess.run([sys.executable, command], capture_output=True, text=True, check=False)
    assert ended.returncode == 130
    assert ended.stderr.strip() in ("", "flinknet: interrupted")


def test_who_uses_flinknet_takes_a_ctrl_c_as_before(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import flinknet.cli\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    subprocess.run([sys.executable, program], check=True)
