"""Words for predicted settings: values that can be varied, differences of several, notes with the
settings they belong to; a load in one line; gain and price of one setting against another."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from flinknet import units
from flinknet.config import EXPONENTIAL
from flinknet.options.what_if import SETTINGS, SITUATION, TIMEOUT, Setting, network_of, words_of
from flinknet.options.what_if import situation_of as values_of_situation
from flinknet.results import (
    JobAnswer,
    JobPoint,
    LatencySummary,
    SituationAdvice,
    TradeOffPoint,
)
from flinknet.results.trades import Range, Trade, are_alike, trade_with_recorded

BUFFER_TIMEOUT = TIMEOUT.name

USUAL_NS = 5 * units.NS_PER_MS
"""Buffer timeout whose gain and price are stated first, if it was predicted or measured."""

TRADES_MAX = 4
"""Timeouts that are compared with the recorded one, at most."""

LIMIT_ROOM = 1.15
"""Factor from the latency of a setting that is predicted to keep a limit to that limit, at least,
before this is rounded."""

LABELS_SHOWN = 4
"""Settings that are named of a note; the rest is counted, if it is more than one."""


def settings_of(point: TradeOffPoint) -> dict[str, str]:
    """Every setting that can be varied, by name, as spelled in tables; the buffer timeouts of all
    edges where they differ."""
    found = words_of(Setting(network_of(point.config), **values_of_situation(point)))
    if isinstance(point, JobPoint) and len({*point.timeouts_ns}) > 1:
        found[BUFFER_TIMEOUT] = " / ".join(map(units.format_duration_ns, point.timeouts_ns))
    return found


def timeout_ns_of(point: TradeOffPoint) -> int:
    """The buffer timeout in ns; -1 for never."""
    return network_of(point.config).buffer_timeout_ns


def _recorded_percentile(points: Iterable[TradeOffPoint]) -> tuple[str, float | None]:
    """Name and value in ns of the percentile that settings are compared by: p99 of the recorded
    one, or p50 where p99 is unknown."""
    found = next((each.latency_ns for each in points if each.is_recorded), LatencySummary(0))
    is_short = found.p99 is None and found.p50 is not None
    return ("p50", found.p50) if is_short else ("p99", found.p99)


def example_limit(points: Sequence[JobPoint]) -> str | None:
    """A limit as an example that another setting for Flink is predicted to keep, in the recorded
    situation: some half of what the recorded setting has, or more, to two digits; on p50 where p99
    leaves no room. None where no such setting has clearly less."""
    recorded = next((each for each in points if each.is_recorded), None)
    if recorded is None:
        return None
    base = situation_of(recorded)
    others = [
        each
        for each in points
        if not each.is_recorded
        and situation_of(each) == base
        and len({*each.timeouts_ns}) < 2
        and (timeout_ns_of(each) < 0 or timeout_ns_of(each) % units.NS_PER_MS == 0)
    ]
    for name in ("p99", "p50"):
        recorded_ns = getattr(recorded.latency_ns, name) or 0.0
        found_ns = [getattr(each.latency_high_ns or each.latency_ns, name) for each in others]
        least_ns = min((each for each in found_ns if each is not None), default=recorded_ns)
        limit_ms = max(recorded_ns / 2, LIMIT_ROOM * least_ns) / units.NS_PER_MS
        limit_ms = float(f"{limit_ms:.2g}")
        if limit_ms * units.NS_PER_MS < recorded_ns:
            return f"{name}<={limit_ms:g}ms"
    return None


def frontier_meaning(points: Iterable[TradeOffPoint]) -> str:
    name, _ = _recorded_percentile(points)
    return f"no other setting is as good in all of {name}, throughput, buffers/s and memory"


def situation_of(point: TradeOffPoint | SituationAdvice) -> dict[str, str]:
    """The part of a setting that no key of Flink changes, in words."""
    values = values_of_situation(point)
    shown = (each for each in SETTINGS if each.field in SITUATION)
    return {each.name: each.kind.show(values[each.field]) for each in shown}


def what_varies(points: Sequence[TradeOffPoint]) -> list[str]:
    """Names of what differs between points; the buffer timeout if nothing does."""
    return varied_in([settings_of(point) for point in points])


def varied_in(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Names of what differs between settings; the buffer timeout if nothing does."""
    names = list(rows[0]) if rows else []
    return [name for name in names if len({row[name] for row in rows}) > 1] or [BUFFER_TIMEOUT]


def label_of(setting: Mapping[str, str], varied: Sequence[str]) -> str:
    """A setting by what varies: "buffer timeout 10ms, rate x2"."""
    return ", ".join(f"{name} {setting[name]}" for name in varied if setting[name] != units.MISSING)


