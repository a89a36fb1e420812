"""The archive of Spark's classes: where it lies, what a JVM is told of it, how it is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.errors import FlinknetError
from flinknet.replay.spark.class_archive import ClassArchive
from flinknet.replay.spark.jvm import JavaRuntime

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
