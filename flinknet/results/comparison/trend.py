"""How a configuration measures over many calls: its results by date, and whether there is a step.

A step is where the mean of the results (of logarithms) before and after differs most for their
deviation on both sides, if Student's t leaves less than one percent to chance for all places where
it might be. A slow drift is a step, too, somewhere in its middle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean

from flinknet.units import counted, human_change

from .compared import Configuration, SettingChange
from .differences import NEGLIGIBLE
from .student_t import student_t_quantile

WINDOW = 20
"""A step is looked for among so many of the newest results: older ones are known."""

BEFORE_MIN, RESULTS_MIN = 2, 4
"""So many results before a step, and in all: fewer do not show how far they differ."""

_CHANCE = 0.01


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """One result: the mean of a metric over its runs, and its change against the base then.

    Attributes:
        why_not: why it does not count (another machine, another workload, disturbed); empty: it
            does.
        disturbed: how many of the runs were.
        changed: the settings that differ from those of the result before.
    """

    source: str
    measured_at: str | None
    runs: int
    value: float | None
    base_value: float | None
    why_not: str = ""
    disturbed: int = 0
    changed: tuple[SettingChange, ...] = ()

    @property
    def change(self) -> float | None:
        """Against the base of that call, as a ratio."""
        if not self.value or not self.base_value:
            return None
        return self.value / self.base_value - 1


@dataclass(frozen=True, slots=True)
class Step:
    """Where results began to differ: the change, its interval, and how many results were after."""

    since: str | None
    change: float
    low: float
    high: float
    results_after: int


@dataclass(frozen=True, slots=True)
class Trend:
    """A metric of one candidate over all results, oldest first; the newest is that of this call.

    Attributes:
        step_min: the smallest step in the middle that would have been found, as a ratio; None for
            too few results.
    """

    config: str
    metric: str
    points: tuple[TrendPoint, ...]
    step: Step | None
    step_min: float | None = None

    @property
    def values(self) -> int:
        """In how many of the results that count the metric was measured."""
        return sum(each.value is not None and not each.why_not for each in self.points)

    def warning(self) -> str | None:
        """The step as a sentence."""
        if (step := self.step) is None:
            return None
        moved = "rose" if step.change > 0 else "fell"
        results = counted(step.results_after, "result")
        return (
            f"{self.metric} of {self.config} {moved} by {abs(step.change):.1%}"
            f" ({human_change(step.low)} … {human_change(step.high)})"
            f" with the result of {step.since or 'no date'}"
            f" ({results} since)"
        )


def mean_of(configuration: Configuration, metric: str) -> float | None:
    """The mean over its runs, geometric unless one is zero; None if none has a value."""
    values = [value for value in configuration.values(metric) if value is not None]
    if not values:
        return None
    return geometric_mean(values) if min(values) > 0 else fmean(values)


def trend_of(config: str, metric: str, points: Sequence[TrendPoint]) -> Trend:
    """The trend of results in their order, with the last step."""
    counted = [each for each in points if each.value and not each.why_not]
    recent = counted[-WINDOW:]
    return Trend(config, metric, tuple(points), _step(recent), _step_min(recent))


def _step(points: Sequence[TrendPoint]) -> Step | None:
    count = len(points)
    if count < RESULTS_MIN:
        return None
    logs = _logs(points)
    places = range(BEFORE_MIN, count)
    at = max(places, key=lambda place: _strength(logs, place))
    centre, error = _shift(logs, at)
    reach = _reach(count, error)
    if abs(centre) <= reach or abs(math.expm1(centre)) < NEGLIGIBLE:
        return None
    low, high = math.expm1(centre - reach), math.expm1(centre + reach)
    return Step(points[at].measured_at, math.expm1(centre), low, high, count - at)


def _step_min(points: Sequence[TrendPoint]) -> float | None:
    count = len(points)
    if count < RESULTS_MIN:
        return None
    _, error = _shift(_logs(points), count // 2)
    return max(math.expm1(_reach(count, error)), NEGLIGIBLE)


def _logs(points: Sequence[TrendPoint]) -> list[float]:
    return [math.log(each.value) for each in points if each.value]


def _reach(count: int, error: float) -> float:
    """How far a mean moves by chance, of so many results and all places where a step might be."""
    places = count - BEFORE_MIN
    return student_t_quantile(1 - _CHANCE / places / 2, count - 2) * error


def _strength(logs: Sequence[float], place: int) -> float:
    centre, error = _shift(logs, place)
    return abs(centre) / error if error else abs(centre) * math.inf if centre else 0.0


def _shift(logs: Sequence[float], place: int) -> tuple[float, float]:
    """How far the mean moves there, and the standard error of that by the pooled variance."""
    before, after = logs[:place], logs[place:]
    means = fmean(before), fmean(after)
    squares = sum((x - means[0]) ** 2 for x in before) + sum((x - means[1]) ** 2 for x in after)
    variance = squares / (len(logs) - 2)
    return means[1] - means[0], math.sqrt(variance * (1 / len(before) + 1 / len(after)))
