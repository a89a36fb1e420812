"""The byte layout of a trace file. Everything is little-endian, and a CRC-32 covers every byte.

    file    = header, block*, trailer, footer
    header  = magic 8, version u32, length u32, description (JSON of that length),
              crc32 of all before it u32
    block   = marker "FNTB", type u8, columns u8, 2 zero bytes, events u32, channels u32,
              directory bytes u32, data bytes u32, first instant i64, last instant i64,
              crc32 of the directory u32, crc32 of the block header so far u32;
              then the directory, then the data
    footer  = offset of the trailer u64, crc32 of that offset u32, "FNTE"

    EVENTS   directory = a CHANNEL_ENTRY for each channel held, a COLUMN_ENTRY for each column;
             data = one zstd frame for each column, in the order of the entries (see `blocks`);
             columns of times are there only where an event has one, in files of version 2
    META     directory = JSON: a description that belongs to the whole file, or
             {"dropped_events": n} if n events before the next block could not be written; no data
    TRAILER  directory = totals (events u64, dropped events u64), a TRAILER_ENTRY for each block
             before it, then their CHANNEL_ENTRYs in the same order; no data

A footer that points to a complete trailer proves a clean end. Without one, blocks are found by
reading forward: each has its length. No length is used before its checksum is verified, and none
beyond the end of the file.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from flinknet.errors import TraceFormatError

from .plain_text import read_json
from .schema import ROW_FORMAT, TIMES_FORMAT

# History of the format:
# 1  first version
# 2  a block of events may have columns of times; the version is raised before the first such block
FORMAT_VERSION = 2

WITHOUT_TIMES = 1
"""Version of a file whose blocks have no columns of times."""

MAGIC = b"\x89FNT\r\n\x1a\n"
"""Start of every file; a transfer in text mode would break it."""

CAPTURES = tuple(
    bytes.fromhex(each) for each in ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "0a0d0d0a")
)
"""Starts of capture files: pcap in either byte order, in us or ns, and pcapng."""

COMPRESSED = b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"BZh", b"\x04\x22\x4d\x18"
"""Starts of files by gzip, xz, zstd, bzip2 and lz4."""

BLOCK_MARKER = b"FNTB"
FOOTER_MARKER = b"FNTE"

DROPPED_EVENTS = "dropped_events"
"""Key of a META block that stands where events could not be written: how many since the block of
events before it.
"""

_GAP_BYTES_MAX = 64
"""Longest directory of such a block."""

_DROPPED_EVENTS_MAX = (1 << 48) - 1
"""Most events that one, or a trailer, says are missing; a larger number is not believed."""

MAX_BLOCK_EVENTS = 1 << 20
"""Most rows in one block; more are rejected."""

MAX_HEADER_BYTES = 1 << 20
"""Longest header of a file; a longer one is rejected."""

_ROW = struct.Struct(ROW_FORMAT)
_TIMES = struct.Struct(TIMES_FORMAT)
_HEADER = struct.Struct("<8sII")
_CRC = struct.Struct("<I")
_BLOCK = struct.Struct("<4sBBxxIIIIqqI")
_FOOTER = struct.Struct("<QI4s")
_TOTALS = struct.Struct("<QQ")

ROW_BYTES = _ROW.size
"""Bytes of one event in the recorder's buffer."""

pack_row = _ROW.pack_into
"""`pack_row(buffer, offset, *event)`: packs an event, on the recorder's hot path."""

TIMES_BYTES = _TIMES.size
"""Bytes of the times of an event in the recorder's buffer."""

pack_times = _TIMES.pack_into
"""`pack_times(buffer, offset, row, *times)`: packs the times of an event."""

FILE_PREFIX_BYTES = _HEADER.size
BLOCK_HEADER_BYTES = _BLOCK.size + _CRC.size
FOOTER_BYTES = _FOOTER.size

CHANNEL_ENTRY = np.dtype(
    [("channel", "<i4"), ("count", "<u4"), ("first_ns", "<i8"), ("last_ns", "<i8")]
)
"""A channel in a block: number of its rows and their time span."""

TRAILER_ENTRY = np.dtype(
    [
        ("offset", "<u8"),
        ("length_bytes", "<u8"),
        ("type", "<u4"),
        ("count", "<u4"),
        ("channels", "<u4"),
        ("first_ns", "<i8"),
        ("last_ns", "<i8"),
    ]
)


class BlockType(IntEnum):
    EVENTS = 1
    META = 2
    TRAILER = 3


