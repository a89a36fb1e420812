# mypyc
"""TaskChain: processes a task's records, between its inputs and its outputs; TaskOutput: one of
these. They are base classes rather than protocols, so that compiled code calls them directly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from flinknet.core.producer import OutputFlusher, RecordWriter
from flinknet.graph.watermarks import MIN_WATERMARK_MS, TaskEvent
from flinknet.histogram import LogLinearHistogram

from .context import ProcessingContext
from .elements import NO_TIMESTAMP, Instants
from .times import TaskTimes

KEPT_LATENCIES = 16_384
"""Latencies added to the histogram at once."""


class LatencyMeter:
    """Latency of a measuring sink, of a load (load.sink.LatencySink) or of a program
    (RecordLatency).

    Records due in [measured_from_ns, measured_to_ns) are measured. Figures are up to date after
    `settle`.

    Attributes:
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
        raise NotImplementedError

    def settle_soon(self) -> None:
        """Settle with the next record, as a worker is adding."""
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


class TaskOutput:
    """The output of a task along an edge, given by index (Flink: RecordWriterOutput with its
    RecordWriter and OutputFlusher); channels are indices in the job.
    """

    def __init__(
        self, edge: int, writer: RecordWriter, flusher: OutputFlusher, channels: Sequence[int]
    ) -> None:
        self.edge = edge
        self.writer = writer
        self.partition = writer.partition
        self.flusher = flusher
        self.channels = tuple(channels)
        self.emitted_records = 0

    @property
    def sent_records(self) -> dict[int, int]:
        """Records written so far, by index of the channel in the job."""
        raise NotImplementedError

    def __call__(self, value: Any) -> None:
        """Collect a record from an operator that emits one at a time.

        Defined here and not only in subclasses: compiled callable classes have one more field, so a
        base class without it would look for all others at the wrong offset.
        """
        raise NotImplementedError

    def prepare(self) -> None:
        """Prepare the collected records for writing, as far as that takes time or functions of the
        program; does not touch the writer or the network. Raises: TaskFailedError if a record
        cannot be distributed or serialised.
        """

    def write(self) -> None:
        """Pass everything collected to the writer, which queues what finds no buffer. Raises:
        TaskFailedError if a record cannot be distributed or serialised.
        """
        raise NotImplementedError

    def discard(self) -> None:
        raise NotImplementedError


NEVER_NS = 1 << 62

PORTION_RECORDS = 4096
"""Records collected before they are written."""


class TaskChain:
    """The operators of a task, as StreamTask drives them (Flink: OperatorChain's main input).

    Attributes:
        batches: input not yet fully processed.
        sent_events: events for the upstream tasks; the task takes and sends them.
        processed_records: records passed to the operators, from gates or sources.
        record_ns: how long each record of the current portion takes; 0 if that varies or is
            unknown. Mail waits for the end of a record.
        timer_ns: when to call `fire_timers` next; NEVER_NS without timers.
        is_recalled: whether to stop after the current record, because the task has other work.
    """

    def __init__(self) -> None:
        self.batches: deque[Any] = deque()
        self.processed_records = 0
        self.record_ns = 0
        self.timer_ns = NEVER_NS
        self.is_recalled = False
        self.sent_events: list[TaskEvent] = []

    @property
    def listens_to(self) -> frozenset[str]:
        return frozenset()

    def add_task_event(self, event: TaskEvent) -> None:
        """Queue such an event."""
        raise NotImplementedError

    @property
    def latency_meters(self) -> Sequence[LatencyMeter]:
        return ()

    @property
    def current_watermark_ms(self) -> int:
        """The watermark of the inputs; MIN_WATERMARK_MS before the first."""
        return MIN_WATERMARK_MS

    def open(self) -> None:
        """Open the operators. Raises: TaskFailedError."""

    def add_generated(self, operator_id: str, values: Any, instants: Any) -> None:
        """Queue records generated by a source of the chain."""
        raise NotImplementedError

    def process_portion(self, began_ns: int) -> None:
        """Process the first batch, on which the task starts at `began_ns`, or a part of it. Raises:
        TaskFailedError.
        """
        raise NotImplementedError

    def fire_timers(self, now_ns: int) -> None:
        """Fire all due timers. Raises: TaskFailedError."""

    def finish(self) -> None:
        """End the input: operators emit what they still hold. Raises: TaskFailedError."""

    def close(self) -> None:
        """Close the operators. Raises: TaskFailedError."""

    def cancel(self) -> None:
        """Close the operators, ignoring errors."""


class TaskWorker(Protocol):
    """Runs one piece of work at a time for a task, in parallel with its driver (Flink: the thread
    of a Task). Meanwhile the task does not touch what the work uses, and the work not the network.
    """

    def begin(self, work: Callable[[], None]) -> bool:
        """Begin work. Returns: whether it is over; if not, the task is stepped when it is."""

    @property
    def is_over(self) -> bool:
        """Whether the current work is over."""

    def end(self) -> None:
        """End the work. Raises: the error of the work."""

    def now_ns(self) -> int:
        """The current instant, for the work."""

    def release(self) -> None:
        """Take no more work; current work runs to its end."""


RECALL_NS = 5_000_000
"""A worker that has been working for this long is asked to return early; with a slow function that
is after each record."""


class HandOver:
    """Lends the operators to the worker and takes them back; without one all is done at once.

    Attributes:
        is_under_way: whether the worker has the operators; the task must not touch them or their
            pending output.
        recall_ns: when to ask for them back; None if already asked, or not lent.
    """

    def __init__(
        self,
        worker: TaskWorker | None,
        chain: TaskChain,
        context: ProcessingContext,
        times: TaskTimes,
    ) -> None:
        self.is_under_way = False
        self.recall_ns: int | None = None
        self.worker = worker
        self._chain = chain
        self._context = context
        self._times = times
        if worker is not None:
            context.clock = worker.now_ns

    def begin(self, work: Callable[[], None], now_ns: int) -> bool:
        """Run work that may call functions of the program. Returns: whether it is done."""
        worker = self.worker
        if worker is None:
            work()
            return True
        self._context.work_ns = 0
        if worker.begin(work):
            worker.end()
            return True
        self.is_under_way = True
        self.recall_ns = now_ns + RECALL_NS
        if not self._times.is_busy:
            self._times.resume(now_ns=now_ns)
        return False

    def take_back(self, now_ns: int) -> bool:
        """Take the operators back. Returns: whether the worker is done. Raises: its error."""
        worker = self.worker
        assert worker is not None
        if not worker.is_over:
            if self.recall_ns is not None and now_ns >= self.recall_ns:
                self.recall_ns = None
                self._chain.is_recalled = True
            return False
        self.is_under_way = False
        self._chain.is_recalled = False
        worker.end()
        return True

    def cancel(self) -> bool:
        """Cancel the task. Returns: whether the operators are back; functions run to their end."""
        worker = self.worker
        if self.is_under_way and worker is not None:
            self._chain.is_recalled = True
            if not worker.is_over:
                return False
            self.is_under_way = False
            with suppress(Exception, SystemExit):  # the task already has a reason to end
                worker.end()
        return True

    def release(self) -> None:
        if self.worker is not None:
            self.worker.release()
