"""Arrivals of captured records by their timestamps, where these follow the clock.

A record of an application in event time carries its timestamp, in ms. If that is the instant at
which it came to its producer, it lies between the buffer before and its own one. On an exchange
behind another one the records are older, by their wait there, and in a job that reads old data by
far more; then the timestamps say nothing of arrivals. Of a buffer with many records there is a
sample, and each record of it stands for those around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.wire.records import NO_TIME
from flinknet.trace import TraceFile, TraceReader
from flinknet.trace.event_block import EventColumns
from flinknet.trace.schema import TIMESTAMPS
from flinknet.units import NS_PER_MS

from . import SAMPLES_MIN
from .arrivals import Seen
from .window_rows import places_by_channel

FOLLOW_SHARE = 0.9
"""Least share of timestamps within the interval of their buffer at which they follow the clock."""

SLACK_NS = NS_PER_MS
"""Longest time in ns by which such a timestamp lies outside: it is cut to whole milliseconds."""

BLOCKS = 16
"""Blocks of a file in which timestamps are looked for."""

BY_TIMESTAMPS = "records came at their timestamps, which follow the clock"


def stamps_in(files: Iterable[TraceFile]) -> tuple[str, ...]:
    """Names of the columns of timestamps; none if none of the first BLOCKS blocks has any."""
    for file in files:
        with TraceReader(file) as reader:
            for index in range(min(len(reader.blocks()), BLOCKS)):
                if TIMESTAMPS[0] in reader.stored_columns(index):
                    return TIMESTAMPS
    return ()


def stamped(
    seen: Mapping[int, Seen], sent: EventColumns, epoch_ns: int | None
) -> dict[int, Seen] | None:
    """The buffers of each channel, divided by the timestamps of their records; None if there are
    none, or if they do not follow the clock.

    Args:
        sent: data buffers, with the sample of timestamps of each.
        epoch_ns: instant of the trace at which the wall clock was 0; None if unknown.
    """
    if epoch_ns is None or TIMESTAMPS[0] not in sent:
        return None
    first_ms = sent[TIMESTAMPS[0]]
    later_ms = np.stack([sent[name] for name in TIMESTAMPS[1:]], axis=1)
    later_ms = np.where(later_ms == NO_TIME, NO_TIME, later_ms + first_ms[:, None])
    came_ms = np.c_[first_ms, later_ms]
    found, inside = {}, [np.zeros(0, np.bool_)]
    for channel, own in places_by_channel(sent).items():
        own = own[np.lexsort((sent["sequence_number"][own], sent["at_ns"][own]))]
        own = own[sent["records"][own] > 0]
        if channel in seen:
            buffers = seen[channel]
            place, number = np.nonzero(came_ms[own] != NO_TIME)
            came_ns = came_ms[own][place, number] * NS_PER_MS + epoch_ns
            is_early = came_ns + NS_PER_MS < buffers.since_ns[place] - SLACK_NS
            inside.append(~is_early & (came_ns <= buffers.at_ns[place] + SLACK_NS))
            found[channel] = _divided(buffers, place, came_ns)
    is_inside = np.concatenate(inside)
    if len(is_inside) < SAMPLES_MIN or is_inside.mean() < FOLLOW_SHARE:
        return None
    return found


def _divided(buffers: Seen, place: IntArray, came_ns: IntArray) -> Seen:
    """Divide buffers at the instants of some of their records, each of which stands for as many.

    Args:
        place: buffer of each of these records.
    """
    order = np.lexsort((came_ns, place))
    place, came_ns = place[order], came_ns[order]
    sampled = np.bincount(place, minlength=len(buffers.records))
    others = np.flatnonzero(sampled == 0)
    # A record lies within its millisecond; one of a sample reaches half-way to its neighbors.
    is_alone = (sampled == buffers.records)[place]
    gaps_ns = np.where(np.diff(place) == 0, np.diff(came_ns), -1)
    before_ns, behind_ns = np.r_[-1, gaps_ns], np.r_[gaps_ns, -1]
    left_ns, right_ns = (
        np.where(is_alone, 0, np.maximum(np.where(own < 0, other, own), 0) // 2)
        for own, other in ((before_ns, behind_ns), (behind_ns, before_ns))
    )
    since_ns, at_ns = came_ns - left_ns, came_ns + np.maximum(right_ns, NS_PER_MS)
    parts = np.r_[place, others]
    in_order = np.argsort(parts, kind="stable")
    parts = parts[in_order]
    since_ns = np.r_[since_ns, buffers.since_ns[others]][in_order]
    at_ns = np.r_[at_ns, buffers.at_ns[others]][in_order]
    since_ns, at_ns = (
        np.clip(each, buffers.since_ns[parts], buffers.at_ns[parts]) for each in (since_ns, at_ns)
    )
    is_first = np.r_[True, np.diff(parts) > 0]
    number = np.arange(len(parts)) - np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
    count, total = np.maximum(sampled, 1)[parts], buffers.records[parts]
    records = total * (number + 1) // count - total * number // count
    before_ns = np.r_[since_ns[:1], np.maximum.accumulate(at_ns)[:-1]]
    since_ns = np.maximum(since_ns, np.minimum(before_ns, at_ns))
    is_flush = buffers.is_flush[parts] & (number + 1 == count)
    keep = records > 0
    return Seen(records[keep], since_ns[keep], at_ns[keep], is_flush[keep])
