"""Which of two configurations is better: paired differences with confidence intervals.

Runs come in rounds; in each round every configuration runs once, in an order that differs from
round to round, so that a drift of the machine falls on all of them. A difference is taken within
each round and the rounds are its sample: the mean of log(candidate / base) with a Student-t
interval, given as a ratio. Logarithms make "twice" and "half" equally far. The geometric means of
both sides go with it: their ratio is that change. A metric with a zero in it has no ratio; its
plain differences and arithmetic means are taken instead, in its own unit.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, geometric_mean, median, stdev

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
    """A metric of a candidate against the base; None where not measured.

    Attributes:
        base_mean, candidate_mean: over the rounds in which both were measured; geometric where
            `is_ratio`, so that they differ by exactly `change`.
        change: relative where `is_ratio` (+0.1: ten percent more), else in the metric's own unit.
        low, high: the interval of `change`; None with fewer than two rounds.
        is_ratio: false where a value is zero, which no ratio can be formed with.
    """

    base_median: float | None
    candidate_median: float | None
    base_mean: float | None
    candidate_mean: float | None
    change: float | None
    low: float | None
    high: float | None
    rounds: int
    verdict: Verdict
    is_ratio: bool = True


@dataclass(frozen=True, slots=True)
class Limit:
    """A change that must not be: `p99>+10%`, `throughput<-5%`."""

    metric: str
    is_upper: bool
    ratio: float
    text: str

    def outcome(self, difference: Difference) -> Outcome:
        """Regression: the whole interval lies beyond the limit; pass: the whole lies within.

        A percentage says nothing of a difference that is no ratio.
        """
        if not difference.is_ratio or difference.low is None or difference.high is None:
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
        raise ConfigError(f"--fail-if: {text!r} is not a limit; write p99>+10% or throughput<-5%")
    metric, side, percent = match.groups()
    if metric not in metrics:
        raise ConfigError(f"--fail-if: {metric!r} is not a metric; known are {', '.join(metrics)}")
    ratio = parse_percent(percent, "--fail-if")
    if ratio and percent[0] not in "+-":
        raise ConfigError(
            f"--fail-if: {text!r} needs a sign; write {metric}{side}+{percent} for so much more"
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
    if not pairs:
        return Difference(*medians, None, None, None, None, None, 0, Verdict.UNKNOWN)
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    if min(*first, *second) > 0:
        means = geometric_mean(first), geometric_mean(second)
        centre, reach = _mean_and_reach([math.log(b / a) for a, b in pairs], confidence)
        change, ends = math.expm1(centre), _ends(centre, reach)
        low, high = (math.expm1(end) for end in ends) if ends else (None, None)
        verdict = _verdict(change, low, high, direction, NEGLIGIBLE)
        return Difference(*medians, *means, change, low, high, len(pairs), verdict)
    means = fmean(first), fmean(second)
    change, reach = _mean_and_reach([b - a for a, b in pairs], confidence)
    low, high = _ends(change, reach) or (None, None)
    verdict = _verdict(change, low, high, direction, NEGLIGIBLE * max(means))
    is_same = first == second  # which is 0 % of anything
    return Difference(*medians, *means, change, low, high, len(pairs), verdict, is_ratio=is_same)


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


def summary(
    name: str, base_name: str, differences: dict[str, Difference], unlike: Sequence[str] = ()
) -> str:
    """One sentence on a candidate against the base.

    Args:
        unlike: options by which the workload of the candidate differs from that of the base.
    """
    verdicts = []
    for verdict in (Verdict.BETTER, Verdict.WORSE, Verdict.HIGHER, Verdict.LOWER):
        metrics = [
            f"{metric} ({format_percent(each.change)})" if each.is_ratio else metric
            for metric, each in differences.items()
            if each.verdict is verdict and each.change is not None
        ]
        if metrics:
            verdicts.append(f"{verdict.value} in {', '.join(metrics)}")
    undecided = [
        metric for metric, each in differences.items() if each.verdict is Verdict.UNDECIDED
    ]
    if undecided:
        verdicts.append(f"undecided in {', '.join(undecided)} (more --runs)")
    against = f"{name} against {base_name}"
    if unlike:
        against += f" (another workload: {', '.join(unlike)})"
    return f"{against}: {'; '.join(verdicts) or 'no difference'}."


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


def _verdict(
    change: float, low: float | None, high: float | None, direction: int, negligible: float
) -> Verdict:
    if low is None or high is None:
        return Verdict.UNDECIDED
    if low >= -negligible and high <= negligible:
        return Verdict.NONE
    if low <= 0 <= high or abs(change) < negligible:
        return Verdict.UNDECIDED
    if not direction:
        return Verdict.HIGHER if change > 0 else Verdict.LOWER
    return Verdict.BETTER if change * direction > 0 else Verdict.WORSE
