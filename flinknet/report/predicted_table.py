"""Predicted settings as rows: of a run or a job as a whole, with figures of its edges; and a job of
several exchanges in words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from flinknet.results import (
    JobAnswer,
    JobEdgePoint,
    JobPoint,
    ModelError,
    ReplayAnswer,
    TradeOffPoint,
)
from flinknet.results.figures import Figure, named
from flinknet.results.trades import trades_of_job
from flinknet.units import (
    MISSING,
    format_duration_ns,
    human_bytes,
    human_change,
    human_duration,
)

from .advice_lines import (
    FRONTIER,
    KNEE_MARK,
    is_on_frontier,
    is_worth_it,
    job_recommendation,
    lines_of,
    marks_of,
)
from .model_error import OFF_TOO_FAR, UNPREDICTED, is_off
from .observed_tables import FULL
from .page_parts import Head, Lines, Part, Row, Table
from .trade_words import (
    BUFFER_TIMEOUT,
    PRICE_MEANINGS,
    PRICE_NOTE,
    PRICES,
    NamedTrade,
    compared_settings,
    price_cells,
    settings_of,
    trade_of,
    what_varies,
    with_ends,
)

MEMORY = "The most that all buffer pools of producers and consumers can take."

DECISIVE = ("records/s", "p50", "p99", "buffers/s", PRICES[-1])
"""Headings of the figures that decide."""

_FIGURES = [
    *named(["throughput_records_per_s", "latency_p50_ns", "latency_p99_ns", "buffers_per_s"]),
    *named(["backlog_mean_buffers", "backlog_max_buffers"]),
]
_OF_EDGE = _FIGURES[:4]
"""Figures that edges of a job have, too."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """A predicted setting.

    Attributes:
        setting: its values by name, as far as they vary.
        marks: words for it, such as "recorded".
    """

    setting: Mapping[str, str]
    point: TradeOffPoint
    marks: Sequence[str]
    is_on_frontier: bool = False
    edges: Sequence[JobEdgePoint] = ()

    @property
    def label(self) -> str:
        """All values."""
        return ", ".join(self.setting.values())


def predicted_of(whole: ReplayAnswer | JobAnswer) -> list[Predicted]:
    """The predicted settings of a run, or of a job."""
    if isinstance(whole, JobAnswer):
        return [
            Predicted(
                settings_of_job(whole, each),
                each.total,
                job_marks(whole, place),
                edges=each.edges,
            )
            for place, each in enumerate(whole.points)
        ]
    varied = what_varies(whole.trade_offs)
    found = []
    for place, point in enumerate(whole.trade_offs):
        words, marks = settings_of(point), marks_of(whole, place)
        is_best = is_on_frontier(whole, place)
        found.append(Predicted({name: words[name] for name in varied}, point, marks, is_best))
    return found


def settings_table(
    predicted: Sequence[Predicted],
    places: Collection[int] | None = None,
    *,
    names: Collection[str] = (),
    hidden: Collection[str] = (),
    is_joined: bool = True,
    title: str = "",
    notes: Sequence[str] = (),
) -> Table:
    """A row for each setting, and below it one for each edge; columns in which nothing is known
    are left out.

    Args:
        places: of the settings to show, in their order; None: all.
        names: headings of the columns to show; none: all. Of some columns no edges, no frontier and
            no knee are shown.
        hidden: headings of columns that must not be shown.
        is_joined: all values of a setting are in one column.
    """
    keys = list(predicted[0].setting)
    columns = [each for each in _COLUMNS if each[0].name not in hidden]
    columns = [each for each in columns if not names or each[0].name in names]
    has_edges = not names and any(each.edges for each in predicted)
    rows = []
    for place in range(len(predicted)) if places is None else places:
        each = predicted[place]
        marks = [f"← {mark}" for mark in each.marks if not names or mark != KNEE_MARK]
        marks = ["◆"] * (each.is_on_frontier and not names) + marks
        begin = [each.label] if is_joined else list(each.setting.values())
        where = ["job"] if has_edges else []
        cells = [cell(each.point) for _, cell in columns]
        is_strong = each.point.is_recorded or has_edges
        rows.append(Row([*begin, " ".join(marks), *where, *cells], is_strong))
        for edge in each.edges if has_edges else ():
            known = [figure.text(edge) for figure in _OF_EDGE if figure.name not in hidden]
            blank = [""] * (len(columns) - len(known))
            name = f"{edge.number} {edge.edge}"
            rows.append(Row([*("" for _ in begin), "", name, *known, *blank], tone="weak"))
    shown = ["timeout" if each == BUFFER_TIMEOUT else each for each in keys]
    heads = [Head(", ".join(shown))] if is_joined else list(map(Head, keys))
    heads.append(Head("", f"◆: {FRONTIER}."))
    heads += [Head("where", is_text=True)] if has_edges else []
    table = Table([*heads, *(head for head, _ in columns)], rows, title, notes, len(heads))
    return _without_unknown(table)


def hidden_columns(error: ModelError) -> set[str]:
    """Headings of figures that must not be relied on."""
    return {"buffers/s", *PRICES} if is_off(error.buffers_per_s) else set()


def settings_of_job(answer: JobAnswer, point: JobPoint) -> dict[str, str]:
    """The buffer timeout, edge by edge where it differs, and the other settings that vary, by
    name."""
    words, timeouts = settings_of(point.total), list(map(_timeout, point.timeouts_ns))
    found = {BUFFER_TIMEOUT: timeouts[0] if len(set(timeouts)) == 1 else " / ".join(timeouts)}
    varied = what_varies(answer.trade_offs)
    return found | {name: words[name] for name in varied if name != BUFFER_TIMEOUT}


def job_marks(answer: JobAnswer, place: int) -> list[str]:
    """Words next to a setting of a job: recorded, choice, nearest."""
    choice, by_task = answer.choice, answer.by_task
    marks = ["recorded"] if answer.trade_offs[place].is_recorded else []
    if by_task is not None and is_worth_it(by_task):
        marks += ["choice"] if by_task.choice.point == place else []
        marks += ["one for all"] if choice is not None and choice.point == place else []
    else:
        marks += ["choice"] if choice is not None and choice.point == place else []
    return marks + (["nearest"] if choice is not None and choice.nearest == place else [])


def _timeout(timeout_ns: int) -> str:
    return "-1" if timeout_ns < 0 else format_duration_ns(timeout_ns) if timeout_ns else "0"


def ends_of(point: TradeOffPoint, field: str) -> tuple[float, float] | None:
    """The 90% interval of a predicted figure, by its name in CSV files; None where it has none."""
    low, high = point.latency_low_ns, point.latency_high_ns
    ends: tuple[float | None, float | None] = (None, None)
    if field == "buffers_per_s":
        ends = (point.buffers_low_per_s, point.buffers_high_per_s)
    elif field.startswith("latency_") and low is not None and high is not None:
        name = field.removeprefix("latency_").removesuffix("_ns")
        ends = (getattr(low, name), getattr(high, name))
    return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])


def _with_interval(figure: Figure[TradeOffPoint]) -> Callable[[TradeOffPoint], str]:
    """The text of a figure; with its 90% interval, where the records' instants are assumed."""

    def cell(point: TradeOffPoint) -> str:
        return with_ends(figure.text(point), ends_of(point, figure.field), figure.show)

    return cell


