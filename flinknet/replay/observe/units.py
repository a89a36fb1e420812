"""Units of work: blocks of a run that an executor reads at a time.

Most units are slices of time. A question about the state of a channel at every instant needs both
ends of the channel, and the buffers in flight when the slice begins. So a unit reads a margin on
both sides of its slice, and more for channels that need it (`widening`), until every buffer in
flight within the slice is complete, and the last message before it is known. The answers of slices
add up to that of the whole run, however it is cut.

Groups of files with common channels are cut, by their indexes, into slices of about as many events:
a second with fifty times the mean becomes fifty slices. Units of traces recorded between processes,
which have no questions about states, and of blocks far outside of the measured part, are adjacent
blocks of their files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.probe import TracePoint
from flinknet.predict.exchange import recorded_network
from flinknet.predict.measured_part import FOREVER_NS
from flinknet.trace import Extent, FileIndex, TraceFile, file_index

from ..read import RecordedRun
from ..spark.units import UNITS_MIN

EVENTS_PER_TIME_SLICE = 3_000_000
"""Events of a slice, about; margins add some."""

EVENTS_PER_TIME_SLICE_MIN = 100_000
"""Fewest events of a slice: a smaller one costs more than it saves."""

EVENTS_PER_FILE = 1 << 17
"""Events of a slice for each of its files, so that a block is read by few slices."""

EVENTS_PER_CHANNEL = 1_500
"""Events of a slice for each of its channels: answers have rows for each of them."""

EVENTS_PER_TIME_SLICE_MAX = 5_000_000
"""Most events of a slice, for its memory: with 10,000 channels an event takes 46 bytes."""

OUTSIDE_EVENTS = 500_000
"""Events of a file before or after the measured part from which on they get units of their own."""


@dataclass(frozen=True, slots=True)
class FileBlocks:
    """Blocks of a file for a unit: own ones, `own_from` to before `own_to`, and neighbours."""

    file: TraceFile
    extents: list[Extent]
    own_from: int
    own_to: int


@dataclass(frozen=True, slots=True)
class Unit:
    """Blocks of some files of a run, and the window of the run that counts, as of RecordedRun.
    Files are given with the blocks that lie in the slice or within its margins; a block belongs to
    the slice in which its middle lies. States are asked for in the slice; both its ends are 0 for
    blocks outside of slices."""

    run: int
    group: int  # place of its channels among the groups of `Units`
    files: list[FileBlocks]
    from_ns: int
    to_ns: int
    counted_at: int = TracePoint.CONSUMED
    until_ns: int = FOREVER_NS
    slice_from_ns: int = 0
    slice_to_ns: int = 0
    margin_ns: int = 0  # time on both sides of the slice that is read first

    @property
    def is_slice(self) -> bool:
        return self.slice_to_ns > self.slice_from_ns

    @property
    def reach_ns(self) -> tuple[int, int]:
        return self.slice_from_ns - self.margin_ns, self.slice_to_ns + self.margin_ns


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Channels of a group of files, and the subtasks at their ends; `own` ones count, empty for
    all."""

    channels: IntArray
    producers: IntArray
    consumers: IntArray
    own: list[int]

    @property
    def ends(self) -> tuple[IntArray, IntArray, IntArray]:
        return self.channels, self.producers, self.consumers

    @classmethod
    def of(cls, run: RecordedRun, channels: Sequence[int]) -> Group:
        infos = {info.index: info for info in run.manifest.channels}
        ends = [(each, infos[each].producer, infos[each].consumer) for each in channels]
        own = [] if run.edge is None else list(infos)
        first, producers, consumers = np.array(ends, np.int64).reshape(-1, 3).T.copy()
        return cls(first, producers, consumers, own)


class Units(NamedTuple):
    """Units, and their groups of channels, which are sent once: a million take 24 MB."""

    units: list[Unit]
    groups: list[Group]


def work_units(runs: Sequence[RecordedRun], split: int | None = None) -> Units:
    """Cut all blocks of runs into units; each group of files into `split` slices (None: by
    size)."""
    units: list[Unit] = []
    groups: list[Group] = []
    for run in runs:
        has_slices = not run.manifest.is_from_between
        of_files = groups_of(run) if has_slices else []
        for files, channels in of_files:
            parts = split or _parts(run, files, len(channels), len(of_files))
            units += _slices_of(run, len(groups), files, even_edges(run, files, parts))
            groups.append(Group.of(run, channels))
        units += _packed(run, len(groups), has_slices=has_slices)
        groups.append(Group.of(run, ()))
    return Units(units, groups)


