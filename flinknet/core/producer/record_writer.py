# mypyc
"""RecordWriter: writes batches of records to channels, and flushes each record if the buffer
timeout is 0.

Records arrive serialised, as one numpy batch per channel. A batch that finds the pool exhausted
waits here, and the task must not bring more until it is written: that is back pressure.
"""

from __future__ import annotations

from collections import deque

from .channel_selector import ChannelSelector
from .data_buffer import SerializedRecords
from .result_partition import BROADCAST, ResultPartition


class RecordWriter:
    """The writing end of one output edge (Flink: RecordWriter with its ChannelSelector). Broadcast
    bytes count once per subpartition.
    """

    def __init__(
        self, partition: ResultPartition, selector: ChannelSelector, *, buffer_timeout_ns: int
    ) -> None:
        self.partition = partition
        self.selector = selector
        self.written_bytes = 0
        self._flushes_each_record = buffer_timeout_ns == 0
        self._waiting: deque[tuple[int, SerializedRecords, int]] = deque()

    @property
    def is_available(self) -> bool:
        """Whether new records may be emitted: none are waiting, and the partition takes records."""
        return not self._waiting and self.partition.is_available

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def waiting_batches(self) -> int:
        return len(self._waiting)

    @property
    def is_inside_record(self) -> bool:
        """Whether a record is partly written, so no event may follow now."""
        if not self._waiting:
            return False
        _, records, position = self._waiting[0]
        return position < len(records.data) and records.locate(position)[0] > 0

    def emit(self, channel: int, records: SerializedRecords) -> None:
        """Write records to a channel (or BROADCAST), and queue what finds no buffer.

        The memory of `records` must not change until `is_waiting` is False.
        """
        if self._waiting:
            self._waiting.append((channel, records, 0))
            return
        reached = self._write(channel, records, 0)
        if reached < len(records.data):
            self._waiting.append((channel, records, reached))

    def resume(self) -> bool:
        """Write what was waiting. Returns: whether all of it is written."""
        waiting = self._waiting
        while waiting:
            channel, records, position = waiting[0]
            reached = self._write(channel, records, position)
            if reached < len(records.data):
                waiting[0] = (channel, records, reached)
                return False
            waiting.popleft()
        return True

    def _write(self, channel: int, records: SerializedRecords, position: int) -> int:
        partition = self.partition
        reached = partition.emit(channel, records, position)
        if channel == BROADCAST:
            self.written_bytes += (reached - position) * len(partition.subpartitions)
        else:
            self.written_bytes += reached - position
        if self._flushes_each_record:
            if channel == BROADCAST:
                partition.flush_all()
            else:
                partition.flush(channel)
        return reached


FLUSH_OVERHEAD_NS = 100_000
"""Time of a round of Flink's flusher on an idle machine, from the end of its sleep to the start of
the next."""


class OutputFlusher:
    """Computes when the next flush is due; the owner flushes. Timeouts of 0 and -1 have no timer.

    Args:
        start_ns: when the first sleep begins.
        overhead_ns: shortest time of a round; an idle event loop would flush more often than a
            thread.
    """

    def __init__(
        self, timeout_ns: int, *, start_ns: int, overhead_ns: int = FLUSH_OVERHEAD_NS
    ) -> None:
        self.timeout_ns = timeout_ns
        self._overhead_ns = overhead_ns
        self._next_ns = start_ns + timeout_ns if timeout_ns > 0 else None

    def next_deadline_ns(self) -> int | None:
        return self._next_ns

    def is_due(self, *, now_ns: int) -> bool:
        """Whether a flush is due; if so, the next is due a timeout after the end of this round."""
        if self._next_ns is None or now_ns < self._next_ns:
            return False
        self._next_ns = max(now_ns, self._next_ns + self._overhead_ns) + self.timeout_ns
        return True

    def stop(self) -> None:
        self._next_ns = None
