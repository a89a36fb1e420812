"""A run directory has one run, and at its end holds what that run recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.errors import ConfigError, TraceError
from flinknet.trace import RunManifest
from flinknet.trace.run_directory import RunDirectory, seal_run
from tests.synthetic_trace import write_run


def test_another_run_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "run"
    first = RunDirectory(path)
    with pytest.raises(ConfigError, match=f"another run is writing to {path}"):
        RunDirectory(path)
    first.release()
    with RunDirectory(path):
        pass


@pytest.mark.parametrize("left", ["manifest.json", "result.json", "tm-7.fnt", "run-0001-a"])
def test_what_a_run_has_left_is_not_written_over(tmp_path: Path, left: str) -> None:
    (tmp_path / left).touch()
    for _ in range(2):  # who was refused does not keep the lock
        with pytest.raises(ConfigError, match="holds a run already"):
            RunDirectory(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [left]


def test_other_files_are_in_the_way_only_of_who_needs_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    RunDirectory(tmp_path).release()
    with pytest.raises(ConfigError, match="is not empty; traces are never overwritten"):
        RunDirectory(tmp_path, must_be_empty=True)


def test_a_file_is_no_run_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file; give a directory"):
        RunDirectory(tmp_path / "file")
    with pytest.raises(ConfigError, match="cannot be made a run directory"):
        RunDirectory(tmp_path / "file" / "run")


def test_a_run_takes_back_what_it_made_and_nothing_else(tmp_path: Path) -> None:
    for path in (tmp_path / "new", tmp_path):
        directory = RunDirectory(path)
        for name in ("tm-0.fnt", "tm-1.fnt"):
            (path / name).touch()
        directory.clear(["tm-0.fnt", "tm-9.fnt"])
        assert [each.name for each in path.iterdir()] == ["tm-1.fnt"]
        directory.clear(["tm-1.fnt"])
        directory.release()
    assert list(tmp_path.iterdir()) == []


def test_a_run_whose_trace_is_gone_or_another_is_an_error_at_its_end(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "tm-0.fnt").rename(tmp_path / "gone")
    with pytest.raises(TraceError, match=r"not what this run recorded: .* names tm-0\.fnt"):
        seal_run(run)
    (run / "tm-1.fnt").rename(run / "tm-0.fnt")
    (tmp_path / "gone").rename(run / "tm-1.fnt")
    with pytest.raises(TraceError, match="they are of different runs"):
        seal_run(run)
    assert RunManifest.load(run).files == {}
