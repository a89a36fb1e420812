"""`flinknet trace replay`: prints answers and predictions from recorded runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from json import dumps
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click

from flinknet.errors import ConfigError
from flinknet.options.what_if import DEBLOAT_TARGET, SETTINGS
from flinknet.storage import AnyPath, path_of

from . import replay_options
from .commands import SectionedCommand
from .files import Outputs, check_new_directory, path_of_runs
from .option_tables import REST_FILES, SPARK, options

if TYPE_CHECKING:
    from flinknet.replay.read import RecordedRun
    from flinknet.trace import TraceFile

EXIT_UNMET, EXIT_UNKNOWN = 1, 3


_GRID_OPTIONS = "\n".join(
    f"{'~ ' if each is DEBLOAT_TARGET else ''}--{each.option} LIST\n    {each.help}"
    for each in SETTINGS
)

_OPTIONS = f"""
[Settings to predict]
{_GRID_OPTIONS}
--edge-timeout
--target BOUND ...
    Limit to meet, such as p99<=20ms or throughput>=100k/s. Prints the longest timeout and the
    cheapest buffers that meet it, and the keys for Flink's config.yaml; for a job of several
    exchanges also timeouts task by task, unless --buffer-timeout lists some. May be repeated.
[Part of the recording]
--from OFFSET
    Start of the part of each trace to use, such as 30s, counted from its first data buffer (in
    flinknet's own runs, from the measured part). [default: the whole trace; for a tap or a capture,
    all but the start-up of the job]
--to OFFSET
    End of that part, such as 2min. Predictions from a part that is not 20 times as long as the
    recorded buffer timeout are called poor.
~ --max-records N|all
    Records of each run to simulate for each setting, from the start of the part used. [default: all
    if that takes seconds, else windows spread over the part; where each message must be simulated,
    500000; for a tap or a capture, 20000; at the highest rate, 6000000]
~ --channel LIST
    Channels to show, such as 0,3. [default: slowest]
~ --recordings = auto
    Which recordings of taps and captures form one run. auto: those of the same execution of a job
    or with channels in common, by the ids in their messages; one: all of them; each: none. Every
    run of flinknet itself is separate.
~ --on-damage = stop
    What to do about damaged blocks, unreadable files and recordings that cannot be used. skip:
    every byte is checked first, what is damaged is left out, and the first lines of the answer
    report what was lost.
[Output]
--diagnose
    Show what holds each edge up, with its share.
--details, --edges (details)
    Show all that is known of each edge: channels, messages, assumptions, all figures.
--json --csv
--report FILE
    Write the answer as an HTML page that works without a network.
--plot
~ --out DIR
    Write each table as Parquet into this new directory.
~ --rest URL|DIR
    Where the names of vertices and tasks come from, for a tap or a capture: the REST API of the
    JobManager while the job runs, or a directory that `flinknet plan --rest URL --rest-save DIR`
    has made. [default: the names in the trace]
~ {REST_FILES}
[Spark]
~ {SPARK}
[Large runs]
~ --split N|auto = auto
    Number of slices of time that each run is cut into, so that several cores share one busy
    exchange; auto: depends on its size. Observed figures do not depend on it.
