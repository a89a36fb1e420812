"""The batches of a source at the highest rate: how many records of each go to each channel, in the
order of the instants at which they were emitted; of several channels at one instant, those of the
first channel first.
"""

from __future__ import annotations

from . import words as w
from .compiling import compiled, kept_on_disk, pointer
from .words import Ints, Words


@compiled
def _until(m: Words, channel: int, at_ns: int) -> int:
    """Ramps.until, from the stretch on that was last looked at."""
    ramp, end, count = m[channel], m[channel + 1], m[channel + 2]
    while ramp < end and m[ramp + 1] <= at_ns:
        records, first_ns, last_ns = m[ramp], m[ramp + 1], m[ramp + 2]
        if at_ns < last_ns:
            return count + ((at_ns - first_ns + 1) * (records - 1) - 1) // (last_ns - first_ns) + 1
        count += records
        ramp += w.RAMP_WORDS
    return count


@compiled
def _all_until(m: Words, channels: int, at_ns: int) -> int:
    """How many records of all channels came up to an instant."""
    count = 0
    for number in range(m[0]):
        count += _until(m, channels + number * w.ARRIVALS_WORDS, at_ns)
    return count


@compiled
def _move_on(m: Words, channel: int, at_ns: int) -> None:
    """Look no more at the stretches of a channel that have ended before an instant."""
    while m[channel] + w.RAMP_WORDS <= m[channel + 1] and m[m[channel] + 2] < at_ns:
        m[channel + 2] += m[m[channel]]
        m[channel] += w.RAMP_WORDS


@kept_on_disk
def count_batches(memory: Ints, batch_records: int, first_ns: int, last_ns: int) -> None:
    """Find the batches of a source.

    Args:
        memory: the number of channels, and where the counts are to stand: for each batch those of
            all channels; then the channels.
        first_ns, last_ns: of all records.
    """
    m: Words = pointer(memory)
    channels, counts, low_ns = 2, m[1], first_ns - 1
    step_ns = max((last_ns - first_ns) // 2, 1)
    total, wanted = _all_until(m, channels, last_ns), 0
    while wanted < total:
        wanted = min(wanted + batch_records, total)
        high_ns = min(low_ns + step_ns, last_ns)
        while _all_until(m, channels, high_ns) < wanted:
            low_ns = high_ns
            high_ns = min(high_ns + step_ns, last_ns)
            step_ns *= 2
        began_ns = low_ns
        while high_ns - low_ns > 1:  # too few have come at low_ns, enough at high_ns
            middle_ns = (low_ns + high_ns) >> 1
            if _all_until(m, channels, middle_ns) < wanted:
                low_ns = middle_ns
            else:
                high_ns = middle_ns
        step_ns = max(high_ns - began_ns, 1) * 2
        left = wanted - _all_until(m, channels, high_ns - 1)
        for number in range(m[0]):
            channel = channels + number * w.ARRIVALS_WORDS
            before = _until(m, channel, high_ns - 1)
            more = min(_until(m, channel, high_ns) - before, left)
            left -= more
            m[counts + number] = before + more
            _move_on(m, channel, high_ns)
        counts += m[0]
        low_ns = high_ns - 1
