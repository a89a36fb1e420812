"""Frontier: which predicted settings no other one beats, and which has the smallest combined loss.

A setting is on the frontier when no other is at least as good in all of latency, throughput,
buffers per second and memory, and better in one; smaller differences than a prediction can
resolve do not count.
Only settings of one situation are compared: those of another rate, consumer, network or flow
control are not there to be chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flinknet.options import what_if
from flinknet.results import ModelError, TradeOffPoint

EQUAL = 0.01
"""Figures that differ by less are equal: predictions are no better than that."""

Situation = tuple[tuple[str, Any], ...]
"""Names and values of what no key of Flink changes."""

Costs = tuple[float, float, float, float]
"""Logarithms of latency, time per record, buffers per second and memory: each should be
small."""


def situation_of(point: TradeOffPoint) -> Situation:
    """The situation of a prediction."""
    return tuple(what_if.situation_of(point).items())


def frontier_of(points: Sequence[TradeOffPoint]) -> list[int]:
    """Indices of the points on the frontier of their situation, ascending.

    Who is beaten is decided exactly. Of the rest a point is left out if another one that stays is
    worse by no more than `EQUAL` in any cost; the recorded one, then the cheapest ones stay first.
    """
    situations: dict[Situation, list[tuple[Costs, int]]] = {}
    for index, point in enumerate(points):
        own = costs_of(point)
        if own is not None:
            situations.setdefault(situation_of(point), []).append((own, index))
    kept: list[int] = []
    for situation in situations.values():
        best = [
            each
            for each in situation
            if not any(_dominates(other, each[0]) for other, _ in situation)
        ]
        best.sort(key=lambda each: (not points[each[1]].is_recorded, sum(each[0]), each[1]))
        stays: list[tuple[Costs, int]] = []
        for own, index in best:
            if not any(_is_as_good(other, own) for other, _ in stays):
                stays.append((own, index))
        kept += [index for _, index in stays]
    return sorted(kept)


def knee_of(points: Sequence[TradeOffPoint], among: Sequence[int], error: ModelError) -> int | None:
    """Index of the knee of a frontier: the nearest of its points to the best value of each cost,
    on logarithmic scales; None with fewer than three.

    Args:
        among: indices of the frontier of one situation.
        error: costs that differ by no more than the model was off by do not count.
    """
    costs = [(index, own) for index in among if (own := costs_of(points[index])) is not None]
    if len(costs) < 3:
        return None
    columns = list(zip(*(own for _, own in costs), strict=True))
    best = [min(column) for column in columns]
    spans = [max(column) - low for column, low in zip(columns, best, strict=True)]
    known = _tolerances(error)

    def distance(own: Costs) -> float:
        parts = zip(own, best, spans, known, strict=True)
        return math.hypot(
            *((each - low) / span for each, low, span, tolerance in parts if span > tolerance)
        )

    return min(costs, key=lambda pair: distance(pair[1]))[0]


def are_alike(points: Sequence[TradeOffPoint], error: ModelError) -> bool:
    """Whether at least two settings are known, and none differs from another by more than the
    model was off by."""
    costs = [own for point in points if (own := costs_of(point)) is not None]
    return len(costs) > 1 and not _differ(costs, _tolerances(error))


def costs_of(point: TradeOffPoint) -> Costs | None:
    """What a setting costs; None where something is not known."""
    p99 = point.latency_ns.p99 or point.latency_ns.p50
    throughput, buffers = point.throughput_records_per_s, point.buffers_per_s
    memory = point.memory_bytes
    if not p99 or not throughput or not buffers or not memory:
        return None
    return math.log(p99), -math.log(throughput), math.log(buffers), math.log(memory)


def _tolerances(error: ModelError) -> Costs:
    """How far each cost may differ and still be the same: buffers per second are as sure as the
    records in them, and memory is known."""
    latency = max(abs(error.p99 or 0.0), abs(error.p50 or 0.0))
    records = max(math.log1p(abs(error.throughput or 0.0)), EQUAL)
    return max(math.log1p(latency), EQUAL), records, records, EQUAL


def _differ(costs: Sequence[Costs], tolerances: Costs) -> bool:
    columns = zip(*costs, strict=True)
    return any(
        max(column) - min(column) > tolerance
        for column, tolerance in zip(columns, tolerances, strict=True)
    )


def _is_as_good(other: Costs, own: Costs) -> bool:
    return all(theirs - ours <= EQUAL for theirs, ours in zip(other, own, strict=True))


def _dominates(other: Costs, own: Costs) -> bool:
    pairs = list(zip(other, own, strict=True))
    return all(theirs <= ours for theirs, ours in pairs) and any(
        theirs < ours for theirs, ours in pairs
    )
