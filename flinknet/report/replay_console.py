"""A replay on a terminal: the answer in six lines, a table of settings, then the details."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flinknet.options.what_if import ALIGNMENT, CHECKPOINTS
from flinknet.results import (
    TAKEN_ALONE,
    JobAnswer,
    LatencySummary,
    ReplayAnswer,
    TradeOffPoint,
)
from flinknet.units import human_bytes, human_count, human_duration, human_number

from .advice_lines import (
    KNEE_MARK,
    advice_lines,
    is_on_frontier,
    marks_of,
    points_to_show,
)
from .checkpoint_table import replayed_checkpoints
from .console import console_for, print_line
from .headline import print_headline
from .job_answer_console import job_marks, print_job_answer, print_job_notes, setting_of
from .model_error import doubts_of, model_error_line
from .number_table import print_table
from .observed_tables import (
    channels_table,
    diagnosis_table,
    edges_table,
    flink_lines,
    flink_table,
    messages_table,
    observed_table,
    over_time_table,
    runs_table,
)
from .prediction_notes import notes_of
from .price_cells import PRICE_NOTE, PRICES, price_cells, trades
from .recording_lines import recording_lines
from .replay_headline import advised_for, replay_sentences, why_not_printed
from .settings_in_words import BUFFER_TIMEOUT, settings_of, what_varies

SETTINGS_SHOWN = 40
"""Rows of the table with all figures."""

CHOICES_SHOWN = 12
"""Rows of the table with the figures that decide."""

_DECISIVE = ("records/s", "p50", "p99", "buffers/s", "CPU change")

MEMORY = "memory: the most that all buffer pools of producers and consumers can take"

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
        job = whole.get(path)
        if number:
            console.print()
        print_headline(console, replay_sentences(own, job))
        _print_choices(console, own, job)
        if diagnose:
            console.print()
            print_table(console, diagnosis_table(own))
        if details or channels is not None:
            _print_details(console, own, job, channels)
    if len(by_path) > 1 or (len(answers) > 1 and not whole):
        console.rule("[bold]all runs, as observed[/bold]")
        print_table(console, runs_table(answers))


def _print_choices(console: Console, own: Sequence[ReplayAnswer], job: JobAnswer | None) -> None:
    """Print the settings with the figures that decide, and the keys to set."""
    whole = job or own[0]
    if why_not_printed(whole) is not None:
        return
    console.print()
    print_table(console, _decisive_table(own, job), keys=2)
    if _varies_checkpoints(own[0]):
        for table in replayed_checkpoints(own[0], console.width):
            console.print(table)
    advised = advised_for(own, job)
    if advised is not None and advised.patch:
        console.print("  for Flink's config.yaml:")
        for line in advised.patch.splitlines():
            print_line(console, f"    {line}")


def _print_details(
    console: Console,
    own: Sequence[ReplayAnswer],
    job: JobAnswer | None,
    channels: Sequence[int] | None,
) -> None:
    """Print everything about the job as a whole, and about each of its edges."""
    path, about = own[0].trace.path, recording_lines(own[0].trace)
    if job is not None:
        console.rule(f"[bold]{escape(path)}, the job from end to end[/bold]")
        common, of_edges = _doubts_of_edges(own)
        _print_remarks(console, [*about, *common])
        print_job_answer(job, console)
        _print_recorded(console, own)
        _print_remarks(console, of_edges)
        console.print()
        print_job_notes(job, console)
        console.print()
        about = []
    for answer in own:
        recordings = len(answer.trace.recordings)
        several = f" ({recordings:,} recordings)" if recordings else ""
        trace = answer.trace
        edge = f", {trace.edge_number} {trace.edge}" if trace.edge else ""
        console.rule(f"[bold]{escape(path)}{several}{escape(edge)}[/bold]")
        _print_answer(console, answer, about, channels)
        about = []


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


def _print_recorded(console: Console, edges: Sequence[ReplayAnswer]) -> None:
    """Print the recorded edges of a job, and Flink's metrics of its vertices."""
    console.print()
    print_table(console, edges_table(edges))
    metrics = [each.flink for each in edges if each.flink is not None]
    if metrics:
        vertices = {vertex.name: vertex for each in metrics for vertex in each.vertices}
        console.print()
        console.print(flink_table(vertices.values()))


