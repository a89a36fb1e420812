"""Configurations as a user names them: `base`, a set of keys, a TOML file, a config.yaml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from flinknet import options as flink
from flinknet.config import WorkloadConfig
from flinknet.errors import ConfigError
from flinknet.options.link import PARAMETERS
from flinknet.report.trade_words import option_text
from flinknet.results.comparison import SettingChange
from flinknet.units import human_bytes

from . import options
from .sweep import Plan, setting_name, short_name

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
        usual = {each.key: each.value for each in flink.effective_keys({}, {})}
        keys = _changed(keys, usual, _KEYS_ALWAYS.union(origins or ()))
        workload = _changed(workload, asdict(WorkloadConfig()), _WORKLOAD_ALWAYS)
    hidden = count - len(keys) - len(workload)
    scenario = {**manifest["scenario"], "workload": workload}
    return {
        **description,
        "manifest": {**manifest, "flink_keys": keys, "scenario": scenario},
    }, hidden


def _changed(
    values: Mapping[str, Any], defaults: Mapping[str, Any], always: frozenset[str]
) -> dict[str, Any]:
    return {
        name: value
        for name, value in values.items()
        if name in always or name not in defaults or _plain(value) != _plain(defaults[name])
    }


class CannotStartError(ConfigError):
    """A candidate that would not start, while the baseline does; has its name and the reason."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


_HOW = frozenset(("partition-type", "scheduling", "partitioner"))
"""Bench options that change how the work is done, not the work."""

_SUFFIXES = (".toml", ".yaml", ".yml")
"""Suffixes of configurations that are files."""

_BROADCAST = "broadcast"

NETWORK_MEMORY = "network memory (by taskmanager.memory.*)"

_NAMES = {flink.NETWORK_MIN: NETWORK_MEMORY}
"""Names of keys whose effective value is derived from other keys."""

_WORKLOAD_FIELDS = frozenset(field.name for field in fields(WorkloadConfig))
_FIELD_OPTIONS = {option.field: name for name, option in options.WORKLOAD_OPTIONS.items()}


def plan_configs(
    configs: Sequence[str], base: options.Settings, seed: int, *, has_baseline: bool = False
) -> list[Plan]:
    """Plans of the configurations, each on top of the options of the call.

    Args:
        has_baseline: an earlier result is the base, so one configuration is enough.

    Raises: ConfigError; CannotStartError for a candidate with values of Flink's keys that no
        TaskManager starts with, or a file without a total size of memory, while the base starts.
    """
    if len(configs) < 2 - has_baseline:
        raise ConfigError(
            "compare-configs: give a configuration to compare with the baseline, such as"
            " buffer-timeout=5ms"
            if has_baseline
            else "compare-configs: give two configurations or more, such as base buffer-timeout=5ms"
        )
    plans: list[Plan] = []
    base_has_total = False  # an earlier result does not say
    for text in configs:
        try:
            name, own = read_config(text)
        except flink.RefusedValuesError as error:
            if has_baseline or plans:
                raise CannotStartError(text, error.why) from None
            raise
        merged = own.over(base)
        if swept := flink.swept_keys(merged.network):
            raise ConfigError(f"{text}: {swept[0]} has several values; a config has one of each")
        if not plans:
            base_has_total = not has_baseline and flink.is_total_given(merged.network)
        try:
            if base_has_total and any(each.code == "no-total-size" for each in own.warnings):
                flink.check_total(merged.network)
            scenario, warnings = options.scenario_of(merged, seed)
        except ConfigError as error:
            if (has_baseline or plans) and (own.network or own.warnings) and not own.workload:
                raise CannotStartError(name, str(error)) from None
            raise ConfigError(f"{name}: {error}") from None
        if name in {plan.name for plan in plans}:
            name = f"{name} ({len(plans) + 1})"
        plans.append(Plan(name, scenario, warnings))
    return plans


