"""The export for Perfetto: slices, counters and instants of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flinknet.export import select
from flinknet.export.perfetto import tracks_of, write_perfetto
from flinknet.trace import RunManifest, open_run
from tests.recorded_run import MS, write_run


def exported(run: Path, *wanted: Any) -> list[dict[str, Any]]:
    out = run.parent / "trace.json"
    write_perfetto(select(open_run(run), *wanted), out)
    events: list[dict[str, Any]] = json.loads(out.read_text())["traceEvents"]
    return events


def test_a_slice_for_each_buffer_with_what_happened_in_it(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", buffers=3)
    events = [each for each in exported(run) if each["pid"] == 2]
    names = {each["name"]: each["args"] for each in events if each["ph"] == "M"}
    assert names["process_name"] == {"name": "channel 0: 0 → 0 (tm-0->tm-1)"}
    slices = [each for each in events if each["ph"] == "X"]
    buffers = [each for each in slices if each["name"].startswith("buffer ")]
    assert [each["name"] for each in buffers] == ["buffer 0", "buffer 1", "buffer 2"]
    # Time counts from the first event, which is the first buffer's leaving, 10 ms after its record.
    second = buffers[1]
    assert second["args"] == {"bytes": 1050, "records": 10, "left": "buffer timeout"}
    assert (second["ts"], second["dur"]) == (0, 10_070)
    phases = [each for each in slices if each["ts"] >= second["ts"] and each not in buffers]
    own = [each for each in phases if each["tid"] == second["tid"]][:3]
    assert [(each["name"], each["ts"], each["dur"]) for each in own] == [
        ("waiting to leave", 0, 9_999.998),
        ("in the socket", 10_000, 19.998),
        ("in the receiver's queue", 10_020, 49.998),
    ]


def test_of_a_run_recorded_between_processes_each_buffer_is_an_instant(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", buffers=3, channels=1)
    manifest = RunManifest.load(run)
    replace(manifest, origin="tap").save(run)
    instants = [each for each in exported(run) if each["ph"] == "i"]
    assert [(each["name"], each["ts"], each["args"]) for each in instants] == [
        (f"buffer {number}", number * 10_000, {"bytes": 1050, "records": 10}) for number in range(3)
    ]


def test_counters_change_where_the_trace_says(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", buffers=4)
    counters = [each for each in exported(run, [1]) if each["ph"] == "C"]
    assert {each["pid"] for each in counters} == {3}
    actual = {
        name: [(each["ts"], each["args"]["buffers"]) for each in counters if each["name"] == name]
        for name in ("credit", "backlog")
    }
    # Buffers leave each 10 ms, the fourth with the last credit, the end
    # behind it; credit comes 5.02 ms after each.
    assert actual["backlog"] == [(0, 0), (30_000, 3), (40_000, 0)]
    assert actual["credit"][:4] == [(0, 1), (5_020, 2), (10_000, 1), (15_020, 2)]
    assert actual["credit"][-2:] == [(30_000, 0), (35_020, 2)]


def test_the_parts_of_the_run_and_the_waits_of_the_writer(tmp_path: Path) -> None:
    start_ns = 1_000_000 * MS
    run = write_run(
        tmp_path / "run",
        buffers=10,
        window_ns=(start_ns + 30 * MS, start_ns + 60 * MS),
        waits_ns=[(start_ns + 40 * MS, start_ns + 47 * MS)],
    )
    events = exported(run)
    parts = [each for each in events if each["pid"] == 1 and each["ph"] == "X"]
    # The last event is the end of the data, 110 ms after the first record.
    assert [(each["name"], each["ts"], each["dur"]) for each in parts] == [
        ("warm-up", 0, 20_000),
        ("measured", 20_000, 30_000),
        ("drain", 50_000, 50_000),
    ]
    (wait,) = [each for each in events if each["name"] == "waits for a buffer"]
    assert (wait["ts"], wait["dur"]) == (30_000, 6_999.998)


def test_time_that_is_not_wanted_is_not_there(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", buffers=100)
    events = exported(run, None, 205 * MS, 235 * MS)
    buffers = [
        each["name"] for each in events if each["pid"] == 2 and each["name"].startswith("buffer ")
    ]
    assert buffers == ["buffer 20", "buffer 21", "buffer 22"]
    assert all(0 <= each["ts"] <= 30_000 for each in events if "ts" in each)


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 3_000)), max_size=40).map(sorted))
def test_slices_of_a_track_never_overlap_and_no_track_is_wasted(
    spans: list[tuple[int, int]],
) -> None:
    starts = np.array([start for start, _ in spans], dtype=np.int64)
    ends = starts + np.array([length for _, length in spans], dtype=np.int64)
    tracks = tracks_of(starts, ends)
    until: dict[int, int] = {}
    for start, end, track in zip(starts.tolist(), ends.tolist(), tracks, strict=True):
        assert until.get(track, -1) < start
        until[track] = end + 1
    most_at_once = max(
        (int(((starts <= at) & (ends + 2 > at)).sum()) for at in starts.tolist()), default=0
    )
    assert len(until) == most_at_once
