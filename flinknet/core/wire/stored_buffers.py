"""Layout of the buffers of a blocking partition in a file, one after the other (Flink:
BufferReaderWriterUtil).

| offset | type | field |
|---|---|---|
| 0 | i16 | 0 a buffer, 1 an event |
| 2 | i16 | 1 if compressed |
| 4 | i32 | length |
| 8 | | bytes |

The index file of a sort-merge partition has an entry per region and subpartition (Flink:
PartitionedFile):

| offset | type | field |
|---|---|---|
| 0 | i64 | offset of its buffers in the data file |
| 8 | i64 | their bytes, headers included |

The integers are in the byte order of the machine, since no other machine reads the files.
"""

from __future__ import annotations

import struct
from typing import Final

from flinknet.errors import FrameCorruptedError

_HEADER = struct.Struct("=hhi")
STORED_HEADER_BYTES: Final = _HEADER.size

_INDEX_ENTRY = struct.Struct("=qq")
INDEX_ENTRY_BYTES: Final = _INDEX_ENTRY.size


def encode_stored_header(*, is_event: bool, is_compressed: bool, size_bytes: int) -> bytes:
    """Encode the header of a buffer or event."""
    return _HEADER.pack(is_event, is_compressed, size_bytes)


def decode_stored_header(header: bytes | memoryview) -> tuple[bool, bool, int]:
    """Decode a header: whether it is an event, whether it is compressed, and the size in bytes.

    Raises: FrameCorruptedError.
    """
    if len(header) != STORED_HEADER_BYTES:
        raise FrameCorruptedError(f"a stored buffer's header of {len(header)} bytes")
    is_event, is_compressed, size_bytes = _HEADER.unpack(header)
    if is_event not in (0, 1) or is_compressed not in (0, 1) or size_bytes < 0:
        raise FrameCorruptedError(
            f"no stored buffer: event {is_event}, compressed {is_compressed}, {size_bytes} bytes"
        )
    return bool(is_event), bool(is_compressed), size_bytes


def encode_index_entry(offset: int, size_bytes: int) -> bytes:
    """Encode the position of a subpartition's part of a region."""
    return _INDEX_ENTRY.pack(offset, size_bytes)


def decode_index_entry(entry: bytes | memoryview) -> tuple[int, int]:
    """Decode offset and bytes of a subpartition's part of a region.

    Raises: FrameCorruptedError.
    """
    if len(entry) != INDEX_ENTRY_BYTES:
        raise FrameCorruptedError(f"an index entry of {len(entry)} bytes")
    offset, size_bytes = _INDEX_ENTRY.unpack(entry)
    if offset < 0 or size_bytes < 0:
        raise FrameCorruptedError(f"no index entry: offset {offset}, {size_bytes} bytes")
    return offset, size_bytes
