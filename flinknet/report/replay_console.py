"""A replay as terminal tables: how far the model can be trusted, what was observed, what other
settings would do.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flinknet.options.what_if import ALIGNMENT, CHECKPOINTS
from flinknet.results import (
    TAKEN_ALONE,
    JobAnswer,
    LatencyDistribution,
    LatencySummary,
    ReplayAnswer,
    ReplayedChannel,
    TradeOffPoint,
)
from flinknet.units import human_bytes, human_count, human_duration, human_number

from .advice_lines import (
    advice_lines,
    is_on_frontier,
    marks_of,
    points_to_show,
)
from .checkpoint_table import replayed_checkpoints
from .console import console_for, print_line
from .flink_table import flink_lines, flink_table
from .job_answer_console import print_job_answer, print_job_notes
from .model_error import doubts_of, model_error_line, observed_part
from .number_table import is_limited, print_table, width_of
from .observed_tables import FULL, messages_table, over_time_table
from .prediction_notes import notes_of
from .price_cells import PRICE_NOTE, PRICES, price_cells, trades
from .recording_lines import recording_lines
from .runs_table import edges_table, runs_table
from .settings_in_words import BUFFER_TIMEOUT, settings_of, what_varies
from .small_plots import DISTRIBUTION_MARKS, distribution_line, regime_legend, split_bar

CHANNELS_SHOWN = 16
"""Channels in the table by channel: those with the highest p99 if there are more."""

BAR_MARKS = 10
NARROW_BAR_MARKS = 6

_COUNTED_KINDS = ("DATA_BUFFER", "ADD_CREDIT")

SETTING_WIDTH = 9
"""Of the value of a setting."""

_BAR = "p99 "
"""Heading of the bars, which differs from that of the numbers."""

_NARROW_ORDER = (
    *("records/s", "p50", "p99", "buffers/s", "CPU change", _BAR),
    *("backlog", "max", "packets/s", "bytes/s", "memory"),
)

SETTINGS_SHOWN = 40
"""Rows of the trade-off table."""

EDGES_IN_FULL = "--edges shows each edge in full: channels, messages, checkpoints, predictions"

MEMORY = "memory: the most that all buffer pools of producers and consumers can take"

_NOTHING = "not predicted"
_LATENCIES = ("min", "p50", "p90", "p99", "p99_9", "max")


def print_replays(
    answers: Sequence[ReplayAnswer],
    console: Console | None = None,
    *,
    channels: Sequence[int] | None = None,
    diagnose: bool = False,
    edges: bool = False,
    jobs: Sequence[JobAnswer] = (),
) -> None:
    """Print one section for each run, and a table of all runs if there are several. A job of
    several exchanges comes from end to end, and then its edges in one table.

    Args:
        channels: to show in the table by channel; None for the slowest ones.
        diagnose: show what holds each edge up, too.
        edges: show each edge of a job by itself, too; so do `channels`, `diagnose`, and settings
            that differ in their checkpoints.
    """
    console = console or console_for(sys.stdout)
    whole = {job.path: job for job in jobs}
    by_path: dict[str, list[ReplayAnswer]] = {}
    for answer in answers:
        by_path.setdefault(answer.trace.path, []).append(answer)
    is_in_full = edges or diagnose or channels is not None
    for path, own in by_path.items():
        about = recording_lines(own[0].trace)
        if path in whole:
            console.rule(f"[bold]{escape(path)}, the job from end to end[/bold]")
            _print_bottleneck(console, own[0])
            common, of_edges = _doubts_of_edges(own)
            _print_remarks(console, [*about, *common])
            print_job_answer(whole[path], console)
            _print_recorded(console, own)
            _print_remarks(console, of_edges)
            console.print()
            print_job_notes(whole[path], console)
            about = []
            if not (is_in_full or any(map(_varies_checkpoints, own))):
                print_line(console, Text(EDGES_IN_FULL, style="dim"), indent=2)
                continue
            console.print()
        for answer in own:
            recordings = len(answer.trace.recordings)
            several = f" ({recordings:,} recordings)" if recordings else ""
            trace = answer.trace
            edge = f", {trace.edge_number} {trace.edge}" if trace.edge else ""
            console.rule(f"[bold]{escape(path)}{several}{escape(edge)}[/bold]")
            if answer is own[0] and path not in whole:
                _print_bottleneck(console, answer)
            _print_answer(console, answer, about, channels, diagnose=diagnose)
            about = []
    if len(by_path) > 1 or (len(answers) > 1 and not whole):
        console.rule("[bold]all runs, as observed[/bold]")
        print_table(console, runs_table(answers))


def _doubts_of_edges(edges: Sequence[ReplayAnswer]) -> tuple[list[str], list[str]]:
    """What to know of all edges of a job, and of some of them."""
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
    """What was recorded of a job: its edges, and Flink's metrics of its vertices."""
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


