"""Which of two configurations is better: paired differences with confidence intervals.

Runs come in rounds; in each round every configuration runs once, in an order that differs from
round to round, so that a drift of the machine falls on all of them. A difference is taken within
each round and the rounds are its sample: the mean of log(candidate / base) with a Student-t
interval, told as a ratio. Logarithms make "twice" and "half" equally far. A metric with a zero
in it has no ratio; its plain differences are taken instead, told relative to the base's mean.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median, stdev

from flinknet.errors import ConfigError
from flinknet.units import format_percent, parse_percent

NEGLIGIBLE = 0.01
"""The smallest difference that matters: below one percent it is none, however surely measured."""


class Verdict(StrEnum):
    """What a comparison says about one metric."""

    BETTER = "better"
    WORSE = "worse"
    HIGHER = "higher"  # of a metric that is neither good nor bad
    LOWER = "lower"
    NONE = "no difference"  # the whole interval lies below what matters
    UNDECIDED = "undecided"  # the interval is too wide; more runs narrow it
    UNKNOWN = "not measured"


class Outcome(StrEnum):
    """What a limit (`--fail-if`) comes to."""

    PASS = "pass"
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Difference:
    """A metric of a candidate against the base, as relative change; None where not measured."""

    base_median: float | None
    candidate_median: float | None
    change: float | None  # +0.1: ten percent more
    low: float | None  # the interval of `change`; None with fewer than two rounds
    high: float | None
    rounds: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Limit:
    """A change that must not be: `p99>+10%`, `throughput<-5%`."""

    metric: str
    is_upper: bool
    ratio: float
    text: str

    def outcome(self, difference: Difference) -> Outcome:
        """Regression: the whole interval lies beyond the limit; pass: the whole lies within."""
        if difference.low is None or difference.high is None:
            return Outcome.INCONCLUSIVE
        low, high, limit = difference.low, difference.high, self.ratio
        if not self.is_upper:
            low, high, limit = -high, -low, -limit
        if low > limit:
            return Outcome.REGRESSION
        return Outcome.PASS if high <= limit else Outcome.INCONCLUSIVE


_LIMIT = re.compile(r"\s*([\w.]+)\s*([<>])\s*([^<>]+)")


def parse_limit(text: str, metrics: Sequence[str]) -> Limit:
    """Parse `metric>percent` or `metric<percent`."""
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise ConfigError(f"--fail-if: {text!r} is no limit; write p99>+10% or throughput<-5%")
    metric, side, percent = match.groups()
    if metric not in metrics:
        raise ConfigError(f"--fail-if: {metric!r} is no metric; known are {', '.join(metrics)}")
    ratio = parse_percent(percent, "--fail-if")
    if ratio and percent[0] not in "+-":
        raise ConfigError(
            f"--fail-if: {text!r} lacks a sign; write {metric}{side}+{percent} for so much more"
            f" than the base, {metric}{side}-{percent} for so much less"
        )
    return Limit(metric, side == ">", ratio, text.strip())


def interleaved_orders(count: int, rounds: int, seed: int) -> list[list[int]]:
    """The order of `count` configurations in each round.

    A seeded order, rotated by one each round: over `count` rounds each configuration stands once
    in each place.
    """
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return [order[turn % count :] + order[: turn % count] for turn in range(rounds)]


def difference(
    base: Sequence[float | None],
    candidate: Sequence[float | None],
    *,
    direction: int,
    confidence: float = 0.95,
) -> Difference:
    """Compare two samples, paired by their index.

    Args:
        base: one value a round; a round in which either side has none is left out.
        direction: 1 when more is better, -1 when less is, 0 when neither.
        confidence: of the interval, such as 0.95.
    """
    pairs = [
        (a, b) for a, b in zip(base, candidate, strict=True) if a is not None and b is not None
    ]
    medians = _median(base), _median(candidate)
    rounds = len(pairs)
    if not pairs:
        return Difference(*medians, None, None, None, 0, Verdict.UNKNOWN)
    if all(a > 0 and b > 0 for a, b in pairs):
        centre, reach = _mean_and_reach([math.log(b / a) for a, b in pairs], confidence)
        change, ends = math.expm1(centre), _ends(centre, reach)
        low, high = (math.expm1(end) for end in ends) if ends else (None, None)
    else:
        scale = fmean(a for a, _ in pairs)
        if not scale:
            equal = all(a == b for a, b in pairs)
            verdict = Verdict.NONE if equal else Verdict.UNKNOWN
            return Difference(*medians, 0.0 if equal else None, None, None, rounds, verdict)
        centre, reach = _mean_and_reach([(b - a) / scale for a, b in pairs], confidence)
        change, ends = centre, _ends(centre, reach)
        low, high = ends or (None, None)
    return Difference(*medians, change, low, high, rounds, _verdict(change, low, high, direction))


def student_t_quantile(probability: float, degrees: int) -> float:
    """The quantile of Student's t distribution for 0.5 <= probability < 1, by bisection."""
    low, high = 0.0, 1.0
    while student_t_cdf(high, degrees) < probability:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        if student_t_cdf(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def student_t_cdf(t: float, degrees: int) -> float:
    """Student's t distribution function for t >= 0 and whole degrees of freedom.

    The finite trigonometric sums of Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    theta = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(theta), math.cos(theta)
    if degrees % 2:
        term = total = cosine if degrees > 1 else 0.0
        for k in range(2, degrees - 1, 2):
            term *= cosine**2 * k / (k + 1)
            total += term
        inside = 2 / math.pi * (theta + sine * total)
    else:
        term = total = 1.0
        for k in range(1, degrees - 2, 2):
            term *= cosine**2 * k / (k + 1)
            total += term
        inside = sine * total
    return (1 + inside) / 2


def summary(name: str, base_name: str, differences: dict[str, Difference]) -> str:
    """One sentence on a candidate against the base."""
    told = []
    for verdict in (Verdict.BETTER, Verdict.WORSE):
        found = [
            f"{metric} ({format_percent(each.change)})"
            for metric, each in differences.items()
            if each.verdict is verdict and each.change is not None
        ]
        if found:
            told.append(f"{verdict.value} in {', '.join(found)}")
    undecided = [
        metric for metric, each in differences.items() if each.verdict is Verdict.UNDECIDED
    ]
    if undecided:
        told.append(f"undecided in {', '.join(undecided)} (more --runs)")
    if not told:
        return f"{name} against {base_name}: no difference."
    return f"{name} against {base_name}: {'; '.join(told)}."


def _mean_and_reach(sample: Sequence[float], confidence: float) -> tuple[float, float | None]:
    """Mean of a sample and half the width of its confidence interval (None for one value)."""
    count = len(sample)
    if count < 2:
        return sample[0], None
    quantile = student_t_quantile((1 + confidence) / 2, count - 1)
    return fmean(sample), quantile * stdev(sample) / math.sqrt(count)


def _ends(centre: float, reach: float | None) -> tuple[float, float] | None:
    return None if reach is None else (centre - reach, centre + reach)


def _median(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return median(present) if present else None


def _verdict(change: float, low: float | None, high: float | None, direction: int) -> Verdict:
    if low is None or high is None:
        return Verdict.UNDECIDED
    if low >= -NEGLIGIBLE and high <= NEGLIGIBLE:
        return Verdict.NONE
    if low <= 0 <= high or abs(change) < NEGLIGIBLE:
        return Verdict.UNDECIDED
    if not direction:
        return Verdict.HIGHER if change > 0 else Verdict.LOWER
    return Verdict.BETTER if change * direction > 0 else Verdict.WORSE
