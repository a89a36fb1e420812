"""A set of recordings that are one run, as a terminal table."""

from __future__ import annotations

import sys
from shlex import quote

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flinknet.results import RecordingSet, ReplayedRecording
from flinknet.units import human_duration

from .console import console_for
from .recording_lines import clock_lines, clock_text, loss_line, set_line

RECORDINGS_SHOWN = 40


def print_recording_set(found: RecordingSet, console: Console | None = None) -> None:
    """Print which recordings they are, what counts of each, how their clocks are related, and what
    is lost."""
    console = console or console_for(sys.stdout)
    console.print(f"[bold]{escape(found.path)}[/bold]", soft_wrap=True)
    exchanges = "1 exchange" if found.edges == 1 else f"{found.edges:,} exchanges"
    console.print(escape(set_line(found.recordings, f" of {exchanges}")), soft_wrap=True)
    labels = {each.path: each.label for each in found.recordings}
    lost = [loss_line(each, labels.get(each.path)) for each in found.losses]
    for line in [*lost, *clock_lines(found.recordings)]:
        console.print(f"[yellow]![/yellow] {escape(line)}", soft_wrap=True)
    console.print(_table(found))
    hidden = len(found.recordings) - RECORDINGS_SHOWN
    if hidden > 0:
        console.print(f"… and {hidden:,} more recordings (--json shows all)")
    one = found.recordings[0].path
    console.print(f"flinknet trace info {escape(quote(one))} shows one of them", soft_wrap=True)


def _table(found: RecordingSet) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("recording", no_wrap=True)
    for name in ("channels", "counted", "data from", "to"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("clock")
    table.add_column("started at")
    for each in found.recordings[:RECORDINGS_SHOWN]:
        table.add_row(escape(each.label), *_cells(each), escape(each.started_at))
    return table


def _cells(recording: ReplayedRecording) -> list[str]:
    ends = recording.from_ns, recording.to_ns
    return [
        f"{recording.channels:,}",
        f"{recording.channels_counted:,}",
        *map(human_duration, ends),
        clock_text(recording.clock),
    ]
