"""`bench demo` on a terminal: table, curves over time, and the lesson."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from flinknet.results.figures import SHOWN

from .charts import OverTime, TimeSeries
from .console import print_line, print_part
from .demos.shown import DemoShown
from .page_parts import Head, Lines, Row, Table
from .small_plots import sparkline

_PLOT_WIDTH_MAX, _PLOT_WIDTH_MIN, _OTHER_COLUMNS = 48, 12, 50


def print_demo(console: Console, shown: DemoShown) -> None:
    """Print the runs, the table, curves over time, and the result."""
    print_line(console, f"{shown.setup}\n")
    print_part(console, shown.table)
    for charts in shown.plots:
        console.print()
        print_part(console, _over_time(charts, console.width))
    console.print()
    print_part(console, Lines(shown.lesson))
    doubts = [f"Warning: {each}" for each in shown.limited_doubts]
    print_part(console, Lines(doubts, is_doubt=True))


def _over_time(charts: Sequence[OverTime], console_width: int) -> Table:
    """Charts with the same series next to each other: a row for each series. Those next to each
    other share their scale within the row, one alone within the table."""
    label = SHOWN[charts[0].unit]
    width = (console_width - _OTHER_COLUMNS) // len(charts)
    width = max(_PLOT_WIDTH_MIN, min(width, _PLOT_WIDTH_MAX))
    is_alone = len(charts) == 1
    ends = ("most", "last") if is_alone else ("most",)
    heads = [Head(f"{charts[0].title.lower()} over time" if is_alone else "over time")]
    for chart in charts:
        heads += [Head("" if is_alone else chart.title, is_text=True), *map(Head, ends)]
    rows = []
    ends_ns = [max((x.at_ns[-1] for x in chart.series if x.at_ns), default=0) for chart in charts]
    for span in charts[0].spans:
        marks = [_span(span.from_ns, span.to_ns, end_ns, width) for end_ns in ends_ns]
        rows.append([span.name, *(cell for each in marks for cell in (each, *[""] * len(ends)))])
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
        cells = [series.name]
        for chart, line in zip(charts, own, strict=True):
            last = chart.series[place].values[-1:] or [None]
            values = (max(line, default=0.0), last[0] or 0.0)[: len(ends)]
            cells += [sparkline(line, width, top), *map(label, values)]
        rows.append(cells)
    return Table(heads, list(map(Row, rows)))


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
