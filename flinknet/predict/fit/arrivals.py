"""When the records of captured buffers came: the stretch of time of each buffer, and the pattern of
the records in it.

A tap sees how many records a buffer holds, and between which instants they came. How they are
spread in between shows in how the counts differ from one beat of the flusher to the next. Gaps that
vary little give equal counts; independent records give a variance as large as the mean; records
that come several at once give a larger one. So records are placed with gaps from a gamma
distribution whose squared coefficient of variation is that ratio of variance and mean, the index of
dispersion: 0 for even gaps, 1 for a Poisson process, more for clumps.

Load that goes on and off varies from beat to beat for another reason. There the beats at the edges
of a burst are left out of the ratio; when they begin and end is in `bursts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from flinknet.arrays import IntArray

from ..ramps import Ramps
from . import SAMPLES_MIN

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

DISPERSION_MIN = 0.02
"""Below it records are as good as evenly spaced."""

DISPERSION_UNKNOWN = (0.05, 1.0)
"""Least and greatest that is assumed where too few beats were recorded: from even to Poisson."""

PARTS_MAX, PARTS_OF_MANY = 64, 8
"""Parts of a buffer's records that have gaps of their own; records within a part are even, or come
at once where the dispersion is above 1. Fewer where a channel has more than MANY_BUFFERS."""

MANY_BUFFERS = 100_000

EVEN_MAX, RANDOM_MAX = 0.3, 2.0
"""Up to here arrivals are called even, and random."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The buffers of one channel in which a record ends, in their order; int64 columns.

    Attributes:
        records: that end in the buffer.
        since_ns: instant after which they came; ascending, `since_ns[i] >= at_ns[i - 1]`.
        at_ns: when the buffer left.
        is_flush: the flusher took it: nothing was left behind.
    """

    records: IntArray
    since_ns: IntArray
    at_ns: IntArray
    is_flush: BoolArray

    def evenly(self) -> Ramps:
        """The records of each buffer evenly spaced in its stretch."""
        half_ns = (self.at_ns - self.since_ns) // (2 * self.records)
        return Ramps(self.records, self.since_ns + half_ns, self.at_ns - half_ns)

    def at_random(self, random: np.random.Generator) -> IntArray:
        """An instant for each record, at random within the stretch of its buffer."""
        shares = random.uniform(size=int(self.records.sum()))
        since_ns, at_ns = (np.repeat(each, self.records) for each in (self.since_ns, self.at_ns))
        instants_ns: IntArray = since_ns + (shares * (at_ns - since_ns)).astype(np.int64)
        return instants_ns

    def up_to(self, to_ns: int) -> Seen:
        """Those whose records may have come before an instant."""
        end = int(np.searchsorted(self.since_ns, to_ns))
        return Seen(*(getattr(self, each.name)[:end] for each in fields(self)))

    def times(self, factor: float) -> Seen:
        """The same with so many times as many records, over the same stretches."""
        reached = np.floor(np.cumsum(self.records) * factor + 0.5).astype(np.int64)
        scaled = replace(self, records=np.diff(reached, prepend=0))
        keep = scaled.records > 0
        return Seen(*(getattr(scaled, each.name)[keep] for each in fields(scaled)))

    def drawn(self, dispersion: float, random: np.random.Generator) -> Ramps:
        """The records of each buffer with gaps of a gamma distribution that add up to its stretch.

        Args:
            dispersion: squared coefficient of variation of the gaps.
        """
        if dispersion <= DISPERSION_MIN:
            return self.evenly()
        is_clumped = dispersion > 1  # a part is a clump then, and clumps are independent
        parts_max = PARTS_MAX if len(self.records) <= MANY_BUFFERS else PARTS_OF_MANY
        most = np.ceil(self.records / dispersion) if is_clumped else self.records
        parts = np.minimum(most, parts_max).astype(np.int64)
        buffer_of, number = _numbered(parts)
        total, of_parts = self.records[buffer_of], parts[buffer_of]
        records = total * (number + 1) // of_parts - total * number // of_parts
        # Behind the records of each buffer one more gap reaches up to where it left.
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
    """Of so many things of each group: the group, and the number within it."""
    group = np.repeat(np.arange(len(counts)), counts)
    return group, np.arange(len(group)) - np.repeat(np.cumsum(counts) - counts, counts)


@dataclass(frozen=True, slots=True)
class Pattern:
    """How records of an exchange follow each other within a beat.

    Attributes:
        dispersion: squared coefficient of variation of the gaps, the best guess.
        low, high: between which it lies in nine cases of ten.
        is_on_off: load goes on and off.
        varying: where counts vary by more than those of independent records, what they are as
            likely to be: independent, at a rate that varies from beat to beat.
    """

    dispersion: float
    low: float
    high: float
    is_on_off: bool = False
    varying: float | None = None

    @property
    def in_words(self) -> str:
        """The pattern, and what it was read from."""
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
        """A dispersion that may be the true one; of two that are as likely by turns."""
        if self.varying is not None and number % 2:
            return self.varying
        low, high = np.log(max(self.low, 1e-3)), np.log(max(self.high, 1e-3))
        return float(np.exp(random.normal((low + high) / 2, (high - low) / 3.29)))


UNKNOWN_PATTERN = Pattern(float(np.sqrt(np.prod(DISPERSION_UNKNOWN))), *DISPERSION_UNKNOWN)


def fit_pattern(
    seen: Mapping[int, Seen], beat_ns: int | None, *, is_on_off: bool = False
) -> Pattern:
    """The pattern of an exchange, from the counts of successive beats of each channel.

    Args:
        beat_ns: from one flush to the next; None where the flusher has no beat that is known.
        is_on_off: load goes on and off: beats within bursts count (`bursts`).
    """
    if not beat_ns:
        return UNKNOWN_PATTERN
    counts = [_counts(each, beat_ns) for each in seen.values()]
    take = _differences_within if is_on_off else _differences
    sums = _Sums.over([take(*each) for each in counts])
    if sums.beats < SAMPLES_MIN:
        return replace(UNKNOWN_PATTERN, is_on_off=True) if is_on_off else UNKNOWN_PATTERN
    found = _pattern(sums, is_on_off=is_on_off)
    if is_on_off:
        return found
    if found.dispersion <= 1:
        return found
    # Counts that vary by more than those of independent records: several come at once, or the rate
    # varies from beat to beat and within a beat they are independent.
    return replace(found, dispersion=float(np.sqrt(found.dispersion)), varying=1.0)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Squared differences of the counts of successive beats, and what a Poisson process gives."""

    squares: float
    expected: float
    beats: int

    @classmethod
    def over(cls, parts: list[tuple[float, float, int]]) -> _Sums:
        squares, expected, beats = zip(*parts, strict=True) if parts else ((), (), ())
        return cls(sum(squares), sum(expected), sum(beats))

    @property
    def dispersion(self) -> float:
        return self.squares / self.expected if self.expected else 1.0


