"""Which edges of a job can be predicted: those whose records follow, as recorded, what the model
passes on to them under the recorded settings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flinknet.options.what_if import Setting

from .job_run import JobRun
from .job_unknown import HELD_UP
from .recorded import RecordedChannel, RecordedExchange
from .recorded_job import RecordedJob

LATE_BEATS = 2
LATE_NS = 20_000_000
"""Records that a task passes on come at most so many beats of the flusher, and so long, off the
instants that follow from its inputs: how far the assumed instants of a tap are off, and more."""

FOLLOWING_SHARE = 0.9
"""Of the records of an exchange have to follow those of the one before it."""

RANKS, SHIFTS = 1001, 61
"""Records that are looked at for that, and ways in which the first ones are matched."""

FILLED_IN_OFF = 3.0
"""Where channels were filled in, such a record may be so many times the square root of their
records further on or back: which of them go to a channel in a burst is chance."""

_NOT_FOLLOWING = (
    "its records do not follow those that its task receives (a window, a timer, a call that waits),"
    " so the effect of other settings before the task is unknown"
)
_TASKS_SATURATED = (
    "saturated: {} busy {:.0%} of the time, so how long records queue for them depends on how long"
    " the job runs"
)
SATURATED_FROM = 0.95
"""A task that is busy for this share of the time has records queue for it all the time."""


def checked(job: RecordedJob) -> RecordedJob:
    """The job, without the edges whose recorded records do not follow those of the edge before them
    under the recorded settings. Records come late to an edge whose consumers or producers cannot
    keep up, and everything upstream of these is held up, too; others are held back on purpose."""
    before = job.feeding
    settings = [Setting(each.exchange.network, each.exchange.flow_control) for each in job.edges]
    run = JobRun(job, settings, 0)
    whys: list[str | None] = [None] * len(job.edges)
    for number, (edge, arrived) in enumerate(zip(job.edges, run.arrived, strict=True)):
        if arrived is None or not edge.has_own_instants or _follows(edge.exchange, arrived):
            continue
        place = next((each for each in (number, before[number]) if _is_saturated(job, each)), None)
        if place is None:
            whys[number] = _NOT_FOLLOWING
            continue
        share = min(busy_share(job.edges[place].exchange), 1.0)
        whose = "its consumers are" if place == number else "its producers are"
        whys[number] = _TASKS_SATURATED.format(whose, share)
        whys[place] = whys[place] or _TASKS_SATURATED.format("its consumers are", share)
        while (place := before[place]) is not None:
            whys[place] = whys[place] or HELD_UP
    return job.without(whys)


def _is_saturated(job: RecordedJob, place: int | None) -> bool:
    """Whether the consumers of an edge are busy nearly all the time."""
    return place is not None and busy_share(job.edges[place].exchange) >= SATURATED_FROM


def busy_share(exchange: RecordedExchange) -> float:
    """Of the time, that the busiest consumer works on the records recorded; above 1 if they are
    more than it can take."""
    busy_ns = [0.0] * exchange.consumers
    for each in exchange.channels:
        busy_ns[each.consumer] += each.records * exchange.costs.consume_ns_per_record[each.consumer]
    return max(busy_ns, default=0.0) / exchange.duration_ns


def _follows(exchange: RecordedExchange, arrived: Sequence[RecordedChannel]) -> bool:
    """Whether most records were recorded about when they come by what is before them."""
    beat_ns = exchange.beat_ns(exchange.network) or 0
    bound_ns = LATE_BEATS * beat_ns + LATE_NS
    ours, recorded = (
        np.sort(np.concatenate([each.arrivals_ns for each in channels]))
        for channels in (arrived, exchange.channels)
    )
    # the window begins and ends with records under way, on every edge others: shift the ranks
    reach = 2 * abs(len(recorded) - len(ours))
    filled_in = sum(each.records for each in exchange.channels if each.connection < 0)
    slack = round(FILLED_IN_OFF * float(np.sqrt(filled_in)))
    ranks = np.rint(np.linspace(0, len(ours) - 1, RANKS)).astype(np.int64)
    shares = []
    for shift in np.unique(np.linspace(-reach, reach, SHIFTS).astype(np.int64)):
        is_there = (ranks + shift >= 0) & (ranks + shift < len(recorded))
        own_ns, places = ours[ranks[is_there]], ranks[is_there] + shift
        first, last = (np.clip(places + each, 0, len(recorded) - 1) for each in (-slack, slack))
        is_near = recorded[first] - bound_ns <= own_ns
        is_near &= own_ns <= recorded[last] + bound_ns
        shares.append(float(is_near.mean()) if len(own_ns) else 0.0)
    return max(shares) >= FOLLOWING_SHARE
