# mypyc
"""Outputs of load tasks, which distribute runs of records and number them per channel, and the
chains that write to them: generate, forward, measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flinknet.core.consumer import RecordRun
from flinknet.core.producer import BROADCAST, OutputFlusher, RecordWriter, SerializedRecords

from ..context import ProcessingContext
from ..task_chain import LatencyMeter, TaskChain, TaskOutput
from .arrivals import KeyDraws
from .generator import Instants, RecordBatcher
from .payload import RecordForwarder


class GeneratedOutput(TaskOutput):
    """Serialises the records that a generator says are due.

    Args:
        keys: for hash partitioning.
    """

    def __init__(
        self,
        edge: int,
        writer: RecordWriter,
        batcher: RecordBatcher,
        flusher: OutputFlusher,
        channels: Sequence[int],
        context: ProcessingContext,
        keys: KeyDraws,
    ) -> None:
        super().__init__(edge, writer, flusher, channels)
        self._batcher = batcher
        self._context = context
        self._keys = keys if writer.selector.needs_keys else None
        self._count = 0
        self._instants: Instants = 0

    @property
    def sent_records(self) -> dict[int, int]:
        return _sent(self._batcher.numbers, self.channels)

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
        writer, make = self.writer, self._batcher.make
        sizes = self._batcher.take_sizes(count)
        for channel, indices in writer.selector.split(count, keys):
            own = None if sizes is None else sizes[indices]
            if isinstance(instants, int):
                share = len(range(count)[indices]) if isinstance(indices, slice) else len(indices)
                writer.emit(channel, make(channel, instants, share, now_ns=now_ns, sizes=own))
            else:
                picked = instants[indices]
                writer.emit(channel, make(channel, picked, len(picked), now_ns=now_ns, sizes=own))

    def discard(self) -> None:
        self._count = 0


class ForwardedOutput(TaskOutput):
    """Forwards runs of records, numbered for their new channels.

    Args:
        keys: for hash partitioning.
    """

    def __init__(
        self,
        edge: int,
        writer: RecordWriter,
        forwarder: RecordForwarder,
        flusher: OutputFlusher,
        channels: Sequence[int],
        context: ProcessingContext,
        keys: KeyDraws,
    ) -> None:
        super().__init__(edge, writer, flusher, channels)
        self._keys = keys if writer.selector.needs_keys else None
        self._forwarder = forwarder
        self._context = context
        self._runs: list[RecordRun] = []

    @property
    def sent_records(self) -> dict[int, int]:
        return _sent(self._forwarder.numbers, self.channels)

    def collect(self, run: RecordRun) -> None:
        """Collect a run, whose memory must stay valid until `write`."""
        self._runs.append(run)
        self._context.pending_records += run[2]

    def write(self) -> None:
        if not self._runs:
            return
        runs, self._runs = self._runs, []
        writer, forwarder = self.writer, self._forwarder
        selector = writer.selector
        for memory, offset, count, record_bytes in runs:
            self.emitted_records += count
            keys = None if self._keys is None else self._keys.take(count)
            for channel, picked in selector.split(count, keys):
                data, instants = forwarder.copy(
                    memory, offset, count, record_bytes, channel, picked
                )
                writer.emit(channel, SerializedRecords(data, instants, record_bytes=record_bytes))

    def discard(self) -> None:
        self._runs.clear()


def _sent(numbers: dict[int, int], channels: Sequence[int]) -> dict[int, int]:
    """Counts by index of the channel in the job; records numbered for BROADCAST went to all."""
    if BROADCAST in numbers:
        return dict.fromkeys(channels, numbers[BROADCAST])
    return {channels[subpartition]: count for subpartition, count in numbers.items()}


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
    """An identity map; its batches are runs of records.

    Args:
        delay_ns_per_record: time per record.
    """

    def __init__(
        self, output: ForwardedOutput, context: ProcessingContext, *, delay_ns_per_record: int
    ) -> None:
        super().__init__()
        self.record_ns = delay_ns_per_record
        self._output = output
        self._context = context
        self._portion_records = max(1, PORTION_NS // max(1, delay_ns_per_record))

    def process_portion(self, began_ns: int) -> None:
        """Pass a run, or one portion of it, to the output."""
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
    """The end of a load, whose records were counted and timed as they were read. Its batches are
    the instants at which the task is done with them.

    Args:
        sinks: count and time the records.
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
