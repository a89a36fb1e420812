# mypyc
"""LatencySink: takes the records of one channel, checks that each arrives once and in order, and
measures latency.

While records flow, only their stamps are copied, a run at a time. Some ten thousand stamps are
checked and counted at once (`settle`). In a sound stream, the stamps minus the expected numbers are
the instants: one subtraction checks the order and yields the latencies. Records that Flink wrote
are counted, or checked by stamps of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flinknet.arrays import IntArray
from flinknet.config import SMALLEST_VALUE_BYTES
from flinknet.core.wire.records import LENGTH_PREFIX_BYTES, OVERHEAD_BYTES
from flinknet.errors import FrameCorruptedError
from flinknet.histogram import LogLinearHistogram

from ..task_chain import LatencyMeter
from .payload import (
    INSTANT_BITS,
    INSTANT_MASK,
    LATENESS_OFFSET,
    SMALLEST_WITH_LATENESS_BYTES,
    STAMP_OFFSET,
    WORD_MASK,
)

Run = tuple[memoryview | bytearray, int, int, int]
"""Memory, offset, count and length of records of equal length (core.consumer.RecordRun)."""

KEPT_STAMPS = 16_384
"""Stamps checked and counted at once, in 0.2 ms; half as many if each has an instant of its own,
which takes twice as long, unless more arrive at once. A run is cut where it exceeds this."""

_STAMP = np.dtype(">u8")
_LATENESS = np.dtype(">i8")

_NUMBER_MASK = (1 << (64 - INSTANT_BITS)) - 1
_NUMBERS = np.arange(KEPT_STAMPS, dtype=np.uint64) << np.uint64(INSTANT_BITS)

_NO_LATENESS = -(2**63)
"""Lateness of a record too small to carry it."""


@dataclass(slots=True)
class Disorder:
    """Errors in the sequence of a channel's records; all zero if each arrived once and in order."""

    lost: int = 0
    repeated: int = 0
    reordered: int = 0


