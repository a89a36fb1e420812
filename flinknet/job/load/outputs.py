# mypyc
"""Outputs of load tasks: distribute runs of records and number them per channel."""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.core.consumer import RecordRun
from flinknet.core.producer import BROADCAST, OutputFlusher, RecordWriter, SerializedRecords

from ..context import ProcessingContext
from ..task_output import TaskOutput
from .draws import KeyDraws
from .forward import RecordForwarder
from .generator import Instants, RecordBatcher


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
        """Records written so far, by index of the channel in the job."""
        return _sent(self._batcher.numbers, self.channels)

    def collect(self, count: int, instants: Instants) -> None:
        """Collect due records; they are written before the next are collected."""
        self._count, self._instants = count, instants
        self._context.pending_records = count

    def write(self) -> None:
        """Pass everything collected to the writer, which queues what finds no buffer."""
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
        """Drop everything collected."""
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
        """Records written so far, by index of the channel in the job."""
        return _sent(self._forwarder.numbers, self.channels)

    def collect(self, run: RecordRun) -> None:
        """Collect a run, whose memory must stay valid until `write`."""
        self._runs.append(run)
        self._context.pending_records += run[2]

    def write(self) -> None:
        """Pass everything collected to the writer, which queues what finds no buffer."""
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
        """Drop everything collected."""
        self._runs.clear()


def _sent(numbers: dict[int, int], channels: Sequence[int]) -> dict[int, int]:
    """Counts by index of the channel in the job; records numbered for BROADCAST went to all."""
    if BROADCAST in numbers:
        return dict.fromkeys(channels, numbers[BROADCAST])
    return {channels[subpartition]: count for subpartition, count in numbers.items()}
