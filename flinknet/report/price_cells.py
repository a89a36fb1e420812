"""What a predicted setting costs, in words and numbers."""

from __future__ import annotations

from flinknet.results import ReplayAnswer, TradeOffPoint
from flinknet.units import MISSING, human_bytes, human_count, human_duration

from .advice_lines import points_to_show
from .settings_in_words import label_of, settings_of, situation_of, what_varies

PRICES = ("packets/s", "bytes/s", "CPU")
"""Headings of `price_cells`."""


def price_cells(point: TradeOffPoint) -> list[str]:
    """Packets, bytes, and the CPU against the recorded setting."""
    price = point.price
    if price is None:
        return [MISSING] * len(PRICES)
    is_base = point.is_recorded and price.cpu_cores_change is not None
    return [
        human_count(price.packets_per_s),
        f"{human_bytes(price.bytes_per_s)}/s",
        "0 %" if is_base else cpu_text(price.cpu_cores_change),
    ]


def price_line(answer: ReplayAnswer) -> str | None:
    """What another setting than the recorded one costs and gives, in a sentence: the one that is
    advised, or the one with the least latency. None where nothing is known of it.
    """
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
        return None
    advised = [points[each] for each in sorted(points_to_show(answer))]
    least = min(own, key=lambda each: each.latency_ns.p50 or float("inf"))
    shown = next((each for each in advised if each in own), least)
    varied = what_varies([recorded, shown])
    parts = [f"p50 {_duration_change(shown.latency_ns.p50, recorded.latency_ns.p50)}"]
    price = shown.price
    if price is not None and price.messages_per_s_change is not None:
        parts.append(f"{_signed(price.messages_per_s_change)} messages/s")
    if price is not None and price.cpu_cores_change is not None and answer.cpu_cost is not None:
        parts.append(
            f"{cpu_text(price.cpu_cores_change)} of a core"
            f" ({human_duration(answer.cpu_cost.ns_per_message)} a message,"
            f" {answer.cpu_cost.how})"
        )
    before = label_of(recorded, varied)
    if len(varied) == 1:
        before = settings_of(recorded)[varied[0]]
    return f"{label_of(shown, varied)} instead of {before}: {', '.join(parts)}"


def cpu_text(cores: float | None) -> str:
    """A change of CPU use: "+6 %" of a core."""
    if cores is None:
        return MISSING
    percent = cores * 100
    return f"{percent:+.1f} %" if abs(percent) < 9.95 else f"{percent:+.0f} %"


def _duration_change(now_ns: float | None, before_ns: float | None) -> str:
    if now_ns is None or before_ns is None:
        return "unknown"
    change_ns = now_ns - before_ns
    return f"{'−' if change_ns < 0 else '+'}{human_duration(abs(change_ns))}"  # noqa: RUF001


def _signed(change: float) -> str:
    return f"{'−' if change < 0 else '+'}{human_count(abs(change))}"  # noqa: RUF001
