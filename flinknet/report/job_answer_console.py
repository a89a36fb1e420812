"""A job of several exchanges from end to end, in words and as a table."""

from __future__ import annotations

from flinknet.results import JobAnswer, JobEdgePoint, JobPoint, LatencySummary
from flinknet.results.trades import trades_of_job
from flinknet.units import (
    MISSING,
    format_duration_ns,
    human_change,
    human_count,
    human_duration,
)

from .advice_lines import is_worth_it, job_recommendation, lines_of
from .model_error import OFF_TOO_FAR, UNPREDICTED, is_off
from .observed_tables import FULL
from .page_parts import Lines, Part, Row, Table, heads
from .settings_in_words import BUFFER_TIMEOUT, compared_settings, settings_of, what_varies
from .trade_words import (
    PRICE_NOTE,
    PRICES,
    NamedTrade,
    price_cells,
    trade_of,
    with_ends,
)

UNKNOWN = "unknown"

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
    return [lines, _table(answer), Lines(texts)]


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
    settings = compared_settings([each.total for each in answer.points])
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


def settings_of_job(answer: JobAnswer, point: JobPoint) -> dict[str, str]:
    """The buffer timeout, edge by edge where it differs, and the other settings that vary, by
    name."""
    words, timeouts = settings_of(point.total), list(map(_timeout, point.timeouts_ns))
    found = {BUFFER_TIMEOUT: timeouts[0] if len(set(timeouts)) == 1 else " / ".join(timeouts)}
    varied = what_varies([each.total for each in answer.points])
    return found | {name: words[name] for name in varied if name != BUFFER_TIMEOUT}


def job_marks(answer: JobAnswer, place: int) -> list[str]:
    """Words next to a setting of a job: recorded, choice, nearest."""
    choice, by_task = answer.choice, answer.by_task
    marks = ["recorded"] if answer.points[place].total.is_recorded else []
    if by_task is not None and is_worth_it(by_task):
        marks += ["choice"] if by_task.choice.point == place else []
        marks += ["one for all"] if choice is not None and choice.point == place else []
    else:
        marks += ["choice"] if choice is not None and choice.point == place else []
    return marks + (["nearest"] if choice is not None and choice.nearest == place else [])


def _timeout(timeout_ns: int) -> str:
    return "-1" if timeout_ns < 0 else format_duration_ns(timeout_ns) if timeout_ns else "0"


def _is_unknown(answer: JobAnswer) -> bool:
    """Whether nothing is predicted, of the job or of an edge."""
    return all(point.why_unknown is not None for point in answer.points) and all(
        each.why_unknown is not None for each in answer.points[0].edges
    )


def _table(answer: JobAnswer) -> Table:
    has_prices = any(point.total.price for point in answer.points)
    prices = PRICES if has_prices else ()
    rows = []
    for point in answer.points:
        total = point.total
        low, high = total.latency_low_ns, total.latency_high_ns
        cells = [
            setting_of(answer, point),
            "job" + (" ← recorded" if total.is_recorded else ""),
            _count(total.throughput_records_per_s),
            *(_spread(name, total.latency_ns, low, high) for name in ("p50", "p99")),
            _count(total.buffers_per_s),
            *(price_cells(total) if prices else ()),
        ]
        rows.append(Row(cells, is_strong=True))
        for edge in point.edges:
            cells = ["", f"{edge.number} {edge.edge}", *_cells(edge), *("" for _ in prices)]
            rows.append(Row(cells, tone="weak"))
    names = ("where", "records/s", "p50", "p99", "buffers/s", *prices)
    return Table(
        heads("timeout", *names, texts=["where"]),
        rows,
        "predicted for each buffer timeout",
        [PRICE_NOTE] if has_prices else [],
        keys=2,
    )


def _cells(edge: JobEdgePoint) -> list[str]:
    return [
        _count(edge.throughput_records_per_s),
        _duration(edge.latency_ns.p50),
        _duration(edge.latency_ns.p99),
        _count(edge.buffers_per_s),
    ]


def _spread(
    name: str, latency: LatencySummary, low: LatencySummary | None, high: LatencySummary | None
) -> str:
    value = _duration(getattr(latency, name))
    ends = [getattr(each, name) for each in (low, high) if each is not None]
    if value == UNKNOWN or len(ends) < 2 or None in ends:
        return value
    return with_ends(value, (ends[0], ends[1]), human_duration)


def _duration(value: float | None) -> str:
    return UNKNOWN if value is None else human_duration(value)


def _count(value: float | None) -> str:
    found = human_count(value)
    return UNKNOWN if found == MISSING else found
