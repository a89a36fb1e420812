# mypyc
"""PipelinedResultPartition: writes the output of one subtask along one edge into buffers, per
subpartition.

Records come in batches, but the buffers are the same as if they were written one by one:
- a record spans as many buffers as it needs; records share a buffer if they fit;
- a new record is begun only while the pool is available; overdraft is for its end;
- for a new record the consumer is queued before the bytes, for a continuation after them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flinknet.core.buffers import (
    BufferBuilder,
    BufferConsumer,
    BufferSlice,
    LocalBufferPool,
    PrefilledSegment,
)
from flinknet.core.probe import FlushReason
from flinknet.core.wire.events import EndOfData, Event, data_type_of, encode_pipelined
from flinknet.core.wire.ids import ResultPartitionID

from .approximate_subpartition import PipelinedApproximateSubpartition
from .data_buffer import SerializedRecords
from .partition_type import ResultPartitionType
from .result_partition import BROADCAST, ResultPartition
from .subpartition import PipelinedSubpartition

_FULL = int(FlushReason.FULL)


class PipelinedResultPartition(ResultPartition):
    """A partition of queued buffers that is read once, while it is produced (Flink:
    PipelinedResultPartition and BufferWritingResultPartition).

    It counts its users, the producer and each subpartition's reader, and is released after the
    last: data survives until the producer has closed it and every consumer has released its view.
    """

    def __init__(
        self,
        partition_id: ResultPartitionID,
        subpartitions: int,
        pool_supplier: Callable[[], LocalBufferPool],
        *,
        exclusive_buffers: int,
        partition_type: ResultPartitionType = ResultPartitionType.PIPELINED_BOUNDED,
    ) -> None:
        is_approximate = partition_type is ResultPartitionType.PIPELINED_APPROXIMATE
        kind = PipelinedApproximateSubpartition if is_approximate else PipelinedSubpartition
        own = tuple([kind(index, exclusive_buffers) for index in range(subpartitions)])
        super().__init__(partition_id, partition_type, own, pool_supplier)
        self.users = subpartitions + 1
        self._consumed: set[int] = set()
        self._own: Sequence[PipelinedSubpartition] = own
        self._builders: list[BufferBuilder | None] = [None] * (subpartitions + 1)
        self._prefilled: dict[int, PrefilledSegment] = {}
        self._segment_bytes = 0  # until `setup`
        for subpartition in own:
            subpartition.on_consumed = self.handle_consumed_subpartition

    def setup(self) -> None:
        super().setup()
        self._segment_bytes = self.pool.segment_size_bytes

    def emit(self, channel: int, batch: SerializedRecords, position: int = 0) -> int:
        if self.is_finished:
            raise RuntimeError("emit on a finished partition")
        if channel == BROADCAST:
            self._finish_unicast(_FULL)
        elif self._builders[BROADCAST] is not None:
            self._finish(BROADCAST, _FULL)
        builder = self._builders[channel]
        data, pool = batch.data, self.pool
        total = len(data)
        is_available = pool.is_available
        if channel in self._prefilled:
            if not is_available:
                return position  # the start of a record
            position, builder = self._leave_prefilled(channel, batch, position)
        while position < total:
            consumer = None
            if builder is None:
                if is_available:
                    position = self._emit_complete(channel, batch, position)
                    if position == total or channel in self._prefilled:
                        break
                into, record_end = batch.locate(position)
                if into == 0 and not is_available:
                    break
                buffer = pool.try_request(channel if channel > 0 else 0)
                if buffer is None:
                    break
                builder = BufferBuilder(buffer)
                consumer = builder.create_consumer()
                is_available = pool.is_available
                end = total if is_available else record_end
                if into == 0:
                    self._add(channel, consumer, builder, record_end - position)
                elif self._desired_bytes(channel) < builder.capacity_bytes:
                    end = record_end  # the buffer is trimmed once the rest of the record is in it
            elif is_available:
                end = total
            else:
                into, record_end = batch.locate(position)
                if into == 0:
                    break
                end = record_end
            start, capacity = builder.written_bytes, builder.capacity_bytes
            if not is_available:
                missing = record_end - position - capacity + start
                if missing >= 0:  # the rest of the segment first, then another buffer
                    builder.trim(capacity + missing + 1)
                    capacity = builder.capacity_bytes
            reached = position + capacity - start
            if reached > end:
                reached = end
            filled = start + reached - position
            builder.view[start:filled] = data[position:reached]
            builder.written_bytes = builder.committed_bytes = filled
            mark = batch.ended_between(position, reached)
            if mark is not None:
                builder.marks.append(mark)
            if consumer is not None and into:
                consumer.partial_record_length = min(reached, record_end) - position
                consumer.look()
                self._add(channel, consumer, builder, consumer.partial_record_length)
            position = reached
            if filled == builder.capacity_bytes:
                builder.finish(_FULL)
                builder.buffer.recycle()
                builder = None
        self._builders[channel] = builder
        return position

    def _emit_complete(self, channel: int, batch: SerializedRecords, position: int) -> int:
        """Fill whole segments, while new records may be begun and segments need no trimming. The
        segment that makes the pool unavailable takes one record to its end, and further ones when
        there is room again; if all records are equal and shorter than the segment, it is prefilled
        with them.

        Returns: the position reached.
        """
        data, size = batch.data, self._segment_bytes
        segments = (len(data) - position) // size
        if not segments or self._desired_bytes(channel) < size:
            return position
        record_bytes, pool = batch.record_bytes, self.pool
        may_prefill = (
            0 < record_bytes < size and channel != BROADCAST and self._own[channel].takes_prefilled
        )
        buffers = pool.request_while_available(
            channel if channel > 0 else 0, segments, and_last=may_prefill
        )
        if not buffers:
            return position
        slices = []
        for buffer, (continued_bytes, records, first_ns, last_ns) in zip(
            buffers, batch.cut(position, size, len(buffers)), strict=True
        ):
            reached = position + size
            view = buffer.view
            view[:] = data[position:reached]
            slices.append(
                BufferSlice(buffer, view, size, records, first_ns, last_ns, _FULL, continued_bytes)
            )
            position = reached
        if may_prefill and not pool.is_available:
            piece = slices[-1]
            published_bytes = piece.partial_record_length or record_bytes
            position += published_bytes - size
            self._prefilled[channel] = PrefilledSegment(piece, published_bytes, batch, position)
        if channel == BROADCAST:
            copies = [[each.copy() for each in slices] for _ in self._own[1:]]
            for subpartition, each in zip(self._own, (slices, *copies), strict=True):
                subpartition.add_complete(each)
        else:
            self._own[channel].add_complete(slices)
        return position

    def _leave_prefilled(
        self, channel: int, batch: SerializedRecords | None, position: int
    ) -> tuple[int, BufferBuilder | None]:
        """Publish the rest of the prefilled segment, if `batch` continues there. Returns: the
        position reached; the builder of the segment if other bytes come next, or if its beginning
        has been read.
        """
        prefilled = self._prefilled.pop(channel)
        if prefilled.builder is not None:
            return position, prefilled.builder
        if prefilled.batch is batch and prefilled.position == position:
            return position + prefilled.publish(), None
        return position, self._own[channel].reopen(prefilled)

    def broadcast_event(
        self, event: Event, *, is_last: bool = False, is_priority: bool = False
    ) -> int:
        reason = FlushReason.END if isinstance(event, EndOfData) else FlushReason.EVENT
        self._finish_unicast(reason)
        self._finish(BROADCAST, reason)
        data, data_type = encode_pipelined(event), data_type_of(event, is_priority)
        overtaken_bytes = 0
        if is_priority:
            overtaken_bytes = sum(each.queued_data_bytes for each in self._own)
        for subpartition in self._own:
            subpartition.add(BufferConsumer.of_event(data, data_type), is_last=is_last)
        return overtaken_bytes

    def holds_barrier(self, checkpoint_id: int) -> bool:
        return any(each.find_timeoutable_barrier(checkpoint_id) is not None for each in self._own)

    def alignment_timeout(self, checkpoint_id: int) -> int:
        return sum(each.alignment_timeout(checkpoint_id) for each in self._own)

    def flush(self, channel: int) -> None:
        self._own[channel].flush()

    def flush_all(self) -> None:
        for subpartition in self._own:
            subpartition.flush()

    def close(self) -> None:
        if self.is_closed:
            return
        self._leave_all_prefilled()
        for builder in self._builders:
            if builder is not None:
                builder.close()
        self._builders = [None] * len(self._builders)
        super().close()
        self._end_use()

    def handle_consumed_subpartition(self, index: int) -> None:
        """Count a released view; only the first one per subpartition counts."""
        if not self.is_released and index not in self._consumed:
            self._consumed.add(index)
            self._end_use()

    def _end_use(self) -> None:
        self.users -= 1
        if self.users < 0:
            raise RuntimeError(f"partition {self.partition_id} has fewer than no users")
        if self.users:
            return
        if self.manager is not None:
            self.manager.handle_consumed(self)
        else:
            self.release()

    def fail(self, cause: str) -> None:
        """Drop all data and notify every reader (ProducerFailedException). Differs from Flink,
        which notifies only readers currently in the queue of their connection.
        """
        if not self.is_released:
            super().fail(cause)
            for subpartition in self._own:
                subpartition.notify_released()

    def _desired_bytes(self, channel: int) -> int:
        if channel == BROADCAST:
            return min(each.buffer_size_bytes for each in self._own)
        return self._own[channel].buffer_size_bytes

    def _add(
        self, channel: int, consumer: BufferConsumer, builder: BufferBuilder, record_bytes: int
    ) -> None:
        if channel == BROADCAST:
            copies = [consumer.copy() for _ in self._own[1:]]
            desired = min(
                subpartition.add(each)
                for subpartition, each in zip(self._own, (consumer, *copies), strict=True)
            )
        else:
            desired = self._own[channel].add(consumer)
        if 0 < desired < builder.capacity_bytes:
            builder.trim(max(record_bytes, desired))

    def _leave_all_prefilled(self) -> None:
        for channel in list(self._prefilled):
            _, self._builders[channel] = self._leave_prefilled(channel, None, 0)

    def _finish_unicast(self, reason: int) -> None:
        self._leave_all_prefilled()
        for channel in range(len(self._own)):
            self._finish(channel, reason)

    def _finish(self, channel: int, reason: int) -> None:
        builder = self._builders[channel]
        if builder is not None:
            builder.finish(reason)
            builder.close()
            self._builders[channel] = None
