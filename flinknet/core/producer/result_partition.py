"""PipelinedResultPartition: everything one subtask produces on one edge, laid into buffers for each
subpartition.

Bytes lie in the buffers exactly as record-by-record writing would have laid them, although they
come in batches:
- a record spans as many buffers as it needs, two records share one where they fit;
- a new record is begun only while the pool is available; a record once begun may use overdraft
  buffers to its end;
- for a new record the consumer is queued before the bytes, for a continuation after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flinknet.core.buffers import (
    BufferBuilder,
    BufferConsumer,
    LocalBufferPool,
)
from flinknet.core.probe import FlushReason
from flinknet.core.wire.events import (
    EndOfData,
    EndOfPartitionEvent,
    Event,
    data_type_of,
    encode_pipelined,
)
from flinknet.core.wire.ids import ResultPartitionID

from .subpartition import PipelinedSubpartition

_FULL = int(FlushReason.FULL)

BROADCAST = -1
"""Channel number that stands for all subpartitions sharing one buffer."""


class RecordBytes(Protocol):
    """A batch of serialised records, back to back: length prefix, element, length prefix, …"""

    data: memoryview
    record_bytes: int
    """Length of every record, prefix included; 0 if they differ."""

    def locate(self, position: int) -> tuple[int, int]:
        """How far `position` lies inside its record (0: a record begins there), and where that
        record ends.
        """

    def ended_between(self, start: int, end: int) -> tuple[int, int, int] | None:
        """Records whose last byte lies in [start, end): their number, first and last intended
        instant in ns.
        """


class PipelinedResultPartition:
    """A pipelined, bounded partition (Flink: PipelinedResultPartition).

    Its pool is created from `required = subpartitions + 1` and the maximum `subpartitions *
    exclusive + floating`.
    """

    def __init__(
        self,
        partition_id: ResultPartitionID,
        subpartitions: int,
        pool: LocalBufferPool,
        *,
        exclusive_buffers: int,
    ) -> None:
        self.partition_id = partition_id
        self.pool = pool
        self.subpartitions: Sequence[PipelinedSubpartition] = tuple(
            PipelinedSubpartition(index, exclusive_buffers) for index in range(subpartitions)
        )
        self.is_finished = False
        self.is_released = False
        self._builders: list[BufferBuilder | None] = [None] * subpartitions
        self._broadcast_builder: BufferBuilder | None = None

    def emit(self, channel: int, batch: RecordBytes, position: int = 0) -> int:
        """Lay the bytes of `batch` from `position` on into buffers of one channel, or of all
        (BROADCAST).

        Returns: the position reached; less than len(batch.data) when no buffer may be had now. The
            rest must be emitted
        before anything else on this channel.
        """
        if self.is_finished:
            raise RuntimeError("emit on a finished partition")
        if channel == BROADCAST:
            self._finish_unicast(FlushReason.FULL)
            builder = self._broadcast_builder
        else:
            if self._broadcast_builder is not None:
                self._finish_broadcast(FlushReason.FULL)
            builder = self._builders[channel]
        data, pool, quota_channel = batch.data, self.pool, max(channel, 0)
        record_bytes = batch.record_bytes
        total = len(data)
        is_available = pool.is_available
        while position < total:
            if record_bytes:
                into = position % record_bytes
                record_end = position - into + record_bytes
            else:
                into, record_end = batch.locate(position)
            end = total
            if not is_available:
                if into == 0:
                    break
                end = record_end
            consumer = None
            if builder is None:
                buffer = pool.try_request(quota_channel)
                if buffer is None:
                    break
                builder = BufferBuilder(buffer)
                consumer = builder.create_consumer()
                is_available = pool.is_available
                if not is_available:
                    end = record_end
                if into == 0:
                    self._add(channel, consumer, builder, record_end - position)
                elif self._desired_bytes(channel) < builder.capacity_bytes:
                    end = record_end  # the buffer is trimmed when the rest of the record is in it
            start = builder.written_bytes
            reached = position + builder.capacity_bytes - start
            if reached > end:
                reached = end
            filled = start + reached - position
            builder.view[start:filled] = data[position:reached]
            builder.written_bytes = builder.committed_bytes = filled
            mark = batch.ended_between(position, reached)
            if mark is not None:
                builder.marks.append(mark)
            if into and consumer is not None:
                consumer.partial_record_length = min(reached, record_end) - position
                consumer.look()
                self._add(channel, consumer, builder, consumer.partial_record_length)
            position = reached
            if filled == builder.capacity_bytes:
                builder.finish(_FULL)
                builder.buffer.recycle()
                builder = None
        if channel == BROADCAST:
            self._broadcast_builder = builder
        else:
            self._builders[channel] = builder
        return position

    def broadcast_event(self, event: Event, *, is_last: bool = False) -> None:
        """Close all open buffers and put the event behind them in every subpartition; it needs no
        buffer.
        """
        reason = FlushReason.END if isinstance(event, EndOfData) else FlushReason.EVENT
        self._finish_unicast(reason)
        self._finish_broadcast(reason)
        data = encode_pipelined(event)
        for subpartition in self.subpartitions:
            subpartition.add(BufferConsumer.of_event(data, data_type_of(event)), is_last=is_last)

    def flush(self, channel: int) -> None:
        """Make one channel's bytes readable; its builder stays open."""
        self.subpartitions[channel].flush()

    def flush_all(self) -> None:
        """Make all bytes readable; builders stay open."""
        for subpartition in self.subpartitions:
            subpartition.flush()

    @property
    def is_all_acknowledged(self) -> bool:
        """Whether every consumer has acknowledged the end of data."""
        return all(subpartition.is_acknowledged for subpartition in self.subpartitions)

    def finish(self) -> None:
        """Append EndOfPartition to every subpartition; nothing can be emitted afterwards."""
        self.broadcast_event(EndOfPartitionEvent(), is_last=True)
        self.is_finished = True

    def release(self) -> None:
        """Drop all queues and the pool."""
        if self.is_released:
            return
        self.is_released = True
        for builder in (*self._builders, self._broadcast_builder):
            if builder is not None:
                builder.close()
        self._builders = [None] * len(self._builders)
        self._broadcast_builder = None
        for subpartition in self.subpartitions:
            subpartition.release()
        self.pool.destroy()

    def _desired_bytes(self, channel: int) -> int:
        if channel == BROADCAST:
            return min(each.buffer_size_bytes for each in self.subpartitions)
        return self.subpartitions[channel].buffer_size_bytes

    def _add(
        self, channel: int, consumer: BufferConsumer, builder: BufferBuilder, record_bytes: int
    ) -> None:
        if channel == BROADCAST:
            copies = [consumer.copy() for _ in self.subpartitions[1:]]
            desired = min(
                subpartition.add(each)
                for subpartition, each in zip(self.subpartitions, (consumer, *copies), strict=True)
            )
        else:
            desired = self.subpartitions[channel].add(consumer)
        if 0 < desired < builder.capacity_bytes:
            builder.trim(max(record_bytes, desired))

    def _finish_unicast(self, reason: int) -> None:
        for channel, builder in enumerate(self._builders):
            if builder is not None:
                builder.finish(reason)
                builder.close()
                self._builders[channel] = None

    def _finish_broadcast(self, reason: int) -> None:
        if self._broadcast_builder is not None:
            self._broadcast_builder.finish(reason)
            self._broadcast_builder.close()
            self._broadcast_builder = None
