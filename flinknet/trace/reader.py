"""TraceReader: reads the blocks of a file, and reports what a crash or truncation lost."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from flinknet.arrays import EventColumns
from flinknet.core.wire.records import NO_TIME
from flinknet.errors import TraceDamagedError, TraceError, TraceFormatError, TraceTruncatedError
from flinknet.storage import AnyPath, path_of

from . import format
from .blocks import (
    ColumnRange,
    IntArray,
    block_entry,
    check_block,
    column_ranges,
    decode_range,
    selected,
)
from .manifest import ProcessInfo
from .ranged_files import KEPT_BYTES, open_ranged
from .schema import TIME_NAMES
from .trace_file import INSTANTS, BlockView, BytesRead, TraceFile, Truncation

_SEARCH_BYTES = 1 << 20
_FEW_COLUMNS = 2
"""With more columns than this, a block of a remote file is fetched as a whole."""

_MALFORMED = (TraceFormatError, ValueError, IndexError, KeyError)
"""Errors from bytes that pass their checksums but are inconsistent."""


class TraceReader:
    """Reads one trace file, complete or truncated anywhere; of a TraceFile what counts in its run.

    A file with its trailer is read by its index. Without one, complete blocks are found by reading
    forward, every checksum is verified, and `truncation` reports the loss. With given extents only
    their blocks' headers and directories are read.
    """

    def __init__(
        self, file: AnyPath | TraceFile, extents: Sequence[format.Extent] | None = None
    ) -> None:
        """Open the file.

        Args:
            extents: blocks to read, from the index of the file; None for all.

        Raises: TraceFormatError for a file that is not a readable trace, TraceTruncatedError for a
            file truncated within its header, TraceError if it cannot be opened, TraceDamagedError
            if an extent does not contain the expected block.
        """
        self.file = file if isinstance(file, TraceFile) else TraceFile(str(file))
        self.path = path_of(self.file.path)
        self.truncation: Truncation | None = None
        self.dropped_events: int | None = None  # None: unknown without a clean end
        self.counted = BytesRead()
        self._ranges: dict[int, dict[str, ColumnRange]] = {}  # of the last block read, or of all
        self._rows: tuple[int, IntArray | None] | None = None  # of the last block read
        self._stored_numbers: Sequence[int] | None = None  # file numbers of the blocks of extents
        self._entries: Sequence[format.BlockEntry] | None = None  # of any type; None with extents
        self._blocks_start = 0
        try:
            self._file = open_ranged(self.path)
        except OSError as error:
            raise TraceError(f"{self.path}: cannot open the trace ({error.strerror})") from error
        self.size_bytes = self._file.size_bytes
        if extents is not None:
            self._open_extents(extents)
            return
        try:
            with self._located():
                self.process, self._blocks_start = self._read_file_header()
            trailer = self._read_trailer()
        except BaseException:
            self._file.close()
            raise
        if trailer is not None:
            self._entries, self.dropped_events = trailer.blocks, trailer.dropped_events
        else:
            self._entries = self._walk()
            self.dropped_events = sum(self.gaps().values()) or None  # at least these
        self._stored = tuple(each for each in self._entries if each.type is format.BlockType.EVENTS)
        self._metas = tuple(each for each in self._entries if each.type is format.BlockType.META)
        self._see(self.file)

    def __enter__(self) -> TraceReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    @property
    def is_whole(self) -> bool:
        return self.truncation is None

    def blocks(self) -> tuple[format.BlockEntry, ...]:
        """The index: the entries of all readable blocks of events."""
        return self._blocks

    @property
    def numbers(self) -> Sequence[int]:
        stored = self._stored_numbers or range(len(self._stored))
        return stored if self._views is None else [stored[view.place] for view in self._views]

    def meta(self) -> tuple[dict[str, Any], ...]:
        with self._located():
            return tuple(
                format.decode_meta(self._read_directory(entry)[1]) for entry in self._metas
            )

    def gaps(self) -> dict[int, int]:
        """Numbers of the blocks that follow a gap, each with how many recorded events could not be
        written before it; 0 for damaged bytes in a file without its trailer.
        """
        assert self._entries is not None, "a reader of extents does not see gaps"
        found: dict[int, int] = {}
        number, position = 0, self._blocks_start
        for entry in self._entries:
            if entry.offset != position:
                found.setdefault(number, 0)
            position = entry.offset + entry.length_bytes
            if format.may_be_gap(entry):
                with suppress(TraceFormatError):  # as `meta` reports
                    missing = format.missing_events(self._read_directory(entry)[1])
                    if missing:
                        found[number] = found.get(number, 0) + missing
            number += entry.type is format.BlockType.EVENTS
        return found

    def read_block(self, index: int, columns: Iterable[str] | None = None) -> EventColumns:
        """Columns of one block; rows are sorted by channel, kind and point.

        The extra column `order` restores the order of recording. Raises: TraceDamagedError if a
        byte of the requested columns is wrong; others are not read.
        """
        names = selected(columns)
        with self._at_block(index):
            if len(names) > _FEW_COLUMNS:
                self._prepare(index)
            return {name: self._column(index, name) for name in names}

    def read_column(self, index: int, name: str) -> IntArray:
        """One column of a block, see `read_block`; the directory of a block is read only once."""
        with self._at_block(index):
            self._prepare(index)
            return self._column(index, *selected((name,)))

    def stored_columns(self, index: int) -> Collection[str]:
        """Names of the columns of a block, from its directory: times only where it has some."""
        with self._at_block(index):
            return self._ranges_of(self._place(index)).keys()

    def check_block(self, index: int) -> None:
        """Check every byte of a block and its directory, even parts that do not count in the run.
        Raises: TraceDamagedError.
        """
        entry = self._stored[self._place(index)]
        with self._at_block(index):
            self._prepare(index)
            header, _ = self._read_directory(entry)
            start = entry.offset + format.BLOCK_HEADER_BYTES
            body = self._read(start, header.length_bytes - format.BLOCK_HEADER_BYTES)
            held = check_block(header, body, entry.offset).channels
            channels = self._stored_column(self._place(index), "channel")
            if not np.array_equal(held, entry.channels) or not np.array_equal(
                np.repeat(held["channel"], held["count"]), channels
            ):
                raise TraceFormatError("its directory does not say what it holds")

    def events(
        self,
        columns: Iterable[str] | None = None,
        channels: Collection[int] | None = None,
        from_ns: int | None = None,
        to_ns: int | None = None,
    ) -> Iterator[EventColumns]:
        """Columns of the requested events, block by block; other blocks are not read. None: all
        columns of the schema, all channels, no bound of [from_ns, to_ns).
        """
        names = selected(columns)
        wanted = None if channels is None else np.array(sorted(channels), dtype=np.int64)
        for index, entry in enumerate(self._blocks):
            held = entry.channels
            is_held = np.isin(held["channel"], wanted) if wanted is not None else held["count"] > 0
            held = held[is_held]
            if not len(held):
                continue
            first_ns, last_ns = int(held["first_ns"].min()), int(held["last_ns"].max())
            low_ns = first_ns if from_ns is None else from_ns
            high_ns = last_ns + 1 if to_ns is None else to_ns
            if last_ns < low_ns or first_ns >= high_ns:
                continue
            is_cut = first_ns < low_ns or last_ns >= high_ns
            block = self.read_block(index, {*names, "at_ns"} if is_cut else names)
            keep = np.repeat(is_held, entry.channels["count"])
            if is_cut:
                keep &= (block["at_ns"] >= low_ns) & (block["at_ns"] < high_ns)
            if keep.all():
                yield {name: block[name] for name in names}
            elif keep.any():
                yield {name: block[name][keep] for name in names}

    def _read(self, offset: int, length: int) -> bytes:
        found = self._file.read(offset, length)
        self.counted.index_bytes += len(found)
        return found

    def _prepare(self, index: int) -> None:
        entry = self._stored[self._place(index)]
        self._file.prepare(entry.offset, entry.length_bytes)

    def _place(self, index: int) -> int:
        return index if self._views is None else self._views[index].place

    def _column(self, index: int, name: str) -> IntArray:
        if self._views is None:
            return self._stored_column(index, name)
        view = self._views[index]
        values = self._stored_column(view.place, name)
        rows = self._rows_of(view)
        if rows is not None:
            values = values.take(rows)
        if name == "channel":
            return self.file.numbers_of(values)
        return self.file.instants_of(values, name) if name in INSTANTS else values

    def _rows_of(self, view: BlockView) -> IntArray | None:
        if self._rows is None or self._rows[0] != view.place:
            self._rows = view.place, view.rows(self._stored[view.place])
        return self._rows[1]

    def _ranges_of(self, place: int) -> dict[str, ColumnRange]:
        if place not in self._ranges:
            header, directory = self._read_directory(self._stored[place])
            self._ranges = {place: column_ranges(header, directory)}
        return self._ranges[place]

    def _stored_column(self, place: int, name: str) -> IntArray:
        entry, ranges = self._stored[place], self._ranges_of(place)
        if name in TIME_NAMES and name not in ranges:
            return np.full(entry.count, NO_TIME)
        column = ranges[name]
        frame = self._read(entry.offset + column.offset, column.frame_bytes)
        self.counted.index_bytes -= column.frame_bytes
        self.counted.data_bytes += column.frame_bytes
        return decode_range(column, frame, entry.count)

    def _open_extents(self, extents: Sequence[format.Extent]) -> None:
        """Find the blocks of extents by their headers. Raises: TraceDamagedError."""
        blocks: list[format.BlockEntry] = []
        numbers: list[int] = []
        self._metas, self._stored_numbers = (), numbers
        try:
            if sum(extent.length_bytes for extent in extents) <= KEPT_BYTES:
                for extent in extents:
                    self._file.prepare(extent.offset, extent.length_bytes)
            for extent in extents:
                offset = extent.offset
                number = extent.number
                while offset < extent.offset + extent.length_bytes:
                    entry, ranges = self._block_at(offset, number)
                    self._ranges[len(blocks)] = ranges
                    blocks.append(entry)
                    numbers.append(number)
                    offset += entry.length_bytes
                    number += 1
        except BaseException:
            self._file.close()
            raise
        self._stored = tuple(blocks)
        self._see(replace(self.file, skipped=[]))  # extents contain no skipped blocks

    def _see(self, file: TraceFile) -> None:
        self._views = None if file.is_plain else file.view(self._stored)
        self._blocks = (
            self._stored if self._views is None else tuple(each.entry for each in self._views)
        )

    def _block_at(
        self, offset: int, number: int
    ) -> tuple[format.BlockEntry, dict[str, ColumnRange]]:
        try:
            header, directory = self._directory_at(offset)
            if header.type is not format.BlockType.EVENTS:
                raise TraceFormatError("its header is damaged")
            entry = block_entry(header, directory, offset)
            return entry, column_ranges(header, directory)
        except _MALFORMED as error:
            raise TraceDamagedError(self.path, number, offset, _why(error)) from error

    def _read_file_header(self) -> tuple[ProcessInfo, int]:
        prefix = self._read(0, format.FILE_PREFIX_BYTES)
        if not prefix:
            raise TraceFormatError("the file is empty: its process ended before it recorded")
        if len(prefix) < format.FILE_PREFIX_BYTES and format.MAGIC.startswith(
            prefix[: len(format.MAGIC)]
        ):
            raise TraceTruncatedError(self.path, 0, self.size_bytes)
        length = format.file_header_bytes(prefix.ljust(format.FILE_PREFIX_BYTES, b"\0"))
        if length > self.size_bytes:
            raise TraceTruncatedError(self.path, 0, self.size_bytes)
        return ProcessInfo.from_dict(format.decode_file_header(self._read(0, length))), length

    def _read_directory(self, entry: format.BlockEntry) -> tuple[format.BlockHeader, bytes]:
        """Header and checked directory of a block in the index."""
        header, directory = self._directory_at(entry.offset)
        if (header.length_bytes, header.count) != (entry.length_bytes, entry.count):
            raise TraceFormatError("its header is damaged")
        return header, directory

    def _directory_at(self, offset: int) -> tuple[format.BlockHeader, bytes]:
        header = format.decode_block_header(self._read(offset, format.BLOCK_HEADER_BYTES))
        if header is None:
            raise TraceFormatError("its header is damaged")
        directory = self._read(offset + format.BLOCK_HEADER_BYTES, header.directory_bytes)
        format.check_directory(header, directory)
        return header, directory

    def _read_trailer(self) -> format.Trailer | None:
        """The index; None unless it is complete and covers the file without a gap."""
        end = self.size_bytes - format.FOOTER_BYTES
        if end < self._blocks_start:
            return None
        offset = format.decode_footer(self._read(end, format.FOOTER_BYTES))
        if offset is None or not self._blocks_start <= offset <= end - format.BLOCK_HEADER_BYTES:
            return None
        header = format.decode_block_header(self._read(offset, format.BLOCK_HEADER_BYTES))
        kind = header and (header.type, offset + header.length_bytes)
        if header is None or kind != (format.BlockType.TRAILER, end):
            return None
        directory = self._read(offset + format.BLOCK_HEADER_BYTES, header.directory_bytes)
        try:
            format.check_directory(header, directory)
            trailer = format.decode_trailer(header, directory)
        except _MALFORMED:
            return None
        ends = [each.offset + each.length_bytes for each in trailer.blocks]
        starts = [each.offset for each in trailer.blocks]
        return trailer if [*starts, offset] == [self._blocks_start, *ends] else None

    def _walk(self) -> tuple[format.BlockEntry, ...]:
        """All complete blocks of a file without its trailer; sets `truncation`."""
        entries: list[format.BlockEntry] = []
        lost_bytes = gap_bytes = whole = 0
        undamaged: int | None = None
        offset = self._blocks_start
        while offset < self.size_bytes:
            entry = self._whole_block(offset)
            if entry is not None:
                entries.append(entry)
                whole += entry.type is format.BlockType.EVENTS
                offset, gap_bytes = offset + entry.length_bytes, lost_bytes
                continue
            resume = self._next_marker(offset + 1)
            undamaged = whole if undamaged is None else undamaged
            offset, lost_bytes = resume, lost_bytes + resume - offset
        undamaged = whole if undamaged is None else undamaged
        self.truncation = Truncation(whole, lost_bytes, gap_bytes, undamaged)
        return tuple(entries)

    def _whole_block(self, offset: int) -> format.BlockEntry | None:
        """The block at `offset` if it is complete and all checksums are right."""
        header = format.decode_block_header(self._read(offset, format.BLOCK_HEADER_BYTES))
        if header is None or offset + header.length_bytes > self.size_bytes:
            return None
        body = self._read(
            offset + format.BLOCK_HEADER_BYTES, header.length_bytes - format.BLOCK_HEADER_BYTES
        )
        try:
            return check_block(header, body, offset)
        except _MALFORMED:
            return None

    def _next_marker(self, start: int) -> int:
        """Offset of the next possible block; the end of the file if there is none."""
        overlap = len(format.BLOCK_MARKER) - 1
        while start < self.size_bytes:
            chunk = self._read(start, _SEARCH_BYTES)
            offset = chunk.find(format.BLOCK_MARKER)
            if offset >= 0:
                return start + offset
            start += max(len(chunk) - overlap, 1)
        return self.size_bytes

    @contextmanager
    def _at_block(self, index: int) -> Iterator[None]:
        try:
            yield
        except TraceDamagedError:
            raise
        except _MALFORMED as error:
            offset = self._stored[self._place(index)].offset
            raise TraceDamagedError(self.path, self.numbers[index], offset, _why(error)) from error

    @contextmanager
    def _located(self) -> Iterator[None]:
        try:
            yield
        except _MALFORMED as error:
            raise TraceFormatError(f"{self.path}: {_why(error)}") from error


def _why(error: Exception) -> str:
    """The reason of an error; an inconsistency in checked bytes is a format error, too."""
    return str(error) if isinstance(error, TraceFormatError) else "its parts contradict each other"
