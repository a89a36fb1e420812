"""Results as tables on a terminal: what was measured, what limited it, what to doubt."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import IO, Generic, TypeVar

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from flinknet.comparison import Difference, Outcome, Verdict
from flinknet.results import (
    DISTURBED,
    P99_DISTURBED,
    BlockingExchange,
    ChannelMeasured,
    Measured,
    ProcessorUse,
    RunResult,
    Warning,
    Wiring,
)
from flinknet.units import (
    MISSING,
    format_percent,
    human_bytes,
    human_count,
    human_duration,
)

from .channel_name import channel_name
from .checkpoint_table import checkpoint_table
from .debloating_lines import debloating_lines
from .printable import printable

WIDTH_OFF_TERMINAL = 140
WIDTH_FOR_ALL = 125
"""Of a terminal that has room for every column."""

CHANNELS_SHOWN = 16

OTHERS_SHOWN = 3

MEDIAN_WIDTH = 8
"""Of a number with its unit; the names of configurations above are folded."""

_T = TypeVar("_T")

_NUMBER = re.compile(r"\d+(\.\d+)?( [kMG])?")

_VERDICT_STYLES = {Verdict.BETTER: "green", Verdict.WORSE: "red"}
_OUTCOME_STYLES = {Outcome.PASS: "green", Outcome.REGRESSION: "red", Outcome.INCONCLUSIVE: "yellow"}


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
    COLUMNS says how wide it shall be."""
    console = TerminalConsole(file=stream, highlight=False)
    if console.is_terminal or os.environ.get("COLUMNS", "").isdecimal():
        return console
    return TerminalConsole(file=stream, highlight=False, width=WIDTH_OFF_TERMINAL)


def print_bench(console: Console, settings: Sequence[Setting]) -> None:
    """The result table, the channels of a single run, and one sentence for each setting."""
    console.print(bench_table(settings, console.width))
    if not settings[0].name and 1 < len(settings[0].results[-1].channels) <= CHANNELS_SHOWN:
        console.print(channel_table(settings[0].results[-1].channels, console.width))
    lines = (_told_wiring(result) for setting in settings for result in setting.results)
    for line in dict.fromkeys(line for line in lines if line):
        console.print(Text(line))
    checkpoints = [
        (setting.name, [x.measured.checkpoints for x in setting.results if x.measured.checkpoints])
        for setting in settings
    ]
    if any(found for _, found in checkpoints):
        console.print(checkpoint_table(checkpoints, console.width))
    for line in limit_lines(settings):
        console.print(Text(line), soft_wrap=True)
    for setting in settings:
        for line in debloating_lines(setting.name, setting.results[-1].debloating):
            console.print(Text(line), soft_wrap=True)
        for exchange in setting.results[-1].blocking:
            console.print(Text(_told(setting.name, exchange)), soft_wrap=True)
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
    told, end = "", 0
    for column in zip(*rows, strict=True):
        numbers = sorted({match[0] for match in column}, key=_value)
        told += texts[0][end : column[0].start()]
        told += numbers[0] if len(numbers) == 1 else f"{numbers[0]} … {numbers[-1]}"
        end = column[0].end()
    return told + texts[0][end:]


def _value(number: str) -> float:
    digits, _, multiple = number.partition(" ")
    return float(digits) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[multiple]


def _told(name: str, exchange: BlockingExchange) -> str:
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


def bench_table(settings: Sequence[Setting], width: int = WIDTH_OFF_TERMINAL) -> Table:
    """One row for each setting; with several runs each cell is their median.

    A narrow terminal gets the columns that answer most; numbers are never cut.
    """
    runs = max(len(setting.results) for setting in settings)
    columns = [column for column in _COLUMNS if column.is_essential or width >= WIDTH_FOR_ALL]
    table = Table(box=box.SIMPLE, title=_title(runs), title_justify="left")
    table.add_column("\nsetting", overflow="fold")
    for column in columns:
        table.add_column(column.name, justify="right", no_wrap=True)
    for setting in settings:
        measured = [result.measured for result in setting.results]
        cells = [column.show(_typical(map(column.read, measured))) for column in columns]
        table.add_row(setting.name or "as asked", *cells)
    return table


def channel_table(channels: Iterable[ChannelMeasured], width: int = WIDTH_OFF_TERMINAL) -> Table:
    """One row for each channel: who is slow stands out. A narrow terminal gets rates alone, no
    totals.
    """
    columns = [each for each in _CHANNEL_COLUMNS if each.is_essential or width >= WIDTH_FOR_ALL]
    table = Table(box=box.SIMPLE)
    table.add_column("\nchannel", no_wrap=True)
    for column in columns:
        table.add_column(column.name, justify="right", no_wrap=True)
    shown = list(channels)
    has_edges = any(each.edge for each in shown)
    for each in shown:
        cells = [column.show(column.read(each)) for column in columns]
        table.add_row(channel_name(each, has_edges=has_edges), *cells)
    return table


def _told_wiring(result: RunResult) -> str | None:
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
    """What to doubt of these runs, and who else ran beside those that were disturbed."""
    results = [(setting.name, result) for setting in settings for result in setting.results]
    lines = warning_lines([(name, result.warnings) for name, result in results])
    lines += bystander_lines([(result.processors, result.warnings) for _, result in results])
    for line in lines:
        console.print(line, soft_wrap=True)


