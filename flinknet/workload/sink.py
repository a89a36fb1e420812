"""LatencySink: takes the records of one channel, checks that each comes once and in order, and measures latency.

Everything is done for a run of records at once. The stamps of a sound run, minus the numbers they must have, are its
instants: one subtraction checks the order and yields the latencies.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from flinknet.histogram import LogLinearHistogram

from .payload import (
    INSTANT_BITS,
    INSTANT_MASK,
    LATENESS_OFFSET,
    OVERHEAD_BYTES,
    SMALLEST_WITH_LATENESS_BYTES,
    STAMP_OFFSET,
    WORD_MASK,
)

IntArray = NDArray[np.int64]

_NUMBER_BITS = 64 - INSTANT_BITS
_NUMBER_MASK = (1 << _NUMBER_BITS) - 1
_SAMPLES_KEPT = 8192
_NUMBERS = np.arange(8192, dtype=np.uint64) << np.uint64(INSTANT_BITS)


class RunOfRecords(Protocol):
    """Records of equal length, back to back (consumer.RecordRun)."""

    memory: memoryview | bytearray
    offset: int
    count: int
    record_bytes: int


@dataclass(slots=True)
class Disorder:
    """What is wrong with the records of a channel; all zero when every record came once and in order."""

    lost: int = 0
    repeated: int = 0
    reordered: int = 0

    @property
    def is_none(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.repeated or self.reordered)


class LatencySink:
    """Counts, checks and times the records of one channel.

    Records count as measured when their intended instant lies in [measured_from_ns, measured_to_ns). The measured
    part may be set while records flow, before its first record comes.

    Args:
        epoch_ns: the instant that stamps count from.
        delay_ns_per_record: how long the task takes for each record; latencies include it.
        is_open_loop: records were due at an instant of their own; else they were emitted when there was room, and the
            uncorrected latency is the same as the corrected one and not kept.
    """

    def __init__(
        self, *, epoch_ns: int, delay_ns_per_record: int = 0, is_open_loop: bool = True
    ) -> None:
        self._epoch_ns = epoch_ns
        self._is_open_loop = is_open_loop
        self._delay_ns = delay_ns_per_record
        self.measured_from_ns = 0
        self.measured_to_ns: int | None = None
        self.records = 0
        self.disorder = Disorder()
        self.measured_records = 0
        self.measured_bytes = 0
        self.last_measured_ns = 0
        self.latency = LogLinearHistogram()
        self.uncorrected = LogLinearHistogram()
        self.first_record_ns = -1
        self.last_record_ns = -1
        self._values: list[IntArray] = []
        self._weights: list[IntArray] = []
        self._singles: list[int] = []
        self._uncorrected: list[IntArray] = []
        self._uncorrected_singles: list[int] = []
        self._kept = 0

    def receive(self, run: RunOfRecords, *, now_ns: int) -> int:
        """Take a run of records. `now_ns` is when the task begins with the first of them.

        Sets `first_record_ns` and `last_record_ns` to the intended instants of the run.

        Returns: the instant at which the task is done with the last of them.
        """
        count = run.count
        expected = self.records
        self.records = expected + count
        done_ns = now_ns + self._delay_ns * count
        if count == 1:
            self._receive_one(run, expected, done_ns)
            return done_ns
        if count > len(_NUMBERS):
            return self._receive_in_pieces(run, now_ns, expected)
        instants = (
            np.ndarray((count,), ">u8", run.memory, run.offset + STAMP_OFFSET, (run.record_bytes,))
            - _NUMBERS[:count]
        )
        instants -= np.uint64((expected << INSTANT_BITS) & WORD_MASK)
        if int(instants.max()) > INSTANT_MASK:
            self._find_disorder(run, expected)
            instants &= np.uint64(INSTANT_MASK)
        since_epoch = instants.view(np.int64)
        first, last = int(since_epoch[0]), int(since_epoch[-1])
        self.first_record_ns = first + self._epoch_ns
        self.last_record_ns = last + self._epoch_ns
        self._measure(run, since_epoch, first, last, now_ns)
        return done_ns

    def _receive_one(self, run: RunOfRecords, expected: int, done_ns: int) -> None:
        start = run.offset + STAMP_OFFSET
        stamp = int.from_bytes(run.memory[start : start + 8], "big")
        if stamp >> INSTANT_BITS != expected & _NUMBER_MASK:
            self._find_disorder(run, expected)
        instant = (stamp & INSTANT_MASK) + self._epoch_ns
        self.first_record_ns = self.last_record_ns = instant
        if self._is_measured(instant):
            latency = done_ns - instant
            self._note_measured(run, 1, done_ns)
            self._singles.append(latency)
            if self._has_lateness(run):
                at = run.offset + LATENESS_OFFSET
                lateness = int.from_bytes(run.memory[at : at + 8], "big", signed=True)
                self._uncorrected_singles.append(latency - lateness)

    def _receive_in_pieces(self, run: RunOfRecords, now_ns: int, expected: int) -> int:
        self.records = expected
        first_ns = -1
        for start in range(0, run.count, len(_NUMBERS)):
            piece = _Piece(
                run.memory,
                run.offset + start * run.record_bytes,
                min(len(_NUMBERS), run.count - start),
                run.record_bytes,
            )
            now_ns = self.receive(piece, now_ns=now_ns)
            first_ns = self.first_record_ns if first_ns < 0 else first_ns
        self.first_record_ns = first_ns
        return now_ns

    def _is_measured(self, instant_ns: int) -> bool:
        to_ns = self.measured_to_ns
        return instant_ns >= self.measured_from_ns and (to_ns is None or instant_ns < to_ns)

    def _measure(
        self, run: RunOfRecords, since_epoch: IntArray, first: int, last: int, now_ns: int
    ) -> None:
        count = run.count
        low, high = 0, count
        if not (
            self._is_measured(first + self._epoch_ns) and self._is_measured(last + self._epoch_ns)
        ):
            low = int(np.searchsorted(since_epoch, self.measured_from_ns - self._epoch_ns))
            if self.measured_to_ns is not None:
                high = int(np.searchsorted(since_epoch, self.measured_to_ns - self._epoch_ns))
            if low >= high:
                return
        now = now_ns - self._epoch_ns
        done_ns = now_ns + self._delay_ns * high
        if first == last and not self._is_open_loop and not self._delay_ns:
            # a batch emitted at one instant, as at the highest rate: one value, many times
            self._values.append(np.array((now - first,), np.int64))
            self._weights.append(np.array((high - low,), np.int64))
            self._note_measured(run, high - low, done_ns)
            return
        latency = now - since_epoch[low:high]
        if self._delay_ns:
            latency += self._delay_ns * np.arange(low + 1, high + 1)
        self._values.append(latency)
        self._weights.append(np.ones(high - low, np.int64))
        self._kept += high - low
        if self._has_lateness(run):
            lateness = np.ndarray(
                (count,), ">i8", run.memory, run.offset + LATENESS_OFFSET, (run.record_bytes,)
            )
            self._uncorrected.append(latency - lateness[low:high])
        self._note_measured(run, high - low, done_ns)

    def _note_measured(self, run: RunOfRecords, records: int, done_ns: int) -> None:
        self.measured_records += records
        self.measured_bytes += records * (run.record_bytes - OVERHEAD_BYTES)
        self.last_measured_ns = done_ns
        self._kept += 1
        if self._kept >= _SAMPLES_KEPT:
            self.settle()

    def _has_lateness(self, run: RunOfRecords) -> bool:
        return (
            self._is_open_loop and run.record_bytes >= OVERHEAD_BYTES + SMALLEST_WITH_LATENESS_BYTES
        )

    def settle(self) -> None:
        """Bring the histograms up to date with what was kept for a larger batch."""
        if self._values:
            self.latency.add_weighted(np.concatenate(self._values), np.concatenate(self._weights))
            self._values.clear()
            self._weights.clear()
        if self._uncorrected:
            self.uncorrected.add(np.concatenate(self._uncorrected))
            self._uncorrected.clear()
        self.latency.add(self._singles)
        self._singles.clear()
        self.uncorrected.add(self._uncorrected_singles)
        self._uncorrected_singles.clear()
        self._kept = 0

    def check_total(self, sent_records: int) -> None:
        """Compare with what the producer says it sent: shows losses at the very end, and whole wraps of the number."""
        missing = sent_records - self.records
        if missing > 0:
            self.disorder.lost += missing
        elif missing < 0:
            self.disorder.repeated -= missing

    def _find_disorder(self, run: RunOfRecords, expected: int) -> None:
        """Count what is wrong in a run whose numbers are not the expected ones, and follow the stream from there."""
        stamps = np.ndarray(
            (run.count,), ">u8", run.memory, run.offset + STAMP_OFFSET, (run.record_bytes,)
        )
        numbers = (stamps.astype(np.uint64) >> np.uint64(INSTANT_BITS)).astype(np.int64)
        for number in numbers.tolist():
            step = (number - expected) & _NUMBER_MASK
            if step == 0:
                expected += 1
            elif step < _NUMBER_MASK // 2:
                self.disorder.lost += step
                expected += step + 1
            elif step == _NUMBER_MASK:
                self.disorder.repeated += 1
            else:
                self.disorder.reordered += 1
        self.records = expected


@dataclass(slots=True)
class _Piece:
    memory: memoryview | bytearray
    offset: int
    count: int
    record_bytes: int
