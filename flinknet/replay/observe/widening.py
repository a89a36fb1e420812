"""The events of a slice of time, and of channels that need it beyond the margins.

For a channel without sent messages for a while, the index finds the block before: one or two
blocks, however long it has been idle. The process keeps their rows of the channel for its next
slices, so that idle channels are not read again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from flinknet.arrays import EventColumns, IntArray
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.trace import BytesRead, TraceFile, TraceReader, file_index
from flinknet.trace.buffers import SortedEvents, data_at, events_at
from flinknet.trace.event_block import lazy_block
from flinknet.trace.format import CHANNEL_ENTRY, MAX_BLOCK_EVENTS
from flinknet.trace.index import Stamp, stamp_of, stamps_of

from .channel_events import ChannelEvents, SetAside
from .units import Unit

Flags = npt.NDArray[np.bool_]

LONGEST_LIFE_NS = 100_000_000_000
"""Longest life of a buffer that is followed across the edge of a slice."""

_LIFE_COLUMNS = ("at_ns", "sequence_number", "channel")
_NO_NUMBER = np.iinfo(np.int64).max
_FAR = 1 << 60
"""Distance between the places of events before a slice, in it, and after it."""

_GROUPS_KEPT = 2

CHANNELS_AT_ONCE = 4096
"""Channels that are completed together, some 10 KB each."""

ROWS_KEPT = 4096
"""Channels of blocks whose rows a process keeps, some 20 KB each."""

_RowsKey = tuple[TraceFile, Stamp, int, int]
_kept_rows: dict[_RowsKey, SortedEvents] = {}
_EVER_NS = -(1 << 62)


def completed(unit: Unit, found: ChannelEvents, counted: BytesRead) -> ChannelEvents:
    """Complete the events of each channel in the slice and its margins (emptied), so that they
    determine its state. Further reads are counted, but for the index, which each process reads
    once."""
    parts = []
    for start in range(0, len(found.channels), CHANNELS_AT_ONCE):
        own = found.of_range(start, start + CHANNELS_AT_ONCE)
        widened = _widened(unit, own, counted)
        if widened:
            parts.append(ChannelEvents.of_channels(widened))
    found.replace(parts)
    return found


def _widened(
    unit: Unit, events: ChannelEvents, counted: BytesRead
) -> dict[int, list[SortedEvents]]:
    """Channels whose events were not complete, with more of their events, part after part."""
    files = [each.file for each in unit.files]
    from_ns, to_ns = unit.slice_from_ns, unit.slice_to_ns
    spans_ns: dict[int, tuple[int, int]] = {}
    changed = dict[int, list[SortedEvents]]()
    while incomplete := list(_incomplete(events, from_ns, to_ns)):
        index = _read_index(tuple(files), stamps_of(files))
        earlier: dict[int, tuple[int, int]] = {}
        later: dict[int, tuple[int, int]] = {}
        for channel, is_begun, is_done in incomplete:
            low_ns, high_ns = spans_ns.get(channel, unit.reach_ns)
            if not is_begun:
                at_ns = index.before(channel, low_ns)
                if at_ns is not None and at_ns[1] >= from_ns - LONGEST_LIFE_NS:
                    earlier[channel] = at_ns[0], low_ns
            if not is_done:
                at_ns = index.after(channel, high_ns)
                if at_ns is not None and at_ns[0] <= to_ns + LONGEST_LIFE_NS:
                    later[channel] = high_ns, at_ns[1] + 1
            spans_ns[channel] = low_ns, high_ns
        before = _read(files, index, earlier, -_FAR, counted)
        after = _read(files, index, later, _FAR, counted)
        widened = {}
        for channel in sorted({*earlier, *later}):
            own = [events[channel]]
            widened[channel] = before.get(channel, []) + own + after.get(channel, [])
            low_ns, high_ns = spans_ns[channel]
            low_ns, _ = earlier.get(channel, (low_ns, 0))
            _, high_ns = later.get(channel, (0, high_ns))
            spans_ns[channel] = low_ns, high_ns
        changed |= widened
        events = ChannelEvents.of_channels(widened)
    return changed


def _incomplete(
    events: ChannelEvents, from_ns: int, to_ns: int
) -> Iterator[tuple[int, bool, bool]]:
    """Channels with incomplete events: whether they show the slice's begin, and its end."""
    for start, end in events.batches():
        own = events.together(start, end)
        is_begun = _is_begun(own, from_ns, end - start)
        is_done = _is_done(own, to_ns, end - start)
        for place in np.flatnonzero(~(is_begun & is_done)).tolist():
            channel = int(events.channels[start + place])
            yield channel, bool(is_begun[place]), bool(is_done[place])