_BLOCK_TYPES = frozenset(BlockType)


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """The fixed part of a block."""

    type: BlockType
    columns: int
    count: int
    channels: int
    directory_bytes: int
    data_bytes: int
    first_ns: int
    last_ns: int
    directory_crc: int

    @property
    def length_bytes(self) -> int:
        return BLOCK_HEADER_BYTES + self.directory_bytes + self.data_bytes


@dataclass(frozen=True, slots=True)
class BlockEntry:
    """One block in the index: its position and content."""

    offset: int
    length_bytes: int
    type: BlockType
    count: int
    first_ns: int
    last_ns: int
    channels: npt.NDArray[np.void]  # CHANNEL_ENTRY, ascending by channel


@dataclass(frozen=True, slots=True)
class Extent:
    """Adjacent blocks of a file, from block `number` among its blocks of events on."""

    number: int
    offset: int
    length_bytes: int


@dataclass(frozen=True, slots=True)
class Trailer:
    """The index of a cleanly closed file, with its totals."""

    events: int
    dropped_events: int
    blocks: tuple[BlockEntry, ...]


def encode_file_header(description: dict[str, Any], version: int = WITHOUT_TIMES) -> bytes:
    """Encode the header of a file, which has the same length in all versions."""
    text = _encode_json(description)
    header = _HEADER.pack(MAGIC, version, len(text)) + text
    return header + _CRC.pack(zlib.crc32(header))


def file_header_bytes(prefix: bytes) -> int:
    """Length of the whole header, from its first FILE_PREFIX_BYTES. Raises: TraceFormatError for a
    file that is not a trace, or has an unsupported version.
    """
    magic, version, text_bytes = _HEADER.unpack(prefix)
    if magic.startswith(CAPTURES):
        raise TraceFormatError(
            "a capture of packets: `flinknet trace import` makes a trace of it, for this command"
        )
    if magic.startswith(COMPRESSED):
        raise TraceFormatError(
            "a compressed file: if it is a capture, `flinknet trace import` makes a trace of it"
        )
    if magic != MAGIC:
        raise TraceFormatError(
            "not a flinknet trace (wrong magic number): give a run directory, or a .fnt file in one"
        )
    if not 1 <= version <= FORMAT_VERSION:
        raise TraceFormatError(
            f"trace format version {version}, but this flinknet reads up to version"
            f" {FORMAT_VERSION}; use the flinknet that wrote it, or record the run again"
        )
    if text_bytes > MAX_HEADER_BYTES:
        raise TraceFormatError("the length in its file header is damaged")
    return _HEADER.size + int(text_bytes) + _CRC.size


def decode_file_header(header: bytes) -> dict[str, Any]:
    body, (crc,) = header[: -_CRC.size], _CRC.unpack(header[-_CRC.size :])
    if zlib.crc32(body) != crc:
        raise TraceFormatError("the checksum of the file header does not match: it is damaged")
    return decode_meta(body[_HEADER.size :])


def encode_block(
    block_type: BlockType,
    directory: bytes,
    data: Sequence[bytes] = (),
    *,
    columns: int = 0,
    count: int = 0,
    channels: int = 0,
    first_ns: int = 0,
    last_ns: int = 0,
) -> bytes:
    header = _BLOCK.pack(
        BLOCK_MARKER,
        block_type,
        columns,
        count,
        channels,
        len(directory),
        sum(map(len, data)),
        first_ns,
        last_ns,
        zlib.crc32(directory),
    )
    return b"".join((header, _CRC.pack(zlib.crc32(header)), directory, *data))


def decode_block_header(header: bytes) -> BlockHeader | None:
    """Decode the fixed part of a block; None if these BLOCK_HEADER_BYTES are invalid."""
    if len(header) != BLOCK_HEADER_BYTES or not header.startswith(BLOCK_MARKER):
        return None
    body, (crc,) = header[: _BLOCK.size], _CRC.unpack(header[_BLOCK.size :])
    if zlib.crc32(body) != crc:
        return None
    _, block_type, *numbers = _BLOCK.unpack(body)
    if block_type not in _BLOCK_TYPES:
        return None
    decoded = BlockHeader(BlockType(block_type), *numbers)
    return decoded if decoded.count <= MAX_BLOCK_EVENTS else None


def check_directory(header: BlockHeader, directory: bytes) -> None:
    """Check the directory of a block against its header. Raises: TraceFormatError."""
    if len(directory) != header.directory_bytes or zlib.crc32(directory) != header.directory_crc:
        raise TraceFormatError("the checksum of its directory does not match")