def _print_bottleneck(console: Console, answer: ReplayAnswer) -> None:
    if answer.bottleneck is not None:
        print_line(console, Text.assemble(("Bottleneck:", "bold"), " ", answer.bottleneck.text))


def _print_remarks(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        print_line(console, Text.assemble(("!", "yellow"), " ", line))


def _print_answer(
    console: Console,
    answer: ReplayAnswer,
    about: Sequence[str],
    channels: Sequence[int] | None,
    *,
    diagnose: bool,
) -> None:
    """Print one run, or one edge of a job, with remarks `about` its recordings."""
    if answer.is_bottleneck and answer.trace.edge:
        console.print("[bold]This edge holds the job up.[/bold]")
    print_line(console, Text.from_markup(model_error_line(answer)))
    _print_remarks(console, [*about, *doubts_of(answer)])
    if diagnose:
        console.print()
        print_table(console, _diagnosis_table(answer))
    for table in (
        _observed_table(answer),
        *replayed_checkpoints(answer, console.width),
        over_time_table(answer.over_time, console.width),
        messages_table(answer.messages),
        _channels_table(answer, channels),
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
    _print_settings(console, answer)
    for line in advice_lines(answer):
        print_line(console, Text.from_markup(line))
    found = trades(answer)
    for each in found:
        print_line(console, each.text)
    if found:
        console.print()
    for note in (MEMORY, *notes_of(points)):
        print_line(console, Text(note, style="dim"), indent=2)


def _observed_table(answer: ReplayAnswer) -> Table:
    observed = answer.observed
    table = _table(f"observed {observed_part(answer)}")
    table.add_column("what")
    table.add_column("value")
    shares = ", ".join(f"{count:,} {why}" for why, count in asdict(observed.flushes).items())
    credits = observed.credits
    rows = {
        "records": f"{observed.records:,} in {human_duration(observed.duration_ns)}",
        "throughput": f"{human_count(observed.throughput_records_per_s)} records/s,"
        f" {human_bytes(observed.throughput_bytes_per_s)}/s",
        "latency": "  ".join(
            f"{name.replace('_', '.')} {human_duration(getattr(observed.latency_ns, name))}"
            for name in _LATENCIES
        ),
        "buffers": f"{observed.buffers:,} data ({shares}), {observed.events:,} events",
        "backlog": f"mean {human_number(observed.backlog_buffers.mean)}, max"
        f" {human_number(observed.backlog_buffers.max)}"
        f" buffer{'' if observed.backlog_buffers.max == 1 else 's'}",
        "credit": f"{credits.announced:,} in {credits.messages:,} messages; "
        + (
            "how long data waited for it is unknown"
            if credits.starved_ns is None
            else f"starved for {human_duration(credits.starved_ns)}, summed over channels"
        ),
    }
    if not answer.trace.is_of_run:
        rows["latency"] = "unknown: messages between processes do not show when records came"
    for name, value in rows.items():
        table.add_row(name, value)
        if name == "buffers" and observed.flushes.full and observed.flushes.timeout:
            table.add_row("", f"[dim]{FULL}[/dim]")
        if name == "latency" and answer.latency_distribution.records:
            table.add_row("", _distribution_line(answer.latency_distribution))
    if answer.regimes and any(answer.regimes.values()):
        table.add_row("time", split_bar(answer.regimes))
        table.add_row("", regime_legend(answer.regimes))
    return table


def _distribution_line(distribution: LatencyDistribution) -> str:
    line = distribution_line(distribution, DISTRIBUTION_MARKS)
    low, high = distribution.low_ns[0], distribution.high_ns[-1]
    return f"{human_duration(low)} {line} {human_duration(high)}"


def _channels_table(answer: ReplayAnswer, wanted: Sequence[int] | None) -> Table:
    channels: Sequence[ReplayedChannel] = answer.channels
    if wanted is not None:
        shown = [row for row in channels if row.channel in wanted]
    else:
        slowest = sorted(channels, key=lambda row: -(row.latency_ns.p99 or 0))
        shown = sorted(slowest[:CHANNELS_SHOWN], key=lambda row: row.channel)
    left_out = len(channels) - len(shown) + answer.channels_left_out
    table = _table("by channel" + (f" ({left_out:,} more not shown)" if left_out else ""))
    table.add_column("channel", justify="right", no_wrap=True)
    table.add_column("from → to", no_wrap=True)
    for name in ("records/s", "p50", "p99", "backlog", "max", "starved", "data", "credit"):
        table.add_column(name, justify="right", no_wrap=True)
    has_regimes = any(row.regimes is not None for row in shown)
    if has_regimes:
        table.add_column("time", no_wrap=True)
    for row in shown:
        messages = row.messages
        table.add_row(
            str(row.channel),
            row.name or " → ".join(str(e) if e >= 0 else "?" for e in (row.producer, row.consumer)),
            human_count(row.throughput_records_per_s),
            human_duration(row.latency_ns.p50),
            human_duration(row.latency_ns.p99),
            human_number(row.backlog_buffers.mean),
            human_number(row.backlog_buffers.max),
            human_duration(row.starved_ns),
            *(f"{messages.get(kind, 0):,}" for kind in _COUNTED_KINDS),
            *([split_bar(row.regimes or {}, BAR_MARKS)] if has_regimes else []),
        )
    return table


def _diagnosis_table(answer: ReplayAnswer) -> Table:
    table = _table("diagnosis")
    for name in ("edge", "verdict", "share", "why"):
        table.add_column(name, justify="right" if name == "share" else "left")
    for each in answer.diagnosis:
        table.add_row(each.edge, each.kind, f"{each.share:.0%}", each.text)
    return table


def _print_settings(console: Console, answer: ReplayAnswer) -> None:
    """The table of settings; on a narrow terminal in several parts, what answers most first."""
    varied = what_varies(answer.trade_offs)
    table = _settings_table(answer, varied, bar_marks=BAR_MARKS)
    keys = len(varied) + 1
    if is_limited(console) and width_of(table) > console.width:
        is_folded = keys * SETTING_WIDTH > console.width // 2
        table = _settings_table(
            answer, varied, bar_marks=NARROW_BAR_MARKS, is_narrow=True, is_folded=is_folded
        )
        keys = 2 if is_folded else keys
    print_table(console, table, keys=keys)
    if any(each.price for each in answer.trade_offs):
        print_line(console, Text(PRICE_NOTE, style="dim"))


def _settings_table(
    answer: ReplayAnswer,
    varied: Sequence[str],
    *,
    bar_marks: int,
    is_narrow: bool = False,
    is_folded: bool = False,
) -> Table:
    """All settings.

    Args:
        is_narrow: the columns that answer most come first.
        is_folded: what is varied stands in one column, on as many lines as it needs.
    """
    points = answer.trade_offs
    shown = _nearest(answer, SETTINGS_SHOWN)
    left_out = len(points) - len(shown)
    more = f" ({left_out} more in the JSON)" if left_out else ""
    what = BUFFER_TIMEOUT if list(varied) == [BUFFER_TIMEOUT] else "setting"
    table = _table(f"predicted for each {what}{more}")
    headings = ["timeout" if name == BUFFER_TIMEOUT else name for name in varied]
    if is_folded:
        table.add_column(", ".join(headings), overflow="fold", vertical="bottom")
    else:
        for heading in headings:
            text = heading.replace(" ", "\n")
            table.add_column(text, justify="right", no_wrap=True, vertical="bottom")
    table.add_column("", no_wrap=True)
    columns = [_cells(answer, index, bar_marks) for index in shown]
    names = list(_NARROW_ORDER if is_narrow else columns[0])
    if not any(each.price for each in points):
        names = [name for name in names if name not in PRICES]
    for name in names:
        justify: JustifyMethod = "left" if name == _BAR else "right"
        table.add_column(name.strip(), justify=justify, no_wrap=True, vertical="bottom")
    for index, cells in zip(shown, columns, strict=True):
        settings = settings_of(points[index])
        values = [settings[name] for name in varied]
        table.add_row(
            *([", ".join(values)] if is_folded else values),
            "◆" if is_on_frontier(answer, index) else "",
            *(cells[name] for name in names),
            style="bold" if points[index].is_recorded else "",
        )
    return table


def _cells(answer: ReplayAnswer, index: int, bar_marks: int) -> dict[str, str]:
    """What the table shows of a setting, by the heading."""
    points, point = answer.trade_offs, answer.trade_offs[index]
    worst = max((each.latency_ns.p99 or 0 for each in points), default=0) or 1
    p99 = point.latency_ns.p99
    marks = min(bar_marks, max(round((p99 or 0) / worst * bar_marks), 1))
    bar = ["█" * marks] if p99 else []
    return {
        "records/s": human_count(point.throughput_records_per_s),
        "p50": _latency_cell(point, "p50"),
        "p99": _latency_cell(point, "p99"),
        "backlog": human_number(point.backlog_buffers.mean),
        "max": human_number(point.backlog_buffers.max),
        "buffers/s": _buffers_cell(point),
        **dict(zip(PRICES, price_cells(point), strict=True)),
        "memory": human_bytes(point.memory_bytes),
        _BAR: " ".join([*bar, *(f"← {mark}" for mark in marks_of(answer, index))]),
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
    """At most so many points, spread over all of them; the recorded one and those that the advice
    speaks of are always shown."""
    points = answer.trade_offs
    if len(points) <= limit:
        return list(range(len(points)))
    wanted = points_to_show(answer)
    wanted |= {index for index, each in enumerate(points) if each.is_recorded}
    room = max(limit - len(wanted), 1)
    wanted |= {number * len(points) // room for number in range(room)}
    return sorted(wanted)


def _table(title: str) -> Table:
    return Table(title=title or None, title_justify="left", title_style="bold", box=None)
