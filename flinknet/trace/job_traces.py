"""JobTraces: separates the events of one process by job.

Connections are shared, so one recorder takes the events of all jobs; each job has its own trace.
Times of stream elements are recorded by captures alone, so there are none here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from flinknet.errors import TraceError

from .blocks import NO_TIMES, Rows
from .statistics import EventStatistics, EventWriter

_NOBODY = 0


class JobTrace:
    """The events of one job: counted, and written if the job has a trace.

    Args:
        number: number of the job in its process, above 0.
        writer: writer of the trace; None: no trace.
    """

    def __init__(self, number: int, writer: EventWriter | None) -> None:
        self.number = number
        self.statistics = EventStatistics(0, writer)
        self._dropped_events = 0
        self._error: TraceError | None = None

    def events_in_steps(self, rows: Rows, times: Rows = NO_TIMES) -> Iterator[None]:
        """Count rows and write them. Never raises: rows that cannot be written are counted."""
        try:
            yield from self.statistics.events_in_steps(rows)
        except TraceError as error:
            self._error = error
            self._dropped_events += len(rows)

    def close(self) -> None:
        """End the file.

        Raises: TraceError if events were lost, with their number.
        """
        try:
            self.statistics.close(dropped_events=self._dropped_events)
        except TraceError as error:
            self._error = self._error or error
        if (cause := self._error) is not None:
            text = f"{cause} ({self._dropped_events} events were lost)"
            raise TraceError(text) from cause


class JobTraces:
    """Takes the events of all jobs (an EventWriter). Events of a connection, without a channel, go
    to the trace of every open job.
    """

    def __init__(self) -> None:
        self._open: dict[int, JobTrace] = {}
        self._last_number = _NOBODY
        self._owner_of = np.zeros(1, np.int32)  # by channel

    def open(self, writer: EventWriter | None) -> JobTrace:
        """Begin a job."""
        self._last_number += 1
        trace = JobTrace(self._last_number, writer)
        self._open[trace.number] = trace
        return trace

    def claim(self, trace: JobTrace, channels: Iterable[int]) -> None:
        """Assign channels to a job."""
        known = list(channels)
        count = 1 + max(known, default=-1)
        trace.statistics.grow(count)
        if count >= len(self._owner_of):
            more = count + 1 - len(self._owner_of)
            self._owner_of = np.pad(self._owner_of, (0, max(more, len(self._owner_of))))
        self._owner_of[known] = trace.number

    def close(self, *, dropped_events: int = 0) -> None:
        """End every file. Raises: the first TraceError."""
        errors = []
        for trace in list(self._open.values()):
            try:
                self.close_one(trace)
            except TraceError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def close_one(self, trace: JobTrace) -> None:
        """End a job, after its last event. Raises: TraceError."""
        del self._open[trace.number]
        trace.close()

    def events_in_steps(self, rows: Rows, times: Rows = NO_TIMES) -> Iterator[None]:
        """Pass the rows of each job to its trace."""
        if self._last_number == 1:  # there has been only one job
            for trace in list(self._open.values()):
                yield from trace.events_in_steps(rows)
            return
        channels = rows["channel"]
        owners = self._owner_of.take(channels, mode="clip")  # the last entry belongs to no job
        for trace in list(self._open.values()):
            own = rows[(owners == trace.number) | (channels < 0)]
            if len(own):
                yield from trace.events_in_steps(own)
