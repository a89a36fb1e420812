"""`flinknet trace`: inspects, checks and replays recorded runs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import click

from flinknet.errors import FlinknetError
from flinknet.report.plain_text import printable
from flinknet.storage import AnyPath

from .commands import CommandGroup
from .files import STDOUT, path_of_runs, put_json, show, target_of
from .option_tables import options

_LAZY_COMMANDS = {
    "export": (
        "trace_export",
        "Write a recorded run for other tools: Parquet, CSV, JSON, Perfetto, …",
    ),
    "import": ("trace_import", "Make a trace from a packet capture (tcpdump, Wireshark)."),
    "replay": ("trace_replay", "Predict from recorded runs what other settings would do."),
    "tap": ("trace_tap", "Record a real Flink's traffic, as a proxy between its TaskManagers."),
    "share": (
        "trace_share",
        "Put a recording and its answer into one file, without names, for a colleague.",
    ),
    "sniff": ("trace_import", "Record a real Flink's traffic while its jobs run, from packets."),
    "watch": (
        "trace_watch",
        "Show what happens in traces that are still being written.",
    ),
}
"""Commands that are loaded when called, each with its module here and its line in the overview."""

_IN_ORDER = (
    *("replay", "info", "verify", "export"),
    *("sniff", "tap", "import", "watch"),
    *("share", "dissector"),
)
"""All commands in the order of help: the most used first."""


_RUNS = click.argument("paths", metavar="RUN...", nargs=-1, required=True, type=path_of_runs)


@click.group(cls=CommandGroup, loaded=_LAZY_COMMANDS, order=_IN_ORDER)
def trace() -> None:
    """Inspect recorded runs, and predict other settings from them.

    \b
    flinknet trace replay RUN      what happened, and what other settings would do
    flinknet trace info RUN        what is in a trace
    flinknet trace import flink.pcap --out run

    A RUN is a run directory or a directory of run directories. For info, verify and the tables of
    export, a trace file (*.fnt) is enough; replay needs the run directory. All of them may be in an
    object store or in HDFS: s3://, s3a://, gs://, abfss://, hdfs://.
    """


@trace.command()
@_RUNS
@options("--json")
@click.option("--all", "is_all", is_flag=True, help="Also show settings at their defaults.")
def info(paths: tuple[AnyPath, ...], json: str | None, is_all: bool) -> None:
    """Show what is in a trace: processes, channels, events, and settings that are not at their
    defaults.

    \b
    flinknet trace info RUN
    flinknet trace info tapped/host-*
        one job, recorded by taps on several hosts: what is used from each
    """
    from flinknet.replay.opening import sets_of
    from flinknet.report.recordings import set_view
    from flinknet.report.trace_console import info_view
    from flinknet.trace.describe import describe_run
    from flinknet.trace.run import open_run

    from .configs import settings_to_show

    def described(path: AnyPath) -> dict[str, Any]:
        opened = open_run(path)
        return describe_run(opened) | {"is_sealed": opened.is_sealed}

    target = target_of(json)
    found = _run_paths(paths)
    sets = sets_of([path for path in found if path.is_dir()])
    if target is not None:
        descriptions = [described(path) for path in found]
        document = {"schema_version": 1, "runs": descriptions}
        put_json(target, document | ({"sets": [*map(asdict, sets)]} if sets else {}))
    if target == STDOUT:
        return
    in_sets = {each.path for one in sets for each in one.recordings}
    for one in sets:
        show(set_view(one))
    for path in found:
        if str(path) in in_sets:
            continue
        show(info_view(*settings_to_show(described(path), is_all=is_all)))


@trace.command()
@click.argument("paths", metavar="RUN...", nargs=-1, required=True)
@options("--json")
def verify(paths: tuple[str, ...], json: str | None) -> None:
    """Check that a trace is whole, and that credit and sequence numbers add up.

    \b
    flinknet trace verify RUN

    A run that is still being written is checked as far as it is complete.

    Exits with 1 if anything is wrong, with 2 or 4 if a RUN is missing or is not a run; the others
    are still checked.
    """
    from flinknet.report.trace_console import verification_view
    from flinknet.trace.run import open_with_faults
    from flinknet.trace.run_directory import is_being_written
    from flinknet.trace.verify import verify_run

    target = target_of(json)
    exit_code, runs = 0, []
    for given in paths:
        try:
            for path in _run_paths([path_of_runs(given)]):
                is_growing = is_being_written(path)
                opened, faults = open_with_faults(path)
                result = verify_run(opened, faults, is_being_written=is_growing)
                verification = asdict(result) | {"is_sealed": opened.is_sealed}
                runs.append({"path": str(path), "is_ok": result.is_ok, **verification})
                exit_code = max(exit_code, int(not result.is_ok))
                if target != STDOUT:
                    show(verification_view(str(path), verification))
        except FlinknetError as error:
            exit_code = max(exit_code, error.exit_code)
            runs.append({"path": given, "is_ok": False, "error": str(error)})
            click.echo(f"flinknet: {printable(str(error))}", err=True)
    if exit_code <= 1 or len(runs) > 1:
        put_json(target, {"schema_version": 1, "runs": runs})
    if exit_code:
        sys.exit(exit_code)


@trace.command()
def dissector() -> None:
    """Print a Wireshark dissector for Flink's data port.

    \b
    flinknet trace dissector > flink.lua
    tshark -X lua_script:flink.lua -r capture.pcap -Y flink

    Wireshark always uses it if it is in the folder of personal Lua plugins. Connections are found
    by their magic number, whatever their port; add -o tcp.try_heuristic_first:TRUE if Wireshark
    knows the port for another protocol.
    """
    from flinknet.capture.dissector import dissector_script

    click.echo(dissector_script(), nl=False)


def _run_paths(paths: Iterable[AnyPath]) -> list[AnyPath]:
    from flinknet.trace.run import find_runs

    return [run for path in paths for run in find_runs(path)]
