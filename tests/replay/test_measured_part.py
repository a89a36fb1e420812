"""What is reported of runs that were interrupted or whose files were cut: never a wrong number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flinknet.errors import TraceFormatError
from flinknet.predict.measured_part import FOREVER_NS
from flinknet.replay.opening import OnDamage
from flinknet.replay.read import RecordedRun, open_recorded_run, open_runs
from tests.edited_manifest import edit_manifest
from tests.recorded_run import CONSUME_NS, MS, START_NS, TRANSIT_NS, write_run

LIFE_NS = 10 * MS + TRANSIT_NS + CONSUME_NS
"""From the first record of a buffer until its consumer is done with it."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", buffers=60)


def cut(file: Path, share: float) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * share)])


def manifest(run: Path, **changes: Any) -> None:
    edit_manifest(run, lambda found: found.update(changes))


def opened(run: Path) -> RecordedRun:
    return open_recorded_run(run, 0)


def test_a_whole_run_is_told_as_it_was_measured(run: Path) -> None:
    part = opened(run)
    assert (part.from_ns, part.to_ns, part.until_ns) == (START_NS, START_NS + 600 * MS, FOREVER_NS)
    assert part.notes == ()


@pytest.mark.parametrize("name", ["tm-0.fnt", "tm-1.fnt"])
def test_the_measured_part_ends_before_a_file_that_was_cut_does(run: Path, name: str) -> None:
    cut(run / name, 0.5)
    part = opened(run)
    known_ns = part.to_ns - START_NS
    assert 100 * MS < known_ns < 500 * MS
    life_ns = LIFE_NS if name == "tm-1.fnt" else 10 * MS
    assert part.until_ns == part.to_ns + life_ns
    (note,) = part.notes
    assert note.startswith(f"{name} is cut off")
    assert "of 600 ms" in note


def test_the_shortest_file_counts(run: Path) -> None:
    cut(run / "tm-0.fnt", 0.7)
    long = opened(run)
    cut(run / "tm-1.fnt", 0.4)
    short = opened(run)
    assert short.to_ns < long.to_ns
    assert "tm-1.fnt" in short.notes[0]


def test_the_longest_file_counts_where_damage_is_passed_over(run: Path) -> None:
    cut(run / "tm-0.fnt", 0.7)
    cut(run / "tm-1.fnt", 0.4)
    (part,) = open_runs([run], on_damage=OnDamage.SKIP)
    assert opened(run).to_ns < part.to_ns < START_NS + 600 * MS
    assert part.cut == "tm-0.fnt is cut off"
    lost = {each.file: each.text for each in part.losses}
    assert lost.keys() == {"tm-0.fnt", "tm-1.fnt"}
    missing_ms = [float(text.split()[2]) for text in lost.values()]
    assert missing_ms[0] == pytest.approx((START_NS + 600 * MS - part.until_ns) / MS, abs=1)
    assert missing_ms[0] < missing_ms[1] < 600


def test_damage_in_the_middle_of_a_cut_file_ends_it_there(run: Path) -> None:
    path = run / "tm-1.fnt"
    cut(path, 0.95)
    later = opened(run).to_ns
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    assert opened(run).to_ns < later - 100 * MS


def test_a_cut_before_the_measured_part_is_an_error(tmp_path: Path) -> None:
    window_ns = (START_NS + 400 * MS, START_NS + 600 * MS)
    run = write_run(tmp_path / "late", buffers=60, window_ns=window_ns)
    cut(run / "tm-1.fnt", 0.3)
    with pytest.raises(TraceFormatError, match=r"tm-1\.fnt is cut off before anything"):
        opened(run)


def test_an_interrupted_run_ends_with_its_events(run: Path) -> None:
    manifest(run, measured_to_ns=None)
    part = opened(run)
    (note,) = part.notes
    assert note.startswith("the run was interrupted: the answer is that of the first 595 ms")
    # The last the consumer tells is a credit, half a period after the last buffer left.
    assert part.to_ns == START_NS + 605 * MS + 1 - LIFE_NS


@pytest.mark.parametrize("shift_ns", [-5_000 * MS, 5_000 * MS])
def test_a_measured_part_without_events_is_an_error(run: Path, shift_ns: int) -> None:
    from_ns = START_NS + shift_ns
    manifest(run, measured_from_ns=from_ns, measured_to_ns=from_ns + 100 * MS)
    with pytest.raises(TraceFormatError, match="no event lies in its measured part") as caught:
        opened(run)
    assert caught.value.exit_code == 4


def test_records_whose_buffers_all_left_later_are_measured(run: Path) -> None:
    manifest(run, measured_from_ns=START_NS, measured_to_ns=START_NS + 5 * MS)
    assert opened(run).duration_ns == 5 * MS


def test_the_manifest_of_another_run_is_an_error(run: Path, tmp_path: Path) -> None:
    other = json.loads((write_run(tmp_path / "other") / "manifest.json").read_text())
    for process in other["processes"]:
        process["pid"] += 100
    manifest(run, **other)
    with pytest.raises(TraceFormatError, match="they are of different runs"):
        opened(run)


def test_a_run_that_did_not_get_there_is_an_error(run: Path) -> None:
    manifest(run, measured_from_ns=None, measured_to_ns=None)
    with pytest.raises(TraceFormatError, match="ended before its measured part"):
        opened(run)
    manifest(run, measured_from_ns=None, measured_to_ns=None, origin="tap", channels=[])
    with pytest.raises(TraceFormatError, match="nothing was recorded: no channel of Flink"):
        opened(run)
