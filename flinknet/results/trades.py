"""Gain and price of one predicted setting against another."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot

from .prediction import TradeOffPoint

Range = tuple[float, float]

SAME_LATENCY = 0.05
"""Settings whose p50 and p99 differ by no more, as a share, are alike in latency."""


@dataclass(frozen=True, slots=True)
class Trade:
    """Changes from one setting to another; None where unknown. Ranges are the ends of a change: of
    the 90% interval of a prediction, or the smallest and the largest of several rounds."""

    throughput_ratio: float | None = None  # of records/s, the new to the old
    p50_ns: float | None = None
    p99_ns: float | None = None
    buffers_ratio: float | None = None  # of buffers/s
    cpu_cores: float | None = None  # 0.06 for 6% of a core more
    messages_per_s: float | None = None  # data buffers and the credit for them, where that is known
    p50_range_ns: Range | None = None
    p99_range_ns: Range | None = None
    cpu_range_cores: Range | None = None


def ratio_of(now: float | None, before: float | None) -> float | None:
    """None if either is unknown, or nothing was there before."""
    return now / before if now is not None and before else None


def change_of(now: float | None, before: float | None) -> float | None:
    """None if either is unknown."""
    return now - before if now is not None and before is not None else None


def trade_with_recorded(
    shown: TradeOffPoint, recorded: TradeOffPoint, *, has_cpu_cost: bool
) -> Trade:
    """Changes from the recorded setting to `shown`; CPU is unknown where the cost of a buffer
    is."""
    price = shown.price
    return Trade(
        ratio_of(shown.throughput_records_per_s, recorded.throughput_records_per_s),
        change_of(shown.latency_ns.p50, recorded.latency_ns.p50),
        change_of(shown.latency_ns.p99, recorded.latency_ns.p99),
        ratio_of(shown.buffers_per_s, recorded.buffers_per_s),
        price.cpu_cores_change if price is not None and has_cpu_cost else None,
        None if price is None else price.messages_per_s_change,
        range_of_change(shown, recorded, "p50"),
        range_of_change(shown, recorded, "p99"),
    )


def are_alike(shown: TradeOffPoint, base: TradeOffPoint) -> bool:
    """Whether two settings hardly differ in latency."""
    one, other = shown.latency_ns, base.latency_ns
    ratios = ratio_of(one.p50, other.p50), ratio_of(one.p99, other.p99)
    return all(each is not None and abs(each - 1) <= SAME_LATENCY for each in ratios)


def range_of_change(shown: TradeOffPoint, base: TradeOffPoint, name: str) -> Range | None:
    """The 90% interval of how a latency changes; None where neither setting has one."""
    if shown.latency_low_ns is None and base.latency_low_ns is None:
        return None
    ends = [_ends(each, name) for each in (shown, base)]
    return None if None in ends[0] or None in ends[1] else range_of_difference(*ends)


def range_of_difference(
    one: tuple[float, float, float], other: tuple[float, float, float]
) -> Range:
    """Interval of the difference of two values, each with the ends of its own, for independent
    errors (`bench/flink/calibration.py` counts how many contain the true one)."""
    (value, low, high), (base, base_low, base_high) = one, other
    change = value - base
    return (
        change - hypot(value - low, base_high - base),
        change + hypot(high - value, base - base_low),
    )


def _ends(point: TradeOffPoint, name: str) -> tuple[float, float, float]:
    value = getattr(point.latency_ns, name)
    low, high = (
        value if each is None else getattr(each, name)
        for each in (point.latency_low_ns, point.latency_high_ns)
    )
    return value, low, high
