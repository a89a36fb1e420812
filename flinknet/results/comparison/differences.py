"""Metrics of a run, and how they differ between two configurations, with a confidence interval.

Runs of one call come in rounds. In each round every configuration runs once, in an order that
differs from round to round, so that a drift of the machine affects all of them alike. A difference
is taken within each round, and the rounds are its sample: the mean of log(candidate / base) with a
Student-t interval, given as a ratio. Logarithms make "twice" and "half" equally far. The geometric
means of both sides are given with it: their ratio is that change. A metric with a zero in it has no
ratio; its plain differences and arithmetic means are taken instead, in its own unit.

A percentile is read from a histogram, in whose buckets similar runs are equal: its interval is
never narrower than the error of the two values.

The runs of an earlier result belong to other rounds: then the two samples are independent, and the
interval is Welch's.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from statistics import fmean, geometric_mean, stdev

from ..figures import CPU, FIGURES, Figure, of_run, typical
from ..run import RunResult


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that configurations are compared by."""

    figure: Figure[RunResult]
    label: str = ""  # its name in tables and sentences, if not that of the metric
    records_min: int = 0  # fewest records of a run that it is known of
    resolution: float = 0.0  # largest relative error of a value
    negligible_amount: float = 0.0  # least that matters where a value is zero, in its unit


HISTOGRAM_RESOLUTION = 1 / 256
"""Largest relative error of a percentile, which is the middle of a bucket of the histogram."""

_OF_RUN = {name: of_run(each) for name, each in FIGURES.items()}

METRICS: Mapping[str, Metric] = {
    "throughput": Metric(_OF_RUN["throughput_records_per_s"]),
    "throughput_bytes": Metric(_OF_RUN["throughput_bytes_per_s"], "bytes/s"),
    "mean": Metric(_OF_RUN["latency_mean_ns"]),
    "p50": Metric(_OF_RUN["latency_p50_ns"], "", 10, HISTOGRAM_RESOLUTION),
    "p99": Metric(_OF_RUN["latency_p99_ns"], "", 500, HISTOGRAM_RESOLUTION),
    "p99_9": Metric(_OF_RUN["latency_p99_9_ns"], "p99.9", 5000, HISTOGRAM_RESOLUTION),
    "backlog": Metric(_OF_RUN["backlog_mean_buffers"], negligible_amount=0.01),
    "buffers": Metric(_OF_RUN["buffers_per_s"], "buffers/s"),
    "cpu": Metric(CPU, "CPU cores"),
}
"""Latencies are those from intended instants; CPU is that of the TaskManagers without polling."""


def label_of(metric: str) -> str:
    return METRICS[metric].label or metric


def metric_named(name: str) -> str | None:
    """The metric of this name or label; None if there is none."""
    labels = {label_of(metric).lower(): metric for metric in METRICS}
    return name if name in METRICS else labels.get(name.lower())


@cache
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
    """Student's t distribution function for t >= 0 and whole degrees of freedom, by the finite
    trigonometric sums of Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    theta, is_odd = math.atan(t / math.sqrt(degrees)), degrees % 2
    sine, cosine = math.sin(theta), math.cos(theta)
    term = total = (cosine if degrees > 1 else 0.0) if is_odd else 1.0
    for k in range(1 + is_odd, degrees - 2 + is_odd, 2):
        term *= cosine**2 * k / (k + 1)
        total += term
    inside = 2 / math.pi * (theta + sine * total) if is_odd else sine * total
    return (1 + inside) / 2


NEGLIGIBLE = 0.01
"""Smallest difference that matters, as a ratio."""

RUNS_MAX = 500
"""Most runs that are suggested to decide a question."""

_ASKED = ("throughput", "p50", "p99")
"""Metrics that a comparison without limits is to decide."""


class Verdict(StrEnum):
    """Verdict of a comparison about one metric."""

    BETTER = "better"
    WORSE = "worse"
    HIGHER = "higher"  # of a metric that is neither good nor bad
    LOWER = "lower"
    NONE = "no difference"  # the whole interval lies below what matters
    KEPT = "rate kept"  # of a throughput that the load sets
    UNCLEAR = "unclear"  # the interval is too wide; more runs narrow it
    UNKNOWN = "not measured"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean change, and its error as a function of the number of runs. `deviation` is that of runs
    (unpaired) or of the differences of rounds (paired), None for one run; `base_error` is that of
    the baseline's own mean, which more runs do not reduce, from `base_runs` runs, 0 where runs are
    paired."""

    centre: float  # the mean, of logarithms where `is_log`
    deviation: float | None
    runs: int
    is_log: bool
    confidence: float
    base_error: float = 0.0
    base_runs: int = 0
    reach_min: float = 0.0  # smallest reach of the interval to either side

    def interval(self, runs: int | None = None) -> tuple[float, float] | None:
        """The confidence interval (as a ratio where `is_log`) for a number of runs with this
        deviation; None if the deviation is unknown."""
        count = runs or self.runs
        if self.deviation is None or count < 2 or self.base_runs == 1:
            return None
        error, base_error = self.deviation**2 / count, self.base_error**2
        degrees = count - 1
        if base_error:  # Welch and Satterthwaite
            own = error**2 / (count - 1) + base_error**2 / (self.base_runs - 1)
            degrees = max(1, int((error + base_error) ** 2 / own))
        quantile = student_t_quantile((1 + self.confidence) / 2, degrees)
        reach = max(quantile * math.sqrt(error + base_error), self.reach_min)
        low, high = self.centre - reach, self.centre + reach
        return (math.expm1(low), math.expm1(high)) if self.is_log else (low, high)