"""


@click.command(cls=SectionedCommand)
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=path_of_runs)
@options(
    _OPTIONS,
    is_sweep=True,
    recordings=click.Choice(["auto", "one", "each"]),
    on_damage=click.Choice(["stop", "skip"]),
)
def replay(traces: tuple[AnyPath, ...], **values: Any) -> None:
    """Show what happened in recorded runs, and predict what other settings would do.

    \b
    flinknet trace replay RUN
        what happened, and what other buffer timeouts would do
    flinknet trace replay RUN --buffer-timeout 1ms,10ms --floating-buffers 2,8,32
        six settings, and the recorded one
    flinknet trace replay RUN --target 'p99<=20ms' --floating-buffers 2,4,8
        the longest timeout and the fewest buffers that meet it, as keys to paste
    flinknet trace replay RUN --report out.html
        the same as a page, with plots
    flinknet trace replay RUN --rate-factor 1,2,4 --consumer-speed 0.5,1
        2 or 4 times as many records a second, and consumers at half their speed
    flinknet trace replay tapped/host-*
        one job, recorded by taps on several hosts

    TRACE is a run directory or a directory of run directories. Only the measured part of a run
    counts. Several lists make a grid of all combinations. The answer states the model's error on
    the recorded setting: expect the predictions to be at least that far off.

    Exits with 1 if no setting meets a --target or none can be recommended (at one of the given
    rates, consumer speeds, round trips and flow controls), and with 3 if that is unknown.
    \f

    \b
    flinknet trace replay RUN --round-trip 0,1ms,10ms
        the same run between TaskManagers that are further apart
    flinknet trace replay RUN --alignment aligned,unaligned,30ms \\
        --checkpoint-interval 1s,10s
        how long barriers travel and channels wait, and what is overtaken
    flinknet trace replay RUN --edge-timeout 'Enrich=5ms' \\
        --edge-timeout '1=5ms,2=100ms'
        a job of several exchanges from end to end, with other timeouts on some
    flinknet trace replay RUN --diagnose
        what holds each edge up
    flinknet trace replay RUN --max-records all --master spark://host:7077
        every record of a large run, on a Spark cluster
    flinknet trace replay s3://bucket/runs --remote sc://host:15002 \\
        --json s3://bucket/answer.json
        runs in an object store, by Spark Connect

    Recordings of one job by taps on several hosts are one run. TRACE, --json, --report and --out
    may be in an object store or in HDFS: s3://, s3a://, gs://, abfss://, hdfs://.

    The JSON for one run is one object. For several runs, or for the edges of a job, it is
    {"schema_version": 2, "replays": [...]}, with "jobs" next to "replays" for jobs from end to end.
    """
    from flinknet.replay.advise.targets import Target
    from flinknet.replay.spark.settings import OF_REPLAYS, WORK_UNITS_MAX

    from . import value_parsers

    channel = values["channel"]
    targets = [Target.parse(text) for text in values["target"]]
    edge_timeouts = [replay_options.edge_timeouts_of(text) for text in values["edge_timeout"]]
    most_records = replay_options.number_or("--max-records", values["max_records"], "all")
    parts = replay_options.number_or("--split", values["split"], "auto")
    if parts is not None and parts > WORK_UNITS_MAX:
        raise ConfigError(f"--split: {parts} are too many; at most {WORK_UNITS_MAX}")
    offsets = [replay_options.offset(f"--{end}", values[end]) for end in ("from", "to")]
    is_fine = bool(targets) and values["buffer_timeout"] is None
    grid = replay_options.grid_of(values, is_fine=is_fine)
    channels = value_parsers.channels(channel) if channel else None
    outputs = Outputs.of(values, "csv")
    outputs = replace(outputs, has_details=outputs.has_details or channels is not None)
    out_dir = path_of(values["out"]) if values["out"] else None
    if out_dir is not None:
        check_new_directory(out_dir)
        out_dir.mkdir(parents=True, exist_ok=True)
    known = replay_options.setting_warnings(values)
    if any(warnings for _, warnings in known):
        from .sweep import say_first  # half a second of imports

        say_first(known, is_stdout_taken=outputs.takes_stdout)

    session = replace(replay_options.session_options(values), defaults=OF_REPLAYS)
    with replay_options.loading_spark(session, _say) as spark:  # its JVM loads while Python does
        from flinknet.replay.advise.advice import all_meet
        from flinknet.replay.joining import Together
        from flinknet.replay.opening import FileReads, OnDamage
        from flinknet.replay.pipeline import replay_runs
        from flinknet.replay.read import AskedPart, open_runs
        from flinknet.replay.spark.frames import write_tables
        from flinknet.replay.spark.units import find_damaged, read_indexes, reporting_progress
        from flinknet.report.export import csv_text, replay_document, replay_rows
        from flinknet.report.replay import replay_page

        def find_damage(files: Sequence[TraceFile]) -> Sequence[Sequence[int]]:
            executors = spark()
            _say("looking for damage")
            return find_damaged(executors, files)

        runs = open_runs(
            list(traces),
            AskedPart(*offsets),
            replay_options.naming(values),
            together=Together(values["recordings"]),
            on_damage=OnDamage(values["on_damage"]),
            reads=FileReads(partial(read_indexes, spark), find_damage),
        )
        _check_channels(channels, runs)
        with reporting_progress(spark(), partial(_say, off_terminal_too=True)) as begin:

            def say_step(step: str) -> None:
                begin(step)
                _say(step)

            found = replay_runs(
                spark(),
                runs,
                grid,
                max_records=most_records,
                split=parts,
                details=outputs.page is not None,
                targets=targets,
                refine=is_fine,
                edge_timeouts=edge_timeouts,
                channels=channels or (),
                on_progress=say_step,
                on_verdict=_say_verdict,
            )
        if out_dir is not None:
            _say(f"writing Parquet to {out_dir}")
            write_tables(found.tables(), out_dir)
    shown = replay_page(found.jobs, channels, diagnose=values["diagnose"])
    outputs.write(
        shown,
        None,
        lambda: shown,
        json=lambda: dumps(replay_document(found.jobs), indent=1) + "\n",
        csv=lambda: csv_text(replay_rows(found.jobs)),
    )
    replay_options.prepare_faster_starts(session)
    if targets and (is_met := all_meet(found.jobs)) is not True:
        sys.exit(EXIT_UNKNOWN if is_met is None else EXIT_UNMET)


def _check_channels(channels: Sequence[int] | None, runs: Sequence[RecordedRun]) -> None:
    """Check channels. Raises: ConfigError for a channel that no run has."""
    known = {each.index for run in runs for each in run.manifest.channels}
    unknown = [each for each in channels or () if each not in known]
    if unknown:
        raise ConfigError(
            f"--channel: {unknown[0]} is not in the trace; its channels are 0 to {max(known)}"
        )


def _say(text: str, *, off_terminal_too: bool = False) -> None:
    """Print a line of progress on stderr, only on a terminal unless `off_terminal_too`."""
    if off_terminal_too or sys.stderr.isatty():
        click.echo(f"flinknet: {text} …", err=True)


def _say_verdict(text: str) -> None:
    """Print a verdict on stderr, in lines as wide as those of an answer."""
    from flinknet.report.console import console_for
    from flinknet.report.page_parts import WIDTH

    begin = "flinknet: "
    width = min(console_for(sys.stderr).width, WIDTH)
    click.echo(fill(begin + text, width, subsequent_indent=" " * len(begin)), err=True)
