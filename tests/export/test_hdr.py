"""The log for HdrHistogram: what its own libraries write for the same values, and read again."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

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
from flinknet.trace import open_run
from tests.recorded_run import write_run

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
