"""Predicted settings of a run or a job: rows of a table, and points of a grid with sliders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from flinknet.results import JobAnswer, ModelError, Price, TaskMetrics, TradeOffPoint
from flinknet.results.figures import FIGURES, Figure, named
from flinknet.results.trades import Range
from flinknet.units import MISSING, human_bytes, human_count

from . import trade_words
from .advice import is_off, is_on_frontier, is_worth_it, marks_of
from .charts import Bar, BarPart, Color, Grid, GridFigure, GridPoint, Slider
from .page_parts import Head, Row, Table

MEMORY = "The most that all buffer pools of producers and consumers can take."

DECISIVE = ("records/s", "p50", "p99", "buffers/s", "CPU change")
"""Headings of the figures that decide."""

PRICE_NOTE = (
    "packets/s: at most so many TCP packets (a large buffer takes several); CPU change: against the"
    " recorded setting, in percent of one core, for buffers and credit alone"
)
"""Below a table with them."""

CHOICES_SHOWN = 12
"""Rows of the table with the figures that decide."""

_FIGURES = [
    *named(["throughput_records_per_s", "latency_p50_ns", "latency_p99_ns", "buffers_per_s"]),
    *named(["backlog_mean_buffers", "backlog_max_buffers"]),
]
_OF_EDGE = _FIGURES[:4]
"""Figures that edges of a job have, too."""


def decisive_table(job: JobAnswer) -> Table:
    """The settings with the figures that decide; with a limit the choice, its neighbours, and the
    recorded setting."""
    points, choice = job.points, job.choice
    shown = list(range(len(points)))
    if choice is not None:
        near = [each for each in (choice.point, choice.nearest) if each is not None]
        around = {place + step for place in near for step in (-1, 0, 1)}
        shown = [n for n, each in enumerate(points) if each.is_recorded or n in around]
        if job.by_task is not None:
            found = job.by_task
            own = [found.choice.point, *(each[0] for each in found.longer if each is not None)]
            first = [each for each in own if each is not None] if is_worth_it(found) else []
            shown = [*first, *(each for each in shown if each not in own)]
    elif len(points) > CHOICES_SHOWN:
        marked = {place for place in shown if marks_of(job, place)}
        room = max(CHOICES_SHOWN - len(marked), 1)
        shown = sorted(marked | {number * len(points) // room for number in range(room)})
    left_out = len(points) - len(shown)
    notes = [f"{left_out:,} more settings in the details (--details)"] if left_out else []
    return _settings_table(job, shown, notes, names=DECISIVE)


def all_settings(job: JobAnswer) -> Table:
    """All figures of all settings, and the assumptions behind them."""
    places = range(len(job.points))
    notes = [PRICE_NOTE] if any(each.price for each in job.points) else []
    if any(is_on_frontier(job, place) for place in places):
        notes.append(f"◆ on the frontier: {trade_words.frontier_meaning(job.points)}")
    notes.append(f"memory: {MEMORY[0].lower()}{MEMORY[1:-1]}")
    interval = _interval_of(job)
    if interval == CLOCKS or (interval and not job.is_exchange):
        notes.append(f"in brackets: {interval}")
    notes += trade_words.notes_of(job.points) if job.is_exchange else [EDGES, *job.notes]
    return replace(
        _settings_table(job, places, notes), title=f"All {len(places)} settings", fold="closed"
    )


def _settings_table(
    job: JobAnswer, places: Iterable[int], notes: Sequence[str], *, names: Collection[str] = ()
) -> Table:
    """A row for each setting in some places, and below it one for each edge of a job; columns in
    which nothing is known are left out. `names` are the headings of the columns to show; of some
    columns no edges and no frontier are shown."""
    hidden = _hidden_columns(job.model_error)
    columns = [each for each in _COLUMNS if each[0].name not in hidden]
    columns = [each for each in columns if not names or each[0].name in names]
    has_edges = not names and any(each.edges for each in job.points)
    varied, rows = trade_words.what_varies(job.points), []
    for place in places:
        point, setting = job.points[place], trade_words.settings_of(job.points[place])
        marks = [f"← {x}" for x in marks_of(job, place)]
        marks = ["◆"] * (not names and is_on_frontier(job, place)) + marks
        where = ["job"] if has_edges else []
        cells = [", ".join(setting[name] for name in varied), " ".join(marks), *where]
        cells += [cell(point) for _, cell in columns]
        rows.append(Row(cells, point.is_recorded or has_edges))
        for name, edge in zip(job.edge_titles, point.edges, strict=False) if has_edges else ():
            known = [figure.text(edge) for figure in _OF_EDGE if figure.name not in hidden]
            blank = [""] * (len(columns) - len(known))
            rows.append(Row(["", "", name, *known, *blank], tone="weak"))
    title = ", ".join("timeout" if x == trade_words.BUFFER_TIMEOUT else x for x in varied)
    frontier = trade_words.frontier_meaning(job.points)
    heads = [Head(title), Head("", f"◆: {frontier}.")]
    heads += [Head("where", is_text=True)] if has_edges else []
    heads, keys = [*heads, *(head for head, _ in columns)], len(heads)
    kept = [
        place
        for place in range(len(heads))
        if place < keys or any(x.cells[place] not in ("", MISSING) for x in rows)
    ]
    rows = [replace(x, cells=[x.cells[n] for n in kept]) for x in rows]
    return Table([heads[n] for n in kept], rows, notes=notes, keys=keys)


def _hidden_columns(error: ModelError) -> set[str]:
    hidden = {"buffers/s", *_PRICES} if is_off(error.buffers_per_s) else set[str]()
    return hidden | ({"p99"} if error.is_tail_off else set())


def _interval_of(job: JobAnswer) -> str:
    """The kind of interval that some predictions have: PHASES, CLOCKS, or none."""
    points = [each for point in job.points for each in (point, *point.edges)]
    if any(each.buffers_low_per_s is not None for each in points):
        return PHASES
    return CLOCKS if any(each.latency_high_ns for each in points) else ""


def _ends_of(point: TradeOffPoint, field: str) -> Range | None:
    low, high = point.latency_low_ns, point.latency_high_ns
    ends: tuple[float | None, float | None] = (None, None)
    if field == "buffers_per_s":
        ends = (point.buffers_low_per_s, point.buffers_high_per_s)
    elif field.startswith("latency_") and low is not None and high is not None:
        name = field.removeprefix("latency_").removesuffix("_ns")
        ends = (getattr(low, name), getattr(high, name))
    return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])


def _price(show: Callable[[Price], str]) -> Callable[[TradeOffPoint], str]:
    return lambda point: MISSING if point.price is None else show(point.price)


def _with_interval(figure: Figure[TradeOffPoint]) -> Callable[[TradeOffPoint], str]:
    return lambda x: trade_words.with_ends(figure.text(x), _ends_of(x, figure.field), figure.show)


_PRICES = {
    "packets/s": (
        "Packets per second at most, if every message leaves alone; without acknowledgements.",
        _price(lambda price: human_count(price.packets_per_s)),
    ),
    "bytes/s": (
        "Bytes per second on the network: payload, headers of messages and of packets.",
        _price(lambda price: f"{human_bytes(price.bytes_per_s)}/s"),
    ),
    "CPU change": (
        "CPU against the recorded setting, in percent of a core, on both sides together.",
        _price(lambda price: trade_words.cpu_text(price.cpu_cores_change)),
    ),
}
"""Meaning and cell of each figure of what a setting costs, by its heading."""

_COLUMNS: Sequence[tuple[Head, Callable[[TradeOffPoint], str]]] = [
    *((Head(each.name, each.meaning), _with_interval(each)) for each in _OF_EDGE),
    *((Head(name, meaning), cell) for name, (meaning, cell) in _PRICES.items()),
    *((Head(each.name, each.meaning, each.group), each.text) for each in _FIGURES[4:]),
    (Head("memory", MEMORY), lambda point: human_bytes(point.memory_bytes)),
]
"""All columns, with how the cell of a setting is written."""

PHASES = (
    "90% intervals, because a tap does not see when records were made, and flushers start at random"
    " instants in every run"
)
CLOCKS = "bounds, because the clocks of two hosts agree within their error"
EDGES = (
    "latency: of the job, from a record's creation until the last task has processed it; of an"
    " edge, from when the record comes to that edge"
)


_CHARTS: Sequence[tuple[str, str, Color, bool]] = (
    ("latency_p50_ns", "Latency", "blue", True),
    ("latency_p99_ns", "Latency", "orange", True),
    ("throughput_records_per_s", "Throughput", "green", False),
    ("buffers_per_s", "Buffers per second", "purple", True),
)
_GRID_FIGURES: Mapping[str, GridFigure] = {
    **{
        name: GridFigure.of(FIGURES[name], chart, color, is_log=is_log)
        for name, chart, color, is_log in _CHARTS
    },
    "": GridFigure("memory", "Memory", "bytes", "gold", MEMORY),
}
"""Figures of a predicted setting, by their fields among FIGURES."""

_WORK = (
    BarPart("busy", "busy", "orange", "It works on records."),
    BarPart("waits", "waits", "grey", "It waits for its input or for its output."),
)
_WORK_MEANING = (
    "Flink's busy time, in proportion to the predicted throughput: a record costs as much work as"
    " in the recording, divided by the speed of the consumer."
)


def grid_of(job: JobAnswer, tasks: Sequence[tuple[TaskMetrics, bool]] = ()) -> Grid:
    """The predictions that may be relied on, with a slider for each setting that varies. `tasks`
    are those with a busy time, each with whether it is a consumer, whose speed a setting may
    change."""
    error, settings = job.model_error, [trade_words.settings_of(each) for each in job.points]
    names, timeout = trade_words.varied_in(settings), trade_words.BUFFER_TIMEOUT
    values = {name: [*dict.fromkeys(each[name] for each in settings)] for name in names}
    if timeout in names:  # from the shortest on, however they were asked for
        lengths = map(trade_words.timeout_ns_of, job.points)
        length = {own[timeout]: ns for own, ns in zip(settings, lengths, strict=True)}
        values[timeout].sort(key=lambda each: (length[each] < 0, length[each]))
    errors = {
        "latency_p50_ns": error.p50,
        "latency_p99_ns": error.p99,
        "throughput_records_per_s": error.throughput,
    }

    def range_of(point: TradeOffPoint, field: str, value: float | None) -> Range | None:
        """The interval of a figure; as wide as the error on the recorded setting if it has none."""
        if (ends := _ends_of(point, field)) is not None:
            return ends
        own = errors.get(field)
        factor = None if own is None else 1 + abs(own)
        return (value / factor, value * factor) if value and factor else None

    first = next((n for n, each in enumerate(job.points) if each.is_recorded), None)
    base = settings[first or 0]
    memory = {each.memory_bytes for each in job.points}
    hidden = _hidden_columns(error) | ({"memory"} if len(memory) < 2 else set())
    shown = [(field, each) for field, each in _GRID_FIGURES.items() if each.name not in hidden]
    points = []
    for place, (own, point) in enumerate(zip(settings, job.points, strict=True)):
        at = [values[name].index(own[name]) for name in names]
        found = [FIGURES[x].read(point) if x else point.memory_bytes for x, _ in shown]
        pairs = zip(shown, found, strict=True)
        ranges = [range_of(point, field, value) for (field, _), value in pairs]
        work = _work(tasks, point, job.points[first or 0])
        points.append(GridPoint(at, found, ranges, ", ".join(marks_of(job, place)), work))
    sliders = [Slider(x, values[x], values[x].index(base[x])) for x in names]
    bands = {
        PHASES: "The band is the 90% interval.",
        CLOCKS: "The band is within the error of the hosts' clocks.",
        "": "The band is as wide as the model's error on the recorded setting.",
    }
    return Grid(
        sliders,
        [figure for _, figure in shown],
        points,
        max(range(len(names)), key=lambda place: len(values[names[place]])),
        first,
        parts=_WORK if tasks else (),
        meaning=bands[_interval_of(job)],
        bars_title="Where the time of the tasks goes",
        bars_meaning=_WORK_MEANING,
    )


def _work(
    tasks: Sequence[tuple[TaskMetrics, bool]], point: TradeOffPoint, base: TradeOffPoint
) -> list[Bar]:
    rate, usual = point.throughput_records_per_s, base.throughput_records_per_s
    if rate is None or not usual:
        return []
    bars = []
    for task, is_consumer in tasks:
        if task.busy is not None:
            speed = point.consumer_speed / base.consumer_speed if is_consumer else 1.0
            busy = min(task.busy * rate / usual / speed, 1.0)
            bars.append(Bar(task.name, {"busy": busy, "waits": 1 - busy}))
    return bars
