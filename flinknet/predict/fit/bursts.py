"""Load that goes on and off, seen in the buffers that a flusher made of it: how long it is on, and
between which instants the records of each burst came.

The flusher of a producer cuts its bursts into beats, on all its channels at the same instants.
However bursts lie to beats, from the first beat with records to the last one of a burst it takes as
long as the burst is on, on average: a beat comes as much behind its end as behind its beginning. So
the mean of that time tells L, for how long it is on, also where no beat lies wholly within a
burst. A burst has its own rate, its records over L: at that rate those of its first
beat came last in it, and those of its last beat first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from flinknet.arrays import IntArray

from .arrivals import SILENT_BEATS_MAX, Seen

SILENT_SHARE, SILENT_FACTOR = 0.05, 3.0
"""Load goes on and off where this share of a producer's beats has no record, and so many times more
than there would be if records were independent with the mean of the beats that have some."""

RECORDS_MIN = 5.0
"""Records of a producer in a beat, on average of those that have some: fewer come with such silence
by chance, and tell no rate."""

BURSTS_MIN = 10
"""That tell how long they are on."""

EARLY_BEATS = 0.2
"""A beat is no earlier than that. It may be late, and then no beat was silent before it."""

LATE_RECORDS = 1.5
"""A beat after the time of two that has so many times the usual records came late by a whole
one."""

HELD_BEATS = 1.2
"""A buffer with a longer stretch was held back, and its records may have come before its beat."""


@dataclass(frozen=True, slots=True, eq=False)
class Beats:
    """The beats of a producer that have records; columns.

    Attributes:
        at_ns: when its buffers left.
        burst: the number of the burst that it is of.
        from_ns, to_ns: between which instants its records came.
        silent: beats without any, a long silence as at most SILENT_BEATS_MAX.
    """

    at_ns: IntArray
    burst: IntArray
    records: IntArray
    silent: int

    @classmethod
    def of(cls, channels: list[Seen], beat_ns: int) -> Beats:
        """Those of the channels of a producer."""
        left_ns = np.sort(np.concatenate([each.at_ns[each.is_flush] for each in channels]))
        if not len(left_ns):
            return cls(*(np.zeros(0, np.int64),) * 3, 0)
        at_ns = left_ns[np.r_[True, np.diff(left_ns) > beat_ns // 2]]
        records = np.zeros(len(at_ns), np.int64)
        for each in channels:
            np.add.at(records, _place(each, at_ns), each.records)
        gaps = np.floor(np.diff(at_ns) / beat_ns + EARLY_BEATS).astype(np.int64)
        is_late = (gaps == 2) & (records[1:] > LATE_RECORDS * np.median(records))
        gaps[is_late] = 1
        burst = np.r_[0, np.cumsum(gaps > 1)]
        return cls(at_ns, burst, records, int((np.clip(gaps, 1, SILENT_BEATS_MAX) - 1).sum()))

    def spans(self) -> tuple[IntArray, IntArray]:
        """Of each burst, from its first to its last beat, and its records."""
        if not len(self.burst):
            return self.at_ns, self.records
        first = np.flatnonzero(np.r_[True, np.diff(self.burst) > 0])
        last = np.r_[first[1:], len(self.burst)] - 1
        return self.at_ns[last] - self.at_ns[first], np.add.reduceat(self.records, first)

    def on_ns(self, on_ns: float, beat_ns: int) -> tuple[IntArray, IntArray]:
        """From when to when the records of each beat came.

        Args:
            on_ns: how long a burst is on.
        """
        in_burst = np.bincount(self.burst, weights=self.records)[self.burst]
        needs_ns = (self.records / in_burst * on_ns).astype(np.int64)
        since_ns, to_ns = self.at_ns - beat_ns, self.at_ns.copy()
        is_first = np.r_[True, np.diff(self.burst) > 0]
        is_last = np.r_[is_first[1:], True]
        own_ns = np.minimum(needs_ns, beat_ns)
        only, begins, ends = is_first & is_last, is_first & ~is_last, is_last & ~is_first
        since_ns = np.where(begins, self.at_ns - own_ns, since_ns)
        before_ns = np.r_[0, self.at_ns[:-1]]
        since_ns = np.where(is_first, since_ns, np.maximum(since_ns, before_ns))
        to_ns = np.where(ends, since_ns + own_ns, to_ns)
        spare_ns = (beat_ns - own_ns) // 2
        since_ns = np.where(only, since_ns + spare_ns, since_ns)
        to_ns = np.where(only, to_ns - spare_ns, to_ns)
        return since_ns, np.minimum(to_ns, self.at_ns)


@dataclass(frozen=True, slots=True, eq=False)
class Bursts:
    """Bursts of an exchange.

    Attributes:
        on_ns: how long one is on.
        beats: by producer.
    """

    on_ns: float
    beat_ns: int
    beats: Mapping[int, Beats]
    producer_of: Mapping[int, int]

    def within(self, seen: Mapping[int, Seen]) -> dict[int, Seen]:
        """The buffers of each channel with the stretches in which their records came."""
        found = dict(seen)
        spans = {each: own.on_ns(self.on_ns, self.beat_ns) for each, own in self.beats.items()}
        for channel, own in seen.items():
            producer = self.producer_of[channel]
            if not len(self.beats[producer].at_ns):
                continue  # every buffer was full: none shows when its records came
            place = _place(own, self.beats[producer].at_ns)
            begun_ns, ended_ns = (each[place] for each in spans[producer])
            is_held = own.at_ns - own.since_ns > HELD_BEATS * self.beat_ns
            since_ns = np.maximum(own.since_ns, np.minimum(begun_ns, own.at_ns))
            at_ns = np.maximum(np.minimum(own.at_ns, ended_ns), since_ns)
            found[channel] = replace(
                own,
                since_ns=np.where(is_held, own.since_ns, since_ns),
                at_ns=np.where(is_held, own.at_ns, at_ns),
            )
        return found


def find_bursts(
    seen: Mapping[int, Seen], producer_of: Mapping[int, int], beat_ns: int | None
) -> Bursts | None:
    """The bursts of an exchange; None where the load does not go on and off, as far as beats tell.

    Args:
        producer_of: channel to index of its producer.
        beat_ns: from one flush to the next; None where the flusher has no beat that is known.
    """
    if not beat_ns:
        return None
    channels: dict[int, list[Seen]] = {}
    for channel, own in seen.items():
        channels.setdefault(producer_of[channel], []).append(own)
    beats = {each: Beats.of(own, beat_ns) for each, own in channels.items()}
    filled = sum(len(each.at_ns) for each in beats.values())
    silent = sum(each.silent for each in beats.values())
    spans = [each.spans() for each in beats.values()]
    bursts = sum(len(own) for own, _ in spans)
    if bursts < BURSTS_MIN or not filled:
        return None
    mean = sum(int(each.records.sum()) for each in beats.values()) / filled
    by_chance = float(np.exp(-mean))
    if mean < RECORDS_MIN or silent / (filled + silent) < SILENT_SHARE + SILENT_FACTOR * by_chance:
        return None
    lengths_ns = np.concatenate([own for own, _ in spans])
    weights = np.concatenate([own for _, own in spans])
    return Bursts(float(np.average(lengths_ns, weights=weights)), beat_ns, beats, producer_of)


def _place(seen: Seen, beats_ns: IntArray) -> IntArray:
    """In which beat each buffer left: those of a flush just after its first one, full ones before
    the flush that follows."""
    flushed = np.searchsorted(beats_ns, seen.at_ns, side="right") - 1
    full = np.searchsorted(beats_ns, seen.at_ns, side="left")
    return np.clip(np.where(seen.is_flush, flushed, full), 0, max(len(beats_ns) - 1, 0))
