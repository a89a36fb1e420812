"""Nothing in a run directory changes an answer unnoticed: manifest, result, metrics, traces."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinknet.errors import TraceFormatError
from flinknet.replay.read import open_recorded_run
from flinknet.report.page_parts import Lines
from flinknet.report.trace_console import info_view
from flinknet.trace import open_run
from flinknet.trace.describe import describe_run
from flinknet.trace.run import open_with_faults
from flinknet.trace.run_directory import seal_result, seal_run
from flinknet.trace.share import copy_run
from flinknet.trace.verify import verify_run
from tests.edited_manifest import edit_manifest
from tests.sample_traces import summary
from tests.synthetic_trace import write_run
from tests.trace.damage import FOUND, HARMLESS, REFUSED, campaign, write_sealed


def findings(run: Path) -> list[tuple[str | None, str]]:
    found = verify_run(*open_with_faults(run)).findings
    return [(finding.file, finding.text) for finding in found]


def test_no_damage_of_any_file_of_a_run_is_silent(tmp_path: Path) -> None:
    outcomes = campaign(write_sealed(tmp_path / "run"), seed=1, times=240)
    assert outcomes.keys() <= {FOUND, REFUSED, HARMLESS}
    assert outcomes[HARMLESS] < 20


def test_a_sealed_run_is_sound_and_says_the_same_as_before(tmp_path: Path) -> None:
    before = summary(write_run(tmp_path / "before", data_buffers=10))
    run = write_sealed(tmp_path / "run")
    assert findings(run) == []
    assert summary(run)["column_sums"] == before["column_sums"]
    assert set(json.loads((run / "manifest.json").read_text())["files"]) == {
        *("tm-0.fnt", "tm-1.fnt", "result.json", "metrics.jsonl"),
    }


def test_an_edited_manifest_is_refused_with_what_to_do(tmp_path: Path) -> None:
    run = write_sealed(tmp_path / "run")
    path = run / "manifest.json"
    path.write_text(path.read_text().replace('"100 ms"', '"900 ms"'))
    with pytest.raises(TraceFormatError) as refused:
        open_run(run)
    assert str(refused.value) == (
        f"{path}: it does not match its seal, so it was damaged or edited; copy it back; if you"
        ' edited it, set "seal" in manifest.json to null'
    )
    ((file, text),) = findings(run)
    assert (file, text) == ("manifest.json", str(refused.value).removeprefix(f"{path}: "))


def test_an_edit_that_is_meant_is_taken(tmp_path: Path) -> None:
    run = write_sealed(tmp_path / "run")
    edit_manifest(run, lambda value: value.update(seed=8))
    (run / "result.json").write_text("{}")
    found = open_run(run).manifest
    assert found.seed == 8
    assert findings(run) == []


def test_a_manifest_may_be_laid_out_otherwise(tmp_path: Path) -> None:
    run = write_sealed(tmp_path / "run")
    path = run / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert findings(run) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda value: value["processes"].append(value["processes"][0]), "names tm-0.fnt more"),
        (lambda value: value["channels"].append(value["channels"][1]), "has channel 1 more than"),
    ],
)
def test_what_is_named_twice_is_refused(tmp_path: Path, change: Any, says: str) -> None:
    run = write_run(tmp_path / "run")
    edit_manifest(run, change)
    with pytest.raises(TraceFormatError, match=says):
        open_run(run)
    ((file, text),) = findings(run)
    assert file == "manifest.json"
    assert says in text
    assert text.endswith("more than once; copy it back, or remove the second one")


def test_a_trace_file_may_be_renamed_with_its_manifest(tmp_path: Path) -> None:
    run = write_sealed(tmp_path / "run")
    (run / "tm-0.fnt").rename(run / "first.fnt")
    edit_manifest(run, lambda value: value["processes"][0].update(file="first.fnt"))
    assert [file.name for file in open_run(run).files] == ["first.fnt", "tm-1.fnt"]
    assert findings(run) == []


def test_the_trace_of_another_process_is_refused(tmp_path: Path) -> None:
    run = write_sealed(tmp_path / "run")
    edit_manifest(run, lambda value: value["processes"][0].update(pid=7))
    with pytest.raises(TraceFormatError, match=r"tm-0\.fnt: it was recorded by tm-0 \(pid "):
        open_run(run)


@pytest.mark.parametrize("name", ["result.json", "metrics.jsonl"])
def test_info_names_what_is_missing_and_a_replay_refuses_it(tmp_path: Path, name: str) -> None:
    run = write_sealed(tmp_path / "run")
    (run / name).unlink()
    described = describe_run(open_run(run))
    assert described["missing_files"] == [name]
    doubts = info_view(described).parts[1]
    assert isinstance(doubts, Lines)
    assert doubts.lines == [f"{name} is missing: copy it back"]
    with pytest.raises(TraceFormatError, match=f"{name}: the manifest names it, and it is not"):
        open_recorded_run(run, 0)
    assert [file for file, _ in findings(run)] == [name]


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("result.json", lambda run: open_recorded_run(run, 0)),
        ("metrics.jsonl", lambda run: open_recorded_run(run, 0)),
        ("metrics.jsonl", lambda run: describe_run(open_run(run))),
        ("metrics.jsonl", lambda run: copy_run(run, run.with_name("copy"), None)),
    ],
)
def test_what_a_reader_believes_must_be_what_the_run_left(
    tmp_path: Path, name: str, read: Callable[[Path], object]
) -> None:
    run = write_sealed(tmp_path / "run")
    with (run / name).open("a") as file:
        file.write(" ")
    with pytest.raises(TraceFormatError, match=r"its checksum is not that in the manifest"):
        read(run)


def test_the_trace_of_a_run_of_the_same_names_is_not_taken_for_this_one(tmp_path: Path) -> None:
    run, other = write_sealed(tmp_path / "run"), write_sealed(tmp_path / "other", data_buffers=12)
    shutil.copy(other / "tm-0.fnt", run / "tm-0.fnt")
    with pytest.raises(TraceFormatError, match=r"tm-0\.fnt: it is of another run"):
        open_run(run)
    assert (
        "tm-0.fnt",
        "it is of another run than the manifest; copy back what belongs together",
    ) in (findings(run))


@pytest.mark.parametrize("name", ["result.json", "metrics.jsonl"])
def test_what_was_changed_after_the_run_is_found_by_verify(tmp_path: Path, name: str) -> None:
    run = write_sealed(tmp_path / "run")
    with (run / name).open("a") as file:
        file.write(" ")
    ((file_name, text),) = findings(run)
    assert file_name == name
    assert text.startswith("its checksum is not that in the manifest")
    (run / name).unlink()
    ((_, text),) = findings(run)
    way_out = 'if it is gone, set "seal" in manifest.json to null'
    assert text == f"the manifest names it, and it is not there; copy it back; {way_out}"
    edit_manifest(run, lambda manifest: None)
    assert findings(run) == []


def test_a_result_that_comes_later_is_sealed_too(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    seal_run(run)
    (run / "result.json").write_text("{}")
    seal_result(run)
    assert findings(run) == []
    (run / "result.json").write_text("{ }")
    assert [file for file, _ in findings(run)] == ["result.json"]
