"""The price of a predicted setting, in words and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import hypot
from typing import Any

from flinknet.results import CpuCost, LatencySummary, ReplayAnswer, TradeOffPoint
from flinknet.units import MISSING, NS_PER_MS, human_bytes, human_count, human_duration

from .advice_lines import points_to_show
from .settings_in_words import (
    BUFFER_TIMEOUT,
    flushes,
    label_of,
    settings_of,
    situation_of,
    timeout_ns_of,
    what_varies,
)
from .trade_words import Range, Trade, change_of, cpu_text, ratio_of, trade_sentence

SAME_LATENCY = 0.05
"""Settings whose p50 and p99 differ by no more, as a share, are alike in latency."""

USUAL_NS = 100 * NS_PER_MS
"""Flink's default buffer timeout."""

TRADES_MAX = 4
"""Timeouts that are compared with it."""

PRICES = ("packets/s", "bytes/s", "CPU change")
"""Headings of `price_cells`."""

PRICE_NOTE = (
    "packets/s: at most so many TCP packets (a large buffer takes several); CPU change: against the"
    " recorded setting, in percent of one core, for buffers and credit alone"
)
"""Below a table with them."""


@dataclass(frozen=True, slots=True)
class NamedTrade:
    """Gain and price of one setting against another.

    Attributes:
        setting, before: their names.
        text: all of it in a sentence.
        p50_ns, p99_ns: latency before and after; None where it is unknown.
    """

    setting: str
    before: str
    trade: Trade
    text: str
    p50_ns: tuple[float | None, float | None] = (None, None)
    p99_ns: tuple[float | None, float | None] = (None, None)

    def to_dict(self) -> dict[str, Any]:
        """As plain data: the settings, the figures, the sentence."""
        return {
            "setting": self.setting,
            "instead_of": self.before,
            **asdict(self.trade),
            "text": self.text,
        }


def price_cells(point: TradeOffPoint) -> list[str]:
    """Packets, bytes, and the CPU against the recorded setting, in percent of a core."""
    price = point.price
    if price is None:
        return [MISSING] * len(PRICES)
    is_base = point.is_recorded and price.cpu_cores_change is not None
    return [
        human_count(price.packets_per_s),
        f"{human_bytes(price.bytes_per_s)}/s",
        "0%" if is_base else cpu_text(price.cpu_cores_change),
    ]


