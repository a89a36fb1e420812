"""`flinknet trace import` and `flinknet trace sniff`: a trace from packets, of files or live."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flinknet.errors import ConfigError
from flinknet.storage import AnyPath
from flinknet.units import parse_size_bytes

from . import trace_tap
from .commands import SectionedCommand
from .files import CountingLine, Outputs, check_new_directory, existing_path
from .option_tables import options
from .replay_options import answers_of

if TYPE_CHECKING:
    from flinknet.capture.sniff import Sniffer

_STANDARD_INPUT = Path("-")
_NAMELESS = ("-", "/dev/", "/proc/")
_PORTS = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
_SNAP_BYTES_MIN = 128


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


_OUTPUT = """
[Output]
--metrics-port --json --details
"""
_IMPORT = f"""
[Where]
--out DIR
    Run directory to make. [default: the capture's name without its extension]
--follow
    Wait for more at the end of a file that grows.
{trace_tap.CAPTURE}
{_OUTPUT}
"""


@click.command("import", cls=SectionedCommand)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, type=_capture_path)
@options(_IMPORT, out=click.Path(path_type=Path))
def import_(captures: tuple[Path, ...], **values: Any) -> None:
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
    flinknet trace import shared.html --out run
        the recording in a page that `trace share` has made
    kubectl exec POD … -- tcpdump -U -w - … | flinknet trace import - --out run
        the same in a pod
    flinknet trace import flink.pcap --follow --duration 10min --out run
        a file that is still being written

    A CAPTURE is a pcap or pcapng file, compressed (gzip, zstd, xz, bzip2, lz4) or not, a pipe, or -
    for standard input: Ethernet, loopback or Linux cooked, IPv4 or IPv6, also inside VXLAN, Geneve,
    GRE or IP. Connections of Flink's data ports are found by their magic number, whatever their
    port, also in the middle. Segments may be out of order or repeated. What the capture lacks is
    reported with its effect.

    A pipe, or a file with --follow, is read live: `trace watch` works on the trace while it is
    written. It ends with the pipe, after --duration, or with Ctrl-C or SIGTERM, and then the result
    is printed.

    Times are those of the capture, by the wall clock of the machine that made it. What TCP itself
    did (repeated bytes, zero windows) is in capture.json in the run directory. Payloads are not
    stored.
    """
    from flinknet.capture.pcap.sources import is_pipe
    from flinknet.report.recordings import import_view

    paths, out, follow = list(dict.fromkeys(captures)), values["out"], values["follow"]
    if isinstance(paths[0], Path) and paths[0].suffix in (".html", ".htm"):
        _unpack(paths, out)
        return
    if follow and not isinstance(paths[0], Path):
        raise ConfigError("--follow: only for a file of this machine")
    outputs = Outputs.of(values)
    is_live = len(paths) == 1 and (follow or is_pipe(paths[0]))
    if not is_live and (names := [*(["--follow"] if follow else []), *trace_tap.only_live(values)]):
        raise ConfigError(
            f"{names[0]}: only for one live source: a pipe, - for standard input, or a file with"
            " --follow"
        )
    if out is None and str(paths[0]).startswith(_NAMELESS):
        raise ConfigError(f"--out: give the run directory to make; {paths[0]} is no name for it")
    directory = out or _directory_for(paths)
    check_new_directory(directory)
    imported = imported_packets(paths, directory, values, is_live=is_live, follows=follow)
    outputs.write(import_view(imported), imported)


_SNIFF = f"""
[Where]
--port PORT[-PORT] ...
    Data port of a TaskManager, or a range; may be repeated. [default: the data ports that --rest
    reports; without --rest, the ports on which TaskManagers of this host listen]
--interface NAME = any
    Where.
--snap-length SIZE
    Most bytes of each packet, 128 or more. Less is lost at high rates, but records are not counted.
    [default: whole packets]
--capture-buffer SIZE = 64MiB
    Memory for packets that wait to be read.
{trace_tap.NEW_OUT}
{trace_tap.CAPTURE}
{_OUTPUT}
"""


@click.command(cls=SectionedCommand)
@options(_SNIFF)
def sniff(**values: Any) -> None:
    """Record the TaskManagers of this host while their jobs run; nothing restarts.

    \b
    flinknet trace sniff --rest http://localhost:8081 --out sniffed
        until Ctrl-C, with the names of tasks, settings and Flink's metrics
    flinknet trace sniff --port 6121-6128 --duration 1min --out sniffed
        these data ports
    flinknet trace sniff --rest … --ring 60s --trigger 'no_credit>50%' --out ring
        run for days, keep only the time around a trigger

    It starts the capture program of this host (dumpcap, tcpdump or tshark) and imports what it
    writes, as `trace import -` does. It needs no more rights than that program. Channels that were
    open before have no names on the wire; with --rest they follow from where tasks run.

    What TLS encrypts cannot be read: record it with `trace tap`. The same holds for rates at which
    the capture loses packets; the result says how many.
    """
    from flinknet.capture.sniff import SniffConfig, Sniffer
    from flinknet.report.recordings import import_view

    outputs = Outputs.of(values)
    directory = trace_tap.free_directory(Path(values["out"]))
    trace_tap.session_settings(values, directory)  # refuses what is wrong before anything starts
    snap_length = values["snap_length"]
    snap_bytes = 0 if snap_length is None else parse_size_bytes(snap_length, "--snap-length")
    if snap_length is not None and snap_bytes < _SNAP_BYTES_MIN:
        raise ConfigError(
            f"--snap-length: {snap_length} cuts off headers of Flink's messages; give 128b or more"
        )
    config = SniffConfig(
        _ports(values),
        values["interface"],
        snap_bytes,
        parse_size_bytes(values["capture_buffer"], "--capture-buffer"),
    )
    sniffer = Sniffer(config)
    try:
        click.echo(f"flinknet: {sniffer.name}: {config.filter}", err=True)
        imported = imported_packets([sniffer.path], directory, values, sniffer=sniffer)
    finally:
        sniffer.close()
    outputs.write(import_view(imported), imported)


def _ports(values: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    """The ports to capture, as ranges. Raises: ConfigError, RemoteTransportError."""
    from flinknet.capture.sniff import task_manager_ports

    texts, rest = values["port"], values["rest"]
    found: set[tuple[int, int]] = set()
    for text in texts:
        parts = _PORTS.fullmatch(text)
        first, last = (int(each) for each in (parts[1], parts[2] or parts[1])) if parts else (0, 0)
        if not 0 < first <= last <= 65_535:
            raise ConfigError(f"--port: {text!r} is not a port; write 6121 or 6121-6128")
        found.add((first, last))
    if not texts and rest is not None:
        from flinknet.capture.rest.jobs import read_task_managers

        answers = answers_of(values)
        found = {(each.data_port, each.data_port) for each in read_task_managers(answers)}
        if not found:
            raise ConfigError(f"--rest: {rest} knows no TaskManager; give --port")
    elif not texts:
        found = {(each, each) for each in task_manager_ports()}
        if not found:
            raise ConfigError(
                "no TaskManager of this host shows the ports on which it listens to this user; give"
                " --rest, such as http://localhost:8081, or --port"
            )
    return tuple(sorted(found))


def imported_packets(
    paths: Sequence[Path],
    directory: Path,
    values: Mapping[str, Any],
    *,
    is_live: bool = True,
    follows: bool = False,
    sniffer: Sniffer | None = None,
) -> dict[str, Any]:
    """Import packets, and show meanwhile how far it is."""
    import flinknet
    from flinknet.capture.pcap.importing import Import, Live
    from flinknet.capture.session import SessionConfig
    from flinknet.report.console import console_for
    from flinknet.report.tap_console import TapView

    config = SessionConfig(**trace_tap.session_settings(values, directory))
    versions = {"flinknet": flinknet.__version__, "python": platform.python_version()}
    if not is_live:
        with CountingLine("packets") as line:
            return Import(paths, config, versions=versions, on_progress=line.show).run()
    view = TapView(console_for(sys.stderr))
    trace_tap.print_begin(view, config)
    live = Live(follows, trace_tap.showing(values, view), sniffer=sniffer)
    with view:
        return Import(paths, config, versions=versions, live=live).run()


def _unpack(pages: Sequence[Path], out: Path | None) -> None:
    context = click.get_current_context()
    for each in context.command.params:
        if each.name not in ("captures", "out") and each.name is not None:
            source = context.get_parameter_source(each.name)
            if source is click.core.ParameterSource.COMMANDLINE:
                raise ConfigError(f"{each.opts[0]}: not for a shared page")
    from flinknet.trace.share import unpack

    if len(pages) > 1:
        raise ConfigError("give one shared page at a time")
    directory = out or _directory_for(pages)
    check_new_directory(directory)
    unpack(pages[0], directory)
    click.echo(f"{directory}: the shared recording; flinknet trace replay {directory}")


def _directory_for(captures: Sequence[AnyPath]) -> Path:
    """The default directory of an import, next to the first file: named after the file or, for
    several files of one capture, after the capture.
    """
    from flinknet.capture.pcap.files import series_of

    first = captures[0]
    name, number = series_of(first.name)
    is_one = len(captures) > 1 and all(series_of(each.name)[0] == name for each in captures)
    place = first.parent if isinstance(first, Path) else Path()
    directory = place / (name if is_one or not number else f"{name}-{number}")
    return directory if directory != first else place / f"{name}-trace"
