"""A replay: a view of each recording, with the answer, the settings that decide, and all that is
known; and one of each edge of a job, in the direction of flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from flinknet.options.what_if import ALIGNMENT, CHECKPOINTS
from flinknet.results import TAKEN_ALONE, EdgeAnswer, JobAnswer, TaskMetrics

from . import observed_tables
from .advice import doubts_of, model_error_part, recommendations
from .observed import environment, observed_sections, replayed_checkpoints
from .page import capital, table_html
from .page_parts import Lines, Page, Part, Section, Text, View, last_part
from .predicted import all_settings, decisive_table, grid_of
from .recordings import recording_lines
from .replay_headline import advised_for, replay_sentences, why_not_printed
from .trade_words import trades, what_varies

TASKS_SHOWN = 24
"""Tasks with a bar, at most."""


def replay_page(
    jobs: Sequence[JobAnswer], channels: Sequence[int] | None = None, *, diagnose: bool = False
) -> Page:
    """The views of some recorded jobs; of several first a table of all.

    Args:
        jobs: for a page, each edge with `details`.
        channels: to show in tables; None for the slowest ones.
        diagnose: what holds each edge up stands next to the answer.
    """
    views = []
    if len(jobs) > 1:
        edges = [edge for job in jobs for edge in job.answers]
        section = Section("overview", "", "", [observed_tables.runs_table(edges)])
        views.append(View(name="all runs", title="All runs, observed", parts=[section]))
    for job in jobs:
        run = last_part(job.path) if len(jobs) > 1 else ""
        views.append(_view_of(job, run, channels, diagnose=diagnose))
        for edge in job.answers if len(job.answers) > 1 else ():
            title = f"{edge.trace.edge_number} {edge.trace.edge or ''}".strip()
            is_limit = Lines(["This edge holds the job up."], is_headed=True, is_plain=True)
            details = [*_details(edge.alone, channels, is_edge=True), environment([edge])]
            details = [is_limit, *details] if edge.is_bottleneck else details
            name = ", ".join(filter(None, [run, title]))
            views.append(View(details=details, name=name, title=title, meaning=edge.trace.path))
    return Page("replay", views)


def _view_of(job: JobAnswer, run: str, channels: Sequence[int] | None, *, diagnose: bool) -> View:
    name, why, own = last_part(job.path), why_not_printed(job), job.answers
    parts: list[Part] = [] if why else _decisive(job)
    if diagnose:
        parts.append(observed_tables.diagnosis_table(job))
    title, tab = name, run or name
    if len(own) > 1:
        title, tab = f"The job from end to end: {name}", f"{run}, the job" if run else "the job"
        details = _job_details(job, has_limits=not diagnose)
    else:
        details = _details(own[0].alone, channels)
    lead = f"Not predicted: {why}." if why else _LEADS[not job.is_exchange]
    grids = [] if why else [grid_of(job, _tasks(own))]
    return View(
        replay_sentences(job),
        parts,
        [*details, environment(own)],
        [Section("trade-offs", _TITLE, lead, grids)],
        name=tab,
        title=title,
        meaning=job.path,
    )


_TITLE = "What other settings would do"
_BY_METRICS = "By Flink's own metrics, in the part of the recording that was used."
_MOVE = "Move a slider: figures and curves follow."
_LEADS = (
    f"Predicted from the recorded arrivals and service times. {_MOVE}",
    f"The job as a whole, from end to end. {_MOVE}",
)


def _decisive(job: JobAnswer) -> list[Part]:
    parts: list[Part] = [decisive_table(job)]
    first = job.answers[0]
    if not {CHECKPOINTS.name, ALIGNMENT.name}.isdisjoint(what_varies(first.trade_offs)):
        parts += replayed_checkpoints(first, is_predicted=True)
    advised = advised_for(job)
    return [*parts, advised[1]] if advised is not None and advised[1] is not None else parts


def _details(
    job: JobAnswer, channels: Sequence[int] | None, *, is_edge: bool = False
) -> list[Section | Part]:
    (answer,) = job.answers
    why, lead = why_not_printed(job), ""
    of_settings: list[Part] = [Text("", f"not predicted: {why}")]
    if is_edge and why is None:
        lead, of_settings = _LEADS[0], [grid_of(job, _tasks(job.answers)), *_decisive(job)]
    doubts = [*([] if is_edge else recording_lines(answer.trace)), *doubts_of(answer)]
    return [
        model_error_part(job),
        *([Lines(doubts, is_doubt=True, id="doubts")] if doubts else []),
        *([Section("trade-offs", _TITLE, lead, of_settings)] if is_edge else []),
        *_predicted(job),
        *observed_sections(answer, channels, is_predicted=why is None),
    ]


def _job_details(job: JobAnswer, *, has_limits: bool) -> list[Section | Part]:
    own = job.answers
    first, *more = [doubts_of(each) for each in own]
    common = [x for x in first if all(x in of for of in more) and x != TAKEN_ALONE]
    doubts = [*recording_lines(own[0].trace), *common]
    limits = [observed_tables.diagnosis_table(job)] if has_limits else []
    tasks = [each for each, _ in _tasks(own)]
    shares = {
        each.name: {x.key: getattr(each, x.key) for x in observed_tables.TASK_PARTS}
        for each in tasks
    }
    bars = observed_tables.share_bars(observed_tables.TASK_PARTS, shares, "Tasks")
    of_tasks = [Section("tasks", "Where the time of the tasks went", _BY_METRICS, bars)]
    vertices = {vertex.name: vertex for x in own if x.flink for vertex in x.flink.vertices}
    return [
        *([Lines(doubts, is_doubt=True, id="doubts")] if doubts else []),
        model_error_part(job),
        *_predicted(job),
        Section("edges", "Edges, as recorded", "", [observed_tables.edges_table(own), *limits]),
        *(of_tasks if bars else []),
        *([observed_tables.flink_section(vertices.values())] if vertices else []),
        *observed_tables.times_section(own, job.feeding),
    ]


def _predicted(job: JobAnswer) -> list[Section]:
    is_printed = why_not_printed(job) is None
    parts: list[Part] = [Text("", each.text) for each in trades(job)] if is_printed else []
    for number, (text, code) in enumerate(recommendations(job)):
        parts.append(text)
        if number and code is not None:  # those of the first stand at the settings that decide
            parts.append(code)
    found = [Section("answer", "Answer", "", parts)] if parts else []
    settings = [Section("settings", "", "", [all_settings(job)])] if is_printed else []
    return [*found, *settings]


def _tasks(own: Sequence[EdgeAnswer]) -> list[tuple[TaskMetrics, bool]]:
    """The tasks of a job by Flink's metrics, each with whether it reads an edge, whose two vertices
    come first; the first tasks where there are many."""
    found: dict[str, tuple[TaskMetrics, bool]] = {}
    for answer in own:
        for place, vertex in enumerate(answer.flink.vertices if answer.flink else ()):
            found |= {each.name: (each, place == 1) for each in vertex.tasks}
    return list(found.values())[:TASKS_SHOWN]


def answers_html(jobs: Sequence[JobAnswer]) -> str:
    """The observed figures of each edge, the model's error and the predicted settings, for a cell
    of a notebook."""
    found = []
    for edge in (each.alone for job in jobs for each in job.answers):
        why = why_not_printed(edge)
        observed = replace(observed_tables.runs_table(edge.answers), title=edge.path)
        error = "<br>".join(escape(capital(each)) for each in model_error_part(edge).lines)
        found.append(f"<p>{error}</p>{table_html(observed)}")
        shown = "" if why else table_html(replace(decisive_table(edge), title="predicted"))
        found.append(shown or f"<p>Not predicted: {escape(why or '')}.</p>")
    return "".join(found)
