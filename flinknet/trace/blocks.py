"""Encodes and decodes blocks of events: order of rows, directory, columns.

Rows are sorted by channel, then message kind, then trace point, then arrival; so the rows of one
channel are adjacent, and neighbours are similar. The extra column `order` keeps the order of
arrival. It cannot be restored from instants: a driver uses one instant for a whole turn.

The columns of times, of a capture of a real Flink, come last, and only where an event has one.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import zstandard

from flinknet.core.buffers.data_type import IS_BUFFER
from flinknet.core.wire.records import NO_TIME
from flinknet.errors import TraceFormatError

from . import format
from .schema import ROW_DTYPE, TIME_NAMES, TIMES_DTYPE, TIMESTAMPS

IntArray = npt.NDArray[Any]
"""An integer array of any width."""

IS_DATA = np.isin(np.arange(1 << 8), list(IS_BUFFER))
"""Whether a data type, by ordinal, is a data buffer, which costs credit."""

COMPRESSION_LEVEL = 1
"""zstd level: level 3 saves 2% of the bytes and takes 20% more time."""

DIFFERENCES = frozenset({"at_ns", "first_record_ns", "last_record_ns", "sequence_number", "order"})
"""Columns stored as differences to the previous row."""

COMPRESSED_BYTES_PER_STEP = 1 << 16
"""Bytes compressed without a break, in some 0.1 ms."""

_WIDTHS = (1, 2, 4, 8)

_DECOMPRESSORS: list[zstandard.ZstdDecompressor] = []
"""Those that nobody uses at the moment: making one takes 30 us, and threads may not share one."""


@dataclass(frozen=True, slots=True)
class EncodedColumn:
    """An encoded column: value (or difference) i is `low` + the i-th stored integer."""

    is_differences: bool
    width_bytes: int  # of a stored integer; 0 if all values are equal
    first: int  # value of the first row, if differences are stored
    low: int
    frame: bytes  # zstd frame of the stored integers


def encode_column(
    values: IntArray,
    compressor: zstandard.ZstdCompressor,
    *,
    is_differences: bool,
    low: int | None = None,
) -> Generator[None, None, EncodedColumn]:
    """Encode a column of at least one row, in steps (see `encode_events`). `low` is not higher than
    any value; None: the lowest of them.
    """
    first = 0
    if is_differences:
        first = int(values[0])
        values = np.diff(values.astype(np.int64, copy=False))
        if not len(values):
            return EncodedColumn(True, 0, first, 0, b"")
        yield
    lowest = values.min() if low is None else values.dtype.type(low)
    spread = int(values.max()) - int(lowest)
    if spread == 0:
        return EncodedColumn(is_differences, 0, first, int(lowest), b"")
    yield
    width_bytes = next(width for width in _WIDTHS if spread < 1 << 8 * width)
    stored = (values - lowest).view(f"u{values.itemsize}").astype(f"<u{width_bytes}")
    planes = np.ascontiguousarray(stored.view(np.uint8).reshape(-1, width_bytes).T).data.cast("B")
    compressing = compressor.compressobj(size=len(planes))
    frame = b""
    for start in range(0, len(planes), COMPRESSED_BYTES_PER_STEP):
        yield
        frame += compressing.compress(planes[start : start + COMPRESSED_BYTES_PER_STEP])
    frame += compressing.flush()
    return EncodedColumn(is_differences, width_bytes, first, int(lowest), frame)


def decode_column(column: EncodedColumn, count: int, numpy_type: str) -> IntArray:
    """Decode a column of `count` rows.

    Raises: TraceFormatError if the frame does not contain exactly the expected integers; never
        decompresses more.
    """
    if column.width_bytes not in (0, *_WIDTHS):
        raise TraceFormatError(f"a column claims integers of {column.width_bytes} bytes")
    stored = _stored(column, count - 1 if column.is_differences else count)
    if not column.is_differences:
        values = stored.astype(numpy_type)
        if column.low:
            values += np.array(column.low).astype(numpy_type)
        return values
    values = np.empty(count, dtype=np.int64)
    values[0] = column.first
    values[1:] = stored
    if column.low:
        values[1:] += column.low
    np.cumsum(values, out=values)
    return values.astype(numpy_type, copy=False)


def _stored(column: EncodedColumn, count: int) -> IntArray:
    width_bytes = column.width_bytes
    if width_bytes == 0:
        return np.zeros(count, dtype=np.uint8)
    try:
        decompressor = _DECOMPRESSORS.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor()
    try:
        if zstandard.frame_content_size(column.frame) != count * width_bytes:
            raise TraceFormatError("a column does not have the length that its block claims")
        data = decompressor.decompress(column.frame, max_output_size=count * width_bytes)
    except zstandard.ZstdError as error:
        raise TraceFormatError(f"a column cannot be decompressed ({error})") from error
    finally:
        _DECOMPRESSORS.append(decompressor)
    planes = np.frombuffer(data, dtype=np.uint8).reshape(width_bytes, count)
    integers: IntArray
    if width_bytes == 1:
        integers = planes[0]
        return integers
    if width_bytes < 8:  # by shifts: 14 instead of 37 us a block of two bytes, 51 of 74 for four
        integers = planes[-1].astype(f"<u{width_bytes}")
        for plane in planes[-2::-1]:
            integers <<= 8
            integers |= plane
        return integers
    stored = np.empty((count, width_bytes), dtype=np.uint8)
    for place in range(width_bytes):
        stored[:, place] = planes[place]
    integers = stored.view(f"<u{width_bytes}").ravel()
    return integers


COLUMN_ENTRY = np.dtype(
    [
        ("column", "u1"),  # position in STORED_COLUMNS
        ("is_differences", "u1"),
        ("width_bytes", "u1"),
        ("zero", "u1"),
        ("frame_bytes", "<u4"),
        ("frame_crc", "<u4"),
        ("first", "<i8"),
        ("low", "<i8"),
    ]
)

ROWS_PER_STEP = 4_096
"""Rows converted to columns without a break, in some 0.1 ms."""

_RADIX_KEYS = 1 << 16
"""Largest number of distinct keys that numpy sorts by radix."""

ORDER = "order"
"""Name of the extra column; sorting a block's rows by it restores the order of recording."""

