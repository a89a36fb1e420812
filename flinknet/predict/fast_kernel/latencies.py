"""Latencies of records, counted in the buckets of `histogram.LogLinearHistogram`."""

from __future__ import annotations

from . import words as w
from .compiling import bits, compiled
from .ramps import instant
from .words import Numbers, Words


@compiled
def bucket(value: int) -> int:
    """histogram.bucket_index: the exponent of 2 and the seven bits behind the first one."""
    if value < 128:
        return max(value, 0)
    return (bits(float(min(value, (1 << 50) - 1))) >> 45) - (1029 << 7)


@compiled
def _bucket_start(index: int) -> float:
    if index < 256:
        return float(index)
    shift = index // 128 - 1
    return float((index - shift * 128) << shift)


@compiled
def _count(m: Words, f: Numbers, slopes: int, first_ns: int, last_ns: int, records: int) -> None:
    """Count latencies that go evenly from one to another.

    Close ones are counted by their density, which spreads each over half the gap to its neighbours;
    others one by one. That half is never wider than a bucket, so density moves no record by more
    than a bucket; and since buckets grow with the latency, at most 128 are counted one by one.
    """
    low, high = min(first_ns, last_ns), max(first_ns, last_ns)
    m[w.RECORDS] += records
    m[w.LATENCY_TOTAL] += (first_ns + last_ns) * records // 2
    m[w.SMALLEST] = min(m[w.SMALLEST], low)
    m[w.LARGEST] = max(m[w.LARGEST], high)
    low_bucket, high_bucket = bucket(low), bucket(high)
    if low_bucket == high_bucket:
        f[w.COUNTS + low_bucket] += records
        return
    half = (high - low) / (records - 1) / 2.0
    wide_ns = float(256 << ((bits(half + 1.0) >> 52) - 1023))  # from here buckets are wider
    counted, at_ns = 0, float(low)
    while counted < records and at_ns < wide_ns:
        f[w.COUNTS + bucket(int(at_ns + 0.5))] += 1.0
        counted += 1
        at_ns = low + 2.0 * half * counted
    if counted == records:
        return
    low_bucket = bucket(int(at_ns + 0.5))
    if low_bucket == high_bucket:
        f[w.COUNTS + low_bucket] += records - counted
        return
    start, end = at_ns - half, high + half
    density = (records - counted) / (end - start)
    f[w.COUNTS + low_bucket] += (_bucket_start(low_bucket + 1) - start) * density
    f[w.COUNTS + high_bucket] += (end - _bucket_start(high_bucket)) * density
    f[slopes + low_bucket + 1] += density
    f[slopes + high_bucket] -= density


@compiled
def take_records(
    m: Words, f: Numbers, slopes: int, channel: int, records: int, begin_ns: int, delay_ns: int
) -> None:
    """Count the latencies of the next records of a channel, ramp by ramp, and note when each is
    done with where that is wanted.
    """
    departure = m[channel + w.DEPARTURES]
    if departure:
        for number in range(records):
            m[departure + number] = begin_ns + delay_ns * (number + 1)
        m[channel + w.DEPARTURES] = departure + records
    ramp, position = m[channel + w.DONE_RAMP], m[channel + w.DONE_POSITION]
    taken = 0
    while taken < records:
        count = min(m[ramp] - position, records - taken)
        if m[channel + w.COUNTED_RAMP] <= ramp < m[channel + w.COUNTED_RAMP_END]:
            first_ns = begin_ns + delay_ns * (taken + 1) - instant(m, ramp, position)
            done_ns = begin_ns + delay_ns * (taken + count)
            last_ns = done_ns - instant(m, ramp, position + count - 1)
            _count(m, f, slopes, first_ns, last_ns, count)
            m[w.LAST_NS] = max(m[w.LAST_NS], done_ns)
        taken += count
        position += count
        if position == m[ramp]:
            ramp += w.RAMP_WORDS
            position = 0
    m[channel + w.DONE_RAMP] = ramp
    m[channel + w.DONE_POSITION] = position


@compiled
def longest_wait_ns(m: Words, channel: int, records: int, backlog: int, now: int) -> int:
    """How long the records of a buffer may have waited that leaves now, where nobody knows when
    they came (WaitBoundsProbe).
    """
    wait_ns = now - m[channel + w.LAST_SENT_NS]
    m[channel + w.LAST_SENT_NS] = now
    if backlog <= 0:
        wait_ns = min(wait_ns, m[w.BEAT_NS])
    if records == 0:
        return wait_ns
    ramp, position = m[channel + w.SENT_RAMP], m[channel + w.SENT_POSITION]
    wait_ns = max(wait_ns, now - instant(m, ramp, position))
    position += records
    while position > 0 and position >= m[ramp]:
        position -= m[ramp]
        ramp += w.RAMP_WORDS
    m[channel + w.SENT_RAMP] = ramp
    m[channel + w.SENT_POSITION] = position
    return wait_ns


@compiled
def count_bounds(
    m: Words, f: Numbers, slopes: int, records: int, low_ns: int, high_ns: int
) -> None:
    """Count the records of a buffer as if all had come when it left, and as if all had waited for
    as long as may be.
    """
    buckets = slopes - w.COUNTS
    lows, highs = slopes + buckets, slopes + 2 * buckets
    f[lows + bucket(low_ns)] += records
    f[highs + bucket(high_ns)] += records
    m[w.LOW_TOTAL] += low_ns * records
    m[w.LOW_SMALLEST] = min(m[w.LOW_SMALLEST], low_ns)
    m[w.LOW_LARGEST] = max(m[w.LOW_LARGEST], low_ns)
    m[w.HIGH_TOTAL] += high_ns * records
    m[w.HIGH_SMALLEST] = min(m[w.HIGH_SMALLEST], high_ns)
    m[w.HIGH_LARGEST] = max(m[w.HIGH_LARGEST], high_ns)
