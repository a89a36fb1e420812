"""The flusher: its period, read off the instants of the buffers that it sent, and how late single
beats come.

The flusher's thread sleeps anew after each flush, so a delay makes that beat longer and moves all
that follow. Mostly it wakes some tens of µs late; now and then something else has the core for a
millisecond or more. At a timeout of 100 ms this is nothing. At 5 ms such a beat is half as long
again, and more records wait in long beats than in short ones.

If a whole TaskManager stands still, for its host has no core to give, for a full garbage collection
or a stopped process, nobody flushes, and all records that come meanwhile leave when it ends. So a
pause is a gap between the buffers of all producers of a process, with far more records behind it
than a beat usually has. A gap in the load has none, a task that is slow holds up its own buffers
only, and where a channel had used up its credit, or was blocked by a barrier, that is the reason.
Pauses that are shorter than GAP_BEATS do not show: they count as the lateness of a beat, or as a
delay of the messages that met them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flinknet.arrays import EventColumns, IntArray
from flinknet.core.probe import FlushReason
from flinknet.results import PAUSES_NOTED
from flinknet.units import counted, human_duration

from ..intervals import NOTHING, Intervals, from_switches, merged
from . import SAMPLES_MIN
from .delays import QUANTILES
from .window_rows import of_channels, of_each, places_by_channel

ASSUMED_FLUSH_OVERHEAD_NS = 100_000
"""Time by which a period exceeds the timeout where it cannot be measured, in ns; Flink's value."""

PERIODS_MIN = 10
"""Fewest periods from which their length is measured."""

GAP_TOLERANCE = 0.1
"""Largest relative difference of two gaps that are the same number of beats."""

GAP_SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65)
"""Quantiles of the gaps that are tried as the length of a single beat, ascending."""

MULTIPLES_MIN = 0.7
"""Smallest share of gaps that are whole beats for the beat to be known."""

ALIKE_MIN = 0.3
"""Smallest share of similar gaps that are taken for a beat: of random gaps 7% are similar."""

SOONER_MAX = 0.25
"""Largest share of gaps that may be shorter than a beat: only after a late flush is one early."""

LATE_FROM, LATE_UP_TO = 1.1, 3.0
"""Beats between two flushes of a producer from which, and up to which, the second one is late."""

BEATS_MIN = 50
"""Fewest beats from which their lateness is measured."""

LATE_SHARE_MAX = 0.5
"""Largest lateness of a beat, as a share of the timeout; a longer gap is a pause, or holds several
beats."""

OWN_SHARE = 0.5
"""Share of the measured lateness that is assumed to exist without a tap. The tap runs on the cores
of the flusher whose buffers it has just passed on; messages do not show how much it causes."""

GAP_BEATS = 1.5
"""Shortest pause, in beats of the flusher."""

USUAL_BEAT = 0.95
"""Quantile of the records of a beat above which a beat is full."""

TIMES_USUAL = 3.0
"""Least records of the beat after a pause, as a multiple of those of a full beat."""

PAUSED = (
    PAUSES_NOTED + " {}, for {} at most: the ranges reach from none of these pauses to all of"
    " them, predictions have half"
)
SHORT_PAUSES = "pauses of TaskManagers that are shorter than some {} do not show in the recording"
PAUSES_UNKNOWN = (
    "whether TaskManagers stood still at times does not show in the recording, as its buffers have"
    " no beat"
)


def flush_overhead_ns(sent: EventColumns, buffer_timeout_ns: int) -> int:
    """Time by which the flusher's period exceeds the timeout, in ns; an assumed one where
    the data buffers do not show it."""
    if buffer_timeout_ns <= 0:
        return ASSUMED_FLUSH_OVERHEAD_NS
    gaps_ns = _gaps_between_flushes(sent)
    is_next = (gaps_ns > 0.8 * buffer_timeout_ns) & (gaps_ns < 1.5 * buffer_timeout_ns)
    if is_next.sum() < PERIODS_MIN:
        return ASSUMED_FLUSH_OVERHEAD_NS
    return max(int(np.median(gaps_ns[is_next])) - buffer_timeout_ns, 0)


