"""Events of many channels in few arrays, copied from blocks, and an axis of time on which channels
lie end to end, so that one call computes the same for many channels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from flinknet.arrays import EventColumns, IntArray
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.predict.ramps import joined_runs
from flinknet.trace.buffers import CHANNEL_BITS, SortedEvents
from flinknet.trace.event_block import EventBlock

Key = tuple[int, int]
ROWS_AT_ONCE = 1 << 16
"""Rows of channels that are processed together, so that results fit into the caches."""

_AXIS_NS = 1 << 62


@dataclass(frozen=True, slots=True)
class Window:
    """A window of time on an axis on which channels lie end to end, each for `length_ns`; its
    bounds are those of the first one. The axis of a single channel has the instants of the
    trace."""

    from_ns: int
    to_ns: int
    length_ns: int = _AXIS_NS
    origin_ns: int = -(_AXIS_NS >> 1)
    channels: int = 1

    def places(self, at_ns: IntArray) -> IntArray:
        return (at_ns - self.origin_ns) // self.length_ns

    def starts_ns(self, at_ns: IntArray) -> IntArray | int:
        if self.channels == 1:
            return self.from_ns
        return self.places(at_ns) * self.length_ns + self.from_ns

    def ends_ns(self, at_ns: IntArray) -> IntArray | int:
        return self.starts_ns(at_ns) + (self.to_ns - self.from_ns)

    def on_axis(self, at_ns: IntArray) -> IntArray:
        """Lay instants of one channel on the axis, with a row for each channel."""
        shifts_ns = np.arange(self.channels)[:, np.newaxis] * self.length_ns
        return shifts_ns + at_ns


@dataclass(frozen=True, slots=True, eq=False)
class EventRuns:
    """Runs of events of one kind and point, of channels at `places`, with `counts` rows each."""

    places: IntArray
    counts: IntArray
    columns: EventColumns


@dataclass(frozen=True, eq=False)
class ChannelEvents:
    """Events of channels by kind and point: rows of a channel follow each other, in the order of
    recording. `bounds` has where the rows of each channel begin, and the end of the last ones."""

    channels: IntArray
    rows: dict[Key, EventColumns]
    bounds: dict[Key, IntArray]

    @classmethod
    def of_parts(cls, channels: IntArray, parts: dict[Key, list[EventRuns]]) -> ChannelEvents:
        """Join parts in the order of recording of each channel; empties them, to save memory."""
        rows: dict[Key, EventColumns] = {}
        bounds: dict[Key, IntArray] = {}
        for key in list(parts):
            own = parts.pop(key)
            names, lengths = list(own[0].columns), [int(part.counts.sum()) for part in own]
            columns = ([part.columns.pop(name) for part in own] for name in names)
            places = np.concatenate([part.places for part in own])
            counts = np.concatenate([part.counts for part in own])
            joined: Iterator[IntArray] = map(np.concatenate, columns)
            if (places[1:] < places[:-1]).any():
                order = np.argsort(places, kind="stable")
                source = np.repeat(np.arange(len(own)), [len(part.counts) for part in own])
                starts = np.concatenate([np.cumsum(each.counts) - each.counts for each in own])

                places, counts = places[order], counts[order]
                joined = joined_runs(source[order], starts[order], counts, lengths, columns)
            starts = np.r_[0, np.cumsum(counts)]
            bounds[key] = starts[np.searchsorted(places, np.arange(len(channels) + 1))]
            rows[key] = dict(zip(names, joined, strict=True))
        return cls(channels, rows, bounds)

    @classmethod
    def of_channels(cls, events: Mapping[int, Sequence[SortedEvents]]) -> ChannelEvents:
        parts: dict[Key, list[EventRuns]] = {}
        for place, own in enumerate(events.values()):
            for key, columns in chain.from_iterable(part.items() for part in own):
                count = len(columns["at_ns"])
                runs = EventRuns(np.array([place]), np.array([count]), dict(columns))
                parts.setdefault(key, []).append(runs)
        return cls.of_parts(np.array(list(events), np.int64), parts)

    @cached_property
    def _place_of(self) -> dict[int, int]:
        return {channel: place for place, channel in enumerate(self.channels.tolist())}

    def __getitem__(self, channel: int) -> SortedEvents:
        place = self._place_of[channel]
        return SortedEvents(self.of_range(place, place + 1).rows)

    def of_range(self, start: int, end: int) -> ChannelEvents:
        rows, bounds = {}, {}
        for key, columns in self.rows.items():
            own = self.bounds[key][start : end + 1]
            low, high = int(own[0]), int(own[-1])
            if high > low:
                rows[key] = {name: values[low:high] for name, values in columns.items()}
                bounds[key] = own - low
        return ChannelEvents(self.channels[start:end], rows, bounds)

    def replace(self, others: Sequence[ChannelEvents]) -> None:
        """Replace the events of the channels that `others` have."""
        if not others:
            return
        others_places = [[self._place_of[each] for each in own.channels.tolist()] for own in others]
        is_kept = np.ones(len(self.channels), bool)
        is_kept[np.concatenate(others_places)] = False
        for key in dict.fromkeys(chain(self.rows, *(other.rows for other in others))):
            own = self.rows.pop(key, {})
            counts = np.diff(self.bounds.pop(key, np.zeros(len(self.channels) + 1, np.int64)))
            keep = np.repeat(is_kept, counts)
            parts = []
            if keep.any():
                kept = {name: own.pop(name)[keep] for name in list(own)}
                parts.append(EventRuns(np.flatnonzero(is_kept), counts[is_kept], kept))
            for other, places in zip(others, others_places, strict=True):
                if key in other.rows:
                    more = np.diff(other.bounds[key])
                    parts.append(EventRuns(np.array(places), more, other.rows.pop(key)))
            if parts:
                joined = ChannelEvents.of_parts(self.channels, {key: parts})
                self.rows[key], self.bounds[key] = joined.rows[key], joined.bounds[key]

    def batches(self, axis_ns: int = 1) -> Iterator[tuple[int, int]]:
        """Ranges of places of channels to process together, whose axes have `axis_ns` each."""
        most = max(1, _AXIS_NS // axis_ns)
        rows = np.zeros(len(self.channels) + 1, np.int64)
        for bounds in self.bounds.values():
            rows += bounds
        start = 0
        while start < len(self.channels):
            end = int(np.searchsorted(rows, rows[start] + ROWS_AT_ONCE, side="right")) - 1
            end = min(max(end, start + 1), start + most, len(self.channels))
            yield start, end
            start = end

    def together(self, start: int, end: int) -> SortedEvents:
        """The events of channels in a range of places, as if they were those of one: the sequence
        numbers of each lie in a range of their own, and `channel` is its place in this range."""
        found = SortedEvents(self.of_range(start, end).rows)
        for key, columns in found.items():
            if end - start == 1:
                columns["channel"] = np.broadcast_to(np.int64(0), len(columns["at_ns"]))
                continue
            counts = np.diff(self.bounds[key][start : end + 1])
            columns["channel"] = channel = np.repeat(np.arange(end - start), counts)
            if "sequence_number" in columns:
                columns["sequence_number"] = (channel << CHANNEL_BITS) + columns["sequence_number"]
        return found

    def laid_out(self, from_ns: int, to_ns: int) -> Iterator[tuple[range, SortedEvents, Window]]:
        """Lay all channels on an axis of time, some at a time. Yields: their places, their events
        as of `together` with instants on that axis, and a window on it."""
        low_ns, high_ns = from_ns, to_ns
        for columns in self.rows.values():
            low_ns = min(low_ns, int(columns["at_ns"].min(initial=low_ns)))
            high_ns = max(high_ns, int(columns["at_ns"].max(initial=high_ns)))
        length_ns = high_ns - low_ns + 1
        for start, end in self.batches(length_ns):
            events = self.together(start, end)
            if end - start == 1:
                yield range(start, end), events, Window(from_ns, to_ns)
                continue
            window = Window(from_ns - low_ns, to_ns - low_ns, length_ns, 0, end - start)
            for columns in events.values():
                shift_ns = columns["channel"] * length_ns - low_ns
                if "first_record_ns" in columns:
                    came_ns = columns["first_record_ns"]
                    within_ns = np.clip(came_ns, from_ns, to_ns) + shift_ns
                    columns["first_record_ns"] = np.where(came_ns >= 0, within_ns, came_ns)
                columns["at_ns"] = columns["at_ns"] + shift_ns
            yield range(start, end), events, window


_SET_ASIDE: Mapping[Key, tuple[str, ...]] = {
    (MessageKind.BUFFER_RESPONSE, TracePoint.SENT): (
        *("at_ns", "data_type", "reason", "sequence_number", "payload_bytes", "records"),
        *("first_record_ns", "backlog_buffers", "credit_after"),
    ),
    (MessageKind.BUFFER_RESPONSE, TracePoint.RECEIVED): (
        *("at_ns", "data_type", "sequence_number", "credit_before"),
    ),
    (MessageKind.BUFFER_RESPONSE, TracePoint.CONSUMED): ("at_ns", "data_type", "sequence_number"),
    (MessageKind.ADD_CREDIT, TracePoint.RECEIVED): ("at_ns", "credit_after"),
    (MessageKind.RESUME_CONSUMPTION, TracePoint.RECEIVED): ("at_ns",),
    (MessageKind.BUFFER_RESPONSE, TracePoint.WRITER_WAITS): ("at_ns",),
    (MessageKind.BUFFER_RESPONSE, TracePoint.WRITER_RESUMES): ("at_ns",),
}
"""Columns that regimes and round trips of credit need, by kind and point."""

_PLACED = frozenset(_SET_ASIDE) - {
    (MessageKind.BUFFER_RESPONSE, TracePoint.RECEIVED),
    (MessageKind.BUFFER_RESPONSE, TracePoint.CONSUMED),
}
"""Kinds and points whose order among all events is needed."""


class SetAside:
    """The events of some channels from one instant to another, copied from blocks."""

    def __init__(self, channels: IntArray, from_ns: int, to_ns: int) -> None:
        self._channels = channels
        self._by_number = np.argsort(channels)
        self._from_ns, self._to_ns = from_ns, to_ns
        self._rows = 0
        self._parts: dict[Key, list[EventRuns]] = {}

    def take(self, block: EventBlock, first_ns: int, last_ns: int) -> None:
        """Set aside the needed events of the next block, which has those of [first_ns, last_ns]."""
        if last_ns < self._from_ns or first_ns >= self._to_ns:
            return
        is_inside = first_ns >= self._from_ns and last_ns < self._to_ns
        spans = block.spans
        places, is_known = self._places(spans.channel)
        for key, names in _SET_ASIDE.items():
            wanted = np.flatnonzero(is_known & (spans.kind == key[0]) & (spans.point == key[1]))
            if not len(wanted):
                continue
            own, place = spans.only(wanted), places[wanted]
            counts = own.ends - own.starts
            names = (*names, "order") if key in _PLACED else names
            held = self._parts.setdefault(key, [])
            before = np.cumsum(counts) - counts
            rows = np.repeat(own.starts - before, counts) + np.arange(counts.sum())
            if not is_inside:
                at_ns, run = block["at_ns"].take(rows), np.repeat(np.arange(len(place)), counts)
                keep = (at_ns >= self._from_ns) & (at_ns < self._to_ns)
                rows, counts = rows[keep], np.bincount(run[keep], minlength=len(place))
            part = {name: block[name].take(rows) for name in names}
            if key in _PLACED:
                part["place"] = part.pop("order").astype(np.int64) + self._rows
            held.append(EventRuns(place, counts, part))
        self._rows += len(block["at_ns"])

    def _places(self, channels: IntArray) -> tuple[IntArray, IntArray]:
        if not len(self._channels):
            return channels, np.zeros(len(channels), bool)
        found = np.searchsorted(self._channels, channels, sorter=self._by_number)
        places = self._by_number[np.minimum(found, len(self._channels) - 1)]
        return places, self._channels[places] == channels

    def events(self) -> ChannelEvents:
        parts, self._parts = self._parts, {}
        return ChannelEvents.of_parts(self._channels, parts)
