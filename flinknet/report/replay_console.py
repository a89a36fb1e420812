"""A replay as terminal tables: how far the model can be trusted, what was observed, what other
settings would do.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from flinknet.results import (
    JobAnswer,
    LatencyDistribution,
    LatencySummary,
    ReplayAnswer,
    ReplayedChannel,
    TradeOffPoint,
)
from flinknet.units import MISSING, human_bytes, human_count, human_duration

from .advice_lines import (
    advice_lines,
    is_on_frontier,
    marks_of,
    points_to_show,
)
from .checkpoint_table import replayed_checkpoints
from .console import console_for
from .flink_table import flink_lines, flink_table
from .job_answer_console import print_job_answer
from .model_error import model_error_line, observed_part
from .number_table import note_left_out
from .observed_tables import messages_table, over_time_table
from .prediction_notes import notes_of
from .price_cells import PRICES, price_cells, price_line
from .recording_lines import recording_lines
from .runs_table import runs_table
from .settings_in_words import BUFFER_TIMEOUT, settings_of, what_varies
from .small_plots import DISTRIBUTION_MARKS, distribution_line, regime_legend, split_bar

CHANNELS_SHOWN = 16
"""Channels in the table by channel: those with the highest p99 if there are more."""

BAR_MARKS = 10
NARROW_BAR_MARKS = 6

_COUNTED_KINDS = ("DATA_BUFFER", "ADD_CREDIT")

WIDTH_FOR_ALL = 110
"""Of a terminal that has room for every column; a narrower one gets those that answer most."""

WIDTH_OF_ANY_TABLE = 10_000

SETTINGS_SHOWN = 40
"""Rows of the trade-off table."""

_NOTHING = "not predicted"
_LATENCIES = ("min", "p50", "p90", "p99", "p99_9", "max")


def print_replays(
    answers: Sequence[ReplayAnswer],
    console: Console | None = None,
    *,
    channels: Sequence[int] | None = None,
    diagnose: bool = False,
    jobs: Sequence[JobAnswer] = (),
) -> None:
    """Print one section for each run, the runs beside each other if there are several, and jobs of
    several exchanges from end to end.

    Args:
        channels: to show in the table by channel; None for the slowest ones.
        diagnose: show what holds each edge up, too.
    """
    console = console or console_for(sys.stdout)
    is_wide = console.width >= WIDTH_FOR_ALL
    of_path: set[str] = set()
    for answer in answers:
        is_first = answer.trace.path not in of_path
        of_path.add(answer.trace.path)
        edge = f", {answer.trace.edge}" if answer.trace.edge else ""
        recordings = len(answer.trace.recordings)
        several = f" ({recordings:,} recordings)" if recordings else ""
        console.rule(f"[bold]{answer.trace.path}{several}{edge}[/bold]")
        if answer.bottleneck is not None and is_first:
            console.print(
                f"[bold]Bottleneck:[/bold] {escape(answer.bottleneck.text)}", soft_wrap=True
            )
        if answer.is_bottleneck and answer.trace.edge:
            console.print("[bold]This edge holds the job up.[/bold]")
        console.print(model_error_line(answer), soft_wrap=True)
        if is_first:
            for line in recording_lines(answer.trace):
                console.print(f"[yellow]![/yellow] {escape(line)}", soft_wrap=True)
        for line in doubts_of(answer):
            console.print(f"[yellow]![/yellow] {escape(line)}", soft_wrap=True)
        if diagnose:
            console.print()
            console.print(_diagnosis_table(answer))
        for table in (
            _observed_table(answer),
            *replayed_checkpoints(answer, console.width),
            over_time_table(answer.over_time),
            messages_table(answer.messages),
            _channels_table(answer.channels, channels, is_wide=is_wide),
        ):
            console.print()
            console.print(table)
        if answer.flink is not None:
            console.print()
            console.print(flink_table(answer.flink))
            for line in flink_lines(answer.flink):
                console.print(f"  {escape(line)}", soft_wrap=True)
        console.print()
        _print_predictions(console, answer)
        console.print()
    if len(answers) > 1:
        console.rule("[bold]all runs, as observed[/bold]")
        console.print(runs_table(answers))
    for job in jobs:
        print_job_answer(job, console)


def doubts_of(answer: ReplayAnswer) -> list[str]:
    """What to know before the numbers: the run's own warnings, and what its trace shows."""
    trace, remarks = answer.trace, answer.remarks
    damaged = [
        f"{file} is cut off; its whole blocks are used"
        for file in trace.damaged_files
        if not any(remark.startswith(f"{file} is cut off") for remark in remarks)
    ]
    return [*damaged, *trace.warnings, *remarks]


