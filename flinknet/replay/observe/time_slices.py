"""Slices of time as work units: the channels of some files, from one instant to another.

A question about the state of a channel at every instant needs both ends of the channel, and the
buffers in flight when the slice begins. So a unit reads a margin on both sides of its slice, and
more for channels that need it, until every buffer in flight within the slice is complete, and the
last message before it is known. The answers of slices add up to that of the whole run, however it
is cut.

Files without common channels are cut separately. Each group of files is cut by the indexes into
slices of about the same number of events: a second with fifty times the mean becomes fifty slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from flinknet.arrays import IntArray
from flinknet.trace import BytesRead, Extent, FileIndex, TraceFile, TraceReader, file_index
from flinknet.trace.event_block import lazy_block

from ..read import RecordedRun
from ..spark.frames import Columns, map_units
from ..spark.units import UNITS_MIN
from .channel_events import ChannelEvents, SetAside
from .widening import completed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS_PER_TIME_SLICE = 3_000_000
"""Events of a slice, about; margins add some."""

EVENTS_PER_TIME_SLICE_MIN = 100_000
"""Fewest events of a slice: a smaller one costs more than it saves."""

EVENTS_PER_FILE = 1 << 17
"""Events of a slice for each of its files, so that a block is read by few slices."""

EVENTS_PER_CHANNEL = 1_500
"""Events of a slice for each of its channels: answers have rows for each of them."""

EVENTS_PER_TIME_SLICE_MAX = 5_000_000
"""Most events of a slice, for the memory of a process: with 10,000 channels an event takes 46
bytes."""

OUTSIDE_EVENTS = 500_000
"""Events of a file before or after the measured part from which on they get units of their own."""


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files with common channels, and the channels of a run in them.

    Attributes:
        channels: in the order of the manifest.
    """

    files: tuple[TraceFile, ...]
    channels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FileBlocks:
    """Blocks of a file for a unit: its own ones and neighbours.

    Attributes:
        own_from, own_to: numbers of its own blocks in the file, the end excluded.
    """

    file: TraceFile
    extents: list[Extent]
    own_from: int
    own_to: int


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """All channels of a group of files in [from_ns, to_ns), within the measured part of their run.

    Attributes:
        files: with the blocks that lie in the slice or within its margins. A block belongs to the
            slice in which its middle lies.
        producers, consumers: subtasks at the ends of the channels, in their order.
        margin_ns: time on both sides that is read first.
        shared: place of its channels and subtasks in `SharedChannels`; -1: they are here.
    """

    run: int
    files: list[FileBlocks]
    channels: list[int]
    producers: list[int]
    consumers: list[int]
    from_ns: int
    to_ns: int
    measured_from_ns: int
    measured_to_ns: int
    margin_ns: int
    shared: int = -1

    def reaches(self, first_ns: int, last_ns: int) -> bool:
        """Whether a block from one instant to another lies in the slice or within its margins."""
        return first_ns < self.to_ns + self.margin_ns and last_ns >= self.from_ns - self.margin_ns


@dataclass(frozen=True, slots=True, eq=False)
class SharedChannels:
    """Channels of slices with the subtasks at their ends. Slices of the same files share them, so
    they are sent once and not with each slice: a million channels take 24 MB."""

    ends: tuple[tuple[IntArray, IntArray, IntArray], ...]

    @classmethod
    def of(cls, slices: Sequence[TimeSlice]) -> tuple[SharedChannels, list[TimeSlice]]:
        """Separate slices from their channels."""
        numbers: dict[int, int] = {}
        ends: list[tuple[IntArray, IntArray, IntArray]] = []
        bare = []
        for each in slices:
            own = each.channels, each.producers, each.consumers
            key = id(each.channels) if each.channels else 0
            number = numbers.setdefault(key, len(ends))
            if number == len(ends):
                channels, producers, consumers = (np.array(values, np.int64) for values in own)
                ends.append((channels, producers, consumers))
            bare.append(replace(each, channels=[], producers=[], consumers=[], shared=number))
        return cls(tuple(ends)), bare

    def filled(self, bare: TimeSlice) -> TimeSlice:
        """The slice with its channels."""
        channels, producers, consumers = (each.tolist() for each in self.ends[bare.shared])
        return replace(bare, channels=channels, producers=producers, consumers=consumers, shared=-1)


TimeSliceQuestion = Callable[[TimeSlice, ChannelEvents], Iterable[Columns]]
"""Function that runs in an executor: takes a unit and the events of its channels, in the order of
the unit, and gives rows of the answer. Rows of a channel are ascending by instant within each kind
and point."""


def time_slices_of(runs: Sequence[RecordedRun], split: int | None = None) -> list[TimeSlice]:
    """Cut the measured part of each run into slices, for each group of its files.

    Args:
        split: slices of each group; None for a number that suits its size.
    """
    found = []
    for run in runs:
        groups = groups_of(run)
        for group in groups:
            parts = split or _parts(run, group, len(groups))
            found += _slices_of(run, group, even_edges(run, group.files, parts))
    return found


