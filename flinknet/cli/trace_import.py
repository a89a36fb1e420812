"""`flinknet trace import`: makes a trace from packet captures."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import click

import flinknet
from flinknet.errors import ConfigError
from flinknet.storage import AnyPath

from .counting_line import CountingLine
from .json_files import STDOUT, json_option, put_json, target_of
from .options import details_option
from .paths import check_new_directory, existing_path

_STANDARD_INPUT = Path("-")
_NAMELESS = ("-", "/dev/", "/proc/")


def _capture_path(text: str) -> AnyPath:
    """A file, a pipe, or - for standard input. Raises: ConfigError, StorageError."""
    if text != str(_STANDARD_INPUT):
        return existing_path(text)
    if sys.stdin is None or sys.stdin.isatty():
        raise ConfigError(
            "-: nothing is piped into standard input; for example:"
            " tcpdump -w - … | flinknet trace import - --out run"
        )
    return _STANDARD_INPUT


@click.command("import")
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, type=_capture_path)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Run directory to make. [default: the capture's name without its extension]",
)
@click.option(
    "--flink-version",
    metavar="VERSION",
    help="Release that the TaskManagers run: 1.20, 2.0, … 2.3. [default: detected from"
    " the messages]",
)
@click.option("--no-records", is_flag=True, help="Do not count the records in payloads.")
@json_option
@details_option
def import_(
    captures: tuple[Path, ...],
    out: Path | None,
    flink_version: str | None,
    no_records: bool,
    json: str | None,
    details: bool,
) -> None:
    """Make a trace from packets of a real Flink that tcpdump or Wireshark captured.

    \b
    tcpdump -i any -s 0 -w flink.pcap tcp port 6121
    flinknet trace import flink.pcap --out run
    flinknet trace replay run

    \b
    flinknet trace import rot.pcap*
        a capture that `tcpdump -C` split, as one recording
    tcpdump -w - … | flinknet trace import - --out run
        until tcpdump ends

    A CAPTURE is a pcap or pcapng file, compressed (gzip, zstd, xz, bzip2, lz4) or not, a pipe, or -
    for standard input: Ethernet, loopback, Linux cooked or macOS's PKTAP, IPv4 or IPv6, also inside
    VXLAN, Geneve, GRE or IP. Connections of Flink's data ports are found by their magic number,
    whatever their port. Segments may be out of order or repeated. What the capture lacks is
    reported with its effect.

    Times are those of the capture, by the wall clock of the machine that made it. What TCP itself
    did (repeated bytes, zero windows) is in capture.json in the run directory. Payloads are not
    stored.
    """
    from flinknet.capture.observer import layout_of_release
    from flinknet.capture.pcap.importing import import_capture
    from flinknet.report.console import console_for, print_view
    from flinknet.report.import_console import import_view
    from flinknet.runtime.signals import first_interrupt

    paths = list(dict.fromkeys(captures))
    target = target_of(json)
    layout = layout_of_release(flink_version)
    if out is None and str(paths[0]).startswith(_NAMELESS):
        raise ConfigError(f"--out: give the run directory to make; {paths[0]} is no name for it")
    directory = out or _directory_for(paths)
    check_new_directory(directory)
    if others := _others_of(paths):
        more = f" and {len(others) - 1} more are" if len(others) > 1 else " is"
        click.echo(
            f"flinknet: {others[0]}{more} of the same capture; all files in one call make one"
            " recording",
            err=True,
        )
    is_piped = not all(path.is_file() for path in paths)
    to_the_end = first_interrupt(_say_what_is_left) if is_piped else nullcontext()
    with CountingLine("packets") as line, to_the_end:
        imported = import_capture(
            paths,
            directory,
            layout=layout,
            counts_records=not no_records,
            versions={"flinknet": flinknet.__version__, "python": platform.python_version()},
            on_progress=line.show,
        )
    if target is not None:
        put_json(target, imported.to_dict())
    if target != STDOUT:
        view = import_view(imported.to_dict())
        print_view(console_for(sys.stdout), view, has_details=details)


def _say_what_is_left() -> None:
    click.echo("flinknet: reading what is left in the pipe; Ctrl-C ends it", err=True)


def _directory_for(captures: Sequence[AnyPath]) -> Path:
    """The default directory of an import, next to the first file: named after the file or, for
    several files of one capture, after the capture.
    """
    from flinknet.capture.pcap.series import series_of

    first = captures[0]
    name, number = series_of(first.name)
    is_one = len(captures) > 1 and all(series_of(each.name)[0] == name for each in captures)
    place = first.parent if isinstance(first, Path) else Path()
    directory = place / (name if is_one or not number else f"{name}-{number}")
    return directory if directory != first else place / f"{name}-trace"


def _others_of(captures: Sequence[AnyPath]) -> list[str]:
    """Names of further files of the first file's capture in its directory."""
    from flinknet.capture.pcap.series import series_of

    given = {series_of(each.name) for each in captures}
    (name, number), place = series_of(captures[0].name), captures[0].parent
    if number is None or not isinstance(place, Path):
        return []
    neighbours = ((each.name, series_of(each.name)) for each in place.iterdir())
    return sorted(
        each
        for each, found in neighbours
        if found not in given and found[0] == name and found[1] is not None
    )
