"""Instants of records, as stretches of time with a number of records in each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray

LONG_RUN = 512
"""Fewest consecutive rows that are copied as a piece and not row by row: 65,536 rows take 17
instead of 48 us in pieces of 4,096, and 228 in pieces of 64."""


@dataclass(frozen=True, slots=True, eq=False)
class Ramps:
    """Instants of records, evenly spaced in stretches of time; int64 columns, ascending. Record j
    of n came at first + (last - first) * j // (n - 1)."""

    records: IntArray
    first_ns: IntArray
    last_ns: IntArray

    @classmethod
    def of(cls, instants_ns: IntArray) -> Ramps:
        """Records that each have an instant of their own."""
        return cls(np.ones(len(instants_ns), np.int64), instants_ns, instants_ns)

    @property
    def total_records(self) -> int:
        return int(self.records.sum())

    @property
    def ends_ns(self) -> IntArray:
        """When the last record of each stretch came; one alone comes at its beginning."""
        is_early = (self.records <= 1) & (self.last_ns != self.first_ns)
        if not is_early.any():  # as good as always
            return self.last_ns
        return np.where(is_early, self.first_ns, self.last_ns)

    def instants(self) -> tuple[IntArray, IntArray]:
        """For each record the index of its stretch, and its instant."""
        records = self.records
        if (records == 1).all():
            return np.arange(len(records)), self.first_ns
        ramp = np.repeat(np.arange(len(records)), records)
        position = np.arange(len(ramp)) - np.repeat(np.cumsum(records) - records, records)
        steps = np.maximum(records - 1, 1)[ramp]
        length_ns = (self.last_ns - self.first_ns)[ramp]
        return ramp, self.first_ns[ramp] + length_ns * position // steps

    def within(self, from_ns: int, to_ns: int) -> Ramps:
        """Records that came in [from_ns, to_ns); a stretch at the edge is cut."""
        return self.cut(from_ns, to_ns)[0]

    def cut(self, from_ns: int, to_ns: int) -> tuple[Ramps, IntArray]:
        """Records that came in [from_ns, to_ns), and the places of the stretches that are left."""
        kept = np.flatnonzero((self.first_ns < to_ns) & (self.last_ns >= from_ns))
        own = self if len(kept) == len(self) else self.take(kept)
        is_cut = (own.first_ns < from_ns) | (own.last_ns >= to_ns)
        if not is_cut.any():
            return own, kept
        ramp, instants_ns = own.take(is_cut).instants()
        keep = (instants_ns >= from_ns) & (instants_ns < to_ns)
        cut, starts, counts = np.unique(ramp[keep], return_index=True, return_counts=True)
        places = np.flatnonzero(is_cut)[cut]
        records = own.records * ~is_cut
        first_ns, last_ns = own.first_ns.copy(), own.last_ns.copy()
        records[places] = counts
        first_ns[places] = instants_ns[keep][starts]
        last_ns[places] = instants_ns[keep][starts + counts - 1]
        is_left = records > 0
        return Ramps(records, first_ns, last_ns).take(is_left), kept[is_left]

    def faster(self, factor: float, from_ns: int) -> Ramps:
        """Records at a rate that is `factor` times as high from an instant on."""

        def scaled(instants_ns: IntArray) -> IntArray:
            return from_ns + np.round((instants_ns - from_ns) / factor).astype(np.int64)

        return Ramps(self.records, scaled(self.first_ns), scaled(self.last_ns))

    @classmethod
    def joined(cls, parts: Sequence[Ramps]) -> Ramps:
        """One after the other."""
        return cls(
            np.concatenate([each.records for each in parts]),
            np.concatenate([each.first_ns for each in parts]),
            np.concatenate([each.last_ns for each in parts]),
        )

    def __len__(self) -> int:
        return len(self.records)

    @property
    def columns(self) -> tuple[IntArray, IntArray, IntArray]:
        return self.records, self.first_ns, self.last_ns

    def take(self, rows: slice | npt.NDArray[Any]) -> Ramps:
        """Some stretches: a range, by their places, or by a mask."""
        return Ramps(*(each[rows] for each in self.columns))