def _print_predictions(console: Console, answer: ReplayAnswer) -> None:
    """The settings, the advice and the notes; one line where nothing could be predicted."""
    points = answer.trade_offs
    if all(point.throughput_records_per_s is None for point in points):
        notes = [note for point in points for note in point.notes if note.startswith(_NOTHING)]
        reason = notes[0].removeprefix(_NOTHING) if notes else ""
        console.print(f"[bold]nothing is predicted[/bold]{reason}", soft_wrap=True)
        return
    console.print(_trade_off_table(console, answer))
    for line in advice_lines(answer):
        console.print(line, soft_wrap=True)
    if (price := price_line(answer)) is not None:
        console.print(price, soft_wrap=True, highlight=False)
        console.print()
    for note in notes_of(points):
        console.print(f"  [dim]{note}[/dim]", soft_wrap=True)


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
        "backlog": f"mean {_number(observed.backlog_buffers.mean)}, max"
        f" {_number(observed.backlog_buffers.max)}"
        f" buffer{'' if observed.backlog_buffers.max == 1 else 's'}",
        "credit": f"{credits.announced:,} in {credits.messages:,} messages;"
        f" starved for {human_duration(credits.starved_ns)}, summed over channels",
    }
    if not answer.trace.is_of_run:
        rows["latency"] = "unknown: messages between processes do not show when records came"
    for name, value in rows.items():
        table.add_row(name, value)
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


def _channels_table(
    channels: Sequence[ReplayedChannel], wanted: Sequence[int] | None, *, is_wide: bool
) -> Table:
    if wanted is not None:
        shown = [row for row in channels if row.channel in wanted]
    else:
        slowest = sorted(channels, key=lambda row: -(row.latency_ns.p99 or 0))
        shown = sorted(slowest[:CHANNELS_SHOWN], key=lambda row: row.channel)
    left_out = len(channels) - len(shown)
    table = _table("by channel" + (f" ({left_out} more not shown)" if left_out else ""))
    table.add_column("channel", justify="right", no_wrap=True)
    table.add_column("from → to", no_wrap=True)
    note_left_out(table, () if is_wide else ("data", "credit"), WIDTH_FOR_ALL)
    names = ["records/s", "p50", "p99", "backlog", "max", "starved"]
    for name in names + (["data", "credit"] if is_wide else []):
        table.add_column(name, justify="right", no_wrap=True)
    has_regimes = any(row.regimes is not None for row in shown)
    if has_regimes:
        table.add_column("time", no_wrap=True)
    bar_marks = BAR_MARKS if is_wide else NARROW_BAR_MARKS
    for row in shown:
        messages = row.messages
        table.add_row(
            str(row.channel),
            row.name or f"{row.producer} → {row.consumer}",
            human_count(row.throughput_records_per_s),
            human_duration(row.latency_ns.p50),
            human_duration(row.latency_ns.p99),
            _number(row.backlog_buffers.mean),
            _number(row.backlog_buffers.max),
            human_duration(row.starved_ns),
            *(f"{messages.get(kind, 0):,}" for kind in _COUNTED_KINDS if is_wide),
            *([split_bar(row.regimes or {}, bar_marks)] if has_regimes else []),
        )
    return table


def _diagnosis_table(answer: ReplayAnswer) -> Table:
    table = _table("diagnosis")
    for name in ("edge", "verdict", "share", "why"):
        table.add_column(name, justify="right" if name == "share" else "left")
    for each in answer.diagnosis:
        table.add_row(each.edge, each.kind, f"{each.share:.0%}", each.text)
    return table


@dataclass(frozen=True, slots=True)
class _Columns:
    """What the table of settings shows beside the settings themselves."""

    bar_marks: int = BAR_MARKS
    has_backlog: bool = True
    has_memory: bool = True
    has_p50: bool = True
    has_bounds: bool = True
    has_price: bool = True
    is_folded: bool = False
    """All values of a setting stand in one column, on as many lines as they need."""


_UNPRICED = _Columns(NARROW_BAR_MARKS, has_backlog=False, has_price=False)

_NARROWER = (
    _Columns(),
    _Columns(has_backlog=False),
    _Columns(NARROW_BAR_MARKS, has_backlog=False),
    _UNPRICED,
    replace(_UNPRICED, has_memory=False),
    replace(_UNPRICED, bar_marks=0, has_memory=False),
    replace(_UNPRICED, bar_marks=0, has_memory=False, has_p50=False),
    replace(_UNPRICED, bar_marks=0, has_memory=False, has_p50=False, has_bounds=False),
    replace(_UNPRICED, bar_marks=0, has_memory=False, has_bounds=False, is_folded=True),
)
"""From all to what answers most."""