def _price(place: int) -> Callable[[TradeOffPoint], str]:
    return lambda point: price_cells(point)[place]


_SHOWN = [(Head(x.name, x.meaning), _with_interval(x)) for x in _OF_EDGE]
_BACKLOG = [(Head(x.name, x.meaning, x.group), x.text) for x in _FIGURES[4:]]
_COLUMNS: Sequence[tuple[Head, Callable[[TradeOffPoint], str]]] = [
    *_SHOWN,
    *(
        (Head(name, meaning), _price(place))
        for place, (name, meaning) in enumerate(zip(PRICES, PRICE_MEANINGS, strict=True))
    ),
    *_BACKLOG,
    (Head("memory", MEMORY), lambda point: human_bytes(point.memory_bytes)),
]
"""All columns, with how the cell of a setting is written."""


def _without_unknown(table: Table) -> Table:
    """The table without the figures of which nothing is known."""
    kept = [
        place
        for place in range(len(table.heads))
        if place < table.keys or any(x.cells[place] not in ("", MISSING) for x in table.rows)
    ]
    rows = [Row([x.cells[n] for n in kept], x.is_strong, x.tone) for x in table.rows]
    heads = [table.heads[n] for n in kept]
    return Table(heads, rows, table.title, table.notes, table.keys)