def warning_lines(runs: Sequence[tuple[str, Sequence[Warning]]]) -> list[Text]:
    """One line for each kind of warning: its text, how many runs and which settings.

    Texts that differ in their numbers alone are of one kind, and told with the range of these.

    Args:
        runs: of each run the name of its setting, and its warnings.
    """
    found: dict[tuple[str, str], list[tuple[str, Warning]]] = {}
    for name, warnings in runs:
        kinds = {(each.code, _NUMBER.sub("", each.text)): each for each in warnings}
        for kind, warning in kinds.items():
            found.setdefault(kind, []).append((name, warning))
    lines = []
    for each in found.values():
        where = ""
        if len(runs) > 1:
            names = ", ".join(dict.fromkeys(name for name, _ in each if name))
            where = f" in {len(each)} of {len(runs)} runs" + (f" ({names})" if names else "")
        text = f"{where}: {merged_text([warning.text for _, warning in each])}"
        lines.append(Text.assemble(("Warning", "yellow"), text))
    return lines


def bystander_lines(
    runs: Sequence[tuple[ProcessorUse | None, Sequence[Warning]]],
) -> list[Text]:
    """Who ran beside the runs that were disturbed, with the most of a core that each took of one.

    Args:
        runs: of each run who had the processors, and its warnings.
    """
    most: dict[str, float] = {}
    for use, warnings in runs:
        if use is None or not any(each.code in (DISTURBED, P99_DISTURBED) for each in warnings):
            continue
        for name, share in {**use.others_share, "the host": use.host_share or 0.0}.items():
            most[name] = max(share, most.get(name, 0.0))
    longest = sorted(((-share, name) for name, share in most.items() if share))[:OTHERS_SHOWN]
    told = ", ".join(f"{name} {-share:.1%}" for share, name in longest)
    return [Text(f"Beside it ran: {told} of a core.")] if told else []


def print_comparison(
    console: Console,
    base: str,
    candidate: str,
    differences: Mapping[str, Difference],
    units: Mapping[str, str],
    confidence: float,
) -> None:
    """One row for each metric: both medians, the change with its interval, the verdict.

    On a narrow terminal intervals and columns are closer; numbers are never cut.
    """
    is_narrow = console.width < WIDTH_FOR_ALL
    title = f"{candidate} against {base}"
    table = Table(box=box.SIMPLE, title=title, title_justify="left", pad_edge=not is_narrow)
    if is_narrow:
        table.padding = (0, 1, 0, 0)
    table.add_column("metric", no_wrap=True)
    for name in (base, candidate):
        table.add_column(name, justify="right", overflow="fold", min_width=MEDIAN_WIDTH)
    for name in ("change", f"{confidence * 100:g} % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for metric, each in differences.items():
        table.add_row(
            metric,
            _amount(each.base_median, units[metric]),
            _amount(each.candidate_median, units[metric]),
            MISSING if each.change is None else format_percent(each.change),
            _interval(each, is_narrow=is_narrow),
            Text(each.verdict.value, style=_VERDICT_STYLES.get(each.verdict, "")),
        )
    console.print(table)


def print_outcomes(console: Console, outcomes: Iterable[tuple[str, str, Outcome]]) -> None:
    """One line for each limit: candidate, limit, what it came to."""
    for name, limit, outcome in outcomes:
        style = _OUTCOME_STYLES[outcome]
        console.print(Text.assemble((outcome.value, style), f": {name}, fail if {limit}"))


def _title(runs: int) -> str | None:
    return f"medians of {runs} runs" if runs > 1 else None


def _typical(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return median(present) if present else None


@dataclass(frozen=True, slots=True)
class _Column(Generic[_T]):
    """A number of a run or a channel, and how it is told."""

    name: str
    read: Callable[[_T], float | None]
    show: Callable[[float | None], str]
    is_essential: bool = True


_COLUMNS: Sequence[_Column[Measured]] = (
    _Column("\nrecords/s", lambda m: m.throughput_records_per_s, human_count),
    _Column("\nbytes/s", lambda m: m.throughput_bytes_per_s, human_bytes, is_essential=False),
    _Column(
        "buffers/s", lambda m: m.buffers / m.duration_ns * 1e9, human_count, is_essential=False
    ),
    _Column("latency\np50", lambda m: m.latency_ns.p50, human_duration),
    _Column("\np99", lambda m: m.latency_ns.p99, human_duration),
    _Column("\nmax", lambda m: m.latency_ns.max, human_duration, is_essential=False),
    _Column("uncorrected\np50", lambda m: m.latency_uncorrected_ns.p50, human_duration),
    _Column("\np99", lambda m: m.latency_uncorrected_ns.p99, human_duration),
    _Column("backlog\nmean", lambda m: m.backlog_buffers.mean, human_count, is_essential=False),
    _Column("\nmax", lambda m: m.backlog_buffers.max, human_count, is_essential=False),
)


_CHANNEL_COLUMNS: Sequence[_Column[ChannelMeasured]] = (
    _Column("\nrecords", lambda c: c.records, human_count, is_essential=False),
    _Column("\nrecords/s", lambda c: c.throughput_records_per_s, human_count),
    _Column("latency\np50", lambda c: c.latency_ns.p50, human_duration),
    _Column("\np99", lambda c: c.latency_ns.p99, human_duration),
    _Column("backlog\nmean", lambda c: c.backlog_buffers.mean, human_count),
    _Column("\nmax", lambda c: c.backlog_buffers.max, human_count),
)


def _interval(difference: Difference, *, is_narrow: bool) -> str:
    low, high = difference.low, difference.high
    if low is None or high is None:
        return MISSING
    if is_narrow:
        return f"{low * 100:+.1f}…{high * 100:+.1f}"
    return f"{format_percent(low)} … {format_percent(high)}"


def _amount(value: float | None, unit: str) -> str:
    if unit == "ns":
        return human_duration(value)
    return human_bytes(value) if unit == "bytes" else human_count(value)
