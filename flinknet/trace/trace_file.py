"""TraceFile: one file of a run, and the mapping of its content into the run.

A run recorded by one process uses its files unchanged. If a run consists of several recordings,
each has its own channel numbers and its own clock: events are renumbered and shifted when they are
read, so that nothing above a reader needs to know.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from flinknet.storage import path_of

from .blocks import IntArray
from .format import BlockEntry

INSTANTS = ("at_ns", "first_record_ns", "last_record_ns")
"""Columns of instants; -1 means none, except in the first."""

LEFT_OUT = -2
"""Number of a channel that does not count; -1 is the connection."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """State of a file without a trailer: its process was killed, or it was cut or damaged."""

    whole_blocks: int  # readable blocks
    lost_bytes: int  # bytes outside of complete blocks
    gap_bytes: int  # lost bytes before the last complete block: damage, not truncation
    blocks_before_damage: int  # complete blocks before the first lost byte


@dataclass(frozen=True, slots=True)
class ChannelRange:
    """Channels of a recording and their numbers in the run: `first` becomes `number`, and so on."""

    first: int
    count: int
    number: int


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A file of a run.

    Attributes:
        channels: channels that count, ascending; empty: all, with unchanged numbers.
        offset_ns: added to its instants to get those of the run's clock.
        skipped: numbers of damaged blocks to skip.
        recording: name of its recording if there are several; else empty.
        stamp: size and modification time when it was opened for an analysis; empty: caches check
            the file again.
    """

    path: str
    channels: list[ChannelRange] = field(default_factory=list)
    offset_ns: int = 0
    skipped: list[int] = field(default_factory=list)
    recording: str = ""
    stamp: list[int] = field(default_factory=list)

    def __hash__(self) -> int:
        return hash(self.path)

    @property
    def name(self) -> str:
        return path_of(self.path).name

    @property
    def title(self) -> str:
        return f"{self.recording}/{self.name}" if self.recording else self.name

    @property
    def is_plain(self) -> bool:
        """Whether the file counts unchanged."""
        return not (self.channels or self.offset_ns or self.skipped)

    def absolute(self) -> TraceFile:
        return replace(self, path=str(path_of(self.path).absolute()))

    def numbers_of(self, channels: IntArray) -> IntArray:
        """The run's numbers of channels of the file; LEFT_OUT for those that do not count."""
        if not self.channels:
            return channels
        first, count, number = (
            np.array([getattr(each, name) for each in self.channels], np.int64)
            for name in ("first", "count", "number")
        )
        place = np.maximum(np.searchsorted(first, channels, side="right") - 1, 0)
        since = channels - first[place]
        found = np.where((since >= 0) & (since < count[place]), number[place] + since, LEFT_OUT)
        found[channels == -1] = -1
        return found.astype(channels.dtype)

    def instants_of(self, values: IntArray, name: str) -> IntArray:
        if not self.offset_ns:
            return values
        shifted: IntArray = values + self.offset_ns
        return shifted if name == "at_ns" else np.where(values >= 0, shifted, values)

    def view(self, stored: tuple[BlockEntry, ...]) -> tuple[BlockView, ...]:
        """The blocks of the file that contain anything that counts."""
        views = []
        for place, entry in enumerate(stored):
            numbers = self.numbers_of(entry.channels["channel"])
            wanted = np.flatnonzero(numbers != LEFT_OUT)
            wanted = wanted[np.argsort(numbers[wanted], kind="stable")]
            if place in self.skipped or not len(wanted):
                continue
            held = entry.channels[wanted].copy()
            held["channel"] = numbers[wanted]
            held["first_ns"] += self.offset_ns
            held["last_ns"] += self.offset_ns
            seen = replace(
                entry,
                count=int(held["count"].sum()),
                first_ns=int(held["first_ns"].min()),
                last_ns=int(held["last_ns"].max()),
                channels=held,
            )
            is_all = np.array_equal(wanted, np.arange(len(entry.channels)))
            views.append(BlockView(place, seen, None if is_all else wanted))
        return tuple(views)


@dataclass(frozen=True, slots=True, eq=False)
class BlockView:
    """The part of one block of a file that counts.

    Attributes:
        place: position of the block among the file's blocks of events.
        channels: positions of the channels that count in the block's list, by their numbers in the
            run; None: all, unchanged.
    """

    place: int
    entry: BlockEntry
    channels: IntArray | None

    def rows(self, stored: BlockEntry) -> IntArray | None:
        """The rows of the block that count, by the run's channels; None for all."""
        if self.channels is None:
            return None
        counts = stored.channels["count"].astype(np.int64)
        ends = np.cumsum(counts)
        parts: list[npt.NDArray[np.int64]] = [
            np.arange(ends[each] - counts[each], ends[each]) for each in self.channels.tolist()
        ]
        return np.concatenate(parts)


@dataclass(slots=True)
class BytesRead:
    """Bytes read from a file: columns of blocks, and headers and indexes."""

    index_bytes: int = 0
    data_bytes: int = 0

    def add(self, other: BytesRead) -> None:
        self.index_bytes += other.index_bytes
        self.data_bytes += other.data_bytes