def _slices_of(
    run: RecordedRun, group: int, files: Sequence[TraceFile], edges: Sequence[int]
) -> list[Unit]:
    indexes = {file: file_index(file) for file in files}
    places = {file: _places(run, index, edges) for file, index in indexes.items()}
    found = []
    timeout_ns = recorded_network(run.manifest).buffer_timeout_ns
    two_beats_ns = 2 * max(timeout_ns, 0) + 20_000_000  # of the flusher
    for number, (from_ns, to_ns) in enumerate(pairwise(edges)):
        margin_ns = min(two_beats_ns, max((to_ns - from_ns) // 8, 1_000_000))
        blocks = []
        for file, index in indexes.items():
            own_from, own_to = np.searchsorted(places[file], [number, number + 1]).tolist()
            is_wanted = index.blocks["first_ns"] < to_ns + margin_ns
            is_wanted &= index.blocks["last_ns"] >= from_ns - margin_ns
            is_wanted[own_from:own_to] = True
            extents = index.extents(np.flatnonzero(is_wanted))
            blocks.append(FileBlocks(file.absolute(), extents, *index.numbers(own_from, own_to)))
        window = run.from_ns, run.to_ns, run.counted_at, run.until_ns
        found.append(Unit(run.run, group, blocks, *window, from_ns, to_ns, margin_ns))
    return found


def _packed(run: RecordedRun, group: int, *, has_slices: bool) -> list[Unit]:
    """Pack the blocks outside of slices into units of about as many events each."""
    indexes = {file: file_index(file) for file in run.files}
    places = {
        file: outside_blocks(run, index) if has_slices else np.arange(len(index.blocks))
        for file, index in indexes.items()
    }
    counts = {file: indexes[file].blocks["count"][own] for file, own in places.items()}
    total = sum(int(each.sum()) for each in counts.values())
    most = min(max(total // UNITS_MIN, EVENTS_PER_TIME_SLICE_MIN), EVENTS_PER_TIME_SLICE)
    units: list[list[FileBlocks]] = [[]]
    held = 0
    for file, own in places.items():
        place = (held + np.cumsum(counts[file]) - counts[file]) // most
        held += int(counts[file].sum())
        for unit in np.unique(place).tolist():
            wanted = own[place == unit]
            units += [[] for _ in range(unit + 1 - len(units))]
            index = indexes[file]
            numbers = index.numbers(int(wanted[0]), int(wanted[-1]) + 1)
            units[unit].append(FileBlocks(file.absolute(), index.extents(wanted), *numbers))
    window = run.from_ns, run.to_ns, run.counted_at, run.until_ns
    return [Unit(run.run, group, own, *window) for own in units if own]


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
    return np.maximum.accumulate((blocks["first_ns"] + blocks["last_ns"]) // 2)


def groups_of(run: RecordedRun) -> list[tuple[list[TraceFile], list[int]]]:
    """Groups of files with common channels, and their channels; the first has those without
    events."""
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
    return [(files[each], channels[each]) for each in files]


def even_edges(run: RecordedRun, files: Sequence[TraceFile], parts: int) -> list[int]:
    """Edges that cut the measured part of a run as `even_cuts`, by the events of some files."""
    return even_cuts(run.from_ns, run.to_ns, *blocks_within(run, files), parts)


def even_cuts(
    from_ns: int, to_ns: int, starts_ns: IntArray, ends_ns: IntArray, counts: IntArray, parts: int
) -> list[int]:
    """Edges, with both ends, that cut [from_ns, to_ns) into parts with about as many events of
    blocks, assumed to be evenly spread; fewer parts if there are fewer ns."""
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


def blocks_within(
    run: RecordedRun, files: Sequence[TraceFile]
) -> tuple[IntArray, IntArray, IntArray]:
    """Start and end of blocks, clipped to the measured part, and their events in it."""
    rows = np.concatenate([file_index(file).blocks for file in files])
    rows = rows[(rows["last_ns"] >= run.from_ns) & (rows["first_ns"] < run.to_ns)]
    starts_ns = np.maximum(rows["first_ns"], run.from_ns)
    ends_ns = np.minimum(rows["last_ns"] + 1, run.to_ns)
    share = (ends_ns - starts_ns) / (rows["last_ns"] + 1 - rows["first_ns"])
    return starts_ns, ends_ns, rows["count"] * share


def _parts(run: RecordedRun, files: Sequence[TraceFile], channels: int, groups: int) -> int:
    """Number of slices for one of several groups of files of a run: small enough to fit into memory
    and enough for all executors, but with few blocks that several slices read."""
    starts_ns, _, counts = blocks_within(run, files)
    events = int(counts.sum())
    parts = min(-(-UNITS_MIN // groups), events // EVENTS_PER_TIME_SLICE_MIN)
    parts = min(parts, len(starts_ns) // len(files))
    most = most_events(EVENTS_PER_TIME_SLICE, len(files), channels, EVENTS_PER_TIME_SLICE_MAX)
    return max(1, parts, -(-events // most))


def most_events(few: int, files: int, channels: int, most: int) -> int:
    """Events of a slice: `few`, or up to `most` for a block of each file and some of each
    channel."""
    wanted = max(few, files * EVENTS_PER_FILE, channels * EVENTS_PER_CHANNEL)
    return max(few, min(wanted, most))
