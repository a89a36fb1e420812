"""Rows of a run at the highest rate, and which of them are of the same message."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from flinknet.arrays import IntArray
from flinknet.trace.event_block import EventColumns

_SHIFTS_MAX = 8
"""Credit messages that may be under way when the window begins."""


@dataclass(frozen=True, slots=True, eq=False)
class SaturatedRows:
    """Rows of one run within a window; columns as in the trace."""

    sent: EventColumns
    received: EventColumns
    consumed: EventColumns
    credit_sent: EventColumns
    credit_received: EventColumns
    waits: EventColumns


def of_channels(rows: EventColumns, channels: Iterable[int]) -> EventColumns:
    """The rows of some channels, by their instants."""
    own = np.flatnonzero(np.isin(rows["channel"], [*channels]))
    own = own[np.argsort(rows["at_ns"][own], kind="stable")]
    return {name: values[own] for name, values in rows.items()}


def same_credit(sent: EventColumns, received: EventColumns) -> tuple[IntArray, IntArray]:
    """Rows of the same credit messages of one channel: their indices in both. The first ones
    received may have been sent before."""
    best: tuple[float, int] = (-1.0, 0)
    for shift in range(min(_SHIFTS_MAX, len(received["at_ns"]))):
        count = min(len(sent["at_ns"]), len(received["at_ns"]) - shift)
        if not count:
            break
        later = received["at_ns"][shift : shift + count] - sent["at_ns"][:count]
        equal = received["value"][shift : shift + count] == sent["value"][:count]
        best = max(best, (float((equal & (later >= 0)).mean()), -shift))
    shift = -best[1]
    count = min(len(sent["at_ns"]), len(received["at_ns"]) - shift)
    return np.arange(count), np.arange(shift, shift + count)
