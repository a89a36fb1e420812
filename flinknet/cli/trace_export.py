"""`flinknet trace export`: writes a recorded run in a form for other tools."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from flinknet.errors import ConfigError
from flinknet.storage import AnyPath, path_of
from flinknet.units import human_bytes, parse_duration_ns

from . import files
from .option_tables import options

FORMATS = ("parquet", "csv", "json", "perfetto")


@click.command()
@click.argument("run", metavar="RUN", type=files.existing_path)
@options(
    f"""
    --format (form) {"|".join(FORMATS)} required
        Form of the file; see above.
    --out PATH required
        File to write, here or in an object store; compressed if its name ends with .gz (Parquet is
        compressed anyway).
    -f, --overwrite
        Replace PATH if it exists.
    --channel LIST
        Channels, such as 0,3. [default: all]
    --from TIME
        Start, counted from the start of the measured part: 1.5s, or -200ms to include the end of
        the warm-up. [default: the first event]
    --to TIME
        End, counted in the same way. [default: the last event]
    """,
    form=click.Choice(FORMATS),
    out=path_of,
)
def export(run: AnyPath, form: str, out: AnyPath, **values: Any) -> None:
    """Write a recorded run in a form that other tools read. Needs no Java.

    \b
    flinknet trace export RUN --format parquet --out events.parquet
        the message table, a row for each trace event
    flinknet trace export RUN --format csv --out events.csv.gz
        the same with a header line
    flinknet trace export RUN --format json --channel 0 --out events.jsonl
        the same as JSON, one object per line
    flinknet trace export RUN --format perfetto --from 1s --to 1.2s \\
        --out run.json.gz
        a slice for each buffer, counters for credit and backlog; open it in
        ui.perfetto.dev, which reads it in your browser and sends it nowhere

    RUN is a run directory or, for the message table, a trace file (*.fnt). Flink's metrics, as a
    tap with --rest records them, are JSON lines already: metrics.jsonl in the run directory.
    """
    from flinknet.export import perfetto, select, tables
    from flinknet.trace import open_run

    from . import value_parsers

    forms_of_table = ("parquet", "csv", "json")
    writers: dict[str, tuple[Callable[..., int], str]] = {
        **{each: (partial(tables.write_events, form=each), "events") for each in forms_of_table},
        "perfetto": (perfetto.write_perfetto, "buffers"),
    }
    channel = values["channel"]
    files.check_writable_file(out, "--out")
    if out.exists() and not values["overwrite"]:
        raise ConfigError(f"--out: {out} exists; give another name, or --overwrite")
    if form == "parquet" and out.suffix == ".gz":
        raise ConfigError("--out: Parquet is compressed anyway; give a name without .gz")
    channels = value_parsers.channels(channel) if channel is not None else None
    bounds = _time(values["from"], "--from"), _time(values["to"], "--to")
    selection = select(open_run(files.one_run(run)), channels, *bounds)
    write, noun = writers[form]
    with files.CountingLine(noun) as progress:
        count = write(selection, out, progress.show)
    for name in selection.cut_files:
        click.echo(f"flinknet: {name} is cut off; its whole blocks are exported", err=True)
    if out.is_file():
        size = human_bytes(out.stat().st_size)
        click.echo(f"{out}: {count:,} {noun}, {size}", err=True)


def _time(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    stripped = text.strip()
    if stripped.startswith("-"):
        return -parse_duration_ns(stripped[1:], option, bare_unit=None)
    return parse_duration_ns(stripped, option, bare_unit=None)