PHASES = (
    "in brackets: 90% intervals, because a tap does not see when records were made, and flushers"
    " start at random instants in every run"
)
EDGES = (
    "latency: of the job, from a record's creation until the last task has processed it; of an"
    " edge, from when the record comes to that edge"
)


def job_parts(answer: JobAnswer) -> list[Part]:
    """The lines and the table of a job, and what the best setting costs."""
    lines = Lines(job_lines(answer))
    if _is_unknown(answer):
        why = answer.points[0].why_unknown or ""
        return [lines, Lines([f"nothing is predicted: {why}"])]
    advised = job_recommendation(answer)
    texts = [each.text for each in job_trades(answer)]
    texts += ["", *lines_of(advised)] if advised is not None else []
    table = settings_table(
        predicted_of(answer),
        hidden=hidden_columns(answer.model_error),
        title="predicted for each buffer timeout",
        notes=[PRICE_NOTE] if any(each.price for each in answer.trade_offs) else [],
    )
    return [lines, table, Lines(texts)]


def job_notes(answer: JobAnswer) -> list[str]:
    """The meaning of a job's predictions and their assumptions; nothing without predictions."""
    return [] if _is_unknown(answer) else [PHASES, EDGES, FULL, *answer.notes]


def job_lines(answer: JobAnswer) -> list[str]:
    """The model's error, and for which settings the job is unknown and why."""
    error = answer.model_error
    figures = {
        "throughput": error.throughput,
        "p50": error.p50,
        "p99": error.p99,
        "buffers/s": error.buffers_per_s,
    }
    known = {name: value for name, value in figures.items() if value is not None}
    used = f"{human_duration(answer.simulated_ns)} of the trace"
    if not known:
        lines = [f"model error unknown: {UNPREDICTED}"]
    else:
        shown = ", ".join(f"{name} {human_change(value)}" for name, value in known.items())
        part = "all of it" if answer.is_whole else used
        lines = [f"model error on the recorded setting: {shown}  ({part} simulated)"]
        if known and answer.observed.latency_ns.p50 is None:
            lines.append("latency of the job was not recorded, so its error is unknown")
    if any(map(is_off, known.values())):
        lines.append(f"Do not rely on the predictions below: {OFF_TOO_FAR}.")
    whys: dict[str, list[str]] = {}
    for point in answer.points:
        why = point.why_unknown or point.total.why_no_latency
        if why is not None:
            whys.setdefault(why, []).append(setting_of(answer, point))
    for why, settings in whys.items():
        where = "" if len(settings) == len(answer.points) else f" at {', '.join(settings)}"
        lines.append(f"unknown{where}: {why}")
    return lines


def job_trades(answer: JobAnswer) -> list[NamedTrade]:
    """Trade-offs between settings of a job, see `trades_of_job`."""
    settings = compared_settings(answer.trade_offs)
    return [
        trade_of(
            f"buffer timeout {setting_of(answer, answer.points[one])}",
            setting_of(answer, answer.points[base]),
            answer.points[one].total,
            answer.points[base].total,
            answer.cpu_cost,
            says_cost=number == 0,
        )
        for number, (one, base) in enumerate(trades_of_job(answer, settings))
    ]


def setting_of(answer: JobAnswer, point: JobPoint) -> str:
    """Differences between the settings, in words."""
    timeout, *others = settings_of_job(answer, point).items()
    return ", ".join([timeout[1], *(f"{name} {value}" for name, value in others)])


def _is_unknown(answer: JobAnswer) -> bool:
    """Whether nothing is predicted, of the job or of an edge."""
    return all(point.why_unknown is not None for point in answer.points) and all(
        each.why_unknown is not None for each in answer.points[0].edges
    )
