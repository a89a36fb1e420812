"""`flinknet trace replay`: recorded runs in, answers and predictions out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flinknet.errors import ConfigError
from flinknet.units import parse_duration_ns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OPTION = "--buffer-timeout"


@click.command()
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path())
@click.option(
    OPTION,
    metavar="LIST",
    help="Timeouts to predict, such as 0,5ms,100ms,-1; the recorded one is always among them."
    " [default: 0,1ms,5ms,10ms,100ms,-1]",
)
@click.option(
    "--master",
    metavar="URL",
    default="local[*]",
    show_default=True,
    help="Spark master. A cluster must see the traces under the same paths.",
)
@click.option("--channel", metavar="LIST", help="Channels to show, such as 0,3. [default: slowest]")
@click.option(
    "--max-records",
    metavar="N",
    type=click.IntRange(min=1),
    help="Records of each run to simulate for each timeout, from the start of the measured part."
    " [default: 50000; 1000000 at the highest rate]",
)
@click.option(
    "--json", "json_path", metavar="FILE|-", help="Write the answer as JSON; - to stdout."
)
@click.option("--out", metavar="DIR", help="Write each table as Parquet into this new directory.")
def replay(
    traces: tuple[str, ...],
    buffer_timeout: str | None,
    master: str,
    channel: str | None,
    max_records: int | None,
    json_path: str | None,
    out: str | None,
) -> None:
    """Answer from recorded runs: what happened, and what other buffer timeouts would do.

    TRACE is the directory of a run, or one that holds runs. Only the measured part of a run counts.
    The first line of an answer is the error of the model on the setting that was recorded: believe
    the predictions as far as that.

    One run gives one JSON object, several give {"schema_version": 1, "replays": [...]}.
    """
    from flinknet.replay.answer import open_runs, replay_runs
    from flinknet.replay.session import spark_errors, spark_session
    from flinknet.replay.trade_off import DEFAULT_TIMEOUTS_NS
    from flinknet.report.replay_console import print_replays

    from .sweep import json_file

    timeouts_ns = _timeouts(buffer_timeout) if buffer_timeout else DEFAULT_TIMEOUTS_NS
    channels = _channels(channel) if channel else None
    json_target = json_file(json_path)
    out_dir = _new_directory(out) if out else None
    runs = open_runs([Path(trace) for trace in traces])
    known = {each.index for run in runs for each in run.manifest.channels}
    if channels and not known.issuperset(channels):
        raise ConfigError(
            f"--channel: {channel} is not in the trace; its channels are 0 to {max(known)}"
        )
    _say("starting Spark")
    with spark_session(master) as spark, spark_errors():
        answer = replay_runs(
            spark,
            runs,
            timeouts_ns,
            max_records=max_records,
            on_progress=_say,
        )
        if out_dir is not None:
            _say(f"writing Parquet to {out_dir}")
            _write_parquet(answer.tables, out_dir)
    text = json.dumps(answer.to_dict(), indent=1)
    if json_path == "-":
        click.echo(text)
        return
    if json_target is not None:
        json_target.write_text(text + "\n", encoding="utf-8")
    print_replays(answer.answers, channels=channels)


def _timeouts(text: str) -> list[int]:
    return [parse_duration_ns(part, OPTION, allow_never=True) for part in text.split(",")]


def _channels(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ConfigError(f"--channel: {text!r} is not a list of channel numbers, such as 0,3")
    return [int(part) for part in parts]


def _new_directory(text: str) -> Path:
    path = Path(text)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise ConfigError(f"--out: {path} exists and is not empty; give a new directory")
    path.mkdir(parents=True, exist_ok=True)
    return path


def _write_parquet(tables: dict[str, DataFrame], directory: Path) -> None:
    for name, table in tables.items():
        table.coalesce(1).write.parquet(str((directory / name).absolute()))


def _say(text: str) -> None:
    """Progress: one line, on stderr, for a person only."""
    if sys.stderr.isatty():
        click.echo(f"flinknet: {text} …", err=True)