def beat_ns(sent: EventColumns) -> int | None:
    """Period of the flusher in ns: the time of which gaps between flushes of a channel are
    multiples, or else the most common gap; None if neither shows."""
    gaps_ns = np.sort(_gaps_between_flushes(sent))
    if len(gaps_ns) < SAMPLES_MIN:
        return None
    likely_ns = [each for share in GAP_SHARES if (each := _beat_near(gaps_ns, share)) is not None]
    if likely_ns:  # the shortest, apart from flushes that came a little early
        return max(each for each in likely_ns if each < 1.5 * min(likely_ns))
    reach = np.searchsorted(gaps_ns, gaps_ns * ((1 + GAP_TOLERANCE) / (1 - GAP_TOLERANCE)), "right")
    sizes = (reach - np.arange(len(gaps_ns)))[: int(SOONER_MAX * len(gaps_ns)) + 1]
    first = int(np.argmax(sizes))
    most_alike_ns = gaps_ns[first : reach[first]]
    if len(most_alike_ns) < ALIKE_MIN * len(gaps_ns):
        return None
    return int(np.median(most_alike_ns))


def sooner_share(sent: EventColumns, buffer_timeout_ns: int) -> float:
    """Share of flushes of a channel that follow the one before sooner than a flusher with this
    timeout can flush; 0 for fewer than SAMPLES_MIN flushes."""
    gaps_ns = _gaps_between_flushes(sent)
    if len(gaps_ns) < SAMPLES_MIN:
        return 0.0
    return float((gaps_ns < (1 - GAP_TOLERANCE) * buffer_timeout_ns).mean())


def _beat_near(gaps_ns: IntArray, share: float) -> int | None:
    gap_ns = gaps_ns[int(share * (len(gaps_ns) - 1))]
    near_ns = gaps_ns[np.abs(gaps_ns - gap_ns) <= GAP_TOLERANCE * gap_ns]
    if len(near_ns) < GAP_SHARES[0] * len(gaps_ns):
        return None
    found_ns = float(np.median(near_ns))
    if not found_ns:
        return None
    beats = np.rint(gaps_ns / found_ns)
    is_whole = (beats >= 1) & (np.abs(gaps_ns - beats * found_ns) <= GAP_TOLERANCE * found_ns)
    return int(found_ns) if is_whole.mean() >= MULTIPLES_MIN else None


def _gaps_between_flushes(sent: EventColumns) -> IntArray:
    """Gaps between successive flushes of each channel."""
    found = [np.zeros(0, np.int64)]
    for own in places_by_channel(sent).values():
        flushed = own[sent["reason"][own] == FlushReason.FLUSH]
        found.append(np.diff(np.sort(sent["at_ns"][flushed])))
    return np.concatenate(found)


