"""A replay as a page: the answer, predictions with a slider for each setting, and observed figures;
of a job first the whole, then its edges in the direction of flow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from flinknet.results import (
    JobAnswer,
    ModelError,
    ReplayAnswer,
    TaskMetrics,
    TradeOffPoint,
)
from flinknet.results.figures import FIGURES

from .advice_lines import (
    FRONTIER,
    Recommendation,
    job_recommendation,
    recommendations,
)
from .bench import TASK_PARTS
from .charts import Bar, BarPart, Bars, Curves, Grid, GridFigure, GridPoint, Slider
from .model_error import doubts_of, is_off, model_error_text, recording_lines
from .observed_page import BARS_SHOWN, ROWS_OPEN, observed_sections
from .observed_tables import TIMES_TITLE, edges_table, facts, runs_table, times_parts
from .page_parts import (
    Code,
    Folded,
    Lines,
    Page,
    Part,
    Section,
    Text,
    View,
)
from .plot import curves_of
from .predicted_table import (
    EDGES,
    MEMORY,
    PHASES,
    Predicted,
    ends_of,
    hidden_columns,
    job_lines,
    job_trades,
    predicted_of,
    settings_table,
)
from .replay_headline import replay_sentences, why_not_printed
from .trade_words import BUFFER_TIMEOUT, notes_of, timeout_ns_of, trades

ERROR_SMALL = 0.1
"""Model error up to which its banner is green."""

_MOVE = "Move a slider: figures and curves follow."

_GRID_FIGURES = (
    ("latency_p50_ns", GridFigure("p50", "Latency", "ns", "blue", is_log=True)),
    ("latency_p99_ns", GridFigure("p99", "Latency", "ns", "orange", is_log=True)),
    ("throughput_records_per_s", GridFigure("records/s", "Throughput", "count", "green")),
    (
        "buffers_per_s",
        GridFigure("buffers/s", "Buffers per second", "count", "purple", is_log=True),
    ),
    ("", GridFigure("memory", "Memory", "bytes", "gold", MEMORY)),
)
"""Figures of a predicted setting, with their fields among FIGURES."""

_WORK = (
    BarPart("busy", "busy", "orange", "It works on records."),
    BarPart("waits", "waits", "grey", "It waits for its input or for its output."),
)
_WORK_MEANING = (
    "Flink's busy time, in proportion to the predicted throughput: a record costs as much work as"
    " in the recording, divided by the speed of the consumer."
)


def replay_page(answers: Sequence[ReplayAnswer], jobs: Sequence[JobAnswer] = ()) -> Page:
    """Make the page of some runs, each with `details`, and of jobs of several edges."""
    paths = list(dict.fromkeys(each.trace.path for each in answers))
    ordered = sorted(
        answers, key=lambda each: (paths.index(each.trace.path), each.trace.edge_number)
    )
    is_one_run, whole = len(paths) == 1, {job.path for job in jobs}
    views = [_job_view(job, ordered, len(jobs)) for job in jobs]
    if len(answers) > 1:
        views.append(_overview(ordered, is_one_run=is_one_run))
    for each in ordered:
        has_job = each.trace.path in whole
        views.append(_run_view(each, _name_of(each, is_one_run=is_one_run), has_job=has_job))
    return Page("replay", views)


def _name_of(answer: ReplayAnswer, *, is_one_run: bool) -> str:
    """Name of a run, and number and name of an edge; of the only run the edge alone."""
    trace = answer.trace
    run = trace.path.rstrip("/").rsplit("/", 1)[-1]
    edge = f"{trace.edge_number} {trace.edge}" if trace.edge else ""
    return ", ".join(each for each in ("" if is_one_run and edge else run, edge) if each)


def _overview(answers: Sequence[ReplayAnswer], *, is_one_run: bool) -> View:
    """All runs, or all edges of one run, in one table."""
    what = "edge" if is_one_run else "run"
    table = edges_table(answers) if is_one_run else runs_table(answers)
    section = Section("overview", "", "", [table])
    return View(name=f"all {what}s", title=f"All {what}s, observed", parts=[section])


def _run_view(answer: ReplayAnswer, name: str, *, has_job: bool) -> View:
    """One run, or one edge of a job."""
    doubts = [*recording_lines(answer.trace), *doubts_of(answer)]
    parts: list[Section | Part] = [
        _model_error(answer),
        *([Lines(list(map(_capital, doubts)), is_doubt=True, id="doubts")] if doubts else []),
        *_answer_section([each.text for each in trades(answer)], recommendations(answer)),
        facts(answer),
        _predictions(answer, [answer]),
        *observed_sections(answer),
    ]
    headline = [] if has_job else replay_sentences([answer], None)
    return View(headline, parts, name=name, title=name, meaning=answer.trace.path)


def _job_view(job: JobAnswer, answers: Sequence[ReplayAnswer], jobs: int) -> View:
    """A job from end to end."""
    name = "/".join(job.path.rstrip("/").split("/")[-2:])
    own = [each for each in answers if each.trace.path == job.path]
    advised = job_recommendation(job)
    lines = list(map(_capital, job_lines(job)))
    is_doubt = any(re.match("Unknown|Model error unknown|Do not rely", each) for each in lines)
    parts: list[Section | Part] = [
        *_answer_section([each.text for each in job_trades(job)], [advised] if advised else []),
        replace(_banner(lines, job.model_error, is_doubt=is_doubt), id="job-lines"),
        *([] if why_not_printed(job) else [_predictions(job, own)]),
        *_job_tasks(own),
    ]
    if times := times_parts(own, job.feeding):
        parts.append(Section("times", TIMES_TITLE, "", times))
    title = f"The job from end to end: {name}"
    tab = f"job {name}" if jobs > 1 else "the job"
    return View(replay_sentences(own, job), parts, name=tab, title=title, meaning=job.path)


def _banner(lines: Sequence[str], error: ModelError, *, is_doubt: bool) -> Lines:
    """Lines about the model's error: green only where every figure was recorded and its error is
    small."""
    errors = (error.throughput, error.p50, error.p99, error.buffers_per_s or 0.0)
    is_small = all(each is not None and abs(each) <= ERROR_SMALL for each in errors)
    return Lines(lines, is_doubt=is_doubt, is_plain=not is_small, is_headed=True)


def _model_error(answer: ReplayAnswer) -> Lines:
    found = model_error_text(answer)
    head = "Model error"
    head += " unknown" if found.figures is None else f" on the recorded setting: {found.figures}"
    consequence = _capital(found.consequence)
    if found.is_doubtful and found.figures is not None:
        consequence = f"Predictions are not shown: {found.consequence}"
    banner = _banner(
        [head, f"From {found.used}. {consequence}."],
        answer.model_error,
        is_doubt=found.is_doubtful,
    )
    meaning = (
        "(predicted − observed) / observed, for the setting that was recorded: the one prediction"
        " that can be checked."
    )
    return replace(banner, id="model-error", meaning=meaning)


def _answer_section(compared: Sequence[str], advised: Sequence[Recommendation]) -> list[Section]:
    """Trade-offs in words, and the advice with its keys."""
    parts: list[Part] = [Text("", f"{_capital(each)}.") for each in compared]
    for each in advised:
        remarks = [f"{_capital(remark.text)}." for remark in each.remarks]
        head = _capital(each.head)
        parts.append(Text(head, f"{each.text}.", each.meaning, each.is_none, remarks))
        parts += [Code(_capital(each.patch_title), each.patch)] if each.patch else []
    return [Section("answer", "Answer", "", parts)] if parts else []


def _capital(text: str) -> str:
    """The text with a capital letter, unless it begins with a metric or the name of a file."""
    return re.sub(r"^[a-z]+\b(?!\s*[<>_=]|[.]\w)", lambda word: word[0].capitalize(), text)


def replay_chart(answer: ReplayAnswer) -> Curves | None:
    """The predicted latency over the setting that has the most values, as a picture; None if no
    prediction may be relied on."""
    if why_not_printed(answer) is not None:
        return None
    grid = _grid(predicted_of(answer), answer.model_error, ())
    return curves_of(grid)


def _predictions(whole: ReplayAnswer | JobAnswer, own: Sequence[ReplayAnswer]) -> Section:
    """Sliders over the predicted settings of a run or a job, and a table of them."""
    title, points = "What other settings would do", whole.trade_offs
    why = why_not_printed(whole)
    if why is not None:
        return Section("trade-offs", title, f"Not predicted: {why}.")
    predicted = predicted_of(whole)
    if isinstance(whole, JobAnswer):
        lead = "The job as a whole, from end to end."
        notes = [f"{_capital(x)}." for x in (PHASES.removeprefix("in brackets: "), EDGES)]
        notes += [f"{_capital(each)}." for each in whole.notes]
    else:
        lead = "Predicted from the recorded arrivals and service times."
        has_frontier = any(each.is_on_frontier for each in predicted)
        notes = [f"◆ on the frontier: {FRONTIER}."] if has_frontier else []
        notes += notes_of(points)
    hidden = hidden_columns(whole.model_error)
    table = settings_table(predicted, hidden=hidden, is_joined=False, notes=notes)
    folded = Folded(f"All {len(points)} settings", table, is_open=len(points) <= ROWS_OPEN)
    grid = _grid(predicted, whole.model_error, _tasks(own))
    return Section("trade-offs", title, f"{lead} {_MOVE}", [grid, folded])


def _grid(
    predicted: Sequence[Predicted], error: ModelError, tasks: Sequence[tuple[TaskMetrics, bool]]
) -> Grid:
    """The predictions that may be relied on, with a slider for each setting that varies."""
    names = list(predicted[0].setting)
    values = {name: _values_of(name, predicted) for name in names}
    first = next((n for n, each in enumerate(predicted) if each.point.is_recorded), None)
    base = predicted[first or 0]
    memory = {each.point.memory_bytes for each in predicted}
    hidden = {"buffers/s"} if is_off(error.buffers_per_s) else set[str]()
    hidden |= {"memory"} if len(memory) < 2 else set()
    shown = [
        (field, replace(x, meaning=FIGURES[field].meaning if field else x.meaning))
        for field, x in _GRID_FIGURES
        if x.name not in hidden
    ]
    points = []
    for each in predicted:
        point = each.point
        found = [FIGURES[x].read(point) if x else point.memory_bytes for x, _ in shown]
        points.append(
            GridPoint(
                [values[name].index(each.setting[name]) for name in names],
                found,
                [
                    ends_of(point, field) or _as_wide_as_error(field, value, error)
                    for (field, _), value in zip(shown, found, strict=True)
                ],
                ", ".join(each.marks),
                _work(tasks, point, base.point),
            )
        )
    sliders = [Slider(x, values[x], values[x].index(base.setting[x])) for x in names]
    has_interval = any(each.point.latency_high_ns for each in predicted)
    return Grid(
        sliders,
        [figure for _, figure in shown],
        points,
        max(range(len(names)), key=lambda place: len(values[names[place]])),
        first,
        parts=_WORK if tasks else (),
        meaning="The band is the 90% interval."
        if has_interval
        else "The band is as wide as the model's error on the recorded setting.",
        bars_title="Where the time of the tasks goes",
        bars_meaning=_WORK_MEANING,
    )


def _tasks(own: Sequence[ReplayAnswer]) -> list[tuple[TaskMetrics, bool]]:
    """The tasks of a job by Flink's metrics, each with whether it is a consumer; the first ones
    where there are many."""
    found: dict[str, tuple[TaskMetrics, bool]] = {}
    for answer in own:
        for place, vertex in enumerate(answer.flink.vertices if answer.flink else ()):
            found |= {each.name: (each, place > 0) for each in vertex.tasks}
    return list(found.values())[:BARS_SHOWN]


def _values_of(name: str, predicted: Sequence[Predicted]) -> list[str]:
    """Values of a setting; timeouts from the shortest on, however they were asked for."""
    found = {each.setting[name]: timeout_ns_of(each.point) for each in predicted}
    if name != BUFFER_TIMEOUT:
        return list(found)
    return sorted(found, key=lambda each: found[each] if found[each] >= 0 else float("inf"))


def _as_wide_as_error(
    field: str, value: float | None, error: ModelError
) -> tuple[float, float] | None:
    """An interval as wide as the model errs on the recorded setting; None where that is unknown."""
    own = {
        "latency_p50_ns": error.p50,
        "latency_p99_ns": error.p99,
        "throughput_records_per_s": error.throughput,
    }.get(field)
    return None if not value or own is None else (value / (1 + abs(own)), value * (1 + abs(own)))


def _work(
    tasks: Sequence[tuple[TaskMetrics, bool]], point: TradeOffPoint, base: TradeOffPoint
) -> list[Bar]:
    """The predicted busy time of each task whose busy time Flink reported.

    Args:
        tasks: each with whether it is a consumer, whose speed a setting may change.
    """
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


def _job_tasks(own: Sequence[ReplayAnswer]) -> list[Section]:
    """Flink's metrics of all tasks in the recording."""
    bars = [
        Bar(
            each.name, {"busy": each.busy, "back_pressured": each.back_pressured, "idle": each.idle}
        )
        for each, _ in _tasks(own)
        if each.busy is not None and each.back_pressured is not None and each.idle is not None
    ]
    title = "Where the time of the tasks went"
    lead = "By Flink's own metrics, in the part of the recording that was used."
    return [Section("tasks", title, lead, [Bars("Tasks", TASK_PARTS, bars)])] if bars else []
