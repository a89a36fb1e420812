# mypyc
"""LoadGenerator: the source of a workload; RecordBatcher: serialises its records. Outputs of load
tasks, which distribute runs of records and number them per channel, and the chains that write to
them: generate, forward, measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from flinknet.arrays import IntArray
from flinknet.config import MAX_RATE_BATCH_BYTES, WorkloadConfig
from flinknet.core.consumer import RecordRun
from flinknet.core.producer import BROADCAST, OutputFlusher, RecordWriter, SerializedRecords
from flinknet.core.wire.records import OVERHEAD_BYTES

from ..context import ProcessingContext
from ..descriptor import Start
from ..io import TextInput
from ..task_chain import LatencyMeter, TaskChain, TaskOutput
from .arrivals import Arrivals, DrawnSizes, KeyDraws, TakeSizes
from .payload import BATCH_BYTES, RecordFactory, RecordForwarder, serialize_mixed

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
        """Serialise records with the next numbers of their channel, whose memory is reused."""
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
        start: the instants of the run, which apply at the highest rate.
        records: at the highest rate, number of records in the measured part; None for no limit.
    """

    def __init__(
        self, arrivals: Arrivals | None, batch_records: int, start: Start, *, records: int | None
    ) -> None:
        self.text: TextInput | None = None
        self.is_ended = False
        self.late_ns_max = 0
        self._arrivals = arrivals
        self._batch_records = batch_records
        self._left = records
        self._start_ns = start.start_ns
        self._measured_from_ns = start.measured_from_ns
        self._end_ns = start.end_ns

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


MakerT = TypeVar("MakerT", bound=RecordBatcher | RecordForwarder)


class LoadOutput(TaskOutput, Generic[MakerT]):
    """An output whose records are numbered per channel; keys are for hash partitioning."""

    def __init__(
        self,
        edge: int,
        writer: RecordWriter,
        maker: MakerT,
        flusher: OutputFlusher,
        channels: Sequence[int],
        context: ProcessingContext,
        keys: KeyDraws,
    ) -> None:
        super().__init__(edge, writer, flusher, channels)
        self._context = context
        self._keys = keys if writer.selector.needs_keys else None
        self._maker = maker
        self._numbers = maker.numbers
        self._count = 0
        self._instants: Instants = 0
        self._runs: list[RecordRun] = []

    @property
    def sent_records(self) -> dict[int, int]:
        """Counts by index of the channel in the job; records numbered for BROADCAST went to all."""
        numbers, channels = self._numbers, self.channels
        if BROADCAST in numbers:
            return dict.fromkeys(channels, numbers[BROADCAST])
        return {channels[subpartition]: count for subpartition, count in numbers.items()}

    def discard(self) -> None:
        self._count = 0
        self._runs.clear()


class GeneratedOutput(LoadOutput[RecordBatcher]):
    """Serialises the records that a generator says are due."""

    def collect(self, count: int, instants: Instants) -> None:
        """Collect due records; they are written before the next are collected."""
        self._count, self._instants = count, instants
        self._context.pending_records = count

    def write(self) -> None:
        count, self._count = self._count, 0
        if not count:
            return
        instants, now_ns = self._instants, self._context.now_ns
        keys = None if self._keys is None else self._keys.take(count)
        self.emitted_records += count
        writer, make = self.writer, self._maker.make
        sizes = self._maker.take_sizes(count)
        for channel, indices in writer.selector.split(count, keys):
            own = None if sizes is None else sizes[indices]
            if isinstance(instants, int):
                share = len(range(count)[indices]) if isinstance(indices, slice) else len(indices)
                writer.emit(channel, make(channel, instants, share, now_ns=now_ns, sizes=own))
            else:
                picked = instants[indices]
                writer.emit(channel, make(channel, picked, len(picked), now_ns=now_ns, sizes=own))


class ForwardedOutput(LoadOutput[RecordForwarder]):
    """Forwards runs of records, numbered for their new channels."""

    def collect(self, run: RecordRun) -> None:
        """Collect a run, whose memory must stay valid until `write`."""
        self._runs.append(run)
        self._context.pending_records += run[2]

    def write(self) -> None:
        if not self._runs:
            return
        runs, self._runs = self._runs, []
        writer, forwarder = self.writer, self._maker
        selector = writer.selector
        for memory, offset, count, record_bytes in runs:
            self.emitted_records += count
            keys = None if self._keys is None else self._keys.take(count)
            for channel, picked in selector.split(count, keys):
                data, instants = forwarder.copy(
                    memory, offset, count, record_bytes, channel, picked
                )
                writer.emit(channel, SerializedRecords(data, instants, record_bytes=record_bytes))


PORTION_NS = 1_000_000
"""Work after which a slow relay emits its records, rather than after a whole buffer."""


class Generate(TaskChain):
    """Passes records of a LoadGenerator to the output; its batches are (count, instants)."""

    def __init__(self, output: GeneratedOutput, context: ProcessingContext) -> None:
        super().__init__()
        self._output = output
        self._context = context

    def add_generated(self, operator_id: str, values: Any, instants: Any) -> None:
        self.batches.append((values, instants))

    def process_portion(self, began_ns: int) -> None:
        count, instants = self.batches.popleft()
        self._context.now_ns, self._context.work_ns = began_ns, 0
        self.processed_records += count
        self._output.collect(count, instants)


class Forward(TaskChain):
    """An identity map; its batches are runs of records."""

    def __init__(
        self, output: ForwardedOutput, context: ProcessingContext, *, delay_ns_per_record: int
    ) -> None:
        super().__init__()
        self.record_ns = delay_ns_per_record
        self._output = output
        self._context = context
        self._portion_records = max(1, PORTION_NS // max(1, delay_ns_per_record))

    def process_portion(self, began_ns: int) -> None:
        memory, offset, count, record_bytes = self.batches.popleft()
        taken = count
        if self.record_ns and count > self._portion_records:
            taken = self._portion_records
            rest = memory, offset + taken * record_bytes, count - taken, record_bytes
            self.batches.appendleft(rest)
        self._context.now_ns, self._context.work_ns = began_ns, taken * self.record_ns
        self.processed_records += taken
        self._output.collect((memory, offset, taken, record_bytes))


class Measure(TaskChain):
    """The end of a load, whose records the sinks counted and timed as they were read. Its batches
    are the instants at which the task is done with them.
    """

    def __init__(self, context: ProcessingContext, sinks: Sequence[LatencyMeter]) -> None:
        super().__init__()
        self._sinks = sinks
        self._context = context

    @property
    def latency_meters(self) -> Sequence[LatencyMeter]:
        return self._sinks

    def process_portion(self, began_ns: int) -> None:
        """Be busy until the records read are done."""
        done_ns = self.batches.popleft()
        self._context.now_ns, self._context.work_ns = began_ns, done_ns - began_ns
