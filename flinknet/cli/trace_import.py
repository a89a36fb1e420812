"""`flinknet trace import`: a packet capture becomes a trace."""

from __future__ import annotations

import platform
from pathlib import Path

import click

import flinknet

from .counting_line import CountingLine
from .json_files import STDOUT, json_option, put_json, target_of
from .paths import check_new_directory, existing_path


@click.command("import")
@click.argument("capture", metavar="CAPTURE", type=existing_path)
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
def import_(
    capture: Path, out: Path | None, flink_version: str | None, no_records: bool, json: str | None
) -> None:
    """Make a trace from packets of a real Flink that tcpdump or Wireshark captured.

    \b
    tcpdump -i any -s 0 -w flink.pcap tcp port 6121
    flinknet trace import flink.pcap --out run
    flinknet trace replay run

    CAPTURE is a pcap or pcapng file: Ethernet, loopback or Linux cooked, IPv4 or IPv6. Connections
    of Flink's data ports are found by their magic number, whatever their port. Segments may be out
    of order or repeated. What the capture lacks is reported with its effect.

    Times are those of the capture, by the wall clock of the machine that made it. What TCP itself
    did (repeated bytes, zero windows) is in capture.json in the run directory. Payloads are not
    stored.
    """
    from flinknet.capture.observer import layout_of_release
    from flinknet.capture.pcap.importing import import_capture
    from flinknet.report.import_console import print_import

    target = target_of(json)
    layout = layout_of_release(flink_version)
    directory = out or capture.with_suffix("")
    check_new_directory(directory)
    with CountingLine("packets") as line:
        imported = import_capture(
            capture,
            directory,
            layout=layout,
            counts_records=not no_records,
            versions={"flinknet": flinknet.__version__, "python": platform.python_version()},
            on_progress=line.show,
        )
    if target is not None:
        put_json(target, imported.to_dict())
    if target != STDOUT:
        print_import(imported.to_dict())
