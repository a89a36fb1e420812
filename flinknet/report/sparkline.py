"""Small plots of a line of text: values over time as blocks of eight heights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int, top: float) -> str:
    """Values over time in at most `width` characters; where several share one, the largest shows.

    Args:
        top: the value of the highest block. 0 shows as a blank, and what is more than 0 always as
            some block.
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
