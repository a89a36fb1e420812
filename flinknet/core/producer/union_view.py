"""UnionResultSubpartitionView: reads several subpartitions of a partition as one."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from flinknet.core.buffers import BufferSlice, DataType
from flinknet.core.buffers.data_type import IS_BLOCKING_UPSTREAM
from flinknet.core.channel_types import ResultSubpartitionView
from flinknet.core.wire.plain_frames import next_sequence_number

_DATA, _EVENT = int(DataType.DATA_BUFFER), int(DataType.EVENT_BUFFER)


class UnionResultSubpartitionView:
    """Views take turns. After data, a view keeps the turn until its record certainly ends, with an
    event or a buffer of type DATA_BUFFER_WITH_CLEAR_END. Sequence numbers count from 0 over all.

    Differs from Flink in that nothing is polled ahead.

    Args:
        views: views of the subpartitions, in order.
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
    def buffer_size_bytes(self) -> int:
        """Buffer size that the consumer wants."""
        return self._views[0].buffer_size_bytes

    @buffer_size_bytes.setter
    def buffer_size_bytes(self, size_bytes: int) -> None:
        for view in self._views:
            view.buffer_size_bytes = size_bytes

    @property
    def is_acknowledged(self) -> bool:
        """Whether the consumer has processed all records."""
        return all(view.is_acknowledged for view in self._views)

    @is_acknowledged.setter
    def is_acknowledged(self, is_acknowledged: bool) -> None:
        for view in self._views:
            view.is_acknowledged = is_acknowledged

    @property
    def is_data_available(self) -> bool:
        return self._next(has_credit=True) is not None

    @property
    def is_event_available(self) -> bool:
        """Whether a reader without credit may poll."""
        return self._next(has_credit=False) is not None

    @property
    def is_released(self) -> bool:
        """Whether all views are released."""
        return all(view.is_released for view in self._views)

    @property
    def failure_cause(self) -> str | None:
        """Why reading failed; None if it did not."""
        for view in self._views:
            if view.failure_cause is not None:
                return view.failure_cause
        return None

    @property
    def has_priority_events(self) -> bool:
        return self._views[0].has_priority_events

    @property
    def queued_bytes(self) -> int:
        return sum(view.queued_bytes for view in self._views)

    @property
    def queued_elements(self) -> int:
        return sum([view.queued_elements for view in self._views])

    @property
    def buffers_in_backlog(self) -> int:
        return sum([view.buffers_in_backlog for view in self._views])

    def poll(self) -> BufferSlice | None:
        """The next buffer or event; None if nothing can leave now."""
        run = self.poll_run(1, 1)
        return run[0] if run else None

    def poll_run(self, buffers_max: int, bytes_max: int) -> list[BufferSlice]:
        """The next buffers of one subpartition, or one event."""
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

    def resume_consumption(self) -> None:
        """Continue after blocking events. Raises: RuntimeError if nothing blocks."""
        if not self._blocked:
            raise RuntimeError("Should be blocked by checkpoint.")
        for view in self._blocked:
            view.resume_consumption()
        self._blocked.clear()

    def release(self) -> None:
        """Release all views: the reader is gone."""
        for view in self._views:
            view.release()

    def _next(self, *, has_credit: bool) -> ResultSubpartitionView | None:
        """The view whose turn it is, among those that can be polled."""
        if self._in_record is not None:
            return self._in_record if _may_poll(self._in_record, has_credit) else None
        for view in self._views:
            if _may_poll(view, has_credit):
                return view
        return None


def _may_poll(view: ResultSubpartitionView, has_credit: bool) -> bool:
    return view.is_data_available if has_credit else view.is_event_available
