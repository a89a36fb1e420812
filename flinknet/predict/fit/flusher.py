"""The flusher's beat, read off the instants of the buffers that it sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.probe import FlushReason
from flinknet.trace.event_block import EventColumns

from . import SAMPLES_MIN
from .window_rows import places_by_channel

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
    for gaps_ns in _gaps_between_flushes(sent):
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
    gaps_ns = np.concatenate([np.zeros(0, np.int64), *_gaps_between_flushes(sent)])
    if len(gaps_ns) < SAMPLES_MIN:
        return None
    middle_ns = float(np.median(gaps_ns))
    same = np.abs(gaps_ns - middle_ns) <= GAP_TOLERANCE * middle_ns
    if same.mean() < 0.5:
        return None
    return int(np.median(gaps_ns[same]))


def _gaps_between_flushes(sent: EventColumns) -> Iterator[IntArray]:
    """Of each channel."""
    for own in places_by_channel(sent).values():
        flushed = own[sent["reason"][own] == FlushReason.FLUSH]
        yield np.diff(np.sort(sent["at_ns"][flushed]))


LATE_FROM, LATE_UP_TO = 1.1, 3.0
"""Beats between two flushes of a producer from which, and up to which, the second one is late."""


def flusher_late_ns(sent: EventColumns, producer_of: Mapping[int, int], beat_ns: int) -> IntArray:
    """How late the flusher was whose beat each buffer left with; 0 for what no flush sent.

    It sleeps anew after each flush. So what the time between two flushes is beyond whole beats, it
    was late.
    """
    late_ns = np.zeros(len(sent["at_ns"]), np.int64)
    producer = np.array([producer_of[each] for each in sent["channel"].tolist()], np.int64)
    is_flush = sent["reason"] == FlushReason.FLUSH
    for each in np.unique(producer).tolist():
        own = np.flatnonzero(is_flush & (producer == each))
        own = own[np.argsort(sent["at_ns"][own], kind="stable")]
        if len(own) < 2:
            continue
        at_ns = sent["at_ns"][own].astype(np.int64)
        is_new = np.r_[True, np.diff(at_ns) > beat_ns // 2]
        gaps_ns = np.diff(at_ns[is_new], prepend=at_ns[0] - beat_ns)
        beats = gaps_ns / beat_ns
        is_late = (beats > LATE_FROM) & (beats < LATE_UP_TO)
        own_ns = np.where(is_late, gaps_ns % beat_ns, 0)
        late_ns[own] = own_ns[np.cumsum(is_new) - 1]
    return late_ns
