"""A predicted setting in words: what of it can be varied, and what differs between several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flinknet.results import SituationAdvice, TradeOffPoint
from flinknet.units import MISSING, human_duration, parse_duration_ns

BUFFER_TIMEOUT = "buffer timeout"
CHECKPOINTS, ALIGNMENT = "checkpoints", "alignment"
"""Names of what can be varied."""

_TIMEOUT_KEY = "execution.buffer-timeout.interval"
_KEYS = {
    "segment size": "taskmanager.memory.segment-size",
    "exclusive": "taskmanager.network.memory.buffers-per-channel",
    "floating": "taskmanager.network.memory.floating-buffers-per-gate",
}
_DEBLOATING = "taskmanager.network.memory.buffer-debloat.enabled"
_TARGET = "taskmanager.network.memory.buffer-debloat.target"
_CHECKPOINTS = "execution.checkpointing.interval"
_UNALIGNED = "execution.checkpointing.unaligned.enabled"
_ALIGNED_TIMEOUT = "execution.checkpointing.aligned-checkpoint-timeout"
_NO_TIME = ("0 ms", "0 s", "0")


def settings_of(point: TradeOffPoint) -> dict[str, str]:
    """What can be varied, by name, as it is spelled in the table."""
    config = point.config
    names = {BUFFER_TIMEOUT: timeout_text(config)}
    names |= {name: config.get(key, MISSING).replace(" ", "") for name, key in _KEYS.items()}
    names["debloating"] = _debloating(config)
    names[CHECKPOINTS] = config.get(_CHECKPOINTS, "off").replace(" ", "")
    names[ALIGNMENT] = _alignment(config)
    return names | situation_of(point)


def _debloating(config: Mapping[str, str]) -> str:
    """Whether buffers are debloated, and for which target."""
    if config.get(_DEBLOATING) != "true":
        return "off"
    return config.get(_TARGET, "on").replace(" ", "")


def _alignment(config: Mapping[str, str]) -> str:
    """How checkpoints align, as `--alignment` has it; missing without any."""
    if _CHECKPOINTS not in config:
        return MISSING
    if config.get(_UNALIGNED) != "true":
        return "aligned"
    timeout = config.get(_ALIGNED_TIMEOUT, _NO_TIME[0])
    return "unaligned" if timeout in _NO_TIME else timeout.replace(" ", "")


def situation_of(point: TradeOffPoint | SituationAdvice) -> dict[str, str]:
    """What no key changes."""
    return {
        "flow control": point.flow_control,
        "round trip": f"+{human_duration(point.round_trip_ns)}" if point.round_trip_ns else "+0",
        "consumer speed": f"x{point.consumer_speed:g}",
        "rate": f"x{point.rate_factor:g}",
    }


def what_varies(points: Sequence[TradeOffPoint]) -> list[str]:
    """What differs between points; the buffer timeout if nothing does."""
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
    return timeout_text(point.config) != "-1"


def timeout_ns_of(point: TradeOffPoint) -> int:
    """The buffer timeout in ns; -1 for never."""
    return parse_duration_ns(timeout_text(point.config), BUFFER_TIMEOUT, allow_never=True)


def timeout_text(config: Mapping[str, str]) -> str:
    """The buffer timeout of some keys, as it is written on the command line."""
    if config.get("execution.buffer-timeout.enabled") == "false":
        return "-1"
    text = config.get(_TIMEOUT_KEY, MISSING).replace(" ", "")
    return "0" if text == "0ms" else text
