"""A replay on a terminal: the answer in six lines, a table of settings, then the details."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console

from flinknet.options.what_if import ALIGNMENT, CHECKPOINTS
from flinknet.results import (
    TAKEN_ALONE,
    JobAnswer,
    ReplayAnswer,
    TaskTimeouts,
    TradeOffPoint,
)
from flinknet.results.trades import advised_points

from .advice_lines import advice_lines, is_worth_it
from .console import console_for, print_part, print_view
from .model_error import doubts_of, model_error_lines, recording_lines
from .observed_page import flink_lines, flink_table
from .observed_tables import (
    channel_parts,
    diagnosis_table,
    edges_table,
    messages_table,
    observed_parts,
    over_time,
    replayed_checkpoints,
    runs_table,
    times_parts,
)
from .page_parts import Code, Lines, Part, Section, Table, View
from .predicted_table import (
    DECISIVE,
    MEMORY,
    hidden_columns,
    job_notes,
    job_parts,
    predicted_of,
    settings_table,
)
from .replay_headline import advised_for, replay_sentences, why_not_printed
from .trade_words import BUFFER_TIMEOUT, PRICE_NOTE, notes_of, trades, what_varies

SETTINGS_SHOWN = 40
"""Rows of the table with all figures."""

CHOICES_SHOWN = 12
"""Rows of the table with the figures that decide."""

_NOTHING = "not predicted"


def print_replays(
    answers: Sequence[ReplayAnswer],
    console: Console | None = None,
    *,
    channels: Sequence[int] | None = None,
    diagnose: bool = False,
    details: bool = False,
    jobs: Sequence[JobAnswer] = (),
) -> None:
    """Print the answer about each recording in six lines and one table of settings; and a table of
    all runs if there are several.

    Args:
        channels: to show in the table by channel; None for the slowest ones.
        diagnose: show what holds each edge up, too.
        details: show everything that is known of each edge, too; so does `channels`.
    """
    console = console or console_for(sys.stdout)
    whole = {job.path: job for job in jobs}
    by_path: dict[str, list[ReplayAnswer]] = {}
    for answer in answers:
        by_path.setdefault(answer.trace.path, []).append(answer)
    for number, (path, own) in enumerate(by_path.items()):
        if number:
            console.print()
        view = replay_view(own, whole.get(path), channels, diagnose=diagnose)
        print_view(console, view, has_details=details or channels is not None)
    if len(by_path) > 1 or (len(answers) > 1 and not whole):
        print_part(console, Section(title="all runs, as observed", parts=[runs_table(answers)]))


def replay_view(
    own: Sequence[ReplayAnswer],
    job: JobAnswer | None,
    channels: Sequence[int] | None = None,
    *,
    diagnose: bool = False,
) -> View:
    """What is printed of one recording: the answer, the settings with the figures that decide, and
    the keys to set; in the details everything about the job as a whole, and about each edge."""
    parts: list[Part] = []
    if why_not_printed(job or own[0]) is None:
        parts.append(_decisive_table(own, job))
        if _varies_checkpoints(own[0]):
            parts += replayed_checkpoints(own[0])
        advised = advised_for(own, job)
        if advised is not None and advised.patch:
            parts.append(Code(advised.patch_title, advised.patch))
    if diagnose:
        parts.append(diagnosis_table(own))
    return View(replay_sentences(own, job), parts, _details(own, job, channels))


def _details(
    own: Sequence[ReplayAnswer], job: JobAnswer | None, channels: Sequence[int] | None
) -> list[Section]:
    path, about = own[0].trace.path, recording_lines(own[0].trace)
    sections = []
    if job is not None:
        common, of_edges = _doubts_of_edges(own)
        parts = [
            Lines([*about, *common], is_doubt=True),
            *job_parts(job),
            *_recorded_parts(own),
            *times_parts(own, job.feeding),
            Lines(of_edges, is_doubt=True),
            Lines([f"  {each}" for each in job_notes(job)]),
        ]
        sections.append(Section(title=f"{path}, the job from end to end", parts=parts))
        about = []
    for answer in own:
        recordings = len(answer.trace.recordings)
        several = f" ({recordings:,} recordings)" if recordings else ""
        edge = f", {answer.trace.edge_number} {answer.trace.edge}" if answer.trace.edge else ""
        parts = _answer_parts(answer, about, channels)
        sections.append(Section(title=f"{path}{several}{edge}", parts=parts))
        about = []
    return sections


def _doubts_of_edges(edges: Sequence[ReplayAnswer]) -> tuple[list[str], list[str]]:
    """Doubts about all edges of a job, and about some of them."""
    doubts = {
        answer.trace.edge_number: [each for each in doubts_of(answer) if each != TAKEN_ALONE]
        for answer in edges
    }
    first, *others = doubts.values()
    common = [each for each in first if all(each in of for of in others)]
    return common, [
        f"edge {number}: {each}"
        for number, of in doubts.items()
        for each in of
        if each not in common
    ]


def _recorded_parts(edges: Sequence[ReplayAnswer]) -> list[Part]:
    """The recorded edges of a job, and Flink's metrics of its vertices."""
    metrics = [each.flink for each in edges if each.flink is not None]
    vertices = {vertex.name: vertex for each in metrics for vertex in each.vertices}
    return [edges_table(edges), *([flink_table(vertices.values())] if vertices else [])]


