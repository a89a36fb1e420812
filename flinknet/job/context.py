"""ProcessingContext: which record a task is at, and how long it has worked on this turn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flinknet.units import NS_PER_MS

from .elements import NO_TIMESTAMP, Instants


class ProcessingContext:
    """Shared by the operators, outputs and sinks of a task.

    Attributes:
        now_ns: when the task began with the records at hand.
        work_ns: time that it has taken since, by the delays of its operators.
        instant_ns: when the record at hand was due; of a batch, that of its earliest.
        instants: those of the records of the batch at hand; None outside of batches.
        timestamp_ms, timestamps: the same of event time, where the program assigns it.
        pending_records: that were put out and not handed to writers, other elements too.
        clock: that passes while operators work; None where no time does.
        pressed_ns: how long the task has waited for its outputs, up to `pressed_since_ns` if it
            waits now, which is -1 if not.

    Args:
        epoch_ns: the instant at which the time of day was 0.
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
        """When the task is done with the record at hand."""
        done_ns = self.now_ns + self.work_ns
        return done_ns if self.clock is None else max(done_ns, self.clock())

    @property
    def time_of_day_ms(self) -> int:
        """Of now, with the work that is done (Flink: currentTimeMillis)."""
        return (self.done_ns - self._epoch_ns) // NS_PER_MS

    @property
    def due_ms(self) -> int:
        """The time of day at which the record at hand was due; NO_TIMESTAMP if that is not
        known.
        """
        instant_ns = self.instant_ns
        if instant_ns == NO_TIMESTAMP:
            return NO_TIMESTAMP
        return (instant_ns - self._epoch_ns) // NS_PER_MS

    def event_time_ms(self) -> int | None:
        """Event time of the record at hand; None if it has none."""
        return None if self.timestamp_ms == NO_TIMESTAMP else self.timestamp_ms

    @property
    def active_ns(self) -> int:
        """Time that the task did not wait for its outputs (Flink: PausableRelativeClock)."""
        if self.pressed_since_ns >= 0:
            return self.pressed_since_ns - self.pressed_ns
        return self.now_ns - self.pressed_ns

    def timestamps_of(self, count: int) -> Instants:
        """Event time of the records of the batch at hand: those that they have, or when they were
        due. Where an operator made more or fewer than it was given, all have the earliest.
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
