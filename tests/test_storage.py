"""Paths of a store: what they are made of, and traces read from a server that speaks S3."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
from io import BufferedWriter, FileIO
from pathlib import Path

import numpy as np
import pytest

from flinknet.errors import ConfigError, StorageError
from flinknet.storage import StoragePath, matching, path_of
from flinknet.trace import TraceReader, find_runs, open_run
from flinknet.whole_files import whole_file, work_directory
from tests.object_store import BUCKET, ObjectStore
from tests.recorded_run import write_run


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("runs/run-1", Path("runs/run-1")),
        ("a:/run-1", Path("a:/run-1")),
        ("file:///runs/run%201", Path("/runs/run 1")),
        ("file:/runs/run-1", Path("/runs/run-1")),
        ("/Volumes/main/traces/run-1", Path("/Volumes/main/traces/run-1")),
        ("dbfs:/Volumes/main/traces/run-1", Path("/Volumes/main/traces/run-1")),
        ("dbfs:/traces/run-1", Path("/dbfs/traces/run-1")),
        ("s3://bucket/a//b/", StoragePath("s3://bucket", "a/b")),
        ("s3://bucket/a#1 %20/b", StoragePath("s3://bucket", "a#1 %20/b")),
        ("S3A://bucket", StoragePath("s3a://bucket", "")),
        ("abfss://box@host.net/a", StoragePath("abfss://box@host.net", "a")),
        ("hdfs:///runs/run-1", StoragePath("hdfs://", "runs/run-1")),
        ("s3://b/a?scheme=http", StoragePath("s3://b", "a", "scheme=http")),
    ],
)
def test_a_path_is_of_this_machine_or_of_a_store(text: str, path: Path | StoragePath) -> None:
    assert path_of(text) == path
    assert path_of(str(path)) == path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ftp://host/run", "no such storage"),
        ("s3:///run", "names no bucket"),
        ("s3://key:word@bucket/run", "credentials do not belong in a path"),
        ("abfss://box@host.net/run?sas_token=x", "credentials do not belong in a path"),
    ],
)
def test_what_is_no_path_is_refused_without_its_secrets(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        path_of(text)
    assert not {"word", "=x"} & set(str(caught.value))


def test_names_of_a_path_in_a_store() -> None:
    path = path_of("s3a://bucket/runs?scheme=http") / "run-1" / "tm-0.fnt"
    assert str(path) == "s3a://bucket/runs/run-1/tm-0.fnt?scheme=http"
    assert (path.name, path.suffix, path.parent.name) == ("tm-0.fnt", ".fnt", "run-1")
    assert path.absolute() is path


@pytest.mark.socket
def test_runs_in_a_store_are_found_and_read_as_those_of_this_machine(
    store: ObjectStore, tmp_path: Path
) -> None:
    here = write_run(tmp_path / "runs" / "run-1", buffers=20)
    there = path_of(store.upload(here.parent, "runs"))
    assert [str(run) for run in find_runs(there)] == [f"s3://{BUCKET}/runs/run-1"]
    assert (
        find_runs(there / "run-*") == find_runs(path_of(f"s3://{BUCKET}/run*")) == find_runs(there)
    )
    assert find_runs(here.parent / "run-[0-9]") == [here]
    assert find_runs(there / "run-1" / "tm-0.fnt") == [there / "run-1" / "tm-0.fnt"]
    run = open_run(there / "run-1")
    assert run.manifest == open_run(here).manifest
    for file in run.files:
        with TraceReader(file) as remote, TraceReader(here / file.name) as local:
            assert remote.size_bytes == local.size_bytes
            assert len(remote.blocks()) == len(local.blocks())
            for index in range(len(local.blocks())):
                found, expected = remote.read_block(index), local.read_block(index)
                assert found.keys() == expected.keys()
                assert all(np.array_equal(found[name], expected[name]) for name in expected)
    assert not any(
        method == "GET" and path.endswith(".fnt") and size < 0
        for method, path, size in store.requests()
    )


def test_a_pattern_is_what_matches_it(tmp_path: Path) -> None:
    for name in ("tap-2", "tap-1", "tap-[1]", "other"):
        (tmp_path / name).mkdir()
    assert [each.name for each in matching(tmp_path / "tap-?")] == ["tap-1", "tap-2"]
    assert matching(tmp_path / "tap-[1]") == [tmp_path / "tap-[1]"]
    assert matching(tmp_path / "none-*") == matching(tmp_path / "none") == []


@pytest.mark.socket
def test_files_are_written_whole_or_not_at_all(store: ObjectStore) -> None:
    path = path_of(f"s3://{BUCKET}/written/answer.json")
    assert isinstance(path, StoragePath)

    def fail() -> None:
        with path.whole_file() as file:
            file.write(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not path.exists()
    path.write_text("whole")
    assert path.read_text() == "whole"
    assert (path.is_file(), path.parent.is_dir()) == (True, True)
    assert list(path.parent.iterdir()) == list(path.parent.glob("*.json")) == [path]
    assert path.stat().st_size == 5


@pytest.mark.socket
def test_what_a_store_refuses_is_one_line(store: ObjectStore) -> None:
    with pytest.raises(StorageError, match=r"^s3://nowhere/a: cannot write it \(.*\)$") as caught:
        path_of("s3://nowhere/a").write_text("text")
    assert "\n" not in str(caught.value)


class InterruptedAtTheEnd(FileIO):
    """A file whose closing a signal interrupts: Linux has closed it then."""

    def close(self) -> None:
        was_open = not self.closed
        super().close()
        if was_open:
            raise InterruptedError


def test_a_file_whose_closing_is_interrupted_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "result.json"
    monkeypatch.setattr(
        builtins, "open", lambda path, mode: BufferedWriter(InterruptedAtTheEnd(path, mode))
    )
    with whole_file(path) as file:
        file.write(b"{}")
    monkeypatch.undo()
    assert file.closed
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"{}"]


def test_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "result.json", tmp_path / "elsewhere"
    guessed = tmp_path / ".result.json.unfinished"
    guessed.symlink_to(elsewhere)
    with whole_file(path) as first, whole_file(path) as second:
        first.write(b"first, longer")
        second.write(b"second")
    assert path.read_bytes() == b"first, longer"
    assert not elsewhere.exists()
    assert sorted(tmp_path.iterdir()) == [guessed, path]


KILLED = """
import os, signal, sys
from pathlib import Path
from flinknet.whole_files import whole_file, work_directory
with whole_file(Path(sys.argv[1], "result.json")) as file, work_directory("test") as directory:
    (directory / "part").mkdir()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=environ, check=False)
    directory, unfinished = sorted(tmp_path.iterdir(), key=lambda each: each.name, reverse=True)
    assert (directory / "part").is_dir()
    (tmp_path / "flinknet-runs").mkdir()  # of a user, who works there
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with work_directory("test") as first, work_directory("test") as second:
        assert not directory.exists()
        assert (first.is_dir(), second.is_dir()) == (True, True)
    day_ago_s = unfinished.stat().st_mtime - 86_500
    os.utime(unfinished, (day_ago_s, day_ago_s))
    with whole_file(tmp_path / "result.json"):
        pass
    names = {each.name for each in tmp_path.iterdir()}
    assert names == {"flinknet-runs", "result.json"}


def test_a_whole_file_gets_its_name_also_if_that_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, interrupted = os.replace, [True, True]

    def replace(source: Path, target: Path) -> None:
        if interrupted:
            interrupted.pop()
            raise InterruptedError
        rename(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with whole_file(tmp_path / "result.json") as file:
        file.write(b"{}")
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"{}"]
    assert not interrupted