def _varies_checkpoints(answer: ReplayAnswer) -> bool:
    """Whether the settings differ in how checkpoints are made."""
    return not {CHECKPOINTS.name, ALIGNMENT.name}.isdisjoint(what_varies(answer.trade_offs))


def _answer_parts(
    answer: ReplayAnswer, about: Sequence[str], channels: Sequence[int] | None
) -> list[Part]:
    """Parts on one run, or one edge of a job, with remarks `about` its recordings."""
    is_limit = answer.is_bottleneck and answer.trace.edge
    return [
        *([Lines(["This edge holds the job up."], is_headed=True)] if is_limit else []),
        Lines(model_error_lines(answer)),
        Lines([*about, *doubts_of(answer)], is_doubt=True),
        *observed_parts(answer),
        *replayed_checkpoints(answer),
        over_time(answer.over_time),
        *times_parts([answer]),
        messages_table(answer.messages),
        *channel_parts(answer, channels),
        *_flink_parts(answer),
        *_prediction_parts(answer),
    ]


def _flink_parts(answer: ReplayAnswer) -> list[Part]:
    flink = answer.flink
    return [] if flink is None else [flink_table(flink.vertices), Lines(flink_lines(flink))]


def _prediction_parts(answer: ReplayAnswer) -> list[Part]:
    """The settings, the advice and the notes; one line where nothing could be predicted."""
    points = answer.trade_offs
    if all(point.throughput_records_per_s is None for point in points):
        notes = [note for point in points for note in point.notes if note.startswith(_NOTHING)]
        reason = notes[0].removeprefix(_NOTHING) if notes else ""
        return [Lines([f"nothing is predicted{reason}"])]
    lines = [*advice_lines(answer), *(each.text for each in trades(answer))]
    memory = f"memory: {MEMORY[0].lower()}{MEMORY[1:-1]}"
    lines += [f"  {note}" for note in (memory, *notes_of(points))]
    return [_settings_table(answer), Lines(lines)]


def _decisive_table(own: Sequence[ReplayAnswer], job: JobAnswer | None) -> Table:
    """The settings with the figures that decide; with a limit the choice, its neighbours, and the
    recorded setting."""
    whole, points = job or own[0], (job or own[0]).trade_offs
    predicted = predicted_of(whole)
    choice = whole.choice
    shown = list(range(len(points)))
    if choice is not None:
        shown = _around([choice.point, choice.nearest], points)
        if job is not None and job.by_task is not None:
            shown = _by_task_first(job.by_task, shown)
    elif len(points) > CHOICES_SHOWN:
        marked = {place for place, each in enumerate(predicted) if each.marks}
        shown = _spread(len(points), marked, CHOICES_SHOWN)
    left_out = len(points) - len(shown)
    notes = [f"{left_out:,} more settings with --details"] if left_out else []
    hidden = hidden_columns(whole.model_error)
    return settings_table(predicted, shown, names=DECISIVE, hidden=hidden, notes=notes)


def _around(places: Sequence[int | None], points: Sequence[TradeOffPoint]) -> list[int]:
    """Some settings, those next to them, and the recorded one."""
    found = {n for n, each in enumerate(points) if each.is_recorded}
    for place in places:
        if place is not None:
            found |= {place - 1, place, place + 1}
    return sorted(found & set(range(len(points))))


def _by_task_first(found: TaskTimeouts, others: Sequence[int]) -> list[int]:
    """Timeouts task by task if they are advised, twice that of each task, and other settings."""
    own = [found.choice.point, *(each[0] for each in found.longer if each is not None)]
    first = [each for each in own if each is not None] if is_worth_it(found) else []
    return [*first, *(each for each in others if each not in own)]


def _settings_table(answer: ReplayAnswer) -> Table:
    """All figures of the settings."""
    predicted = predicted_of(answer)
    shown = _nearest(answer, SETTINGS_SHOWN)
    left_out = len(predicted) - len(shown)
    more = f" ({left_out} more in the JSON)" if left_out else ""
    what = BUFFER_TIMEOUT if list(predicted[0].setting) == [BUFFER_TIMEOUT] else "setting"
    is_priced = any(each.point.price for each in predicted)
    return settings_table(
        predicted,
        shown,
        hidden=hidden_columns(answer.model_error),
        title=f"predicted for each {what}{more}",
        notes=[PRICE_NOTE] if is_priced else [],
    )


def _nearest(answer: ReplayAnswer, limit: int) -> list[int]:
    """Up to `limit` settings, spread over all; always with the recorded one and those in the
    advice."""
    points = answer.trade_offs
    if len(points) <= limit:
        return list(range(len(points)))
    wanted = advised_points(answer)
    wanted |= {index for index, each in enumerate(points) if each.is_recorded}
    return _spread(len(points), wanted, limit)


def _spread(count: int, wanted: set[int], limit: int) -> list[int]:
    """Places that are wanted, and others spread over all, `limit` together."""
    room = max(limit - len(wanted), 1)
    return sorted(wanted | {number * count // room for number in range(room)})
