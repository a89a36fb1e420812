"""The manifest of a run, its run directory, and its JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinknet.errors import ConfigError, TraceError, TraceFormatError
from flinknet.trace import RunManifest, find_runs, open_run
from flinknet.trace.plain_text import read_json_file
from flinknet.trace.run_directory import RunDirectory, seal_run
from tests.edited_manifest import edit_manifest
from tests.synthetic_trace import manifest, write_run


def test_a_manifest_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    manifest().save(tmp_path)
    assert RunManifest.load(tmp_path) == manifest()
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in ("absent", "file"):
        with pytest.raises(TraceError, match=rf"{place}/manifest\.json: cannot write"):
            manifest().save(tmp_path / place)


def without(name: str) -> Any:
    return lambda value: value.pop(name)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda value: value.update(schema_version=9), "schema_version is 9"),
        (without("seed"), "lacks 'seed'"),
        (lambda value: value.update(seed="7"), "'7' as 'seed', not int"),
        (lambda value: value.update(seed=True), "True as 'seed'"),
        (lambda value: value.update(measured_to_ns=1 << 63), "as 'measured_to_ns': too large"),
        (lambda value: value.update(more=1), "'more', which"),
        (lambda value: value.update(clock=None), "clock is not"),
        (lambda value: value.update(channels={}), "channels is not a list"),
        (lambda value: value["channels"][1].pop("consumer"), r"channels\[1\] lacks 'consumer'"),
        (lambda value: value["processes"][0].update(pid=None), "None as 'pid'"),
        (lambda value: value.update(scenario={"workload": [1]}), "scenario.workload is not a JSON"),
        (lambda value: value.update(scenario={"network": "x"}), "scenario.network is not a JSON"),
        (lambda value: value.update(scenario={"job": None}), "scenario.job is not a JSON object"),
        (lambda value: value.update(scenario={"job": {"vertices": 1}}), "job.vertices is not a li"),
        (
            lambda value: value.update(scenario={"job": {"vertices": [], "edges": [1]}}),
            "scenario.job.edges is not a list of JSON objects",
        ),
        (lambda value: value["processes"][0].update(file="../x.fnt"), "a plain file name"),
        (lambda value: value.update(measured_to_ns=value["measured_from_ns"] - 1), "before it be"),
    ],
)
def test_what_is_wrong_with_a_manifest_is_named(tmp_path: Path, change: Any, says: str) -> None:
    value = json.loads(manifest().save(tmp_path).read_text())
    change(value)
    (tmp_path / "manifest.json").write_text(json.dumps(value))
    with pytest.raises(TraceFormatError, match=says) as raised:
        RunManifest.load(tmp_path)
    assert str(tmp_path) in str(raised.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value["processes"][0].update(file="x" * 5000 + ".fnt"),
        lambda value: value["processes"][0].update(file="tm\x1b[31m.fnt"),
        lambda value: value.update(seed="7" * 5000),
        lambda value: value.update({"x" * 5000: 1}),
        lambda value: value["scenario"].update(deep=json.loads("[" * 200 + "]" * 200)),
    ],
)
def test_a_hostile_manifest_is_refused_in_a_short_line(tmp_path: Path, change: Any) -> None:
    run = write_run(tmp_path / "run")
    edit_manifest(run, change)
    with pytest.raises(TraceFormatError) as raised:
        open_run(run)
    assert len(str(raised.value)) < len(str(run)) + 150
    assert str(raised.value).isprintable()


def test_channels_of_a_manifest_have_what_is_the_same_in_common(tmp_path: Path) -> None:
    manifest(channels=2).save(tmp_path)
    first, second = RunManifest.load(tmp_path).channels
    assert first.producer_process is second.producer_process
    assert first.receiver_id != second.receiver_id


def test_a_channel_outside_of_the_list_of_channels_is_refused(tmp_path: Path) -> None:
    def change(value: dict[str, Any]) -> None:
        value["host"]["channel"] = value["channels"][0]

    manifest().save(tmp_path)
    edit_manifest(tmp_path, change)
    with pytest.raises(TraceFormatError, match="not in its list of channels"):
        RunManifest.load(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", r'{"seal": "\ud800"}', '{"schema_version": 1}', "\x00", "[" * 200_000]
)
def test_what_is_no_manifest_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(TraceFormatError, match=r"manifest\.json"):
        RunManifest.load(tmp_path)


def test_a_run_is_a_directory_or_a_file(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    whole = open_run(run)
    assert whole.manifest == manifest()
    assert [file.name for file in whole.files] == ["tm-0.fnt", "tm-1.fnt"]
    alone = open_run(run / "tm-1.fnt")
    assert alone.manifest is None
    (reader,) = alone.readers()
    with reader:
        assert reader.process.name == "tm-1"


def test_runs_are_found_at_a_path_and_below_it(tmp_path: Path) -> None:
    first, second = write_run(tmp_path / "runs" / "a"), write_run(tmp_path / "runs" / "b")
    assert find_runs(first) == [first]
    assert find_runs(tmp_path / "runs") == [first, second]
    assert find_runs(first / "tm-0.fnt") == [first / "tm-0.fnt"]


@pytest.mark.parametrize("find", [open_run, find_runs])
def test_what_is_no_run_is_explained(tmp_path: Path, find: Any) -> None:
    with pytest.raises(TraceFormatError, match="no such file or directory"):
        find(tmp_path / "absent")
    with pytest.raises(TraceFormatError, match=r"no manifest\.json and no \*\.fnt"):
        find(tmp_path)
    run = write_run(tmp_path / "run")
    (run / "manifest.json").unlink()
    with pytest.raises(TraceFormatError, match=r"read a trace alone, such as .*tm-0\.fnt"):
        find(run)


def test_a_directory_of_runs_is_not_a_run(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a")
    with pytest.raises(TraceFormatError, match="the runs are below it"):
        open_run(tmp_path / "runs")
    with pytest.raises(TraceFormatError, match=r"the runs are below it, such as .*runs/a"):
        open_run(tmp_path)


def test_a_missing_trace_file_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "tm-1.fnt").unlink()
    with pytest.raises(TraceFormatError, match=r"names tm-1\.fnt, which is not there"):
        open_run(run)


def test_tasks_that_nobody_named_have_numbers_of_their_own_behind_those_of_their_edge() -> None:
    recorded = manifest(channels=1)
    (known,) = recorded.channels
    unknown = replace(known, producer=-1, consumer=-1)
    channels = replace(recorded, channels=(known, unknown, unknown)).with_stand_ins().channels
    assert [(each.producer, each.consumer) for each in channels] == [(0, 0), (1, 1), (2, 2)]


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    (file := tmp_path / "file.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(UnicodeDecodeError):
        read_json_file(file)


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
