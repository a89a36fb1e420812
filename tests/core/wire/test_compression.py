"""Compressed payloads: round trips, and lengths that lie."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.core.wire.compression import CompressionCodec, compress, decompress
from flinknet.errors import ConfigError, FrameCorruptedError
from tests.comparisons import compares, compares_in
from tests.golden_vectors import vectors

CODECS = [CompressionCodec.LZ4, CompressionCodec.ZSTD]
REPETITIVE = b"the quick brown fox " * 50
_TEXTS = [
    each["fields"]
    for each in vectors("2.3.0")
    if each["name"].startswith("compressed/") and each["name"].endswith("text-512")
]
COMPRESSED = {CompressionCodec(each["codec"]): bytes.fromhex(each["payload"]) for each in _TEXTS}
(ORIGINAL,) = {bytes.fromhex(each["uncompressed"]) for each in _TEXTS}


@pytest.mark.parametrize("codec", CODECS)
@compares_in(0.5)
@given(data=st.binary(max_size=50).map(lambda piece: piece * 20))
def test_unpacking_gives_back_what_was_packed(codec: CompressionCodec, data: bytes) -> None:
    payload = compress(codec, memoryview(data))
    if compares(payload is not None):
        assert len(payload) < len(data)
        assert decompress(codec, memoryview(payload), len(data)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_repetitive_bytes_get_smaller_and_others_go_as_they_are(codec: CompressionCodec) -> None:
    assert compress(codec, REPETITIVE) is not None
    assert compress(codec, bytes(range(256))) is None
    assert compress(codec, b"") is None


def test_no_codec_compresses_nothing_and_lzo_is_refused_by_name() -> None:
    assert compress(CompressionCodec.NONE, REPETITIVE) is None
    for use in (
        lambda: compress(CompressionCodec.LZO, REPETITIVE),
        lambda: decompress(CompressionCodec.LZO, COMPRESSED[CompressionCodec.LZO], 512),
    ):
        with pytest.raises(ConfigError, match="flinknet has no LZO; use LZ4, ZSTD or NONE"):
            use()


def test_zstd_frames_carry_content_size_and_checksum_as_flinks_do() -> None:
    payload = compress(CompressionCodec.ZSTD, REPETITIVE)
    descriptor = payload[12]
    assert payload[8:12] == bytes.fromhex("28b52ffd")
    assert descriptor & 0x04
    assert descriptor >> 6 or descriptor & 0x20


@pytest.mark.parametrize("codec", CODECS)
def test_an_original_beyond_the_bound_is_not_unpacked(codec: CompressionCodec) -> None:
    assert len(decompress(codec, COMPRESSED[codec], 512)) == 512
    with pytest.raises(FrameCorruptedError, match="at most 511"):
        decompress(codec, COMPRESSED[codec], 511)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("announced", [1, 511, 513, 100_000])
def test_an_original_of_another_length_is_corrupt(codec: CompressionCodec, announced: int) -> None:
    payload = COMPRESSED[codec]
    lying = payload[:4] + struct.pack("<i", announced) + payload[8:]
    with pytest.raises(FrameCorruptedError):
        decompress(codec, lying, 1 << 20)


@pytest.mark.parametrize("codec", CODECS)
def test_a_cut_payload_is_corrupt(codec: CompressionCodec) -> None:
    payload = COMPRESSED[codec]
    for cut in range(len(payload)):
        with pytest.raises(FrameCorruptedError):
            decompress(codec, payload[:cut], 512)
    for cut in range(9, len(payload)):
        shortened = struct.pack("<i", cut - 8) + payload[4:cut]
        with pytest.raises(FrameCorruptedError):
            decompress(codec, shortened, 512)


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
def test_a_damaged_payload_raises_nothing_but_corruption(
    codec: CompressionCodec, data: st.DataObject
) -> None:
    damaged = bytearray(COMPRESSED[codec])
    for at in data.draw(st.lists(st.integers(8, len(damaged) - 1), min_size=1, max_size=4)):
        damaged[at] = data.draw(st.integers(0, 255))
    with suppress(FrameCorruptedError):
        assert len(decompress(codec, damaged, 512)) == 512
    assert decompress(codec, COMPRESSED[codec], 512) == ORIGINAL  # by the same decompressor


@pytest.mark.parametrize("lengths", [(0, 5), (-1, 5), (1, 0), (1, -1), (2, 5)])
def test_lengths_that_contradict_each_other_are_corrupt(lengths: tuple[int, int]) -> None:
    payload = struct.pack("<ii", *lengths) + bytes(max(0, min(lengths[0], 1)))
    with pytest.raises(FrameCorruptedError):
        decompress(CompressionCodec.LZ4, payload, 512)


def test_two_zero_lengths_are_an_empty_buffer() -> None:
    assert decompress(CompressionCodec.LZ4, bytes(8), 512) == b""


def test_a_compressed_buffer_without_codec_is_corrupt() -> None:
    with pytest.raises(FrameCorruptedError, match="without compression"):
        decompress(CompressionCodec.NONE, COMPRESSED[CompressionCodec.LZ4], 512)
