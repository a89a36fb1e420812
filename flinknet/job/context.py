"""ProcessingContext: the record a task is processing, and the work done in this turn; failures of
the program's functions, in words."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Any

import numpy as np

import flinknet
from flinknet.errors import TaskFailedError
from flinknet.graph.user_functions import (
    MODULE_NAME,
    NoSuchCallError,
    WrongResultError,
    function_code,
    shown,
)
from flinknet.units import NS_PER_MS, ordinal

from .elements import NO_TIMESTAMP, Instants


@dataclass(slots=True, eq=False)
class ProcessingContext:
    """Shared by the operators, outputs and sinks of a task.

    Attributes:
        epoch_ns: instant that is time of day 0.
        now_ns: when the task started on the current records.
        work_ns: work since then, from the delays of operators.
        instant_ns: when the current record was due; of a batch, the earliest.
        instants: due instants of the current batch; None outside of batches.
        timestamp_ms, timestamps: the same in event time, if the program assigns it.
        pending_records: records and other elements emitted and not yet passed to writers.
        clock: real time while operators work; None in virtual time.
        pressed_ns: time spent waiting for outputs; excludes a wait in progress.
        pressed_since_ns: start of the wait in progress; -1 if there is none.
    """

    epoch_ns: int = 0
    now_ns: int = 0
    work_ns: int = 0
    instant_ns: int = NO_TIMESTAMP
    instants: Instants | None = None
    timestamp_ms: int = NO_TIMESTAMP
    timestamps: Instants | None = None
    pending_records: int = 0
    pressed_ns: int = 0
    pressed_since_ns: int = -1
    clock: Callable[[], int] | None = None

    @property
    def done_ns(self) -> int:
        """When the task is done with the current record."""
        done_ns = self.now_ns + self.work_ns
        return done_ns if self.clock is None else max(done_ns, self.clock())

    @property
    def due_ms(self) -> int:
        """The time of day at which the current record was due; NO_TIMESTAMP if unknown."""
        instant_ns = self.instant_ns
        if instant_ns == NO_TIMESTAMP:
            return NO_TIMESTAMP
        return (instant_ns - self.epoch_ns) // NS_PER_MS

    def event_time_ms(self) -> int | None:
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
                (self.instants - self.epoch_ns) // NS_PER_MS,
            )
        timestamp_ms = self.timestamp_ms
        return np.full(count, self.due_ms if timestamps is None else timestamp_ms, np.int64)


_OWN = (f"{Path(flinknet.__file__).parent}/", "flinknet/")
"""Files of flinknet itself; compiled modules have relative names."""

_NOTED_CHARACTERS = 100_000


def record_text(number: int, value: Any) -> str:
    """A record by its number, from 1, and its value: "50th record, value 7"."""
    return f"{ordinal(number)} record, value {shown(value)}"


def place_of(error: BaseException) -> str:
    """The line of the program where an exception arose, with " (" and ")": the last one in its file
    or, if that has none, in the module that flinknet called. Empty if no function was called.
    """
    if isinstance(error, WrongResultError):
        return defined_at(error.function)
    frames = [
        (frame.f_globals.get("__name__"), frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    outer = list(dropwhile(lambda frame: frame[1].startswith(_OWN), frames))
    name = MODULE_NAME if any(each[0] == MODULE_NAME for each in outer) else outer and outer[0][0]
    lines = [f" ({Path(path).name}:{line})" for module, path, line in outer if module == name]
    return lines[-1] if lines else ""


def defined_at(function: Any) -> str:
    """The line where the program defines a function, as in `place_of`; empty if it does not."""
    code = function_code(function) if callable(function) else None
    if code is None or code.co_filename.startswith(_OWN):
        return ""
    return f" ({Path(code.co_filename).name}:{code.co_firstlineno})"


def task_failed(text: str, error: BaseException, value: Any) -> TaskFailedError:
    """The error of a task whose function raised: a line, and the record as a note."""
    is_named = isinstance(error, WrongResultError | NoSuchCallError)
    kind = "" if is_named else f"{type(error).__name__}: "
    failed = TaskFailedError(f"{text}{place_of(error)}: {kind}{error}")
    failed.__cause__ = error  # compiled code raises without a cause
    failed.add_note(f"record: {shown(value, _NOTED_CHARACTERS)}")
    return failed


def details_of(error: BaseException) -> str:
    """Traceback and record of a function that failed; empty for other errors."""
    if error.__cause__ is None or not isinstance(error, TaskFailedError):
        return ""
    notes = getattr(error, "__notes__", [])
    return "".join(traceback.format_exception(error.__cause__)) + "".join(f"{n}\n" for n in notes)
