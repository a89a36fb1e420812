"""Configurations as a user names them: `base`, a set of keys, a TOML file, a config.yaml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from flinknet import options as flink
from flinknet.config import WorkloadConfig
from flinknet.errors import ConfigError
from flinknet.results import RunWarning

from .option_tables import WORKLOAD_OPTIONS
from .options import Settings, scenario_of, settings_from
from .sweep import Plan

_HOW = frozenset(("partition-type", "scheduling", "partitioner"))
"""Bench options that say how the work is done, not what work."""

_WORKLOAD_FIELDS = frozenset(field.name for field in fields(WorkloadConfig))


def plan_configs(configs: Sequence[str], base: Settings, seed: int) -> list[Plan]:
    """One plan for each configuration, on top of the options of the call."""
    if len(configs) < 2:
        raise ConfigError(
            "compare-configs: give two configurations or more, such as base buffer-timeout=5ms"
        )
    plans: list[Plan] = []
    for text in configs:
        name, settings = read_config(text)
        merged = settings.over(base)
        if swept := flink.swept_keys(merged.network):
            raise ConfigError(f"{text}: {swept[0]} has several values; a config has one of each")
        scenario, warnings = scenario_of(merged, seed)
        names = {plan.name for plan in plans}
        if name in names:  # files of one stem are named by their paths
            name = f"{name} ({len(plans) + 1})" if text in names else text
        plan = Plan(name, scenario, warnings)
        if plans and (unlike := unlike_options(plans[0], plan)):
            plan = replace(plan, warnings=(*warnings, _unlike_warning(plans[0], plan, unlike)))
        plans.append(plan)
    return plans


def unlike_options(base: Plan, plan: Plan) -> list[str]:
    """The bench options that give a plan other work than the base has: rates, sizes, numbers of
    tasks, delays, and how long they run. A comparison then shows what the work does, too.
    """
    workload, other = plan.scenario.workload, base.scenario.workload
    unlike = [
        name
        for name, option in WORKLOAD_OPTIONS.items()
        if name not in _HOW
        and option.field in _WORKLOAD_FIELDS
        and getattr(workload, option.field) != getattr(other, option.field)
    ]
    if workload.is_broadcast != other.is_broadcast:  # each record goes to all consumers, or to one
        unlike.append("partitioner")
    return unlike


def _unlike_warning(base: Plan, plan: Plan, unlike: Sequence[str]) -> RunWarning:
    return RunWarning(
        "unlike-workload",
        f"{plan.name} has another workload than {base.name} ({', '.join(unlike)}), so the"
        " differences may come from the workload; give every configuration the same one.",
    )


def read_config(text: str) -> tuple[str, Settings]:
    """The name and settings of one configuration argument."""
    if text == "base":
        return text, Settings()
    path = Path(text)
    if path.suffix == ".toml":
        return path.stem, _read_toml(path)
    if path.suffix in (".yaml", ".yml"):
        network, warnings = flink.read_flink_conf(path)
        return path.stem, Settings(network, {}, warnings)
    name, colon, assignments = text.partition(":")
    if not colon or "=" in name:
        name, assignments = text, text
    if "=" not in assignments:
        raise ConfigError(
            f"{text}: no configuration; give base, key=value, name:key=value, a .toml or a .yaml"
        )
    # A comma separates settings only where another key= follows it.
    parts = re.split(r",(?=[^,=]+=)", assignments)
    pairs = dict(flink.parse_assignment(part) for part in parts)
    return name.strip(), settings_from(pairs, source=text)


def _read_toml(path: Path) -> Settings:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: no such file; it must be a TOML file with the tables [network] and [workload]"
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as TOML: {error}") from None
    strange = set(document) - {"network", "workload"}
    if strange or not all(isinstance(table, dict) for table in document.values()):
        named = ", ".join(sorted(strange or document))
        raise ConfigError(f"{path}: {named}: only the tables [network] and [workload] are known")
    pairs = dict(flink.flatten(document.get("network", {})))
    for name, value in document.get("workload", {}).items():
        pairs[name] = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return settings_from(pairs, source=str(path))
