# mypyc
"""LoadGenerator: the source of a workload; RecordBatcher: serialises its records."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flinknet.arrays import IntArray
from flinknet.config import MAX_RATE_BATCH_BYTES, WorkloadConfig
from flinknet.core.producer import SerializedRecords
from flinknet.core.wire.records import OVERHEAD_BYTES

from ..io import TextInput
from .arrivals import Arrivals, DrawnSizes, TakeSizes
from .payload import BATCH_BYTES, RecordFactory, serialize_mixed

Instants = NDArray[np.int64] | int
"""The intended instant of each record, or one for all, in ns."""


class RecordBatcher:
    """Serialises batches for channels, with one reused block of memory per channel.

    Attributes:
        batch_records: most records per step.
        numbers: records made so far, by channel.

    Args:
        channels: of the partition, or (BROADCAST,).
        epoch_ns: instant that stamps count from.
        seed: of random sizes.
        take_sizes: source of sizes that are neither constant nor random.
        records: how many there are at most, if that is known.
    """

    def __init__(
        self,
        workload: WorkloadConfig,
        channels: tuple[int, ...],
        *,
        epoch_ns: int,
        seed: int,
        take_sizes: TakeSizes | None = None,
        records: int | None = None,
    ) -> None:
        self._epoch_ns = epoch_ns
        size = workload.record_size
        batch_bytes = MAX_RATE_BATCH_BYTES if workload.is_max_rate else BATCH_BYTES
        self.batch_records = max(1, batch_bytes // (int(size.mean_bytes) + OVERHEAD_BYTES))
        if records is not None:
            self.batch_records = min(self.batch_records, max(1, records))
        self.numbers = dict.fromkeys(channels, 0)
        self._fixed = (
            {channel: RecordFactory(size.low_bytes, self.batch_records + 1) for channel in channels}
            if size.is_constant
            else {}
        )
        if take_sizes is None and not size.is_constant:
            take_sizes = DrawnSizes(size, seed).take
        self._take_sizes = take_sizes

    def take_sizes(self, count: int) -> IntArray | None:
        """Sizes of the next due records, to be passed to `make`; None if all are equal."""
        return None if self._take_sizes is None else self._take_sizes(count)

    def make(
        self,
        channel: int,
        instants_ns: Instants,
        count: int,
        *,
        now_ns: int,
        sizes: IntArray | None = None,
    ) -> SerializedRecords:
        """Serialise records with the next numbers of their channel; the memory is valid until the
        channel's next batch.
        """
        number = self.numbers[channel]
        self.numbers[channel] = number + count
        epoch_ns = self._epoch_ns
        if sizes is None:
            factory = self._fixed[channel]
            data = factory.serialize(number, instants_ns - epoch_ns, count, now_ns - epoch_ns)
            return SerializedRecords(data, instants_ns, record_bytes=factory.record_bytes)
        if isinstance(instants_ns, int):
            instants_ns = np.full(count, instants_ns, np.int64)
        data, ends = serialize_mixed(number, sizes, instants_ns - epoch_ns, now_ns - epoch_ns)
        return SerializedRecords(data, instants_ns, ends=ends)


class LoadGenerator:
    """Due records of one producer: their number and instants (implements job.sources.RecordSource).

    Attributes:
        is_ended: whether the load has ended.
        late_ns_max: longest time from a record's instant until it was taken.

    Args:
        arrivals: intended instants; None for the highest rate.
        batch_records: most records per step.
        records: at the highest rate, number of records from `measured_from_ns` on; None for no
            limit.
        start_ns: at the highest rate, when to begin.
        end_ns: at the highest rate, when to stop; None for no end.
    """

    def __init__(
        self,
        arrivals: Arrivals | None,
        batch_records: int,
        *,
        records: int | None,
        start_ns: int,
        measured_from_ns: int,
        end_ns: int | None,
    ) -> None:
        self.text: TextInput | None = None
        self.is_ended = False
        self.late_ns_max = 0
        self._arrivals = arrivals
        self._batch_records = batch_records
        self._left = records
        self._start_ns = start_ns
        self._measured_from_ns = measured_from_ns
        self._end_ns = end_ns

    def take(self, *, now_ns: int) -> tuple[int, Instants] | None:
        """The number of due records and their instants; None if there are none."""
        arrivals = self._arrivals
        if arrivals is None:
            return self._take_at_max_rate(now_ns)
        instants = arrivals.take(now_ns, self._batch_records)
        if arrivals.next_ns() is None:
            self.is_ended = True
        count = len(instants)
        if not count:
            return None
        self.late_ns_max = max(self.late_ns_max, now_ns - int(instants[0]))
        return count, instants

    def next_ns(self, *, now_ns: int) -> int | None:
        """The instant of the next record, or the start; None if there are no more."""
        if self._arrivals is not None:
            return self._arrivals.next_ns()
        return None if self.is_ended else max(now_ns, self._start_ns)

    def stop(self) -> None:
        self.is_ended = True

    def _take_at_max_rate(self, now_ns: int) -> tuple[int, Instants] | None:
        if now_ns < self._start_ns or self.is_ended:
            return None
        count = self._batch_records
        if self._left is not None and now_ns >= self._measured_from_ns:
            count = min(count, self._left)
            self._left -= count
        if count == 0 or (self._end_ns is not None and now_ns >= self._end_ns):
            self.is_ended = True
            return None
        return count, now_ns
