"""Functions of programs: each subtask has its copy, each program its own modules."""

from __future__ import annotations

import importlib
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flinknet.errors import ConfigError
from flinknet.graph import load_program
from flinknet.graph.program import files_of_modules
from flinknet.graph.user_functions import check_function, copied

SHARED: list[int] = []


class Count:
    def __init__(self) -> None:
        self.records = 0

    def __call__(self, value: int) -> int:
        self.records += 1
        return self.records

    def method(self, value: int) -> int:
        return self(value)


class Guarded:
    def __init__(self) -> None:
        self.lock = threading.Lock()

    def __call__(self, value: int) -> int:
        with self.lock:
            return value


class GuardedWhenOpened(Guarded):
    def __init__(self) -> None:
        pass

    def open(self) -> None:
        self.lock = threading.Lock()


def of_variable() -> Callable[[int], int]:
    records = 0

    def add(value: int) -> None:
        nonlocal records
        records += 1

    def count(value: int) -> int:
        add(value)  # both have the same variable
        return records

    return count


def of_default() -> Callable[[int], int]:
    def count(value: int, seen: list[int] = []) -> int:  # noqa: B006 - state of a subtask
        seen.append(value)
        return len(seen)

    return count


def of_recursion() -> Callable[[int], int]:
    records = Count()

    def count(value: int) -> int:
        return count(value - 1) if value else records(value)

    return count


def with_lock() -> Callable[[int], int]:
    lock = threading.Lock()
    return lambda value: value if lock.acquire() else 0


def count_shared(value: int) -> int:
    SHARED.append(value)
    return len(SHARED)


@pytest.mark.parametrize(
    "make",
    [
        *(Count, lambda: Count().method, of_variable, of_default, of_recursion),
        lambda: partial(of_variable()),
    ],
)
def test_a_copy_has_its_own_state(make: Callable[[], Any]) -> None:
    function = make()
    one, other = copied(function), copied(function)
    assert [one(3), one(3), other(3)] == [1, 2, 1]
    assert copied(function)(3) == function(3) == 1  # none has changed the original


def test_variables_of_modules_and_classes_are_shared_by_all_copies() -> None:
    SHARED.clear()
    one, other = copied(count_shared), copied(lambda value: count_shared(value))
    assert [one(3), other(3), one(3)] == [1, 2, 3]
    assert copied(GuardedWhenOpened()).open() is None  # what it makes itself needs no copy
    assert copied(print) is print


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (Guarded(), "map: Guarded cannot be copied .*: its attribute 'lock': .*lock.*open()"),
        (with_lock(), "map: the lambda cannot be copied for each subtask: its variable 'lock'"),
        (partial(max, threading.Lock()), "map: partial cannot be copied .*lock"),
        (0, "map: 0 is not a function"),
    ],
)
def test_a_function_that_cannot_be_copied_is_refused_with_the_part(
    function: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_function(function, "map")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("numbers.key_by(0)", "key_by: 0 is not a function"),
        ("numbers.key_by('f0')", "key_by: 'f0' is not a function"),
        ("numbers.key_by(listed)", r"listed returns list\[int\], which cannot be a key"),
        ("numbers.flat_map(same)", r"flat_map: same returns int, not an iterable of records"),
        ("numbers.union(numbers.map(str))", "union: int and str are different types"),
        ("numbers.union(numbers.project(0))", "union: int and tuple are different types"),
        (
            "env.from_collection([1, 'a'])",
            "from_collection: 'a' is not of the first value's type, int",
        ),
        ("numbers.key_by(same).sum('f1')", "sum: 'f1' is not the number of a field"),
        ("numbers.window(5)", "DataStreamSource has no window: .* no windows, timers, joins or"),
        ("numbers.key_by(same).countWindow(5)", "KeyedStream has no countWindow: .* no windows"),
        ("numbers.flatMap(listed)", r"no flatMap; did you mean flat_map\?"),
        ("numbers.key_by(same).max(1)", "KeyedStream has no max; it has .*reduce.*sum"),
        ("env.add_source(1)", r"has no add_source; it has .*from_source"),
    ],
)
def test_a_call_that_cannot_work_is_refused_with_its_line(
    call: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "job.py"
    path.write_text(
        "def same(value: int) -> int: ...\n"
        "def listed(value: int) -> list[int]: ...\n"
        "def main(env):\n"
        "    numbers = env.from_sequence(1, 9)\n"
        f"    {call}\n"
        "    env.execute()\n"
    )
    with pytest.raises(ConfigError, match=rf"job\.py:5: .*{message}"):
        load_program(path, {})


def test_streams_whose_types_agree_as_far_as_they_are_specified_are_united(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text(
        "def main(env):\n"
        "    pairs = env.generate(records=9)\n"  # tuple[int, bytes]
        "    pairs.union(pairs.project(1, 0), pairs.map(id, output_type=object)).discard()\n"
        "    pairs.union(pairs.map(id, output_type=tuple[int, bytes] | None)).discard()\n"
        "    env.execute()\n"
    )
    load_program(path, {})


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


@pytest.mark.parametrize("module", ["words_of_it", "in_folder.words_of_it"])
def test_two_programs_have_each_its_own_module_of_the_same_name(
    tmp_path: Path, module: str
) -> None:
    def name_of_job(directory: Path, word: str) -> str:
        file, program = f"{module.replace('.', '/')}.py", directory / "program.py"
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        (directory / file).write_text(f"NAME = {word!r}\n")
        program.write_text(PROGRAM.replace("words_of_it", module))
        name = load_program(program, {}).stream_graph.job_name
        assert files_of_modules(program) == {file: directory / file}
        return name

    one, two = tmp_path / "one", tmp_path / "two"
    assert name_of_job(one, "one") == "one"
    assert name_of_job(two, "two") == "two"
    assert name_of_job(one, "again and longer") == "again and longer"  # it was changed meanwhile


def test_modules_are_sent_that_lie_where_their_names_say(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for each in ("own/__init__", "own/part", ".venv/installed", "../up/above"):
        (folder / each).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{each}.py").write_text("")
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        archive.writestr("archived.py", "")
    (folder / "program.py").write_text(
        "import sys, types\n"
        "import own.part\n"
        f"sys.path += [{str(folder)!r} + each for each in ('/.venv', '/../up', '/archive.zip')]\n"
        "import above, archived, installed\n"
        "made = sys.modules['made'] = types.ModuleType('made')\n"
        f"made.__path__ = [{str(folder / 'own')!r}]\n"
        "import made.part\n" + PROGRAM.replace("words_of_it", "own").replace("own.NAME", "'job'")
    )
    load_program(folder / "program.py", {})
    sent = ("own/__init__.py", "own/part.py")
    assert files_of_modules(folder / "program.py") == {each: folder / each for each in sent}


def test_functions_import_later_from_the_folder_of_the_program_behind_its_copies(
    tmp_path: Path,
) -> None:
    folder, copies = tmp_path / "folder", tmp_path / "copies"
    for each in (folder / "kept", copies / "kept"):
        each.mkdir(parents=True)
        (each / "__init__.py").write_text(f"NAME = {each.parent.name!r}\n")
    for each in (folder / "kept/later.py", folder / "later_alone.py"):
        each.write_text("NAME = 'later'\n")
    (folder / "program.py").write_text(PROGRAM.replace("words_of_it", "kept"))
    loaded = load_program(folder / "program.py", {}, modules=copies)
    assert loaded.stream_graph.job_name == "copies"
    for name in ("kept.later", "later_alone"):
        assert importlib.import_module(name).NAME == "later"
        del sys.modules[name]


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
