"""Targets: bounds that a predicted setting shall meet, and timeouts between the one that was chosen
for them and the next longer one, in whole milliseconds."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flinknet.errors import ConfigError
from flinknet.results import ModelError, TradeOffPoint
from flinknet.units import NS_PER_MS, parse_duration_ns, parse_rate_per_s

MARGIN_MIN = 0.05
"""Share of a target's limit that is kept free at least; more where the model is off by more."""

_LATENCIES = ("p50", "p75", "p90", "p95", "p99", "p99.9", "mean", "max")
_TARGET = re.compile(r"\s*(p\d+(?:\.\d)?|mean|max|throughput)\s*(<=|>=|<|>)\s*(.*?)\s*")


@dataclass(frozen=True, slots=True)
class Target:
    """A bound that a setting shall meet: latencies from above (ns), throughput from below (records
    per second).
    """

    text: str
    metric: str
    limit: float

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read "p99<=20ms" or "throughput>=100k/s". Raises: ConfigError."""
        match = _TARGET.fullmatch(text)
        if match is None or match[1] not in (*_LATENCIES, "throughput"):
            raise ConfigError(
                f"--target: {text!r} is not a target; write {', '.join(_LATENCIES)} with <= and a"
                " duration, such as p99<=20ms, or throughput>=100k/s"
            )
        metric, relation, bound = match.groups()
        wanted, some = (">=", "100k/s") if metric == "throughput" else ("<=", "20ms")
        example = f"{metric}{wanted}{bound or some}"
        if relation[0] != wanted[0]:
            raise ConfigError(f"--target: {text!r} is a bound on the wrong side; write {example}")
        if not bound:
            raise ConfigError(f"--target: {text!r} has no limit; write {example}")
        if metric == "throughput":
            rate_per_s = parse_rate_per_s(bound, "--target")
            if rate_per_s is None:
                raise ConfigError(f"--target: {text!r} has no limit; write throughput>=100k/s")
            return cls(text, metric, rate_per_s)
        return cls(text, metric, parse_duration_ns(bound, "--target", bare_unit=None))

    def margin(self, point: TradeOffPoint) -> float | None:
        """Share of the limit that a point leaves free; negative where it does not meet it. Of a
        latency that is an interval, the greatest counts.
        """
        if self.metric == "throughput":
            value = point.throughput_records_per_s
            return None if value is None else (value - self.limit) / (self.limit or 1.0)
        name = self.metric.replace(".", "_")
        summaries = (point.latency_ns, point.latency_high_ns)
        values = [getattr(each, name) for each in summaries if each is not None]
        if any(each is None for each in values):
            return None
        return float(self.limit - max(values)) / (self.limit or 1.0)

    def reserve(self, error: ModelError) -> float:
        """The margin that a prediction needs to be relied on."""
        known = {"throughput": error.throughput, "p50": error.p50}.get(self.metric, error.p99)
        return max(abs(known or 0.0), MARGIN_MIN)


STEPS_MAX = 9
"""Timeouts between two others that are predicted at most."""


def between(low_ns: int, high_ns: int) -> list[int]:
    """Whole milliseconds between two timeouts, neither of them included; spread evenly if there are
    more than `STEPS_MAX`."""
    first, last = low_ns // NS_PER_MS + 1, -(-high_ns // NS_PER_MS) - 1
    count = last - first + 1
    if count <= STEPS_MAX:
        return [each * NS_PER_MS for each in range(first, last + 1)]
    steps = range(1, STEPS_MAX + 1)
    gap = last - first + 2
    return [(first - 1 + gap * step // (STEPS_MAX + 1)) * NS_PER_MS for step in steps]
