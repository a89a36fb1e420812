"""Charts of a view, as data, and what is moved by sliders: places, messages, timelines and grids.

Numbers are in the unit that a chart names. The script of the page knows each part by its kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from flinknet.results import ChannelOverTime
from flinknet.results.figures import Figure, Unit

Color = Literal["blue", "orange", "green", "gold", "purple", "grey"]


@dataclass(frozen=True, slots=True)
class Series:
    """One curve: a value for each label, None where there is none; `low` and `high` bound a band
    around it. One that bounds another is dashed.
    """

    name: str
    values: Sequence[float | None]
    color: Color = "blue"
    meaning: str = ""
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    is_bound: bool = False


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves of a quantity (`title`) by settings, runs or dates: one place on the horizontal axis
    for each label, some of which have a mark such as "baseline". Bars are for labels that have
    nothing between them. `by` and `y` are the titles of the axes."""

    title: str = ""
    labels: Sequence[str] = ()
    series: Sequence[Series] = ()
    unit: Unit = "count"
    is_log: bool = False
    meaning: str = ""
    marks: Sequence[tuple[int, str]] = ()
    is_bars: bool = False
    by: str = ""
    y: str = ""


@dataclass(frozen=True, slots=True)
class TimeSeries:
    """One curve over time: a value at each instant, in ns since the start of the run."""

    name: str
    at_ns: Sequence[int]
    values: Sequence[float | None]
    color: Color = "blue"
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A time with a name, such as the pause of a consumer; shaded."""

    name: str
    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class Limit:
    """A value with a name, such as the target of a gate; a dashed line."""

    value: float
    name: str


@dataclass(frozen=True, slots=True)
class Lane:
    """Intervals (from, to, in ns) of a run, such as its checkpoints, in a row below the curves."""

    name: str
    color: Color
    spans: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class OverTime:
    """Curves over the time of a run; with `in_rows` each in a row of its own, on the same scale.
    The vertical axis has the title `y`, and ends at `top`, or at the largest value; `in_lanes` says
    what the lanes show."""

    title: str = ""
    series: Sequence[TimeSeries] = ()
    unit: Unit = "count"
    meaning: str = ""
    spans: Sequence[Span] = ()
    in_rows: bool = False
    top: float | None = None
    limits: Sequence[Limit] = ()
    y: str = ""
    lanes: Sequence[Lane] = ()
    in_lanes: str = ""


@dataclass(frozen=True, slots=True)
class PercentileSeries:
    """One curve of (quantile from 0 to 1, latency in ns), by quantile."""

    name: str
    points: Sequence[tuple[float, float]]
    color: Color = "blue"


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Latency over percentiles; each nine has the same room."""

    title: str = ""
    series: Sequence[PercentileSeries] = ()
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Bars over ranges of a quantity (lower and upper end of each, in `across`), with a stack of
    series, and marks at positions with a name; `x` and `y` are the titles of the axes."""

    title: str = ""
    ranges: Sequence[tuple[float, float]] = ()
    series: Sequence[Series] = ()
    across: Unit = "count"
    unit: Unit = "count"
    marks: Sequence[tuple[float, str]] = ()
    is_log: bool = False
    meaning: str = ""
    x: str = ""
    y: str = ""


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part that bars are split into."""

    key: str
    name: str
    color: Color
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; shares by the key of the part, of a sum of 1 at most."""

    name: str
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars that are split into shares of `x`."""

    title: str = ""
    parts: Sequence[BarPart] = ()
    bars: Sequence[Bar] = ()
    meaning: str = ""
    x: str = "the time"


