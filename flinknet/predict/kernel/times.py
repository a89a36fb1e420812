"""Time: timetables, arrivals of records, and their latencies in the buckets of
`histogram.LogLinearHistogram`.

A timetable is a tree whose nodes know the earliest instant below them: a change takes as many steps
as the tree is high, and a place that is not due costs nothing. Word 0 is the number of leaves, a
power of two; the nodes stand behind it, the root as 1, those below node n as 2n and 2n + 1.
"""

from __future__ import annotations

from .compiling import bits, compile_all, moved_list
from .memory import Channel, Exchange, Histogram, Ramp
from .views import List


def set_due(table: List[int], place: int, at_ns: int) -> None:
    """Something is due at an instant now."""
    node = table[0] + place
    table[node] = at_ns
    while node > 1:
        node >>= 1
        earliest_ns = min(table[2 * node], table[2 * node + 1])
        if table[node] == earliest_ns:
            return
        table[node] = earliest_ns


def due_ns(table: List[int], place: int) -> int:
    return table[table[0] + place]


def earliest_ns(table: List[int]) -> int:
    """When the first thing is due; NEVER if nothing is."""
    return table[1]


def next_due(table: List[int], place: int, until_ns: int) -> int:
    """The first place from one on that is due by an instant; -1 if there is none."""
    leaves = table[0]
    if place >= leaves or table[1] > until_ns:
        return -1
    node = leaves + place
    while table[node] > until_ns:
        while node & 1:  # the last one below its parent: go on behind that
            node >>= 1
        if node == 0:
            return -1
        node += 1
    while node < leaves:
        node *= 2
        if table[node] > until_ns:
            node += 1
    return node - leaves


def instant(ramp: Ramp, position: int) -> int:
    """When a record of a ramp came."""
    steps = ramp.records - 1
    if position == 0:
        return ramp.first_ns
    if position == steps:
        return ramp.last_ns
    return ramp.first_ns + (ramp.last_ns - ramp.first_ns) * position // steps


def records_until(channel: Channel, until_ns: int, most: int) -> int:
    """Take the records that came up to an instant, about `most` at most. Returns: their number."""
    ramp, position, end = channel.ramp, channel.position, channel.ramp_end
    count = 0
    while ramp < end and count <= most:
        records, first_ns, last_ns = ramp.records, ramp.first_ns, ramp.last_ns
        if last_ns > until_ns:
            if first_ns <= until_ns:
                reached = ((until_ns - first_ns + 1) * (records - 1) - 1) // (last_ns - first_ns)
                if reached >= position:
                    count += reached + 1 - position
                    position = reached + 1
            break
        count += records - position
        ramp = ramp.next
        position = 0
    channel.ramp, channel.position = ramp, position
    return count


def bucket(value: int) -> int:
    """histogram.bucket_index: the exponent of 2 and the seven bits behind the first one."""
    if value < 128:
        return max(value, 0)
    return (bits(float(min(value, (1 << 50) - 1))) >> 45) - (1029 << 7)


def _bucket_start(index: int) -> float:
    if index < 256:
        return float(index)
    shift = index // 128 - 1
    return float((index - shift * 128) << shift)


def _add_totals(
    histogram: Histogram, count: int, total_ns: int, smallest_ns: int, largest_ns: int
) -> List[float]:
    histogram.count += count
    histogram.total_ns += total_ns
    histogram.smallest_ns = min(histogram.smallest_ns, smallest_ns)
    histogram.largest_ns = max(histogram.largest_ns, largest_ns)
    return histogram.counts


def count_at(histogram: Histogram, value_ns: int, count: int) -> None:
    """Count equal values."""
    counts = _add_totals(histogram, count, value_ns * count, value_ns, value_ns)
    counts[bucket(value_ns)] += count


def _count(m: Exchange, first_ns: int, last_ns: int, records: int) -> None:
    """Count latencies that go evenly from one to another. Close ones are counted by their density,
    which spreads each over half the gap to its neighbours; others one by one. That half is never
    wider than a bucket, so density moves no record by more than a bucket; and since buckets grow
    with the latency, at most 128 are counted one by one."""
    low, high = min(first_ns, last_ns), max(first_ns, last_ns)
    counts = _add_totals(m.latencies, records, (first_ns + last_ns) * records // 2, low, high)
    low_bucket, high_bucket = bucket(low), bucket(high)
    if low_bucket == high_bucket:
        counts[low_bucket] += records
        return
    half = (high - low) / (records - 1) / 2.0
    wide_ns = float(256 << ((bits(half + 1.0) >> 52) - 1023))  # from here buckets are wider
    counted, at_ns = 0, float(low)
    while counted < records and at_ns < wide_ns:
        counts[bucket(int(at_ns + 0.5))] += 1.0
        counted += 1
        at_ns = low + 2.0 * half * counted
    if counted == records:
        return
    low_bucket = bucket(int(at_ns + 0.5))
    if low_bucket == high_bucket:
        counts[low_bucket] += records - counted
        return
    start, end = at_ns - half, high + half
    density = (records - counted) / (end - start)
    counts[low_bucket] += (_bucket_start(low_bucket + 1) - start) * density
    counts[high_bucket] += (end - _bucket_start(high_bucket)) * density
    m.densities[low_bucket + 1] += density
    m.densities[high_bucket] -= density


def take_records(m: Exchange, channel: Channel, records: int, begin_ns: int, delay_ns: int) -> None:
    """Count the latencies of the next records of a channel, ramp by ramp, and note when each is
    done with where that is wanted."""
    departure = channel.departures
    if departure.at:
        for number in range(records):
            departure[number] = begin_ns + delay_ns * (number + 1)
        channel.departures = moved_list(departure, records)
    ramp, position = channel.done_ramp, channel.done_position
    taken = 0
    while taken < records:
        count = min(ramp.records - position, records - taken)
        if channel.counted_ramp <= ramp < channel.counted_ramp_end:
            first_ns = begin_ns + delay_ns * (taken + 1) - instant(ramp, position)
            done_ns = begin_ns + delay_ns * (taken + count)
            last_ns = done_ns - instant(ramp, position + count - 1)
            _count(m, first_ns, last_ns, count)
            m.last_ns = max(m.last_ns, done_ns)
        taken += count
        position += count
        if position == ramp.records:
            ramp = ramp.next
            position = 0
    channel.done_ramp, channel.done_position = ramp, position


compile_all(globals(), set_due, next_due, instant, records_until)
