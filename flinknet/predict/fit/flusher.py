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

GAP_SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65)
"""Of the gaps, ascending: one of those at these places is a single beat, unless fewer are."""

MULTIPLES_MIN = 0.7
"""Share of the gaps that are whole beats, from which on the beat is known."""

ALIKE_MIN = 0.3
"""Share of the gaps that are alike, from which on they are a beat: of gaps at random 7% are."""

SOONER_MAX = 0.25
"""Share of the gaps that may be shorter than a beat: no flusher comes sooner, but one that was late
comes sooner after that."""


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
    """The beat of the flusher: what the time between flushes of a channel is a multiple of, or else
    what it usually is. None where it does not show.
    """
    gaps_ns = np.sort(np.concatenate([np.zeros(0, np.int64), *_gaps_between_flushes(sent)]))
    if len(gaps_ns) < SAMPLES_MIN:
        return None
    likely_ns = [each for share in GAP_SHARES if (each := _beat_near(gaps_ns, share)) is not None]
    if likely_ns:  # of several the shortest, but for what comes a little sooner than it should
        return max(each for each in likely_ns if each < 1.5 * min(likely_ns))
    reach = np.searchsorted(gaps_ns, gaps_ns * ((1 + GAP_TOLERANCE) / (1 - GAP_TOLERANCE)), "right")
    sizes = (reach - np.arange(len(gaps_ns)))[: int(SOONER_MAX * len(gaps_ns)) + 1]
    first = int(np.argmax(sizes))
    most_alike_ns = gaps_ns[first : reach[first]]
    if len(most_alike_ns) < ALIKE_MIN * len(gaps_ns):
        return None
    return int(np.median(most_alike_ns))


def sooner_share(sent: EventColumns, buffer_timeout_ns: int) -> float:
    """Share of the flushes of a channel that came sooner after the one before than a flusher with
    this timeout can; 0 of too few flushes.
    """
    gaps_ns = np.concatenate([np.zeros(0, np.int64), *_gaps_between_flushes(sent)])
    if len(gaps_ns) < SAMPLES_MIN:
        return 0.0
    return float((gaps_ns < (1 - GAP_TOLERANCE) * buffer_timeout_ns).mean())


def _beat_near(gaps_ns: IntArray, share: float) -> int | None:
    """The beat, if a gap at this place of all is one beat and most others are whole ones."""
    gap_ns = gaps_ns[int(share * (len(gaps_ns) - 1))]
    near_ns = gaps_ns[np.abs(gaps_ns - gap_ns) <= GAP_TOLERANCE * gap_ns]
    if len(near_ns) < GAP_SHARES[0] * len(gaps_ns):
        return None
    beat_ns = float(np.median(near_ns))
    if not beat_ns:
        return None
    beats = np.rint(gaps_ns / beat_ns)
    is_whole = (beats >= 1) & (np.abs(gaps_ns - beats * beat_ns) <= GAP_TOLERANCE * beat_ns)
    return int(beat_ns) if is_whole.mean() >= MULTIPLES_MIN else None


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