def _is_begun(events: SortedEvents, from_ns: int, channels: int) -> Flags:
    """Whether the events of each channel show its state at an instant: the last sent message, and
    the sending of everything that is consumed later. Numbers and instants ascend alike."""
    left = events_at(events, MessageKind.BUFFER_RESPONSE, TracePoint.SENT, ("at_ns", "channel"))
    has_left = np.zeros(channels, bool)
    has_left[left["channel"][left["at_ns"] <= from_ns]] = True
    sent, consumed = (
        data_at(events, point, _LIFE_COLUMNS) for point in (TracePoint.SENT, TracePoint.CONSUMED)
    )
    sent_from = _first_of_each(sent, channels)
    later = np.flatnonzero(consumed["at_ns"] > from_ns)
    consumed_from = _first_of_each({name: rows[later] for name, rows in consumed.items()}, channels)
    begun: Flags = has_left & (sent_from <= consumed_from)
    return begun


def _first_of_each(rows: EventColumns, channels: int) -> IntArray:
    """Sequence number of the first row of each channel; _NO_NUMBER without rows."""
    first: IntArray = np.full(channels, _NO_NUMBER)
    first[rows["channel"][::-1]] = rows["sequence_number"][::-1]
    return first


def _is_done(events: SortedEvents, to_ns: int, channels: int) -> Flags:
    """Whether the events of each channel show the consumption of all records before an instant."""
    sent = data_at(events, TracePoint.SENT, (*_LIFE_COLUMNS, "first_record_ns"))
    consumed = data_at(events, TracePoint.CONSUMED, ("sequence_number", "channel"))
    is_known = sent["first_record_ns"] >= 0
    has_instants = np.zeros(channels, bool)
    has_instants[sent["channel"][is_known]] = True
    came_ns = np.where(has_instants[sent["channel"]], sent["first_record_ns"], sent["at_ns"])
    later = np.flatnonzero(came_ns >= to_ns)
    came = _first_of_each({name: sent[name][later] for name in _LIFE_COLUMNS}, channels)
    last = np.full(channels, -1)
    starts = np.flatnonzero(np.diff(consumed["channel"], prepend=-1))
    if len(starts):  # those of a channel stand together
        last[consumed["channel"][starts]] = np.maximum.reduceat(consumed["sequence_number"], starts)
    is_first = came == _first_of_each(sent, channels)
    done: Flags = (came < _NO_NUMBER) & (is_first | (last >= came - 1))
    return done


@dataclass(frozen=True, slots=True, eq=False)
class _GroupIndex:
    """Blocks of files that hold each channel."""

    entries: npt.NDArray[np.void]  # CHANNEL_ENTRY of all blocks, by channel, then by file and block
    files: IntArray  # place of the file of each entry
    blocks: IntArray  # number of the block of each entry
    bounds: Mapping[int, tuple[int, int]]  # where the entries of a channel begin and end

    def before(self, channel: int, at_ns: int) -> tuple[int, int] | None:
        own = self._of(channel)
        own = own[own["first_ns"] < at_ns]
        return _span_of(own[np.argmax(own["last_ns"])]) if len(own) else None

    def after(self, channel: int, at_ns: int) -> tuple[int, int] | None:
        own = self._of(channel)
        own = own[own["last_ns"] >= at_ns]
        return _span_of(own[np.argmin(own["first_ns"])]) if len(own) else None

    def blocks_within(self, channel: int, from_ns: int, to_ns: int) -> list[tuple[int, int]]:
        """Blocks with events of a channel in [from_ns, to_ns), as file and number."""
        own = self._of(channel)
        start, _ = self.bounds.get(channel, (0, 0))
        near = start + np.flatnonzero((own["last_ns"] >= from_ns) & (own["first_ns"] < to_ns))
        return list(zip(self.files[near].tolist(), self.blocks[near].tolist(), strict=True))

    def _of(self, channel: int) -> npt.NDArray[np.void]:
        start, end = self.bounds.get(channel, (0, 0))
        return self.entries[start:end]