SPREAD_MAX = 100
"""Largest ratio between the ends of an interval from which a number of runs is computed."""
RUNS_FEW = 2
"""Number of runs that do not show how far runs differ."""

MORE_RUNS = "repeat it once, with more --runs"


@dataclass(frozen=True, slots=True)
class Difference:
    """A metric of a candidate against the base; None where not measured. Means are over the rounds
    in which both were measured, and geometric where `is_ratio`, so that they differ by exactly
    `change`."""

    base_median: float | None
    candidate_median: float | None
    base_mean: float | None
    candidate_mean: float | None
    change: float | None  # relative where `is_ratio` (+0.1: ten percent more), else in its unit
    low: float | None  # interval of `change`; None with fewer than two rounds
    high: float | None
    rounds: int
    verdict: Verdict
    is_ratio: bool = True  # False where a value is zero
    estimate: Estimate | None = None
    direction: int = 0  # that of the metric, or 0 where neither side is better
    negligible: float = NEGLIGIBLE
    remedy: str = ""  # the way to a decision where more runs do not help; empty otherwise

    @property
    def is_too_wide(self) -> bool:
        """Whether runs differ so much that their number says little about how many would do."""
        if self.low is None or self.high is None or not self.is_ratio:
            return False
        return 1 + self.high > SPREAD_MAX * (1 + self.low)

    def runs_needed(self, is_decided: Callable[[Difference], bool] | None = None) -> int | None:
        """Number of runs that would decide, by any verdict or the given function of the difference
        with more runs, if they vary as those so far; None if RUNS_MAX would not do, or if the runs
        say too little of how they vary."""
        decided = is_decided or (lambda expected: expected.verdict is not Verdict.UNCLEAR)
        if self.estimate is None or self.rounds <= RUNS_FEW or self.is_too_wide:
            return None
        counts = range(self.rounds + 1, RUNS_MAX + 1)
        place = bisect_left(counts, True, key=lambda runs: decided(self._with_runs(runs)))
        return counts[place] if place < len(counts) else None

    def what_would_decide(
        self, is_decided: Callable[[Difference], bool] | None = None
    ) -> tuple[str, str]:
        """The way to a decision, as a short sentence; and the next step, empty where a person has
        to decide."""
        if self.remedy:
            return self.remedy, ""
        needed, estimate = self.runs_needed(is_decided), self.estimate
        if needed is not None:
            return f"about {needed} runs would decide", "repeat it once, with that many --runs"
        if self.is_too_wide:
            return "runs differ too much to say how many would decide", MORE_RUNS
        if estimate is None or estimate.deviation is None:
            return "one run decides nothing", MORE_RUNS
        if self.rounds <= RUNS_FEW:
            return "how many runs would decide is unknown", MORE_RUNS
        if estimate.base_runs and estimate.base_error:
            few = f"the {estimate.base_runs} runs of the baseline are too few"
            return few, "measure the baseline again, with more --runs"
        if estimate.reach_min:
            exact = replace(self, estimate=replace(estimate, reach_min=0.0))
            if exact.runs_needed(is_decided) is not None:
                known = f"percentiles are known to {HISTOGRAM_RESOLUTION:.1%}"
                return f"{known}: more runs do not help", ""
        return f"more than {RUNS_MAX} runs would be needed", ""

    def _with_runs(self, runs: int) -> Difference:
        assert self.estimate is not None
        assert self.change is not None
        low, high = self.estimate.interval(runs) or (None, None)
        verdict = verdict_of(self.change, low, high, self.direction, self.negligible)
        return replace(self, low=low, high=high, rounds=runs, verdict=verdict)