def _slices_of(run: RecordedRun, group: FileGroup, edges: Sequence[int]) -> list[TimeSlice]:
    """Cut the measured part of a group of files at edges."""
    of = {info.index: info for info in run.manifest.channels}
    own = [of[channel] for channel in group.channels]
    channels = list(group.channels)  # the same of each slice, see SharedChannels
    producers, consumers = [info.producer for info in own], [info.consumer for info in own]
    indexes = {file: file_index(file) for file in group.files}
    places = {file: _places(run, index, edges) for file, index in indexes.items()}
    found = []
    for number, (from_ns, to_ns) in enumerate(pairwise(edges)):
        margin_ns = _margin_ns(run, to_ns - from_ns)
        files = []
        for file, index in indexes.items():
            own_from, own_to = np.searchsorted(places[file], [number, number + 1]).tolist()
            is_wanted = index.blocks["first_ns"] < to_ns + margin_ns
            is_wanted &= index.blocks["last_ns"] >= from_ns - margin_ns
            is_wanted[own_from:own_to] = True
            extents = index.extents(np.flatnonzero(is_wanted))
            numbers = index.numbers(own_from, own_to)
            files.append(FileBlocks(file.absolute(), extents, *numbers))
        found.append(
            TimeSlice(
                run.run,
                files,
                channels,
                producers,
                consumers,
                from_ns,
                to_ns,
                run.from_ns,
                run.to_ns,
                margin_ns,
            )
        )
    return found


def _places(run: RecordedRun, index: FileIndex, edges: Sequence[int]) -> IntArray:
    """Slice in which the middle of each block of a file lies, ascending; -1 before the first slice,
    and their number plus one after the last, for `outside_blocks`."""
    middles_ns = _middles_ns(index)
    place = np.searchsorted(edges[:-1], middles_ns, side="right") - 1
    places: IntArray = np.maximum.accumulate(np.maximum(place, 0))
    outside = outside_blocks(run, index)
    places[outside] = np.where(middles_ns[outside] < run.from_ns, -1, len(edges))
    return places


def outside_blocks(run: RecordedRun, index: FileIndex) -> IntArray:
    """Numbers of the blocks of a file before and after the measured part of a run; none if there
    are few events, which then belong to the first and last slice."""
    places = np.searchsorted([run.from_ns, run.to_ns], _middles_ns(index), side="right")
    outside = np.flatnonzero(places != 1)
    is_much = index.blocks["count"][outside].sum() > OUTSIDE_EVENTS
    return outside if is_much else outside[:0]


