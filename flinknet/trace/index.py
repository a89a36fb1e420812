"""The index of a trace file: read once, kept by the process, and handed on as extents.

Whoever plans reads it; whoever works is given extents, finds their blocks by the headers of these,
and needs neither the header of the file nor its trailer.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    [
        ("number", "<i8"),
        ("offset", "<i8"),
        ("length_bytes", "<i8"),
        ("count", "<i8"),
        ("first_ns", "<i8"),
        ("last_ns", "<i8"),
    ]
)
"""A block of events without the channels that it holds."""

Stamp = tuple[int, int]

FILES_KEPT = 1 << 16
"""Indexes that a process keeps: 48 bytes for a block, 24 for each channel of a file."""


@dataclass(frozen=True, slots=True, eq=False)
class FileIndex:
    """What the index of a file says.

    Attributes:
        blocks: BLOCK_ROW, those of events, in the order of the file.
        channels: CHANNEL_ENTRY, ascending by channel: its events in all blocks.
        is_whole: whether the file ends with its trailer.
        dropped_events: that could not be written when they were recorded; None if unknown.
        index_bytes: that were read for it.
    """

    blocks: npt.NDArray[np.void]
    channels: npt.NDArray[np.void]
    is_whole: bool
    dropped_events: int | None
    index_bytes: int

    def numbers(self, start: int, end: int) -> tuple[int, int]:
        """The range of the numbers in the file of the blocks in a range of places."""
        if start >= end:
            return 0, 0
        return int(self.blocks["number"][start]), int(self.blocks["number"][end - 1]) + 1

    @property
    def events(self) -> int:
        """How many events it holds."""
        return int(self.blocks["count"].sum())

    def within(self, from_ns: int, to_ns: int) -> list[Extent]:
        """The blocks that may hold events in [from_ns, to_ns)."""
        is_near = (self.blocks["last_ns"] >= from_ns) & (self.blocks["first_ns"] < to_ns)
        return self.extents(np.flatnonzero(is_near))

    def extents(self, places: IntArray) -> list[Extent]:
        """Some blocks, by ascending places in `blocks`, as extents: each holds blocks without a
        gap."""
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
    """The index of a file; of one that this process has read before, as it was if the file is.

    Raises: as TraceReader.
    """
    try:
        stamp = stamp_of(file)
    except OSError:  # the reader says what is wrong
        return _read(file)
    return _known(file, stamp) or keep_index(file, stamp, _read(file))[1]


def is_kept(file: TraceFile) -> bool:
    """Whether this process has the index of a file; not of one that is gone."""
    try:
        return _known(file, stamp_of(file)) is not None
    except OSError:
        return False


def _known(file: TraceFile, stamp: Stamp) -> FileIndex | None:
    """The index of a file that this process has, also where the file counts in a run as something
    else than it was read as, and nothing of it is left out there."""
    kept = _kept.get(file)
    if kept is not None and kept[0] == stamp:
        return kept[1]
    plain = _kept.get(replace(file, channels=[], offset_ns=0, recording=""))
    if plain is None or plain[0] != stamp:
        return None
    found = _renumbered(plain[1], file)
    return None if found is None else keep_index(file, stamp, found)[1]


def _renumbered(index: FileIndex, file: TraceFile) -> FileIndex | None:
    """The index of a whole file by the channels and the clock of its run; None if it is not whole
    there."""
    numbers = file.numbers_of(index.channels["channel"])
    if np.any(numbers == LEFT_OUT):
        return None
    blocks, channels = index.blocks.copy(), index.channels.copy()
    channels["channel"] = numbers
    for rows in (blocks, channels):
        for name in ("first_ns", "last_ns"):
            rows[name] += file.offset_ns
    return replace(index, blocks=blocks, channels=channels[np.argsort(numbers, kind="stable")])


def keep_index(file: TraceFile, stamp: Stamp, index: FileIndex) -> tuple[Stamp, FileIndex]:
    """Keep the index of a file, which another process may have read."""
    if len(_kept) >= FILES_KEPT:
        for oldest in list(_kept)[
            : max(FILES_KEPT // 8, 1)
        ]:  # many, for listing them takes a while
            _kept.pop(oldest, None)  # another thread may have done so
    kept = _kept[file] = stamp, index
    return kept


def read_indexes(files: Sequence[TraceFile]) -> None:
    """Have the indexes of files kept, those in a store at the same time; what is on this machine is
    read when it is needed.

    Raises: as TraceReader.
    """
    if files and not isinstance(path_of(files[0].path), Path):
        all_at(path_of(files[0].path), file_index, files)


def stamp_of(file: TraceFile) -> Stamp:
    """What an index is kept by. Raises: OSError, StorageError."""
    if file.stamp:
        size_bytes, changed_ns = file.stamp
        return size_bytes, changed_ns
    return stamp_at(path_of(file.path))


def stamps_of(files: Sequence[TraceFile]) -> tuple[Stamp, ...]:
    """The same of several files. Raises: OSError, StorageError."""
    return tuple(all_at(path_of(files[0].path), stamp_of, files)) if files else ()


def stamp_at(path: AnyPath) -> Stamp:
    """Size of a file, and when it was changed. Raises: OSError, StorageError."""
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def _read(file: TraceFile) -> FileIndex:
    with TraceReader(file) as reader:
        entries = reader.blocks()
        return FileIndex(
            _rows(reader.numbers, entries),
            _channels(entries),
            reader.is_whole,
            reader.dropped_events,
            reader.counted.index_bytes,
        )


def _rows(numbers: Sequence[int], entries: Sequence[BlockEntry]) -> npt.NDArray[np.void]:
    rows = np.zeros(len(entries), BLOCK_ROW)
    for place, (number, entry) in enumerate(zip(numbers, entries, strict=True)):
        rows[place] = (
            number,
            entry.offset,
            entry.length_bytes,
            entry.count,
            entry.first_ns,
            entry.last_ns,
        )
    return rows


def _channels(entries: Sequence[BlockEntry]) -> npt.NDArray[np.void]:
    """The entries of all blocks, one of each channel."""
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