def _varies_checkpoints(answer: ReplayAnswer) -> bool:
    """Whether the settings differ in how checkpoints are made."""
    return not {CHECKPOINTS.name, ALIGNMENT.name}.isdisjoint(what_varies(answer.trade_offs))


def _print_remarks(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        print_line(console, Text.assemble(("!", "yellow"), " ", line))


def _print_answer(
    console: Console, answer: ReplayAnswer, about: Sequence[str], channels: Sequence[int] | None
) -> None:
    """Print one run, or one edge of a job, with remarks `about` its recordings."""
    if answer.is_bottleneck and answer.trace.edge:
        console.print("[bold]This edge holds the job up.[/bold]")
    print_line(console, Text.from_markup(model_error_line(answer)))
    _print_remarks(console, [*about, *doubts_of(answer)])
    for table in (
        observed_table(answer),
        *replayed_checkpoints(answer, console.width),
        over_time_table(answer.over_time, console.width),
        messages_table(answer.messages),
        channels_table(answer, channels),
    ):
        console.print()
        if isinstance(table, Table):
            print_table(console, table)
        else:
            console.print(table)
    if answer.flink is not None:
        console.print()
        console.print(flink_table(answer.flink.vertices))
        for line in flink_lines(answer.flink):
            print_line(console, line, indent=2)
    console.print()
    _print_predictions(console, answer)
    console.print()


def _print_predictions(console: Console, answer: ReplayAnswer) -> None:
    """The settings, the advice and the notes; one line where nothing could be predicted."""
    points = answer.trade_offs
    if all(point.throughput_records_per_s is None for point in points):
        notes = [note for point in points for note in point.notes if note.startswith(_NOTHING)]
        reason = notes[0].removeprefix(_NOTHING) if notes else ""
        print_line(console, Text.assemble(("nothing is predicted", "bold"), reason))
        return
    print_table(console, _settings_table(answer), keys=2)
    if any(each.price for each in points):
        print_line(console, Text(PRICE_NOTE, style="dim"))
    for line in advice_lines(answer):
        print_line(console, Text.from_markup(line))
    found = trades(answer)
    for each in found:
        print_line(console, each.text)
    if found:
        console.print()
    for note in (MEMORY, *notes_of(points)):
        print_line(console, Text(note, style="dim"), indent=2)


def _decisive_table(own: Sequence[ReplayAnswer], job: JobAnswer | None) -> Table:
    """The settings with the figures that decide; with a limit the choice, its neighbours, and the
    recorded setting."""
    points = own[0].trade_offs if job is None else tuple(each.total for each in job.points)
    varied = what_varies(points)
    if job is None:
        labels = [_label(each, varied) for each in points]
        marks = [marks_of(own[0], index) for index in range(len(points))]
        choice = own[0].advice.choice
    else:
        labels = [setting_of(job, each) for each in job.points]
        marks = [job_marks(job, index) for index in range(len(points))]
        choice = job.choice
    shown = list(range(len(points)))
    if choice is not None:
        shown = _around([choice.point, choice.nearest], points)
    elif len(points) > CHOICES_SHOWN:
        shown = _spread(len(points), {n for n, of in enumerate(marks) if of}, CHOICES_SHOWN)
    left_out = len(points) - len(shown)
    table = _table("", caption=f"{left_out:,} more settings with --details" if left_out else None)
    table.add_column(_heading(varied))
    table.add_column("", no_wrap=True)
    is_priced = any(each.price for each in points)
    names = [each for each in _DECISIVE if is_priced or each not in PRICES]
    for name in names:
        table.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    for index in shown:
        cells = _cells(points[index])
        table.add_row(
            escape(labels[index]),
            " ".join(_arrows([each for each in marks[index] if each != KNEE_MARK])),
            *(cells[name] for name in names),
            style="bold" if points[index].is_recorded else "",
        )
    return table


def _around(places: Sequence[int | None], points: Sequence[TradeOffPoint]) -> list[int]:
    """Some settings, those next to them, and the recorded one."""
    found = {n for n, each in enumerate(points) if each.is_recorded}
    for place in places:
        if place is not None:
            found |= {place - 1, place, place + 1}
    return sorted(found & set(range(len(points))))


def _settings_table(answer: ReplayAnswer) -> Table:
    """All figures of the settings."""
    points, varied = answer.trade_offs, what_varies(answer.trade_offs)
    shown = _nearest(answer, SETTINGS_SHOWN)
    left_out = len(points) - len(shown)
    more = f" ({left_out} more in the JSON)" if left_out else ""
    what = BUFFER_TIMEOUT if list(varied) == [BUFFER_TIMEOUT] else "setting"
    table = _table(f"predicted for each {what}{more}")
    table.add_column(_heading(varied), overflow="fold", vertical="bottom")
    table.add_column("", no_wrap=True)
    columns = [_cells(points[index]) for index in shown]
    names = [
        name for name in columns[0] if any(each.price for each in points) or name not in PRICES
    ]
    for name in names:
        table.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    for index, cells in zip(shown, columns, strict=True):
        marks = ["◆"] * is_on_frontier(answer, index) + _arrows(marks_of(answer, index))
        table.add_row(
            _label(points[index], varied),
            " ".join(marks),
            *(cells[name] for name in names),
            style="bold" if points[index].is_recorded else "",
        )
    return table


def _heading(varied: Sequence[str]) -> str:
    return ", ".join("timeout" if each == BUFFER_TIMEOUT else each for each in varied)


def _label(point: TradeOffPoint, varied: Sequence[str]) -> str:
    settings = settings_of(point)
    return ", ".join(settings[name] for name in varied)


def _arrows(marks: Sequence[str]) -> list[str]:
    return [f"← {mark}" for mark in marks]


def _cells(point: TradeOffPoint) -> dict[str, str]:
    """Figures of a setting as text, by the heading."""
    return {
        "records/s": human_count(point.throughput_records_per_s),
        "p50": _latency_cell(point, "p50"),
        "p99": _latency_cell(point, "p99"),
        "buffers/s": _buffers_cell(point),
        **dict(zip(PRICES, price_cells(point), strict=True)),
        "backlog": human_number(point.backlog_buffers.mean),
        "max": human_number(point.backlog_buffers.max),
        "memory": human_bytes(point.memory_bytes),
    }


def _latency_cell(point: TradeOffPoint, name: str) -> str:
    """A predicted latency; with its 90% interval, where the records' instants are assumed."""

    def shown(latency: LatencySummary) -> str:
        return human_duration(getattr(latency, name))

    low, high = point.latency_low_ns, point.latency_high_ns
    if low is None or high is None:
        return shown(point.latency_ns)
    return f"{shown(point.latency_ns)} [dim]({shown(low)} … {shown(high)})[/dim]"


def _buffers_cell(point: TradeOffPoint) -> str:
    """Predicted buffers per second; the same."""
    low, high = point.buffers_low_per_s, point.buffers_high_per_s
    shown = human_count(point.buffers_per_s)
    if low is None or high is None:
        return shown
    return f"{shown} [dim]({human_count(low)} … {human_count(high)})[/dim]"


def _nearest(answer: ReplayAnswer, limit: int) -> list[int]:
    """Up to `limit` settings, spread over all; always with the recorded one and those in the
    advice."""
    points = answer.trade_offs
    if len(points) <= limit:
        return list(range(len(points)))
    wanted = points_to_show(answer)
    wanted |= {index for index, each in enumerate(points) if each.is_recorded}
    return _spread(len(points), wanted, limit)


def _spread(count: int, wanted: set[int], limit: int) -> list[int]:
    """Places that are wanted, and others spread over all, `limit` together."""
    room = max(limit - len(wanted), 1)
    return sorted(wanted | {number * count // room for number in range(room)})


def _table(title: str, *, caption: str | None = None) -> Table:
    table = Table(title=title or None, caption=caption, box=None)
    table.title_justify = table.caption_justify = "left"
    table.title_style = "bold"
    return table
