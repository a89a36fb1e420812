"""What one edge of a job passes on to the next: records, barriers, and delays of the machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from flinknet.arrays import IntArray

from .kernel.memory import Barrier
from .recorded_job import UNKNOWN_ORIGIN, Departures

AT_TIMES_FROM = 0.995
"""From this share of what comes on, an edge takes all of it in the end."""

LATE_PART = 0.75
"""Behind this part of the time in which records come are those that show whether a job falls
behind."""

LATE_RECORDS_MIN = 10
"""Fewer of them say nothing of a consumer: all may have come with one burst. Those of all such
consumers are looked at together."""


def falls_behind(
    departed: Iterable[Departures], start_ns: int, duration_ns: int, beats_ns: int
) -> bool:
    """Whether any consumer lags behind the sources ever farther: of records that come late, all are
    older than the youngest of a window by what more than AT_TIMES_FROM would leave over.

    Args:
        start_ns, duration_ns: the window; sources may end long before it does.
        beats_ns: that a record waits for flushers at most, on all its way.
    """
    departed = tuple(departed)
    last_ns = max((int(own.origins_ns.max(initial=start_ns)) for own in departed), default=start_ns)
    duration_ns = min(duration_ns, last_ns - start_ns)
    lag_ns = (1.0 - AT_TIMES_FROM) * LATE_PART * duration_ns
    grown_ns: list[IntArray] = []  # by what late records of a consumer are older than its youngest
    of_few_ns: list[IntArray] = []
    for own in departed:
        is_known = own.origins_ns != UNKNOWN_ORIGIN
        ages_ns, origins_ns = (own.at_ns - own.origins_ns)[is_known], own.origins_ns[is_known]
        late_ns = ages_ns[origins_ns >= start_ns + LATE_PART * duration_ns]
        if len(late_ns):
            found = grown_ns if len(late_ns) >= LATE_RECORDS_MIN else of_few_ns
            found.append(late_ns - ages_ns.min())
    if sum(map(len, of_few_ns)) >= LATE_RECORDS_MIN:
        grown_ns.append(np.concatenate(of_few_ns))
    return any(
        each.min() > max(lag_ns, beats_ns * min(5.0 / np.sqrt(len(each)), 1.0) + 1_000_000)
        for each in grown_ns
    )


def passed_on(barriers: Mapping[int, IntArray], producers: int) -> tuple[IntArray, ...]:
    """What each producer passes on of checkpoints (`RecordedExchange.barriers`): what it has as a
    consumer; of one that no record came to nothing is known, so it does as the first of the others.
    """
    found = [each for each in barriers.values() if len(each)]
    rows = []
    for number in range(max(map(len, found), default=0)):
        there = (each[number] for each in found if number < len(each))
        rows.append(min(there, key=lambda row: int(row[0])))
    first = np.array(rows, np.int64).reshape(-1, Barrier.width())
    return tuple(barriers.get(producer, first) for producer in range(producers))


def in_order(parts: Mapping[int, Departures], taken_from: IntArray | None) -> Departures:
    """The departures of all channels of a consumer, in the order in which it took them.

    Args:
        taken_from: the channels of these; None where only instants say.
    """
    if len(parts) == 1:
        return next(iter(parts.values()))
    own = [parts[channel] for channel in sorted(parts)]
    at_ns = np.concatenate([each.at_ns for each in own])
    origins_ns = np.concatenate([each.origins_ns for each in own])
    if taken_from is None:
        order = np.argsort(at_ns, kind="stable")
    else:
        order = np.argsort(np.argsort(taken_from, kind="stable"), kind="stable")
    return Departures(at_ns[order], origins_ns[order])


_STEPS = (197, 211, 223, 227, 229, 233)
"""Prime to the number of quantiles of a spread, so that each comes as often."""


WAIT_STEPS = (239, 241, 251, 263, 269, 271)
"""The same for waits for late flushes, which have nothing to do with the delays of any edge."""


def drawn_delays(
    spread_ns: IntArray, count: int, number: int, steps: Sequence[int] = _STEPS
) -> IntArray:
    """Delays of successive records, unlike on successive edges."""
    if not len(spread_ns):
        return np.zeros(count, np.int64)
    places = (np.arange(count) * steps[number % len(steps)] + 61 * number) % len(spread_ns)
    found: IntArray = spread_ns[places]
    return found
