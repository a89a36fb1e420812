"""The flusher's beat, read off the instants of the buffers that it sent."""

from __future__ import annotations

from typing import Any

import numpy as np

from flinknet.core.probe import FlushReason
from flinknet.trace.event_block import EventColumns

from . import SAMPLES_MIN

ASSUMED_FLUSH_OVERHEAD_NS = 100_000
"""As in Flink."""

PERIODS_MIN = 10
"""Periods of the flusher that tell how long it is."""

GAP_TOLERANCE = 0.1
"""Gaps between flushes within this share of each other are the same number of beats."""


def flush_overhead_ns(sent: EventColumns, buffer_timeout_ns: int) -> int:
    """What the flusher's period was longer than the timeout: it sleeps anew after each flush.

    ASSUMED_FLUSH_OVERHEAD_NS where the rows of data buffers do not tell.
    """
    if buffer_timeout_ns <= 0:
        return ASSUMED_FLUSH_OVERHEAD_NS
    periods: list[Any] = []
    for channel in np.unique(sent["channel"]).tolist():
        own = (sent["channel"] == channel) & (sent["reason"] == FlushReason.FLUSH)
        gaps_ns = np.diff(np.sort(sent["at_ns"][own]))
        is_next = (gaps_ns > 0.8 * buffer_timeout_ns) & (gaps_ns < 1.5 * buffer_timeout_ns)
        periods.append(gaps_ns[is_next])
    periods_ns = np.concatenate(periods or [np.zeros(0, np.int64)])
    if len(periods_ns) < PERIODS_MIN:
        return ASSUMED_FLUSH_OVERHEAD_NS
    return max(int(np.median(periods_ns)) - buffer_timeout_ns, 0)


def beat_ns(sent: EventColumns) -> int | None:
    """The beat of the flusher: the time between flushes of a channel that has records for each of
    them. None where it does not show.
    """
    gaps = []
    for channel in np.unique(sent["channel"]).tolist():
        own = (sent["channel"] == channel) & (sent["reason"] == FlushReason.FLUSH)
        gaps.append(np.diff(np.sort(sent["at_ns"][own])))
    gaps_ns = np.concatenate(gaps or [np.zeros(0, np.int64)])
    if len(gaps_ns) < SAMPLES_MIN:
        return None
    middle_ns = float(np.median(gaps_ns))
    same = np.abs(gaps_ns - middle_ns) <= GAP_TOLERANCE * middle_ns
    if same.mean() < 0.5:
        return None
    return int(np.median(gaps_ns[same]))
