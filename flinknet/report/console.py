"""Results as tables on a terminal: what was measured, what limited it, what to doubt."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from flinknet.results import (
    DISTURBED,
    P99_DISTURBED,
    BlockingExchange,
    ChannelMeasured,
    Measured,
    ProcessorUse,
    RunResult,
    RunWarning,
    VertexTimes,
    Wiring,
)
from flinknet.units import (
    human_bytes,
    human_count,
    human_duration,
)

from .checkpoint_table import checkpoint_table
from .debloating_lines import debloating_lines
from .live import channel_name
from .number_table import (
    UNNAMED_SETTING,
    NumberColumn,
    number_table,
)
from .plain_text import printable

WIDTH_OFF_TERMINAL = 140

CHANNELS_SHOWN = 16

OTHERS_SHOWN = 3

_NUMBER = re.compile(
    r"(?<![\w./:=#])(?<![\w.]-)\d++(?:\.\d++)?+(?: [kMG]\b)?+(?![\w-]*(?:/(?!s\b)|\.\w))"
)
"""A number in a sentence with its multiple; not one in a name, a path or an address."""


@dataclass(frozen=True, slots=True)
class Setting:
    """All runs of one configuration."""

    name: str
    results: Sequence[RunResult]


class TerminalConsole(Console):
    """A console that prints its own control sequences and none that are in what it prints: names
    and texts come from files that others have written.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Take control characters, which have no width, out of every piece of text."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def console_for(stream: IO[str]) -> Console:
    """A console that does not squeeze tables into 80 columns where there is no terminal, unless
    COLUMNS sets its width."""
    console = TerminalConsole(file=stream, highlight=False)
    if console.is_terminal or os.environ.get("COLUMNS", "").isdecimal():
        return console
    return TerminalConsole(file=stream, highlight=False, width=WIDTH_OFF_TERMINAL)


def print_bench(console: Console, settings: Sequence[Setting]) -> None:
    """The result table, the channels of a single run, and one sentence for each setting."""
    console.print(bench_table(settings, console.width))
    if not settings[0].name and 1 < len(settings[0].results[-1].channels) <= CHANNELS_SHOWN:
        console.print(channel_table(settings[0].results[-1].channels, console.width))
    lines = (_wiring_of(result) for setting in settings for result in setting.results)
    for line in dict.fromkeys(line for line in lines if line):
        console.print(Text(line))
    checkpoints = [
        (setting.name, [x.measured.checkpoints for x in setting.results if x.measured.checkpoints])
        for setting in settings
    ]
    if any(runs for _, runs in checkpoints):
        console.print(checkpoint_table(checkpoints, console.width))
    for line in limit_lines(settings):
        console.print(Text(line), soft_wrap=True)
    for setting in settings:
        for line in debloating_lines(setting.name, setting.results[-1].debloating):
            console.print(Text(line), soft_wrap=True)
        for exchange in setting.results[-1].blocking:
            console.print(Text(_blocking_line(setting.name, exchange)), soft_wrap=True)
        if line := _deployment_line(setting.name, setting.results[-1].deployments):
            console.print(Text(line), soft_wrap=True)
    print_warnings(console, settings)


def limit_lines(settings: Sequence[Setting]) -> list[str]:
    """What limited each setting, in its last run; settings with the same limit share a line."""
    groups: dict[str, list[Setting]] = {}
    for setting in settings:
        groups.setdefault(_NUMBER.sub("", setting.results[-1].limited_by), []).append(setting)
    lines = []
    for same in groups.values():
        sentence = merged_text([setting.results[-1].limited_by for setting in same])
        names = ", ".join(setting.name for setting in same if setting.name)
        if len(same) == len(settings) > 1:
            names = "All settings"
        lines.append(f"{names}: limited by {sentence}" if names else f"Limited by {sentence}")
    return lines


