"""Advice: which of the predicted settings are worth having, and which one holds a target.

A setting is on the frontier when no other is at least as good in all of latency, throughput,
buffers per second and memory, and better in one. Its knee is the point of the frontier that gives
away least everywhere at once: the nearest to the best value of each, on logarithmic scales. Only
settings that one can choose are compared: those of another rate, consumer or network are other
worlds, and each has a frontier of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flinknet.errors import ConfigError
from flinknet.options import find_option
from flinknet.results import ModelError, TradeOffPoint
from flinknet.units import parse_duration_ns, parse_rate_per_s

EQUAL = 0.01
"""Figures that differ by less are equal: predictions are no better than that."""

MARGIN_MIN = 0.05
"""Share of a target's limit that is kept free at least; more where the model is off by more."""

_LATENCIES = ("p50", "p75", "p90", "p95", "p99", "p99.9", "mean", "max")
_TARGET = re.compile(r"\s*(p\d+(?:\.\d)?|mean|max|throughput)\s*(<=|>=|<|>)\s*(.+?)\s*")


@dataclass(frozen=True, slots=True)
class Target:
    """A bound that a setting shall hold: latencies from above (ns), throughput from below (records
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
        if (metric == "throughput") != relation.startswith(">"):
            wanted = ">=" if metric == "throughput" else "<="
            raise ConfigError(f"--target: {text!r} asks for the wrong side; write {metric}{wanted}")
        if metric == "throughput":
            rate_per_s = parse_rate_per_s(bound, "--target")
            if rate_per_s is None:
                raise ConfigError(f"--target: {text!r} has no limit; write throughput>=100k/s")
            return cls(text, metric, rate_per_s)
        return cls(text, metric, parse_duration_ns(bound, "--target", bare_unit=None))

    def margin(self, point: TradeOffPoint) -> float | None:
        """Share of the limit that a point leaves free; negative where it does not hold it."""
        if self.metric == "throughput":
            value = point.throughput_records_per_s
            return None if value is None else (value - self.limit) / (self.limit or 1.0)
        value = getattr(point.latency_ns, self.metric.replace(".", "_"))
        return None if value is None else (self.limit - value) / (self.limit or 1.0)

    def reserve(self, error: ModelError) -> float:
        """The margin that a prediction needs to be relied on."""
        known = {"throughput": error.throughput, "p50": error.p50}.get(self.metric, error.p99)
        return max(abs(known or 0.0), MARGIN_MIN)


@dataclass(frozen=True, slots=True)
class Choice:
    """What to set for some targets.

    Attributes:
        point: index of the setting among the predicted ones; None if none holds the targets.
        is_safe: it holds them with the reserve that the model's error asks for.
        margin: smallest of its margins.
        nearest: where no setting holds them, the one that misses by least.
        patch: the keys to change, in Flink's YAML; empty if the recorded setting is the one.
    """

    targets: tuple[str, ...]
    point: int | None
    is_safe: bool
    margin: float | None
    nearest: int | None
    patch: str


def choose(points: Sequence[TradeOffPoint], targets: Sequence[Target], error: ModelError) -> Choice:
    """The setting that holds all targets with the longest timeout, then with the least memory and
    the fewest buffers per second; such as hold them safely come first.
    """
    recorded = _recorded(points)
    reserve = {each: each.reserve(error) for each in targets}
    scored: list[tuple[float, float, int]] = []  # margin, margin beyond the reserve
    for index, point in enumerate(points):
        margins = [each.margin(point) for each in targets]
        if _world(point) != _world(recorded) or any(margin is None for margin in margins):
            continue
        known = [each for each in margins if each is not None]
        spare = [each - reserve[of] for of, each in zip(targets, known, strict=True)]
        scored.append((min(known), min(spare), index))
    texts = tuple(each.text for each in targets)
    if not scored:
        return Choice(texts, None, False, None, None, "")
    holding = [each for each in scored if each[1] >= 0] or [each for each in scored if each[0] >= 0]
    if not holding:
        margin, _, nearest = max(scored)
        return Choice(texts, None, False, margin, nearest, "")
    margin, beyond, best = max(holding, key=lambda each: _cheapness(points[each[2]]))
    return Choice(texts, best, beyond >= 0, margin, None, patch_of(points[best], recorded))


def frontier_of(points: Sequence[TradeOffPoint]) -> list[int]:
    """Indices of the points on the frontier of their world."""
    costs = [_costs(point) for point in points]
    return [
        index
        for index, own in enumerate(costs)
        if own is not None
        and not any(
            other is not None and _dominates(other, own)
            for place, other in enumerate(costs)
            if place != index and _world(points[place]) == _world(points[index])
        )
    ]


def knee_of(points: Sequence[TradeOffPoint]) -> int | None:
    """Index of the knee of the frontier of the recorded world; None with fewer than three."""
    world = _world(_recorded(points))
    frontier = [each for each in frontier_of(points) if _world(points[each]) == world]
    if len(frontier) < 3:
        return None
    costs = [_costs(points[each]) or () for each in frontier]
    columns = list(zip(*costs, strict=True))
    best = [min(column) for column in columns]
    spans = [max(column) - low for column, low in zip(columns, best, strict=True)]

    def distance(own: Sequence[float]) -> float:
        parts = zip(own, best, spans, strict=True)
        return math.hypot(*((each - low) / span for each, low, span in parts if span > EQUAL))

    return min(zip(frontier, costs, strict=True), key=lambda pair: distance(pair[1]))[0]


def patch_of(point: TradeOffPoint, recorded: TradeOffPoint) -> str:
    """The keys that differ from the recorded setting, as lines of Flink's config.yaml."""
    lines = []
    for key, value in point.config.items():
        if recorded.config.get(key) == value:
            continue
        if find_option(key).fixed_in_2_x is not None:
            lines.append("# Flink 2.x has no such option; up to 1.20:")
        lines.append(f"{key}: {value}")
    return "\n".join(lines)


