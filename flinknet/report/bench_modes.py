"""Other modes of bench on a terminal: its effective configuration, and an exchange with a
TaskManager of Flink."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.text import Text

from flinknet.options import EffectiveKey
from flinknet.results import PeerChannel, PeerResult, RunWarning
from flinknet.units import MISSING, counted, human_count, human_duration

from .console import print_line, print_part
from .page_parts import WIDTH, Column, Lines, Row, Sentence, Table, View, heads, table_of
from .warning_lines import doubts_of_runs, print_setting_notes, trust_words

SCHEMA_VERSION = 1
"""Version of the document; history: 1, the first."""


_WIDTHS = (20, 19, 16)
"""Columns of value, origin and type."""


@dataclass(frozen=True, slots=True)
class EffectiveConfig:
    """Effective configuration of one setting of a sweep."""

    name: str  # of the setting; empty for a single one
    keys: Sequence[EffectiveKey]
    memory: Sequence[Mapping[str, int]]  # of each TaskManager, and the need of its tasks
    warnings: Sequence[RunWarning]


def print_configs(console: Console, configs: Sequence[EffectiveConfig]) -> None:
    """Print all keys for each setting, by groups, with the given ones emphasised; above them, those
    that are ignored. A narrow terminal shows each key on a line of its own, to be copied whole."""
    print_setting_notes(console, [(each.name, each.warnings) for each in configs])
    longest = max(len(each.key) for each in configs[0].keys)
    width, between = (longest, "  ") if console.width >= WIDTH else (0, "\n  ")

    def print_key(key: str, *cells: str, style: str = "") -> None:
        rest = "  ".join(f"{cell:<{x}}" for cell, x in zip(cells, (*_WIDTHS, 0), strict=True))
        console.print(Text(f"{key:<{width}}{between}{rest.rstrip()}", style), soft_wrap=True)

    for config in configs:
        if config.name:
            console.print(Text(config.name, style="bold"))
        derived = 0
        print_key("key", "value", "origin", "type", "acts")
        for group, keys in groupby(config.keys, key=lambda each: each.group):
            console.print(Text(f"\n{group}", style="bold"))
            for each in keys:
                derived += bool(each.how)
                origin = f"{each.origin} [{derived}]" if each.how else each.origin
                limits = () if each.type == "choice" else each.limits
                is_given = not each.origin.startswith(("default", "fixed"))
                kind, acts = " ".join((each.type, *limits)), "yes" if each.is_acted_on else MISSING
                style = "cyan" if is_given else ""
                print_key(each.key, each.value, origin, kind, acts, style=style)
        console.print()
        how = [each for each in config.keys if each.how]
        for number, each in enumerate(how, start=1):
            print_line(console, f"[{number}] {each.key}: {each.how}")
        console.print("acts: whether flinknet acts on the key; the others are Flink's alone.\n")
        if rows := [Row([str(value) for value in each.values()]) for each in config.memory]:
            names = heads("TaskManager", "buffers", "exclusive", "required by pools", "spare")
            print_part(console, Table(names, rows))


def config_document(configs: Sequence[EffectiveConfig]) -> dict[str, Any]:
    """The document that `flinknet bench config --json` writes."""
    return {"schema_version": SCHEMA_VERSION, "configs": [asdict(each) for each in configs]}


def peer_view(result: PeerResult) -> View:
    """The view of an exchange with Flink: the whole, faults in the records, and each channel."""
    is_consumer, seconds = result.role == "consumer", result.elapsed_ns / 1e9
    rate = f" ({human_count(result.records / seconds)}/s)" if seconds > 0 else ""
    measured = [
        f"{result.role}, {'producer at' if is_consumer else 'listening on'} {result.peer}",
        f"{counted(result.records, 'record')} in {human_duration(result.elapsed_ns)}{rate}",
        *([f"layout {result.layout}"] if result.layout is not None else []),
    ]
    faults = list(_faults(result))
    is_checked = any(channel.lost is not None for channel in result.channels)
    sound = "every record that came did so once and in order"
    verdict = faults or [sound if is_checked else "records were counted, not checked"]
    grade = "wrong" if faults else "failed" if result.end == "failed" else "ended"
    doubts = doubts_of_runs([("", result.warnings)])
    traced = result.trace is not None
    following = f"flinknet trace info {result.trace}" if traced else "--trace records every message"
    events = []
    for each in result.channels:
        counts = ", ".join(f"{name} {count}" for name, count in each.events.items())
        events.append(f"channel {each.index}: {counts or 'no events'}")
    return View(
        [
            Sentence("measured", measured),
            Sentence("verdict", [f"{grade}: {result.end}", *verdict], takes_rest=True),
            Sentence("trust", trust_words(doubts, good="no other process disturbed it")),
            Sentence("next", [following]),
        ],
        [
            _channel_table(result),
            Lines([*events, *doubts_of_runs([("", result.warnings)], is_explained=True)]),
        ],
    )


def _channel_table(result: PeerResult) -> Table:
    def partition(channel: PeerChannel) -> str:
        number = channel.partition.partition("#")[2].partition("@")[0]
        return f"{channel.partition[:8]}…#{number} [{channel.subpartition}]"

    columns: Mapping[str, Column] = {
        "channel": "index",
        "partition": partition,
        **{"records": "records", "value bytes": "value_bytes", "buffers": "buffers"},
        **{"bytes": "buffer_bytes", "credit": "credit", "AddCredits": "credit_messages"},
        "backlog max": "backlog_max",
    }
    return table_of(result.channels, columns, keys=2)


def _faults(result: PeerResult) -> Iterator[str]:
    for channel in result.channels:
        if channel.other_elements:
            yield f"channel {channel.index}: {channel.other_elements} elements that are not records"
        known = (channel.lost, channel.repeated, channel.reordered)
        wrong = zip(("lost", "repeated", "out of order"), known, strict=True)
        if faults := ", ".join(f"{count} {name}" for name, count in wrong if count):
            yield f"channel {channel.index}: {faults}"
