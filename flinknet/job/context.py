"""ProcessingContext: which record a task is at, and how long it has worked on this turn."""

from __future__ import annotations

from collections.abc import Callable

from .elements import NO_TIMESTAMP, Instants


class ProcessingContext:
    """Shared by the operators, outputs and sinks of a task.

    Attributes:
        now_ns: when the task began with the records at hand.
        work_ns: time that it has taken since, by the delays of its operators.
        instant_ns: timestamp of the record at hand; of a batch, that of its earliest.
        instants: timestamps of the records of the batch at hand; None outside of batches.
        pending_records: that were put out and not handed to writers.
        clock: that passes while operators work; None where no time does.
    """

    __slots__ = ("clock", "instant_ns", "instants", "now_ns", "pending_records", "work_ns")

    def __init__(self) -> None:
        self.now_ns = 0
        self.work_ns = 0
        self.instant_ns = NO_TIMESTAMP
        self.instants: Instants | None = None
        self.pending_records = 0
        self.clock: Callable[[], int] | None = None

    @property
    def done_ns(self) -> int:
        """When the task is done with the record at hand."""
        done_ns = self.now_ns + self.work_ns
        return done_ns if self.clock is None else max(done_ns, self.clock())
