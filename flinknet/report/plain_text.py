"""Text that a terminal can take: small plots in characters, and nothing that moves the cursor or
changes colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

_CONTROLS = (
    *(each for each in range(0x20) if chr(each) not in "\t\n"),
    *range(0x7F, 0xA0),
    *range(0x202A, 0x202F),  # these two turn the direction of what follows
    *range(0x2066, 0x206A),
)
_WITHOUT_CONTROLS = dict.fromkeys(_CONTROLS)


def printable(text: str) -> str:
    """The text without control characters other than line ends and tabs."""
    return text.translate(_WITHOUT_CONTROLS)


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


def distribution_line(
    ranges: Sequence[tuple[float, float]], counts: Sequence[float], marks: int, *, is_log: bool
) -> str:
    """Counts of ranges (lower and upper end of each) of a quantity, from the lowest to the highest
    one, on a linear or a logarithmic axis; blank where none is."""
    if not ranges:
        return ""

    def at(value: float) -> float:
        return math.log2(value) if is_log else value

    start, end = at(ranges[0][0]), at(ranges[-1][1])
    whole = max(round((end - start) / (at(ranges[0][1]) - start)), 1)
    sums = [0.0] * min(whole, marks)
    for (low, high), count in zip(ranges, counts, strict=True):
        place = int(((at(low) + at(high)) / 2 - start) / (end - start) * len(sums))
        sums[min(place, len(sums) - 1)] += count
    return sparkline(sums, marks, max(sums))


def sparkline(values: Sequence[float], width: int, top: float) -> str:
    """Values over time in at most `width` characters, of which `top` is the highest block; where
    several share one, the largest shows. 0 is a blank, and any larger value some block."""
    edges = [number * len(values) // width for number in range(width + 1)]
    is_long = len(values) > width
    shown = [max(values[a:b]) for a, b in pairwise(edges)] if is_long else values
    last = len(_BLOCKS) - 1
    return "".join(
        _BLOCKS[min(last, int(each / top * len(_BLOCKS)))] if each > 0 and top > 0 else " "
        for each in shown
    )
