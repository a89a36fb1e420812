"""`flinknet trace watch`: follows traces that are still being written."""

from __future__ import annotations

import math
import sys
from contextlib import nullcontext, suppress
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flinknet.errors import ConfigError
from flinknet.units import NS_PER_S
from flinknet.whole_files import work_directory

from .commands import SectionedCommand
from .files import STDOUT, add_line, directory_here, growing_file
from .option_tables import options
from .value_parsers import some_time

if TYPE_CHECKING:
    from flinknet.report.trace_console import WatchView
    from flinknet.results import WatchLook

LONGEST_WINDOW_NS = 3600 * NS_PER_S


@click.command(cls=SectionedCommand)
@click.argument("path", metavar="DIR", type=directory_here)
@options(
    """
    [Updates]
    --window TIME = 60s
        Length of the newest part that is shown, at most 1h.
    --every TIME = 5s
        Shortest time between two updates; nothing is shown without new events.
    --once
        Show one update and end.
    --duration TIME
        Stop after TIME. [default: when all runs have ended, or at Ctrl-C]
    [Output]
    --details
    --json [FILE]
        Write a line of JSON for each update to FILE; without FILE, print only these lines.
    """
)
def watch(path: Path, **values: Any) -> None:
    """Show what happens in traces that are still being written.

    \b
    flinknet trace watch recordings/
        the last minute of all runs in a directory, until they have ended
    flinknet trace watch RUN --window 10s --every 2s
        the last ten seconds
    flinknet trace watch RUN --once --json
        one update, for a script

    DIR is a run directory or a directory of run directories: of a tap (also with --ring), or of a
    bench or a job that is still running. The newest part is shown edge by edge: throughput, bounds
    of the latency, backlog, where the time goes, and what limits the edge. Runs that begin later
    are found, too, until all have ended.
    """
    from flinknet.replay.watch import Watch
    from flinknet.report.console import console_for
    from flinknet.report.trace_console import WatchView
    from flinknet.runtime.clock import monotonic_ns, sleep

    span_ns = some_time(values["window"], "--window")
    if span_ns > LONGEST_WINDOW_NS:
        raise ConfigError(f"--window: {values['window']} is too long; at most 1h")
    every_ns = some_time(values["every"], "--every")
    duration = values["duration"]
    length_ns = math.inf if duration is None else some_time(duration, "--duration")
    target = growing_file(values["json"])
    with work_directory("watch") as work_dir:
        watching = Watch(path.absolute(), work_dir, span_ns=span_ns)
        view = (
            None
            if target == STDOUT
            else WatchView(console_for(sys.stdout), str(path), has_details=values["details"])
        )
        with view or nullcontext(), suppress(KeyboardInterrupt):
            is_over = _show(watching.look(), view, target).has_ended or values["once"]
            shown_ns = begun_ns = monotonic_ns()
            while not is_over and monotonic_ns() < begun_ns + length_ns:
                sleep(min(every_ns / NS_PER_S, 1.0))
                now_ns = monotonic_ns()
                if now_ns - shown_ns >= every_ns and watching.has_grown():
                    is_over = _show(watching.look(), view, target).has_ended
                    shown_ns = monotonic_ns()
                elif view is not None:
                    view.wait((now_ns - shown_ns) // NS_PER_S)


def _show(look: WatchLook, view: WatchView | None, target: Path | str | None) -> WatchLook:
    from flinknet.report.export import watch_document

    if view is not None:
        view.update(look)
    if target is not None:
        add_line(target, dumps(watch_document(look)))
    return look
