"""`flinknet trace watch`: follows traces that are still being written."""

from __future__ import annotations

import sys
from contextlib import nullcontext, suppress
from json import dumps
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import click

from flinknet.errors import ConfigError
from flinknet.units import NS_PER_S
from flinknet.whole_files import work_directory

from .commands import SectionedCommand
from .files import STDOUT, add_line, directory_here, growing_file
from .option_tables import SPARK, options
from .replay_options import session_options
from .value_parsers import some_time

if TYPE_CHECKING:
    from flinknet.report.trace_console import WatchView
    from flinknet.results import WatchLook

LONGEST_WINDOW_NS = 3600 * NS_PER_S


@click.command(cls=SectionedCommand)
@click.argument("path", metavar="DIR", type=directory_here)
@options(
    f"""
    [Updates]
    --window TIME = 60s
        Length of the newest part that is shown, at most 1h.
    --every TIME = 5s
        Shortest time between two updates; nothing is shown without new events.
    --once
        Show one update and end; needs Spark only for --table.
    --duration TIME
        Stop after TIME. [default: at Ctrl-C]
    [Output]
    --details
    --table DIR|URI
        At each update add a row for each edge to this table of Parquet files.
    --json [FILE]
        Write a line of JSON for each update to FILE; without FILE, print only these lines.
    [Spark]
    {SPARK}
    """
)
def watch(path: Path, **values: Any) -> None:
    """Show what happens in traces that are still being written.

    \b
    flinknet trace watch recordings/
        the last minute of all runs in a directory, until Ctrl-C
    flinknet trace watch RUN --window 10s --every 2s --table looks
        the last ten seconds; each update also becomes rows of a Parquet table
    flinknet trace watch RUN --once --json
        one update, for a script

    DIR is a run directory or a directory of run directories: of a tap (also with --ring or
    --rotate), or of a bench or a job that is still running. Spark's Structured Streaming follows
    the files. After each micro-batch, the newest part is shown edge by edge: throughput, bounds of
    the latency, backlog, where the time goes, and what limits the edge. Runs that begin later are
    found, too.
    """
    from flinknet.replay.spark.session import spark_errors, spark_session
    from flinknet.replay.watch import Watch, add_to_table
    from flinknet.report.console import console_for
    from flinknet.report.trace_console import WatchView

    table, once, duration = values["table"], values["once"], values["duration"]
    span_ns = some_time(values["window"], "--window")
    if span_ns > LONGEST_WINDOW_NS:
        raise ConfigError(f"--window: {values['window']} is too long; at most 1h")
    every_s = some_time(values["every"], "--every") / NS_PER_S
    seconds = None if duration is None else some_time(duration, "--duration") / NS_PER_S
    if table is not None and "://" not in table:
        table = str(Path(table).absolute())
    target = growing_file(values["json"])
    looks: SimpleQueue[WatchLook] = SimpleQueue()
    with work_directory("watch") as work_dir:
        watching = Watch(path.absolute(), work_dir, span_ns=span_ns)
        looks.put(first := watching.look())
        view = (
            None
            if target == STDOUT
            else WatchView(console_for(sys.stdout), str(path), has_details=values["details"])
        )
        with view or nullcontext(), suppress(KeyboardInterrupt):
            _show(looks, view, target)
            if once and table is None:
                return
            with spark_session(session_options(values)) as spark, spark_errors():
                if table is not None:
                    add_to_table(spark, first, table)
                if once:
                    return
                stream = watching.start(spark, every_s, looks.put, table)
                waited_s = 0.0
                while seconds is None or waited_s < seconds:
                    if stream.has_ended(within_s=1):
                        return
                    waited_s += 1
                    _show(looks, view, target)
                stream.stop()


def _show(looks: SimpleQueue[WatchLook], view: WatchView | None, target: Path | str | None) -> None:
    from flinknet.report.export import watch_document

    if looks.empty() and view is not None:
        view.wait()
    while not looks.empty():
        look = looks.get()
        if view is not None:
            view.update(look)
        if target is not None:
            add_line(target, dumps(watch_document(look)))
