"""The log for HdrHistogram, which its own libraries read, and the trace for Perfetto."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.export import select
from flinknet.export.hdr import (
    HIGHEST_TRACKABLE_NS,
    RunLatencies,
    count_index,
    encode_histogram,
    write_hdr,
    write_records_hdr,
)
from flinknet.export.perfetto import tracks_of, write_perfetto
from flinknet.trace import RunManifest, open_run
from tests.recorded_run import MS, write_run

# Written by HdrHistogram_py 0.10.8 (HdrHistogram(1, 86400000000000, 3).encode()) for these values.
VALUES = {
    0: 1,
    1: 2,
    2047: 3,
    2048: 1,
    2049: 4,
    5_000_000: 70_000,
    123_456_789: 1_000,
    HIGHEST_TRACKABLE_NS: 1,
}
BODY = bytes.fromhex(
    "1c849313000000140000000000000003000000000000000100004e94914f0000"
    "3ff00000000000000204f91f060a85b301e0c508ab4ad00f99b60202"
)


def body_of(text: str) -> bytes:
    frame = base64.b64decode(text)
    assert frame[:4] == bytes.fromhex("1c849314")
    assert int.from_bytes(frame[4:8], "big") == len(frame) - 8
    return zlib.decompress(frame[8:])


def counts_of(text: str) -> dict[int, int]:
    """The counts by index, read as the format's description has it."""
    data = body_of(text)[40:]
    counts, index, at = {}, 0, 0
    while at < len(data):
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            if shift == 56:
                value |= byte << shift
                break
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        number = (value >> 1) ^ -(value & 1)
        if number < 0:
            index -= number
        else:
            counts[index] = number
            index += 1
    return counts


def test_bytes_are_those_of_the_library() -> None:
    values = np.repeat(list(VALUES), list(VALUES.values()))
    assert encode_histogram(values).startswith("HISTFAAA")
    assert body_of(encode_histogram(values)) == BODY


@given(
    st.lists(
        st.one_of(st.integers(0, 5_000), st.integers(0, HIGHEST_TRACKABLE_NS)),
        min_size=1,
        max_size=50,
    )
)
def test_every_value_is_counted_to_three_digits(values: list[int]) -> None:
    indexes = count_index(np.array(values)).tolist()
    assert counts_of(encode_histogram(np.array(values))) == {
        index: indexes.count(index) for index in indexes
    }
    for value, index in zip(values, indexes, strict=True):
        bucket = max(0, index // 1024 - 1)
        low = index - bucket * 1024 << bucket
        assert low <= value < low + (1 << bucket)
        assert (1 << bucket) <= max(value / 1000, 1)


def test_a_line_for_each_second_and_channel(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", buffers=150)
    assert write_hdr(select(open_run(run)), tmp_path / "run.hlog") == 300
    lines = (tmp_path / "run.hlog").read_text().splitlines()
    assert "#[Histogram log format version 1.3]" in lines
    assert "#[StartTime: 1704067200.000 (seconds since epoch)]" in lines
    assert "#[channel 1: 0 → 1 (tm-0->tm-1)]" in lines
    data = [line.split(",") for line in lines if line.startswith("Tag=")]
    # Each buffer lives for 10.07 ms; time starts with the first record of the first.
    assert [each[:4] for each in data] == [
        ["Tag=channel-0", "0.000", "1.000", "10.070"],
        ["Tag=channel-1", "0.000", "1.000", "10.070"],
        ["Tag=channel-0", "1.000", "1.000", "10.070"],
        ["Tag=channel-1", "1.000", "1.000", "10.070"],
    ]
    (index,) = count_index(np.array([10_070_000])).tolist()
    assert [counts_of(each[4]) for each in data] == [
        {index: 99}, {index: 99}, {index: 51}, {index: 51},
    ]  # fmt: skip


def test_one_channel_of_some_time(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", buffers=150)
    out = tmp_path / "run.hlog"
    assert write_hdr(select(open_run(run), [1], 1_000_000_000), out) == pytest.approx(50, abs=1)
    assert "Tag=channel-0" not in out.read_text()


def test_a_log_of_records_has_an_interval_for_each_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.hlog"
    run = RunLatencies.of_ranges("a b=1,2", 10**9, [1_000, 5_000], [1_008, 5_040], [3, 1])
    write_records_hdr(path, [run], "2030-01-01T00:00:00Z")
    *head, line = path.read_text().splitlines()
    assert "#[StartTime: 1893456000.000 (seconds since epoch)]" in head
    expected = encode_histogram(np.array([1_003, 1_003, 1_003, 5_019]))
    assert line == f"Tag=a_b=1_2,0.000,1.000,0.005,{expected}"


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
