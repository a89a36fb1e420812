"""The rows and columns of a block come back as they were, whatever stands in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from flinknet.errors import TraceFormatError
from flinknet.trace import ProcessInfo, TraceReader, TraceWriter, blocks
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
        block = reader.read_block(0, (*(name for name, _ in ROW_DTYPE), blocks.ORDER))
    expected = np.lexsort((np.arange(len(rows)), rows["point"], rows["kind"], rows["channel"]))
    np.testing.assert_array_equal(block[blocks.ORDER], expected)
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
    assert sum(1 for _ in blocks.encode_events(rows)) < 250
    assert outcome(blocks.encode_events(rows))[1].count == len(rows)


COMPRESSOR = zstandard.ZstdCompressor(level=1)
LIMITS = {"u1": (0, 255), "<i4": (-(1 << 31), (1 << 31) - 1), "<i8": (-(1 << 63), (1 << 63) - 1)}


@st.composite
def columns(draw: st.DrawFn) -> np.ndarray:
    numpy_type = draw(st.sampled_from(sorted(LIMITS)))
    low, high = LIMITS[numpy_type]
    values = st.integers(low, high) | st.integers(max(low, -3), 3) | st.sampled_from([low, high])
    return np.array(draw(st.lists(values, min_size=1, max_size=40)), dtype=numpy_type)


@given(columns(), st.booleans())
def test_a_column_comes_back_exactly(values: np.ndarray, is_differences: bool) -> None:
    encoded = outcome(blocks.encode_column(values, COMPRESSOR, is_differences=is_differences))
    decoded = blocks.decode_column(encoded, len(values), values.dtype.str)
    assert decoded.dtype == values.dtype
    np.testing.assert_array_equal(decoded, values)


def test_a_long_column_is_compressed_in_pieces_and_comes_back_exactly() -> None:
    values = np.random.default_rng(1).integers(0, 1 << 62, 30_000)
    steps = blocks.encode_column(values, COMPRESSOR, is_differences=False)
    assert sum(1 for _ in steps) > values.nbytes // blocks.COMPRESSED_BYTES_PER_STEP
    encoded = outcome(blocks.encode_column(values, COMPRESSOR, is_differences=False))
    np.testing.assert_array_equal(blocks.decode_column(encoded, len(values), "<i8"), values)


@pytest.mark.parametrize(
    ("values", "width_bytes"),
    [([7, 7, 7], 0), ([0, 255], 1), ([-1, 254], 1), ([0, 256], 2), ([-5, 70_000], 4)],
)
def test_integers_are_stored_in_the_smallest_width(values: list[int], width_bytes: int) -> None:
    encoded = outcome(
        blocks.encode_column(np.array(values, "<i8"), COMPRESSOR, is_differences=False)
    )
    assert encoded.width_bytes == width_bytes


def test_an_even_beat_costs_no_bytes() -> None:
    beat = np.arange(0, 1_000_000, 1_000, dtype="<i8")
    encoded = outcome(blocks.encode_column(beat, COMPRESSOR, is_differences=True))
    assert encoded.frame == b""
    np.testing.assert_array_equal(blocks.decode_column(encoded, len(beat), "<i8"), beat)


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (COMPRESSOR.compress(bytes(10_000_000)), "length"),
        (zstandard.ZstdCompressor(write_content_size=False).compress(bytes(10)), None),
        (b"not a frame", "decompressed"),
    ],
    ids=["longer than its column", "without its length", "no frame"],
)
def test_a_frame_that_does_not_unpack_to_its_column_is_refused(
    frame: bytes, why: str | None
) -> None:
    with pytest.raises(TraceFormatError, match=why):
        blocks.decode_column(blocks.EncodedColumn(False, 1, 0, 0, frame), 10, "<i8")