def difference(
    base: Sequence[float | None],
    candidate: Sequence[float | None],
    *,
    direction: int,
    confidence: float = 0.95,
    is_paired: bool = True,
    resolution: float = 0.0,
    negligible_amount: float = 0.0,
    remedy: str = "",
) -> Difference:
    """Compare two samples, one value a round: paired by their index, without rounds in which either
    side has no value, or else independent, of any lengths. Other arguments are those of Metric and
    Difference."""
    medians = typical(base), typical(candidate)
    if is_paired:
        pairs = list(zip(base, candidate, strict=True))
        base = [a for a, b in pairs if b is not None]
        candidate = [b for a, b in pairs if a is not None]
    first, second = ([each for each in side if each is not None] for side in (base, candidate))
    if not first or not second:
        return Difference(*medians, None, None, None, None, None, 0, Verdict.UNKNOWN)
    is_log = min(*first, *second) > 0
    mean = geometric_mean if is_log else fmean
    base_mean, candidate_mean = mean(first), mean(second)
    estimate = _estimate(first, second, confidence, is_log=is_log, is_paired=is_paired)
    estimate = replace(
        estimate, reach_min=2 * resolution * (1.0 if is_log else max(base_mean, candidate_mean))
    )
    change = math.expm1(estimate.centre) if is_log else estimate.centre
    low, high = estimate.interval() or (None, None)
    negligible = NEGLIGIBLE
    if not is_log:
        negligible = max(NEGLIGIBLE * max(base_mean, candidate_mean), negligible_amount)
    return Difference(
        *medians,
        base_mean,
        candidate_mean,
        change,
        low,
        high,
        len(second),
        verdict_of(change, low, high, direction, negligible),
        is_ratio=is_log or first == second,  # which is 0% of anything
        estimate=estimate,
        direction=direction,
        negligible=negligible,
        remedy=remedy,
    )


def what_would_decide(differences: Mapping[str, Difference]) -> str:
    """The way to a decision on throughput and latency; empty where none of them is unclear."""
    asked = [
        each
        for metric, each in differences.items()
        if metric in _ASKED and each.verdict is Verdict.UNCLEAR
    ]
    if not asked:
        return ""
    return max(asked, key=lambda each: each.runs_needed() or RUNS_MAX + 1).what_would_decide()[0]


def _estimate(
    first: Sequence[float],
    second: Sequence[float],
    confidence: float,
    *,
    is_log: bool,
    is_paired: bool,
) -> Estimate:
    if is_log:
        first, second = [math.log(each) for each in first], [math.log(each) for each in second]
    if is_paired:
        sample = [b - a for a, b in zip(first, second, strict=True)]
        return Estimate(fmean(sample), _deviation(sample), len(sample), is_log, confidence)
    base_deviation = _deviation(first)
    return Estimate(
        fmean(second) - fmean(first),
        _deviation(second),
        len(second),
        is_log,
        confidence,
        (base_deviation or 0.0) / math.sqrt(len(first)),
        len(first),
    )


def _deviation(sample: Sequence[float]) -> float | None:
    return stdev(sample) if len(sample) > 1 else None


def verdict_of(
    change: float, low: float | None, high: float | None, direction: int, negligible: float
) -> Verdict:
    """The verdict on a change with its interval; of a metric with a direction, if it has one."""
    if low is None or high is None:
        return Verdict.UNCLEAR
    if low >= -negligible and high <= negligible:
        return Verdict.NONE
    if low <= 0 <= high or abs(change) < negligible:
        return Verdict.UNCLEAR
    if not direction:
        return Verdict.HIGHER if change > 0 else Verdict.LOWER
    return Verdict.BETTER if change * direction > 0 else Verdict.WORSE
