"""The main chart of a page as a picture (SVG or PNG), drawn by matplotlib, which is optional."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from flinknet.results.figures import SHOWN
from flinknet.units import signed, without_zeros
from flinknet.whole_files import whole_file

from .charts import Chart, Color, Curves, Grid, Intervals, OverTime, Percentiles, Places, Series
from .page_parts import Page, Section, View

if TYPE_CHECKING:
    from flinknet.storage import AnyPath

FORMATS = ("svg", "png")

_COLORS: dict[Color, str] = {
    "blue": "#0b6fb8",
    "orange": "#d55e00",
    "green": "#00876a",
    "gold": "#c98a00",
    "purple": "#a9488a",
    "grey": "#7a838c",
}
_SIZE_INCHES = (8, 4.5)
_DPI = 150
_CHANGES = (
    (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 9, 19, 49, 99, 999, 9999),
    (-0.01, -0.02, -0.05, -0.1, -0.2, -0.33, -0.5, -0.8, -0.9, -0.95, -0.99, -0.999),
)
"""Labels of an axis of changes, from no change outwards."""

_BARS_WIDTH = 0.6
"""Share of a label's room that its bars take."""

_TICKS = 9
_BYTE_TICKS = 6
_STEPS = tuple(factor * 10**power for power in range(-1, 3) for factor in (1, 2, 5))
"""Between the ticks of an axis of bytes, in its unit."""

SINCE = "time since the start"
"""Title of an axis of time."""

_REACH = 2.5
"""Width of a drawn interval at most, relative to the largest change."""

_NAMES_LENGTH_MAX = 40
"""Letters of all labels of an axis that fit next to each other."""


def main_chart(page: Page) -> Chart | None:
    """The first chart that is no detail, which answers the question of the command."""
    return next((chart for _, chart in _main_charts(page)), None)


def _main_charts(page: Page) -> Iterator[tuple[View, Chart]]:
    for view in page.views:
        for each in (*view.parts, *view.page):
            for part in each.parts if isinstance(each, Section) else [each]:
                if isinstance(part, Chart):
                    yield view, part
                if isinstance(part, Places) and part.curve is not None:
                    yield view, part.curve
                if isinstance(part, Grid):
                    yield view, curves_of(part)


def curves_of(grid: Grid) -> Curves:
    """The first chart of a grid along its first slider, with the others where they begin."""
    slider = grid.sliders[grid.along]
    begin = [each.at for each in grid.sliders]
    line = sorted(
        (
            each
            for each in grid.points
            if all(at == begin[n] or n == grid.along for n, at in enumerate(each.at))
        ),
        key=lambda point: point.at[grid.along],
    )
    first = grid.figures[0]
    series = []
    for place, figure in enumerate(grid.figures):
        if figure.chart == first.chart:
            ends = [each.ranges[place] or (None, None) for each in line]
            is_known = any(each.ranges[place] for each in line)
            low, high = ([end[n] for end in ends] if is_known else [] for n in (0, 1))
            values = [each.values[place] for each in line]
            series.append(Series(figure.name, values, figure.color, low=low, high=high))
    return Curves(
        first.chart,
        [slider.labels[each.at[grid.along]] for each in line],
        series,
        unit=first.unit,
        is_log=first.is_log,
        marks=[(place, each.mark) for place, each in enumerate(line) if each.mark],
        by=slider.name,
        y=first.chart.lower() if len(series) > 1 else first.name,
    )


def draw(chart: Chart, file_format: str, title: str) -> bytes:
    """The chart as a file of that format. Needs matplotlib.

    Raises: ModuleNotFoundError without matplotlib.
    """
    import io

    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "flinknet"  # the same chart gives the same file
    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    axes = figure.subplots()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    by = f" by {chart.by}" if isinstance(chart, Curves) and chart.by else ""
    axes.set_title(f"{title}: {chart.title}{by}", loc="left", fontsize=10)
    _DRAW[type(chart)](axes, chart)
    if not isinstance(chart, Intervals):
        axes.grid(axis="y", alpha=0.3)
        axes.legend(frameon=False, fontsize=9)
    stream = io.BytesIO()
    metadata = {"Date": None} if file_format == "svg" else None
    figure.savefig(stream, format=file_format, dpi=_DPI, metadata=metadata)
    return stream.getvalue()


