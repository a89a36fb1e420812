"""Latencies counted one by one, compiled by numba: the same numbers as `latency` in numpy, some ten
times as fast. Imported only where there are many: loading the compiler takes half a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flinknet.histogram import SUB_BUCKET_BITS, SUB_BUCKETS, VALUE_BITS
from flinknet.predict.fast_kernel.compiling import kept_on_disk

Ints = npt.NDArray[np.int64]

_LARGEST = (1 << VALUE_BITS) - 1
_SHIFT = 52 - SUB_BUCKET_BITS
_OFFSET = (1023 + SUB_BUCKET_BITS - 1) << SUB_BUCKET_BITS


def _count_latencies(
    at_ns: Ints,
    records: npt.NDArray[Any],
    first_ns: Ints,
    last_ns: Ints,
    window_ns: tuple[int, int],
    counts: Ints,
    inside: Ints,
    whole: Ints,
) -> None:
    """Count the latency of each record.

    Record j of n came at first + (last - first) * j // (n - 1): the quotient is carried on.

    Args:
        window_ns: only records that came in it count.
        counts: of the buckets of `histogram.LogLinearHistogram`; added to.
        inside: how many records of each buffer count; filled.
        whole: sum, smallest and largest latency; filled.
    """
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


count_latencies = kept_on_disk(_count_latencies)
