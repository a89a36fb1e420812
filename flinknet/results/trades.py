"""Gain and price of one predicted setting against another, and which settings to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot, inf
from typing import Any

from flinknet.units import NS_PER_MS

from .prediction import TradeOffPoint
from .replay import Advice, JobAnswer

Range = tuple[float, float]

SAME_LATENCY = 0.05
"""Settings whose p50 and p99 differ by no more, as a share, are alike in latency."""

USUAL_NS = 5 * NS_PER_MS
"""Buffer timeout whose price is stated first, if it was predicted."""

TRADES_MAX = 4
"""Timeouts that are compared with the recorded one, at most."""


@dataclass(frozen=True, slots=True)
class Trade:
    """Changes from one setting to another; None where unknown.

    Attributes:
        throughput_ratio, buffers_ratio: of records/s and buffers/s, the new to the old.
        cpu_cores: 0.06 for 6% of a core more.
        messages_per_s: data buffers and the credit for them, where that is known.
        p50_range_ns, p99_range_ns, cpu_range_cores: ends of these changes: of the 90% interval of a
            prediction, or the smallest and the largest of several rounds.
    """

    throughput_ratio: float | None = None
    p50_ns: float | None = None
    p99_ns: float | None = None
    buffers_ratio: float | None = None
    cpu_cores: float | None = None
    messages_per_s: float | None = None
    p50_range_ns: Range | None = None
    p99_range_ns: Range | None = None
    cpu_range_cores: Range | None = None


@dataclass(frozen=True, slots=True)
class PointSetting:
    """The setting of a predicted point.

    Attributes:
        timeout_ns: buffer timeout; -1 for never.
        situation: values that no key of Flink changes.
        others: all values but the timeout.
    """

    timeout_ns: int
    situation: Mapping[str, Any]
    others: Mapping[str, str]


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
    """A latency, and the ends of its interval; three times the same where it has none."""
    value = getattr(point.latency_ns, name)
    low, high = (
        value if each is None else getattr(each, name)
        for each in (point.latency_low_ns, point.latency_high_ns)
    )
    return value, low, high


def advised_points(advice: Advice) -> set[int]:
    """Places of the settings that the advice mentions."""
    found: set[int | None] = set()
    for situation in advice.situations:
        found |= {situation.knee}
        found |= {situation.choice.point, situation.choice.nearest} if situation.choice else set()
    return {each for each in found if each is not None}


def compared_points(job: JobAnswer, settings: Sequence[PointSetting]) -> list[int]:
    """Places of the settings to compare with the recorded one. With a target: the setting that
    meets it, or misses it by least. Without: other timeouts, see `compared_timeouts`, and those
    that differ from edge to edge; if there are none, the knee or the setting with the least
    latency. Empty where latencies are unknown or must not be relied on."""
    points, recorded = job.trade_offs, recorded_place(job)
    known = [place for place, each in enumerate(points) if each.latency_ns.p50 is not None]
    if recorded not in known or recorded is None or job.advice.withheld:
        return []
    chosen = None if job.choice is None else job.choice.settled
    if chosen in known:
        return [chosen] if chosen is not None and chosen != recorded else []
    base = settings[recorded]
    own = [
        place
        for place in known
        if place != recorded and settings[place].situation == base.situation
    ]
    mixed = [place for place in own if len({*job.points[place].timeouts_ns}) > 1]
    alike = [x for x in own if settings[x].others == base.others and x not in mixed]
    timeouts_ns = {place: settings[place].timeout_ns for place in alike}
    if found := [*compared_timeouts(timeouts_ns, base.timeout_ns), *mixed]:
        return found
    advised = [place for place in sorted(advised_points(job.advice)) if place in own]
    return (advised or sorted(own, key=lambda place: points[place].latency_ns.p50 or 0.0))[:1]


def compared_timeouts(timeouts_ns: Mapping[int, int], recorded_ns: int) -> list[int]:
    """Places of some TRADES_MAX timeouts to compare with the recorded one: USUAL_NS, shorter ones
    with 0 as the last, then longer ones; -1 is never, the longest."""
    length = {place: each if each >= 0 else inf for place, each in timeouts_ns.items()}
    limit = recorded_ns if recorded_ns >= 0 else inf

    def rank(place: int) -> tuple[bool, bool, bool, float]:
        own = length[place]
        return own != USUAL_NS, own > limit, not own, own

    found = sorted(length, key=rank)
    if len(found) > TRADES_MAX:
        found = [found[n * len(found) // TRADES_MAX] for n in range(TRADES_MAX)]
    return found


def recorded_place(job: JobAnswer) -> int | None:
    """Place of the recorded setting among the predicted ones."""
    return next((place for place, each in enumerate(job.trade_offs) if each.is_recorded), None)