def situation_label(situation: SituationAdvice, varied: Sequence[str]) -> str:
    """A situation by what varies; nothing where there is only one."""
    names = situation_of(situation)
    return ", ".join(f"{name} {names[name]}" for name in varied if name in names)


def timeout_text(config: Mapping[str, str]) -> str:
    """The buffer timeout in some keys of Flink, as written on the command line."""
    return units.format_duration_ns(network_of(config).buffer_timeout_ns)


def notes_of(points: Sequence[TradeOffPoint]) -> list[str]:
    """The notes of all predictions of a job, in the order in which they come."""
    rows = [settings_of(point) for point in points]
    varied = varied_in(rows)
    noted: dict[str, set[int]] = {}
    for index, point in enumerate(points):
        for note in point.notes:
            noted.setdefault(note, set()).add(index)
    return [
        note if len(of) == len(points) else f"{_where(rows, of, varied)}: {note}"
        for note, of in noted.items()
    ]


def _where(rows: Sequence[Mapping[str, str]], of: Collection[int], varied: Sequence[str]) -> str:
    names = list(varied)  # those needed to distinguish the settings among `of` from the others
    for name in reversed(varied):
        fewer = [each for each in names if each != name]
        known = [tuple(row[each] for each in fewer) for row in rows]
        outside = {cell for index, cell in enumerate(known) if index not in of}
        if outside.isdisjoint(known[index] for index in of):
            names = fewer
    cells = list(dict.fromkeys(tuple(rows[index][name] for name in names) for index in sorted(of)))
    if len(names) == 1:
        values = _some([value for (value,) in cells])
        return values if len(varied) == 1 else f"{names[0]} {values}"
    return _some([" ".join(map(" ".join, zip(names, cell, strict=True))) for cell in cells])


def _some(labels: Sequence[str]) -> str:
    if len(labels) <= LABELS_SHOWN + 1:
        return ", ".join(labels)
    return f"{', '.join(labels[:LABELS_SHOWN])} and {len(labels) - LABELS_SHOWN} more"


_SAME_RATIO = 0.02
"""Ratios closer to 1 than this are none."""


def trade_sentence(setting: str, before: str, trade: Trade) -> str:
    """ "5ms instead of 100ms: p50 −46.0 ms (−52.0 … −40.0), 13 times the buffers/s, +6% of a
    core, +1.90 k messages/s".
    """
    return f"{setting} instead of {before}: {trade_text(trade)}"


def trade_text(trade: Trade) -> str:
    """The changes alone; throughput only if it differs."""
    parts = rate_parts(trade)
    parts.append(f"p50 {duration_text(trade.p50_ns, trade.p50_range_ns)}")
    if trade.p99_ns is not None:
        parts.append(f"p99 {duration_text(trade.p99_ns, trade.p99_range_ns)}")
    return ", ".join([*parts, *cost_parts(trade)])


def rate_parts(trade: Trade) -> list[str]:
    ratio = trade.throughput_ratio
    differs = ratio is not None and abs(ratio - 1) > _SAME_RATIO
    return [f"{units.signed((ratio or 0.0) - 1, '{:.0%}'.format)} records/s"] if differs else []


def cost_parts(trade: Trade, *, is_cpu_assumed: bool = False) -> list[str]:
    parts, ratio = [], trade.buffers_ratio
    differs = ratio is not None and abs(ratio - 1) > _SAME_RATIO
    if ratio:
        digits, inverse = (f"{x:.1f}" if x < 9.95 else f"{x:.0f}" for x in (ratio, 1 / ratio))
        text = f"{digits} times the buffers/s" if ratio >= 0.5 else f"1/{inverse} of the buffers/s"
        parts.append(f"{'about ' * differs}as many buffers/s" if digits == "1.0" else text)
    if trade.cpu_cores is not None:
        ends = _ends_text(trade.cpu_range_cores, cpu_text)
        assumed = " (assumed)" * (is_cpu_assumed and cpu_text(trade.cpu_cores) != "0%")
        parts.append(f"{cpu_text(trade.cpu_cores)}{ends} of a core{assumed}")
    if differs and trade.messages_per_s is not None:
        parts.append(f"{units.signed(trade.messages_per_s, units.human_count)} messages/s")
    return parts


def from_to(before_ns: float, after_ns: float, ends_ns: Range | None = None) -> str:
    """A duration before and after, with the interval of its change: "21.8 → 8.55 ms (−16.6 …
    −10.2)"."""
    before, after = units.human_duration(before_ns), units.human_duration(after_ns)
    unit = after[after.find(" ") :]
    ends = _ends_text(ends_ns, lambda end: units.signed(end, units.human_duration), unit)
    return f"{before.removesuffix(unit)} → {after}{ends}"


