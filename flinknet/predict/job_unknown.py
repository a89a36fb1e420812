"""Why an edge of a job is unknown, in words."""

from __future__ import annotations

BEHIND_UNKNOWN = "what comes to it is unknown, because the edge before it is unknown"
SEVERAL_INPUTS = "its task has {} inputs, and which of them its records follow is unknown"
NO_RECORDS = "the trace has no instants of its records"
SATURATED = (
    "saturated: it can carry only {:.0%} of the load, so its producers wait for buffers, and"
    " everything upstream waits, too; the latency in that state was not recorded"
)
SATURATED_AT_TIMES = (
    "its producers wait for buffers at times, and everything upstream waits, too; the compiled"
    " model does not know the latency at these times"
)
FALLS_BEHIND = (
    "its producers wait for buffers, and with its neighbors it falls behind what comes; how long"
    " records wait then depends on how long the job runs"
)
HELD_UP = "another edge of the job is saturated and holds this one up"
SHARES_CONNECTIONS = (
    "without credit its connections are not read at times, and other edges share them: how these"
    " hold each other up is not in the compiled model"
)
NO_MODEL = (
    "the compiled model does not know this exchange (the highest rate, no exclusive buffers, or no"
    " checkpoints after tasks finish)"
)
