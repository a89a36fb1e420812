"""Modules beside a program are its own, whatever was loaded before in the same process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinknet.graph import load_program

PROGRAM = """
import words_of_it

def main(env):
    env.from_sequence(1, 9).print()
    env.execute(words_of_it.NAME)
"""


@pytest.fixture(autouse=True)
def path() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


def name_of_job(directory: Path, word: str) -> str:
    directory.mkdir(exist_ok=True)
    (directory / "words_of_it.py").write_text(f"NAME = {word!r}\n")
    (directory / "program.py").write_text(PROGRAM)
    return load_program(directory / "program.py", {}).stream_graph.job_name


def test_two_programs_have_each_its_own_module_of_the_same_name(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    assert name_of_job(one, "one") == "one"
    assert name_of_job(two, "two") == "two"
    assert name_of_job(one, "again and longer") == "again and longer"  # it was changed meanwhile


def test_a_package_that_was_known_before_is_not_loaded_again(tmp_path: Path) -> None:
    package = tmp_path / "known_before"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "part.py").write_text("NAME = 'part'\n")
    sys.path.insert(0, str(tmp_path))
    import known_before  # type: ignore[import-not-found]

    (tmp_path / "program.py").write_text(PROGRAM.replace("words_of_it", "known_before.part"))
    load_program(tmp_path / "program.py", {})
    part = sys.modules["known_before.part"]
    load_program(tmp_path / "program.py", {})
    assert sys.modules["known_before.part"] is part
    assert sys.modules["known_before"] is known_before
