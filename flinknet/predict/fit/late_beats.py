"""How much later than usual the flusher's beats come, and how long records wait for it.

The thread of the flusher sleeps anew after each flush, so what delays it makes that beat longer,
and all that follow come later. Mostly it wakes some tens of us late; now and then something else
has the core for a millisecond or more. At a timeout of 100 ms that is nothing, at 5 ms a beat is
half as long again, and more records wait in long beats than in short ones.

Instants are those at which buffers passed, later than their flush by what they took to there: a
buffer that passes late makes the time before it longer and the time after it shorter by as much. So
short times show how often that happens, and long ones are late beats as far as there are more of
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flinknet.arrays import IntArray
from flinknet.core.probe import FlushReason
from flinknet.trace.event_block import EventColumns

from ..intervals import NOTHING, Intervals
from .delays import QUANTILES

BEATS_MIN = 50
"""Beats that tell how late they come."""

LATE_MAX_NS = 20_000_000
"""A longer time between two flushes has more than one beat in it, or a barrier was flushed
between them."""

LATE_SHARE_MAX = 0.5
"""The same as a share of the timeout."""

OWN_SHARE = 0.5
"""Of how late beats are, so much is assumed to be there without a tap, too. The tap runs on the
cores of the flusher whose buffers it has just passed on; messages do not show how much of the
lateness it causes."""


@dataclass(frozen=True, slots=True, eq=False)
class LateBeats:
    """What beats are longer than the usual one.

    Attributes:
        beyond_ns: evenly spaced quantiles; most are around 0.
    """

    beyond_ns: IntArray

    def times(self, factor: float) -> LateBeats:
        """So many times as late."""
        return LateBeats((self.beyond_ns * factor).astype(np.int64))

    def mean_ns(self, usual_beat_ns: int) -> int:
        """What a beat is longer on average.

        Args:
            usual_beat_ns: that most beats take. What keeps the flusher for longer than that makes
                one beat late, and not each that would have come meanwhile.
        """
        return round(float(np.minimum(self.beyond_ns, usual_beat_ns).mean()))

    def waits_ns(self, usual_beat_ns: int) -> IntArray:
        """Evenly spaced quantiles of what a record waits for a flush beyond what it would where all
        beats are as long as the mean.

        A beat that is longer than the mean is cut into pieces of the mean length, from its end: the
        records of the last piece wait until then, those of the piece before a mean beat longer, and
        so on. So there are as many waits beyond any time longer than the mean as in the real beats.
        All other records wait less than for a mean beat, by so much that the average is right,
        too: half of the beats' mean square over their mean.

        Args:
            usual_beat_ns: as above.
        """
        often = np.minimum(usual_beat_ns / np.maximum(self.beyond_ns, 1), 1.0)
        often /= often.sum()
        mean_ns = usual_beat_ns + self.mean_ns(usual_beat_ns)
        longer_ns = usual_beat_ns + self.beyond_ns - mean_ns
        parts = np.ceil(np.maximum(longer_ns, 0) / mean_ns).astype(np.int64)
        number = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
        waits_ns = np.repeat(longer_ns, parts) - number * mean_ns
        shares = np.repeat(often, parts)
        added_ns = float((often * longer_ns.astype(np.float64) ** 2).sum()) / (2 * mean_ns)
        too_much_ns = float((shares * waits_ns).sum()) - added_ns
        others = max(1.0 - float(shares.sum()), 1.0 / QUANTILES)
        waits_ns = np.append(waits_ns, -round(too_much_ns / others))
        shares = np.append(shares, others)
        order = np.argsort(waits_ns, kind="stable")
        wanted = (np.arange(QUANTILES) + 0.5) / QUANTILES * shares.sum()
        found: IntArray = waits_ns[order][np.searchsorted(np.cumsum(shares[order]), wanted)]
        return found


def together(parts: Sequence[LateBeats | None]) -> LateBeats | None:
    """Those of a job from those of its exchanges, whose flushers run on the same machines; None
    where none are known."""
    known = [each.beyond_ns for each in parts if each is not None]
    if not known:
        return None
    return LateBeats(np.sort(np.concatenate(known))[len(known) // 2 :: len(known)])


def fit_late_beats(
    sent: EventColumns,
    producer_of: Mapping[int, int],
    timeout_ns: int,
    usual_overhead_ns: int,
    disturbed: Intervals = NOTHING,
) -> LateBeats | None:
    """The lateness of the flushers of an exchange; None for too few beats.

    Args:
        sent: data buffers.
        producer_of: channel to index of its producer.
        usual_overhead_ns: what most beats are longer than the timeout.
        disturbed: when something delayed messages that is not there in other runs.
    """
    if timeout_ns <= 0:
        return None
    beyond_ns = _beyond_ns(sent, producer_of, timeout_ns, disturbed) - usual_overhead_ns
    if len(beyond_ns) < BEATS_MIN:
        return None
    late_ns = np.sort(np.maximum(beyond_ns, 0))
    early_ns = np.sort(np.maximum(-beyond_ns, 0))
    by_chance = len(early_ns) - np.searchsorted(early_ns, late_ns)
    later = len(late_ns) - np.arange(len(late_ns)) - by_chance  # as late, or later
    later = np.maximum.accumulate(np.maximum(later, 0)[::-1])[::-1]
    places = ((np.arange(QUANTILES) + 0.5) / QUANTILES * len(late_ns))[::-1]
    index = np.searchsorted(-later, -places, side="right") - 1
    return LateBeats(np.where(index >= 0, late_ns[np.maximum(index, 0)], 0))


def _beyond_ns(
    sent: EventColumns, producer_of: Mapping[int, int], timeout_ns: int, disturbed: Intervals
) -> IntArray:
    """What the time between two flushes of a producer is longer than the timeout."""
    most_ns = min(round(LATE_SHARE_MAX * timeout_ns), LATE_MAX_NS)
    found = [np.zeros(0, np.int64)]
    producer = np.array([producer_of[each] for each in sent["channel"].tolist()], np.int64)
    is_flush = sent["reason"] == FlushReason.FLUSH
    for each in np.unique(producer).tolist():
        at_ns = np.sort(sent["at_ns"][is_flush & (producer == each)]).astype(np.int64)
        at_ns = at_ns[np.diff(at_ns, prepend=-timeout_ns) > timeout_ns // 2]
        own_ns = np.diff(at_ns) - timeout_ns
        keep = (np.abs(own_ns) <= most_ns) & ~disturbed.hold(at_ns[1:])
        found.append(own_ns[keep])
    return np.concatenate(found)
