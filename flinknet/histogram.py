"""LogLinearHistogram: a mergeable distribution of durations in ns with a bounded relative error.

Runtime, replay and simulator count latencies in the same buckets, so that their percentiles can be
compared and merged. Values below 2 * SUB_BUCKETS have a bucket each; above, every power of two is
divided into SUB_BUCKETS equal buckets:

    0 1 2 … 255 | 256 258 … 510 | 512 516 … 1020 | …         (SUB_BUCKETS = 128)

A bucket is thus at most 1/128 of its lower bound wide, and its middle is off by at most 1/256,
which is 0.4%. Count, sum, minimum and maximum are exact.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray
from flinknet.results import PERCENTILES, SAMPLES_PER_TAIL, LatencyDistribution, LatencySummary

SUB_BUCKET_BITS = 7
SUB_BUCKETS = 1 << SUB_BUCKET_BITS

VALUE_BITS = 50
"""Values from 2**50 ns (13 days) on share the last bucket; float64 is exact for all below."""

BUCKETS = SUB_BUCKETS * (VALUE_BITS - SUB_BUCKET_BITS + 1)

FEW_VALUES = 512
"""Fewer are counted one by one, rather than for all buckets at once."""

_MANTISSA_SHIFT = 52 - SUB_BUCKET_BITS
_EXPONENT_OFFSET = (1023 + SUB_BUCKET_BITS - 1) << SUB_BUCKET_BITS
_SCALAR_BYTES = 16  # a sum of latencies can outgrow 64 bits


def bucket_index(values_ns: IntArray) -> IntArray:
    """The bucket of each value; negative values count as 0.

    Exponent and leading mantissa bits of the float64 are the index: one conversion and one shift
    per value.
    """
    clipped = np.clip(values_ns, 0, (1 << VALUE_BITS) - 1)
    bits = clipped.astype(np.float64).view(np.int64)
    return np.where(clipped < SUB_BUCKETS, clipped, (bits >> _MANTISSA_SHIFT) - _EXPONENT_OFFSET)


def bucket_bounds_ns(index: int) -> tuple[int, int]:
    """The smallest value of a bucket and the smallest value of the next one."""
    if index < 2 * SUB_BUCKETS:
        return index, index + 1
    shift = index // SUB_BUCKETS - 1
    low = (index - shift * SUB_BUCKETS) << shift
    return low, low + (1 << shift)


def encoded(buckets: IntArray, counts: IntArray, total: int, low: int, high: int) -> bytes:
    """A histogram as of `LogLinearHistogram.to_bytes`, from its non-empty buckets in ascending
    order, the sum of its values, and the smallest and the largest of them."""
    scalars = (len(buckets), total, low, high)
    return b"".join(
        [
            *(scalar.to_bytes(_SCALAR_BYTES, "little", signed=True) for scalar in scalars),
            buckets.astype("<i4").tobytes(),
            counts.astype("<i8").tobytes(),
        ]
    )


def encoded_by_group(
    group: IntArray, values_ns: IntArray, weights: IntArray, groups: int
) -> list[bytes]:
    """The encoded histogram of the values of each group, without one in memory.

    Args:
        group, values_ns, weights: of each value; groups count from 0, and weights are above 0.
    """
    keys = group * BUCKETS + bucket_index(values_ns)
    order = np.argsort(keys, kind="stable")
    keys, values_ns, weights = keys[order], values_ns[order], weights[order]
    found, first = np.unique(keys, return_index=True)
    counts = np.add.reduceat(weights, first) if len(first) else weights
    place, bucket = np.divmod(found, BUCKETS)
    edges = np.arange(groups + 1)
    bounds = pairwise(np.searchsorted(place, edges).tolist())
    starts = np.searchsorted(keys, edges * BUCKETS)
    has_any = np.flatnonzero(np.diff(starts))
    totals = []
    for each, of in (
        (np.add, values_ns * weights),
        (np.minimum, values_ns),
        (np.maximum, values_ns),
    ):
        values = np.zeros(groups, np.int64)
        if len(has_any):
            values[has_any] = each.reduceat(of, starts[has_any])
        totals.append(values.tolist())
    return [
        encoded(bucket[start:end], counts[start:end], *of_all)
        for (start, end), of_all in zip(bounds, zip(*totals, strict=True), strict=True)
    ]


class LogLinearHistogram:
    """Counts of values in log-linear buckets, with exact count, sum, min and max.

    Invariants: count equals the sum of `counts`; min and max are None exactly when count is 0.
    """

    __slots__ = ("_counts", "count", "max", "min", "total")

    def __init__(self) -> None:
        self._counts: IntArray | None = None
        self.count = 0
        self.total = 0
        self.min: int | None = None
        self.max: int | None = None

    @property
    def counts(self) -> IntArray:
        """Counts of the buckets. They take 45 KB and are made on demand: many histograms of a short
        run stay empty."""
        if self._counts is None:
            self._counts = np.zeros(BUCKETS, dtype=np.int64)
        return self._counts

    @counts.setter
    def counts(self, counts: IntArray) -> None:
        self._counts = counts

    def add(self, values_ns: npt.ArrayLike, weight: int = 1) -> None:
        """Count each value `weight` times."""
        values = np.asarray(values_ns, dtype=np.int64).ravel()
        if values.size == 0 or weight == 0:
            return
        if values.size < FEW_VALUES:
            np.add.at(self.counts, bucket_index(values), weight)
        else:
            self.counts += weight * np.bincount(bucket_index(values), minlength=BUCKETS)
        self.count += weight * values.size
        self.total += weight * int(values.sum())
        self._widen(int(values.min()), int(values.max()))

    def add_weighted(self, values_ns: IntArray, weights: IntArray) -> None:
        """Count each value with its own weight (> 0)."""
        if values_ns.size == 0:
            return
        if values_ns.size < FEW_VALUES:
            np.add.at(self.counts, bucket_index(values_ns), weights)
        else:
            # bincount sums weights as float64, which is exact below 2**53
            counts = np.bincount(bucket_index(values_ns), weights=weights, minlength=BUCKETS)
            self.counts += counts.astype(np.int64)
        self.count += int(weights.sum())
        self.total += int((values_ns * weights).sum())
        self._widen(int(values_ns.min()), int(values_ns.max()))

    def add_totals(self, count: int, total: int, low: int, high: int) -> None:
        """Add the totals of values that other code has put into `counts`."""
        if count:
            self.count += count
            self.total += total
            self._widen(low, high)

    def merge(self, other: LogLinearHistogram) -> None:
        """Add all values of another histogram."""
        self.counts += other.counts
        self.count += other.count
        self.total += other.total
        if other.min is not None and other.max is not None:
            self._widen(other.min, other.max)

    @property
    def mean(self) -> float | None:
        """Exact mean, None without samples."""
        return self.total / self.count if self.count else None

    def percentile(self, q: float) -> float | None:
        """The value below which the share q (0 to 1) of the samples lies, within 0.4%; None without
        samples."""
        if self.min is None or self.max is None:
            return None
        rank = max(1, int(np.ceil(q * self.count)))
        index = int(np.searchsorted(np.cumsum(self.counts), rank))
        low, high = bucket_bounds_ns(index)
        return float(min(max((low + high - 1) / 2, self.min), self.max))

    def supported_percentile(self, q: float) -> float | None:
        """The percentile, or None with fewer than SAMPLES_PER_TAIL samples on either side of it."""
        if self.count * min(q, 1 - q) < SAMPLES_PER_TAIL - 1e-6:
            return None
        return self.percentile(q)

    def summary(self) -> LatencySummary:
        """The distribution as plain numbers; percentiles of too few samples are None."""
        return LatencySummary(
            count=self.count,
            min=self.min,
            mean=self.mean,
            max=self.max,
            **{name: self.supported_percentile(q) for name, q in PERCENTILES.items()},
        )

    def distribution(self) -> LatencyDistribution | None:
        """Every non-empty bucket with its count; None without samples."""
        filled = np.flatnonzero(self.counts)
        if not filled.size:
            return None
        bounds = [bucket_bounds_ns(index) for index in filled.tolist()]
        found = [(q, self.supported_percentile(q)) for q in PERCENTILES.values()]
        return LatencyDistribution(
            low_ns=tuple(low for low, _ in bounds),
            high_ns=tuple(high for _, high in bounds),
            records=tuple(self.counts[filled].tolist()),
            percentiles=tuple((q, value) for q, value in found if value is not None),
        )

    def to_bytes(self) -> bytes:
        """Encode bucket count, total, min, max (16 bytes each), then indices (int32) and counts
        (int64) of the non-empty buckets.
        """
        filled = np.flatnonzero(self.counts)
        return encoded(filled, self.counts[filled], self.total, self.min or 0, self.max or 0)

    @classmethod
    def from_bytes(cls, *encoded: bytes) -> LogLinearHistogram:
        """Add up histograms from `to_bytes`."""
        histogram = cls()
        for data in encoded:
            size, total, low, high = (
                int.from_bytes(data[at : at + _SCALAR_BYTES], "little", signed=True)
                for at in range(0, 4 * _SCALAR_BYTES, _SCALAR_BYTES)
            )
            if size:
                body = 4 * _SCALAR_BYTES
                indices = np.frombuffer(data, "<i4", count=size, offset=body)
                counts = np.frombuffer(data, "<i8", count=size, offset=body + 4 * size)
                histogram.counts[indices] += counts
                histogram.add_totals(int(counts.sum()), total, low, high)
        return histogram

    def _widen(self, low: int, high: int) -> None:
        self.min = low if self.min is None else min(self.min, low)
        self.max = high if self.max is None else max(self.max, high)