def write_plot(path: AnyPath, page: Page) -> bool:
    """Draw the main chart of a page into a file, by the ending of its name; False if it has none.

    Raises: ModuleNotFoundError without matplotlib.
    """
    found = next(_main_charts(page), None)
    if found is not None:
        write_chart(path, found[1], found[0].title)
    return found is not None


def write_chart(path: AnyPath, chart: Chart, title: str) -> None:
    """Draw a chart into a file, by the ending of its name.

    Raises: ModuleNotFoundError without matplotlib.
    """
    picture = draw(chart, format_of(path) or FORMATS[0], title)
    with whole_file(path) as file:
        file.write(picture)


def format_of(path: AnyPath) -> str | None:
    """The format that the name of a file asks for; None if it is not one of FORMATS."""
    ending = str(path).rpartition(".")[2].lower()
    return ending if ending in FORMATS else None


def _draw_curves(axes: Any, chart: Curves) -> None:
    places = range(len(chart.labels))
    for number, each in enumerate(chart.series):
        if chart.is_bars:
            wide = _BARS_WIDTH / len(chart.series)
            left = [place + (number + 0.5) * wide - _BARS_WIDTH / 2 for place in places]
            axes.bar(left, _drawn(each.values), wide, color=_COLORS[each.color], label=each.name)
            continue
        style = "o--" if each.is_bound else "o-"
        axes.plot(places, _drawn(each.values), style, color=_COLORS[each.color], label=each.name)
        if each.low:
            low, high = _drawn(each.low), _drawn(each.high)
            axes.fill_between(places, low, high, color=_COLORS[each.color], alpha=0.15)
    for index, name in chart.marks:
        axes.axvline(index, color=_COLORS["grey"], linestyle=":", zorder=0)
        axes.annotate(name, (index, 1), xycoords=("data", "axes fraction"), ha="center", fontsize=8)
    is_long = sum(map(len, chart.labels)) > _NAMES_LENGTH_MAX
    axes.set_xticks(
        places, chart.labels, rotation=30 if is_long else 0, ha="right" if is_long else "center"
    )
    _set_log(axes, is_log=chart.is_log)
    _scale(axes.yaxis, chart.unit)
    _name_axes(axes, chart.by, chart.y, is_log=chart.is_log)


def _draw_over_time(axes: Any, chart: OverTime) -> None:
    for span in chart.spans:
        axes.axvspan(span.from_ns, span.to_ns, color=_COLORS["grey"], alpha=0.15, label=span.name)
    _scale(axes.xaxis, "ns")
    _name_axes(axes, SINCE, chart.y)
    if chart.in_rows:
        top = max((value or 0.0 for each in chart.series for value in each.values), default=0.0)
        for place, each in enumerate(reversed(chart.series)):
            heights = [place + 0.9 * (value or 0.0) / (top or 1.0) for value in each.values]
            axes.fill_between(each.at_ns, place, heights, color=_COLORS[each.color], alpha=0.8)
        axes.set_yticks(range(len(chart.series)), [each.name for each in reversed(chart.series)])
        _name_axes(axes, SINCE, f"{chart.y}, each row from 0 to {_tick(top, chart.unit)}")
        return
    for each in chart.series:
        axes.plot(each.at_ns, _drawn(each.values), color=_COLORS[each.color], label=each.name)
    for limit in chart.limits:
        axes.axhline(limit.value, color=_COLORS["grey"], linestyle="--", label=limit.name)
    above = axes.get_xaxis_transform()
    for number, lane in enumerate(chart.lanes, start=1):
        bars = [(begin, end - begin) for begin, end in lane.spans]
        style = {"color": _COLORS[lane.color], "label": f"{lane.name}: checkpoints"}
        axes.broken_barh(bars, (1 - 0.03 * number, 0.02), transform=above, **style)
    axes.set_ylim(bottom=0, top=chart.top)
    _scale(axes.yaxis, chart.unit)


