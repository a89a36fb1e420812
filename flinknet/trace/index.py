"""The index of a trace file: read once, cached by the process, and passed on as extents.

Planners read the index; workers get extents, find their blocks by the block headers, and need
neither the header of the file nor its trailer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.storage import AnyPath, all_at, path_of

from .format import CHANNEL_ENTRY, BlockEntry, Extent
from .reader import TraceReader
from .trace_file import LEFT_OUT, TraceFile

BLOCK_ROW = np.dtype(
    [(name, "<i8") for name in ("number", "offset", "length_bytes", "count", "first_ns", "last_ns")]
)
"""A block of events without its channels."""

Stamp = tuple[int, int]

FILES_KEPT = 1 << 16
"""Indexes cached by a process: 48 bytes per block, 24 per channel of a file."""


@dataclass(frozen=True, slots=True, eq=False)
class FileIndex:
    """The index of a file.

    Attributes:
        blocks: BLOCK_ROW, blocks of events in the order of the file.
        channels: CHANNEL_ENTRY, ascending by channel, with totals over all blocks.
        is_whole: whether the file ends with its trailer.
        dropped_events: events that could not be written; None if unknown.
    """

    blocks: npt.NDArray[np.void]
    channels: npt.NDArray[np.void]
    is_whole: bool
    dropped_events: int | None
    index_bytes: int

    def numbers(self, start: int, end: int) -> tuple[int, int]:
        """The range of file numbers of a range of blocks, given by position."""
        if start >= end:
            return 0, 0
        return int(self.blocks["number"][start]), int(self.blocks["number"][end - 1]) + 1

    @property
    def events(self) -> int:
        return int(self.blocks["count"].sum())

    def within(self, from_ns: int, to_ns: int) -> list[Extent]:
        """The blocks that may contain events in [from_ns, to_ns)."""
        is_near = (self.blocks["last_ns"] >= from_ns) & (self.blocks["first_ns"] < to_ns)
        return self.extents(np.flatnonzero(is_near))

    def extents(self, places: IntArray) -> list[Extent]:
        """The blocks at ascending positions in `blocks`, as extents of adjacent blocks."""
        if not len(places):
            return []
        rows = self.blocks[places]
        ends = rows["offset"] + rows["length_bytes"]
        is_new = np.r_[True, (np.diff(rows["number"]) != 1) | (rows["offset"][1:] != ends[:-1])]
        starts = np.flatnonzero(is_new)
        lasts = np.r_[starts[1:], len(places)] - 1
        return [
            Extent(
                number=int(rows["number"][start]),
                offset=int(rows["offset"][start]),
                length_bytes=int(ends[last] - rows["offset"][start]),
            )
            for start, last in zip(starts.tolist(), lasts.tolist(), strict=True)
        ]


_kept: dict[TraceFile, tuple[Stamp, FileIndex]] = {}


def file_index(file: TraceFile) -> FileIndex:
    """The index of a file; the cached one if the file has not changed. Raises: see TraceReader."""
    try:
        stamp = stamp_of(file)
    except OSError:  # the reader reports the error
        return _read(file)
    return _known(file, stamp) or keep_index(file, stamp, _read(file))


def is_kept(file: TraceFile) -> bool:
    """Whether this process has the index of a file; False if the file is gone."""
    try:
        return _known(file, stamp_of(file)) is not None
    except OSError:
        return False


def _known(file: TraceFile, stamp: Stamp) -> FileIndex | None:
    """The cached index of a file. May be derived from the index of the plain file if the run leaves
    out no channel of it."""
    kept = _kept.get(file)
    if kept is not None and kept[0] == stamp:
        return kept[1]
    plain = _kept.get(replace(file, channels=[], offset_ns=0, recording=""))
    if plain is None or plain[0] != stamp:
        return None
    index = plain[1]
    numbers = file.numbers_of(index.channels["channel"])
    if np.any(numbers == LEFT_OUT):
        return None
    blocks, channels = index.blocks.copy(), index.channels.copy()
    channels["channel"] = numbers
    for rows in (blocks, channels):
        for name in ("first_ns", "last_ns"):
            rows[name] += file.offset_ns
    channels = channels[np.argsort(numbers, kind="stable")]
    return keep_index(file, stamp, replace(index, blocks=blocks, channels=channels))


def keep_index(file: TraceFile, stamp: Stamp, index: FileIndex) -> FileIndex:
    """Cache the index of a file, which another process may have read."""
    if len(_kept) >= FILES_KEPT:
        oldest = list(_kept)[: max(FILES_KEPT // 8, 1)]  # many, for listing them takes a while
        for each in oldest:
            _kept.pop(each, None)  # another thread may have done so
    _kept[file] = stamp, index
    return index


def read_indexes(files: Sequence[TraceFile]) -> None:
    """Cache the indexes of files in remote storage, concurrently; local ones are read on demand."""
    if files and not isinstance(path_of(files[0].path), Path):
        all_at(path_of(files[0].path), file_index, files)


def stamp_of(file: TraceFile) -> Stamp:
    """The key that validates a cached index. Raises: OSError, StorageError."""
    if file.stamp:
        size_bytes, changed_ns = file.stamp
        return size_bytes, changed_ns
    return stamp_at(path_of(file.path))


def stamps_of(files: Sequence[TraceFile]) -> tuple[Stamp, ...]:
    """The stamps of several files. Raises: OSError, StorageError."""
    return tuple(all_at(path_of(files[0].path), stamp_of, files)) if files else ()


def stamp_at(path: AnyPath) -> Stamp:
    """Size and modification time of a file. Raises: OSError, StorageError."""
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def _read(file: TraceFile) -> FileIndex:
    with TraceReader(file) as reader:
        entries = reader.blocks()
        rows = [
            (number, each.offset, each.length_bytes, each.count, each.first_ns, each.last_ns)
            for number, each in zip(reader.numbers, entries, strict=True)
        ]
        return FileIndex(
            np.array(rows, BLOCK_ROW),
            _channels(entries),
            reader.is_whole,
            reader.dropped_events,
            reader.counted.index_bytes,
        )


def spans_of(files: Iterable[TraceFile]) -> dict[int, tuple[int, int, int]]:
    """Events, first and last instant of each channel, by the indexes of files."""
    spans: dict[int, tuple[int, int, int]] = {}
    for file in files:
        for channel, count, first_ns, last_ns in file_index(file).channels.tolist():
            events, low, high = spans.get(channel, (0, first_ns, last_ns))
            spans[channel] = events + count, min(low, first_ns), max(high, last_ns)
    return spans


def _channels(entries: Sequence[BlockEntry]) -> npt.NDArray[np.void]:
    held = np.concatenate([entry.channels for entry in entries] or [np.zeros(0, CHANNEL_ENTRY)])
    channels, group = np.unique(held["channel"], return_inverse=True)
    found = np.zeros(len(channels), CHANNEL_ENTRY)
    found["channel"] = channels
    found["first_ns"] = np.iinfo(np.int64).max
    found["last_ns"] = np.iinfo(np.int64).min
    counts = np.bincount(group, weights=held["count"], minlength=len(channels))
    found["count"] = np.minimum(counts, np.iinfo(np.uint32).max)
    np.minimum.at(found["first_ns"], group, held["first_ns"])
    np.maximum.at(found["last_ns"], group, held["last_ns"])
    return found
