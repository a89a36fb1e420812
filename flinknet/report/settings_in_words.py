"""A predicted setting in words: everything that can be varied, and the differences of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flinknet.options.what_if import SETTINGS, SITUATION, TIMEOUT, Setting, network_of, words_of
from flinknet.options.what_if import situation_of as values_of_situation
from flinknet.results import SituationAdvice, TradeOffPoint
from flinknet.units import MISSING, format_duration_ns

BUFFER_TIMEOUT = TIMEOUT.name


def settings_of(point: TradeOffPoint) -> dict[str, str]:
    """Every setting that can be varied, by name, as spelled in tables."""
    return words_of(Setting(network_of(point.config), **values_of_situation(point)))


def situation_of(point: TradeOffPoint | SituationAdvice) -> dict[str, str]:
    """The part of a setting that no key of Flink changes, in words."""
    values = values_of_situation(point)
    shown = (each for each in SETTINGS if each.field in SITUATION)
    return {each.name: each.kind.show(values[each.field]) for each in shown}


def what_varies(points: Sequence[TradeOffPoint]) -> list[str]:
    """Names of what differs between points; the buffer timeout if nothing does."""
    rows = [settings_of(point) for point in points]
    names = list(rows[0]) if rows else []
    return [name for name in names if len({row[name] for row in rows}) > 1] or [BUFFER_TIMEOUT]


def label_of(point: TradeOffPoint, varied: Sequence[str]) -> str:
    """A setting by what varies: "buffer timeout 10ms, rate x2"."""
    names = settings_of(point)
    return ", ".join(f"{name} {names[name]}" for name in varied if names[name] != MISSING)


def situation_label(situation: SituationAdvice, varied: Sequence[str]) -> str:
    """A situation by what varies; nothing where there is only one."""
    names = situation_of(situation)
    return ", ".join(f"{name} {names[name]}" for name in varied if name in names)


def flushes(point: TradeOffPoint) -> bool:
    """Whether there is a buffer timeout."""
    return timeout_ns_of(point) >= 0


def timeout_ns_of(point: TradeOffPoint) -> int:
    """The buffer timeout in ns; -1 for never."""
    return network_of(point.config).buffer_timeout_ns


def timeout_text(config: Mapping[str, str]) -> str:
    """The buffer timeout in some keys of Flink, as written on the command line."""
    return format_duration_ns(network_of(config).buffer_timeout_ns)
