"""Opening recordings: what is damaged ends it or is left out, and what was lost is named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.errors import TraceFormatError
from flinknet.replay.advise.caveats import warnings_of
from flinknet.replay.joining import Together
from flinknet.replay.opening import FileReads, OnDamage
from flinknet.replay.read import RecordedRun, open_runs
from flinknet.trace import (
    ProcessInfo,
    RunManifest,
    TraceFile,
    TraceReader,
    TraceWriter,
    index,
)
from flinknet.trace.recordings import open_recordings, series_within
from tests.edited_manifest import edit_manifest
from tests.recorded_run import event, rows_of
from tests.tapped_job import SOURCE, START_NS, TappedChannel, write_tapped_job

FILE = "tap-0001.fnt"


@pytest.fixture
def taps(tmp_path: Path) -> Path:
    """Two recordings of one job, a channel each."""
    for number in range(2):
        channel = TappedChannel(SOURCE, number, buffers=40, receiver=number)
        write_tapped_job(tmp_path / f"tap-{number}", [channel])
    return tmp_path


def skipping(path: Path) -> RecordedRun:
    (run,) = open_runs([path], on_damage=OnDamage.SKIP)
    return run


def losses_of(run: RecordedRun) -> list[tuple[str, str | None, str, int | None]]:
    return [(Path(each.path).name, each.file, each.kind, each.count) for each in run.losses]


def test_files_are_looked_at_once_and_their_indexes_asked_for_together(
    taps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def note(files: Sequence[TraceFile]) -> None:
        asked.append([file.path for file in files])
        monkeypatch.setattr(index, "stamp_at", None)

    (run,) = open_runs([taps], reads=FileReads(note))
    assert asked == [[str(taps / f"tap-{number}" / FILE) for number in range(2)]]
    for file in run.files:
        index.file_index(file)


def test_what_a_tap_says_that_it_lost_is_named(taps: Path) -> None:
    text = json.dumps({"losses": 2, "skipped_bytes": 900, "sequence_gaps": 0})
    (taps / "tap-1" / "result.json").write_text(text)
    (run,) = open_runs([taps])
    assert losses_of(run) == [
        ("tap-1", None, "losses", 2),
        ("tap-1", None, "skipped_bytes", 900),
    ]
    assert run.losses[1].text == "900 bytes that could not be read as messages"


def test_events_that_could_not_be_written_are_named(taps: Path) -> None:
    file = taps / "tap-0" / FILE
    sent = {"point": TracePoint.SENT, "kind": MessageKind.BUFFER_RESPONSE}
    row = event(at_ns=START_NS, channel=0, data_type=DataType.DATA_BUFFER, reason=0, **sent)
    with TraceWriter(file.with_name("more"), ProcessInfo("tap", FILE, 1)) as writer:
        writer.write_events(rows_of([row]))
        writer.close(dropped_events=7)
    file.with_name("more").rename(file)
    (run,) = open_runs([taps])
    assert losses_of(run) == [("tap-0", FILE, "dropped_events", 7)]


def test_what_the_import_of_a_capture_missed_is_named(taps: Path) -> None:
    def make_capture(manifest: dict[str, object]) -> None:
        manifest["origin"] = "capture"

    edit_manifest(taps / "tap-0", make_capture)
    document = {"connections": [{"sequence_gaps": 2}, {"sequence_gaps": 1}, {}]}
    (taps / "tap-0" / "capture.json").write_text(json.dumps(document))
    (run,) = open_runs([taps])
    assert losses_of(run) == [("tap-0", None, "sequence_gaps", 3)]


def test_a_directory_of_traces_without_its_manifest_is_named(taps: Path) -> None:
    (taps / "tap-1" / "manifest.json").unlink()
    (run,) = open_runs([taps])
    assert losses_of(run) == [("tap-1", None, "left_out", None)]


def test_a_tap_that_no_data_passed_is_named(taps: Path) -> None:
    def make_idle(manifest: dict[str, object]) -> None:
        manifest |= {"channels": [], "measured_from_ns": None, "measured_to_ns": None}

    edit_manifest(taps / "tap-1", make_idle)
    (run,) = open_runs([taps])
    assert losses_of(run) == [("tap-1", None, "left_out", None)]
    with pytest.raises(TraceFormatError, match="tap-1: nothing was recorded"):
        open_runs([taps / "tap-1"])
    edit_manifest(taps / "tap-0", make_idle)
    with pytest.raises(TraceFormatError, match="tap-0: nothing was recorded"):
        open_runs([taps], together=Together.ONE)


def test_damaged_blocks_are_left_out_and_counted(taps: Path) -> None:
    data = bytearray((taps / "tap-1" / FILE).read_bytes())
    data[len(data) // 3] ^= 0xFF
    (taps / "tap-1" / FILE).write_bytes(data)
    run = skipping(taps)
    assert losses_of(run) == [("tap-1", FILE, "damaged_blocks", 81)]
    text = "1 of 1 block damaged and skipped: lost 81 events of 1 channel in "
    assert run.losses[0].text.startswith(text)
    assert float(run.losses[0].text.removeprefix(text).split()[0]) > 0
    held = []
    for file in open_recordings(run.place).files:
        with TraceReader(file) as reader:
            held += [entry.count for entry in reader.blocks()]
    assert held == [81]


def test_a_recording_that_cannot_be_used_is_left_out(taps: Path) -> None:
    (taps / "tap-1" / "manifest.json").write_text("{}")
    with pytest.raises(TraceFormatError, match="schema_version"):
        open_runs([taps])
    assert losses_of(skipping(taps)) == [("tap-1", None, "left_out", None)]
    with pytest.raises(TraceFormatError, match="schema_version"):
        open_runs([taps / "tap-1"], on_damage=OnDamage.SKIP)
    (taps / "tap-0" / FILE).write_bytes(b"no trace")
    with pytest.raises(TraceFormatError, match="tap-0: none of its trace files can be read"):
        open_runs([taps], on_damage=OnDamage.SKIP)


def test_a_damaged_result_says_nothing(taps: Path) -> None:
    manifest = RunManifest.load(taps / "tap-0")
    replace(manifest, files={"result.json": "0" * 64}).save(taps / "tap-0")
    result = taps / "tap-0" / "result.json"
    result.write_text(json.dumps({"warnings": [{"text": "the host was busy"}]}))
    run = skipping(taps / "tap-0")
    assert losses_of(run) == [("tap-0", "result.json", "damaged_file", None)]
    assert warnings_of(run) == []


@pytest.mark.parametrize("is_there", [True, False])
def test_damaged_metrics_end_a_replay_or_are_not_used(taps: Path, is_there: bool) -> None:
    tap = taps / "tap-0"
    line = {"at_ns": START_NS, "job": "j", "vertex": "v", "task": "t", "attempt": 0, "busy": 1}
    (tap / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    assert series_within(skipping(tap).place, 0, 1 << 62)
    replace(RunManifest.load(tap), files={"metrics.jsonl": "0" * 64}).save(tap)
    if not is_there:
        (tap / "metrics.jsonl").unlink()
    with pytest.raises(
        TraceFormatError, match=r"metrics\.jsonl: (its checksum|the manifest names)"
    ):
        open_runs([tap])
    run = skipping(tap)
    assert losses_of(run) == [("tap-0", "metrics.jsonl", "damaged_file", None)]
    assert run.losses[0].text.startswith("Flink's metrics are not used: ")
    assert series_within(run.place, 0, 1 << 62) == []


def test_a_file_that_cannot_be_read_is_left_out_of_its_recording(taps: Path) -> None:
    data = (taps / "tap-1" / FILE).read_bytes()
    names = ("tap-0002.fnt", "tap-0003.fnt")

    def add_files(manifest: dict[str, list[dict[str, object]]]) -> None:
        manifest["processes"] += [{"name": "tap", "file": name, "pid": 1} for name in names]

    edit_manifest(taps / "tap-1", add_files)
    (taps / "tap-1" / names[0]).write_bytes(data[:5])
    run = skipping(taps)
    assert losses_of(run) == [("tap-1", name, "damaged_file", None) for name in names]
    assert [file.title for file in run.files] == [f"tap-0/{FILE}", f"tap-1/{FILE}"]


def test_a_file_that_was_cut_ends_the_part_unless_damage_is_passed_over(taps: Path) -> None:
    file = taps / "tap-1" / FILE
    file.write_bytes(file.read_bytes()[:-100])
    (run,) = open_runs([taps])
    assert run.notes[0].startswith(f"tap-1/{FILE} is cut off")
    run = skipping(taps)
    assert run.notes == ()
    assert losses_of(run) == [("tap-1", FILE, "cut_off", None)]
    assert run.losses[0].text.startswith("the last ")


def test_a_process_keeps_the_indexes_of_so_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_kept", {})
    monkeypatch.setattr(index, "FILES_KEPT", 8)
    nothing = index.FileIndex(np.zeros(0), np.zeros(0), True, None, 0)
    files = [TraceFile(str(number), stamp=[1, 2]) for number in range(20)]
    for file in files:
        index.keep_index(file, (1, 2), nothing)
        assert index.is_kept(file)
    assert len(index._kept) == 8
    assert not index.is_kept(files[0])
    assert not index.is_kept(TraceFile(str(tmp_path / "dropped meanwhile")))
