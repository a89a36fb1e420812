"""Random keys and sizes of a source's records. The same seed gives the same draws, in whatever
portions they are taken.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flinknet.arrays import IntArray
from flinknet.config import EXPONENTIAL, RecordSize

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
        """The values of the next records."""
        if len(self._drawn) < count:
            more = self._draw(max(count, self._more))
            self._more = min(2 * self._more, _MOST_DRAWN)
            self._drawn = np.concatenate((self._drawn, more))
        taken, self._drawn = self._drawn[:count], self._drawn[count:]
        return taken

    @abstractmethod
    def _draw(self, count: int) -> IntArray: ...


class KeyDraws(_Draws):
    """Keys from 0 on, uniform or Zipf-distributed with key 0 the most frequent.

    Args:
        keys: number of distinct keys.
        skew: exponent of the distribution; 0 for uniform.
    """

    def __init__(self, keys: int, skew: float, seed: int) -> None:
        super().__init__(seed)
        self._keys = keys
        self._skew = skew
        self._share_ends: NDArray[np.float64] | None = None

    def _draw(self, count: int) -> IntArray:
        if not self._skew:
            return self._random.integers(0, self._keys, count)
        if self._share_ends is None:
            self._share_ends = _zipf(self._keys, self._skew)
        return np.searchsorted(self._share_ends, self._random.random(count))


def _zipf(keys: int, skew: float) -> NDArray[np.float64]:
    """Cumulative share of the keys, from 0 to 1."""
    ends = np.cumsum(np.arange(1, keys + 1, dtype=np.float64) ** -skew)
    ends /= ends[-1]
    return ends


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