def advice(
    points: Sequence[TradeOffPoint], targets: Sequence[Target], error: ModelError
) -> dict[str, Any]:
    """All of it as JSON-ready plain data; points by their index among `trade_offs`."""
    knee = knee_of(points)
    choice = choose(points, targets, error) if targets else None
    return {
        "frontier": frontier_of(points),
        "knee": knee,
        "knee_patch": "" if knee is None else patch_of(points[knee], _recorded(points)),
        "choice": None
        if choice is None
        else {
            "targets": list(choice.targets),
            "point": choice.point,
            "is_safe": choice.is_safe,
            "margin": choice.margin,
            "nearest": choice.nearest,
            "patch": choice.patch,
        },
    }


def _recorded(points: Sequence[TradeOffPoint]) -> TradeOffPoint:
    return next(point for point in points if point.is_recorded)


def _world(point: TradeOffPoint) -> tuple[float, ...]:
    return point.rate_factor, point.consumer_speed, point.round_trip_ns


def _costs(point: TradeOffPoint) -> tuple[float, ...] | None:
    """Logarithms of what should be small; None where something is not known."""
    p99 = point.latency_ns.p99 or point.latency_ns.p50
    values = p99, point.throughput_records_per_s, point.buffers_per_s, point.memory_bytes
    if any(not value for value in values):
        return None
    latency, throughput, buffers, memory = (math.log(value) for value in values if value)
    return latency, -throughput, buffers, memory


def _dominates(other: Sequence[float], own: Sequence[float]) -> bool:
    differences = [theirs - ours for theirs, ours in zip(other, own, strict=True)]
    return max(differences) <= EQUAL and min(differences) < -EQUAL


def _cheapness(point: TradeOffPoint) -> tuple[float, float, float]:
    timeout_ns = _timeout_ns(point)
    memory, buffers = point.memory_bytes or math.inf, point.buffers_per_s or math.inf
    return (math.inf if timeout_ns < 0 else timeout_ns), -memory, -buffers


def _timeout_ns(point: TradeOffPoint) -> int:
    if point.config.get("execution.buffer-timeout.enabled") == "false":
        return -1
    text = point.config["execution.buffer-timeout.interval"]
    return parse_duration_ns(text, "execution.buffer-timeout.interval", allow_never=True)
