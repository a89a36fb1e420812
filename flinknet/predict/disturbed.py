"""When something delayed the messages of a recorded job that is not there in other runs of it.

A tap that is told where Flink's REST API is asks once a second about every task. A moment before,
it makes the JobManager fetch new values from all TaskManagers. On a machine of two cores one in
eight round trips took 3 ms and more then, of others one in 300. And when a job ends, its tasks
flush and close all at once: credit for the last buffers came back 4 to 20 ms late.
"""

from __future__ import annotations

import numpy as np

from flinknet.trace.recordings import RunPlace, asked_within

from .intervals import NOTHING, Intervals, merged

FETCHED_BEFORE_NS = 150_000_000
"""So long before the first answer the JobManager began to fetch what is asked for."""

SETTLED_AFTER_NS = 50_000_000
"""So long after the last answer the machine does what it did before."""

ENDING_NS = 100_000_000
"""Before the last message that was recorded, when the job may have ended."""

SHARE_MAX = 0.5
"""Where Flink answered for a greater share of the time, it hardly was without questions."""


def disturbed_within(
    place: RunPlace, from_ns: int, to_ns: int, recorded_to_ns: int | None
) -> Intervals:
    """The disturbed part of [from_ns, to_ns).

    Args:
        recorded_to_ns: when the last message came; None for unknown.
    """
    asked_ns = asked_within(place, from_ns - FETCHED_BEFORE_NS, to_ns + FETCHED_BEFORE_NS)
    questions = Intervals(asked_ns - FETCHED_BEFORE_NS, asked_ns + SETTLED_AFTER_NS)
    end = NOTHING
    if recorded_to_ns is not None:
        last_ns = np.array([recorded_to_ns])
        end = Intervals(last_ns - ENDING_NS, last_ns + SETTLED_AFTER_NS).clipped(from_ns, to_ns)
    found = merged((questions.clipped(from_ns, to_ns), end))
    return found if found.total_ns <= SHARE_MAX * (to_ns - from_ns) else end
