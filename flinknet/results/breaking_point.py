"""The highest rate that keeps a limit, found by runs one after another that keep it or not.

The search is a bisection of the logarithm of the rate that allows for wrong runs: after each run it
weighs how likely each rate is to be the breaking point, and the next run is at the median. A run
disturbed by other processes is corrected by later ones, and rates near the breaking point are
repeated until the interval is narrow. How often runs break the limit for another reason is learned
with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from flinknet.arrays import FloatArray

from .comparison.differences import NEGLIGIBLE, Verdict, verdict_of

RUNS_MAX = 60
"""Runs after which a search ends undecided."""

REPEATS = 3
"""Runs of the most likely rate before others are repeated."""

_STEPS = 8
"""Steps of the grid in the sought precision."""

_OCTAVES_DOWN, _OCTAVES_UP = 12, 2
"""Range of the runs around the first guess."""

_OCTAVES_LEFT = 2
"""Range below the lowest rate of a run; a breaking point there is known as lower, not where."""

_GUESS_WIDTH = 0.35
"""Typical distance of the breaking point from the first guess, as a logarithm."""

_ANYWHERE = 0.02
"""Probability that the breaking point is at any distance from the first guess."""

_WRONGLY_BROKEN = {0.02: 0.4, 0.08: 0.3, 0.2: 0.2, 0.4: 0.1}
"""Shares of runs below the breaking point that break the limit all the same, with the probability
of each before the first run."""

_WRONGLY_KEPT = 0.03
"""Share of runs above the breaking point that keep the limit."""


@dataclass(frozen=True, slots=True)
class TriedRate:
    """Runs at one rate."""

    rate_per_s: float
    runs: int
    kept: int  # runs that kept the limit
    figure: float | None  # median of the limited figure, of the runs that have it; None without any
    is_below_probability: float  # that of the breaking point not being below this rate
    not_reached: int  # runs that did not reach the rate, which have no figure

    def standing(self, confidence: float) -> str:
        """Whether the rate is "kept" or "broken", the breaking point being surely above or below;
        "unclear" if most of its own runs deny that; "at the limit" if nothing is sure."""
        if 1 - confidence < self.is_below_probability < confidence:
            return "at the limit"
        word, agreeing = "kept", self.kept
        if self.is_below_probability < confidence:
            word, agreeing = "broken", self.runs - self.kept
        return word if 2 * agreeing >= self.runs else "unclear"


@dataclass(slots=True)
class Search:
    """A search for the highest rate that keeps a limit; below `floor_per_s` no run is possible. It
    begins with a guess, the rate at full speed, which the limit usually does not allow. `within` is
    the precision of the answer, as a share of the rate; `confidence` the probability with which the
    breaking point lies in the interval."""

    guess_per_s: float
    within: float = 0.03
    confidence: float = 0.95
    floor_per_s: float = 0.0
    runs: list[tuple[float, bool, float | None]] = field(default_factory=list)
    _logs: FloatArray = field(init=False)
    _weights: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        guess, step = math.log(self.guess_per_s), math.log1p(self.within) / _STEPS
        low = math.log(self.lowest_per_s) - _OCTAVES_LEFT * math.log(2)
        self._logs = np.arange(low, guess + _OCTAVES_UP * math.log(2), step)
        prior = np.exp(-np.abs(self._logs - guess) / _GUESS_WIDTH)
        prior = prior / prior.sum() + _ANYWHERE / len(prior)
        self._weights = np.outer(list(_WRONGLY_BROKEN.values()), prior)
        self._weights /= self._weights.sum()

    @property
    def lowest_per_s(self) -> float:
        return max(self.floor_per_s, self.guess_per_s / 2.0**_OCTAVES_DOWN)

    @property
    def rate_per_s(self) -> float:
        """The breaking point: as likely above as below."""
        return self._quantile(0.5)

    @property
    def interval_per_s(self) -> tuple[float, float]:
        tail = (1 - self.confidence) / 2
        return self._quantile(tail), self._quantile(1 - tail)

    @property
    def error(self) -> float:
        """Reach of the interval to its wider side, as a share of the rate."""
        low, high = self.interval_per_s
        return max(high / self.rate_per_s - 1, 1 - low / self.rate_per_s)

    @property
    def is_decided(self) -> bool:
        """Whether the interval is as narrow as sought, and some run kept the limit."""
        return self.error <= self.within and self._has_kept and not self.is_below

    @property
    def is_below(self) -> bool:
        """Whether the breaking point is lower than any rate of a run may be, probably."""
        return self.interval_per_s[1] < self.lowest_per_s

    @property
    def is_hopeless(self) -> bool:
        """Whether no run kept the limit, and probably none would."""
        return self.is_below and not self._has_kept

    @property
    def seen(self) -> TriedRate | None:
        """The highest tried rate that keeps the limit in most runs, up to the interval's end."""
        high = self.interval_per_s[1]
        kept = [each for each in self.tried() if 2 * each.kept > each.runs]
        return next((each for each in reversed(kept) if each.rate_per_s <= high), None)

    @property
    def is_unseen(self) -> bool:
        """Whether it is decided, and yet no tried rate keeps the limit in most runs."""
        return self.is_decided and self.seen is None

    @property
    def is_over(self) -> bool:
        """Whether no further run is needed, or allowed."""
        return self.is_decided or self.is_below or len(self.runs) >= RUNS_MAX

    @property
    def next_per_s(self) -> float:
        """The rate of the next run, in steps of about half the precision: the median; where that
        has enough runs, further to one side and the other in turn."""
        step = math.log1p(self.within) / 2
        ends = (0.15, 0.85) if len(self.runs) % 2 else (0.85, 0.15)
        for share in (0.5, *ends):
            wanted = math.exp(round(math.log(self._quantile(share)) / step) * step)
            wanted = max(wanted, self.lowest_per_s)
            rate = round(wanted, 3 - math.floor(math.log10(wanted)))  # four significant digits
            if sum(each[0] == rate for each in self.runs) < REPEATS:
                break
        return rate

    def add(self, rate_per_s: float, *, is_kept: bool, figure: float | None = None) -> None:
        """Take a run; one that did not reach its rate has not kept the limit, and has no figure."""
        self.runs.append((rate_per_s, is_kept, figure))
        away = (self._logs - math.log(rate_per_s)) / (math.log1p(self.within) / 3)
        below = 1 / (1 + np.exp(-np.clip(away, -50.0, 50.0)))
        wrong = np.array(list(_WRONGLY_BROKEN))[:, np.newaxis]
        kept = _WRONGLY_KEPT + (1 - wrong - _WRONGLY_KEPT) * below
        self._weights *= kept if is_kept else 1 - kept
        self._weights /= self._weights.sum()

    @property
    def _cumulated(self) -> FloatArray:
        return np.cumsum(self._weights.sum(axis=0))

    def tried(self) -> list[TriedRate]:
        found = []
        cumulated = self._cumulated
        for rate in sorted({rate for rate, _, _ in self.runs}):
            own = [each for each in self.runs if each[0] == rate]
            figures = sorted(figure for _, _, figure in own if figure is not None)
            place = min(int(np.searchsorted(self._logs, math.log(rate))), len(self._logs) - 1)
            kept, middle = sum(each[1] for each in own), figures[len(figures) // 2 :]
            figure, probability = middle[0] if middle else None, float(1 - cumulated[place])
            missed = len(own) - len(figures)
            found.append(TriedRate(rate, len(own), kept, figure, probability, missed))
        return found

    def quantiles(self, count: int) -> FloatArray:
        """Equally likely values of the logarithm of the breaking point."""
        places = np.searchsorted(self._cumulated, (np.arange(count) + 0.5) / count)
        return self._logs[np.minimum(places, len(self._logs) - 1)]

    @property
    def _has_kept(self) -> bool:
        return any(kept for _, kept, _ in self.runs)

    def _quantile(self, share: float) -> float:
        return math.exp(float(np.interp(share, self._cumulated, self._logs)))


@dataclass(slots=True)
class FoundRate:
    """The search of one configuration."""

    name: str
    limit: str  # such as "p99<=20ms"
    max_per_s: float  # records per second of each producer at full speed
    search: Search
    producers: int = 1  # number of producers, each of which sends at the rates of the search
    disturbed: int = 0  # runs that other processes disturbed
    repeats: int = 0  # those of them that do not count

    @property
    def total_per_s(self) -> float:
        return self.search.rate_per_s * self.producers


@dataclass(frozen=True, slots=True)
class BreakingPointChange:
    """Change of the breaking point against another search, as a share, with its interval."""

    change: float
    low: float
    high: float
    verdict: Verdict


def change_between(base: Search, other: Search, factor: float = 1.0) -> BreakingPointChange:
    """Compare two breaking points: how much higher that of `other` is, which has `factor` producers
    for each of the base, for the change of the total."""
    draws = np.subtract.outer(other.quantiles(400), base.quantiles(400)).ravel()
    draws = np.sort(draws + math.log(factor))
    tail = (1 - base.confidence) / 2
    low, change, high = (
        math.expm1(float(each)) for each in np.quantile(draws, (tail, 0.5, 1 - tail))
    )
    is_unknown = any(each.is_below or each.is_unseen for each in (base, other))
    verdict = Verdict.UNKNOWN if is_unknown else verdict_of(change, low, high, 1, NEGLIGIBLE)
    return BreakingPointChange(change, low, high, verdict)
