"""`flinknet trace convert`: writes recorded runs as a table for SQL, with Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flinknet.errors import ConfigError

from .commands import SPARK_SECTION, SectionedCommand
from .paths import check_new_directory, path_of_runs
from .spark_options import spark_options
from .wrong_calls import WholeNumber

if TYPE_CHECKING:
    from flinknet.replay.spark.settings import SessionOptions

FORMS = ("parquet", "delta")


_SECTIONS = {
    "Table": ("out", "form", "buckets"),
    "Events": ("channel", "kind"),
    **SPARK_SECTION,
}


@click.command(cls=SectionedCommand, sections=_SECTIONS)
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=path_of_runs)
@click.option(
    "--out",
    metavar="DIR|URI",
    required=True,
    help="New directory, or a URI that this Spark can write to.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    default=FORMS[0],
    show_default=True,
    help="Delta needs Delta Lake in this Spark.",
)
@click.option(
    "--buckets",
    metavar="N",
    type=WholeNumber(1, 10_000),
    default=16,
    show_default=True,
    help="Directories for each hour; its channels are divided among them.",
)
@click.option("--channel", metavar="LIST", help="Channels, such as 0,3. [default: all]")
@click.option("--kind", metavar="LIST", help="Messages, such as ADD_CREDIT. [default: all]")
@spark_options
def convert(
    traces: tuple[Path, ...],
    out: str,
    form: str,
    buckets: int,
    channel: str | None,
    kind: str | None,
    session: SessionOptions,
) -> None:
    """Write recorded runs as a table of Parquet files or of Delta Lake, with Spark.

    \b
    flinknet trace convert recordings/ --out events
        all runs in a directory as one table
    flinknet trace convert RUN --format delta --out events \\
        --master spark://host:7077

    TRACE is a run directory or a directory of run directories. Every trace event is a row; files
    are in directories run=…/hour=…/channel_bucket=…, where hour is at_ns in hours, and a channel is
    in bucket channel mod N. For a single file, without Spark, use trace export.
    """
    from flinknet.replay.convert import convert as write
    from flinknet.replay.spark.session import spark_errors, spark_session

    from . import value_parsers

    options = {}
    if channel is not None:
        options["channels"] = ",".join(map(str, value_parsers.channels(channel)))
    if kind is not None:
        options["kinds"] = ",".join(value_parsers.kinds(kind))
    if "://" not in out:
        check_new_directory(Path(out))
        if Path(out).exists():
            Path(out).rmdir()
        target = str(Path(out).absolute())
    else:
        target = out
    click.echo("flinknet: starting Spark …", err=True)
    with spark_session(session) as spark, spark_errors():
        paths = [str(each.absolute()) for each in traces]
        rows = write(spark, paths, target, form=form, buckets=buckets, options=options)
    if not rows:
        raise ConfigError(f"{out}: no event was chosen, so the table is empty")
    click.echo(f"{out}: {rows:,} events as {form}, by run, hour and channel bucket", err=True)