@dataclass(frozen=True, slots=True)
class Interval:
    """A relative change with its interval (0.1: ten percent more); None where not known. `verdict`
    is a word for it, and `limits` are the changes at which a gate fails."""

    name: str
    change: float | None
    low: float | None
    high: float | None
    color: Color = "grey"
    text: str = ""
    limits: Sequence[float] = ()
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Changes with their intervals, one in a row, around a line at no change."""

    title: str = ""
    intervals: Sequence[Interval] = ()
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class PlacesStep:
    """Content of the places at an instant, in their order, and events: one sentence each.
    `by_channel` splits each place by channel; a place that is one queue of all channels is not
    split. `full` are the places that accept no more, whatever their capacity."""

    at_ns: int
    levels: Sequence[float]
    lines: Sequence[str] = ()
    by_channel: Sequence[Sequence[int]] = ()
    full: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class PlacesRun:
    """One run whose places are shown; `bounds` is the capacity of each."""

    name: str
    bounds: Sequence[float]
    steps: Sequence[PlacesStep]


@dataclass(frozen=True, slots=True)
class PlacesChannel:
    """A channel whose data has a colour of its own in the places."""

    name: str
    color: Color


@dataclass(frozen=True, slots=True)
class Places:
    """The places between two tasks, step by step: a slider over time shows how full each is, in all
    runs at the same instant, with a curve below the slider and notes below all. `ends` are who
    writes into the first place, and who reads from the last; steps may be split by `channels`."""

    names: Sequence[str] = ()
    meanings: Sequence[str] = ()
    runs: Sequence[PlacesRun] = ()
    curve: OverTime | None = None
    notes: Sequence[str] = ()
    ends: tuple[str, str] = ("producers", "consumers")
    channels: Sequence[PlacesChannel] = ()
    unit: Unit = "bytes"


@dataclass(frozen=True, slots=True)
class MessageStep:
    """A message on a channel (by its index among those that are shown), as the producer's
    TaskManager sees it, and the credit of the producer of each channel after it; None without flow
    control by credit. Without a channel, the text says what is left out before the next message."""

    at_ns: int
    channel: int | None
    is_forward: bool
    text: str
    credits: Sequence[int | None]


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of some channels by run, step by step, with the credit of each channel, which has
    the names of its producer and its consumer. The first of `meanings` whose key is in the text of
    a message explains it."""

    channels: Sequence[tuple[str, str]] = ()
    runs: Mapping[str, Sequence[MessageStep]] = field(default_factory=dict)
    meanings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Panel:
    """A curve of a channel over time: `key` is that of the mean, `extreme` that of the largest or
    least value of each window."""

    key: str
    name: str
    color: Color
    meaning: str
    extreme: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """One of several named channels over time, in panels above a strip of regimes; drag to zoom.
    The channel with the index `first` is shown first."""

    names: Sequence[str] = ()
    channels: Sequence[ChannelOverTime] = ()
    first: int = 0
    duration_ns: int = 0
    panels: Sequence[Panel] = ()
    regimes: Sequence[BarPart] = ()


@dataclass(frozen=True, slots=True)
class Slider:
    """A setting, its values in their order, and the index of the value to begin with."""

    name: str
    labels: Sequence[str]
    at: int


@dataclass(frozen=True, slots=True)
class GridFigure:
    """A figure of each point of a grid; `chart` is the title of the chart that it is drawn in."""

    name: str
    chart: str
    unit: Unit
    color: Color
    meaning: str = ""
    is_log: bool = False

    @classmethod
    def of(cls, figure: Figure[Any], chart: str, color: Color, *, is_log: bool = True) -> Self:
        """A figure of a result in a chart."""
        return cls(figure.name, chart, figure.unit, color, figure.meaning, is_log)


@dataclass(frozen=True, slots=True)
class GridPoint:
    """A point of a grid."""

    at: Sequence[int]  # index of its value of each setting
    values: Sequence[float | None]  # of each figure; None where unknown
    ranges: Sequence[tuple[float, float] | None]  # ends of the interval of each figure
    mark: str = ""  # words for it, such as "recorded"
    bars: Sequence[Bar] = ()  # where the time went


@dataclass(frozen=True, slots=True)
class Grid:
    """Predictions for several settings, with a slider for each setting: the figures at the sliders,
    and curves along the slider that was moved last."""

    sliders: Sequence[Slider] = ()
    figures: Sequence[GridFigure] = ()
    points: Sequence[GridPoint] = ()
    along: int = 0  # index of the slider whose curves are shown first
    recorded: int | None = None  # index of the point to compare with; None if it is not among them
    base: str = "recorded"  # a word for that point
    parts: Sequence[BarPart] = ()  # of the bars of each point
    meaning: str = ""  # of the ranges
    bars_title: str = ""
    bars_meaning: str = ""


Chart = Curves | OverTime | Percentiles | Intervals
"""Charts that `plot` can draw, too."""

AnyChart = Chart | Histogram | Bars | Timeline | Grid | Places | Messages
