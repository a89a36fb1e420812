"""Targets: bounds that a predicted setting shall meet, and timeouts between the one that was chosen
for them and the next longer one, in whole milliseconds."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass

from flinknet import results
from flinknet.errors import ConfigError
from flinknet.units import NS_PER_MS, parse_duration_ns, parse_rate_per_s

MARGIN_MIN = 0.05
"""Share of a target's limit that is kept free at least; more where the model is off by more."""

_LATENCIES = ("p50", "p75", "p90", "p95", "p99", "p99.9", "mean", "max")
_TARGET = re.compile(r"\s*(p\d+(?:\.\d)?|mean|max|backlog)\s*<=?\s*([^=].*?)\s*")
_THROUGHPUT = re.compile(r"\s*(throughput)\s*>=?\s*([^=].*?)\s*")


@dataclass(frozen=True, slots=True)
class Target:
    """A bound that a setting shall meet: latencies (ns) and the mean backlog (buffers) from above,
    throughput from below (records per second). The limit itself meets it."""

    text: str
    metric: str
    limit: float

    @classmethod
    def parse(cls, text: str, option: str = "--target") -> Target:
        """Read "p99<=20ms", "backlog<=5" or "throughput>=100k/s". Raises: ConfigError."""
        match = _TARGET.fullmatch(text) or _THROUGHPUT.fullmatch(text)
        turned = text.translate(str.maketrans("<>", "><"))
        if match is None and (_TARGET.fullmatch(turned) or _THROUGHPUT.fullmatch(turned)):
            example = cls.parse(turned, option).text
            raise ConfigError(f"{option}: {text!r} is a bound on the wrong side; write {example}")
        limit: float | None = None
        if match is not None and match[1] == "throughput":
            limit = parse_rate_per_s(match[2], option)
        elif match is not None and match[1] == "backlog":
            with suppress(ValueError):
                limit = float(match[2])
        elif match is not None and match[1] in _LATENCIES:
            limit = parse_duration_ns(match[2], option, bare_unit=None)
        if match is None or limit is None or not 0 < limit < math.inf:  # nor NaN
            raise ConfigError(
                f"{option}: {text!r} is not a target; write {', '.join(_LATENCIES)} with <= and a"
                " duration, such as p99<=20ms, or backlog<=5, or throughput>=100k/s"
            )
        metric, bound = match.groups()
        relation = ">=" if metric == "throughput" else "<="
        return cls(text if relation in text else f"{metric}{relation}{bound}", metric, limit)

    @property
    def records_min(self) -> int:
        """Records without which the bounded figure is unknown."""
        share = results.PERCENTILES.get(self.metric.replace(".", "_"))
        return 1 if share is None else round(results.SAMPLES_PER_TAIL / min(share, 1 - share))

    def figure(
        self, latency_ns: results.LatencySummary, backlog: results.BacklogSummary
    ) -> float | None:
        if self.metric == "backlog":
            return backlog.mean
        found: float | None = getattr(latency_ns, self.metric.replace(".", "_"))
        return found

    def margin(self, point: results.TradeOffPoint) -> float | None:
        """Share of the limit that a point leaves free, by the greatest of an interval; below 0 if
        missed."""
        if self.metric == "throughput":
            value = point.throughput_records_per_s
            return None if value is None else (value - self.limit) / self.limit
        summaries = [x for x in (point.latency_ns, point.latency_high_ns) if x is not None]
        values = [self.figure(each, point.backlog_buffers) for each in summaries]
        known = [each for each in values if each is not None]
        if len(known) < len(values):
            return None
        return (self.limit - max(known)) / self.limit

    def reserve(self, error: results.ModelError) -> float:
        """The margin that a prediction needs to be relied on, by errors that count."""
        tail = None if error.is_tail_off else error.p99
        known = {"throughput": error.throughput, "p50": error.p50}.get(self.metric, tail)
        return max(abs(known or 0.0), MARGIN_MIN)


STEPS_MAX = 9


def between(low_ns: int, high_ns: int) -> list[int]:
    """Whole milliseconds between two timeouts, STEPS_MAX of them at most, evenly spread."""
    first, last = low_ns // NS_PER_MS + 1, -(-high_ns // NS_PER_MS) - 1
    count = last - first + 1
    if count <= STEPS_MAX:
        return [each * NS_PER_MS for each in range(first, last + 1)]
    steps = range(1, STEPS_MAX + 1)
    gap = last - first + 2
    return [(first - 1 + gap * step // (STEPS_MAX + 1)) * NS_PER_MS for step in steps]