def merged_text(texts: Sequence[str]) -> str:
    """One text for several that differ in their numbers alone, with their ranges."""
    rows = [list(_NUMBER.finditer(text)) for text in texts]
    merged, end = "", 0
    for column in zip(*rows, strict=True):
        numbers = sorted({match[0] for match in column}, key=_value)
        merged += texts[0][end : column[0].start()]
        merged += numbers[0] if len(numbers) == 1 else f"{numbers[0]} … {numbers[-1]}"
        end = column[0].end()
    return merged + texts[0][end:]


def _value(number: str) -> float:
    digits, _, multiple = number.partition(" ")
    return float(digits) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[multiple]


def _blocking_line(name: str, exchange: BlockingExchange) -> str:
    """The two phases of a blocking exchange in one line."""
    where = f"{name}: written" if name else "Written"
    stored = "as they are"
    if exchange.codec != "NONE" and exchange.data_bytes:
        share = exchange.stored_bytes / exchange.data_bytes
        size = human_bytes(exchange.stored_bytes)
        stored = f"compressed with {exchange.codec} to {size} ({share:.1%})"
    return (
        f"{where} in {human_duration(exchange.write_duration_ns)}"
        f" ({human_count(exchange.written_records_per_s)} records/s), read in"
        f" {human_duration(exchange.read_duration_ns)}"
        f" ({human_count(exchange.read_records_per_s)} records/s):"
        f" {human_bytes(exchange.data_bytes)} in buffers, {stored}."
    )


def _deployment_line(name: str, deployments: Mapping[str, VertexTimes]) -> str:
    """When each stage was deployed, and what it had waited for; empty if all were at once."""
    known = {vertex: each for vertex, each in deployments.items() if each.deployed_ns is not None}
    if len({each.deployed_ns for each in known.values()}) < 2:
        return ""
    parts = []
    for vertex, each in known.items():
        ends = [
            f"{what} after {human_duration(at_ns)}"
            for what, at_ns in (
                ("first output", each.first_output_ns),
                ("finished", each.finished_ns),
            )
            if at_ns is not None
        ]
        ended = f" ({', '.join(ends)})" if ends else ""
        when = f"after {human_duration(each.deployed_ns)}" if each.deployed_ns else "at once"
        parts.append(f"{vertex} {when}{ended}")
    begin = f"{name}: deployed" if name else "Deployed"
    return f"{begin} {', '.join(parts)}."


def bench_table(settings: Sequence[Setting], width: int = WIDTH_OFF_TERMINAL) -> Table:
    """One row for each setting; with several runs each cell is their median."""
    runs = max(len(setting.results) for setting in settings)
    rows = [
        (setting.name or UNNAMED_SETTING, [result.measured for result in setting.results])
        for setting in settings
    ]
    title = f"medians of {runs} runs" if runs > 1 else None
    return number_table("setting", MEASURED_COLUMNS, rows, width, title=title)


def channel_table(channels: Iterable[ChannelMeasured], width: int = WIDTH_OFF_TERMINAL) -> Table:
    """One row for each channel."""
    shown = list(channels)
    has_edges = any(each.edge for each in shown)
    rows = [(channel_name(each, has_edges=has_edges), [each]) for each in shown]
    return number_table("channel", _CHANNEL_COLUMNS, rows, width)


def _wiring_of(result: RunResult) -> str | None:
    """Nothing where all goes over one connection, as it does by default."""
    wiring = result.wiring
    if wiring is None or (not wiring.local_channels and len(wiring.connections) == 1):
        return None
    return wiring_line(wiring)


def wiring_line(wiring: Wiring) -> str:
    """How many channels are local and remote, and what the remote ones share."""
    connections = len(wiring.connections)
    over = f" over {connections} connection{'s' if connections != 1 else ''}" if connections else ""
    return f"Channels: {wiring.local_channels} local, {wiring.remote_channels} remote{over}."


def print_warnings(console: Console, settings: Sequence[Setting]) -> None:
    """What to doubt of these runs, and which other processes disturbed them."""
    results = [(setting.name, result) for setting in settings for result in setting.results]
    lines = warning_lines([(name, result.warnings) for name, result in results])
    lines += other_process_lines([(result.processors, result.warnings) for _, result in results])
    for line in lines:
        console.print(line, soft_wrap=True)


