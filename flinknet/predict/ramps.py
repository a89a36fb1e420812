"""When records came, as stretches of time with so many records in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray

LONG_RUN = 512
"""Stretches that stand together, from which on they are copied as a piece, and not one by one."""


@dataclass(frozen=True, slots=True, eq=False)
class Ramps:
    """Instants of records, so many to each stretch of time, evenly spaced in it; int64 columns,
    ascending.

    Record j of n came at first + (last - first) * j // (n - 1).
    """

    records: IntArray
    first_ns: IntArray
    last_ns: IntArray

    @classmethod
    def of(cls, instants_ns: IntArray) -> Ramps:
        """Records that each have an instant of their own."""
        return cls(np.ones(len(instants_ns), np.int64), instants_ns, instants_ns)

    @property
    def total_records(self) -> int:
        """Number of records."""
        return int(self.records.sum())

    @property
    def ends_ns(self) -> IntArray:
        """When the last record of each stretch came; one alone comes at its beginning."""
        return np.where(self.records > 1, self.last_ns, self.first_ns)

    def instants(self) -> tuple[IntArray, IntArray]:
        """For each record the index of its stretch, and its instant."""
        records = self.records
        ramp = np.repeat(np.arange(len(records)), records)
        position = np.arange(len(ramp)) - np.repeat(np.cumsum(records) - records, records)
        steps = np.maximum(records - 1, 1)[ramp]
        length_ns = (self.last_ns - self.first_ns)[ramp]
        return ramp, self.first_ns[ramp] + length_ns * position // steps

    def within(self, from_ns: int, to_ns: int) -> Ramps:
        """Those that came in [from_ns, to_ns); a stretch at the edge is cut."""
        return self.cut(from_ns, to_ns)[0]

    def cut(self, from_ns: int, to_ns: int) -> tuple[Ramps, IntArray]:
        """The same, and the places of the stretches that are left."""
        kept = np.flatnonzero((self.first_ns < to_ns) & (self.last_ns >= from_ns))
        own = self if len(kept) == len(self) else self._where(kept)
        is_cut = (own.first_ns < from_ns) | (own.last_ns >= to_ns)
        if not is_cut.any():
            return own, kept
        ramp, instants_ns = own._where(is_cut).instants()
        keep = (instants_ns >= from_ns) & (instants_ns < to_ns)
        cut, starts, counts = np.unique(ramp[keep], return_index=True, return_counts=True)
        places = np.flatnonzero(is_cut)[cut]
        records = own.records * ~is_cut
        first_ns, last_ns = own.first_ns.copy(), own.last_ns.copy()
        records[places] = counts
        first_ns[places] = instants_ns[keep][starts]
        last_ns[places] = instants_ns[keep][starts + counts - 1]
        is_left = records > 0
        return Ramps(records, first_ns, last_ns)._where(is_left), kept[is_left]

    def faster(self, factor: float, from_ns: int) -> Ramps:
        """The same records, so many times as many in each stretch of time from an instant on."""

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

    def in_runs(self, starts: IntArray, counts: IntArray) -> Ramps:
        """Some runs of them, one after the other."""
        columns = self.records, self.first_ns, self.last_ns
        total = int(counts.sum())
        if total >= LONG_RUN * len(counts) > 0:
            runs = list(zip(starts.tolist(), (starts + counts).tolist(), strict=True))
            return Ramps(
                *(np.concatenate([each[low:high] for low, high in runs]) for each in columns)
            )
        rows = np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(total)
        return Ramps(*(each.take(rows) for each in columns))

    def _where(self, keep: npt.NDArray[Any]) -> Ramps:
        return Ramps(self.records[keep], self.first_ns[keep], self.last_ns[keep])


@dataclass(frozen=True, slots=True, eq=False)
class ChannelRamps:
    """The records of several channels in few arrays, so that what is done to them is done once.

    Attributes:
        channels: ascending.
        bounds: where the stretches of each channel begin, and where the last ones end.
        ramps: of all channels, one after the other.
    """

    channels: IntArray
    bounds: IntArray
    ramps: Ramps

    @classmethod
    def of(cls, channels: IntArray, channel: IntArray, ramps: Ramps) -> ChannelRamps:
        """Stretches of some channels, those of each in their order; `channel`: of each stretch."""
        starts = run_starts(channel)
        place = np.searchsorted(channels, channel[starts])
        counts = np.diff(starts, append=len(channel))
        own = np.zeros(len(channels), np.int64)
        np.add.at(own, place, counts)
        if (place[1:] < place[:-1]).any():
            order = np.argsort(place, kind="stable")
            ramps = ramps.in_runs(starts[order], counts[order])
        return cls(channels, np.r_[0, np.cumsum(own)], ramps)

    @property
    def is_ascending(self) -> bool:
        """Whether the stretches of each channel begin one after the other."""
        first_ns = self.ramps.first_ns
        back = np.flatnonzero(first_ns[1:] < first_ns[:-1]) + 1
        return bool(np.isin(back, self.bounds).all())

    @property
    def channel(self) -> IntArray:
        """Of each stretch."""
        return np.repeat(self.channels, np.diff(self.bounds))

    def within(self, from_ns: int, to_ns: int) -> ChannelRamps:
        """As `Ramps.within`."""
        ramps, kept = self.ramps.cut(from_ns, to_ns)
        return ChannelRamps(self.channels, np.searchsorted(kept, self.bounds), ramps)

    def faster(self, factor: float, from_ns: int) -> ChannelRamps:
        """As `Ramps.faster`."""
        return ChannelRamps(self.channels, self.bounds, self.ramps.faster(factor, from_ns))

    def only(self, channels: IntArray) -> ChannelRamps:
        """Those of some channels; of one that is not there, none."""
        if np.array_equal(channels, self.channels):
            return self
        own = self.channel
        keep = np.isin(own, channels)
        return ChannelRamps.of(channels, own[keep], self.ramps._where(keep))

    @classmethod
    def joined(cls, parts: Sequence[ChannelRamps]) -> ChannelRamps:
        """One after the other, of the same channels."""
        channel = np.concatenate([each.channel for each in parts])
        return cls.of(parts[0].channels, channel, Ramps.joined([each.ramps for each in parts]))

    def by_channel(self) -> dict[int, Ramps]:
        """Those of each channel."""
        bounds, ramps = pairwise(self.bounds.tolist()), self.ramps
        columns = ramps.records, ramps.first_ns, ramps.last_ns
        return {
            channel: Ramps(*(each[start:end] for each in columns))
            for channel, (start, end) in zip(self.channels.tolist(), bounds, strict=True)
        }


def run_starts(channel: IntArray) -> IntArray:
    """Where the rows of another channel begin; channels are not negative."""
    return np.flatnonzero(np.diff(channel, prepend=-1))
