"""Latencies counted one by one, compiled by numba: the same numbers as `latency` in numpy, some ten
times as fast. Imported only where there are many: loading the compiler takes half a second.
"""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
import numpy.typing as npt

from flinknet.histogram import SUB_BUCKET_BITS, SUB_BUCKETS, VALUE_BITS

Ints = npt.NDArray[np.int64]

_LARGEST = (1 << VALUE_BITS) - 1
_SHIFT = 52 - SUB_BUCKET_BITS
_OFFSET = (1023 + SUB_BUCKET_BITS - 1) << SUB_BUCKET_BITS


def _count_latencies(
    at_ns: Ints,
    records: Ints,
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
        steps = max(records[row] - 1, 1)
        length_ns = last_ns[row] - first_ns[row]
        step_ns = length_ns // steps
        left = length_ns - step_ns * steps
        came_ns, carried, taken = first_ns[row], np.int64(0), 0
        for _ in range(records[row]):
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


def _compiled() -> Callable[..., None]:
    try:
        compiled: Callable[..., None] = numba.njit(cache=True)(_count_latencies)
    except RuntimeError:  # no directory can be written to
        compiled = numba.njit()(_count_latencies)
    return compiled


count_latencies = _compiled()
