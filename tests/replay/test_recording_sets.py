"""A job that taps on several hosts recorded is answered as if one tap had."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flinknet.cli import main
from flinknet.predict.grid import Grid
from flinknet.replay.opening import FileReads, OnDamage
from flinknet.replay.pipeline import replay_runs
from flinknet.replay.read import open_runs
from flinknet.replay.spark import units
from flinknet.replay.spark.units import find_damaged
from flinknet.trace import ClockInfo, TraceFile, index
from tests.replay_documents import documents
from tests.tapped_job import MS, SECOND, SOURCE, Place, TappedChannel, write_tapped_job

DAY_NS = 86_400_000_000_000
FILE = "tap-0001.fnt"
GRID = Grid(buffer_timeouts_ns=(100 * MS,))

CHANNELS = [
    TappedChannel(vertex, producer, 0, starved, buffers=40, receiver=10 * edge + producer)
    for edge, (vertex, starved) in enumerate(((SOURCE, 0.8), (SECOND, 0.2)))
    for producer in range(2)
]


def write_taps(directory: Path) -> Path:
    """The same job by one tap for each pair of producers; the second one saw the last channel of
    the first, too."""
    first, second = CHANNELS[::2], CHANNELS[1::2]
    near = Place(ClockInfo(host_id="near"))
    far = Place(ClockInfo(host_id="far"), ahead_ns=DAY_NS, way_ns=10_000)
    write_tapped_job(directory / "near", first, near)
    write_tapped_job(directory / "far", [*second, first[-1]], far)
    return directory


@pytest.mark.spark
def test_several_taps_are_answered_as_one(spark: Any, tmp_path: Path) -> None:
    taps = write_taps(tmp_path / "taps")
    one = write_tapped_job(tmp_path / "one", CHANNELS)
    found = [
        documents(replay_runs(spark, open_runs([path]), GRID, max_records=50))
        for path in (taps, one)
    ]
    for several, single in zip(*found, strict=True):
        for part in ("records", "buffers", "bytes", "events", "backlog_buffers"):
            assert several["observed"][part] == single["observed"][part]
        starved_ns = [each["observed"]["credits"].pop("starved_ns") for each in (several, single)]
        assert starved_ns[0] == pytest.approx(starved_ns[1], rel=0.001)
        assert several["observed"]["credits"] == single["observed"]["credits"]
        assert several["messages"] == single["messages"]
        assert [each["cause"] for each in several["diagnosis"]] == [
            each["cause"] for each in single["diagnosis"]
        ]
        assert several["is_bottleneck"] == single["is_bottleneck"]
        assert several["model_error"]["throughput"] == pytest.approx(
            single["model_error"]["throughput"], abs=0.01
        )
        recordings = several["trace"]["recordings"]
        assert [each["label"] for each in recordings] == ["far", "near"]
        assert [each["channels_counted"] for each in recordings] == [3, 1]
        assert recordings[1]["clock"]["basis"] == "messages"
        assert abs(recordings[1]["clock"]["offset_ns"] - DAY_NS) <= 10_000
        assert recordings[1]["clock"]["error_ns"] == 10_000


@pytest.mark.spark
def test_executors_find_damaged_blocks_and_the_rest_is_answered(spark: Any, tmp_path: Path) -> None:
    taps = write_taps(tmp_path / "taps")
    data = bytearray((taps / "near" / FILE).read_bytes())
    data[len(data) // 3] ^= 0xFF
    (taps / "near" / FILE).write_bytes(data)
    files = [TraceFile(str(taps / name / FILE)) for name in ("far", "near")]
    assert find_damaged(spark, files) == [[], [0]]
    runs = open_runs([taps], on_damage=OnDamage.SKIP)
    answers = documents(replay_runs(spark, runs, GRID, max_records=50))
    (loss,) = answers[0]["trace"]["losses"]
    assert (loss["kind"], loss["count"]) == ("damaged_blocks", 162)
    assert [each["observed"]["buffers"] for each in answers] == [40, 80]


@pytest.mark.spark
def test_executors_read_the_indexes_of_many_files(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taps = write_taps(tmp_path / "taps")
    here = [index._read(file) for run in open_runs([taps]) for file in run.files]
    monkeypatch.setattr(units, "INDEXES_HERE_MAX", 1)
    monkeypatch.setattr(units, "FILES_AT_ONCE", 1)
    monkeypatch.setattr(index, "_kept", {})
    reads = FileReads(partial(units.read_indexes, lambda: spark))
    runs = open_runs([taps], reads=reads)
    monkeypatch.setattr(index, "_read", None)
    found = [index.file_index(file) for run in runs for file in run.files]
    for one, other in zip(here, found, strict=True):
        assert one is not other
        assert one.blocks.tobytes() == other.blocks.tobytes()
        assert one.channels.tobytes() == other.channels.tobytes()
        assert (one.is_whole, one.index_bytes) == (other.is_whole, other.index_bytes)


def test_the_indexes_of_few_files_need_no_spark(tmp_path: Path) -> None:
    taps = write_taps(tmp_path / "taps")

    def spark() -> Any:
        raise AssertionError("not for two files")

    assert open_runs([taps], reads=FileReads(partial(units.read_indexes, spark)))


def test_info_shows_the_set(tmp_path: Path) -> None:
    taps = write_taps(tmp_path / "taps")
    shown = CliRunner().invoke(main, ["trace", "info", str(taps)], env={"COLUMNS": "140"})
    assert shown.exit_code == 0, shown.output
    lines = [" ".join(line.split()) for line in shown.output.splitlines()]
    assert lines[1] == (
        "one run of 2 recordings (far, near): 4 channels of 2 exchanges, 1 recorded twice and"
        " counted once (left out: 1 of near)"
    )
    assert lines[2].startswith(
        "! clocks of other hosts than far's: near +86400 s, error at most 10.0 us"
    )
    found = CliRunner().invoke(main, ["trace", "info", str(taps), "--json"])
    (one,) = json.loads(found.output)["sets"]
    assert (one["channels"], one["edges"], one["losses"]) == (4, 2, [])