def _pattern(sums: _Sums, *, is_on_off: bool) -> Pattern:
    """With the 90% interval of a variance that was estimated from so many beats."""
    spread = 1.645 * np.sqrt(3.0 / sums.beats)
    found = max(sums.dispersion, DISPERSION_MIN)
    return Pattern(found, float(found * np.exp(-spread)), float(found * np.exp(spread)), is_on_off)


def _counts(seen: Seen, beat_ns: int) -> tuple[IntArray, BoolArray]:
    """Records of a channel in each beat, those without any among them; a silence counts as at most
    SILENT_BEATS_MAX of them. And which of the beats are as long as others: where the flusher was
    late, or a barrier was flushed in between, a buffer has the records of more time, or of less.
    """
    reached = np.cumsum(seen.records)
    ticks = np.flatnonzero(seen.is_flush)
    if len(ticks) < 2:
        return np.zeros(0, np.int64), np.zeros(0, np.bool_)
    lengths = np.diff(seen.at_ns[ticks]) / beat_ns
    beats = np.rint(lengths).astype(np.int64)
    steps = np.minimum(np.maximum(beats, 1), SILENT_BEATS_MAX)
    counts = np.zeros(int(steps.sum()), np.int64)
    counts[np.cumsum(steps) - 1] = np.diff(reached[ticks])
    is_whole = np.repeat((beats > 0) & (np.abs(lengths - beats) <= LENGTH_OFF), steps)
    return counts, is_whole


LENGTH_OFF = 0.1
"""Beats by which the time between two flushes is off a whole number, at most, where the second one
has the records of one beat."""

SILENT_BEATS_MAX = 50


def _differences(counts: IntArray, is_whole: BoolArray) -> tuple[float, float, int]:
    """Of all successive beats."""
    own = is_whole[1:] & is_whole[:-1]
    one, other = counts[:-1][own], counts[1:][own]
    return float(((other - one) ** 2).sum()), float((one + other).sum()), len(one)


def _differences_within(counts: IntArray, is_whole: BoolArray) -> tuple[float, float, int]:
    """Of those with records in both, and in the beats before and after them."""
    if len(counts) < 4:
        return 0.0, 0.0, 0
    some = counts > 0
    inside = some[:-3] & some[1:-2] & some[2:-1] & some[3:] & is_whole[1:-2] & is_whole[2:-1]
    one, other = counts[1:-2][inside], counts[2:-1][inside]
    return float(((other - one) ** 2).sum()), float((one + other).sum()), int(inside.sum())
