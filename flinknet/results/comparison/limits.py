"""Limits of a comparison (`--fail-if`), and their decisions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from flinknet.errors import ConfigError
from flinknet.units import parse_percent

from .differences import METRICS, Difference, label_of, metric_named


class Outcome(StrEnum):
    """Outcome of a limit (`--fail-if`)."""

    PASS = "pass"
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"

    @property
    def word(self) -> str:
        return {Outcome.REGRESSION: "fail", Outcome.INCONCLUSIVE: "undecided"}.get(self, "pass")


@dataclass(frozen=True, slots=True)
class Limit:
    """A change that must not happen: `p99>+10%`, `throughput<-5%`."""

    metric: str
    is_upper: bool
    ratio: float
    text: str

    def outcome(self, difference: Difference) -> Outcome:
        """Regression: the whole interval lies beyond the limit; pass: the whole lies within. A
        percentage says nothing of a difference that is no ratio."""
        if not difference.is_ratio or difference.low is None or difference.high is None:
            return Outcome.INCONCLUSIVE
        low, high, limit = difference.low, difference.high, self.ratio
        if not self.is_upper:
            low, high, limit = -high, -low, -limit
        if low > limit:
            return Outcome.REGRESSION
        return Outcome.PASS if high <= limit else Outcome.INCONCLUSIVE

    def decision(self, difference: Difference) -> LimitDecision:
        outcome = self.outcome(difference)
        if outcome is not Outcome.INCONCLUSIVE:
            return LimitDecision(self, outcome)
        if difference.change is None:
            return LimitDecision(self, outcome, "nothing to compare")
        if not difference.is_ratio:
            reason = f"{self.metric} was zero in a run, so it has no percentage"
            return LimitDecision(self, outcome, reason)
        reason, step = difference.what_would_decide(
            lambda expected: self.outcome(expected) is not Outcome.INCONCLUSIVE
        )
        return LimitDecision(self, outcome, reason, step)


@dataclass(frozen=True, slots=True)
class LimitDecision:
    """The decision of a limit; the reason if it is inconclusive, or doubtful although broken, and
    the next step then, empty where a person has to decide."""

    limit: Limit
    outcome: Outcome
    reason: str = ""
    step: str = ""


_LIMIT = re.compile(r"\s*(\w[\w./ ]*?)\s*([<>])\s*([^<>]+)")


def parse_limit(text: str) -> Limit:
    """Parse `metric>percent` or `metric<percent`; a metric may have its name in tables. Raises:
    ConfigError, with the known metrics, for text that is no limit; and for a limit that
    improvements break, or that nothing or everything breaks."""
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"--fail-if: {text!r} is not a limit; write p99>+10% or throughput<-5%, with one of"
            f" {_KNOWN}"
        )
    name, side, percent = match.groups()
    metric = metric_named(name)
    if metric is None:
        raise ConfigError(f"--fail-if: {name!r} is not a metric; known are {_KNOWN}")
    worse = _WORSE[METRICS[metric].figure.better]
    try:
        ratio = parse_percent(percent, "--fail-if")
    except ConfigError:
        raise ConfigError(
            f"--fail-if: {percent!r} in {text!r} is not a percentage; write {name}{worse}10%"
        ) from None
    if ratio and percent[0] not in "+-":
        raise ConfigError(
            f"--fail-if: {text!r} needs a sign; write {name}{side}+{percent} for so much more"
            f" than the base, {name}{side}-{percent} for so much less"
        )
    limit = Limit(metric, side == ">", ratio, text.strip())
    direction = METRICS[metric].figure.better
    if limit.is_upper == (direction > 0) and direction:
        raise ConfigError(
            f"--fail-if: {limit.text} would fail when {name} is better, and pass when it is worse;"
            f" did you mean {name}{worse}{percent.lstrip('+-')}?"
        )
    if limit.ratio <= -1:
        end = "so every comparison would fail" if limit.is_upper else "so it would never fail"
        raise ConfigError(
            f"--fail-if: {limit.text}: {name} cannot fall by more than 100%, {end}; give a smaller"
            f" percentage, such as {name}{side}-5%"
        )
    return limit


_WORSE = {1: "<-", -1: ">+", 0: ">+"}
"""Beginning of a limit that a change for the worse breaks, by the direction of its metric."""

_KNOWN = ", ".join(name if " " in label_of(name) else label_of(name) for name in METRICS)
"""Metrics as the table names them, without blanks."""