def encode_meta(description: dict[str, Any]) -> bytes:
    return encode_block(BlockType.META, _encode_json(description))


def may_be_gap(entry: BlockEntry) -> bool:
    """Whether `missing_events` of a block can be more than 0, by its type and length."""
    length_bytes = entry.length_bytes - BLOCK_HEADER_BYTES
    return entry.type is BlockType.META and length_bytes <= _GAP_BYTES_MAX


def missing_events(directory: bytes) -> int:
    """Events missing before a META block; 0 if its directory has a description, or is malformed."""
    try:
        count = decode_meta(directory).get(DROPPED_EVENTS)
    except TraceFormatError:
        return 0
    return count if type(count) is int and 0 < count <= _DROPPED_EVENTS_MAX else 0


def channel_entries(header: BlockHeader, directory: bytes) -> npt.NDArray[np.void]:
    """The channels in a block, from its checked directory; none unless it is a block of events.
    Raises: TraceFormatError if they do not add up to its events.
    """
    entries = np.frombuffer(directory, dtype=CHANNEL_ENTRY, count=header.channels)
    _check_channels(header.type, header.count, entries)
    return entries


def encode_end(trailer: Trailer, offset: int) -> bytes:
    """Encode trailer and footer of a file; `offset` is the position of the trailer."""
    rows = [
        (b.offset, b.length_bytes, b.type, b.count, len(b.channels), b.first_ns, b.last_ns)
        for b in trailer.blocks
    ]
    entries = np.array(rows, TRAILER_ENTRY)
    totals = _TOTALS.pack(trailer.events, trailer.dropped_events)
    directory = totals + entries.tobytes() + b"".join(b.channels.tobytes() for b in trailer.blocks)
    crc = zlib.crc32(offset.to_bytes(8, "little"))
    data = encode_block(BlockType.TRAILER, directory, count=len(trailer.blocks))
    return data + _FOOTER.pack(offset, crc, FOOTER_MARKER)


def decode_footer(footer: bytes) -> int | None:
    """Decode the offset of the trailer; None if these FOOTER_BYTES are not a footer."""
    offset, crc, marker = _FOOTER.unpack(footer)
    return int(offset) if marker == FOOTER_MARKER and zlib.crc32(footer[:8]) == crc else None


def decode_trailer(header: BlockHeader, directory: bytes) -> Trailer:
    """Decode the index of a TRAILER block's directory. Raises: TraceFormatError."""
    if len(directory) < _TOTALS.size + header.count * TRAILER_ENTRY.itemsize:
        raise TraceFormatError("the index in its trailer is too short")
    events, dropped_events = _TOTALS.unpack_from(directory)
    entries = np.frombuffer(directory, TRAILER_ENTRY, header.count, _TOTALS.size)
    channels = np.frombuffer(directory, CHANNEL_ENTRY, offset=_TOTALS.size + entries.nbytes)
    if dropped_events > _DROPPED_EVENTS_MAX:
        raise TraceFormatError(f"its trailer says that {dropped_events} events are missing")
    if int(entries["channels"].sum()) != len(channels) or int(entries["count"].sum()) != events:
        raise TraceFormatError("the index in its trailer contradicts its totals")
    ends = np.cumsum(entries["channels"], dtype=np.int64).tolist()
    blocks = tuple(
        BlockEntry(offset, length, BlockType(kind), count, first, last, channels[end - held : end])
        for (offset, length, kind, count, held, first, last), end in zip(
            entries.tolist(), ends, strict=True
        )
    )
    for block in blocks:
        _check_channels(block.type, block.count, block.channels)
    return Trailer(events, dropped_events, blocks)


def _check_channels(block_type: BlockType, count: int, entries: npt.NDArray[np.void]) -> None:
    expected = count if block_type is BlockType.EVENTS else 0
    is_without_events = block_type is BlockType.EVENTS and count == 0
    if is_without_events or int(entries["count"].sum()) != expected:
        raise TraceFormatError("its channels do not add up to its events")


def _encode_json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def decode_meta(text: bytes) -> dict[str, Any]:
    """Decode the content of a META block, or the description of a file."""
    try:
        value = read_json(text)
    except (ValueError, RecursionError) as error:
        raise TraceFormatError(f"a description in it is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise TraceFormatError("a description in it is not a JSON object")
    return value
