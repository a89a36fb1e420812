"""Arrivals of the records of captured buffers: the interval of each buffer, the pattern of the
records in it, and bursts.

A tap sees how many records a buffer holds, and between which two instants they came. How the counts
differ from one beat of the flusher to the next shows the pattern. Even gaps give equal counts;
independent records give a variance as large as the mean; groups of records give a larger one. So
records are placed with gaps from a gamma distribution whose squared coefficient of variation is
this index of dispersion: 0 for even gaps, 1 for a Poisson process, more for groups.

Load that goes on and off varies for another reason, so only beats within bursts count there. From
the first beat with records to the last, a burst takes as long as it is on, on average, since a beat
comes as much behind its end as behind its beginning. Each burst has its own rate: its records over
that length. At that rate the records of its first beat came last in the beat, and those of its last
beat first.

Two quantities do not show in a capture: when the records of a buffer came, and how much of a round
trip is the way to the reader. A sample (`Unseen`) has a value for each that the messages allow; how
far their predictions lie apart is the uncertainty. Samples follow from the seed of the run and a
number, so they can be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from flinknet.arrays import IntArray

from ..intervals import BoolArray
from ..ramps import Ramps
from . import SAMPLES_MIN
from .delays import Delays
from .round_trips import DELAYS_SHARE, DELAYS_SHARES, RoundTrip

_NONE = np.zeros(0, np.int64)

DISPERSION_MIN = 0.02
"""Index of dispersion below which records are evenly spaced."""

DISPERSION_UNKNOWN = (0.05, 1.0)
"""Bounds of the index of dispersion where too few beats were recorded: from even to Poisson."""

PARTS_MAX, PARTS_OF_MANY = 64, 8
"""Most parts of a buffer's records with a random gap each, and most on a channel with more than
MANY_BUFFERS. Records within a part are even, or simultaneous if the dispersion is above 1."""

MANY_BUFFERS = 100_000

LENGTH_OFF = 0.1
"""Largest difference, in beats, between the time of two flushes and a whole number of beats at
which the second flush holds the records of one beat."""

SILENT_BEATS_MAX = 50
"""Most beats that a silence counts as."""

SILENT_SHARE, SILENT_FACTOR = 0.05, 3.0
"""Share of a producer's beats without records above which load goes on and off, on top of this
multiple of the share that independent records would give."""

RECORDS_MIN = 5.0
"""Fewest records of a producer in a beat with records, on average, that show bursts: silence comes
by chance with fewer."""

BURSTS_MIN = 10
"""Fewest bursts from which their length is measured."""

EARLY_BEATS = 0.2
"""Largest time, in beats, by which a beat may come early."""

LATE_RECORDS = 1.5
"""Multiple of the usual records above which a beat after the time of two beats was late by one."""

HELD_BEATS = 1.2
"""Interval of a buffer, in beats, above which it was held back: its records may have come before
its beat."""

EVEN_MAX, RANDOM_MAX = 0.3, 2.0
"""Largest index of dispersion of arrivals that are called even, and random."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The buffers of one channel in which records end, in order; int64 columns."""

    records: IntArray
    since_ns: IntArray  # after it these came; ascending, `since_ns[i] >= at_ns[i - 1]`
    at_ns: IntArray  # instant at which the buffer left
    is_flush: BoolArray  # the flusher sent it, and left nothing behind

    def evenly(self) -> Ramps:
        """Space the records of each buffer evenly in its interval."""
        half_ns = (self.at_ns - self.since_ns) // (2 * self.records)
        return Ramps(self.records, self.since_ns + half_ns, self.at_ns - half_ns)

    def at_random(self, random: np.random.Generator) -> IntArray:
        """Draw an instant for each record, within the interval of its buffer."""
        shares = random.uniform(size=int(self.records.sum()))
        since_ns, at_ns = (np.repeat(each, self.records) for each in (self.since_ns, self.at_ns))
        instants_ns: IntArray = since_ns + (shares * (at_ns - since_ns)).astype(np.int64)
        return instants_ns

    def up_to(self, to_ns: int) -> Seen:
        """Keep the buffers whose records may have come before an instant."""
        end = int(np.searchsorted(self.since_ns, to_ns))
        return Seen(*(getattr(self, each.name)[:end] for each in fields(self)))

    def times(self, factor: float) -> Seen:
        """Scale the number of records by a factor, over the same intervals."""
        reached = np.floor(np.cumsum(self.records) * factor + 0.5).astype(np.int64)
        scaled = replace(self, records=np.diff(reached, prepend=0))
        keep = scaled.records > 0
        return Seen(*(getattr(scaled, each.name)[keep] for each in fields(scaled)))

    def drawn(self, dispersion: float, random: np.random.Generator) -> Ramps:
        """Place the records of each buffer with gamma-distributed gaps that fill its interval and
        have a squared coefficient of variation of `dispersion`."""
        if dispersion <= DISPERSION_MIN:
            return self.evenly()
        is_clumped = dispersion > 1  # each part is a group then, and groups are independent
        parts_max = PARTS_MAX if len(self.records) <= MANY_BUFFERS else PARTS_OF_MANY
        most = np.ceil(self.records / dispersion) if is_clumped else self.records
        parts = np.minimum(most, parts_max).astype(np.int64)
        buffer_of, number = _numbered(parts)
        total, of_parts = self.records[buffer_of], parts[buffer_of]
        records = total * (number + 1) // of_parts - total * number // of_parts
        # After the records of each buffer one more gap reaches up to the instant at which it left.
        gap_of, _ = _numbered(parts + 1)
        ends = np.cumsum(parts + 1) - 1
        is_part = np.ones(len(gap_of), bool)
        is_part[ends] = False
        shapes = np.ones(len(gap_of))
        shapes[is_part] = 1.0 if is_clumped else records
        reached = np.cumsum(random.gamma(shapes if is_clumped else shapes / dispersion) + 1e-12)
        before = np.r_[0.0, reached[ends[:-1]]]
        share = (reached[is_part] - before[buffer_of]) / (reached[ends] - before)[buffer_of]
        length_ns = (self.at_ns - self.since_ns)[buffer_of]
        last_ns = self.since_ns[buffer_of] + (share * length_ns).astype(np.int64)
        if is_clumped:
            return Ramps(records, last_ns, last_ns)
        begun_ns = np.where(number == 0, self.since_ns[buffer_of], np.r_[0, last_ns[:-1]])
        return Ramps(records, last_ns - (last_ns - begun_ns) * (records - 1) // records, last_ns)


def _numbered(counts: IntArray) -> tuple[IntArray, IntArray]:
    group = np.repeat(np.arange(len(counts)), counts)
    return group, np.arange(len(group)) - np.repeat(np.cumsum(counts) - counts, counts)


@dataclass(frozen=True, slots=True)
class Pattern:
    """The pattern of the records of an exchange within a beat. If counts vary more than those of
    independent records, these may be independent all the same, at a rate that varies from beat to
    beat: `varying` is the dispersion then, as likely as the other one."""

    dispersion: float  # squared coefficient of variation of the gaps, the best guess
    low: float  # bounds of its 90% interval
    high: float
    is_on_off: bool = False  # load goes on and off
    varying: float | None = None

    @property
    def in_words(self) -> str:
        """The pattern and its source."""
        where = " in bursts" if self.is_on_off else ""
        if (self.low, self.high) == DISPERSION_UNKNOWN:
            return f"evenly spaced to random{where}: too few flushes to see how their number varies"
        low = self.low if self.varying is None else self.varying
        value = f"{self.dispersion:.2g}"
        least_most = f"{low:.2g} to {self.high:.2g}"
        source = "estimated from how much their number varies between flushes"
        if self.dispersion > RANDOM_MAX:
            return f"in groups of about {value} ({least_most}){where}, {source}"
        how = "evenly spaced" if self.dispersion <= EVEN_MAX else "at random instants"
        return f"{how}{where}, {source}: variance {value} times the mean ({least_most})"

    def draw(self, random: np.random.Generator, number: int) -> float:
        """Draw a dispersion; of two equally likely ones, each in turn."""
        if self.varying is not None and number % 2:
            return self.varying
        low, high = np.log(max(self.low, 1e-3)), np.log(max(self.high, 1e-3))
        return float(np.exp(random.normal((low + high) / 2, (high - low) / 3.29)))


UNKNOWN_PATTERN = Pattern(float(np.sqrt(np.prod(DISPERSION_UNKNOWN))), *DISPERSION_UNKNOWN)


def fit_pattern(
    seen: Mapping[int, Seen], beat_ns: int | None, *, is_on_off: bool = False
) -> Pattern:
    """The pattern of an exchange, from the counts of successive beats of each channel; of load that
    goes on and off, those within bursts. The beat is None if unknown."""
    if not beat_ns:
        return UNKNOWN_PATTERN
    parts = [_differences(each, beat_ns, is_on_off) for each in seen.values()]
    squares, expected, beats = map(sum, zip(*parts, strict=True)) if parts else (0.0, 0.0, 0)
    if beats < SAMPLES_MIN:
        return replace(UNKNOWN_PATTERN, is_on_off=is_on_off)
    found = max(squares / expected if expected else 1.0, DISPERSION_MIN)
    spread = 1.645 * np.sqrt(3.0 / beats)
    low, high = float(found * np.exp(-spread)), float(found * np.exp(spread))
    if is_on_off or found <= 1:
        return Pattern(found, low, high, is_on_off)
    # Either records come in groups, or they are independent at a rate that varies between beats.
    return Pattern(float(np.sqrt(found)), low, high, varying=1.0)


def _differences(seen: Seen, beat_ns: int, is_on_off: bool) -> tuple[float, float, int]:
    """For pairs of successive beats: squared differences of their records, and sums; pairs."""
    reached = np.cumsum(seen.records)
    ticks = np.flatnonzero(seen.is_flush)
    if len(ticks) < 2:
        return 0.0, 0.0, 0
    lengths = np.diff(seen.at_ns[ticks]) / beat_ns
    beats = np.rint(lengths).astype(np.int64)
    steps = np.minimum(np.maximum(beats, 1), SILENT_BEATS_MAX)
    counts = np.zeros(int(steps.sum()), np.int64)
    counts[np.cumsum(steps) - 1] = np.diff(reached[ticks])
    is_whole = np.repeat((beats > 0) & (np.abs(lengths - beats) <= LENGTH_OFF), steps)
    own = is_whole[1:] & is_whole[:-1]
    if is_on_off:  # neither of them begins or ends a burst
        some = np.r_[False, counts > 0, False]
        own &= some[:-3] & some[1:-2] & some[2:-1] & some[3:]
    one, other = counts[:-1][own], counts[1:][own]
    return float(((other - one) ** 2).sum()), float((one + other).sum()), len(one)


@dataclass(frozen=True, slots=True, eq=False)
class Beats:
    """The beats of a producer that have records; columns."""

    at_ns: IntArray  # instant at which the buffers of a beat left
    burst: IntArray  # number of its burst
    records: IntArray
    silent: int  # number of beats without records

    @classmethod
    def of(cls, channels: list[Seen], beat_ns: int) -> Beats:
        """The beats over all channels of a producer."""
        left_ns = np.sort(np.concatenate([each.at_ns[each.is_flush] for each in channels]))
        if not len(left_ns):
            return cls(_NONE, _NONE, _NONE, 0)
        at_ns = left_ns[np.r_[True, np.diff(left_ns) > beat_ns // 2]]
        records = np.zeros(len(at_ns), np.int64)
        for each in channels:
            np.add.at(records, _place(each, at_ns), each.records)
        gaps = np.floor(np.diff(at_ns) / beat_ns + EARLY_BEATS).astype(np.int64)
        is_late = (gaps == 2) & (records[1:] > LATE_RECORDS * np.median(records))
        gaps[is_late] = 1
        burst = np.r_[0, np.cumsum(gaps > 1)]
        return cls(at_ns, burst, records, int((np.clip(gaps, 1, SILENT_BEATS_MAX) - 1).sum()))

    def spans(self) -> tuple[IntArray, IntArray]:
        """Time from the first to the last beat of each burst, and its records."""
        if not len(self.burst):
            return self.at_ns, self.records
        first = np.flatnonzero(np.r_[True, np.diff(self.burst) > 0])
        last = np.r_[first[1:], len(self.burst)] - 1
        return self.at_ns[last] - self.at_ns[first], np.add.reduceat(self.records, first)

    def on_ns(self, on_ns: float, beat_ns: int) -> tuple[IntArray, IntArray]:
        """The interval in which the records of each beat came, by the length of a burst."""
        in_burst = np.bincount(self.burst, weights=self.records)[self.burst]
        needs_ns = (self.records / in_burst * on_ns).astype(np.int64)
        since_ns, to_ns = self.at_ns - beat_ns, self.at_ns.copy()
        is_first = np.r_[True, np.diff(self.burst) > 0]
        is_last = np.r_[is_first[1:], True]
        own_ns = np.minimum(needs_ns, beat_ns)
        only, begins, ends = is_first & is_last, is_first & ~is_last, is_last & ~is_first
        since_ns = np.where(begins, self.at_ns - own_ns, since_ns)
        before_ns = np.r_[0, self.at_ns[:-1]]
        since_ns = np.where(is_first, since_ns, np.maximum(since_ns, before_ns))
        to_ns = np.where(ends, since_ns + own_ns, to_ns)
        spare_ns = (beat_ns - own_ns) // 2
        since_ns = np.where(only, since_ns + spare_ns, since_ns)
        to_ns = np.where(only, to_ns - spare_ns, to_ns)
        return since_ns, np.minimum(to_ns, self.at_ns)


@dataclass(frozen=True, slots=True, eq=False)
class Bursts:
    """Bursts of an exchange, each `on_ns` long, with the beats of each producer."""

    on_ns: float
    beat_ns: int
    beats: Mapping[int, Beats]
    producer_of: Mapping[int, int]

    def within(self, seen: Mapping[int, Seen]) -> dict[int, Seen]:
        """The buffers of each channel with the intervals in which their records came."""
        found = dict(seen)
        spans = {each: own.on_ns(self.on_ns, self.beat_ns) for each, own in self.beats.items()}
        for channel, own in seen.items():
            producer = self.producer_of[channel]
            if not len(self.beats[producer].at_ns):
                continue  # every buffer was full, so none shows when its records came
            place = _place(own, self.beats[producer].at_ns)
            begun_ns, ended_ns = (each[place] for each in spans[producer])
            is_held = own.at_ns - own.since_ns > HELD_BEATS * self.beat_ns
            since_ns = np.maximum(own.since_ns, np.minimum(begun_ns, own.at_ns))
            at_ns = np.maximum(np.minimum(own.at_ns, ended_ns), since_ns)
            found[channel] = replace(
                own,
                since_ns=np.where(is_held, own.since_ns, since_ns),
                at_ns=np.where(is_held, own.at_ns, at_ns),
            )
        return found


def find_bursts(
    seen: Mapping[int, Seen], producer_of: Mapping[int, int], beat_ns: int | None
) -> Bursts | None:
    """The bursts of an exchange; None if its beats are unknown or do not show any."""
    if not beat_ns:
        return None
    channels: dict[int, list[Seen]] = {}
    for channel, own in seen.items():
        channels.setdefault(producer_of[channel], []).append(own)
    beats = {each: Beats.of(own, beat_ns) for each, own in channels.items()}
    filled = sum(len(each.at_ns) for each in beats.values())
    silent = sum(each.silent for each in beats.values())
    spans = [each.spans() for each in beats.values()]
    bursts = sum(len(own) for own, _ in spans)
    if bursts < BURSTS_MIN or not filled:
        return None
    mean = sum(int(each.records.sum()) for each in beats.values()) / filled
    by_chance = float(np.exp(-mean))
    if mean < RECORDS_MIN or silent / (filled + silent) < SILENT_SHARE + SILENT_FACTOR * by_chance:
        return None
    lengths_ns = np.concatenate([own for own, _ in spans])
    weights = np.concatenate([own for _, own in spans])
    return Bursts(float(np.average(lengths_ns, weights=weights)), beat_ns, beats, producer_of)


def _place(seen: Seen, beats_ns: IntArray) -> IntArray:
    flushed = np.searchsorted(beats_ns, seen.at_ns, side="right") - 1
    full = np.searchsorted(beats_ns, seen.at_ns, side="left")
    return np.clip(np.where(seen.is_flush, flushed, full), 0, max(len(beats_ns) - 1, 0))


@dataclass(frozen=True, slots=True, eq=False)
class Unseen:
    """Unknown quantities of one exchange in the window [from_ns, to_ns)."""

    seen: Mapping[int, Seen]  # intervals in which records came, by channel
    pattern: Pattern
    from_ns: int
    to_ns: int
    round_trip: RoundTrip | None  # from a buffer until its credit is back; None: not measured

    def arrivals(self, seed: int) -> dict[int, Ramps]:
        """The most likely arrivals of each channel."""
        random = np.random.default_rng(seed)
        return self.drawn_arrivals(self.pattern.dispersion, random, to_ns=self.to_ns)

    def routes(self, passed: Sequence[int], within: Sequence[int], seed: int) -> IntArray:
        """A sample of the channels of successive records of a producer, whose channels between
        TaskManagers and local ones are given. A capture shows how many records of a beat each
        channel had; their order, and that of local records among them, is drawn at random."""
        random = np.random.default_rng(seed)
        instants_ns = np.concatenate([_NONE, *(self.seen[n].at_random(random) for n in passed)])
        routes, local = (
            np.repeat(
                np.array(channels, np.int64),
                np.array([self.seen[each].records.sum() for each in channels], np.int64),
            )
            for channels in (passed, within)
        )
        is_local = random.permutation(np.repeat([False, True], [len(routes), len(local)]))
        found = np.empty(len(is_local), np.int64)
        found[is_local] = random.permutation(local)
        found[~is_local] = routes[np.argsort(instants_ns)]
        return found

    def delays(self, delays: Delays, seed: int, number: int) -> Delays:
        """The delays of the machine in a sample."""
        random = np.random.default_rng((seed, number, 1))
        return delays.times(random.uniform(*DELAYS_SHARES) / DELAYS_SHARE)

    def drawn_arrivals(
        self, dispersion: float, random: np.random.Generator, *, to_ns: int
    ) -> dict[int, Ramps]:
        """A sample of the arrivals of each channel up to an instant."""
        found = {}
        for channel, seen in self.seen.items():
            own = seen.up_to(to_ns)
            found[channel] = own.drawn(dispersion, random).within(self.from_ns, to_ns)
        return found
