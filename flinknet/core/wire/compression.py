"""Compressed payloads of blocking and hybrid exchanges (Flink: BufferCompressor,
BufferDecompressor).

| offset | type | field |
|---|---|---|
| 0 | i32 LE | compressed length: payload size - 8 |
| 4 | i32 LE | original length |
| 8 | | compressed bytes |

These are the only little-endian integers of the protocol. The codec is not on the wire: both sides
take it from `taskmanager.network.compression.codec`. Partial buffers are compressed one by one.
Compressed bytes depend on the library and are not canonical.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import Final

import lz4.block
import zstandard

from flinknet.errors import ConfigError, FrameCorruptedError

from .ids import Bytes

_HEADER = struct.Struct("<ii")
COMPRESSION_HEADER_BYTES: Final = _HEADER.size

_ZSTD_LEVEL = 3

_COMPRESSORS: list[zstandard.ZstdCompressor] = []
_DECOMPRESSORS: list[zstandard.ZstdDecompressor] = []
"""Those that nobody uses at the moment: making one takes five times as long as a buffer of 32 KiB
does, and threads may not share one."""


class CompressionCodec(Enum):
    """The values of `taskmanager.network.compression.codec`."""

    LZ4 = "LZ4"  # one raw block
    LZO = "LZO"  # refused: no library of Python's reads Flink's raw blocks
    ZSTD = "ZSTD"  # one frame with content size and checksum
    NONE = "NONE"


def check_codec(codec: CompressionCodec) -> None:
    """Raises: ConfigError for LZO."""
    if codec is CompressionCodec.LZO:
        raise ConfigError(
            "taskmanager.network.compression.codec: flinknet has no LZO; use LZ4, ZSTD or NONE, in"
            " Flink, too"
        )


def compress(codec: CompressionCodec, data: Bytes) -> bytes | None:
    """Compress a payload; None if it does not get smaller. Raises: ConfigError for LZO."""
    check_codec(codec)
    if codec is CompressionCodec.NONE or not len(data):
        return None
    if codec is CompressionCodec.LZ4:
        compressed = lz4.block.compress(data, store_size=False)
    else:
        try:
            compressor = _COMPRESSORS.pop()
        except IndexError:
            compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True)
        compressed = compressor.compress(data)
        _COMPRESSORS.append(compressor)
    if len(compressed) + COMPRESSION_HEADER_BYTES >= len(data):
        return None
    return _HEADER.pack(len(compressed), len(data)) + bytes(compressed)


def decompress(codec: CompressionCodec, payload: Bytes, max_bytes: int) -> bytes:
    """Decompress a payload (or one partial buffer) of at most `max_bytes` before compression.

    Raises: FrameCorruptedError if lengths and bytes are inconsistent, or invalid for this codec;
    ConfigError for LZO.
    """
    check_codec(codec)
    if len(payload) < COMPRESSION_HEADER_BYTES:
        raise FrameCorruptedError(f"a compressed payload of {len(payload)} bytes")
    compressed_bytes, original_bytes = _HEADER.unpack_from(payload)
    if compressed_bytes != len(payload) - COMPRESSION_HEADER_BYTES:
        raise FrameCorruptedError(
            f"{compressed_bytes} compressed bytes announced in a payload of {len(payload)}"
        )
    if not 0 <= original_bytes <= max_bytes or (original_bytes == 0) != (compressed_bytes == 0):
        raise FrameCorruptedError(
            f"{compressed_bytes} bytes compressed from {original_bytes}, at most {max_bytes}"
        )
    if original_bytes == 0:
        return b""
    if codec is CompressionCodec.NONE:
        raise FrameCorruptedError("a compressed buffer in an exchange without compression")
    block = bytes(payload[COMPRESSION_HEADER_BYTES:])
    if codec is CompressionCodec.LZ4:
        try:
            original: bytes = lz4.block.decompress(block, uncompressed_size=original_bytes)
        except lz4.block.LZ4BlockError as error:
            raise FrameCorruptedError(f"not an LZ4 block: {error}") from error
    else:
        original = _decompress_zstd(block, original_bytes)
    if len(original) != original_bytes:
        raise FrameCorruptedError(f"{len(original)} bytes unpacked instead of {original_bytes}")
    return original


def _decompress_zstd(frame: bytes, original_bytes: int) -> bytes:
    try:
        decompressor = _DECOMPRESSORS.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor()
    try:
        content_bytes = zstandard.frame_content_size(frame)
        if content_bytes not in (-1, original_bytes):
            raise FrameCorruptedError(
                f"a ZSTD frame of {content_bytes} bytes instead of {original_bytes}"
            )
        return decompressor.decompress(
            frame, max_output_size=original_bytes, allow_extra_data=False
        )
    except zstandard.ZstdError as error:
        raise FrameCorruptedError(f"not a ZSTD frame: {error}") from error
    finally:
        _DECOMPRESSORS.append(decompressor)
