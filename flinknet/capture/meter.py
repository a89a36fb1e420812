"""Plain data for the display and the result of a tap or a live capture, from its channels."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

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

from .channels import ChannelTable, ObservedChannel

CHANNELS_SHOWN = 64

_AS_THEY_ARE: Final = (
    *("subpartitions", "initial_credit", "credits_available"),
    *("payload_bytes", "data_bytes", "records", "other_elements", "uncounted_buffers", "events"),
)
"""Attributes of a channel that its row has under the same name."""


class Meter:
    """Rates and shares since the last look, of every channel and of all together."""

    def __init__(self, now_ns: int) -> None:
        self._at_ns = now_ns
        self._before: dict[ObservedChannel, tuple[int, ...]] = {}  # of open channels
        self._known_channels = 0
        self._largest_buffer_bytes = 1

    def look(self, table: ChannelTable, now_ns: int) -> dict[str, Any]:
        """Plain data for the live view; triggers use its `metrics`."""
        span_ns = max(1, now_ns - self._at_ns)
        self._at_ns = now_ns
        self._before |= dict.fromkeys(table.channels[self._known_channels :], (0,) * 6)
        self._known_channels = len(table)
        rows = [self._row(each, now_ns, span_ns) for each in self._before]
        self._before = {each: now for each, now in self._before.items() if not each.is_ended}
        open_rows = [row for row in rows if not row["is_ended"]]
        counted = [row["records_per_s"] for row in rows if row["records_per_s"] is not None]
        metrics: dict[str, float] = {"throughput": sum(row["bytes_per_s"] for row in rows)}
        if counted:
            metrics["records"] = sum(counted)
        if open_rows:
            metrics["credit_starved"] = max(row["starved_share"] for row in open_rows)
            metrics["no_credit"] = max(row["no_credit_share"] for row in open_rows)
            metrics["blocked"] = max(row["blocked_share"] for row in open_rows)
            metrics["backlog_buffers"] = max(row["backlog_buffers"] or 0 for row in open_rows)
        open_rows.sort(key=lambda row: (-row["starved_share"], -row["no_credit_share"]))
        return {
            "channels_open": len(open_rows),
            "bytes_per_s": metrics["throughput"],
            "records_per_s": metrics.get("records"),
            "channels": sorted(open_rows[:CHANNELS_SHOWN], key=lambda row: row["channel"]),
            "metrics": metrics,
        }

    def _row(self, channel: ObservedChannel, now_ns: int, span_ns: int) -> dict[str, Any]:
        now = (
            *(channel.payload_bytes, channel.records, channel.data_buffers),
            *(each.until(now_ns) for each in (channel.starved, channel.exhausted, channel.blocked)),
        )
        before, self._before[channel] = self._before[channel], now
        size, records, buffers, *waits = (a - b for a, b in zip(now, before, strict=True))
        starved, exhausted, blocked = (min(1.0, max(0, each) / span_ns) for each in waits)
        self._largest_buffer_bytes = max(self._largest_buffer_bytes, channel.largest_buffer_bytes)
        is_counted = channel.uncounted_buffers < channel.data_buffers or not channel.data_buffers
        return {
            "channel": channel.index,
            "is_ended": channel.is_ended,
            "bytes_per_s": size * 1e9 / span_ns,
            "records_per_s": records * 1e9 / span_ns if is_counted else None,
            "backlog_buffers": channel.backlog_buffers,
            "credits_available": channel.credits_available,
            "starved_share": starved,
            "no_credit_share": exhausted,
            "blocked_share": blocked,
            "fill": size / buffers / self._largest_buffer_bytes if buffers else None,
        }


def channel_rows(channels: Sequence[ObservedChannel], largest_bytes: int) -> list[dict[str, Any]]:
    """Rows of the result, one for each channel, with the number of later attempts of its producer
    that were observed."""
    later = dict.fromkeys(
        (each.partition_id.producer_id for each in channels if each.partition_id), 0
    )
    left = Counter(producer.execution_vertex_id for producer in later)
    for producer in later:
        left[producer.execution_vertex_id] -= 1
        later[producer] = left[producer.execution_vertex_id]
    return [
        {
            "channel": each.index,
            "later_attempts": later[each.partition_id.producer_id] if each.partition_id else 0,
            "connection": each.ends.connection,
            "receiver_id": each.receiver_id.hex(),
            "partition": None if each.partition_id is None else str(each.partition_id),
            "buffers": each.data_buffers,
            **{name: getattr(each, name) for name in _AS_THEY_ARE},
            "events_by_kind": dict(each.events_by_kind),
            "mean_fill": each.data_bytes / each.data_buffers / largest_bytes
            if each.data_buffers
            else None,
            "starved_ns": each.starved.ns,
            "no_credit_ns": each.exhausted.ns,
            "blocked_ns": each.blocked.ns,
        }
        for each in channels
    ]


_OPERATORS: Final = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}

_TRIGGER = re.compile(r"\s*([a-z_]+)\s*(>=|<=|>|<)\s*(\S.*?)\s*")


def _percent(text: str, name: str) -> float:
    share = parse_percent(text, name)
    if not 0 <= share <= 1:
        raise ConfigError(f"{name}: {text!r} is not a share; write 0% to 100%")
    return share


def _rate(text: str, name: str) -> float:
    rate_per_s = parse_rate_per_s(text, name)
    if rate_per_s is None:
        raise ConfigError(f"{name}: max is not a bound; write 20000/s or 20k/s")
    return rate_per_s


def _number(text: str, name: str) -> float:
    if not text.isdecimal():
        raise ConfigError(f"{name}: {text!r} is not a number of 0 or more")
    return int(text)


def _size_per_s(text: str, name: str) -> float:
    return parse_size_bytes(text.removesuffix("/s"), name)


_SHARE = _percent, "{:.0%}".format

METRICS: Final[Mapping[str, tuple[Callable[[str, str], float], Callable[[float], str]]]] = {
    **dict.fromkeys(("credit_starved", "no_credit", "blocked"), _SHARE),
    "backlog_buffers": (_number, human_count),
    "throughput": (_size_per_s, human_bytes),
    "records": (_rate, human_count),
    "connections": (_number, human_count),
    "added_delay": (partial(parse_duration_ns, bare_unit=None), human_duration),
}
"""Metrics that a trigger may use, measured once a second: how a bound is read, and a value shown.
The help of `trace tap` explains each."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """Fires when a metric passes its bound."""

    text: str
    metric: str
    sign: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Trigger:
        """Read METRIC, one of > < >= <=, VALUE. Raises: ConfigError for any other text; it names
        the correct form."""
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
        return cls(text.strip(), metric, sign, METRICS[metric][0](value, "--trigger"))

    def reason(self, values: Mapping[str, float]) -> str | None:
        """The reason for firing, in words; None if it does not fire, as without a value."""
        value = values.get(self.metric)
        if value is None or not _OPERATORS[self.sign](value, self.bound):
            return None
        return f"{self.metric} is {METRICS[self.metric][1](value)} ({self.text})"
