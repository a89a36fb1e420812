"""The events of a slice of time, and beyond its margins for those channels where that is needed.

Of a channel on which nothing was sent for a while, the block before is read, found by the index:
one or two blocks, however long it has been idle. Its rows of these are kept for the next slices of
the same process, so that idle channels cost no reading again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from flinknet.core.probe import MessageKind, TracePoint
from flinknet.trace import BytesRead, TraceFile, TraceReader, file_index
from flinknet.trace.buffers import SortedEvents, data_at, events_at
from flinknet.trace.event_block import lazy_block
from flinknet.trace.format import CHANNEL_ENTRY, MAX_BLOCK_EVENTS
from flinknet.trace.index import Stamp, stamp_of, stamps_of

from .set_aside import SetAside, joined_events

LONGEST_LIFE_NS = 100_000_000_000
"""A buffer that lives longer is not followed across the edge of a slice."""

_LIFE_COLUMNS = ("at_ns", "sequence_number")
_FAR = 1 << 60
"""Between the places of events before a slice, in it, and behind it."""

_GROUPS_KEPT = 2

ROWS_KEPT = 4096
"""Channels of blocks whose rows a process keeps, some 20 KB each."""

_RowsKey = tuple[TraceFile, Stamp, int, int]
_kept_rows: dict[_RowsKey, SortedEvents] = {}
_EVER_NS = -(1 << 62)


def completed(
    files: Sequence[TraceFile],
    window_ns: tuple[int, int],
    margin_ns: int,
    found: Mapping[int, SortedEvents],
    counted: BytesRead,
) -> dict[int, SortedEvents]:
    """Events of each channel that show all about it in a slice.

    Args:
        files: that hold them.
        window_ns: the slice: from when, and up to when.
        found: the events of each channel within the slice and its margins.
        counted: what is read is added to it, but the index, which each process reads once.
    """
    whole = dict(found)
    from_ns, to_ns = window_ns
    spans_ns = dict.fromkeys(whole, (from_ns - margin_ns, to_ns + margin_ns))
    missing = list(whole)
    while missing:
        index = _index_of(files)
        earlier: dict[int, tuple[int, int]] = {}
        later: dict[int, tuple[int, int]] = {}
        for channel in missing:
            low_ns, high_ns = spans_ns[channel]
            if not _is_begun(whole[channel], from_ns):
                at_ns = index.before(channel, low_ns)
                if at_ns is not None and at_ns[1] >= from_ns - LONGEST_LIFE_NS:
                    earlier[channel] = at_ns[0], low_ns
            if not _is_done(whole[channel], to_ns):
                at_ns = index.after(channel, high_ns)
                if at_ns is not None and at_ns[0] <= to_ns + LONGEST_LIFE_NS:
                    later[channel] = high_ns, at_ns[1] + 1
        before = _read(files, index, earlier, -_FAR, counted)
        after = _read(files, index, later, _FAR, counted)
        missing = [channel for channel in missing if channel in earlier or channel in later]
        for channel in missing:
            low_ns, high_ns = spans_ns[channel]
            parts = [whole[channel]]
            if channel in earlier:
                parts.insert(0, before[channel])
                low_ns = earlier[channel][0]
            if channel in later:
                parts.append(after[channel])
                high_ns = later[channel][1]
            whole[channel] = joined_events(parts)
            spans_ns[channel] = low_ns, high_ns
    return whole


def _is_begun(events: SortedEvents, from_ns: int) -> bool:
    """Whether the events of a channel show how things stood at an instant: what was sent last, and
    when everything was sent that is consumed later. Numbers and instants ascend alike."""
    left = events_at(events, MessageKind.BUFFER_RESPONSE, TracePoint.SENT, ("at_ns",))
    if not (left["at_ns"] <= from_ns).any():
        return False
    sent, consumed = (
        data_at(events, point, _LIFE_COLUMNS) for point in (TracePoint.SENT, TracePoint.CONSUMED)
    )
    later = consumed["at_ns"] > from_ns
    if not later.any():
        return True
    first = int(np.argmax(later))
    return bool(
        len(sent["at_ns"]) and sent["sequence_number"][0] <= consumed["sequence_number"][first]
    )


def _is_done(events: SortedEvents, to_ns: int) -> bool:
    """Whether the events of a channel show when everything was consumed whose records had come
    before an instant."""
    sent = data_at(events, TracePoint.SENT, (*_LIFE_COLUMNS, "first_record_ns"))
    consumed = data_at(events, TracePoint.CONSUMED, ("sequence_number",))
    came_ns = sent["first_record_ns"]
    if not (came_ns >= 0).any():
        came_ns = sent["at_ns"]
    came_later = came_ns >= to_ns
    if not came_later.any():
        return False
    first = int(np.argmax(came_later))
    last = sent["sequence_number"][first] - 1
    return first == 0 or bool((consumed["sequence_number"] >= last).any())


@dataclass(frozen=True, slots=True, eq=False)
class _FileChannels:
    """Which blocks of a file hold a channel.

    Attributes:
        entries: CHANNEL_ENTRY of all blocks, by channel, then by block.
        blocks: the number of the block of each of them.
        bounds: where the entries of a channel begin and end.
    """

    entries: npt.NDArray[np.void]
    blocks: npt.NDArray[np.int64]
    bounds: Mapping[int, tuple[int, int]]

    @classmethod
    def read(cls, file: TraceFile) -> _FileChannels:
        """Out of the index of a file."""
        with TraceReader(file) as reader:
            held = [entry.channels for entry in reader.blocks()]
        entries = np.concatenate([*held, np.zeros(0, CHANNEL_ENTRY)])
        blocks = np.repeat(np.arange(len(held)), [len(each) for each in held])
        order = np.argsort(entries["channel"], kind="stable")
        entries, blocks = entries[order], blocks[order]
        channels, starts = np.unique(entries["channel"], return_index=True)
        bounds = pairwise([*starts.tolist(), len(entries)])
        return cls(entries, blocks, dict(zip(channels.tolist(), bounds, strict=True)))

    def of(self, channel: int) -> npt.NDArray[np.void]:
        """The entries of a channel."""
        start, end = self.bounds.get(channel, (0, 0))
        return self.entries[start:end]

    def blocks_within(self, channel: int, from_ns: int, to_ns: int) -> npt.NDArray[np.int64]:
        """The blocks that hold events of a channel in [from_ns, to_ns)."""
        start, end = self.bounds.get(channel, (0, 0))
        own = self.entries[start:end]
        is_near = (own["last_ns"] >= from_ns) & (own["first_ns"] < to_ns)
        return self.blocks[start:end][is_near]


@dataclass(frozen=True, slots=True)
class _GroupIndex:
    """The same of all files of a group."""

    files: tuple[_FileChannels, ...]

    def before(self, channel: int, at_ns: int) -> tuple[int, int] | None:
        """First and last instant of a channel in the last block that holds some of it before an
        instant."""
        found = []
        for file in self.files:
            own = file.of(channel)
            own = own[own["first_ns"] < at_ns]
            found += [(int(own["first_ns"][-1]), int(own["last_ns"][-1]))] if len(own) else []
        return max(found, key=lambda each: each[1], default=None)

    def after(self, channel: int, at_ns: int) -> tuple[int, int] | None:
        """The same in the first block that holds some of it from an instant on."""
        found = []
        for file in self.files:
            own = file.of(channel)
            own = own[own["last_ns"] >= at_ns]
            found += [(int(own["first_ns"][0]), int(own["last_ns"][0]))] if len(own) else []
        return min(found, key=lambda each: each[0], default=None)


def _index_of(files: Sequence[TraceFile]) -> _GroupIndex:
    return _read_index(tuple(files), stamps_of(files))


@lru_cache(maxsize=_GROUPS_KEPT)
def _read_index(files: tuple[TraceFile, ...], _stamps: tuple[Stamp, ...]) -> _GroupIndex:
    return _GroupIndex(tuple(_FileChannels.read(file) for file in files))


def _read(
    files: Sequence[TraceFile],
    index: _GroupIndex,
    spans_ns: Mapping[int, tuple[int, int]],
    first_place: int,
    counted: BytesRead,
) -> dict[int, SortedEvents]:
    """The events of channels, each from one instant to another.

    Args:
        index: of the files.
        first_place: in the order of recording, of the first event of a file.
    """
    if not spans_ns:
        return {}
    found: dict[int, list[SortedEvents]] = {channel: [] for channel in spans_ns}
    for file, held in zip(files, index.files, strict=True):
        wanted: dict[int, list[int]] = {}
        for channel, span_ns in spans_ns.items():
            for number in held.blocks_within(channel, *span_ns).tolist():
                wanted.setdefault(number, []).append(channel)
        if not wanted:
            continue
        for number, rows in _rows_of_blocks(file, wanted, counted):
            place = first_place + number * MAX_BLOCK_EVENTS
            for channel in wanted[number]:
                found[channel].append(_within(rows[channel], spans_ns[channel], place))
    return {channel: joined_events(parts) for channel, parts in found.items()}


def _rows_of_blocks(
    file: TraceFile, wanted: Mapping[int, Sequence[int]], counted: BytesRead
) -> Iterator[tuple[int, dict[int, SortedEvents]]]:
    """The rows of channels in blocks of a file, whose places are those in the block.

    Args:
        wanted: channels, by place of the block in the index.
    """
    stamp = stamp_of(file)
    numbers = sorted(wanted)
    kept = {
        number: {each: _kept_rows.get((file, stamp, number, each)) for each in wanted[number]}
        for number in numbers
    }
    missing = [number for number in numbers if None in kept[number].values()]
    read: dict[int, dict[int, SortedEvents]] = {}
    if missing:
        with TraceReader(file, file_index(file).extents(np.array(missing))) as reader:
            for place, number in enumerate(missing):
                aside = SetAside(dict.fromkeys(wanted[number], (_EVER_NS, -_EVER_NS)))
                aside.take(lazy_block(reader, place, list(wanted[number])), _EVER_NS, -_EVER_NS - 1)
                read[number] = aside.events()
        counted.add(reader.counted)
    for number in numbers:
        rows = read.get(number)
        if rows is None:
            rows = {channel: own for channel, own in kept[number].items() if own is not None}
        else:
            _keep({(file, stamp, number, channel): own for channel, own in rows.items()})
        yield number, rows


def _keep(rows: Mapping[_RowsKey, SortedEvents]) -> None:
    while len(_kept_rows) + len(rows) > ROWS_KEPT and _kept_rows:
        del _kept_rows[next(iter(_kept_rows))]
    _kept_rows.update(rows)


def _within(events: SortedEvents, span_ns: tuple[int, int], first_place: int) -> SortedEvents:
    """The events from one instant to another, with their places in the order of recording."""
    found = SortedEvents()
    for key, rows in events.items():
        keep = (rows["at_ns"] >= span_ns[0]) & (rows["at_ns"] < span_ns[1])
        found[key] = {name: values[keep] for name, values in rows.items()}
        if "place" in rows:
            found[key]["place"] = found[key]["place"] + first_place
    return found
