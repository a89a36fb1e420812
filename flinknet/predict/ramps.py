"""When records came, as stretches of time with so many records in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray


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
        own = self._where(kept)
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
        place = np.searchsorted(channels, channel)
        order = np.argsort(place, kind="stable")
        bounds = np.r_[0, np.cumsum(np.bincount(place, minlength=len(channels)))]
        return cls(channels, bounds, ramps._where(order))

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