STORED_COLUMNS: tuple[tuple[str, str], ...] = (
    *ROW_DTYPE,
    (ORDER, "<i4"),
    *TIMES_DTYPE[1:],
)
"""Name and numpy type of the columns that can be stored."""

Rows = npt.NDArray[np.void]
"""Rows of `schema.ROW_DTYPE`, or times of `schema.TIMES_DTYPE`."""

NO_TIMES: Rows = np.zeros(0, TIMES_DTYPE)
"""The times of a block without any."""

_NUMPY_TYPES = dict(STORED_COLUMNS)


class ColumnRange(NamedTuple):
    """The position of a column's frame in its block, and its encoding."""

    name: str
    offset: int
    frame_bytes: int
    frame_crc: int
    is_differences: bool
    width_bytes: int
    first: int
    low: int


def encode_events(
    rows: Rows, times: Rows = NO_TIMES
) -> Generator[None, None, tuple[bytes, format.BlockEntry]]:
    """Encode a block in steps of 0.1 to 0.3 ms, so that an event loop can run in between. Its index
    entry has offset 0.

    Neither `rows` nor `times`, of `schema.TIMES_DTYPE`, may change until the last step.

    Rows are first converted to columns, a part at a time: reordering a column takes 0.5 ms if it is
    taken from rows outside the cache, 0.1 from a contiguous column.
    """
    columns = {name: np.empty(len(rows), numpy_type) for name, numpy_type in ROW_DTYPE}
    for start in range(0, len(rows), ROWS_PER_STEP):
        end = start + ROWS_PER_STEP
        part = rows[start:end]
        for name, values in columns.items():
            values[start:end] = part[name]
        yield
    lows = {}
    for name, values, low in _time_columns(times, len(rows)):
        columns[name], lows[name] = values, low
        yield
    order = yield from _order_of(columns)
    yield
    compressor = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL)
    stored = [each for each in enumerate(STORED_COLUMNS) if each[1][0] in (ORDER, *columns)]
    entries = np.zeros(len(stored), dtype=COLUMN_ENTRY)
    frames: list[bytes] = []
    at_ns = columns["at_ns"][order]
    yield
    channel = columns["channel"][order]
    starts = np.flatnonzero(np.r_[True, channel[1:] != channel[:-1]])
    channels = np.zeros(len(starts), dtype=format.CHANNEL_ENTRY)
    channels["channel"] = channel[starts]
    channels["count"] = np.diff(np.r_[starts, len(channel)])
    channels["first_ns"] = np.minimum.reduceat(at_ns, starts)
    channels["last_ns"] = np.maximum.reduceat(at_ns, starts)
    for place, (number, (name, _)) in enumerate(stored):
        yield
        values = order if name == ORDER else columns[name][order]
        yield
        column = yield from encode_column(
            values, compressor, is_differences=name in DIFFERENCES, low=lows.get(name)
        )
        frames.append(column.frame)
        entries[place] = (
            number,
            column.is_differences,
            column.width_bytes,
            0,
            len(column.frame),
            zlib.crc32(column.frame),
            column.first,
            column.low,
        )
    yield
    first_ns, last_ns = int(at_ns.min()), int(at_ns.max())
    data = format.encode_block(
        format.BlockType.EVENTS,
        channels.tobytes() + entries.tobytes(),
        frames,
        columns=len(entries),
        count=len(rows),
        channels=len(channels),
        first_ns=first_ns,
        last_ns=last_ns,
    )
    return data, format.BlockEntry(
        0, len(data), format.BlockType.EVENTS, len(rows), first_ns, last_ns, channels
    )