def warning_lines(runs: Sequence[tuple[str, Sequence[RunWarning]]]) -> list[Text]:
    """One line for each kind of warning: its text, how many runs and which settings.

    Texts that differ in their numbers alone are of one kind, and shown with their ranges.

    Args:
        runs: of each run the name of its setting, and its warnings.
    """
    by_kind: dict[tuple[str, str], list[tuple[str, RunWarning]]] = {}
    for name, warnings in runs:
        kinds = {(each.code, _NUMBER.sub("", each.text)): each for each in warnings}
        for kind, warning in kinds.items():
            by_kind.setdefault(kind, []).append((name, warning))
    lines = []
    for each in by_kind.values():
        where = ""
        if len(runs) > 1:
            names = ", ".join(dict.fromkeys(name for name, _ in each if name))
            where = f" in {len(each)} of {len(runs)} runs" + (f" ({names})" if names else "")
        text = f"{where}: {merged_text([warning.text for _, warning in each])}"
        lines.append(Text.assemble(("Warning", "yellow"), text))
    return lines


def other_process_lines(
    runs: Sequence[tuple[ProcessorUse | None, Sequence[RunWarning]]],
) -> list[Text]:
    """Which processes disturbed runs, with the most of a core that each took of one run.

    Args:
        runs: of each run the use of the processors, and its warnings.
    """
    most: dict[str, float] = {}
    for use, warnings in runs:
        if use is None or not any(each.code in (DISTURBED, P99_DISTURBED) for each in warnings):
            continue
        for name, share in {**use.others_share, "the host": use.host_share or 0.0}.items():
            most[name] = max(share, most.get(name, 0.0))
    longest = sorted(((-share, name) for name, share in most.items() if share))[:OTHERS_SHOWN]
    shares = ", ".join(f"{name} used {-share:.2g} cores" for share, name in longest)
    return [Text(f"Other processes: {shares}.")] if shares else []


MEASURED_COLUMNS: Sequence[NumberColumn[Measured]] = (
    NumberColumn("", "records/s", lambda m: m.throughput_records_per_s, human_count, 1),
    NumberColumn("", "bytes/s", lambda m: m.throughput_bytes_per_s, human_bytes, 9),
    NumberColumn("", "buffers/s", lambda m: m.buffers / m.duration_ns * 1e9, human_count, 2),
    NumberColumn("latency", "p50", lambda m: m.latency_ns.p50, human_duration, 3),
    NumberColumn("latency", "p99", lambda m: m.latency_ns.p99, human_duration, 0),
    NumberColumn("latency", "max", lambda m: m.latency_ns.max, human_duration, 5),
    NumberColumn("uncorrected", "p50", lambda m: m.latency_uncorrected_ns.p50, human_duration, 8),
    NumberColumn("uncorrected", "p99", lambda m: m.latency_uncorrected_ns.p99, human_duration, 6),
    NumberColumn("backlog", "mean", lambda m: m.backlog_buffers.mean, human_count, 4),
    NumberColumn("backlog", "max", lambda m: m.backlog_buffers.max, human_count, 7),
)


_CHANNEL_COLUMNS: Sequence[NumberColumn[ChannelMeasured]] = (
    NumberColumn("", "records", lambda c: c.records, human_count, 5),
    NumberColumn("", "records/s", lambda c: c.throughput_records_per_s, human_count, 0),
    NumberColumn("latency", "p50", lambda c: c.latency_ns.p50, human_duration, 3),
    NumberColumn("latency", "p99", lambda c: c.latency_ns.p99, human_duration, 1),
    NumberColumn("backlog", "mean", lambda c: c.backlog_buffers.mean, human_count, 2),
    NumberColumn("backlog", "max", lambda c: c.backlog_buffers.max, human_count, 4),
)
