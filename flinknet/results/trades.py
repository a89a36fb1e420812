"""Gain and price of one predicted setting against another, and which settings to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from typing import Any

from flinknet.units import NS_PER_MS

from .prediction import TradeOffPoint
from .replay import Advice, JobAnswer

Range = tuple[float, float]

SAME_LATENCY = 0.05
"""Settings whose p50 and p99 differ by no more, as a share, are alike in latency."""

USUAL_NS = 100 * NS_PER_MS
"""Flink's default buffer timeout."""

TRADES_MAX = 4
"""Timeouts that are compared with it."""


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


def trade_between(shown: TradeOffPoint, base: TradeOffPoint, *, has_cpu_cost: bool) -> Trade:
    """Changes from `base` to `shown`; CPU is unknown where the cost of a buffer is."""
    cores, messages_per_s = _changes(shown, base)
    return Trade(
        ratio_of(shown.throughput_records_per_s, base.throughput_records_per_s),
        change_of(shown.latency_ns.p50, base.latency_ns.p50),
        change_of(shown.latency_ns.p99, base.latency_ns.p99),
        ratio_of(shown.buffers_per_s, base.buffers_per_s),
        cores if has_cpu_cost else None,
        messages_per_s,
        range_of_change(shown, base, "p50"),
        range_of_change(shown, base, "p99"),
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


def _changes(shown: TradeOffPoint, base: TradeOffPoint) -> tuple[float | None, float | None]:
    """Changes in cores and in messages per second; prices are relative to the recorded setting."""
    if shown.price is None:
        return None, None
    cores, messages_per_s = shown.price.cpu_cores_change, shown.price.messages_per_s_change
    if base.is_recorded:
        return cores, messages_per_s
    if base.price is None:
        return None, None
    return (
        change_of(cores, base.price.cpu_cores_change),
        change_of(messages_per_s, base.price.messages_per_s_change),
    )


def advised_points(advice: Advice) -> set[int]:
    """Places of the settings that the advice mentions."""
    found: set[int | None] = set()
    for situation in advice.situations:
        found |= {situation.knee}
        found |= {situation.choice.point, situation.choice.nearest} if situation.choice else set()
    return {each for each in found if each is not None}


def compared_timeouts(
    timeouts_ns: Sequence[int | None], recorded: int, chosen: int | None
) -> list[tuple[int, int]] | None:
    """Pairs of places (of a setting, of its baseline) to compare. With a target: the setting that
    meets it against the recorded one and against Flink's default timeout. Without: the shorter
    timeouts against the default, and the shortest above 0 against the recorded one if that flushes,
    too. None without either.

    Args:
        timeouts_ns: of settings that differ in nothing else; None for others.
        chosen: the place of the setting that meets the target, or misses it by least; None without
            one.
    """
    usual = timeouts_ns.index(USUAL_NS) if USUAL_NS in timeouts_ns else None
    if chosen is not None:
        bases = dict.fromkeys((recorded, usual))
        return [(chosen, base) for base in bases if base is not None and base != chosen]
    if usual is None:
        return None
    shorter = [n for n, each in enumerate(timeouts_ns) if each is not None and 0 <= each < USUAL_NS]
    now_ns, of_recorded = timeouts_ns[recorded], []
    if now_ns is not None and now_ns > 0 and recorded != usual and len(shorter) > 1:
        shorter = [each for each in shorter if each != recorded]
        first = next((each for each in shorter if timeouts_ns[each]), shorter[0])
        of_recorded = [(first, recorded)]
    if len(shorter) > TRADES_MAX:
        shorter = [shorter[n * len(shorter) // TRADES_MAX] for n in range(TRADES_MAX)]
    return [*of_recorded, *((each, usual) for each in shorter)] or None


def compared_points(answer: JobAnswer, settings: Sequence[PointSetting]) -> list[tuple[int, int]]:
    """Pairs of places of settings to compare."""
    of = _compared_of_exchange if answer.is_exchange else _compared_of_job
    return of(answer, settings)


def _compared_of_exchange(
    answer: JobAnswer, settings: Sequence[PointSetting]
) -> list[tuple[int, int]]:
    """Pairs of settings to compare, see `compared_timeouts`. Without a target and the default
    timeout: the knee, or the least latency, against the recorded setting; and the least latency
    against the most that has a timeout, unless these are the same. Empty where prices are unknown.
    """
    points = answer.trade_offs
    recorded = _recorded(points)
    if recorded is None or answer.advice.withheld:
        return []
    own = [
        place
        for place, each in enumerate(points)
        if each.price is not None
        and not each.is_recorded
        and settings[place].situation == settings[recorded].situation
    ]
    if not own:
        return []
    chosen = None if answer.choice is None else answer.choice.settled
    if chosen is None or chosen == recorded or chosen in own:
        timeouts_ns = [
            each.timeout_ns
            if place == recorded or (place in own and each.others == settings[recorded].others)
            else None
            for place, each in enumerate(settings)
        ]
        pairs = compared_timeouts(timeouts_ns, recorded, chosen)
        if pairs is not None:
            return pairs
    least = min(own, key=lambda place: points[place].latency_ns.p50 or float("inf"))
    advised = [place for place in sorted(advised_points(answer.advice)) if place in own]
    found = [((advised or [least])[0], recorded)]
    known = [
        place
        for place in own
        if points[place].latency_ns.p50 is not None and settings[place].timeout_ns >= 0
    ]
    most = max(known, key=lambda place: points[place].latency_ns.p50 or 0.0, default=least)
    return [*found, (least, most)] if most != least else found


def _compared_of_job(answer: JobAnswer, settings: Sequence[PointSetting]) -> list[tuple[int, int]]:
    """Pairs of settings to compare, see `compared_timeouts`. Without a target and the default
    timeout: the setting with the least latency instead of the recorded one, and instead of the one
    with the most. Empty where latencies are unknown."""
    points = answer.trade_offs
    recorded = _recorded(points)
    known = [place for place, each in enumerate(points) if each.latency_ns.p50 is not None]
    if recorded not in known or recorded is None:
        return []
    chosen = None if answer.choice is None else answer.choice.settled
    chosen = chosen if chosen in known else None
    is_uniform = [len({*each.timeouts_ns}) == 1 for each in answer.points]
    timeouts_ns = [
        answer.points[place].timeouts_ns[0]
        if place in known and is_uniform[place] and each.others == settings[recorded].others
        else None
        for place, each in enumerate(settings)
    ]
    pairs = compared_timeouts(timeouts_ns, recorded, chosen)
    if pairs is not None:
        mixed = [place for place in known if not is_uniform[place] and place != recorded]
        return [*pairs, *((place, recorded) for place in mixed)]
    ordered = sorted(known, key=lambda place: points[place].latency_ns.p50 or 0.0)
    least = ordered[0]
    most = next((each for each in ordered[::-1] if settings[each].timeout_ns >= 0), recorded)
    return [(least, base) for base in dict.fromkeys((recorded, most)) if base != least]


def _recorded(points: Sequence[TradeOffPoint]) -> int | None:
    return next((place for place, each in enumerate(points) if each.is_recorded), None)