_LEFT_OUT = {"price": "packets/s, bytes/s"}


def _trade_off_table(console: Console, answer: ReplayAnswer) -> Table:
    """With as many columns as there is room for; numbers are never cut."""
    any_width = console.options.update(max_width=WIDTH_OF_ANY_TABLE)
    widths = []
    for columns in _NARROWER:
        table = _settings_table(answer, columns)
        widths.append(Measurement.get(console, any_width, table).maximum)
        if widths[-1] <= console.width:
            break
    optional = ("backlog", "memory", "p50", "bounds", "price")
    left_out = [
        _LEFT_OUT.get(name, name) for name in optional if not getattr(columns, f"has_{name}")
    ]
    note_left_out(table, left_out, widths[0])
    return table


def _settings_table(answer: ReplayAnswer, columns: _Columns) -> Table:
    points = answer.trade_offs
    shown = _nearest(answer, SETTINGS_SHOWN)
    left_out = len(points) - len(shown)
    more = f" ({left_out} more in the JSON)" if left_out else ""
    varied = what_varies(points)
    table = _table(f"predicted for each {varied[0] if len(varied) == 1 else 'setting'}{more}")
    headings = ["timeout" if name == BUFFER_TIMEOUT else name for name in varied]
    if columns.is_folded:
        table.add_column(", ".join(headings), overflow="fold", vertical="bottom")
    else:
        for heading in headings:
            text = heading.replace(" ", "\n")
            table.add_column(text, justify="right", no_wrap=True, vertical="bottom")
    table.add_column("", no_wrap=True)
    percentiles = ["p50", "p99"] if columns.has_p50 else ["p99"]
    names = ["records/s", *percentiles, *(["backlog", "max"] if columns.has_backlog else [])]
    prices = PRICES if columns.has_price else PRICES[-1:] if columns.has_memory else ()
    prices = prices if any(each.price for each in points) else ()
    for name in [*names, "buffers/s", *prices, *(["memory"] if columns.has_memory else [])]:
        table.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    table.add_column("p99" if columns.bar_marks else "", no_wrap=True, vertical="bottom")
    worst = max((point.latency_ns.p99 or 0 for point in points), default=0) or 1
    for index in shown:
        point, settings = points[index], settings_of(points[index])
        p99 = point.latency_ns.p99
        cells = [human_count(point.throughput_records_per_s)]
        cells += [_latency_cell(point, name, columns) for name in percentiles]
        if columns.has_backlog:
            cells += [
                _number(each) for each in (point.backlog_buffers.mean, point.backlog_buffers.max)
            ]
        cells.append(_buffers_cell(point, columns))
        cells += price_cells(point)[len(PRICES) - len(prices) :]
        if columns.has_memory:
            cells.append(human_bytes(point.memory_bytes))
        bar_marks = min(columns.bar_marks, max(round((p99 or 0) / worst * columns.bar_marks), 1))
        bar = "█" * bar_marks if p99 else ""
        values = [settings[name] for name in varied]
        table.add_row(
            *([", ".join(values)] if columns.is_folded else values),
            "◆" if is_on_frontier(answer, index) else "",
            *cells,
            " ".join([*([bar] if bar else []), *(f"← {mark}" for mark in marks_of(answer, index))]),
            style="bold" if point.is_recorded else "",
        )
    return table


def _latency_cell(point: TradeOffPoint, name: str, columns: _Columns) -> str:
    """A predicted latency; with its 90 % interval, where the records' instants are assumed."""

    def shown(latency: LatencySummary) -> str:
        return human_duration(getattr(latency, name))

    low, high = point.latency_low_ns, point.latency_high_ns
    if low is None or high is None or not columns.has_bounds:
        return shown(point.latency_ns)
    return f"{shown(point.latency_ns)} [dim]({shown(low)} … {shown(high)})[/dim]"


def _buffers_cell(point: TradeOffPoint, columns: _Columns) -> str:
    """Predicted buffers per second; the same."""
    low, high = point.buffers_low_per_s, point.buffers_high_per_s
    shown = human_count(point.buffers_per_s)
    if low is None or high is None or not columns.has_bounds:
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


def _number(value: float | None) -> str:
    if value is None:
        return MISSING
    return str(value) if isinstance(value, int) else f"{value:.2f}"
