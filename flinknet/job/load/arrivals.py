"""Intended instants of records, fixed before the run, so that load is open loop: computed, or those
of a recorded run; and random keys and sizes.

Latency counts from these instants even if the source was delayed (no coordinated omission). The
same seed gives the same instants. All arrays are int64 ns, ascending.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flinknet.arrays import IntArray
from flinknet.config import EXPONENTIAL, ON_OFF, RecordSize, on_off_ns
from flinknet.core.producer.channel_selector import ChannelSelector, Indices

_CHUNK_RECORDS = 16_384


class ScheduledArrivals:
    """Instants generated in chunks by one of these laws.

    Args:
        law: constant, poisson, bursts (groups of `BURST_RECORDS` at one instant, evenly spaced), or
            on-off:ON:OFF (evenly for ON, none for OFF, all sources at the same times).
        rate_per_s: mean rate, silences included.
        start_ns: the first instant is one mean gap (constant: a random part of it) after this.
        records: number of instants from `counted_from_ns` on; None for no end.
        counted_from_ns: earlier instants do not count towards `records`; None to count all.
        give_up_ns: from this instant on, `take` returns nothing and drops the rest; None to keep
            them for as long as it takes.
        seed: of this source.
    """

    BURST_RECORDS = 100

    def __init__(
        self,
        law: str,
        rate_per_s: float,
        *,
        start_ns: int,
        records: int | None,
        seed: int,
        counted_from_ns: int | None = None,
        give_up_ns: int | None = None,
    ) -> None:
        self._law = law
        self._give_up_ns = give_up_ns
        self._gap_ns = 1e9 / rate_per_s
        self._on_ns, self._off_ns = on_off_ns(law) if law.startswith(ON_OFF) else (1, 0)
        self._gap_ns *= self._on_ns / (self._on_ns + self._off_ns)
        self._left = records
        self._counted_from_ns = start_ns if counted_from_ns is None else counted_from_ns
        self._random = np.random.default_rng(seed) if law == "poisson" else None
        # Sources of one rate must not tick in step: each starts at a random phase of the gap.
        self._phase_ns = random.Random(seed).random() * self._gap_ns
        self._origin_ns = start_ns + self._phase_ns
        self._made = 0
        self._chunk: IntArray = np.empty(0, np.int64)
        self._position = 0
        self._refill()

    def next_ns(self) -> int | None:
        """The next intended instant; None after the last."""
        if self._position == len(self._chunk):
            self._refill()
        return int(self._chunk[self._position]) if self._position < len(self._chunk) else None

    def take(self, until_ns: int, limit: int) -> IntArray:
        """Remove and return the instants up to and including `until_ns`, at most `limit`."""
        if self._give_up_ns is not None and until_ns >= self._give_up_ns:
            self._left, self._position = 0, len(self._chunk)
        if self._position == len(self._chunk):
            self._refill()
        start = self._position
        end = int(np.searchsorted(self._chunk, until_ns, side="right"))
        self._position = end = max(start, min(end, start + limit))
        return self._chunk[start:end]

    def _refill(self) -> None:
        if self._left == 0:
            return
        count = _CHUNK_RECORDS
        if self._left is not None and self._counted_from_ns <= self._origin_ns:
            count = min(count, self._left)
        if self._random is not None:
            offsets = np.cumsum(self._random.exponential(self._gap_ns, count))
            instants = self._origin_ns + offsets
            self._origin_ns = float(instants[-1])
        else:
            numbers = np.arange(self._made, self._made + count, dtype=np.float64)
            if self._law == "bursts":
                numbers = np.floor(numbers / self.BURST_RECORDS) * self.BURST_RECORDS
            since_ns = numbers * self._gap_ns
            if self._off_ns:
                since_ns += np.floor((since_ns + self._phase_ns) / self._on_ns) * self._off_ns
            instants = self._origin_ns + since_ns
        self._made += count
        self._position = 0
        self._chunk = instants.astype(np.int64)
        if self._left is not None:
            first_counted = int(np.searchsorted(self._chunk, self._counted_from_ns))
            self._chunk = self._chunk[: first_counted + self._left]
            self._left -= len(self._chunk[first_counted:])


class RecordedArrivals:
    """Recorded or planned instants, up to the last or to `end_ns`, for replay and simulations."""

    def __init__(self, instants_ns: IntArray, end_ns: int | None = None) -> None:
        self._instants = instants_ns
        self._end_ns = end_ns
        self._position = 0
        self._next_ns = int(instants_ns[0]) if len(instants_ns) else end_ns

    def next_ns(self) -> int | None:
        """The next intended instant, then the end of the plan if it has one, then None."""
        return self._next_ns

    def take(self, until_ns: int, limit: int) -> IntArray:
        start, next_ns = self._position, self._next_ns
        if next_ns is None or next_ns > until_ns:
            return self._instants[:0]
        rest = self._instants[start : start + limit]
        taken = rest[: int(rest.searchsorted(until_ns, side="right"))]
        self._position = start + len(taken)
        if self._position < len(self._instants):
            self._next_ns = int(self._instants[self._position])
        else:
            has_ended = self._end_ns is not None and until_ns >= self._end_ns
            self._next_ns = None if has_ended else self._end_ns
        return taken


Arrivals = ScheduledArrivals | RecordedArrivals
"""Source of intended instants."""


_FIRST_DRAWN, _MOST_DRAWN = 128, 8192
"""Draws made at once, first and later: one for a few records takes as long as for a hundred."""


class _Draws(ABC):
    """Random values drawn ahead and taken in portions."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._more = _FIRST_DRAWN
        self._drawn: IntArray = np.empty(0, np.int64)

    @cached_property
    def _random(self) -> np.random.Generator:
        """Made for the first draw: many sources draw nothing."""
        return np.random.default_rng(self._seed)

    def take(self, count: int) -> IntArray:
        if len(self._drawn) < count:
            more = self._draw(max(count, self._more))
            self._more = min(2 * self._more, _MOST_DRAWN)
            self._drawn = np.concatenate((self._drawn, more))
        taken, self._drawn = self._drawn[:count], self._drawn[count:]
        return taken

    @abstractmethod
    def _draw(self, count: int) -> IntArray: ...


