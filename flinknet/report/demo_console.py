"""`bench demo` on a terminal: what a demo has shown; of head-of-line both flow controls side by
side, and the lesson.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flinknet.results import FillSample, RunResult
from flinknet.units import (
    format_duration_ns,
    human_bytes,
    human_count,
    human_duration,
    human_rate,
    human_share,
)

from .console import print_line
from .demos.shown import UNEXPECTED, DemoRun, DemoShown, doubts_of, measured_document
from .page_parts import OverTime, TimeSeries
from .places import PLACES, levels_of
from .small_plots import resampled, sparkline

NEIGHBOUR, PAUSED = 0, 1
"""Channels of the demo, and their consumers."""

STARVED_RATIO, UNHARMED_RATIO = 0.1, 0.9
"""Share of its rate that the neighbour keeps: at most without credit, at least with it."""

TITLES = {"tcp": "TCP only (Flink < 1.5)", "credit": "credit-based (since 1.5)"}
COMPARED = (
    *("B.3 alone: rate", "B.3 alone: p99"),
    *("B.4 paused: B.3 rate", "B.4 paused: B.3 p99"),
    "rate kept",
)
"""Columns of the comparison; alone is a run of A.1 → B.3 without any A.2 and B.4."""

_PLOT_WIDTH_MAX = 48
_PLOT_WIDTH_MIN = 12
_OTHER_COLUMNS = 50
RATE_HEADROOM = 1.25
"""Top of the rate axis, relative to the rate alone; catching up goes beyond it."""

UNAFFECTED = (
    " This makes p99 values too high; the rates that are kept show the effect all the same."
)

REPEATED_MIN = 3
"""Equal rates at the end of a run that show that it was no longer measured."""


@dataclass(frozen=True, slots=True)
class RateSample:
    """Records per second of the two consumers, over the time before an instant of the run."""

    at_ns: int
    neighbour_per_s: float
    paused_per_s: float
    neighbour_credit: int | None = None  # buffers that its producer may send; None: no credit
    neighbour_backlog: int | None = None  # buffers queued at its producer
    paused_credit: int | None = None
    paused_backlog: int | None = None


@dataclass(frozen=True, slots=True)
class HeadOfLine:
    """One flow control in the demo: the neighbour alone, and with a consumer that pauses for the
    whole measured part.
    """

    flow_control: str
    solo: RunResult
    shared: RunResult
    rates: tuple[RateSample, ...]

    @classmethod
    def of(cls, flow_control: str, solo: DemoRun, shared: DemoRun) -> HeadOfLine:
        """From the two runs of a flow control."""
        rates = []
        for each in shared.samples:
            neighbour, paused = each.channels[NEIGHBOUR], each.channels[PAUSED]
            rates.append(
                RateSample(
                    each.elapsed_ns,
                    neighbour.throughput_records_per_s,
                    paused.throughput_records_per_s,
                    neighbour.credits_available,
                    neighbour.backlog_buffers,
                    paused.credits_available,
                    paused.backlog_buffers,
                )
            )
        return cls(flow_control, solo.result, shared.result, tuple(_measured(rates)))

    @property
    def neighbour_rate_ratio(self) -> float | None:
        """Rate of the neighbour while the other is paused, relative to its rate alone."""
        alone, shared = self.solo_records_per_s, self.neighbour_records_per_s
        return shared / alone if alone and shared is not None else None

    @property
    def solo_records_per_s(self) -> float | None:
        """Records that the neighbour takes alone."""
        return self.solo.channels[NEIGHBOUR].taken_records_per_s

    @property
    def neighbour_records_per_s(self) -> float | None:
        """Records that the neighbour takes while the other is paused."""
        return self.shared.channels[NEIGHBOUR].taken_records_per_s

    @property
    def solo_p99_ns(self) -> float | None:
        """Its latency alone."""
        return self.solo.channels[NEIGHBOUR].latency_ns.p99

    @property
    def neighbour_p99_ns(self) -> float | None:
        """Latency of its records that were due while the other is paused."""
        return self.shared.channels[NEIGHBOUR].latency_ns.p99


def _measured(rates: Sequence[RateSample]) -> Sequence[RateSample]:
    """Without the end of a run, where the last rates stand without being measured again."""
    end = len(rates)
    while end > 1 and _per_s(rates[end - 1]) == _per_s(rates[end - 2]):
        end -= 1
    return rates[:end] if len(rates) - end >= REPEATED_MIN else rates


def _per_s(rates: RateSample) -> tuple[float, float]:
    return rates.neighbour_per_s, rates.paused_per_s


def print_head_of_line(
    console: Console, modes: Sequence[HeadOfLine], *, pause_from_ns: int, pause_ns: int
) -> None:
    """The table, the plots and the sentence."""
    print_line(console, f"{setup(pause_ns)}\n")
    console.print(_comparison(modes))
    pause = (pause_from_ns, pause_from_ns + pause_ns)
    console.print(_plots(modes, pause, _plot_width(console.width, len(modes))))
    for line in fullest(modes):
        print_line(console, line)
    print_line(console, lesson(modes))
    for warning in limited_doubts(modes):
        print_line(console, Text(f"Warning: {warning}", style="yellow"))


def head_of_line_document(modes: Sequence[HeadOfLine]) -> dict[str, Any]:
    """The demo as JSON-ready data."""
    return {
        "demo": "head-of-line",
        "lesson": [lesson(modes)],
        "warnings": doubts(modes),
        "measured": {
            f"{mode.flow_control}, {name}": measured_document(run)
            for mode in modes
            for name, run in (("alone", mode.solo), ("paused", mode.shared))
        },
        "modes": {
            mode.flow_control: {
                "neighbour_rate_ratio": mode.neighbour_rate_ratio,
                "neighbour_p99_ns": mode.neighbour_p99_ns,
                "neighbour_records_per_s": mode.neighbour_records_per_s,
                "solo_records_per_s": mode.solo_records_per_s,
                "solo_p99_ns": mode.solo_p99_ns,
                "rates": [asdict(each) for each in mode.rates],
                "buffering": (
                    asdict(mode.shared.buffering) if mode.shared.buffering is not None else None
                ),
            }
            for mode in modes
        },
    }


def setup(pause_ns: int) -> str:
    """The demo's runs in words."""
    return (
        "Two producers, two consumers, one TCP connection: A.1 → B.3, the neighbour, and"
        f" A.2 → B.4, which consumes nothing for {format_duration_ns(pause_ns, separator=' ')}."
    )