def _draw_percentiles(axes: Any, chart: Percentiles) -> None:
    for each in chart.series:
        places = [-math.log10(1 - quantile) for quantile, _ in each.points]
        values = [value for _, value in each.points]
        axes.plot(places, values, "o-", color=_COLORS[each.color], label=each.name)
    quantiles = sorted({quantile for each in chart.series for quantile, _ in each.points})
    names = [f"{quantile * 100:.4g}%" for quantile in quantiles]
    axes.set_xticks([-math.log10(1 - each) for each in quantiles], names)
    _set_log(axes, is_log=True)
    _scale(axes.yaxis, "ns")
    _name_axes(axes, "percentile of the records", "latency", is_log=True)


def _draw_intervals(axes: Any, chart: Intervals) -> None:
    """By the logarithm of the ratio: twice and half as much are equally far from no change."""
    drawn = [x for each in chart.intervals for x in (each.change, *each.limits) if x is not None]
    far = list(map(abs, map(_log_ratio, drawn)))
    reach = _REACH * max([math.log(1.02), *far])
    for place, each in enumerate(chart.intervals):
        color = _COLORS[each.color]
        if each.low is not None and each.high is not None:
            ends = [max(-reach, min(_log_ratio(end), reach)) for end in (each.low, each.high)]
            axes.plot(ends, [place, place], color=color, linewidth=3)
        if each.change is not None:
            axes.plot(_log_ratio(each.change), place, "o", color=color)
        for limit in each.limits:
            at = _log_ratio(limit)
            axes.plot([at, at], [place - 0.4, place + 0.4], color=_COLORS["orange"])
            axes.annotate("limit", (at, place - 0.4), fontsize=8)
    axes.axvline(0, color=_COLORS["grey"], linestyle=":")
    low, high = axes.get_xlim()
    ticks = {0.0: "0"}
    for changes in _CHANGES:
        last = 0.0
        for change in changes:
            at = _log_ratio(change)
            if low <= at <= high and abs(at - last) > (high - low) / _TICKS:
                ticks[at] = signed(change, "{:.0%}".format)
                last = at
    axes.set_xticks(list(ticks), list(ticks.values()))
    names = [f"{each.name}\n{each.verdict}".rstrip() for each in chart.intervals]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    _name_axes(axes, "change", "")


_DRAW: Mapping[type, Callable[[Any, Any], None]] = {
    **{Curves: _draw_curves, OverTime: _draw_over_time},
    **{Percentiles: _draw_percentiles, Intervals: _draw_intervals},
}


def _name_axes(axes: Any, x: str, y: str, *, is_log: bool = False) -> None:
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(f"{y}, log scale" if is_log else y, fontsize=8)


def _log_ratio(change: float) -> float:
    return math.log(max(1 + change, 1e-9))


def _scale(axis: Any, unit: str) -> None:
    axis.set_major_formatter(lambda value, _: _tick(value, unit))
    _, top = axis.get_view_interval()
    if unit == "bytes" and axis.get_scale() == "linear" and top > 0:
        from matplotlib.ticker import MultipleLocator

        size = 1024 ** int(math.log(top, 1024))
        step = next((x for x in _STEPS if top / size / x <= _BYTE_TICKS), _STEPS[-1])
        axis.set_major_locator(MultipleLocator(step * size))


def _tick(value: float, unit: str) -> str:
    """A round number: no digits that say nothing, and no unit for none."""
    if value > 0:
        return without_zeros(SHOWN[unit](value))
    return "" if value else "0"


def _set_log(axes: Any, *, is_log: bool) -> None:
    if not is_log:
        axes.set_ylim(bottom=0)
        return
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())


def _drawn(values: Any) -> list[float]:
    return [math.nan if value is None else value for value in values]
