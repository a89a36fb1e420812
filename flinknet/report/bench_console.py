"""A bench on a terminal: figures, limits, doubts, and the price of each setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rich.console import Console, Group

from flinknet.config import NetworkConfig
from flinknet.options import effective_flink_keys
from flinknet.results import (
    DISTURBED,
    BlockingExchange,
    ChannelMeasured,
    RunResult,
    Validity,
    VertexTimes,
    Wiring,
    has_given_rate,
)
from flinknet.units import (
    counted,
    human_bytes,
    human_count,
    human_duration,
    run_numbers,
)

from .checkpoint_table import checkpoint_table
from .console import WIDTH_OFF_TERMINAL, print_line
from .debloating_lines import debloating_lines
from .figures import CHANNEL_FIGURES, CPU, RUN_FIGURES
from .live import channel_name
from .load_words import load_line
from .number_table import UNNAMED_SETTING, number_table
from .trade_words import Range, Trade, change_of, ratio_of, trade_sentence
from .warning_lines import merged_text, print_warnings, same_but_for_numbers

CHANNELS_SHOWN = 16

TRADES_SHOWN = 6
"""Settings that are each compared with the base; of more, those that are best in something."""

EXPLAIN = "run it again with --explain; what --json writes has it, too"

MARKS = {Validity.INVALID: "✗ ", Validity.DOUBTFUL: "! ", Validity.VALID: ""}
"""Marks of settings in a table."""

_STYLES = {Validity.INVALID: "red", Validity.DOUBTFUL: "yellow", Validity.VALID: ""}


@dataclass(frozen=True, slots=True)
class Setting:
    """All runs of one configuration, and the number of each in this call; none: unknown."""

    name: str
    results: Sequence[RunResult]
    numbers: Sequence[int] = ()

    @property
    def validity(self) -> Validity:
        """Validity of its worst run."""
        return min(result.validity for result in self.results)

    @property
    def is_disturbed(self) -> bool:
        """Whether most of its runs waited so long for a CPU that all their figures are doubtful."""
        codes = [{each.code for each in result.warnings} for result in self.results]
        disturbed = sum(DISTURBED in each for each in codes)
        return 2 * disturbed > len(self.results)


def print_bench(
    console: Console, settings: Sequence[Setting], *, is_explained: bool = False
) -> None:
    """The result table, the channels of a single run, one sentence on what limited each setting,
    what to doubt, and what the settings of a sweep give and cost.
    """
    console.print(bench_table(settings, console.width))
    if load := load_of(settings):
        print_line(console, load)
    if not settings[0].name and 1 < len(settings[0].results[-1].channels) <= CHANNELS_SHOWN:
        console.print(channel_table(settings[0].results[-1].channels, console.width))
    lines = (_wiring_of(result) for setting in settings for result in setting.results)
    for line in dict.fromkeys(line for line in lines if line):
        print_line(console, line)
    checkpoints = [
        (setting.name, [x.measured.checkpoints for x in setting.results if x.measured.checkpoints])
        for setting in settings
    ]
    if any(runs for _, runs in checkpoints):
        console.print(checkpoint_table(checkpoints, console.width))
    for line in limit_lines(settings):
        print_line(console, line)
    for setting in settings:
        for line in debloating_lines(setting.name, setting.results[-1].debloating):
            print_line(console, line)
        for exchange in setting.results[-1].blocking:
            print_line(console, _blocking_line(setting.name, exchange))
        if line := _deployment_line(setting.name, setting.results[-1].deployments):
            print_line(console, line)
    print_doubts(console, settings, is_explained=is_explained)
    for line in trade_lines(settings):
        print_line(console, line)


def print_doubts(
    console: Console, settings: Sequence[Setting], *, is_explained: bool = False
) -> None:
    """Print doubts about these runs, and the processes that disturbed them."""
    results = [(setting.name, result) for setting in settings for result in setting.results]
    print_warnings(
        console,
        [(name, result.warnings) for name, result in results],
        [result.processors for _, result in results],
        numbers=numbers_of(settings),
        is_explained=is_explained,
        explain=EXPLAIN,
    )


def numbers_of(settings: Sequence[Setting]) -> list[int]:
    """Numbers of all runs of these settings; empty if some are unknown."""
    if any(len(each.numbers) != len(each.results) for each in settings):
        return []
    return [number for each in settings for number in each.numbers]


def load_of(settings: Sequence[Setting]) -> str:
    """The load that all settings were measured with."""
    runs = max(len(each.results) for each in settings)
    return load_line(settings[0].results[0].workload, runs)


def limit_lines(settings: Sequence[Setting]) -> list[str]:
    """The limit of each setting, in its last run; settings with the same limit share a line."""
    groups: dict[str, list[Setting]] = {}
    for setting in settings:
        groups.setdefault(same_but_for_numbers(setting.results[-1].limited_by), []).append(setting)
    lines = []
    for same in groups.values():
        sentence = merged_text([setting.results[-1].limited_by for setting in same])
        names = ", ".join(setting.name for setting in same if setting.name)
        if len(same) == len(settings) > 1:
            names = "all settings"
        lines.append(f"Bottleneck of {names}: {sentence}" if names else f"Bottleneck: {sentence}")
    return lines


def trade_lines(settings: Sequence[Setting]) -> list[str]:
    """The price and the gain of each setting of a sweep against Flink's defaults, or against the
    first setting if the defaults were not measured."""
    measured = [each for each in settings if _median(each, _records_per_s) is not None]
    if len(measured) < 2:
        return []
    defaults = effective_flink_keys(NetworkConfig())
    swept = {
        key
        for each in measured
        for key, value in each.results[0].config.items()
        if value != measured[0].results[0].config.get(key)
    }
    base = next(
        (
            each
            for each in measured
            if all(each.results[0].config.get(key) == defaults.get(key) for key in swept)
        ),
        measured[0],
    )
    others = [each for each in measured if not _is_equal(each, base)]
    if len(others) > TRADES_SHOWN:
        others = _best(others)
    lines = [_trade_line(each, base) for each in others]
    if any(" … " in line for line in lines):
        lines.append("In brackets: the smallest and the largest change in a round.")
    return lines


def _is_equal(setting: Setting, base: Setting) -> bool:
    """Whether two settings differ in nothing that acts, so that any difference is chance."""
    own, other = setting.results[0], base.results[0]
    return (own.config, own.workload) == (other.config, other.workload)


def _trade_line(setting: Setting, base: Setting) -> str:
    name, before = setting.name, base.name
    key, equals, value = name.partition("=")
    if equals and " " not in name and before.startswith(f"{key}="):
        name, before = f"{key} {value}", before.partition("=")[2]
    both = (setting, base)
    if invalid := [each.name for each in both if each.validity is Validity.INVALID]:
        return f"{name} instead of {before}: not comparable, invalid: {', '.join(invalid)}"
    rates = (_median(setting, _records_per_s), _median(base, _records_per_s))
    ranges = [_range_over_rounds(setting, base, read) for read in (_p50_ns, _p99_ns, CPU.read)]
    trade = Trade(
        None if has_given_rate(setting.results[0].workload) else ratio_of(*rates),
        change_of(_median(setting, _p50_ns), _median(base, _p50_ns)),
        change_of(_median(setting, _p99_ns), _median(base, _p99_ns)),
        ratio_of(_median(setting, _buffers_per_s), _median(base, _buffers_per_s)),
        change_of(_median(setting, CPU.read), _median(base, CPU.read)),
        None,
        *ranges,
    )
    sentence = trade_sentence(name, before, trade)
    if setting.is_disturbed or base.is_disturbed:
        return f"disturbed by other processes, do not rely on it: {sentence}"
    return sentence + _doubtful_runs(both)


def _doubtful_runs(settings: Sequence[Setting]) -> str:
    """Note with the numbers of the doubtful runs of these settings; empty if there are none."""
    if all(each.validity is Validity.VALID for each in settings):
        return ""
    results = [result for each in settings for result in each.results]
    known = zip(numbers_of(settings), results, strict=False)
    numbers = [number for number, each in known if each.validity is not Validity.VALID]
    return f" (doubtful: {run_numbers(numbers)})" if numbers else " (doubtful)"


def _range_over_rounds(
    setting: Setting, base: Setting, read: Callable[[RunResult], float | None]
) -> Range | None:
    """The smallest and the largest change in a round; None if each setting ran once."""
    changes = [
        change_of(read(now), read(before))
        for now, before in zip(setting.results, base.results, strict=False)
    ]
    known = [each for each in changes if each is not None]
    return (min(known), max(known)) if len(known) > 1 else None


def _best(settings: Sequence[Setting]) -> list[Setting]:
    """The settings with the least latency, buffers and CPU, and the most records."""
    found = [
        max(settings, key=lambda each: _median(each, _records_per_s) or 0.0),
        *(
            min(settings, key=lambda each: _or_infinite(_median(each, read)))
            for read in (_p50_ns, _p99_ns, _buffers_per_s, CPU.read)
        ),
    ]
    return [each for each in settings if each in found]


def _or_infinite(value: float | None) -> float:
    return float("inf") if value is None else value


def _median(setting: Setting, read: Callable[[RunResult], float | None]) -> float | None:
    known = [value for result in setting.results if (value := read(result)) is not None]
    return median(known) if known else None


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
    """Deployment times of the stages, and what each waited for; empty if all started at once."""
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


def bench_table(settings: Sequence[Setting], width: int = WIDTH_OFF_TERMINAL) -> Group:
    """One row for each setting; with several runs each cell is their median. Those that are not
    valid are marked.
    """
    runs = max(len(setting.results) for setting in settings)
    rows = [
        (MARKS[setting.validity] + (setting.name or UNNAMED_SETTING), setting.results)
        for setting in settings
    ]
    title = f"medians of {runs} runs" if runs > 1 else None
    styles = [_STYLES[setting.validity] for setting in settings]
    return number_table("setting", RUN_FIGURES, rows, width, title=title, styles=styles)


def channel_table(channels: Iterable[ChannelMeasured], width: int = WIDTH_OFF_TERMINAL) -> Group:
    """One row for each channel."""
    shown = list(channels)
    has_edges = any(each.edge for each in shown)
    rows = [(channel_name(each, has_edges=has_edges), [each]) for each in shown]
    return number_table("channel", CHANNEL_FIGURES, rows, width)


def _wiring_of(result: RunResult) -> str | None:
    """Nothing where all goes over one connection, as it does by default."""
    wiring = result.wiring
    if wiring is None or (not wiring.local_channels and len(wiring.connections) == 1):
        return None
    return wiring_line(wiring)


def wiring_line(wiring: Wiring) -> str:
    """How many channels are local and remote, and what the remote ones share."""
    connections = len(wiring.connections)
    over = f" over {counted(connections, 'connection')}" if connections else ""
    return f"Channels: {wiring.local_channels} local, {wiring.remote_channels} remote{over}."


def _records_per_s(result: RunResult) -> float | None:
    return result.measured.throughput_records_per_s


def _buffers_per_s(result: RunResult) -> float | None:
    return result.measured.buffers_per_s


def _p50_ns(result: RunResult) -> float | None:
    return result.measured.latency_ns.p50


def _p99_ns(result: RunResult) -> float | None:
    return result.measured.latency_ns.p99