def _time_columns(times: Rows, count: int) -> Iterator[tuple[str, IntArray, int]]:
    """The columns of a block's times as they are stored, each with the number that stands for
    NO_TIME, which is below all others."""
    for name in TIME_NAMES:
        values = times[name]
        if name in TIMESTAMPS[1:]:
            values = np.where(values == NO_TIME, values, values - times[TIMESTAMPS[0]])
        is_known = values != NO_TIME
        if is_known.any():
            known = values[is_known]
            low = int(known.min()) - 1
            whole = np.full(count, low)
            whole[times["row"][is_known]] = known
            yield name, whole, low


def column_ranges(header: format.BlockHeader, directory: bytes) -> dict[str, ColumnRange]:
    """Position and encoding of each column of an EVENTS block, from its checked directory."""
    entries = np.frombuffer(
        directory, COLUMN_ENTRY, header.columns, header.channels * format.CHANNEL_ENTRY.itemsize
    )
    offset = format.BLOCK_HEADER_BYTES + header.directory_bytes
    ranges = {}
    for number, is_differences, width, _, size, crc, first, low in entries.tolist():
        name = STORED_COLUMNS[number][0]
        ranges[name] = ColumnRange(name, offset, size, crc, bool(is_differences), width, first, low)
        offset += size
    return ranges


def check_block(header: format.BlockHeader, body: bytes, offset: int) -> format.BlockEntry:
    """The index entry of a block, with all checksums checked. Raises: TraceFormatError."""
    directory = body[: header.directory_bytes]
    format.check_directory(header, directory)
    entry = block_entry(header, directory, offset)
    for column in column_ranges(header, directory).values():
        start = column.offset - format.BLOCK_HEADER_BYTES
        _check_frame(column, body[start : start + column.frame_bytes])
    return entry


def block_entry(header: format.BlockHeader, directory: bytes, offset: int) -> format.BlockEntry:
    """The index entry of the block at `offset`, from its checked directory.

    Raises: TraceFormatError if its channels do not add up to its events.
    """
    numbers = header.length_bytes, header.type, header.count, header.first_ns, header.last_ns
    return format.BlockEntry(offset, *numbers, format.channel_entries(header, directory))


def decode_range(column: ColumnRange, frame: bytes, count: int) -> IntArray:
    """Decode the column in `frame`. Raises: TraceFormatError if any byte is wrong."""
    _check_frame(column, frame)
    values = decode_column(EncodedColumn(*column[4:], frame), count, _NUMPY_TYPES[column.name])
    if column.name in TIME_NAMES:
        values[values == column.low] = NO_TIME
    return values


def _check_frame(column: ColumnRange, frame: bytes) -> None:
    if len(frame) != column.frame_bytes or zlib.crc32(frame) != column.frame_crc:
        raise TraceFormatError(f"the checksum of column {column.name} does not match")


def selected(columns: Iterable[str] | None) -> tuple[str, ...]:
    """The names of the requested columns; all of the schema for None. Raises: TraceFormatError."""
    if columns is None:
        return tuple(name for name, _ in ROW_DTYPE)
    names = tuple(columns)
    for name in names:
        if name not in _NUMPY_TYPES:
            raise TraceFormatError(f"no column {name!r}; there are {', '.join(_NUMPY_TYPES)}")
    return names


def _order_of(columns: Mapping[str, IntArray]) -> Generator[None, None, IntArray]:
    """Compute the order by (channel, kind, point), then arrival, in steps.

    Uses 16-bit keys where possible (radix sort, 0.2 ms for 65,536 rows; 64 bits take 4): one key
    for all three, or else a second one for the channel.
    """
    channel, kind, point = columns["channel"], columns["kind"], columns["point"]
    lowest, kinds, points = int(channel.min()), int(kind.max()) + 1, int(point.max()) + 1
    channels = int(channel.max()) - lowest + 1
    key = kind.astype(np.uint16)
    key *= points
    key += point
    major = channel - np.int64(lowest)
    if channels * kinds * points <= _RADIX_KEYS:
        key += (major * (kinds * points)).astype(np.uint16)
        yield
        return np.argsort(key, kind="stable")
    yield
    order = np.argsort(key, kind="stable")
    yield
    if channels <= _RADIX_KEYS:
        major = major.astype(np.uint16)
    rows: IntArray = order[np.argsort(major[order], kind="stable")]
    return rows
