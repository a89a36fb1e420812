"""A load in one line, from what a run says of its workload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinknet.units import (
    counted,
    format_duration_ns,
    format_size_bytes,
    human_rate,
    without_zeros,
)

_DEFAULTS = {"arrivals": "constant", "partitioner": "rebalance", "placement": "split"}
"""Options that are named only where they differ from the default."""


def load_words(workload: Mapping[str, Any]) -> str:
    """Tasks, rate, sizes and what else is not as usual; fields that an older run does not have are
    left out.
    """
    tasks = [
        counted(workload[f"{name}s"], name)
        for name in ("producer", "consumer")
        if f"{name}s" in workload
    ]
    parts = [", ".join(tasks), _rate(workload.get("rate_per_s")), _size(workload)]
    parts += [
        str(workload[name])
        for name, default in _DEFAULTS.items()
        if workload.get(name, default) != default
    ]
    if relays := workload.get("relays"):
        parts.append(counted(relays, "relay"))
    if slow := workload.get("slow_consumers"):
        parts.append(counted(len(slow), "slow consumer"))
    return ", ".join(filter(None, parts))


def _rate(per_s: float | str | None) -> str:
    if per_s is None:
        return ""
    if isinstance(per_s, str):
        return f"rate {per_s}"
    return f"{without_zeros(human_rate(per_s).removesuffix('/s'))}/s each"


def _size(workload: Mapping[str, Any]) -> str:
    size = workload.get("record_size")
    if not size:
        return ""
    low, high = (format_size_bytes(size[f"{end}_bytes"], separator=" ") for end in ("low", "high"))
    if size.get("law") == "exponential":
        mean = round(size["stated_mean_bytes"])
        return f"records of {format_size_bytes(mean, separator=' ')} on average"
    return f"records of {low if low == high else f'{low} to {high}'}"


def load_line(workload: Mapping[str, Any], runs: int, *, whose: str = "", by: str = "") -> str:
    """Load, number of runs and duration as a sentence; empty if the workload does not have them.

    Args:
        whose: workload it is, where there are several.
        by: the version that sent it.
    """
    if not (words := load_words(workload)):
        return ""
    length = length_words(workload)
    if runs > 1:
        length = f"{runs} runs each" + (f" of {length}" if length else "")
    parts = "; ".join(filter(None, (words, length)))
    return f"Load{whose}: {parts}{by}."


def length_words(workload: Mapping[str, Any]) -> str:
    """How long the measured part of a run is; empty if it does not say."""
    if (duration_ns := workload.get("duration_ns")) is not None:
        return format_duration_ns(duration_ns, separator=" ")
    return counted(records, "record") if (records := workload.get("records")) is not None else ""
