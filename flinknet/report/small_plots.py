"""Small plots in characters: values over time, a bar split into parts, a distribution on a
logarithmic axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from rich.text import Text

from flinknet.results import LatencyDistribution

_BLOCKS = "▁▂▃▄▅▆▇█"

SPLIT_BAR_MARKS = 40
DISTRIBUTION_MARKS = 40

REGIME_STYLES = {
    "waiting_for_flush": ("█", "blue"),
    "waiting_for_credit": ("▓", "red"),
    "blocked_by_alignment": ("▚", "magenta"),
    "in_socket": ("▒", "green"),
    "in_receiver_queue": ("▞", "yellow"),
    "idle": ("░", "bright_black"),
}
"""Mark and colour of each regime: the marks differ where there are no colours."""


def split_bar(shares: Mapping[str, float], marks: int = SPLIT_BAR_MARKS) -> Text:
    """A bar as long as `marks`, its parts as long as their shares, which sum to 1; a part may be
    too short to show."""
    bar = Text()
    until, drawn = 0.0, 0
    for name, share in shares.items():
        until += share
        end = min(round(until * marks), marks)
        mark, style = REGIME_STYLES.get(name, ("█", ""))
        bar.append(mark * (end - drawn), style)
        drawn = max(drawn, end)
    return bar


def regime_legend(shares: Mapping[str, float]) -> Text:
    """Mark, name and share of each part, those of no share left out."""
    legend = Text()
    for name, share in shares.items():
        if share:
            mark, style = REGIME_STYLES.get(name, ("█", ""))
            legend.append("  " if legend else "")
            legend.append(mark, style)
            legend.append(f" {name.replace('_', ' ')} {share:.1%}")
    return legend


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
