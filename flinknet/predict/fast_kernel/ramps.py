"""When records came: stretches of time, with so many records in each."""

from __future__ import annotations

from . import words as w
from .compiling import compiled
from .words import Words


@compiled
def instant(m: Words, ramp: int, position: int) -> int:
    """When a record of a ramp came."""
    steps = m[ramp] - 1
    if position == 0:
        return m[ramp + 1]
    if position == steps:
        return m[ramp + 2]
    return m[ramp + 1] + (m[ramp + 2] - m[ramp + 1]) * position // steps


@compiled
def records_until(m: Words, channel: int, until_ns: int, most: int) -> int:
    """Move a channel's arrivals on, over about `most` records at most. Returns: how many records
    came up to an instant.
    """
    ramp, position, end = m[channel + w.RAMP], m[channel + w.POSITION], m[channel + w.RAMP_END]
    count = 0
    while ramp < end and count <= most:
        records, first_ns, last_ns = m[ramp], m[ramp + 1], m[ramp + 2]
        if last_ns > until_ns:
            if first_ns <= until_ns:
                reached = ((until_ns - first_ns + 1) * (records - 1) - 1) // (last_ns - first_ns)
                if reached >= position:
                    count += reached + 1 - position
                    position = reached + 1
            break
        count += records - position
        ramp += w.RAMP_WORDS
        position = 0
    m[channel + w.RAMP] = ramp
    m[channel + w.POSITION] = position
    return count
