"""The effective configuration as a terminal table and as a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flinknet.options import EffectiveKey
from flinknet.results import RunWarning
from flinknet.units import MISSING

from .console import print_line
from .warning_lines import print_setting_notes

SCHEMA_VERSION = 1
"""Version of the document; history: 1, the first."""


WIDTH_FOR_WHOLE_KEYS = 120
"""Width of a terminal on which a key fits in one line with everything about it."""

_COLUMNS = ("value", "origin", "type")


@dataclass(frozen=True, slots=True)
class EffectiveConfig:
    """Effective configuration of one setting of a sweep.

    Attributes:
        name: of the setting; empty for a single one.
        memory: a line for each TaskManager: its network memory, and the need of its tasks.
    """

    name: str
    keys: Sequence[EffectiveKey]
    memory: Sequence[Mapping[str, int]]
    warnings: Sequence[RunWarning]


def print_configs(console: Console, configs: Sequence[EffectiveConfig]) -> None:
    """Print a table for each setting, by groups, with set and derived keys emphasised; above them,
    the keys that are ignored."""
    print_setting_notes(console, [(each.name, each.warnings) for each in configs])
    for config in configs:
        if config.name:
            console.print(Text(config.name, style="bold"))
        if console.width >= WIDTH_FOR_WHOLE_KEYS:
            console.print(_key_table(config.keys))
        else:
            for line in _key_lines(config.keys):
                console.print(line, soft_wrap=True)  # a key is copied whole
        derived = [each for each in config.keys if each.how]
        for number, each in enumerate(derived, start=1):
            print_line(console, f"[{number}] {each.key}: {each.how}")
        console.print(
            Text("acts: whether flinknet acts on the key; the others are Flink's alone.\n")
        )
        console.print(_memory_table(config.memory))


def config_document(configs: Sequence[EffectiveConfig]) -> dict[str, Any]:
    """The document that `flinknet bench config --json` writes."""
    return {"schema_version": SCHEMA_VERSION, "configs": [asdict(each) for each in configs]}


def _key_table(keys: Sequence[EffectiveKey]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("key", no_wrap=True)
    for column in _COLUMNS:
        table.add_column(column, overflow="fold")
    table.add_column("acts", no_wrap=True)
    for group, rows in _groups_of(keys):
        table.add_row("")
        table.add_row(Text(group, style="bold"))
        for row in rows:
            acts = "yes" if row.acts else MISSING
            table.add_row(Text(row.key), *map(Text, row.cells), acts, style=row.style)
    table.add_row("")
    return table


def _key_lines(keys: Sequence[EffectiveKey]) -> Iterator[Text]:
    """Print the settings for a narrow terminal: each key whole, on a line that can be copied, and
    the rest below it."""
    widths = (16, 16)
    head = [f"{name:<{width}}" for name, width in zip(_COLUMNS, widths, strict=False)]
    yield Text("key")
    yield Text("  " + "  ".join([*head, f"{_COLUMNS[-1]}, acts"]))
    for group, rows in _groups_of(keys):
        yield Text(f"\n{group}", style="bold")
        for row in rows:
            yield Text(row.key, style=row.style or "")
            first = [f"{cell:<{width}}" for cell, width in zip(row.cells, widths, strict=False)]
            rest = row.cells[-1] + (", acts" if row.acts else "")
            yield Text("  " + "  ".join([*first, rest]), style=row.style or "")
    yield Text("")


@dataclass(frozen=True, slots=True)
class _Row:
    """A key with its cells under `_COLUMNS`."""

    key: str
    cells: tuple[str, str, str]
    acts: bool
    style: str | None


def _groups_of(keys: Sequence[EffectiveKey]) -> Iterator[tuple[str, list[_Row]]]:
    """Rows of each group; set and derived keys have a style."""
    derived = 0
    for group, members in groupby(keys, key=lambda each: each.group):
        rows = []
        for each in members:
            derived += bool(each.how)
            limits = () if each.type == "choice" else each.limits
            is_given = not each.origin.startswith(("default", "fixed"))
            origin = f"{each.origin} [{derived}]" if each.how else each.origin
            cells = (each.value, origin, " ".join((each.type, *limits)))
            rows.append(_Row(each.key, cells, each.is_acted_on, "cyan" if is_given else None))
        yield group, rows


def _memory_table(memory: Sequence[Mapping[str, int]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    columns = ("TaskManager", "buffers", "exclusive", "required by pools", "spare")
    for column in columns:
        table.add_column(column, justify="right")
    for each in memory:
        table.add_row(*(str(value) for value in each.values()))
    return table
