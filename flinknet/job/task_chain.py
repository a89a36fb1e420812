# mypyc
"""TaskChain: what a task does with what it takes, between its input and its outputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from flinknet.graph.operator_output import TaskEvent
from flinknet.graph.watermarks import MIN_WATERMARK_MS

from .latency_meter import LatencyMeter
from .latency_stats import LatencyStats

NEVER_NS = 1 << 62

PORTION_RECORDS = 4096
"""Records put out before they are written."""


class TaskChain:
    """The operators of a task as StreamTask drives them (Flink: OperatorChain's main input).

    A base class and not a protocol, so that a compiled task calls it directly.

    Attributes:
        batches: what was taken and is not processed to its end.
        sent_events: for the tasks that write what the chain reads, for the task to take.
        processed_records: handed to the operators, from gates or sources.
        record_ns: how long each record of the portion in work takes; 0 where that differs or is
            not known. Mail waits for the end of a record.
        latency_stats: what latency markers told its operators; None where there are none.
        timer_ns: when `fire_timers` is to be called next; NEVER_NS if there are no timers.
        is_asked_back: no further record is to be begun, since the task has something else to do.
    """

    def __init__(self) -> None:
        self.batches: deque[Any] = deque()
        self.processed_records = 0
        self.record_ns = 0
        self.timer_ns = NEVER_NS
        self.latency_stats: LatencyStats | None = None
        self.is_asked_back = False
        self.sent_events: list[TaskEvent] = []

    @property
    def listens_to(self) -> frozenset[str]:
        """Classes of events that it wants from the readers of what the task writes."""
        return frozenset()

    def add_task_event(self, event: TaskEvent) -> None:
        """Take such an event."""
        raise NotImplementedError

    @property
    def latency_meters(self) -> Sequence[LatencyMeter]:
        """What measures the latency of the records that end here."""
        return ()

    @property
    def current_watermark_ms(self) -> int:
        """The watermark of its inputs; MIN_WATERMARK_MS before the first."""
        return MIN_WATERMARK_MS

    def open(self) -> None:
        """Open the operators. Raises: TaskFailedError."""

    def add_made(self, operator_id: str, values: Any, instants: Any) -> None:
        """Take records that a source of the chain has made."""
        raise NotImplementedError

    def process_portion(self, began_ns: int) -> None:
        """Process the first of the batches, or a part of it.

        Args:
            began_ns: when the task begins with it.

        Raises: TaskFailedError.
        """
        raise NotImplementedError

    def fire_timers(self, now_ns: int) -> None:
        """Do what is due by the clock. Raises: TaskFailedError."""

    def finish(self) -> None:
        """No more records come: operators emit what they kept. Raises: TaskFailedError."""

    def close(self) -> None:
        """Close the operators. Raises: TaskFailedError."""

    def cancel(self) -> None:
        """The task ends early: close what is open, whatever fails."""
