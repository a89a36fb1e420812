"""What `make test` runs of slow tests, and the line that says what it left out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MARKED = """
import pytest
pytestmark = pytest.mark.slow("they take long")

def test_of_a_slow_module(): pass

@pytest.mark.quick
def test_that_stays(): pass

@pytest.mark.slow("many cases", first=True)
@pytest.mark.parametrize("case", range(3))
def test_of_cases(case): pass

@pytest.mark.interop
def test_of_flink(): pass
"""

CONFTEST = """
from tests.left_out import LeftOut

def pytest_configure(config):
    config.pluginmanager.register(LeftOut(config))
"""


def run(directory: Path, marks: str) -> list[str]:
    """The lines of a run of MARKED on two workers."""
    (directory / "test_marked.py").write_text(MARKED, encoding="utf-8")
    (directory / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (directory / "pytest.ini").write_text("[pytest]\nmarkers =\n slow\n quick\n interop\n")
    command = [sys.executable, "-m", "pytest", "-v", "-n", "2", "-m", marks]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_first_cases_and_quick_tests_of_slow_modules_run_and_the_others_are_counted(
    tmp_path: Path,
) -> None:
    lines = run(tmp_path, "quick or not slow")
    passed = {line.split("::")[-1] for line in lines if " PASSED " in line}
    assert passed == {"test_that_stays ", "test_of_cases[0] "}
    (said,) = [line for line in lines if line.startswith("left to")]
    assert said.startswith("left to make test-all: 4 slow tests (2 many cases; 1 they take long;")


def test_a_run_of_the_slow_tests_leaves_nothing_to_others(tmp_path: Path) -> None:
    lines = run(tmp_path, "slow and not quick")
    assert sum("PASSED" in line for line in lines) == 4
    assert not any("left to" in line for line in lines)