def cpu_text(cores: float | None) -> str:
    """A change of CPU use: "+6%" of a core."""
    if cores is None:
        return units.MISSING
    if abs(cores) < 0.0005:
        return "0%"
    return units.signed(cores, "{:.1%}".format if abs(cores) < 0.0995 else "{:.0%}".format)


def duration_text(change_ns: float | None, range_ns: Range | None = None) -> str:
    """A change of a duration: "−46.0 ms (−52.0 … −40.0)"; ends in the unit of the change have
    none."""
    if change_ns is None:
        return "unknown"
    change = units.signed(change_ns, units.human_duration) if change_ns else "unchanged"
    unit = change[change.find(" ") :] if " " in change else ""
    return change + _ends_text(range_ns, lambda end: units.signed(end, units.human_duration), unit)


def with_ends(shown: str, ends: Range | None, text: Callable[[float], str]) -> str:
    """A figure and its interval in a table: "8.55 ms (7.68…9.44)"; ends in the unit of the figure
    have none."""
    unit = shown[shown.find(" ") :] if " " in shown else ""
    return shown + _ends_text(ends, text, unit).replace(" … ", "…")


def _ends_text(ends: Range | None, text: Callable[[float], str], unit: str = "") -> str:
    """Both ends in brackets, those of a duration in its unit and without it, if that takes at most
    four digits; empty if there are none, or if they are the same."""
    texts = [text(each) for each in ends or ()]
    if ends is None or texts[0] == texts[1]:
        return ""
    if unit and all(each.endswith(unit) for each in texts):
        texts = [each.removesuffix(unit) for each in texts]
    elif unit in _UNITS_NS and max(map(abs, ends)) < 9_999.5 * _UNITS_NS[unit]:
        signs = ["+" if each.startswith("+") else "" for each in texts]
        values = [each / _UNITS_NS[unit] for each in ends]
        digits = [0 if abs(x) >= 99.95 else 1 if abs(x) >= 9.995 else 2 for x in values]
        texts = [f"{sign}{x:.{n}f}" for sign, x, n in zip(signs, values, digits, strict=True)]
        texts = [each.replace("-", "−") for each in texts]
    return f" ({' … '.join(texts)})"


_UNITS_NS = {" s": 1e9, " ms": 1e6, " us": 1e3}


_DEFAULTS = {"arrivals": "constant", "partitioner": "rebalance", "placement": "split"}
"""Options that are named only where they differ from the default."""


def load_words(workload: Mapping[str, Any]) -> str:
    """Tasks, rate, sizes and what else is not as usual; fields that an older run does not have are
    left out."""
    tasks = [
        units.counted(workload[f"{name}s"], name)
        for name in ("producer", "consumer")
        if f"{name}s" in workload
    ]
    parts, per_s = [", ".join(tasks)], workload.get("rate_per_s")
    if isinstance(per_s, str):
        parts.append(f"rate {per_s}")
    elif per_s is not None:
        rate = units.human_rate(per_s).removesuffix("/s")
        parts.append(f"{units.without_zeros(rate)}/s each")
    if size := workload.get("record_size"):
        ends = [size["low_bytes"], size["high_bytes"]]
        is_mean = size.get("law") == EXPONENTIAL
        known = [round(size["stated_mean_bytes"])] if is_mean else dict.fromkeys(ends)
        sizes = " to ".join(units.format_size_bytes(each, separator=" ") for each in known)
        parts.append(f"records of {sizes}{' on average' * is_mean}")
    parts += [
        str(workload[name])
        for name, default in _DEFAULTS.items()
        if workload.get(name, default) != default
    ]
    if relays := workload.get("relays"):
        parts.append(units.counted(relays, "relay"))
    if slow := workload.get("slow_consumers"):
        parts.append(units.counted(len(slow), "slow consumer"))
    return ", ".join(filter(None, parts))


def link_words(workload: Mapping[str, Any]) -> str:
    return f"emulated link {workload['link']}" if workload.get("link") else ""


def option_texts(workload: Mapping[str, Any]) -> dict[str, str]:
    """A workload as names and values of the options of bench."""
    return dict(option_text(*each) for each in workload.items())


def option_text(name: str, value: Any) -> tuple[str, str]:
    """A field of a workload, as the name and the value of its option; "none" if it is not set. A
    value of another form, as files of others may have, stands as it is."""
    try:
        name, text = _option_text(name, value)
    except (AttributeError, KeyError, TypeError, ValueError):
        text = str(value)
    return name, "none" if value is None or not text else text


