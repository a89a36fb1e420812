"""Latencies of channels with few records each, as arrays of all of them: a histogram for each takes
45 KB and a millisecond."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from flinknet.arrays import IntArray
from flinknet.histogram import BUCKETS, bucket_index, encoded

from ..spark.frames import Columns

_NONE = np.zeros(0, np.int64)


class FewLatencies:
    """Records and buffers as they come; rows of LatencyPart in the end."""

    def __init__(self) -> None:
        self.size = 0
        self._buffers: list[tuple[IntArray, IntArray, IntArray]] = []
        self._records: list[tuple[IntArray, IntArray]] = []

    def add_buffers(
        self, channel: IntArray, payload_bytes: IntArray, consumed_to_ns: IntArray
    ) -> None:
        """Take what counts of some buffers.

        Args:
            consumed_to_ns: when each was consumed; 0 if none of its records count.
        """
        self._buffers.append((channel, payload_bytes, consumed_to_ns))
        self.size += len(channel)

    def add_records(self, channel: IntArray, latency_ns: IntArray) -> None:
        """Take the latencies of some records; their buffers are added, too."""
        self._records.append((channel, latency_ns))
        self.size += len(channel)

    def answers(self, run: int) -> Iterator[Columns]:
        """The columns of LatencyPart, a row for each channel; none without any."""
        if not self._buffers:
            return
        own, payload_bytes, consumed_ns = map(np.concatenate, zip(*self._buffers, strict=True))
        channels, place = np.unique(own, return_inverse=True)
        consumed_to_ns = np.zeros(len(channels), np.int64)
        np.maximum.at(consumed_to_ns, place, consumed_ns)
        yield {
            "run": np.full(len(channels), run),
            "channel": channels,
            "payload_bytes": np.bincount(place, payload_bytes, len(channels)),
            "consumed_to_ns": consumed_to_ns,
            "histogram": self._histograms(channels),
        }

    def _histograms(self, channels: IntArray) -> list[bytes]:
        """The histogram of each channel, encoded."""
        records = zip(*self._records, strict=True) if self._records else (_NONE, _NONE)
        channel, latency_ns = (np.concatenate([_NONE, *each]) for each in records)
        keys = np.searchsorted(channels, channel) * BUCKETS + bucket_index(latency_ns)
        order = np.argsort(keys, kind="stable")
        keys, latency_ns = keys[order], latency_ns[order]
        found, counts = np.unique(keys, return_counts=True)
        place, bucket = np.divmod(found, BUCKETS)
        edges = np.arange(len(channels) + 1)
        bounds = pairwise(np.searchsorted(place, edges).tolist())
        starts = np.searchsorted(keys, edges * BUCKETS)
        has_any = np.flatnonzero(np.diff(starts))
        totals = []
        for each in (np.add, np.minimum, np.maximum):
            values = np.zeros(len(channels), np.int64)
            if len(has_any):
                values[has_any] = each.reduceat(latency_ns, starts[has_any])
            totals.append(values.tolist())
        return [
            encoded(bucket[start:end], counts[start:end], *of_all)
            for (start, end), of_all in zip(bounds, zip(*totals, strict=True), strict=True)
        ]
