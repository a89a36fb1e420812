"""A column comes back exactly, whatever it holds."""

from __future__ import annotations

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from flinknet.errors import TraceFormatError
from flinknet.trace.blocks import (
    COMPRESSED_BYTES_PER_STEP,
    EncodedColumn,
    decode_column,
    encode_column,
)
from tests.trace.steps import outcome

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
    encoded = outcome(encode_column(values, COMPRESSOR, is_differences=is_differences))
    decoded = decode_column(encoded, len(values), values.dtype.str)
    assert decoded.dtype == values.dtype
    np.testing.assert_array_equal(decoded, values)


def test_a_long_column_is_compressed_in_pieces_and_comes_back_exactly() -> None:
    values = np.random.default_rng(1).integers(0, 1 << 62, 30_000)
    steps = encode_column(values, COMPRESSOR, is_differences=False)
    assert sum(1 for _ in steps) > values.nbytes // COMPRESSED_BYTES_PER_STEP
    encoded = outcome(encode_column(values, COMPRESSOR, is_differences=False))
    np.testing.assert_array_equal(decode_column(encoded, len(values), "<i8"), values)


@pytest.mark.parametrize(
    ("values", "width_bytes"),
    [([7, 7, 7], 0), ([0, 255], 1), ([-1, 254], 1), ([0, 256], 2), ([-5, 70_000], 4)],
)
def test_integers_are_stored_in_the_smallest_width(values: list[int], width_bytes: int) -> None:
    encoded = outcome(encode_column(np.array(values, "<i8"), COMPRESSOR, is_differences=False))
    assert encoded.width_bytes == width_bytes


def test_an_even_beat_costs_no_bytes() -> None:
    beat = np.arange(0, 1_000_000, 1_000, dtype="<i8")
    encoded = outcome(encode_column(beat, COMPRESSOR, is_differences=True))
    assert encoded.frame == b""
    np.testing.assert_array_equal(decode_column(encoded, len(beat), "<i8"), beat)


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
        decode_column(EncodedColumn(False, 1, 0, 0, frame), 10, "<i8")
