# mypyc
"""LatencyMeter: the age of records when their last task is done with them."""

from __future__ import annotations

import numpy as np

from flinknet.histogram import LogLinearHistogram

from .elements import NO_TIMESTAMP, Instants

KEPT_LATENCIES = 16_384
"""Latencies added to the histogram at once."""


class LatencyMeter:
    """Latency of a measuring sink, of a load (load.sink.LatencySink) or of a program
    (RecordLatency).

    Records due in [measured_from_ns, measured_to_ns) are measured. Figures are up to date after
    `settle`.

    A base class rather than a protocol, so that compiled code calls it directly.

    Attributes:
        records: all records.
        measured_bytes: bytes of the values of measured records, where known.
        last_measured_ns: when the task was done with the last measured record.
    """

    def __init__(self) -> None:
        self.measured_from_ns = 0
        self.measured_to_ns: int | None = None
        self.records = 0
        self.measured_records = 0
        self.measured_bytes = 0
        self.last_measured_ns = 0
        self.latency = LogLinearHistogram()

    def settle(self) -> None:
        """Add the buffered latencies to the histogram."""
        raise NotImplementedError

    def settle_soon(self) -> None:
        """Settle with the next record: for callers that may not `settle` because a worker is
        adding.
        """
        self.settle()


class RecordLatency(LatencyMeter):
    """Latency of records or batches that operators pass on with their due instants."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[tuple[int, int]] = []  # instant, done
        self._batches: list[tuple[Instants, int]] = []  # instants, when all of them are done
        self._kept_records = 0
        self._kept_max = KEPT_LATENCIES

    def add(self, instant_ns: int, done_ns: int) -> None:
        """Add a record."""
        self.records += 1
        self._kept.append((instant_ns, done_ns))
        if len(self._kept) >= self._kept_max:
            self.settle()

    def add_batch(self, instants: Instants, done_ns: int) -> None:
        """Add records that are done at the same time."""
        count = len(instants)
        self.records += count
        self._batches.append((instants, done_ns))
        self._kept_records += count
        if self._kept_records >= self._kept_max:
            self.settle()

    def settle_soon(self) -> None:
        self._kept_max = 0

    def settle(self) -> None:
        self._kept_max = KEPT_LATENCIES
        if self._kept:
            instants, done = np.array(self._kept, np.int64).T
            self._kept.clear()
            self._count(instants, done)
        if self._batches:
            parts = [each for each, _ in self._batches]
            ends = np.array([end for _, end in self._batches], np.int64)
            self._batches.clear()
            self._kept_records = 0
            self._count(np.concatenate(parts), np.repeat(ends, [len(each) for each in parts]))

    def _count(self, instants: Instants, done: Instants) -> None:
        is_measured = (instants >= self.measured_from_ns) & (instants != NO_TIMESTAMP)
        if self.measured_to_ns is not None:
            is_measured &= instants < self.measured_to_ns
        if not is_measured.all():
            instants, done = instants[is_measured], done[is_measured]
        if len(instants):
            self.measured_records += len(instants)
            self.last_measured_ns = max(self.last_measured_ns, int(done[-1]))
            self.latency.add(done - instants)
