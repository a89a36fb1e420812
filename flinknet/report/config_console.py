"""The effective configuration as a terminal table and as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flinknet.options import EffectiveKey
from flinknet.results import RunWarning
from flinknet.units import MISSING

SCHEMA_VERSION = 1
"""Version of the document; history: 1, the first."""


WIDTH_FOR_WHOLE_KEYS = 120
"""Of a terminal in which a key fits in one line."""


@dataclass(frozen=True, slots=True)
class EffectiveConfig:
    """What holds for one setting of a sweep.

    Attributes:
        name: of the setting; empty for a single one.
        memory: a line for each TaskManager: what it has and what its tasks need.
    """

    name: str
    keys: Sequence[EffectiveKey]
    memory: Sequence[Mapping[str, int]]
    warnings: Sequence[RunWarning]


def print_configs(console: Console, configs: Sequence[EffectiveConfig]) -> None:
    """A table for each setting, by groups; what was set or derived stands out."""
    for config in configs:
        if config.name:
            console.print(Text(config.name, style="bold"))
        console.print(_key_table(config.keys, is_wide=console.width >= WIDTH_FOR_WHOLE_KEYS))
        derived = [each for each in config.keys if each.how]
        for number, each in enumerate(derived, start=1):
            console.print(Text(f"[{number}] {each.key}: {each.how}"), soft_wrap=True)
        console.print(
            Text("acts: whether flinknet acts on the key; the others are Flink's alone.\n")
        )
        console.print(_memory_table(config.memory))
        for warning in config.warnings:
            console.print(Text(f"! {warning.text}", style="yellow"), soft_wrap=True)


def config_document(configs: Sequence[EffectiveConfig]) -> dict[str, Any]:
    """What `flinknet bench config --json` writes."""
    return {"schema_version": SCHEMA_VERSION, "configs": [asdict(each) for each in configs]}


def _key_table(keys: Sequence[EffectiveKey], *, is_wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("key", no_wrap=is_wide, overflow="fold")
    for column in ("value", "origin", "type"):
        table.add_column(column, overflow="fold")
    table.add_column("acts", no_wrap=True)
    derived = 0
    for group, members in groupby(keys, key=lambda each: each.group):
        table.add_row("")
        table.add_row(Text(group, style="bold"))
        for each in members:
            derived += bool(each.how)
            limits = () if each.type == "choice" else each.limits
            is_given = not each.origin.startswith(("default", "fixed"))
            table.add_row(
                Text(each.key),
                Text(each.value),
                Text(f"{each.origin} [{derived}]" if each.how else each.origin),
                Text(" ".join((each.type, *limits))),
                "yes" if each.is_acted_on else MISSING,
                style="cyan" if is_given else None,
            )
    table.add_row("")
    return table


def _memory_table(memory: Sequence[Mapping[str, int]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    columns = ("TaskManager", "buffers", "exclusive", "required by pools", "spare")
    for column in columns:
        table.add_column(column, justify="right")
    for each in memory:
        table.add_row(*(str(value) for value in each.values()))
    return table