def _span_of(entry: np.void) -> tuple[int, int]:
    return int(entry["first_ns"]), int(entry["last_ns"])


@lru_cache(maxsize=_GROUPS_KEPT)
def _read_index(files: tuple[TraceFile, ...], _stamps: tuple[Stamp, ...]) -> _GroupIndex:
    held: list[npt.NDArray[np.void]] = []
    counts = []
    for file in files:
        with TraceReader(file) as reader:
            own = [entry.channels for entry in reader.blocks()]
        held += own
        counts.append([len(each) for each in own])
    entries = np.concatenate([*held, np.zeros(0, CHANNEL_ENTRY)])
    of_file = np.repeat(np.arange(len(files)), [sum(each) for each in counts])
    numbers = [np.repeat(np.arange(len(each)), each) for each in counts]
    blocks = np.concatenate([*numbers, np.zeros(0, np.int64)])
    order = np.argsort(entries["channel"], kind="stable")
    entries, of_file, blocks = entries[order], of_file[order], blocks[order]
    channels, starts = np.unique(entries["channel"], return_index=True)
    bounds = pairwise([*starts.tolist(), len(entries)])
    of_channel = dict(zip(channels.tolist(), bounds, strict=True))
    return _GroupIndex(entries, of_file, blocks, of_channel)


def _read(
    files: Sequence[TraceFile],
    index: _GroupIndex,
    spans_ns: Mapping[int, tuple[int, int]],
    first_place: int,
    counted: BytesRead,
) -> dict[int, list[SortedEvents]]:
    """Read the events of channels, each from one instant to another, in the order of the blocks;
    `first_place` is the place of the first event of a file in the order of recording."""
    wanted: dict[int, dict[int, list[int]]] = {}
    for channel, span_ns in spans_ns.items():
        for file, number in index.blocks_within(channel, *span_ns):
            wanted.setdefault(file, {}).setdefault(number, []).append(channel)
    found: dict[int, list[SortedEvents]] = {channel: [] for channel in spans_ns}
    for file in sorted(wanted):
        for number, rows in _rows_of_blocks(files[file], wanted[file], counted):
            place = first_place + number * MAX_BLOCK_EVENTS
            for channel in wanted[file][number]:
                found[channel].append(_within(rows[channel], spans_ns[channel], place))
    return found


def _rows_of_blocks(
    file: TraceFile, wanted: Mapping[int, Sequence[int]], counted: BytesRead
) -> Iterator[tuple[int, dict[int, SortedEvents]]]:
    """Rows of the wanted channels of each block of a file, with their places in it."""
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
                aside = SetAside(np.array(wanted[number]), _EVER_NS, -_EVER_NS)
                aside.take(lazy_block(reader, place, list(wanted[number])), _EVER_NS, -_EVER_NS - 1)
                held = aside.events()
                read[number] = {
                    channel: SortedEvents(  # copied, so that their block can be freed
                        {
                            key: {name: values.copy() for name, values in rows.items()}
                            for key, rows in held[channel].items()
                        }
                    )
                    for channel in wanted[number]
                }
        counted.add(reader.counted)
    for number in numbers:
        rows = read.get(number)
        if rows is None:
            rows = {channel: own for channel, own in kept[number].items() if own is not None}
        else:
            while len(_kept_rows) + len(rows) > ROWS_KEPT and _kept_rows:
                del _kept_rows[next(iter(_kept_rows))]
            _kept_rows.update({(file, stamp, number, each): own for each, own in rows.items()})
        yield number, rows


def _within(events: SortedEvents, span_ns: tuple[int, int], first_place: int) -> SortedEvents:
    found = SortedEvents()
    for key, rows in events.items():
        keep = (rows["at_ns"] >= span_ns[0]) & (rows["at_ns"] < span_ns[1])
        found[key] = {name: values[keep] for name, values in rows.items()}
        if "place" in rows:
            found[key]["place"] = found[key]["place"] + first_place
    return found
