# mypyc
"""RecordWriter: writes what a selector gave to each channel, keeps what did not fit, and flushes by
the rule of the buffer timeout.

The batch path: records come as one numpy batch for each channel, already serialised. A batch that
meets an exhausted pool waits here with the position it reached, and the task must not bring more
until it is through: that is back pressure.
"""

from __future__ import annotations

from collections import deque

from .channel_selector import ChannelSelector
from .result_partition import BROADCAST, ResultPartition
from .serialized_records import SerializedRecords


class RecordWriter:
    """The writing end of one output edge (Flink: RecordWriter with its ChannelSelector).

    Attributes:
        written_bytes: laid into buffers so far; what is broadcast counts for every subpartition.
    """

    def __init__(
        self,
        partition: ResultPartition,
        selector: ChannelSelector,
        *,
        buffer_timeout_ns: int,
    ) -> None:
        self.partition = partition
        self.selector = selector
        self.written_bytes = 0
        self._flushes_each_record = buffer_timeout_ns == 0
        self._waiting: deque[tuple[int, SerializedRecords, int]] = deque()

    @property
    def is_available(self) -> bool:
        """Whether new records may be brought: nothing waits and the partition takes records."""
        return not self._waiting and self.partition.is_available

    @property
    def is_waiting(self) -> bool:
        """Whether records wait for buffers."""
        return bool(self._waiting)

    @property
    def waiting_batches(self) -> int:
        """How many batches wait for buffers, elements that are not records among them."""
        return len(self._waiting)

    @property
    def is_inside_record(self) -> bool:
        """Whether a record is written in part, so that no event may follow now."""
        if not self._waiting:
            return False
        _, records, position = self._waiting[0]
        return position < len(records.data) and records.locate(position)[0] > 0

    def emit(self, channel: int, records: SerializedRecords) -> None:
        """Write records to a channel (or BROADCAST); what finds no buffer waits.

        The memory of `records` must stay as it is until `is_waiting` is false.
        """
        if self._waiting:
            self._waiting.append((channel, records, 0))
            return
        reached = self._write(channel, records, 0)
        if reached < len(records.data):
            self._waiting.append((channel, records, reached))

    def resume(self) -> bool:
        """Go on with what waits. Returns: whether all of it is written."""
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
        """Returns: the position reached."""
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
