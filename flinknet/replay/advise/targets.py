"""Targets: bounds that a predicted setting shall meet, and timeouts between the one that was chosen
for them and the next longer one, in whole milliseconds."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from flinknet import results
from flinknet.errors import ConfigError
from flinknet.units import NS_PER_MS, parse_duration_ns, parse_rate_per_s

MARGIN_MIN = 0.05
"""Share of a target's limit that is kept free at least; more where the model is off by more."""

_LATENCIES = ("p50", "p75", "p90", "p95", "p99", "p99.9", "mean", "max")
_TARGET = re.compile(r"\s*(p\d+(?:\.\d)?|mean|max|backlog|throughput)\s*(<=|>=|<|>)\s*(.*?)\s*")


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
        match = _TARGET.fullmatch(text)
        if match is None or match[1] not in (*_LATENCIES, "backlog", "throughput"):
            raise ConfigError(
                f"{option}: {text!r} is not a target; write {', '.join(_LATENCIES)} with <= and a"
                " duration, such as p99<=20ms, or backlog<=5, or throughput>=100k/s"
            )
        metric, relation, bound = match.groups()
        wanted, some = (">=", "100k/s") if metric == "throughput" else ("<=", "20ms")
        some = "5" if metric == "backlog" else some
        example = f"{metric}{wanted}{bound or some}"
        if relation[0] != wanted[0]:
            raise ConfigError(f"{option}: {text!r} is a bound on the wrong side; write {example}")
        if not bound:
            raise ConfigError(f"{option}: {text!r} has no limit; write {example}")
        limit: float | None
        if metric == "throughput":
            limit = parse_rate_per_s(bound, option)
            if limit is None:
                raise ConfigError(f"{option}: {text!r} has no limit; write throughput>=100k/s")
        elif metric == "backlog":
            try:
                limit = float(bound)
            except ValueError:
                raise ConfigError(f"{option}: {text!r} is no number of buffers") from None
        else:
            limit = parse_duration_ns(bound, option, bare_unit=None)
        if not 0 < limit < math.inf:  # nor NaN
            raise ConfigError(
                f"{option}: {text!r} needs a limit above 0, such as {metric}{wanted}{some}"
            )
        return cls(text if relation == wanted else example, metric, limit)

    @property
    def records_min(self) -> int:
        """Records without which the bounded figure is unknown."""
        share = results.PERCENTILES.get(self.metric.replace(".", "_"))
        return 1 if share is None else round(results.SAMPLES_PER_TAIL / min(share, 1 - share))

    def figure(
        self, latency_ns: results.LatencySummary, backlog: results.BacklogSummary
    ) -> float | None:
        """The latency or backlog that the target bounds; None where unknown."""
        if self.metric == "backlog":
            return backlog.mean
        found: float | None = getattr(latency_ns, self.metric.replace(".", "_"))
        return found

    def margin(self, point: results.TradeOffPoint) -> float | None:
        """Share of the limit that a point leaves free, by the greatest of a latency that is an
        interval; negative where it does not meet it."""
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
