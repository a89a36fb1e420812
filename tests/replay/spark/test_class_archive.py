"""The archive of Spark's classes: where it lies, what a JVM is told of it, how it is made."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from flinknet.errors import FlinknetError
from flinknet.replay.spark import installed, session
from flinknet.replay.spark.installed import VARIABLE, ClassArchive, JavaRuntime, start_unnoticed
from flinknet.replay.spark.settings import SessionOptions

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


def test_another_java_or_another_spark_has_another_archive(tmp_path: Path) -> None:
    spark, java = tmp_path / "spark", JavaRuntime(tmp_path, "17.0.1", "PATH")
    newer = JavaRuntime(tmp_path, "21.0.1", "PATH")
    names = {
        ClassArchive.of(java, tmp_path, spark).path,
        ClassArchive.of(newer, tmp_path, spark).path,
        ClassArchive.of(java, tmp_path, tmp_path / "other").path,
    }
    assert len(names) == 3


def test_a_java_that_makes_no_archive_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    java = java_that(FAILS, tmp_path / "java")
    archive = ClassArchive.of(java, tmp_path, tmp_path / "spark")
    with pytest.raises(FlinknetError, match="archive of Spark's classes: no memory"):
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


def test_one_that_is_there_is_not_made_again(tmp_path: Path) -> None:
    java = java_that(WRITES_ITS_ARGUMENTS, tmp_path / "java")
    archive = ClassArchive.of(java, tmp_path, tmp_path / "spark")
    archive.make(java, tmp_path / "classes", "a.jar")
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