def _middles_ns(index: FileIndex) -> IntArray:
    """Middle of each block of a file, not before that of an earlier block."""
    blocks = index.blocks
    middles_ns: IntArray = np.maximum.accumulate((blocks["first_ns"] + blocks["last_ns"]) // 2)
    return middles_ns


def groups_of(run: RecordedRun) -> list[FileGroup]:
    """Groups of files of a run that have common channels. Channels without events belong to the
    first group."""
    first_with: dict[int, int] = {}
    group = list(range(len(run.files)))

    def root(number: int) -> int:
        while group[number] != number:
            group[number] = number = group[group[number]]
        return number

    own = {info.index for info in run.manifest.channels}
    for number, file in enumerate(run.files):
        for channel in file_index(file).channels["channel"].tolist():
            if channel in own:
                other = root(first_with.setdefault(channel, number))
                group[max(other, root(number))] = min(other, root(number))
    files: dict[int, list[TraceFile]] = {}
    for number, file in enumerate(run.files):
        files.setdefault(root(number), []).append(file)
    channels: dict[int, list[int]] = {number: [] for number in files}
    for info in run.manifest.channels:
        channels[root(first_with.get(info.index, 0))].append(info.index)
    return [FileGroup(tuple(files[each]), tuple(channels[each])) for each in files]


def even_edges(run: RecordedRun, files: Sequence[TraceFile], parts: int) -> list[int]:
    """Edges that cut the measured part of a run into parts with about the same number of events of
    some files."""
    return even_cuts(run.from_ns, run.to_ns, *_blocks_within(run, files), parts)


def even_cuts(
    from_ns: int, to_ns: int, starts_ns: IntArray, ends_ns: IntArray, counts: IntArray, parts: int
) -> list[int]:
    """Edges that cut [from_ns, to_ns) into parts with about the same number of events, with both
    ends; fewer parts if there are fewer ns.

    Args:
        starts_ns, ends_ns, counts: blocks within the whole; their events are assumed to be evenly
            spread.
        parts: number of parts.
    """
    if parts < 2 or not counts.sum():
        even_ns: IntArray = np.linspace(from_ns, to_ns, max(parts, 1) + 1).astype(np.int64)
        return [int(each) for each in np.unique(even_ns)]
    instants_ns = np.unique(np.concatenate([starts_ns, ends_ns, [from_ns, to_ns]]))
    density = counts / np.maximum(ends_ns - starts_ns, 1)
    change = np.zeros(len(instants_ns))
    np.add.at(change, np.searchsorted(instants_ns, starts_ns), density)
    np.add.at(change, np.searchsorted(instants_ns, ends_ns), -density)
    held = np.maximum(np.cumsum(change)[:-1], 0.0) * np.diff(instants_ns)
    before = np.r_[0.0, np.cumsum(held)]
    wanted = np.linspace(0.0, before[-1], parts + 1)[1:-1]
    inner_ns = np.interp(wanted, before, (instants_ns - from_ns).astype(np.float64))
    edges_ns = np.unique(np.r_[from_ns, inner_ns.astype(np.int64) + from_ns, to_ns])
    return [int(each) for each in edges_ns]


def _blocks_within(
    run: RecordedRun, files: Sequence[TraceFile]
) -> tuple[IntArray, IntArray, IntArray]:
    """Start and end of blocks, clipped to the measured part, and about how many events are
    in it."""
    rows = np.concatenate([file_index(file).blocks for file in files])
    rows = rows[(rows["last_ns"] >= run.from_ns) & (rows["first_ns"] < run.to_ns)]
    starts_ns = np.maximum(rows["first_ns"], run.from_ns)
    ends_ns = np.minimum(rows["last_ns"] + 1, run.to_ns)
    share = (ends_ns - starts_ns) / (rows["last_ns"] + 1 - rows["first_ns"])
    return starts_ns, ends_ns, rows["count"] * share


def ask_time_slices(
    spark: SparkSession, units: Sequence[TimeSlice], question: TimeSliceQuestion, row: type
) -> DataFrame:
    """Put a question to the events of each slice.

    Args:
        question: see TimeSliceQuestion.
        row: dataclass of the rows of the answer.
    """
    shared, bare = SharedChannels.of(units)
    return map_units(spark, bare, partial(_answered, shared=shared, question=question), row)


def _answered(
    bare: TimeSlice, *, shared: SharedChannels, question: TimeSliceQuestion
) -> Iterable[Columns]:
    unit = shared.filled(bare)
    return question(unit, read_time_slice(unit))


def read_time_slice(unit: TimeSlice) -> ChannelEvents:
    """Read the events of each channel that determine its state in the slice."""
    aside = begun_aside(unit)
    for each in unit.files:
        with TraceReader(each.file, each.extents) as reader:
            for index, entry in enumerate(reader.blocks()):
                block = lazy_block(reader, index, unit.channels)
                aside.take(block, entry.first_ns, entry.last_ns)
    return ended_aside(unit, aside, BytesRead())


def begun_aside(unit: TimeSlice) -> SetAside:
    """A collection for the blocks of a slice; blocks beyond its margins may be omitted."""
    bounds_ns = unit.from_ns - unit.margin_ns, unit.to_ns + unit.margin_ns
    return SetAside(dict.fromkeys(unit.channels, bounds_ns))


def ended_aside(unit: TimeSlice, aside: SetAside, counted: BytesRead) -> ChannelEvents:
    """The events of each channel of a slice whose blocks were taken.

    Args:
        counted: increased by further reads.
    """
    files = [each.file for each in unit.files]
    window_ns = unit.from_ns, unit.to_ns
    return completed(files, window_ns, unit.margin_ns, aside.events(), counted)


def _parts(run: RecordedRun, group: FileGroup, groups: int) -> int:
    """Number of slices for one of several groups of files of a run: small enough to fit into memory
    and enough for all executors, but with few blocks that several slices read."""
    starts_ns, _, counts = _blocks_within(run, group.files)
    events = int(counts.sum())
    parts = min(-(-UNITS_MIN // groups), events // EVENTS_PER_TIME_SLICE_MIN)
    parts = min(parts, len(starts_ns) // len(group.files))
    files, channels = len(group.files), len(group.channels)
    most = most_events(EVENTS_PER_TIME_SLICE, files, channels, EVENTS_PER_TIME_SLICE_MAX)
    return max(1, parts, -(-events // most))


def most_events(few: int, files: int, channels: int, most: int) -> int:
    """Events of a slice: `few`, or up to `most` where that would be less than a block of each file,
    or few for each channel."""
    wanted = max(few, files * EVENTS_PER_FILE, channels * EVENTS_PER_CHANNEL)
    return max(few, min(wanted, most))


def events_within(run: RecordedRun, files: Sequence[TraceFile]) -> int:
    """Approximate number of events of some files in the measured part of a run, by the index."""
    return int(_blocks_within(run, files)[2].sum())


def _margin_ns(run: RecordedRun, length_ns: int) -> int:
    """Two beats of the flusher, or an eighth of the slice."""
    stated = run.manifest.scenario.get("network", {})
    timeout_ns = stated.get("buffer_timeout_ns", 0) if isinstance(stated, dict) else 0
    wanted_ns = 2 * max(timeout_ns, 0) + 20_000_000
    return min(wanted_ns, max(length_ns // 8, 1_000_000))
