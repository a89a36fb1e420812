# mypyc
"""RecordWriter: writes what a selector gave to each channel, keeps what did not fit, and flushes by
the rule of the buffer timeout.

The batch path: records come as one numpy batch for each channel, already serialised. A batch that
meets an exhausted pool waits here with the position it reached, and the task must not bring more
until it is through: that is back pressure.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from .channel_selector import ChannelSelector
from .result_partition import BROADCAST, ResultPartition


class SerializedRecords:
    """Records back to back, all of one length or of many, with their intended instants (implements
    RecordBytes).

    `data` is a memoryview of bytes; `instants_ns` an int64 array with one entry a record, or one
    int for all.
    """

    __slots__ = ("_ends", "_instants", "data", "record_bytes")

    def __init__(
        self,
        data: memoryview,
        instants_ns: NDArray[np.int64] | int,
        *,
        record_bytes: int = 0,
        ends: NDArray[np.int64] | None = None,
    ) -> None:
        self.data = data
        self.record_bytes = record_bytes
        self._ends = ends
        self._instants = instants_ns

    def locate(self, position: int) -> tuple[int, int]:
        """How far `position` lies inside its record (0: a record begins there), and where that
        record ends.
        """
        ends = self._ends
        if ends is None:
            into = position % self.record_bytes
            return into, position - into + self.record_bytes
        index = int(np.searchsorted(ends, position, side="right"))
        return position - (int(ends[index - 1]) if index else 0), int(ends[index])

    def ended_between(self, start: int, end: int) -> tuple[int, int, int] | None:
        """Records whose last byte lies in [start, end): their number, first and last intended
        instant in ns.
        """
        if self._ends is None:
            first, last = start // self.record_bytes, end // self.record_bytes
        else:
            first, last = np.searchsorted(self._ends, (start, end), side="right").tolist()
        if first == last:
            return None
        instants = self._instants
        if isinstance(instants, int):
            return last - first, instants, instants
        return last - first, int(instants[first]), int(instants[last - 1])

    def cut(self, position: int, size_bytes: int, pieces: int) -> list[tuple[int, int, int, int]]:
        """For each of so many pieces of `size_bytes` from `position` on: how many of its leading
        bytes continue a record; the records that end in it, their first and last intended instant
        in ns (0, -1, -1: none).
        """
        found: list[tuple[int, int, int, int]] = []
        reached = position + pieces * size_bytes
        if self._ends is not None:
            for start in range(position, reached, size_bytes):
                into, record_end = self.locate(start)
                continued_bytes = min(record_end - start, size_bytes) if into else 0
                mark = self.ended_between(start, start + size_bytes) or (0, -1, -1)
                found.append((continued_bytes, *mark))
            return found
        record_bytes, instants = self.record_bytes, self._instants
        first_ns = last_ns = instants if isinstance(instants, int) else -1
        begun = position // record_bytes
        continued_bytes = -position % record_bytes
        for end in range(position + size_bytes, reached + 1, size_bytes):
            if continued_bytes > size_bytes:
                found.append((size_bytes, 0, -1, -1))
                continued_bytes -= size_bytes
                continue
            ended = end // record_bytes
            if ended == begun:
                found.append((continued_bytes, 0, -1, -1))
            else:
                if not isinstance(instants, int):
                    first_ns, last_ns = int(instants[begun]), int(instants[ended - 1])
                found.append((continued_bytes, ended - begun, first_ns, last_ns))
            begun = ended
            continued_bytes = -end % record_bytes
        return found


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
