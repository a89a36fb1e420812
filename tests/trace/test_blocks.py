"""A block's rows go in one order, whatever numbers stand in them, and come back as they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flinknet.trace import ProcessInfo, TraceReader, TraceWriter
from flinknet.trace.blocks import ORDER, encode_events
from flinknet.trace.schema import ROW_DTYPE
from tests.trace.steps import outcome

FULL = (1 << 8, 1 << 8)


@pytest.mark.parametrize(
    ("channels", "kinds", "points", "lowest"),
    [
        (1, 1, 1, -1),
        (3, 11, 7, -1),
        (851, 11, 7, -1),  # the last number of channels whose keys fit into 16 bits
        (852, 11, 7, -1),
        (1, *FULL, 5),
        (2, *FULL, 5),
        (1 << 16, 11, 7, 0),
        ((1 << 16) + 1, 11, 7, 0),
        ((1 << 32) - 1, *FULL, -(1 << 31)),
    ],
)
def test_rows_are_sorted_by_channel_kind_and_point_and_come_back_in_order(
    tmp_path: Path, channels: int, kinds: int, points: int, lowest: int
) -> None:
    random = np.random.default_rng(channels)
    rows = np.zeros(9_000, dtype=ROW_DTYPE)
    for name, numpy_type in ROW_DTYPE:
        most = 200 if numpy_type == "u1" else 1 << 30
        rows[name] = random.integers(0, most, len(rows))
    rows["channel"] = lowest + random.integers(0, channels, len(rows))
    rows["kind"] = random.integers(0, kinds, len(rows))
    rows["point"] = random.integers(0, points, len(rows))
    rows["channel"][:2] = lowest, lowest + channels - 1
    rows["kind"][0], rows["point"][0] = kinds - 1, points - 1
    with TraceWriter(tmp_path / "tm-0.fnt", ProcessInfo("tm-0", "tm-0.fnt", 1)) as writer:
        writer.write_events(rows)
    with TraceReader(tmp_path / "tm-0.fnt") as reader:
        block = reader.read_block(0, (*(name for name, _ in ROW_DTYPE), ORDER))
    expected = np.lexsort((np.arange(len(rows)), rows["point"], rows["kind"], rows["channel"]))
    np.testing.assert_array_equal(block[ORDER], expected)
    for name, _ in ROW_DTYPE:
        np.testing.assert_array_equal(block[name], rows[name][expected], name)


@pytest.mark.parametrize("channels", [3, 100_000])
def test_a_full_block_has_fewer_steps_than_a_recorder_gives_it(channels: int) -> None:
    random = np.random.default_rng(1)
    rows = np.zeros(65_536, dtype=ROW_DTYPE)
    for name, numpy_type in ROW_DTYPE:
        limits = np.iinfo(numpy_type)
        rows[name] = random.integers(limits.min, limits.max, len(rows), endpoint=True)
    rows["channel"] = random.integers(0, channels, len(rows))
    assert sum(1 for _ in encode_events(rows)) < 250
    assert outcome(encode_events(rows)).entry.count == len(rows)