@dataclass(frozen=True, slots=True, eq=False)
class ChannelRamps:
    """The records of several channels in few arrays, so that operations act on all of them."""

    channels: IntArray  # ascending
    starts: IntArray  # of each channel, the place of its first stretch in `ramps`
    ends: IntArray  # and behind its last one
    ramps: Ramps  # may have stretches of other channels

    @classmethod
    def of(cls, parts: Sequence[tuple[IntArray, Ramps]]) -> ChannelRamps:
        """Stretches of channels, those of each in their order; parts come with the channel of each
        stretch."""
        starts = [run_starts(channel) for channel, _ in parts]
        counts = [
            np.diff(own, append=len(channel))
            for own, (channel, _) in zip(starts, parts, strict=True)
        ]
        source = np.repeat(np.arange(len(parts)), [len(own) for own in starts])
        of_runs = [channel[own] for own, (channel, _) in zip(starts, parts, strict=True)]
        channels, place = np.unique(_one(of_runs), return_inverse=True)
        order = np.argsort(place, kind="stable")
        runs = (each[order] for each in (source, _one(starts), _one(counts)))
        return cls._of_runs(channels, place[order], [ramps for _, ramps in parts], *runs)

    @classmethod
    def joined(cls, parts: Sequence[ChannelRamps]) -> ChannelRamps:
        """One after the other, of the same channels."""
        channels = parts[0].channels
        source = np.tile(np.arange(len(parts)), len(channels))
        starts, counts = (
            np.stack(each, axis=1).ravel()
            for each in zip(*((own.starts, own.counts) for own in parts), strict=True)
        )
        place = np.repeat(np.arange(len(channels)), len(parts))
        ramps = [each.ramps for each in parts]
        return cls._of_runs(channels, place, ramps, source, starts, counts)

    @classmethod
    def _of_runs(
        cls,
        channels: IntArray,
        place: IntArray,
        sources: Sequence[Ramps],
        source: IntArray,
        starts: IntArray,
        runs: IntArray,
    ) -> ChannelRamps:
        """Runs of stretches, with the place of the channel of each, ascending; as `joined_runs`."""
        counts = np.zeros(len(channels), np.int64)
        np.add.at(counts, place, runs)
        ends = np.cumsum(counts)
        columns = zip(*(each.columns for each in sources or [Ramps.of(_one([]))]), strict=True)
        lengths = [*map(len, sources)]
        ramps = Ramps(*joined_runs(source, starts, runs, lengths, columns))
        return cls(channels, ends - counts, ends, ramps)

    @property
    def counts(self) -> IntArray:
        return self.ends - self.starts

    @property
    def records(self) -> IntArray:
        sums: IntArray = np.r_[0, np.cumsum(self.ramps.records)]
        return sums[self.ends] - sums[self.starts]

    def in_order(self) -> ChannelRamps:
        """The stretches of each channel by their beginnings, where there are no others."""
        back = np.flatnonzero(self.ramps.first_ns[1:] < self.ramps.first_ns[:-1]) + 1
        if np.isin(back, self.starts).all():  # as good as always
            return self
        channel = np.repeat(np.arange(len(self.channels)), self.counts)
        return replace(self, ramps=self.ramps.take(np.lexsort((self.ramps.first_ns, channel))))

    def within(self, from_ns: int, to_ns: int) -> ChannelRamps:
        """As `Ramps.within`."""
        ramps, kept = self.ramps.cut(from_ns, to_ns)
        starts, ends = (np.searchsorted(kept, each) for each in (self.starts, self.ends))
        return ChannelRamps(self.channels, starts, ends, ramps)

    def faster(self, factor: float, from_ns: int) -> ChannelRamps:
        return replace(self, ramps=self.ramps.faster(factor, from_ns))

    def only(self, channels: IntArray) -> ChannelRamps:
        """The records of some channels; none for an absent one."""
        place = np.searchsorted(self.channels, channels)
        is_there = np.isin(channels, self.channels)
        starts, ends = (
            np.where(is_there, np.r_[each, 0][place], 0) for each in (self.starts, self.ends)
        )
        return ChannelRamps(channels, starts, ends, self.ramps)

    def by_channel(self) -> dict[int, Ramps]:
        bounds = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        columns = self.ramps.columns
        return {
            channel: Ramps(*(each[start:end] for each in columns))
            for channel, (start, end) in zip(self.channels.tolist(), bounds, strict=True)
        }


def joined_runs(
    source: IntArray,
    starts: IntArray,
    counts: IntArray,
    lengths: Sequence[int],
    columns: Iterable[Sequence[IntArray]],
) -> Iterator[IntArray]:
    """Each column as runs of rows, one after the other: of each run the source, the place of its
    first row there, and their number. Columns have the values of each source, whose lengths are
    given."""
    if sum(lengths) >= LONG_RUN * len(counts) > 0:
        ends = (starts + counts).tolist()
        runs = [*zip(source.tolist(), map(slice, starts.tolist(), ends), strict=True)]
        yield from (np.concatenate([each[n][rows] for n, rows in runs]) for each in columns)
        return
    first = starts + np.cumsum([0, *lengths])[source] - (np.cumsum(counts) - counts)
    rows = np.repeat(first, counts) + np.arange(counts.sum())
    for each in columns:
        yield (each[0] if len(each) == 1 else np.concatenate(each)).take(rows)


def run_starts(channel: IntArray) -> IntArray:
    """Places at which the rows of another channel begin."""
    is_start = np.ones(len(channel), bool)
    np.not_equal(channel[1:], channel[:-1], out=is_start[1:])
    return np.flatnonzero(is_start)


def _one(arrays: Sequence[IntArray]) -> IntArray:
    return np.concatenate([*arrays, np.zeros(0, np.int64)])