class LatencySink(LatencyMeter):
    """Counts, checks and times the records of one channel by their intended instants.

    Args:
        epoch_ns: instant that stamps count from.
        delay_ns_per_record: time the task takes per record; latencies include it.
        is_open_loop: whether records have an intended instant of their own. Otherwise they are
            emitted as room permits; uncorrected latency equals corrected and is not kept.
    """

    def __init__(
        self, *, epoch_ns: int, delay_ns_per_record: int = 0, is_open_loop: bool = True
    ) -> None:
        super().__init__()
        self._epoch_ns = epoch_ns
        self._delay_ns = delay_ns_per_record
        self._is_open_loop = is_open_loop
        self._lot = KEPT_STAMPS // 2 if is_open_loop else KEPT_STAMPS
        self.disorder = Disorder()
        self.uncorrected = LogLinearHistogram()
        self.first_record_ns = -1
        self.last_record_ns = -1
        self.received_records = 0
        self._stamps = np.empty(KEPT_STAMPS, np.uint64)
        self._words = self._stamps.data  # returns plain ints, in a third of the time
        self._scratch = np.empty(KEPT_STAMPS, np.uint64)
        self._lateness = np.empty(KEPT_STAMPS, np.int64)
        self._lateness_words = self._lateness.data
        self._has_lateness = False  # of any record so far
        self._lacks_lateness = False  # any record was too small for it
        self._kept = 0
        self._settled_records = 0
        self._arrivals = np.empty((2, KEPT_STAMPS), np.int64)
        """For each buffer whose stamps are kept: the number kept after it, and the instant at which
        the task started on it."""
        self._arrival_ends, self._arrival_begins = self._arrivals[0].data, self._arrivals[1].data
        self._arrived = 0
        self._record_bytes = 0  # size of the latest records
        self._sizes: list[tuple[int, int]] = []  # end and size of earlier ones
        self._groups: list[tuple[int, int]] = []  # latency and number of records

    def receive(self, runs: Sequence[Run], *, now_ns: int) -> int:
        """Take the records of a buffer. `now_ns` is when the task starts on the first.

        Sets `received_records` to their number, `first_record_ns` and `last_record_ns` to the
        intended instants of the first and the last.

        Returns: the instant at which the task is done with the last.
        """
        records = 0
        for run in runs:
            records += run[2]
        self.received_records = records
        if not records:
            return now_ns
        first = self._kept
        if first + records > self._lot:
            self.check()
            if records > KEPT_STAMPS:
                return self._receive_in_parts(runs, now_ns)
            first = 0
        end = first
        words = self._words
        for memory, offset, count, record_bytes in runs:
            if record_bytes != self._record_bytes:
                self._sizes.append((end, self._record_bytes))
                self._record_bytes = record_bytes
            start, end = end, end + count
            at = offset + STAMP_OFFSET
            if count == 1:
                words[start] = int.from_bytes(memory[at : at + 8], "big")
            else:
                self._stamps[start:end] = np.ndarray(count, _STAMP, memory, at, record_bytes)
            if self._is_open_loop:
                self._copy_lateness(memory, offset, start, end)
        self._kept = end
        arrived = self._arrived
        self._arrival_ends[arrived], self._arrival_begins[arrived] = end, now_ns
        self._arrived = arrived + 1
        self.records += records
        self.first_record_ns = (words[first] & INSTANT_MASK) + self._epoch_ns
        self.last_record_ns = (words[end - 1] & INSTANT_MASK) + self._epoch_ns
        return now_ns + self._delay_ns * records

    def carried(self, ends: Sequence[int]) -> list[tuple[int, int, int]]:
        """The contents of each buffer of the last received run, of at most KEPT_STAMPS records: the
        number of records that end in it, and the intended instants of the first and the last of
        them (-1 if there are none).

        Args:
            ends: records that had ended with each buffer.
        """
        words, epoch_ns, mask = self._words, self._epoch_ns, INSTANT_MASK
        first = self._kept - self.received_records
        carried, start = [], 0
        for end in ends:
            if start == end:
                carried.append((0, -1, -1))
            else:
                first_ns = (words[first + start] & mask) + epoch_ns
                last_ns = (words[first + end - 1] & mask) + epoch_ns
                carried.append((end - start, first_ns, last_ns))
            start = end
        return carried

    def set_delay(self, delay_ns_per_record: int) -> None:
        """Set how long the task takes per record, from the next one on."""
        self.check()
        self._delay_ns = delay_ns_per_record

    def settle(self) -> None:
        """Check and count the kept stamps, and the latencies of what was checked."""
        self.check()
        if self._groups:
            latency, records = np.array(self._groups, np.int64).T
            self.latency.add_weighted(latency, records)
            self._groups.clear()

    def _receive_in_parts(self, runs: Sequence[Run], now_ns: int) -> int:
        """Take a buffer with more records than are kept at once."""
        records, first_ns = self.received_records, -1
        for memory, offset, count, record_bytes in runs:
            while count:
                taken = min(count, KEPT_STAMPS)
                now_ns = self.receive([(memory, offset, taken, record_bytes)], now_ns=now_ns)
                first_ns = self.first_record_ns if first_ns < 0 else first_ns
                offset += taken * record_bytes
                count -= taken
        self.received_records, self.first_record_ns = records, first_ns
        return now_ns

    def _copy_lateness(
        self, memory: memoryview | bytearray, offset: int, start: int, end: int
    ) -> None:
        record_bytes = self._record_bytes
        if record_bytes < OVERHEAD_BYTES + SMALLEST_WITH_LATENESS_BYTES:
            self._lateness[start:end] = _NO_LATENESS
            self._lacks_lateness = True
        else:
            at = offset + LATENESS_OFFSET
            if end - start == 1:
                word = int.from_bytes(memory[at : at + 8], "big", signed=True)
                self._lateness_words[start] = word
            else:
                self._lateness[start:end] = np.ndarray(
                    end - start, _LATENESS, memory, at, record_bytes
                )
            self._has_lateness = True

    def check(self) -> None:
        """Check and count the kept stamps: the sequence so far is known.

        Records that were emitted together and arrive together form a few groups of one instant
        each: then only the ends of groups are searched, and the rest is done per group.
        """
        kept, self._kept = self._kept, 0
        if not kept:
            return
        has_groups = not (self._is_open_loop or self._delay_ns)
        stamps = self._stamps[:kept]
        stamps -= _NUMBERS[:kept]
        starts = _starts_of_groups(stamps) if has_groups else None
        expected = self._settled_records
        first_number = np.uint64((expected << INSTANT_BITS) & WORD_MASK)
        if starts is None:
            instants = np.subtract(stamps, first_number, out=self._scratch[:kept])
        else:
            instants = stamps[starts] - first_number
        self._settled_records = expected + kept
        if int(instants.max()) > INSTANT_MASK:  # not the expected numbers
            stamps += _NUMBERS[:kept]
            numbers = (stamps >> np.uint64(INSTANT_BITS)).astype(np.int64)
            self._settled_records = self._find_disorder(numbers, expected)
            self.records = self._settled_records
            stamps &= np.uint64(INSTANT_MASK)
            starts = _starts_of_groups(stamps) if has_groups else None
            instants = stamps if starts is None else stamps[starts]
        since_epoch = instants.view(np.int64)
        low, high = self._measured_range(since_epoch)
        arrivals, self._arrived = self._arrivals[:, : self._arrived], 0
        if low < high:
            if starts is None:
                self._time_each(since_epoch, low, high, arrivals)
            else:
                starts.append(kept)
                low, high = self._time_groups(since_epoch, starts, low, high, arrivals)
            self.measured_records += high - low
            self.measured_bytes += self._value_bytes(low, high)
        self._sizes.clear()

    def _time_each(self, since_epoch: IntArray, low: int, high: int, arrivals: IntArray) -> None:
        """Compute latencies if each record has an instant of its own."""
        ends, begins = arrivals
        counts = np.diff(ends, prepend=0)
        done = np.repeat(begins - self._epoch_ns, counts)
        if self._delay_ns:
            position = np.arange(1, len(since_epoch) + 1) - np.repeat(ends - counts, counts)
            done += self._delay_ns * position
        latency = done[low:high] - since_epoch[low:high]
        self.last_measured_ns = int(done[high - 1]) + self._epoch_ns
        self.latency.add(latency)
        if self._has_lateness:
            lateness = self._lateness[low:high]
            uncorrected = latency - lateness
            if self._lacks_lateness:
                uncorrected = uncorrected[lateness != _NO_LATENESS]
            self.uncorrected.add(uncorrected)

    def _time_groups(
        self, since_epoch: IntArray, starts: Sequence[int], low: int, high: int, arrivals: IntArray
    ) -> tuple[int, int]:
        """Compute latencies of the groups [low, high), which plain Python counts faster than numpy.
        Starts are the first records of each group, and the end of the last. Returns: the range of
        their records.
        """
        next_arrival = iter(arrivals.T.tolist())
        reached = begin_ns = 0
        start = starts[low]
        ends = starts[low + 1 : high + 1]
        for instant, end in zip(since_epoch[low:high].tolist(), ends, strict=True):
            while start < end:
                while reached <= start:
                    reached, begin_ns = next(next_arrival)
                stop = end if end < reached else reached
                self._groups.append((begin_ns - self._epoch_ns - instant, stop - start))
                start = stop
        self.last_measured_ns = begin_ns
        return starts[low], starts[high]

    def _value_bytes(self, low: int, high: int) -> int:
        """Bytes of the values of the kept records [low, high)."""
        value_bytes, reached = 0, low
        for end, record_bytes in self._sizes:
            if reached < end:
                end = min(end, high)
                value_bytes += (end - reached) * (record_bytes - OVERHEAD_BYTES)
                reached = end
        return value_bytes + (high - reached) * (self._record_bytes - OVERHEAD_BYTES)

    def _measured_range(self, since_epoch: IntArray) -> tuple[int, int]:
        """The range [low, high) of the ascending instants within the measured part."""
        from_ns = self.measured_from_ns - self._epoch_ns
        low, high = 0, len(since_epoch)
        if since_epoch[0] < from_ns:
            low = int(np.searchsorted(since_epoch, from_ns))
        if self.measured_to_ns is not None:
            to_ns = self.measured_to_ns - self._epoch_ns
            if since_epoch[-1] >= to_ns:
                high = int(np.searchsorted(since_epoch, to_ns))
        return low, max(low, high)

    def _find_disorder(self, numbers: IntArray, expected: int) -> int:
        """Count the errors in a sequence of numbers. Returns: the number expected next."""
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
        return expected


