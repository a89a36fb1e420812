"""ProcessingContext: the record a task is processing, and the work done in this turn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flinknet.units import NS_PER_MS

from .elements import NO_TIMESTAMP, Instants


class ProcessingContext:
    """Shared by the operators, outputs and sinks of a task.

    Attributes:
        now_ns: when the task started on the current records.
        work_ns: work since then, from the delays of operators.
        instant_ns: when the current record was due; of a batch, the earliest.
        instants: due instants of the current batch; None outside of batches.
        timestamp_ms, timestamps: the same in event time, if the program assigns it.
        pending_records: records and other elements emitted and not yet passed to writers.
        clock: real time while operators work; None in virtual time.
        pressed_ns: time spent waiting for outputs; excludes a wait in progress.
        pressed_since_ns: start of the wait in progress; -1 if there is none.

    Args:
        epoch_ns: instant that is time of day 0.
    """

    __slots__ = (
        "_epoch_ns",
        "clock",
        "instant_ns",
        "instants",
        "now_ns",
        "pending_records",
        "pressed_ns",
        "pressed_since_ns",
        "timestamp_ms",
        "timestamps",
        "work_ns",
    )

    def __init__(self, *, epoch_ns: int = 0) -> None:
        self._epoch_ns = epoch_ns
        self.now_ns = 0
        self.work_ns = 0
        self.instant_ns = NO_TIMESTAMP
        self.instants: Instants | None = None
        self.timestamp_ms = NO_TIMESTAMP
        self.timestamps: Instants | None = None
        self.pending_records = 0
        self.pressed_ns = 0
        self.pressed_since_ns = -1
        self.clock: Callable[[], int] | None = None

    @property
    def done_ns(self) -> int:
        """When the task is done with the current record."""
        done_ns = self.now_ns + self.work_ns
        return done_ns if self.clock is None else max(done_ns, self.clock())

    @property
    def time_of_day_ms(self) -> int:
        """The current time of day, work included (Flink: currentTimeMillis)."""
        return (self.done_ns - self._epoch_ns) // NS_PER_MS

    @property
    def due_ms(self) -> int:
        """The time of day at which the current record was due; NO_TIMESTAMP if unknown."""
        instant_ns = self.instant_ns
        if instant_ns == NO_TIMESTAMP:
            return NO_TIMESTAMP
        return (instant_ns - self._epoch_ns) // NS_PER_MS

    def event_time_ms(self) -> int | None:
        """Event time of the current record; None if it has none."""
        return None if self.timestamp_ms == NO_TIMESTAMP else self.timestamp_ms

    @property
    def active_ns(self) -> int:
        """Time the task did not wait for its outputs (Flink: PausableRelativeClock)."""
        if self.pressed_since_ns >= 0:
            return self.pressed_since_ns - self.pressed_ns
        return self.now_ns - self.pressed_ns

    def timestamps_of(self, count: int) -> Instants:
        """Event time of the records of the current batch: their timestamps, or when they were due.
        If an operator changed the number of records, all get the earliest.
        """
        timestamps = self.timestamps
        if timestamps is not None:
            if len(timestamps) == count:
                return timestamps
        elif self.instants is not None and len(self.instants) == count:
            return np.where(
                self.instants == NO_TIMESTAMP,
                NO_TIMESTAMP,
                (self.instants - self._epoch_ns) // NS_PER_MS,
            )
        timestamp_ms = self.timestamp_ms
        return np.full(count, self.due_ms if timestamps is None else timestamp_ms, np.int64)
