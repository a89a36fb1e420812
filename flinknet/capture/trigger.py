"""Triggers: a bound on one of a tap's metrics, such as `no_credit>50%`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from flinknet.errors import ConfigError
from flinknet.units import (
    human_bytes,
    human_count,
    human_duration,
    parse_duration_ns,
    parse_percent,
    parse_rate_per_s,
    parse_size_bytes,
)

_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}

_TRIGGER = re.compile(r"\s*([a-z_]+)\s*(>=|<=|>|<)\s*(\S.*?)\s*")


def _percent(text: str, name: str) -> float:
    share = parse_percent(text, name)
    if not 0 <= share <= 1:
        raise ConfigError(f"{name}: {text!r} is not a share; write 0% to 100%")
    return share


def _size_per_s(text: str, name: str) -> float:
    return parse_size_bytes(text.removesuffix("/s"), name)


def _rate(text: str, name: str) -> float:
    rate_per_s = parse_rate_per_s(text, name)
    if rate_per_s is None:
        raise ConfigError(f"{name}: max is not a bound; write 20000/s or 20k/s")
    return rate_per_s


def _number(text: str, name: str) -> float:
    if not text.isdecimal():
        raise ConfigError(f"{name}: {text!r} is not a number of 0 or more")
    return int(text)


def _duration(text: str, name: str) -> float:
    return parse_duration_ns(text, name, bare_unit=None)


@dataclass(frozen=True, slots=True)
class _Metric:
    parse: Callable[[str, str], float]
    show: Callable[[float], str]
    meaning: str


METRICS: Final[Mapping[str, _Metric]] = {
    "credit_starved": _Metric(
        _percent,
        "{:.0%}".format,
        "share of time the worst channel had no credit and was known to have data",
    ),
    "no_credit": _Metric(
        _percent, "{:.0%}".format, "share of time the worst channel had no credit, data or not"
    ),
    "blocked": _Metric(
        _percent, "{:.0%}".format, "share of time the worst channel was blocked by an event"
    ),
    "backlog_buffers": _Metric(_number, human_count, "largest backlog of a channel"),
    "throughput": _Metric(_size_per_s, human_bytes, "payload bytes per second, of all channels"),
    "records": _Metric(_rate, human_count, "records per second, of all channels"),
    "connections": _Metric(_number, human_count, "open connections"),
    "added_delay": _Metric(_duration, human_duration, "p99 of the delay the tap adds"),
}
"""Metrics that a trigger may use; each is measured once a second."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """Fires when a metric passes its bound."""

    text: str
    metric: str
    sign: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Trigger:
        """Read METRIC, one of > < >= <=, VALUE.

        Raises: ConfigError for any other text; it names the correct form.
        """
        match = _TRIGGER.fullmatch(text)
        if match is None:
            raise ConfigError(
                f"--trigger: {text!r} is not a bound; write a metric, > or <, and a value, such as"
                f" 'no_credit>50%'; metrics are {', '.join(METRICS)}"
            )
        metric, sign, value = match.groups()
        if metric not in METRICS:
            raise ConfigError(
                f"--trigger: {metric!r} is not a metric; choose from {', '.join(METRICS)}"
            )
        return cls(text.strip(), metric, sign, METRICS[metric].parse(value, "--trigger"))

    def reason(self, values: Mapping[str, float]) -> str | None:
        """The reason for firing, in words; None if the trigger does not fire.

        A missing value does not fire.
        """
        value = values.get(self.metric)
        if value is None or not _OPERATORS[self.sign](value, self.bound):
            return None
        return f"{self.metric} is {METRICS[self.metric].show(value)} ({self.text})"