def flusher_late_ns(sent: EventColumns, producer_of: Mapping[int, int], beat_ns: int) -> IntArray:
    """Lateness of the flush that sent each buffer, in ns; 0 for other buffers. The flusher sleeps
    anew after each flush, so a gap that is no whole number of beats shows how late it was."""
    late_ns = np.zeros(len(sent["at_ns"]), np.int64)
    for own in _flushes_by_producer(sent, producer_of):
        at_ns = sent["at_ns"][own].astype(np.int64)
        is_new = np.r_[True, np.diff(at_ns) > beat_ns // 2]
        gaps_ns = np.diff(at_ns[is_new], prepend=at_ns[0] - beat_ns)
        beats = gaps_ns / beat_ns
        past_ns = gaps_ns % beat_ns  # nearly a beat: a whole number of them, and not late
        is_late = (beats > LATE_FROM) & (beats < LATE_UP_TO)
        is_late &= past_ns < (1 - GAP_TOLERANCE) * beat_ns
        late_ns[own] = np.where(is_late, past_ns, 0)[np.cumsum(is_new) - 1]
    return late_ns


def _flushes_by_producer(sent: EventColumns, producer_of: Mapping[int, int]) -> Iterator[IntArray]:
    """Indices of the flushed buffers of each producer, by their instants."""
    producer = of_each(sent, producer_of)
    is_flush = sent["reason"] == FlushReason.FLUSH
    for each in np.unique(producer[is_flush]).tolist():
        own = np.flatnonzero(is_flush & (producer == each))
        yield own[np.argsort(sent["at_ns"][own], kind="stable")]


@dataclass(frozen=True, slots=True, eq=False)
class LateBeats:
    """Lateness of beats: evenly spaced quantiles of the time by which they exceed the usual one;
    most are around 0."""

    beyond_ns: IntArray

    def times(self, factor: float) -> LateBeats:
        return LateBeats((self.beyond_ns * factor).astype(np.int64))

    def mean_ns(self, usual_beat_ns: int) -> int:
        """Mean lateness of a beat. A delay longer than most beats makes one beat late, and not each
        of the beats that would have come meanwhile."""
        return round(float(np.minimum(self.beyond_ns, usual_beat_ns).mean()))

    def waits_ns(self, usual_beat_ns: int) -> IntArray:
        """Evenly spaced quantiles of the time that a record waits longer for a flush than if all
        beats had the mean length.

        A beat that is longer than the mean is cut into pieces of the mean length, from its end:
        records of the last piece wait until then, those of the piece before a mean beat longer, and
        so on. So waits longer than a mean beat are as frequent as in the real beats. All other
        records wait less than a mean beat, by an amount that makes the average right, too: half of
        the beats' mean square over their mean.
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
    """Lateness in a job from that in its exchanges, whose flushers run on the same machines; None
    if no exchange shows any."""
    known = [each.beyond_ns for each in parts if each is not None]
    step = len(known)
    return LateBeats(np.sort(np.concatenate(known))[step // 2 :: step]) if known else None


def fit_late_beats(
    sent: EventColumns,
    producer_of: Mapping[int, int],
    timeout_ns: int,
    usual_overhead_ns: int,
    disturbed: Intervals = NOTHING,
) -> LateBeats | None:
    """The lateness of the flushers of an exchange; None for fewer than BEATS_MIN beats. Messages do
    not count while they were delayed by something that does not exist in other runs.

    Rows give the instants at which buffers passed. A buffer that passes late makes the gap before
    it longer and the gap after it shorter, by the same time. So short gaps show how often that
    happens, and only the surplus of long gaps are late beats.
    """
    if timeout_ns <= 0:
        return None
    found = [np.zeros(0, np.int64)]
    for own in _flushes_by_producer(sent, producer_of):
        at_ns = sent["at_ns"][own].astype(np.int64)
        at_ns = at_ns[np.diff(at_ns, prepend=-timeout_ns) > timeout_ns // 2]
        own_ns = np.diff(at_ns) - timeout_ns
        is_beat = np.abs(own_ns) <= round(LATE_SHARE_MAX * timeout_ns)
        found.append(own_ns[is_beat & ~disturbed.hold(at_ns[1:])])
    beyond_ns = np.concatenate(found) - usual_overhead_ns
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


def fit_pauses(
    sent: EventColumns, resumed: EventColumns, process_of: Mapping[int, str], beat_ns: int | None
) -> dict[str, Intervals]:
    """The pauses of each process that had any, by the channels of its producers; none where the
    beat is unknown."""
    if not beat_ns:
        return {}
    found = {}
    for name in dict.fromkeys(process_of.values()):
        own = [channel for channel, process in process_of.items() if process == name]
        pauses = _pauses(of_channels(sent, own), of_channels(resumed, own), beat_ns)
        if len(pauses.starts_ns):
            found[name] = pauses
    return found


def _pauses(sent: EventColumns, resumed: EventColumns, beat_ns: int) -> Intervals:
    at_ns = sent["at_ns"].astype(np.int64)
    if len(at_ns) < SAMPLES_MIN:
        return NOTHING
    reached = np.r_[0, np.cumsum(np.maximum(sent["records"], 0))]
    beats_ns = np.arange(at_ns[0], at_ns[-1], beat_ns)
    in_beats = np.diff(reached[np.searchsorted(at_ns, beats_ns)])
    busy = in_beats[in_beats > 0]
    if not len(busy):
        return NOTHING
    usual = max(float(np.quantile(in_beats, USUAL_BEAT)), float(np.median(busy)))
    begun_ns, ended_ns = at_ns[:-1], at_ns[1:]
    behind = reached[np.searchsorted(at_ns, ended_ns + beat_ns)] - reached[1:-1]
    is_pause = ended_ns - begun_ns > GAP_BEATS * beat_ns
    is_pause &= behind > TIMES_USUAL * usual
    starved = []  # data waits for credit on a channel, until its next buffer leaves
    for own in places_by_channel(sent).values():
        waits = (sent["credit_after"][own] == 0) & (sent["backlog_buffers"][own] > 0)
        starved.append(from_switches(at_ns[own], waits, int(at_ns[-1])))
    is_pause &= ~merged(starved).hold(begun_ns)
    resumed_ns = np.sort(resumed["at_ns"])
    before = np.searchsorted(resumed_ns, begun_ns)
    is_pause &= before == np.searchsorted(resumed_ns, ended_ns, side="right")
    return Intervals(begun_ns[is_pause], ended_ns[is_pause])


def pauses_in_words(pauses: Iterable[Intervals], buffer_timeout_ns: int) -> str:
    """A sentence on the pauses that were found, or on why there may be others."""
    if buffer_timeout_ns <= 0:
        return PAUSES_UNKNOWN
    found = merged(pauses)
    if not len(found.starts_ns):
        return SHORT_PAUSES.format(human_duration(TIMES_USUAL * buffer_timeout_ns))
    longest_ns = int((found.ends_ns - found.starts_ns).max())
    return PAUSED.format(counted(len(found.starts_ns), "time"), human_duration(longest_ns))