class KeyDraws(_Draws):
    """Keys from 0 on, uniform or, with a skew, Zipf-distributed with key 0 the most frequent."""

    def __init__(self, keys: int, skew: float, seed: int) -> None:
        super().__init__(seed)
        self._keys = keys
        self._skew = skew
        self._share_ends: NDArray[np.float64] | None = None

    def _draw(self, count: int) -> IntArray:
        if not self._skew:
            return self._random.integers(0, self._keys, count)
        if self._share_ends is None:  # the cumulative share of the keys, from 0 to 1
            ends = np.cumsum(np.arange(1, self._keys + 1, dtype=np.float64) ** -self._skew)
            ends /= ends[-1]
            self._share_ends = ends
        return np.searchsorted(self._share_ends, self._random.random(count))


TakeSizes = Callable[[int], IntArray]
"""Returns the value sizes of a source's next records, in bytes, given their number."""


class DrawnSizes(_Draws):
    """Random sizes in bytes, by the distribution of a RecordSize."""

    def __init__(self, size: RecordSize, seed: int) -> None:
        super().__init__(seed)
        self._size = size

    def _draw(self, count: int) -> IntArray:
        low, high = self._size.low_bytes, self._size.high_bytes
        if self._size.law == EXPONENTIAL:
            # rounding down to whole bytes costs half a byte on average
            above = self._random.exponential(self._size.mean_bytes - low + 0.5, count)
            return np.minimum(low + above, high).astype(np.int64)
        return self._random.integers(low, high, count, np.int64, endpoint=True)


class RecordedSizes:
    """Recorded sizes."""

    def __init__(self, value_bytes: IntArray) -> None:
        self._sizes = value_bytes
        self._position = 0

    def take(self, count: int) -> IntArray:
        start = self._position
        self._position = start + count
        return self._sizes[start : start + count]


class RecordedSelector(ChannelSelector):
    """Routes each record to its recorded or planned subpartition, or all to `only`."""

    def __init__(self, subpartitions: NDArray[np.int32] | None, only: int = 0) -> None:
        self._subpartitions = subpartitions
        self._only = only
        self._position = 0

    def split(self, records: int, keys: NDArray[np.int64] | None) -> list[tuple[int, Indices]]:
        subpartitions = self._subpartitions
        if subpartitions is None:
            return [(self._only, slice(0, records))]
        start = self._position
        self._position = end = start + records
        if records == 1:
            return [(int(subpartitions[start]), slice(0, 1))]
        picked = subpartitions[start:end]
        return [
            (subpartition, np.flatnonzero(picked == subpartition))
            for subpartition in sorted(set(picked.tolist()))
        ]
