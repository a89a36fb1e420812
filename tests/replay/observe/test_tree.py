"""The answers of units are merged by buckets of channels: to the same rows, however many."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from flinknet.replay.observe import latency, tree, units, widening
from flinknet.replay.observe.measured import ObservedRun
from flinknet.replay.observe.observed import observe_here
from flinknet.replay.read import RecordedRun, open_recorded_run
from flinknet.replay.spark.frames import Rows, unpacked
from flinknet.trace import file_index
from tests.recorded_run import MS, START_NS, write_run

BUFFERS = 100


def observed(run: RecordedRun, split: int) -> ObservedRun:
    """What is observed, with all rows in one order; without those that units differ in."""
    (found,) = observe_here([run], split)
    tables = {each.name: getattr(found.rows, each.name) for each in fields(found.rows)}
    ordered = {
        name: sorted(rows.table.to_pylist() if isinstance(rows, Rows) else rows, key=repr)
        for name, rows in tables.items()
        if isinstance(rows, list | Rows)
    }
    return replace(found, rows=replace(found.rows, **ordered | {"work": [], "arrivals": []}))


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    """Four channels; one of them is idle for a while."""
    path = write_run(tmp_path / "run", buffers=BUFFERS, channels=4, idle=range(30, 70))
    return open_recorded_run(path, 0)


def test_buckets_and_what_is_held_do_not_show(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = observed(run, 1)
    assert whole.rows.total_latency is not None
    assert len(whole.rows.latency) == 4
    monkeypatch.setattr(tree, "CHANNELS_PER_BUCKET", 2)
    assert observed(run, 1) == whole
    assert observed(run, 7) == whole
    monkeypatch.setattr(tree, "PART_BYTES_MAX", 64)
    assert observed(run, 7) == whole
    monkeypatch.setattr(tree, "HELD_BYTES_MAX", 0)
    assert observed(run, 7) == whole


def test_a_large_table_is_parted_between_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    channels = np.repeat([3, 4, 5, 9], [5, 1, 4, 2])
    table = pa.table({"run": np.zeros(12, int), "channel": channels, "records": np.arange(12)})
    monkeypatch.setattr(tree, "PART_BYTES_MAX", table.nbytes // 3)
    parts = [unpacked(each.rows) for each in tree._named("messages", 0, 0, table)]
    assert len(parts) > 1
    assert pa.concat_tables(parts) == table
    found = [set(part["channel"].to_pylist()) for part in parts]
    assert sorted(chain.from_iterable(found)) == [3, 4, 5, 9]
    (empty,) = tree._named("messages", 0, 0, table.slice(0, 0))
    assert unpacked(empty.rows).schema == table.schema


@pytest.mark.parametrize("few", [0, 1 << 40])
def test_pieces_in_which_very_many_channels_are_worked_off_do_not_show(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    whole = observed(run, 3)
    monkeypatch.setattr(latency, "COMPILED_FROM_RECORDS", few)
    assert observed(run, 3) == whole
    for module, name in (
        (latency, "FEW_HELD_MAX"),
        (tree, "ROWS_AT_ONCE"),
        (widening, "CHANNELS_AT_ONCE"),
    ):
        monkeypatch.setattr(module, name, 1)
    assert observed(run, 3) == whole


def test_blocks_outside_of_the_measured_part_are_units_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window_ns = START_NS + 400 * MS, START_NS + 500 * MS
    path = write_run(tmp_path / "run", buffers=BUFFERS, window_ns=window_ns)
    run = open_recorded_run(path, 0)
    whole = observed(run, 1)
    monkeypatch.setattr(units, "OUTSIDE_EVENTS", 0)
    monkeypatch.setattr(units, "EVENTS_PER_TIME_SLICE_MIN", 100)
    found = units.work_units([run], 2).units
    assert [unit.is_slice for unit in found[:3]] == [True, True, False]
    assert len(found) > 5
    assert observed(run, 2) == whole


def test_each_block_is_the_own_one_of_one_unit(
    run: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "OUTSIDE_EVENTS", 0)
    for split in (1, 3, 50):
        own = [
            (file.file, number)
            for unit in units.work_units([run], split).units
            for file in unit.files
            for number in range(file.own_from, file.own_to)
        ]
        # Those before and behind the measured part stand in one range of numbers, with it between.
        blocks = sum(len(file_index(file).blocks) for file in run.files)
        assert len(set(own)) == blocks
    assert sum(row.events for row in observe_here([run])[0].rows.work) == sum(
        file_index(file).events for file in run.files
    )


def test_a_unit_reads_no_index_but_that_of_its_blocks(run: RecordedRun) -> None:
    rows = observe_here([run], 5)[0].rows.work
    assert len(rows) == 5
    held = sum(file_index(file).index_bytes for file in run.files)
    # Headers and directories of blocks, of which few belong to two slices.
    assert sum(row.index_bytes for row in rows) < 12 * held
    assert sum(row.data_bytes for row in rows) > 0
