"""`bench demo` on a terminal: table, curves over time, and the lesson."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flinknet.units import human_bytes, human_count, human_duration, human_share

from .console import print_line
from .demos.shown import DemoShown
from .page_parts import OverTime, TimeSeries
from .small_plots import sparkline

_PLOT_WIDTH_MAX, _PLOT_WIDTH_MIN, _OTHER_COLUMNS = 48, 12, 50

_LABELS: Mapping[str, Callable[[float], str]] = {
    "ns": human_duration,
    "bytes": human_bytes,
    "count": human_count,
    "share": human_share,
}


def print_demo(console: Console, shown: DemoShown) -> None:
    """Print the runs, the table, curves over time, and the result."""
    print_line(console, f"{shown.setup}\n")
    table = _empty_table()
    for number, head in enumerate(shown.table.heads):
        name = head.name.replace(": ", "\n")
        table.add_column(name, justify="right" if number else "left", no_wrap=not number)
    for row in shown.table.rows:
        table.add_row(*map(Text, row.cells))
    console.print(table)
    for note in shown.table.notes:
        print_line(console, Text(note, style="dim"))
    for charts in shown.plots:
        console.print(_over_time(charts, console.width))
    for line in shown.lesson:
        print_line(console, line)
    for doubt in shown.limited_doubts:
        print_line(console, Text(f"Warning: {doubt}", style="yellow"))


def _empty_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")


def _over_time(charts: Sequence[OverTime], console_width: int) -> Table:
    """Charts with the same series next to each other: a row for each series; all of bytes share
    their scale within the row, others within the table."""
    label = _LABELS[charts[0].unit]
    width = (console_width - _OTHER_COLUMNS) // len(charts)
    width = max(_PLOT_WIDTH_MIN, min(width, _PLOT_WIDTH_MAX))
    is_alone = len(charts) == 1
    table = _empty_table()
    table.add_column(
        f"{charts[0].title.lower()} over time" if is_alone else "over time", no_wrap=True
    )
    for chart in charts:
        table.add_column("" if is_alone else chart.title, width=width, no_wrap=True)
        for name in ("most", "last") if is_alone else ("most",):
            table.add_column(name, justify="right", no_wrap=True)
    ends_ns = [max((x.at_ns[-1] for x in chart.series if x.at_ns), default=0) for chart in charts]
    for place, span in enumerate(charts[0].spans):
        marks = [
            _span(chart.spans[place].from_ns, span.to_ns, end_ns, width)
            for chart, end_ns in zip(charts, ends_ns, strict=True)
        ]
        blank = ["", ""] if is_alone else [""]
        table.add_row(span.name, *(cell for each in marks for cell in (each, *blank)))
    lines = [
        [_spread(each, end_ns, width) for each in chart.series]
        for chart, end_ns in zip(charts, ends_ns, strict=True)
    ]
    most = max((max(line, default=0.0) for of_chart in lines for line in of_chart), default=0.0)
    for place, series in enumerate(charts[0].series):
        own = [of_chart[place] for of_chart in lines]
        if not any(own):
            continue
        top = charts[0].top or (most if is_alone else max(map(max, own)))
        cells = []
        for chart, line in zip(charts, own, strict=True):
            cells += [sparkline(line, width, top), label(max(line, default=0.0))]
            last = chart.series[place].values[-1:] or [None]
            cells += [label(last[0] or 0.0)] if is_alone else []
        table.add_row(series.name, *cells)
    return table


def _span(from_ns: int, to_ns: int, end_ns: int, width: int) -> str:
    instants = (end_ns * place // width for place in range(width))
    return "".join("━" if from_ns <= each < to_ns else " " for each in instants)


def _spread(series: TimeSeries, end_ns: int, width: int) -> list[float]:
    """A value for each mark of a line as long as the time: the largest there, or the one before."""
    if not series.at_ns:
        return []
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
