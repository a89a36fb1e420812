"""Values of the options of `flinknet trace replay`: settings to predict, timeouts of edges, numbers
and offsets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from flinknet import options as flink
from flinknet.config import FLOW_CONTROLS
from flinknet.errors import ConfigError
from flinknet.units import parse_duration_ns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flinknet.predict.grid import Grid
    from flinknet.replay.job_answers import EdgeTimeouts
    from flinknet.results import RunWarning

GRID_OPTIONS = {
    "buffer-timeout": (
        "buffer_timeouts_ns",
        "Timeouts, such as 0,5ms,100ms,-1. [default, if no list is given: 0,1ms,5ms,10ms,100ms,-1]",
    ),
    "exclusive-buffers": ("exclusive_buffers", "Exclusive buffers of a channel, such as 1,2,4."),
    "floating-buffers": ("floating_buffers", "Floating buffers of a gate, such as 0,8,32."),
    "segment-size": ("segment_sizes_bytes", "Sizes of a buffer, such as 8kb,32kb."),
    "debloating": ("debloatings", "on,off: buffer debloating, with its keys as recorded."),
    "debloat-target": (
        "debloating_targets_ns",
        "Buffer debloating with these targets, such as 100ms,1s.",
    ),
    "checkpoint-interval": (
        "checkpoint_intervals_ns",
        "Times between checkpoints, such as 500ms,10s; off: no checkpoints.",
    ),
    "alignment": (
        "aligned_timeouts_ns",
        "How checkpoints align: aligned,unaligned, or the time after which an aligned one becomes"
        " unaligned, such as 30ms. Without --checkpoint-interval, at the recorded interval.",
    ),
    "flow-control": ("flow_controls", "credit,tcp; tcp is the flow control of Flink before 1.5."),
    "round-trip": (
        "round_trips_ns",
        "Network round-trip times on top of the recorded one, such as 0,1ms.",
    ),
    "consumer-speed": (
        "consumer_speeds",
        "Factors for the consumers' speed, such as 0.5,2; from 0.001 to 1000.",
    ),
    "rate-factor": (
        "rate_factors",
        "Factors for the arrival rate, such as 1,2,4; from 0.001 to 1000.",
    ),
}
"""Option -> list of the grid, help."""

GRID_WORDS = {
    "alignment": ("aligned", "unaligned"),
    "debloating": ("on", "off"),
    "flow-control": tuple(FLOW_CONTROLS),
}
"""What a shell completes behind some of them."""


_KEYS = {
    "exclusive-buffers": (flink.EXCLUSIVE_BUFFERS, "exclusive_buffers"),
    "floating-buffers": (flink.FLOATING_BUFFERS, "floating_buffers"),
    "segment-size": (flink.SEGMENT_SIZE, "segment_size_bytes"),
}
"""Key and field of what a key alone sets."""


def grid_of(lists: dict[str, str | None], *, is_fine: bool) -> Grid:
    """What is asked for; many timeouts if none are named and `is_fine`.

    Raises: ConfigError for a value that cannot be used, and for too many settings.
    """
    from flinknet.predict.grid import DEFAULT_TIMEOUTS_NS, FINE_TIMEOUTS_NS, Grid

    given = {}
    for name, (field, _) in GRID_OPTIONS.items():
        text = lists[name.replace("-", "_")]
        if text is not None:
            given[field] = tuple(_value(name, part.strip()) for part in text.split(","))
    if is_fine:
        given["buffer_timeouts_ns"] = FINE_TIMEOUTS_NS
    grid = Grid(**given) if given else Grid(buffer_timeouts_ns=DEFAULT_TIMEOUTS_NS)
    grid.check()
    return grid


def _value(name: str, text: str) -> Any:
    option = f"--{name}"
    if name == "buffer-timeout":
        return parse_duration_ns(text, option, bare_unit=None, allow_never=True)
    if name == "debloating":
        if text not in ("on", "off"):
            raise ConfigError(f"{option}: {text!r} is neither on nor off")
        return text == "on"
    if name == "alignment":
        return _aligned_timeout(text)
    if name == "checkpoint-interval":
        return None if text == "off" else _some_time(option, text)
    if name == "debloat-target":
        return _some_time(option, text)
    if name == "round-trip":
        return parse_duration_ns(text, option, bare_unit=None)
    if name == "flow-control":
        if text not in FLOW_CONTROLS:
            raise ConfigError(f"{option}: {text!r} is not one of {', '.join(FLOW_CONTROLS)}")
        return text
    if name in ("consumer-speed", "rate-factor"):
        return _factor(option, text)
    key, field = _KEYS[name]
    return getattr(flink.network_config({key: text})[0], field)


def setting_warnings(
    lists: Mapping[str, str | None],
) -> list[tuple[str, tuple[RunWarning, ...]]]:
    """Of values that set a key of Flink their names, and what is known of them before anything
    runs.
    """
    return [
        (f"{name}={value}", flink.network_config({key: value})[1])
        for name, (key, _) in _KEYS.items()
        for value in map(str.strip, (lists[name.replace("-", "_")] or "").split(","))
        if value
    ]


def _aligned_timeout(text: str) -> int:
    from flinknet.predict.grid import ALIGNED_NS

    known = {"aligned": ALIGNED_NS, "unaligned": 0}
    if text in known:
        return known[text]
    try:
        return parse_duration_ns(text, "--alignment", bare_unit=None)
    except ConfigError:
        raise ConfigError(
            f"--alignment: {text!r} is not aligned, unaligned or a time such as 30ms"
        ) from None


def _some_time(option: str, text: str) -> int:
    time_ns = parse_duration_ns(text, option, bare_unit=None)
    if not time_ns:
        raise ConfigError(f"{option}: 0 is too short; give a time such as 500ms")
    return time_ns


def edge_timeouts_of(text: str) -> EdgeTimeouts:
    """Read "1=5ms,Enrich=100ms". Raises: ConfigError."""
    from flinknet.replay.job_answers import EdgeTimeouts

    found = []
    for part in text.split(","):
        edge, equals, timeout = (each.strip() for each in part.rpartition("="))
        if not (edge and equals and timeout):
            raise ConfigError(
                f"--edge-timeout: {part.strip()!r} is not EDGE=TIMEOUT, such as 1=5ms or Enrich=5ms"
            )
        timeout_ns = parse_duration_ns(timeout, "--edge-timeout", bare_unit=None, allow_never=True)
        found.append((edge, timeout_ns))
    return EdgeTimeouts(tuple(found))


def _factor(option: str, text: str) -> float:
    from flinknet.predict.grid import check_factor

    try:
        factor = float(text)
    except ValueError:
        raise ConfigError(
            f"{option}: {text!r} is not a factor; write a number, such as 2"
        ) from None
    check_factor(option, factor)
    return factor


def number_or(option: str, text: str, word: str) -> int | None:
    """A number of 1 or more; for the word None, or what stands for all."""
    if text == word:
        return sys.maxsize if word == "all" else None
    digits = text.replace("_", "")
    if not digits.isdecimal() or not int(digits):
        raise ConfigError(f"{option}: {text!r} is not a number of 1 or more, and not {word}")
    return int(digits)


def offset(option: str, text: str | None) -> int | None:
    """A time from the start of a run; None for none."""
    return None if text is None else parse_duration_ns(text, option, bare_unit=None)
