# mypyc
"""SourceTask: emits records when they are due, or as fast as the network stack takes them."""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray

from flinknet.config import WorkloadConfig
from flinknet.core.probe import MessageKind, Probe, TracePoint
from flinknet.core.producer import (
    OutputFlusher,
    RecordWriter,
    SerializedRecords,
)
from flinknet.core.wire.events import (
    CheckpointBarrier,
    EndOfData,
    EndOfOutputChannelStateEvent,
)
from flinknet.workload.arrivals import Arrivals
from flinknet.workload.payload import OVERHEAD_BYTES, MixedRecordFactory, RecordFactory

from .checkpoints import OutputCheckpoints
from .deployment import source_name
from .partitioners import sent_by_channel
from .times import TaskTimes

BATCH_BYTES = 128 * 1024
"""Bytes that one step serialises at most of what is offered at a rate: a source that falls behind
reads on in steps of four segments.
"""

MAX_RATE_BATCH_BYTES = 320 * 1024
"""The same at the highest rate: the ten segments a channel may have. Whole segments are cheap, and
what a batch leaves of one is not: the producer's side without sockets took 8.4 µs a segment at
100-byte records, against 10.7 with 128 KiB. More than the pool gives would only wait.
"""

STEPS_PER_TURN = 3
"""Steps of a task in one turn of its event loop. Few, so that credit and data leave while the other
side still has work; not one, so that an AddCredit speaks for more than one buffer. GB/s at 100-byte
records, with batches of 128 KiB: 0.9 with 1, 1.05 with 2, 1.2 with 3."""

_BUFFER_RESPONSE = int(MessageKind.BUFFER_RESPONSE)

KEYS = 1 << 20
"""Size of the key space for hash partitioning."""