def _option_text(name: str, value: Any) -> tuple[str, str]:
    text: str = str(value)
    if name == "rate_per_s":
        text = value if isinstance(value, str) else f"{value:.10g}" if value else "max"
    elif name == "record_size" and value.get("law") == EXPONENTIAL:
        text = f"{EXPONENTIAL}:{units.format_size_bytes(value['stated_mean_bytes'])}"
    elif name == "record_size":
        ends = dict.fromkeys((value["low_bytes"], value["high_bytes"]))
        text = "..".join(map(units.format_size_bytes, ends))
    elif name == "slow_consumers":
        text = " ".join(map(_slow_text, value))
    elif name == "relay_delay_ns_per_record":
        delays_ns = value if isinstance(value, Sequence) else [value]  # one, as of older runs
        name, text = "relay_delay", ",".join(map(units.format_duration_ns, delays_ns))
    elif name == "relay_parallelism":
        text = ",".join(map(str, value))
    elif name.endswith("_ns"):
        name = name.removesuffix("_ns")
        text = "" if value is None else units.format_duration_ns(value)
    return name, text


def _slow_text(slow: Mapping[str, Any]) -> str:
    delay_ns, slow_ns = slow["delay_ns_per_record"], slow.get("slow_ns")
    delay = "pause" if delay_ns < 0 else units.format_duration_ns(delay_ns)
    length = "" if slow_ns is None else f":{units.format_duration_ns(slow_ns)}"
    return f"{slow['index']}:{delay}{length}"


def runs_words(runs: int, workload: Mapping[str, Any], each: str) -> str:
    length = length_words(workload)
    return f"{units.counted(runs, 'run')}{each}" + (f" of {length}" if length else "")


def length_words(workload: Mapping[str, Any]) -> str:
    """How long the measured part of a run is; empty if it does not say."""
    if (duration_ns := workload.get("duration_ns")) is not None:
        return units.format_duration_ns(duration_ns, separator=" ")
    records = workload.get("records")
    return "" if records is None else units.counted(records, "record")


@dataclass(frozen=True, slots=True)
class NamedTrade:
    """Gain and price of one setting against another, as figures and in a sentence; latency before
    and after, None where it is unknown."""

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


def trades(job: JobAnswer) -> list[NamedTrade]:
    """Trade-offs between settings of a job and the recorded one, the weightiest first: "buffer
    timeout 5ms instead of 100ms: p50 −46.0 ms, …", the first one with the cost of a buffer."""
    rows, found, cost = [settings_of(each) for each in job.points], list[NamedTrade](), job.cpu_cost
    recorded = next((n for n, each in enumerate(job.points) if each.is_recorded), None)
    if recorded is None:
        return []
    base, before = job.points[recorded], rows[recorded]
    for place in _compared(job, rows, recorded):
        shown, varied = job.points[place], varied_in([before, rows[place]])
        name = before[varied[0]] if len(varied) == 1 else label_of(before, varied)
        label = label_of(rows[place], varied)
        trade = trade_with_recorded(shown, base, has_cpu_cost=cost is not None)
        sentence = trade_sentence(label, name, trade)
        if trade.cpu_cores is not None and cost is not None and not found:
            each = units.human_duration(cost.ns_per_message)
            sentence += f"; CPU: {each} for a buffer and its credit, {cost.how}"
        if are_alike(shown, base):
            sentence += "; latency hardly depends on it here"
        then, now = base.latency_ns, shown.latency_ns
        latencies = (then.p50, now.p50), (then.p99, now.p99)
        found.append(NamedTrade(label, name, trade, sentence, *latencies))
    return found


def _compared(job: JobAnswer, rows: Sequence[dict[str, str]], recorded: int) -> list[int]:
    """Places of the settings to compare with the recorded one. With a target: the setting that
    meets it, or misses it by least; without: other timeouts, see `compared_timeouts`; and timeouts
    that differ from edge to edge. If there are none, the setting with the least latency. Empty
    where latencies are unknown or must not be relied on."""
    points = job.points
    known = [place for place, each in enumerate(points) if each.latency_ns.p50 is not None]
    if recorded not in known or job.advice.withheld:
        return []
    base, situation = rows[recorded], situation_of(points[recorded])
    own = [n for n in known if n != recorded and situation_of(points[n]) == situation]
    alike = [n for n in own if rows[n] | {BUFFER_TIMEOUT: base[BUFFER_TIMEOUT]} == base]
    mixed = [n for n in alike if len({*job.points[n].timeouts_ns}) > 1]
    chosen = None if job.choice is None else job.choice.settled
    if chosen is not None and chosen in known:
        return [n for n in dict.fromkeys((chosen, *mixed)) if n != recorded]
    timeouts_ns = {n: timeout_ns_of(points[n]) for n in alike if n not in mixed}
    if found := [*compared_timeouts(timeouts_ns, timeout_ns_of(points[recorded])), *mixed]:
        return found
    return sorted(own, key=lambda place: points[place].latency_ns.p50 or 0.0)[:1]


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