def _starts_of_groups(stamps: NDArray[np.uint64]) -> list[int]:
    ends = (stamps[1:] != stamps[:-1]).nonzero()[0]
    return [0, *(ends + 1).tolist()]


_RECORD_TAGS = (0, 1)
"""Tags of records with and without timestamp; other tags mark other stream elements."""

STAMPED_MIN_BYTES = OVERHEAD_BYTES + SMALLEST_VALUE_BYTES

MEASURED, STAMPED, COUNTED = "measured", "stamped", "counted"
"""Records that a sink accepts: our own, those of others in our form, or any."""


class ForeignSink(LatencySink):
    """A LatencySink for the records of another program, without latencies, as their instants mean
    nothing here.

    Attributes:
        other_elements: stream elements other than records, such as watermarks and latency markers.
        value_bytes: bytes of the records, without tag and timestamp.
    """

    def __init__(self, *, delay_ns_per_record: int = 0) -> None:
        super().__init__(epoch_ns=0, delay_ns_per_record=delay_ns_per_record, is_open_loop=False)
        self.measured_to_ns = 0
        self.other_elements = 0
        self.value_bytes = 0


class CountingSink(ForeignSink):
    """A sink for any job of Flink: checks neither stamps nor numbers."""

    def receive(self, runs: Sequence[Run], *, now_ns: int) -> int:
        records = 0
        for memory, offset, count, record_bytes in runs:
            tags = np.ndarray(count, np.uint8, memory, offset + LENGTH_PREFIX_BYTES, record_bytes)
            found = int(np.count_nonzero(tags <= _RECORD_TAGS[-1]))
            timestamped = found - int(np.count_nonzero(tags == _RECORD_TAGS[-1]))
            records += found
            self.other_elements += count - found
            self.value_bytes += found * (record_bytes - OVERHEAD_BYTES) - timestamped * 8
        self.received_records = records
        self.records += records
        self.first_record_ns = self.last_record_ns = -1
        return now_ns + self._delay_ns * records


class StampedSink(ForeignSink):
    """A sink for records in flinknet's form from another program: checks their numbers."""

    def receive(self, runs: Sequence[Run], *, now_ns: int) -> int:
        """Take the records of a buffer; see LatencySink.receive. Raises: FrameCorruptedError if a
        record is too short for a stamp.
        """
        for _, _, count, record_bytes in runs:
            if record_bytes < STAMPED_MIN_BYTES:
                raise FrameCorruptedError(
                    f"a record of {record_bytes} bytes is too short to be one of flinknet's, which"
                    f" have {STAMPED_MIN_BYTES} or more: leave out --stamped"
                )
            self.value_bytes += count * (record_bytes - OVERHEAD_BYTES)
        done_ns = super().receive(runs, now_ns=now_ns)
        self.first_record_ns = self.last_record_ns = -1
        return done_ns
