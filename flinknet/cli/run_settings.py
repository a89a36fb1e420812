"""Settings of a recorded run for people: those that are not at their defaults, named and written as
options instead of fields of a manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from flinknet.config import EXPONENTIAL, NetworkConfig, WorkloadConfig
from flinknet.units import format_duration_ns, format_size_bytes

_KEYS_ALWAYS = frozenset(("execution.buffer-timeout.interval",))
_WORKLOAD_ALWAYS = frozenset(("producers", "consumers", "rate_per_s"))


def settings_to_show(
    description: Mapping[str, Any], *, is_all: bool
) -> tuple[Mapping[str, Any], int]:
    """The description of a run with its settings for people, and the number of settings left out.
    Keys for which a recording from outside states an origin are never left out.
    """
    from flinknet.trace.manifest import SETTINGS_FROM

    manifest = description["manifest"]
    if manifest is None:
        return description, 0
    keys, workload = dict(manifest["flink_keys"]), dict(manifest["scenario"].get("workload", {}))
    count = len(keys) + len(workload)
    origins = manifest["scenario"].get(SETTINGS_FROM)
    if not is_all:
        keys = _changed(keys, _default_keys(), _KEYS_ALWAYS.union(origins or ()))
        workload = _changed(workload, asdict(WorkloadConfig()), _WORKLOAD_ALWAYS)
    hidden = count - len(keys) - len(workload)
    scenario = {**manifest["scenario"]}
    if workload:
        scenario["workload"] = dict(readable(name, value) for name, value in workload.items())
    return {
        **description,
        "manifest": {**manifest, "flink_keys": keys, "scenario": scenario},
    }, hidden


def _default_keys() -> Mapping[str, str]:
    from flinknet.options import effective_flink_keys

    return effective_flink_keys(NetworkConfig())


def _changed(
    values: Mapping[str, Any], defaults: Mapping[str, Any], always: frozenset[str]
) -> dict[str, Any]:
    return {
        name: value
        for name, value in values.items()
        if name in always or name not in defaults or _plain(value) != _plain(defaults[name])
    }


def _plain(value: Any) -> Any:
    """The value with tuples as lists, as in JSON."""
    return list(value) if isinstance(value, tuple) else value


def readable(name: str, value: Any) -> tuple[str, Any]:
    """A field of a workload, as the name and the value of its option."""
    if name == "record_size":
        if value.get("law") == EXPONENTIAL:
            return name, f"{EXPONENTIAL}:{format_size_bytes(value['stated_mean_bytes'])}"
        low, high = (format_size_bytes(value[f"{end}_bytes"]) for end in ("low", "high"))
        return name, low if low == high else f"{low}..{high}"
    if name == "slow_consumers":
        return name, " ".join(map(_slow_consumer, value)) or None
    if name.endswith("_ns") and value is not None:
        return name.removesuffix("_ns"), format_duration_ns(value)
    if name == "relay_delay_ns_per_record":
        delays_ns = value if isinstance(value, Sequence) else [value]  # one, as of older runs
        return "relay_delay", ",".join(map(format_duration_ns, delays_ns))
    if name == "relay_parallelism":
        return name, ",".join(map(str, value))
    return name, value


def _slow_consumer(slow: Mapping[str, Any]) -> str:
    delay_ns, slow_ns = slow["delay_ns_per_record"], slow.get("slow_ns")
    delay = "pause" if delay_ns < 0 else format_duration_ns(delay_ns)
    length = "" if slow_ns is None else f":{format_duration_ns(slow_ns)}"
    return f"{slow['index']}:{delay}{length}"
