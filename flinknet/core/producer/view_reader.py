# mypyc
"""CreditBasedSequenceNumberingViewReader: the producer's end of one channel, with its credit;
PartitionRequestQueue: the readers that have data and credit take turns.

Invariant: credits_available >= 0; every polled data buffer takes one, events take none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import ClassVar

from flinknet.core.buffers import UNLIMITED_BUFFERS, BufferSlice, DataType
from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM, IS_BUFFER
from flinknet.core.channel_types import ResultSubpartitionView
from flinknet.core.wire.layout import next_sequence_number
from flinknet.errors import CreditExceededError

from .result_partition import ResultPartition
from .sort_merge import SortMergeResultPartition

_DATA, _EVENT = int(DataType.DATA_BUFFER), int(DataType.EVENT_BUFFER)


class UnionResultSubpartitionView:
    """Several subpartitions, read over the network as one; views take turns. After data, a view
    keeps the turn until its record certainly ends, with an event or a buffer of type
    DATA_BUFFER_WITH_CLEAR_END. Sequence numbers count from 0 over all. Differs from Flink in that
    nothing is polled ahead.

    Args:
        is_one_stream: do not report the subpartition of a buffer, as for sort-merge partitions in
            Flink.

    Attributes:
        index: subpartition of the last poll, or -1.
    """

    def __init__(
        self, views: Sequence[ResultSubpartitionView], *, is_one_stream: bool = False
    ) -> None:
        self.index = -1
        self._views = deque(views)
        self._is_one_stream = is_one_stream
        self._in_record: ResultSubpartitionView | None = None
        self._blocked: list[ResultSubpartitionView] = []
        self._sequence_number = 0

    @property
    def is_data_available(self) -> bool:
        return self._next(has_credit=True) is not None

    @property
    def is_event_available(self) -> bool:
        return self._next(has_credit=False) is not None

    @property
    def failure_cause(self) -> str | None:
        causes = [view.failure_cause for view in self._views]
        return next((cause for cause in causes if cause is not None), None)

    def poll_run(self, buffers_max: int, bytes_max: int) -> list[BufferSlice]:
        view = self._next(has_credit=buffers_max > 0)
        run = [] if view is None else view.poll_run(buffers_max, bytes_max)
        if not run:
            return run
        assert view is not None
        self.index = -1 if self._is_one_stream else view.index
        last = run[-1]
        if last.data_type == _DATA:
            self._in_record = view
        else:
            self._in_record = None
            self._views.remove(view)
            self._views.append(view)
        others = sum([each.backlog() for each in self._views if each is not view])
        for piece in run:
            piece.sequence_number = self._sequence_number
            self._sequence_number = next_sequence_number(self._sequence_number)
            piece.backlog_buffers += others
        if last.data_type in IS_BLOCKING_UPSTREAM:
            self._blocked.append(view)
            last.backlog_buffers = 0
        if self._in_record is None:
            last.next_data_type = (
                _EVENT if self.is_event_available else _DATA if self.is_data_available else 0
            )
        return run

    def backlog(self) -> int:
        return sum([view.backlog() for view in self._views])

    def acknowledge_all_data_processed(self) -> None:
        for view in self._views:
            view.acknowledge_all_data_processed()

    def notify_new_buffer_size(self, size_bytes: int) -> None:
        for view in self._views:
            view.notify_new_buffer_size(size_bytes)

    def resume_consumption(self) -> None:
        if not self._blocked:
            raise RuntimeError("Should be blocked by checkpoint.")
        for view in self._blocked:
            view.resume_consumption()
        self._blocked.clear()

    def release(self) -> None:
        for view in self._views:
            view.release()

    def _next(self, *, has_credit: bool) -> ResultSubpartitionView | None:
        if self._in_record is not None:
            return self._in_record if _may_poll(self._in_record, has_credit) else None
        for view in self._views:
            if _may_poll(view, has_credit):
                return view
        return None


def _may_poll(view: ResultSubpartitionView, has_credit: bool) -> bool:
    return view.is_data_available if has_credit else view.is_event_available


class CreditBasedSequenceNumberingViewReader:
    """Reads one subpartition, or a range of them, for one receiver, as its credit permits."""

    credit_per_buffer: ClassVar[int] = 1
    """Credit taken by a data buffer."""

    def __init__(
        self,
        receiver_id: bytes,
        channel: int,
        initial_credit: int,
        notify: Callable[[CreditBasedSequenceNumberingViewReader], None],
    ) -> None:
        self.receiver_id = receiver_id
        self.channel = channel
        self.initial_credit = initial_credit
        self.credits_available = initial_credit
        self.is_enqueued = False
        self.empty_turns = 0  # that found nothing to send
        self.starved_ns = 0
        self.starved_since_ns = -1
        self.partition: ResultPartition | None = None
        self.subpartition: ResultSubpartitionView | UnionResultSubpartitionView | None = None
        self._notify = notify

    def attach(self, partition: ResultPartition, first: int, last: int) -> None:
        """Start reading the subpartitions from `first` to `last`, or none. Raises: IndexError;
        RuntimeError if one is requested already.
        """
        count = len(partition.subpartitions)
        if not 0 <= first <= last < count:
            beyond = first if first >= count else last
            raise IndexError(f"partition {partition.partition_id} has no subpartition {beyond}")
        views: list[ResultSubpartitionView] = []
        try:
            for index in range(first, last + 1):
                views.append(partition.create_read_view(index, self.notify_data_available))
        except Exception:
            for view in views:
                view.release()
            raise
        is_one_stream = isinstance(partition, SortMergeResultPartition)
        self.partition = partition
        self.subpartition = (
            views[0]
            if len(views) == 1
            else UnionResultSubpartitionView(views, is_one_stream=is_one_stream)
        )
        self.notify_data_available()

    def notify_data_available(self) -> None:
        """Notify the connection that the subpartition has something to read."""
        self._notify(self)

    @property
    def failure_cause(self) -> str | None:
        if self.partition is None or self.subpartition is None:
            return None
        return self.partition.failure_cause or self.subpartition.failure_cause

    @property
    def is_available(self) -> bool:
        """Whether something can be sent: data with credit, or an event."""
        subpartition = self.subpartition
        if subpartition is None:
            return False
        if self.credits_available > 0:
            return subpartition.is_data_available
        return subpartition.is_event_available

    def poll(self, bytes_max: int = 1) -> list[BufferSlice]:
        """The next buffers, up to the credit and until they have `bytes_max`, or one event. Raises:
        CreditExceededError if data leaves without credit.
        """
        assert self.subpartition is not None
        run = self.subpartition.poll_run(self.credits_available, bytes_max)
        if run and run[0].data_type in IS_BUFFER:
            self.credits_available -= len(run)
            if self.credits_available < 0:
                for each in run:
                    each.recycle()
                raise CreditExceededError(self.receiver_id.hex(), self.credits_available)
        return run

    def add_credit(self, credit: int, *, now_ns: int) -> None:
        self.credits_available += credit
        if self.starved_since_ns >= 0:
            self.starved_ns += now_ns - self.starved_since_ns
            self.starved_since_ns = -1

    def note_starved(self, *, now_ns: int) -> None:
        """Start to count starved time, if data is waiting without credit."""
        if self.starved_since_ns < 0 and self.credits_available == 0:
            self.starved_since_ns = now_ns

    def starved_until(self, now_ns: int) -> int:
        if self.starved_since_ns < 0:
            return self.starved_ns
        return self.starved_ns + now_ns - self.starved_since_ns

    def resume_consumption(self) -> None:
        """Unblock after a blocking event, without credit if there are no exclusive buffers."""
        assert self.subpartition is not None
        if self.initial_credit == 0:
            self.credits_available = 0
        self.subpartition.resume_consumption()

    def needs_backlog_announcement(self) -> int:
        """The backlog to announce to a receiver without credit and exclusive buffers; 0: none."""
        if self.initial_credit or self.credits_available or self.subpartition is None:
            return 0
        return self.subpartition.backlog()

    def release(self) -> None:
        """Release the view: the receiver is gone. What is kept of the reader are its figures."""
        self.starved_since_ns = -1
        if self.subpartition is not None:
            self.subpartition.release()
            self.subpartition = self.partition = None


UNCOUNTED = -1
"""Credit of a reader that needs none; probes read it as "not applicable"."""


class SequenceNumberingViewReader(CreditBasedSequenceNumberingViewReader):
    """Reads one subpartition for one receiver, without credit (Flink: SequenceNumberingViewReader):
    like the other reader with unlimited credit, and with the subpartition's sequence numbers.
    """

    credit_per_buffer: ClassVar[int] = 0

    @property
    def is_available(self) -> bool:
        return self.subpartition is not None and self.subpartition.is_data_available

    def poll(self, bytes_max: int = 1) -> list[BufferSlice]:
        assert self.subpartition is not None
        return self.subpartition.poll_run(UNLIMITED_BUFFERS, bytes_max)

    def resume_consumption(self) -> None:
        assert self.subpartition is not None
        self.subpartition.resume_consumption()

    def needs_backlog_announcement(self) -> int:
        return 0


class PartitionRequestQueue:
    """Round robin by buffer over the available ones of all `readers` (Flink:
    PartitionRequestQueue).
    """

    def __init__(self) -> None:
        self.readers: dict[bytes, CreditBasedSequenceNumberingViewReader] = {}
        self.available: deque[CreditBasedSequenceNumberingViewReader] = deque()

    def add(self, reader: CreditBasedSequenceNumberingViewReader) -> None:
        self.readers[reader.receiver_id] = reader

    def enqueue(self, reader: CreditBasedSequenceNumberingViewReader) -> bool:
        """Enqueue a reader if it can send. Returns: whether it is in the FIFO now."""
        if reader.is_enqueued:
            return True
        if not reader.is_available:
            return False
        reader.is_enqueued = True
        self.available.append(reader)
        return True

    def poll(
        self, bytes_max: int = 1
    ) -> tuple[CreditBasedSequenceNumberingViewReader, list[BufferSlice]] | None:
        """The next buffer of the first reader, which goes to the tail if it has more. A reader that
        is alone takes several turns at once, up to `bytes_max`.
        """
        available = self.available
        while available:
            reader = available.popleft()
            reader.is_enqueued = False
            run = reader.poll(1 if available else bytes_max)
            if not run:
                reader.empty_turns += 1
                continue
            following = run[-1].next_data_type
            if following and (reader.credits_available or following not in IS_BUFFER):
                reader.is_enqueued = True
                available.append(reader)
            return reader, run
        return None

    def remove(self, receiver_id: bytes) -> CreditBasedSequenceNumberingViewReader | None:
        reader = self.readers.pop(receiver_id, None)
        if reader is not None and reader.is_enqueued:
            self.available.remove(reader)
            reader.is_enqueued = False
        return reader