class RecordBatcher:
    """Makes serialised batches for channels, with one reused block of memory a channel.

    Args:
        channels: those of the partition, or (BROADCAST,).
        epoch_ns: the instant that stamps count from.
    """

    def __init__(
        self, workload: WorkloadConfig, channels: tuple[int, ...], *, epoch_ns: int, seed: int
    ) -> None:
        self._epoch_ns = epoch_ns
        size = workload.record_size
        batch_bytes = MAX_RATE_BATCH_BYTES if workload.is_max_rate else BATCH_BYTES
        self.batch_records = max(1, batch_bytes // (int(size.mean_bytes) + OVERHEAD_BYTES))
        self.numbers = dict.fromkeys(channels, 0)
        self._fixed = (
            {channel: RecordFactory(size.low_bytes, self.batch_records + 1) for channel in channels}
            if size.is_constant
            else {}
        )
        self._mixed = None if size.is_constant else MixedRecordFactory(size, seed)

    def make(
        self, channel: int, instants_ns: NDArray[np.int64] | int, count: int, *, now_ns: int
    ) -> SerializedRecords:
        """Records with the next numbers of their channel; the memory is good until the channel's
        next batch.
        """
        number = self.numbers[channel]
        self.numbers[channel] = number + count
        epoch_ns = self._epoch_ns
        if self._mixed is None:
            factory = self._fixed[channel]
            data = factory.serialize(number, instants_ns - epoch_ns, count, now_ns - epoch_ns)
            return SerializedRecords(data, instants_ns, record_bytes=factory.record_bytes)
        if isinstance(instants_ns, int):
            instants_ns = np.full(count, instants_ns, np.int64)
        data, ends = self._mixed.serialize(number, instants_ns - epoch_ns, now_ns - epoch_ns)
        return SerializedRecords(data, instants_ns, ends=ends)


class SourceState(Enum):
    """Life of a source task."""

    RUNNING = "running"
    AWAITING_ACKNOWLEDGEMENT = "awaiting acknowledgement"
    FINISHED = "finished"


class SourceTask:
    """One producing subtask.

    Args:
        arrivals: intended instants; None for the highest rate.
        start_ns: with the highest rate, when to begin.
        records: with the highest rate, how many records to emit from `measured_from_ns` on; None
            for no limit.
        end_ns: with the highest rate, when to stop; None for no end.
        channels: indices of the partition's channels in the run, for the probe.
        checkpoints: writes the barriers; None for a task that nobody asks for checkpoints.
    """

    def __init__(
        self,
        index: int,
        writer: RecordWriter,
        batcher: RecordBatcher,
        flusher: OutputFlusher,
        probe: Probe,
        channels: tuple[int, ...],
        *,
        arrivals: Arrivals | None,
        records: int | None,
        start_ns: int,
        measured_from_ns: int,
        end_ns: int | None,
        seed: int,
        checkpoints: OutputCheckpoints | None = None,
    ) -> None:
        self.index = index
        self.name = source_name(index)
        self.state = SourceState.RUNNING
        self._checkpoints = checkpoints or OutputCheckpoints(source_name(index), writer, channels)
        self.emitted_records = 0
        self.late_ns_max = 0
        self._writer = writer
        self._partition = writer.partition
        self._batcher = batcher
        self._flusher = flusher
        self._record = probe.record
        self._channels = channels
        self._arrivals = arrivals
        self._left = records
        self._start_ns = start_ns
        self._measured_from_ns = measured_from_ns
        self._end_ns = end_ns
        self._random = np.random.default_rng(seed)
        self._needs_keys = writer.selector.needs_keys
        self._waiting_since_ns = -1
        self.times = TaskTimes(start_ns=start_ns)
        if self._partition.partition_type.can_be_pipelined_consumed:  # others recover nothing
            self._partition.broadcast_event(EndOfOutputChannelStateEvent())

    @property
    def is_finished(self) -> bool:
        """Whether the end of the partition was written."""
        return self.state is SourceState.FINISHED

    @property
    def is_blocked(self) -> bool:
        """Whether the writer waits for buffers."""
        return self._waiting_since_ns >= 0

    @property
    def is_ready(self) -> bool:
        """Whether a step would do something now that another task of the turn made possible."""
        if self.state is SourceState.AWAITING_ACKNOWLEDGEMENT:
            return self._partition.is_all_acknowledged
        return self.is_blocked and self._partition.pool.is_available

    @property
    def sent_records(self) -> dict[int, int]:
        """Records emitted to each channel of the partition."""
        return sent_by_channel(self._batcher.numbers, len(self._channels))

    @property
    def writer(self) -> RecordWriter:
        """What it writes with."""
        return self._writer

    @property
    def is_writing_barrier(self) -> bool:
        """Whether a barrier waits, or may still time out: every step counts."""
        return self._checkpoints.is_pending

    @property
    def barrier_timeout_ns(self) -> int | None:
        """When a barrier that has not left times out; None if there is none."""
        return self._checkpoints.next_deadline_ns()

    def trigger_checkpoint(self, barrier: CheckpointBarrier, *, now_ns: int) -> None:
        """Write the barrier of a checkpoint (Flink: triggerCheckpointAsync)."""
        if self.is_finished:
            self._checkpoints.acknowledge_ended(barrier.checkpoint_id)
        else:
            self._checkpoints.write(barrier, now_ns=now_ns)

    def abort_checkpoint(self, checkpoint_id: int) -> None:
        """A checkpoint was given up; its barrier may wait still (Flink:
        notifyCheckpointAborted).
        """
        self._checkpoints.abort(checkpoint_id)

    def rest(self, *, now_ns: int) -> None:
        """The driver has nothing to step it for at once: what it waits for is counted from now
        on. To be called while `times.is_busy`.
        """
        writer = self._writer
        if self.state is SourceState.RUNNING and not writer.is_available:
            self.times.wait_for_output(writer.is_inside_record, now_ns=now_ns)
        else:
            self.times.wait(self.times.idle, now_ns=now_ns)

    def step(self, *, now_ns: int) -> int | None:
        """Do a bounded piece of work.

        Returns: when to step again; now_ns for at once, None for when the network has moved.
        """
        if self._checkpoints.is_pending:
            self._checkpoints.advance(now_ns=now_ns)
            next_ns = self._work(now_ns)
            due_ns = self._checkpoints.next_deadline_ns()
            if due_ns is not None and (next_ns is None or due_ns < next_ns):
                return due_ns
            return next_ns
        return self._work(now_ns)

    def _work(self, now_ns: int) -> int | None:
        if self._flusher.is_due(now_ns=now_ns):
            self._partition.flush_all()
        if self.state is SourceState.RUNNING:
            return self._emit(now_ns)
        if self.state is SourceState.AWAITING_ACKNOWLEDGEMENT:
            if self._partition.is_all_acknowledged:
                self._partition.finish()
                self._flusher.stop()
                self.state = SourceState.FINISHED
            return self._flusher.next_deadline_ns()
        return None

    def _emit(self, now_ns: int) -> int | None:
        writer = self._writer
        if writer.is_waiting:
            writer.resume()
        if not writer.is_available:
            if self._waiting_since_ns < 0:
                self._note_waiting(TracePoint.WRITER_WAITS, now_ns)
                self._waiting_since_ns = now_ns
            self.times.wait_for_output(writer.is_inside_record, now_ns=now_ns)
            return self._flusher.next_deadline_ns()
        if self._waiting_since_ns >= 0:
            self._note_waiting(TracePoint.WRITER_RESUMES, now_ns)
            self._waiting_since_ns = -1
            self.times.go_on(now_ns=now_ns)
        if self._arrivals is None:
            return self._emit_at_max_rate(now_ns)
        return self._emit_due(self._arrivals, now_ns)

    def _emit_due(self, arrivals: Arrivals, now_ns: int) -> int | None:
        instants = arrivals.take(now_ns, self._batcher.batch_records)
        if len(instants):
            self.times.go_on(now_ns=now_ns)
            self.late_ns_max = max(self.late_ns_max, now_ns - int(instants[0]))
            self._write(instants, len(instants), now_ns)
        else:
            self.times.wait(self.times.idle, now_ns=now_ns)
        next_ns = arrivals.next_ns()
        if next_ns is None:
            if not self._writer.is_waiting:
                self._end_data()
            return now_ns
        beat_ns = self._flusher.next_deadline_ns()
        return next_ns if beat_ns is None else min(next_ns, beat_ns)

    def _emit_at_max_rate(self, now_ns: int) -> int | None:
        if now_ns < self._start_ns:
            return self._start_ns
        if not self.times.is_busy:
            self.times.go_on(now_ns=now_ns)
        count = self._batcher.batch_records
        if self._left is not None and now_ns >= self._measured_from_ns:
            count = min(count, self._left)
            self._left -= count
        if count == 0 or (self._end_ns is not None and now_ns >= self._end_ns):
            self._end_data()
        else:
            self._write(now_ns, count, now_ns)
        return now_ns

    def _write(self, instants: NDArray[np.int64] | int, count: int, now_ns: int) -> None:
        keys = self._random.integers(0, KEYS, count) if self._needs_keys else None
        self.emitted_records += count
        for channel, indices in self._writer.selector.split(count, keys):
            if isinstance(instants, int):
                share = len(range(count)[indices]) if isinstance(indices, slice) else len(indices)
                batch = self._batcher.make(channel, instants, share, now_ns=now_ns)
            else:
                picked = instants[indices]
                batch = self._batcher.make(channel, picked, len(picked), now_ns=now_ns)
            self._writer.emit(channel, batch)

    def _end_data(self) -> None:
        self._partition.broadcast_event(EndOfData())
        self.state = SourceState.AWAITING_ACKNOWLEDGEMENT

    def _note_waiting(self, point: int, now_ns: int) -> None:
        """Of all that is not a message this is noted most often, twice a turn under pressure."""
        pool = self._partition.pool
        self._record(
            now_ns,
            self._channels[0],
            point,
            _BUFFER_RESPONSE,
            0,
            0,
            -1,
            0,
            -1,
            -1,
            -1,
            -1,
            -1,
            -1,
            pool.available_buffers,
            pool.size_buffers,
            -1,
        )
