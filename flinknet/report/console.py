"""Results as tables on a terminal: what was measured, what limited it, what to doubt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import IO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flinknet.comparison import Difference, Outcome, Verdict
from flinknet.results import ChannelMeasured, LatencySummary, RunResult, Warning
from flinknet.units import (
    MISSING,
    format_percent,
    human_bytes,
    human_count,
    human_duration,
)

WIDTH_OFF_TERMINAL = 140
CHANNELS_SHOWN = 16

_VERDICT_STYLES = {Verdict.BETTER: "green", Verdict.WORSE: "red"}
_OUTCOME_STYLES = {Outcome.PASS: "green", Outcome.REGRESSION: "red", Outcome.INCONCLUSIVE: "yellow"}


@dataclass(frozen=True, slots=True)
class Setting:
    """All runs of one configuration."""

    name: str
    results: Sequence[RunResult]


def console_for(stream: IO[str]) -> Console:
    """A console that does not squeeze tables into 80 columns where there is no terminal."""
    console = Console(file=stream, highlight=False)
    return (
        console
        if console.is_terminal
        else Console(file=stream, highlight=False, width=WIDTH_OFF_TERMINAL)
    )


def print_bench(console: Console, settings: Sequence[Setting]) -> None:
    """The result table, the channels of a single run, and one sentence for each setting."""
    console.print(bench_table(settings))
    if not settings[0].name and 1 < len(settings[0].results[-1].channels) <= CHANNELS_SHOWN:
        console.print(channel_table(settings[0].results[-1].channels))
    for setting in settings:
        where = f"{setting.name}: limited by " if setting.name else "Limited by "
        for sentence in dict.fromkeys(result.limited_by for result in setting.results[-1:]):
            console.print(Text(where + sentence), soft_wrap=True)
    print_warnings(console, settings)


def bench_table(settings: Sequence[Setting]) -> Table:
    """One row for each setting; with several runs each cell is their median."""
    runs = max(len(setting.results) for setting in settings)
    table = Table(box=box.SIMPLE, title=_title(runs), title_justify="left")
    table.add_column("setting", no_wrap=True)
    for name in ("records/s", "bytes/s", "buffers/s"):
        table.add_column(name, justify="right")
    for name in ("latency p50", "p99", "max", "uncorrected p50", "p99", "backlog", "max"):
        table.add_column(name, justify="right")
    for setting in settings:
        table.add_row(setting.name or "as asked", *_cells(setting.results))
    return table


def channel_table(channels: Iterable[ChannelMeasured]) -> Table:
    """One row for each channel: who is slow stands out."""
    table = Table(box=box.SIMPLE)
    table.add_column("channel")
    for name in ("records", "records/s", "latency p50", "p99", "backlog", "max"):
        table.add_column(name, justify="right")
    for each in channels:
        table.add_row(
            f"{each.producer} → {each.consumer}",
            human_count(each.records),
            human_count(each.throughput_records_per_s),
            human_duration(each.latency_ns.p50),
            human_duration(each.latency_ns.p99),
            human_count(each.backlog_buffers.mean),
            human_count(each.backlog_buffers.max),
        )
    return table


def print_warnings(console: Console, settings: Sequence[Setting]) -> None:
    """One line for each kind of warning: its first text, how many runs and which settings."""
    found: dict[str, list[tuple[str, Warning]]] = {}
    for setting in settings:
        for result in setting.results:
            for warning in result.warnings:
                found.setdefault(warning.code, []).append((setting.name, warning))
    total = sum(len(setting.results) for setting in settings)
    for each in found.values():
        where = ""
        if total > 1:
            names = ", ".join(dict.fromkeys(name for name, _ in each if name))
            where = f" in {len(each)} of {total} runs" + (f" ({names})" if names else "")
        text = f"{where}: {each[0][1].text}"
        console.print(Text.assemble(("Warning", "yellow"), text), soft_wrap=True)


def print_comparison(
    console: Console,
    base: str,
    candidate: str,
    differences: Mapping[str, Difference],
    units: Mapping[str, str],
    confidence: float,
) -> None:
    """One row for each metric: both medians, the change with its interval, the verdict."""
    table = Table(box=box.SIMPLE, title=f"{candidate} against {base}", title_justify="left")
    table.add_column("metric", no_wrap=True)
    for name in (base, candidate, "change", f"{confidence * 100:g} % interval"):
        table.add_column(name, justify="right")
    table.add_column("verdict", no_wrap=True)
    for metric, each in differences.items():
        table.add_row(
            metric,
            _amount(each.base_median, units[metric]),
            _amount(each.candidate_median, units[metric]),
            MISSING if each.change is None else format_percent(each.change),
            _interval(each),
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


def _cells(results: Sequence[RunResult]) -> list[str]:
    def typical(values: Iterable[float | None]) -> float | None:
        present = [value for value in values if value is not None]
        return median(present) if present else None

    def latency(name: str, which: str = "latency_ns") -> str:
        summaries: list[LatencySummary] = [getattr(r.measured, which) for r in results]
        return human_duration(typical(getattr(summary, name) for summary in summaries))

    measured = [result.measured for result in results]
    return [
        human_count(typical(each.throughput_records_per_s for each in measured)),
        human_bytes(typical(each.throughput_bytes_per_s for each in measured)),
        human_count(typical(each.buffers / each.duration_ns * 1e9 for each in measured)),
        latency("p50"),
        latency("p99"),
        latency("max"),
        latency("p50", "latency_uncorrected_ns"),
        latency("p99", "latency_uncorrected_ns"),
        human_count(typical(each.backlog_buffers.mean for each in measured)),
        human_count(typical(each.backlog_buffers.max for each in measured)),
    ]


def _interval(difference: Difference) -> str:
    if difference.low is None or difference.high is None:
        return MISSING
    return f"{format_percent(difference.low)} … {format_percent(difference.high)}"


def _amount(value: float | None, unit: str) -> str:
    if unit == "ns":
        return human_duration(value)
    return human_bytes(value) if unit == "bytes" else human_count(value)