def lesson(modes: Sequence[HeadOfLine]) -> str:
    """The result of the runs in one sentence; or that they did not show the effect."""
    kept = {mode.flow_control: mode.neighbour_rate_ratio for mode in modes}
    tcp, credit = kept["tcp"], kept["credit"]
    shares = f"{human_share(tcp)} with TCP only and {human_share(credit)} with credit"
    if tcp is None or credit is None or tcp > STARVED_RATIO or credit < UNHARMED_RATIO:
        return (
            f"Unexpected: the neighbour kept {shares}; less than {human_share(STARVED_RATIO)} and"
            f" more than {human_share(UNHARMED_RATIO)} were expected. Try a quiet machine, a higher"
            " --rate or a longer --duration: the paused channel must run out of buffers early in"
            " its pause."
        )
    return (
        f"With TCP flow control only, one paused consumer stops the whole connection: its neighbour"
        f" keeps {human_share(tcp)} of its rate. With credit only its own channel stops: the"
        f" neighbour keeps {human_share(credit)}."
    )


def _comparison(modes: Sequence[HeadOfLine]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("flow control", no_wrap=True)
    for name in COMPARED:
        table.add_column(name.replace(": ", "\n"), justify="right")
    for mode in modes:
        ratio = mode.neighbour_rate_ratio
        style = "red" if ratio is not None and ratio <= STARVED_RATIO else "green"
        table.add_row(
            TITLES[mode.flow_control],
            human_rate(mode.solo_records_per_s),
            human_duration(mode.solo_p99_ns),
            human_rate(mode.neighbour_records_per_s),
            human_duration(mode.neighbour_p99_ns),
            Text(human_share(ratio), style=style),
        )
    return table


def _plot_width(console_width: int, modes: int) -> int:
    width = (console_width - _OTHER_COLUMNS) // modes
    return max(_PLOT_WIDTH_MIN, min(width, _PLOT_WIDTH_MAX))


def _plots(modes: Sequence[HeadOfLine], pause: tuple[int, int], width: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("over time", no_wrap=True)
    for mode in modes:
        table.add_column(mode.flow_control, width=width, no_wrap=True)
        table.add_column("most", justify="right", no_wrap=True)
    cells: list[str] = ["B.4 is paused"]
    for mode in modes:
        cells += [_span([each.at_ns for each in _samples(mode)], pause, width), ""]
    table.add_row(*cells, style="dim")
    alone = max((mode.solo_records_per_s or 0.0 for mode in modes), default=0.0)
    for name, consumer in (("B.3 records/s", NEIGHBOUR), ("B.4 records/s", PAUSED)):
        lines = [_rates(mode, consumer) for mode in modes]
        _add_plot(table, name, lines, width, alone * RATE_HEADROOM or _largest(lines), human_count)
    table.add_section()
    levels = [[levels_of(each.levels) for each in _samples(mode)] for mode in modes]
    for place, (name, _) in enumerate(PLACES):
        lines = [[float(each[place]) for each in of_mode] for of_mode in levels]
        _add_plot(table, name, lines, width, _largest(lines), human_bytes)
    return table


def _largest(lines: Sequence[Sequence[float]]) -> float:
    return max((max(line, default=0.0) for line in lines), default=0.0)


def _add_plot(
    table: Table,
    name: str,
    lines: Sequence[Sequence[float]],
    width: int,
    top: float,
    label: Callable[[float], str],
) -> None:
    """One row; both plots have the same scale."""
    cells = [name]
    for line in lines:
        cells += [sparkline(line, width, top), label(max(line, default=0.0))]
    table.add_row(*cells)


def _samples(mode: HeadOfLine) -> Sequence[FillSample]:
    return mode.shared.buffering.samples if mode.shared.buffering is not None else ()


def _rates(mode: HeadOfLine, consumer: int) -> list[float]:
    """The rates of a consumer; 0 from its last record to the end of the run."""
    is_neighbour = consumer == NEIGHBOUR
    rates = [each.neighbour_per_s if is_neighbour else each.paused_per_s for each in mode.rates]
    samples = _samples(mode)
    if len(rates) < 2 or not samples:
        return rates
    interval_ns = (mode.rates[-1].at_ns - mode.rates[0].at_ns) / (len(rates) - 1)
    left_ns = samples[-1].at_ns - mode.rates[-1].at_ns
    return rates + [0.0] * round(left_ns / interval_ns if interval_ns else 0)


def _span(instants_ns: Sequence[int], pause: tuple[int, int], width: int) -> str:
    inside = [1.0 if pause[0] <= at_ns < pause[1] else 0.0 for at_ns in instants_ns]
    return "".join("━" if each else " " for each in resampled(inside, width))


def fullest(modes: Sequence[HeadOfLine]) -> list[str]:
    """How much lay between the tasks at most, with and without credit; and without it, for whom
    what lay at the front was.
    """
    most = {
        mode.flow_control: max(samples, key=lambda each: each.levels.total_bytes)
        for mode in modes
        if (samples := _samples(mode))
    }
    if len(most) < len(modes):
        return []
    tcp, credit = most["tcp"], most["credit"]
    lines = [
        f"At most {human_bytes(tcp.levels.total_bytes)} lay between the tasks with TCP only, and"
        f" {human_bytes(credit.levels.total_bytes)} with credit."
    ]
    front = {each.channel: each.input_channel_bytes for each in tcp.channels}
    if front.get(PAUSED, 0) > front.get(NEIGHBOUR, 0):
        lines.append(
            f"With TCP only, {human_bytes(front[PAUSED])} at the front (place 6) were then for B.4,"
            f" and {human_bytes(front.get(NEIGHBOUR))} for B.3: its data waits behind."
        )
    return lines


def doubts(modes: Sequence[HeadOfLine]) -> list[str]:
    """Warnings that touch the comparison."""
    return doubts_of(
        [
            (f"{mode.flow_control}, {name}", run)
            for mode in modes
            for name, run in (("alone", mode.solo), ("paused", mode.shared))
        ]
    )


def limited_doubts(modes: Sequence[HeadOfLine]) -> list[str]:
    """The doubts, each with the figures that it leaves unaffected if the demo showed its effect."""
    has_failed = lesson(modes).startswith(UNEXPECTED)
    return [each if has_failed else f"{each}{UNAFFECTED}" for each in doubts(modes)]


def print_demo(console: Console, shown: DemoShown) -> None:
    """Print the runs, the table, curves over time, and the result."""
    print_line(console, f"{shown.setup}\n")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for number, head in enumerate(shown.table.heads):
        table.add_column(head.name, justify="right" if number else "left")
    for row in shown.table.rows:
        table.add_row(*map(Text, row.cells))
    console.print(table)
    for note in shown.table.notes:
        print_line(console, Text(note, style="dim"))
    for chart in shown.charts:
        if isinstance(chart, OverTime):
            console.print(_over_time(chart, console.width))
    for line in shown.lesson:
        print_line(console, line)
    for doubt in shown.doubts:
        print_line(console, Text(f"Warning: {doubt}", style="yellow"))


def _over_time(chart: OverTime, console_width: int) -> Table:
    """One row for each series, all on the same scale and the same time."""
    label = _LABELS[chart.unit]
    width = _plot_width(console_width, 1)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column(f"{chart.title.lower()} over time", no_wrap=True)
    table.add_column("", width=width, no_wrap=True)
    for name in ("most", "last"):
        table.add_column(name, justify="right", no_wrap=True)
    end_ns = max((each.at_ns[-1] for each in chart.series if each.at_ns), default=0)
    if end_ns:
        for span in chart.spans:
            instants = [end_ns * place // width for place in range(width)]
            table.add_row(span.name, _span(instants, (span.from_ns, span.to_ns), width), "", "")
    drawn = [(each, _spread(each, end_ns, width)) for each in chart.series if each.at_ns]
    top = _largest([line for _, line in drawn])
    for each, line in drawn:
        last = each.values[-1] or 0.0
        table.add_row(each.name, sparkline(line, width, top), label(max(line)), label(last))
    return table


def _spread(series: TimeSeries, end_ns: int, width: int) -> list[float]:
    """A value for each mark of a line as long as the time: the largest there, or the one before."""
    values = [0.0] * width
    place, known = -1, 0.0
    for at_ns, value in zip(series.at_ns, series.values, strict=True):
        here = min(width - 1, at_ns * width // max(1, end_ns))
        values[place + 1 : here] = [known] * (here - place - 1)
        known = value or 0.0
        values[here] = max(known, values[here] if here == place else 0.0)
        place = here
    values[place + 1 :] = [known] * (width - place - 1)
    return values


_LABELS: Mapping[str, Callable[[float], str]] = {
    "ns": human_duration,
    "bytes": human_bytes,
    "count": human_count,
    "share": human_share,
}
