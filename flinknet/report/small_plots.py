"""Small plots in characters: values over time, and a distribution on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from flinknet.results import LatencyDistribution

_BLOCKS = "▁▂▃▄▅▆▇█"

DISTRIBUTION_MARKS = 40

MARKS = {
    "waiting_for_flush": "█",
    "waiting_for_credit": "▓",
    "blocked_by_alignment": "▚",
    "in_socket": "▒",
    "in_receiver_queue": "▞",
    "idle": "░",
}
"""Mark of each regime, for terminals without colours."""


def distribution_line(distribution: LatencyDistribution, marks: int) -> str:
    """The records of a latency distribution from its lowest to its highest range; its axis is
    logarithmic, and blank where no record is."""
    low, high = distribution.low_ns, distribution.high_ns
    if not low:
        return ""
    start, end = math.log2(low[0]), math.log2(high[-1])
    ranges = max(round((end - start) / math.log2(high[0] / low[0])), 1)
    counts = [0.0] * min(ranges, marks)
    for number, records in enumerate(distribution.records):
        middle = math.log2(math.sqrt(low[number] * high[number]))
        place = int((middle - start) / (end - start) * len(counts))
        counts[min(place, len(counts) - 1)] += records
    return sparkline(counts, marks, max(counts))


def sparkline(values: Sequence[float], width: int, top: float) -> str:
    """Values over time in at most `width` characters; where several share one, the largest shows.

    Args:
        top: the value of the highest block. 0 shows as a blank, and any larger value as some block.
    """
    return "".join(_block(value, top) for value in resampled(values, width))


def resampled(values: Sequence[float], width: int) -> list[float]:
    """At most `width` values, each the largest of its share."""
    count = len(values)
    if count <= width:
        return list(values)
    edges = [number * count // width for number in range(width + 1)]
    return [max(values[start:end]) for start, end in pairwise(edges)]


def _block(value: float, top: float) -> str:
    if value <= 0 or top <= 0:
        return " "
    height = min(len(_BLOCKS) - 1, int(value / top * len(_BLOCKS)))
    return _BLOCKS[height]