def compared(
    timeouts_ns: Sequence[int | None], recorded: int, chosen: int | None
) -> list[tuple[int, int]] | None:
    """Pairs of places (of a setting, of its baseline) to compare. With a target: the setting that
    meets it against the recorded one and against Flink's default timeout. Without: the shorter
    timeouts against the default, and the shortest above 0 against the recorded one if that flushes,
    too. None without either.

    Args:
        timeouts_ns: of settings that differ in nothing else; None for others.
        chosen: the place of what meets the target, or misses it by least; None without one.
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


def trades(answer: ReplayAnswer) -> list[NamedTrade]:
    """Trade-offs between settings, see `compared`. Without a target and the default timeout: the
    knee, or the least latency, against the recorded setting; and the least latency against the most
    that has a timeout, unless these are the same. Empty where prices are unknown."""
    points = answer.trade_offs
    recorded = next((each for each in points if each.is_recorded), None)
    own = [
        each
        for each in points
        if recorded is not None
        and each.price is not None
        and not each.is_recorded
        and situation_of(each) == situation_of(recorded)
    ]
    if recorded is None or not own or answer.advice.withheld:
        return []
    choice = answer.advice.choice
    chosen = None if choice is None else choice.nearest if choice.point is None else choice.point
    timeouts_ns = [
        timeout_ns_of(each)
        if each is recorded or (each in own and differs_in_timeout(each, recorded))
        else None
        for each in points
    ]
    if chosen is None or points[chosen] is recorded or points[chosen] in own:
        pairs = compared(timeouts_ns, points.index(recorded), chosen)
        if pairs is not None:
            return [
                _named(points[one], points[base], answer.cpu_cost, says_cost=number == 0)
                for number, (one, base) in enumerate(pairs)
            ]
    advised = [points[each] for each in sorted(points_to_show(answer))]
    least = min(own, key=lambda each: each.latency_ns.p50 or float("inf"))
    shown = next((each for each in advised if each in own), least)
    found = [_named(shown, recorded, answer.cpu_cost)]
    known = [each for each in own if each.latency_ns.p50 is not None and flushes(each)]
    most = max(known, key=lambda each: each.latency_ns.p50 or 0.0, default=least)
    if most is not least:
        found.append(_named(least, most, answer.cpu_cost, says_cost=False))
    return found


def differs_in_timeout(one: TradeOffPoint, other: TradeOffPoint) -> bool:
    """Whether settings differ in the buffer timeout at most."""
    mine, others = settings_of(one), settings_of(other)
    return mine | {BUFFER_TIMEOUT: others[BUFFER_TIMEOUT]} == others


def _named(
    shown: TradeOffPoint, before: TradeOffPoint, cpu_cost: CpuCost | None, *, says_cost: bool = True
) -> NamedTrade:
    varied = what_varies([before, shown])
    name = label_of(before, varied)
    if len(varied) == 1:
        name = settings_of(before)[varied[0]]
    return trade_of(label_of(shown, varied), name, shown, before, cpu_cost, says_cost=says_cost)


def trade_of(
    setting: str,
    before: str,
    shown: TradeOffPoint,
    base: TradeOffPoint,
    cpu_cost: CpuCost | None,
    *,
    says_cost: bool = True,
) -> NamedTrade:
    """ "buffer timeout 5ms instead of 100ms: p50 −46.0 ms, …": gain and price of `shown`.

    Args:
        says_cost: add the assumed cost of a buffer.
    """
    cores, messages_per_s = _changes(shown, base)
    trade = Trade(
        ratio_of(shown.throughput_records_per_s, base.throughput_records_per_s),
        change_of(shown.latency_ns.p50, base.latency_ns.p50),
        change_of(shown.latency_ns.p99, base.latency_ns.p99),
        ratio_of(shown.buffers_per_s, base.buffers_per_s),
        None if cpu_cost is None else cores,
        messages_per_s,
        range_of_change(shown, base, "p50"),
        range_of_change(shown, base, "p99"),
    )
    sentence = trade_sentence(setting, before, trade)
    if trade.cpu_cores is not None and cpu_cost is not None and says_cost:
        cost = human_duration(cpu_cost.ns_per_message)
        sentence += f" ({cost} for a buffer and its credit, {cpu_cost.how})"
    if _are_alike(shown.latency_ns, base.latency_ns):
        sentence += "; latency hardly depends on it here"
    return NamedTrade(
        setting,
        before,
        trade,
        sentence,
        (base.latency_ns.p50, shown.latency_ns.p50),
        (base.latency_ns.p99, shown.latency_ns.p99),
    )


def range_of_change(shown: TradeOffPoint, base: TradeOffPoint, name: str) -> Range | None:
    """The 90% interval of how a latency changes; None where neither setting has one."""
    if shown.latency_low_ns is None and base.latency_low_ns is None:
        return None
    ends = [_ends(each, name) for each in (shown, base)]
    return None if None in ends[0] or None in ends[1] else range_of_difference(*ends)


def _ends(point: TradeOffPoint, name: str) -> tuple[float, float, float]:
    """A latency, and the ends of its interval; three times the same where it has none."""
    value = getattr(point.latency_ns, name)
    low, high = (
        value if each is None else getattr(each, name)
        for each in (point.latency_low_ns, point.latency_high_ns)
    )
    return value, low, high


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


def _are_alike(one: LatencySummary, other: LatencySummary) -> bool:
    ratios = ratio_of(one.p50, other.p50), ratio_of(one.p99, other.p99)
    return all(each is not None and abs(each - 1) <= SAME_LATENCY for each in ratios)


def _changes(shown: TradeOffPoint, base: TradeOffPoint) -> tuple[float | None, float | None]:
    """Changes in cores and in messages per second; prices are relative to the recorded setting."""
    if shown.price is None:
        return None, None
    found = shown.price.cpu_cores_change, shown.price.messages_per_s_change
    if base.is_recorded:
        return found
    if base.price is None:
        return None, None
    before = base.price.cpu_cores_change, base.price.messages_per_s_change
    cores, messages_per_s = (
        None if a is None or b is None else a - b for a, b in zip(found, before, strict=True)
    )
    return cores, messages_per_s