def unlike_options(base: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The bench options that make the workloads differ (rates, sizes, numbers of tasks, delays,
    durations), so that a comparison also shows the effect of the workload.

    Args:
        base, other: workloads in the form of `RunResult.workload`.
    """
    unlike = [
        name
        for name, option in options.WORKLOAD_OPTIONS.items()
        if name not in _HOW
        and option.field in _WORKLOAD_FIELDS
        and _differ(base, other, option.field)
    ]
    partitioners = {each.get("partitioner") for each in (base, other)}
    if len(partitioners) == 2 and _BROADCAST in partitioners and None not in partitioners:
        unlike.append("partitioner")  # each record goes to all consumers, or to one
    return unlike


def setting_changes(
    base: tuple[Mapping[str, Any], Mapping[str, Any]],
    other: tuple[Mapping[str, Any], Mapping[str, Any]],
) -> list[SettingChange]:
    """The settings in which two configurations differ.

    Args:
        base, other: Flink's keys and the workload, as `RunResult.config` and `workload`.
    """
    keys = sorted(base[0].keys() | other[0].keys())
    changes = [
        SettingChange(
            _NAMES.get(key, key), *(_text(key, each[0].get(key)) for each in (base, other))
        )
        for key in keys
        if base[0].get(key) != other[0].get(key)
    ]
    for name in base[1]:
        if name != "seed" and _differ(base[1], other[1], name):
            texts = [option_text(name, x[name])[1] for x in (base[1], other[1])]
            option = _FIELD_OPTIONS.get(name) or name.replace("_", "-")
            changes.append(SettingChange(f"--{option}", *texts))
    return changes


def names_of_settings(
    settings: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
) -> list[str]:
    """Names of settings, given as Flink's keys and the workload, by what differs between them."""
    known = [{**config, **workload, "seed": None} for config, workload in settings]
    keys = dict.fromkeys(key for row in known for key in row)
    rows = [
        {key: "none" if row.get(key) is None else str(row[key]) for key in keys} for row in known
    ]
    differ = [key for key in keys if len({row[key] for row in rows}) > 1]
    varied = [key for key in differ if key not in _NAMES] or differ
    texts = [{short_name(key): row[key].replace(" ", "") for key in varied} for row in rows]
    return [setting_name(" ".join(map("=".join, each.items()))) for each in texts]


def is_of_buffers(change: SettingChange) -> bool:
    """Whether a change affects the number of buffers."""
    key = change.name
    is_number = key.startswith("taskmanager.network.memory.") and "-per-" in key
    return is_number or key == NETWORK_MEMORY


def _differ(base: Mapping[str, Any], other: Mapping[str, Any], name: str) -> bool:
    """Whether both have values of this name that differ; a tuple equals a list, as in JSON."""
    return name in base and name in other and _plain(base[name]) != _plain(other[name])


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, tuple | list) else value


def _text(key: str, value: Any) -> str | None:
    if value is None:
        return None
    if key == flink.NETWORK_MIN and str(value).endswith(" b"):
        return f"{value} ({human_bytes(float(str(value).removesuffix(' b')))})"
    return str(value)


def read_config(text: str) -> tuple[str, options.Settings]:
    """The name and settings of one configuration argument."""
    if text == "base":
        return text, options.Settings()
    path = Path(text if Path(text).exists() else text.rpartition("#")[0] or text)
    name, colon, assignments = text.partition(":")
    if colon and path.suffix in _SUFFIXES and "=" not in text and not path.exists():
        return name.strip(), read_config(assignments)[1]
    if path.suffix == ".toml":
        return text, _read_toml(path)
    if path.suffix in _SUFFIXES:
        read = options.read_cluster_conf(text)
        if not read.network and not read.warnings:
            raise ConfigError(f"{path}: has no keys; to compare default settings, write base")
        of_total = options.total_warning(text, read.network)
        return text, replace(read, warnings=(*read.warnings, *of_total))
    if not colon or "=" in name:
        name, assignments = text, text
    if "=" not in assignments:
        raise ConfigError(
            f"{text}: no configuration; give base, key=value, name:key=value, a .toml or a .yaml"
        )
    # A comma separates settings only if another key= follows that is no parameter of a link.
    parts = re.split(rf",(?=(?!(?:{'|'.join(PARAMETERS)})=)[^,=]+=)", assignments)
    pairs = dict(flink.parse_assignment(part) for part in parts)
    return name.strip(), options.settings_from(pairs, source=text)


def _read_toml(path: Path) -> options.Settings:
    advice = "it must be a TOML file with the tables [network] and [workload]"
    try:
        document = tomllib.loads(flink.text_of(path, advice))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ConfigError(f"{path}: cannot be read as TOML: {why}") from None
    strange = set(document) - {"network", "workload"}
    if strange or not all(isinstance(table, dict) for table in document.values()):
        named = ", ".join(sorted(strange or document))
        raise ConfigError(f"{path}: {named}: only the tables [network] and [workload] are known")
    pairs = dict(flink.flatten(document.get("network", {})))
    for name, value in document.get("workload", {}).items():
        pairs[name] = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    if not pairs:
        raise ConfigError(f"{path}: has no keys; to compare default settings, write base")
    return options.settings_from(pairs, source=str(path))
