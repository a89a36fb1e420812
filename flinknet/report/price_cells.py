"""What a predicted setting costs, in words and numbers."""

from __future__ import annotations

from flinknet.results import CpuCost, ReplayAnswer, TradeOffPoint
from flinknet.units import MISSING, human_bytes, human_count, human_duration

from .advice_lines import points_to_show
from .settings_in_words import label_of, settings_of, situation_of, what_varies
from .trade_words import Trade, change_of, cpu_text, ratio_of, trade_sentence

PRICES = ("packets/s", "bytes/s", "CPU, 1 core")
"""Headings of `price_cells`."""


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
    before = label_of(recorded, varied)
    if len(varied) == 1:
        before = settings_of(recorded)[varied[0]]
    return price_sentence(label_of(shown, varied), before, shown, recorded, answer.cpu_cost)


def price_sentence(
    setting: str,
    before: str,
    shown: TradeOffPoint,
    recorded: TradeOffPoint,
    cpu_cost: CpuCost | None,
) -> str:
    """ "buffer timeout 5ms instead of 100ms: p50 −46 ms, …": what `shown` gives and costs."""
    price = shown.price
    trade = Trade(
        ratio_of(shown.throughput_records_per_s, recorded.throughput_records_per_s),
        change_of(shown.latency_ns.p50, recorded.latency_ns.p50),
        change_of(shown.latency_ns.p99, recorded.latency_ns.p99),
        ratio_of(shown.buffers_per_s, recorded.buffers_per_s),
        None if price is None or cpu_cost is None else price.cpu_cores_change,
        None if price is None else price.messages_per_s_change,
    )
    sentence = trade_sentence(setting, before, trade)
    if trade.cpu_cores is None or cpu_cost is None:
        return sentence
    cost = human_duration(cpu_cost.ns_per_message)
    return f"{sentence} ({cost} a message, {cpu_cost.how})"
