"""Sums over the rows of a block, and latencies of records, compiled by numba.

Sums are made span by span: a row of a result begins with the number of its span; a span has several
rows where the value changes by which it is summed. Imported inside functions only, because loading
the compiler takes half a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flinknet.histogram import SUB_BUCKET_BITS, SUB_BUCKETS, VALUE_BITS
from flinknet.predict.kernel.compiling import kept_on_disk

Ints = npt.NDArray[np.int64]
Column = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]

REASONS = 1 << 8
"""Number above those of all reasons: data_type * REASONS + reason is unique."""

_LARGEST = (1 << VALUE_BITS) - 1
_SHIFT = 52 - SUB_BUCKET_BITS
_OFFSET = (1023 + SUB_BUCKET_BITS - 1) << SUB_BUCKET_BITS


@kept_on_disk
def count_kinds(
    starts: Ints,
    ends: Ints,
    at_ns: Column,
    data_type: Column,
    reason: Column,
    payload_bytes: Column,
    value: Column,
    has_value: Flags,
    window_ns: tuple[int, int],
) -> Ints:
    """Count messages of a window by data type and reason, and add up values of spans that have one.
    Returns: rows of span, data_type * REASONS + reason, messages, payload_bytes, sum of values."""
    from_ns, to_ns = window_ns
    found = np.empty(((ends - starts).sum(), 5), np.int64)
    count = 0
    for span in range(len(starts)):
        first, place = count, count
        for row in range(starts[span], ends[span]):
            if at_ns[row] < from_ns or at_ns[row] >= to_ns:
                continue
            number = np.int64(data_type[row]) * REASONS + reason[row]
            if place == count or found[place, 1] != number:
                place = first
                while place < count and found[place, 1] != number:
                    place += 1
                if place == count:
                    found[place, :] = 0
                    found[place, 0], found[place, 1] = span, number
                    count += 1
            found[place, 2] += 1
            found[place, 3] += payload_bytes[row]
            if has_value[span]:
                found[place, 4] += value[row]
    return found[:count].copy()


@kept_on_disk
def sum_windows(
    starts: Ints,
    ends: Ints,
    at_ns: Column,
    data_type: Column,
    is_buffer: Flags,
    values: Column,
    payload_bytes: Column,
    times_ns: tuple[int, int, int],
    only_known: bool,
) -> Ints:
    """Add up a column of data buffers (`is_buffer` by data type) by window; negative values are
    unknown, and perhaps left out. `times_ns` has the first instant, the one after the last, and the
    width of a window. Returns: rows of span, window, buffers, sum and maximum of the known values,
    payload_bytes, and payload_bytes of buffers with an unknown value."""
    from_ns, to_ns, width_ns = times_ns
    found = np.empty(((ends - starts).sum(), 7), np.int64)
    last = -1
    for span in range(len(starts)):
        low_ns, high_ns = np.int64(1), np.int64(0)
        for row in range(starts[span], ends[span]):
            at, value = at_ns[row], values[row]
            if not is_buffer[data_type[row]] or at < from_ns or at >= to_ns:
                continue
            if value < 0 and only_known:
                continue
            if at < low_ns or at >= high_ns:
                last += 1
                window = (at - from_ns) // width_ns
                found[last, :] = 0
                found[last, 0], found[last, 1] = span, window
                low_ns = from_ns + window * width_ns
                high_ns = low_ns + width_ns
            found[last, 2] += 1
            found[last, 5] += payload_bytes[row]
            if value >= 0:
                found[last, 3] += value
                found[last, 4] = max(found[last, 4], value)
            else:
                found[last, 6] += payload_bytes[row]
    return found[: last + 1].copy()


@kept_on_disk
def sum_slices(
    starts: Ints,
    ends: Ints,
    at_ns: Column,
    data_type: Column,
    is_buffer: Flags,
    records: Column,
    payload_bytes: Column,
    first_ns: Ints,
    last_ns: Ints,
    edges_ns: Ints,
    window_ns: tuple[int, int],
) -> tuple[Ints, Ints]:
    """Add up data buffers (`is_buffer` by data type) whose records, from `first_ns` to `last_ns`,
    all arrived in one slice, and find others with a record in the window. Returns: rows of span,
    slice, records, payload_bytes, and longest time from the first record of a buffer until it was
    sent; and the numbers of the rows of the others."""
    from_ns, to_ns = window_ns
    rows = (ends - starts).sum()
    found, cut = np.empty((rows, 5), np.int64), np.empty(rows, np.int64)
    last, cuts = -1, 0
    for span in range(len(starts)):
        low_ns, high_ns, is_open, number = np.int64(1), np.int64(0), False, np.int64(0)
        for row in range(starts[span], ends[span]):
            first = first_ns[row]
            if not is_buffer[data_type[row]] or records[row] <= 0 or first < 0:
                continue
            if first >= to_ns or last_ns[row] < from_ns:
                continue
            if first < edges_ns[0] or last_ns[row] >= edges_ns[-1]:
                cut[cuts] = row
                cuts += 1
                continue
            if first < low_ns or first >= high_ns:
                number = np.int64(np.searchsorted(edges_ns, first, side="right") - 1)
                low_ns, high_ns, is_open = edges_ns[number], edges_ns[number + 1], False
            if last_ns[row] >= high_ns:
                cut[cuts] = row
                cuts += 1
                continue
            late_ns = at_ns[row] - first
            if not is_open:
                last, is_open = last + 1, True
                found[last, 0], found[last, 1] = span, number
                found[last, 2], found[last, 3], found[last, 4] = 0, 0, late_ns
            found[last, 2] += records[row]
            found[last, 3] += payload_bytes[row]
            found[last, 4] = max(found[last, 4], late_ns)
    return found[: last + 1].copy(), cut[:cuts].copy()


@kept_on_disk
def count_latencies(
    at_ns: Ints,
    records: npt.NDArray[Any],
    first_ns: Ints,
    last_ns: Ints,
    window_ns: tuple[int, int],
    counts: Ints,
    inside: Ints,
    whole: Ints,
) -> None:
    """Count the latency of each record that arrived in the window; record j of n arrived at first +
    (last - first) * j // (n - 1), where the quotient is accumulated. Increases `counts` of the
    buckets of a LogLinearHistogram; fills `inside` with the records of each buffer that count, and
    `whole` with sum, minimum and maximum of the latency."""
    from_ns, to_ns = window_ns
    total, smallest, largest = 0, np.int64(2**62), np.int64(-(2**62))
    for row in range(len(at_ns)):
        first, last, buffer_records = first_ns[row], last_ns[row], np.int64(records[row])
        steps = buffer_records - 1 if buffer_records > 1 else np.int64(1)
        step_ns = (last - first) // steps
        left = (last - first) - step_ns * steps
        came_ns, carried, taken = first, np.int64(0), 0
        soonest, latest = at_ns[row] - last, at_ns[row] - first
        is_plain = from_ns <= first <= last < to_ns and buffer_records > 1
        if is_plain and soonest >= SUB_BUCKETS and latest <= _LARGEST:
            for _ in range(buffer_records):
                latency_ns = at_ns[row] - came_ns
                total += latency_ns
                counts[(np.float64(latency_ns).view(np.int64) >> _SHIFT) - _OFFSET] += 1
                carried += left
                is_over = np.int64(carried >= steps)
                carried -= is_over * steps
                came_ns += step_ns + is_over
            smallest, largest = min(smallest, soonest), max(largest, latest)
            inside[row] = buffer_records
            continue
        for _ in range(buffer_records):
            if from_ns <= came_ns < to_ns:
                latency_ns = at_ns[row] - came_ns
                taken += 1
                total += latency_ns
                smallest = min(smallest, latency_ns)
                largest = max(largest, latency_ns)
                value = min(max(latency_ns, 0), _LARGEST)
                if value >= SUB_BUCKETS:
                    value = (np.float64(value).view(np.int64) >> _SHIFT) - _OFFSET
                counts[value] += 1
            came_ns += step_ns
            carried += left
            if carried >= steps:
                carried -= steps
                came_ns += 1
        inside[row] = taken
    whole[0], whole[1], whole[2] = total, smallest, largest
