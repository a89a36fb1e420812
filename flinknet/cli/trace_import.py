"""`flinknet trace import`: makes a trace from packets, of a capture file or while they come."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from flinknet.errors import ConfigError
from flinknet.storage import AnyPath

from .capture_options import CAPTURE_SECTIONS, CaptureOptions, capture_options
from .commands import SectionedCommand
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


_SECTIONS = {
    "Where": ("out", "follow"),
    **CAPTURE_SECTIONS,
    "Output": ("metrics-port", "json", "details"),
}


@click.command("import", cls=SectionedCommand, sections=_SECTIONS)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, type=_capture_path)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Run directory to make. [default: the capture's name without its extension]",
)
@click.option("--follow", is_flag=True, help="Wait for more at the end of a file that grows.")
@capture_options
@json_option
@details_option
def import_(
    captures: tuple[Path, ...],
    out: Path | None,
    follow: bool,
    options: CaptureOptions,
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
    tcpdump -i any -U -w - 'tcp portrange 6121-6128' | flinknet trace import - \\
        --out run --rest http://localhost:8081
        a live capture, until Ctrl-C; `trace sniff` does both in one command
    kubectl debug POD … -- tcpdump -U -w - … | flinknet trace import - --out run
        the same in a pod
    flinknet trace import flink.pcap --follow --duration 10min --out run
        a file that is still being written

    A CAPTURE is a pcap or pcapng file, compressed (gzip, zstd, xz, bzip2, lz4) or not, a pipe, or -
    for standard input: Ethernet, loopback, Linux cooked or macOS's PKTAP, IPv4 or IPv6, also inside
    VXLAN, Geneve, GRE or IP. Connections of Flink's data ports are found by their magic number,
    whatever their port, also in the middle. Segments may be out of order or repeated. What the
    capture lacks is reported with its effect.

    A pipe, or a file with --follow, is read live: `trace watch` works on the trace while it is
    written. It ends with the pipe, after --duration, or with Ctrl-C or SIGTERM, and then the result
    is printed.

    Times are those of the capture, by the wall clock of the machine that made it. What TCP itself
    did (repeated bytes, zero windows) is in capture.json in the run directory. Payloads are not
    stored.
    """
    from flinknet.capture.pcap.sources import is_pipe

    paths = list(dict.fromkeys(captures))
    target = target_of(json)
    is_live = len(paths) == 1 and (follow or is_pipe(paths[0]))
    if not is_live and (names := [*(["--follow"] if follow else []), *options.only_live]):
        raise ConfigError(
            f"{names[0]}: only for one live source: a pipe, - for standard input, or a file with"
            " --follow"
        )
    if out is None and str(paths[0]).startswith(_NAMELESS):
        raise ConfigError(f"--out: give the run directory to make; {paths[0]} is no name for it")
    directory = out or _directory_for(paths)
    check_new_directory(directory)
    if others := [] if is_live else _others_of(paths):
        more = f" and {len(others) - 1} more are" if len(others) > 1 else " is"
        click.echo(
            f"flinknet: {others[0]}{more} of the same capture; all files in one call make one"
            " recording",
            err=True,
        )
    imported = imported_packets(paths, directory, options, is_live=is_live, follows=follow)
    show_imported(imported, target, has_details=details)


def imported_packets(
    paths: Sequence[Path],
    directory: Path,
    options: CaptureOptions,
    *,
    is_live: bool = True,
    follows: bool = False,
) -> dict[str, Any]:
    """Import packets, and show meanwhile how far it is."""
    import flinknet
    from flinknet.capture.live.session import SessionConfig
    from flinknet.capture.pcap.importing import Live, import_capture
    from flinknet.report.console import console_for
    from flinknet.report.tap_console import TapView, recording_line

    config = SessionConfig(**options.values(directory))
    versions = {"flinknet": flinknet.__version__, "python": platform.python_version()}
    if not is_live:
        with CountingLine("packets") as line:
            return import_capture(paths, config, versions=versions, on_progress=line.show)
    view = TapView(console_for(sys.stderr))
    begun = recording_line(
        str(directory),
        duration_ns=config.duration_ns,
        ring_ns=config.rotation.ring_ns,
        trigger="" if config.trigger is None else config.trigger.text,
    )
    view.console.print(begun, soft_wrap=True, highlight=False)
    on_look, on_tick = options.showing(view)
    with view:
        return import_capture(
            paths, config, versions=versions, live=Live(follows, on_look, on_tick)
        )


def show_imported(
    imported: dict[str, Any], target: AnyPath | str | None, *, has_details: bool
) -> None:
    """Write the result, and print what was found."""
    from flinknet.report.console import console_for, print_view
    from flinknet.report.import_console import import_view

    if target is not None:
        put_json(target, imported)
    if target != STDOUT:
        print_view(console_for(sys.stdout), import_view(imported), has_details=has_details)


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
