"""A replay: a view of each recording, with the answer, the settings that decide, and all that is
known; and one of each edge of a job, in the direction of flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from flinknet.options.what_if import ALIGNMENT, CHECKPOINTS
from flinknet.results import TAKEN_ALONE, JobAnswer, ReplayAnswer, TaskMetrics

from .advice import Recommendation, doubts_of, job_recommendation, model_error_part, recommendations
from .observed import environment, observed_sections, replayed_checkpoints
from .observed_tables import (
    TASK_PARTS,
    diagnosis_table,
    edges_table,
    flink_section,
    runs_table,
    share_bars,
    times_section,
)
from .page import capital, table_html
from .page_parts import Code, Lines, Page, Part, Section, Text, View, last_part
from .predicted import all_settings, decisive_table, grid_of, job_error, job_trades
from .recordings import recording_lines
from .replay_headline import advised_for, replay_sentences, why_not_printed
from .trade_words import NamedTrade, trades, what_varies

TASKS_SHOWN = 24
"""Tasks with a bar, at most."""


def replay_page(
    answers: Sequence[ReplayAnswer],
    jobs: Sequence[JobAnswer] = (),
    channels: Sequence[int] | None = None,
    *,
    diagnose: bool = False,
) -> Page:
    """The views of some runs and of jobs of several edges; of several runs first a table of all.

    Args:
        answers: for a page, each with `details`.
        channels: to show in tables; None for the slowest ones.
        diagnose: what holds each edge up stands next to the answer.
    """
    by_path: dict[str, list[ReplayAnswer]] = {}
    for answer in answers:
        by_path.setdefault(answer.trace.path, []).append(answer)
    whole = {job.path: job for job in jobs}
    views = []
    if len(by_path) > 1:
        section = Section("overview", "", "", [runs_table(answers)])
        views.append(View(name="all runs", title="All runs, observed", parts=[section]))
    for path, found in by_path.items():
        own = sorted(found, key=lambda each: each.trace.edge_number)
        run = last_part(path) if len(by_path) > 1 else ""
        views.append(_view_of(own, whole.get(path), run, channels, diagnose=diagnose))
        for answer in own if len(own) > 1 else ():
            views.append(_edge_view(answer, run, channels))
    return Page("replay", views)


def _view_of(
    own: Sequence[ReplayAnswer],
    job: JobAnswer | None,
    run: str,
    channels: Sequence[int] | None,
    *,
    diagnose: bool,
) -> View:
    """One recording; `run` is its name where there are several."""
    path, whole = own[0].trace.path, job or own[0]
    name, why = last_part(path), why_not_printed(whole)
    parts: list[Part] = [] if why else _decisive(own, job)
    if diagnose:
        parts.append(diagnosis_table(own, whole))
    if len(own) > 1:
        title = f"The job from end to end: {name}" if job else f"All edges: {name}"
        tab = ", ".join(filter(None, [run, "the job" if job else "all edges"]))
        limits = [] if diagnose else [diagnosis_table(own, whole)]
        edges = Section("edges", "Edges, as recorded", "", [edges_table(own), *limits])
        others = _job_details(job, own, edges) if job else [edges]
        first, *more = [doubts_of(each) for each in own]
        common = [x for x in first if all(x in of for of in more) and x != TAKEN_ALONE]
        doubts = [*recording_lines(own[0].trace), *common]
        details = [*([Lines(doubts, is_doubt=True, id="doubts")] if doubts else []), *others]
    else:
        title, tab, details = name, run or name, _details(own[0], channels)
    lead = f"Not predicted: {why}." if why else _LEADS[job is not None]
    grids = [] if why else [grid_of(whole, _tasks(own))]
    return View(
        replay_sentences(own, job),
        parts,
        [*details, environment(own)],
        [Section("trade-offs", _TITLE, lead, grids)],
        name=tab,
        title=title,
        meaning=path,
    )


def _edge_view(answer: ReplayAnswer, run: str, channels: Sequence[int] | None) -> View:
    edge = f"{answer.trace.edge_number} {answer.trace.edge or ''}".strip()
    is_limit = [Lines(["This edge holds the job up."], is_headed=True, is_plain=True)]
    details = _details(answer, channels, is_edge=True)
    return View(
        details=[*(is_limit if answer.is_bottleneck else []), *details, environment([answer])],
        name=", ".join(filter(None, [run, edge])),
        title=edge,
        meaning=answer.trace.path,
    )


_TITLE = "What other settings would do"
_MOVE = "Move a slider: figures and curves follow."
_LEADS = (
    f"Predicted from the recorded arrivals and service times. {_MOVE}",
    f"The job as a whole, from end to end. {_MOVE}",
)


def _decisive(own: Sequence[ReplayAnswer], job: JobAnswer | None) -> list[Part]:
    """The settings of a run or a job that decide, and the keys to set."""
    parts: list[Part] = [decisive_table(job or own[0])]
    if not {CHECKPOINTS.name, ALIGNMENT.name}.isdisjoint(what_varies(own[0].trade_offs)):
        parts += replayed_checkpoints(own[0])
    advised = advised_for(own, job)
    if advised is not None and advised.patch:
        parts.append(Code(advised.patch_title, advised.patch))
    return parts


def _edge_trade_offs(answer: ReplayAnswer) -> Section:
    why = why_not_printed(answer)
    if why is not None:
        return Section("trade-offs", _TITLE, "", [Text("", f"not predicted: {why}")])
    grid = grid_of(answer, _tasks([answer]))
    return Section("trade-offs", _TITLE, _LEADS[0], [grid, *_decisive([answer], None)])


def _details(
    answer: ReplayAnswer, channels: Sequence[int] | None, *, is_edge: bool = False
) -> list[Section | Part]:
    """All that is known of one run, or one edge of a job, whose recordings are described with the
    job, and whose settings are here."""
    doubts = [*([] if is_edge else recording_lines(answer.trace)), *doubts_of(answer)]
    is_printed = why_not_printed(answer) is None
    compared = trades(answer) if is_printed else []
    return [
        model_error_part(answer),
        *([Lines(doubts, is_doubt=True, id="doubts")] if doubts else []),
        *([_edge_trade_offs(answer)] if is_edge else []),
        *_answer_section(compared, recommendations(answer)),
        *([Section("settings", "", "", [all_settings(answer)])] if is_printed else []),
        *observed_sections(answer, channels),
    ]


def _job_details(
    job: JobAnswer, own: Sequence[ReplayAnswer], edges: Section
) -> list[Section | Part]:
    """All that is known of a job from end to end."""
    advised = job_recommendation(job)
    is_printed = why_not_printed(job) is None
    compared = job_trades(job) if is_printed else []
    vertices = {vertex.name: vertex for x in own if x.flink for vertex in x.flink.vertices}
    return [
        job_error(job),
        *_answer_section(compared, [advised] if advised else []),
        *([Section("settings", "", "", [all_settings(job)])] if is_printed else []),
        edges,
        *_job_tasks(own),
        *([flink_section(vertices.values())] if vertices else []),
        *times_section(own, job.feeding),
    ]


def _answer_section(
    compared: Sequence[NamedTrade], advised: Sequence[Recommendation]
) -> list[Section]:
    """Trade-offs in words, and the advice; its keys stand next to the settings that decide."""
    parts: list[Part] = [Text("", each.text) for each in compared]
    for each in advised:
        parts += each.parts[: 1 if each is advised[0] else None]
    return [Section("answer", "Answer", "", parts)] if parts else []


def _tasks(own: Sequence[ReplayAnswer]) -> list[tuple[TaskMetrics, bool]]:
    """The tasks of a job by Flink's metrics, each with whether it is a consumer; the first ones
    where there are many."""
    found: dict[str, tuple[TaskMetrics, bool]] = {}
    for answer in own:
        for place, vertex in enumerate(answer.flink.vertices if answer.flink else ()):
            found |= {each.name: (each, place > 0) for each in vertex.tasks}
    return list(found.values())[:TASKS_SHOWN]


def _job_tasks(own: Sequence[ReplayAnswer]) -> list[Section]:
    """Flink's metrics of all tasks in the recording."""
    shares = {
        each.name: {x.key: getattr(each, x.key) for x in TASK_PARTS} for each, _ in _tasks(own)
    }
    bars = share_bars(TASK_PARTS, shares, "Tasks")
    title = "Where the time of the tasks went"
    lead = "By Flink's own metrics, in the part of the recording that was used."
    return [Section("tasks", title, lead, bars)] if bars else []


def answers_html(answers: Sequence[ReplayAnswer]) -> str:
    """The observed figures of each run, the model's error and the predicted settings, for a cell of
    a notebook."""
    found = []
    for answer in answers:
        path, why = answer.trace.path, why_not_printed(answer)
        error = "<br>".join(escape(capital(each)) for each in model_error_part(answer).lines)
        found.append(f"<p>{error}</p>" + table_html(replace(runs_table([answer]), title=path)))
        shown = "" if why else table_html(replace(decisive_table(answer), title="predicted"))
        found.append(shown or f"<p>Not predicted: {escape(why or '')}.</p>")
    return "".join(found)
