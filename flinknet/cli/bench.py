"""`flinknet bench`: measure an exchange between tasks, once or as a sweep."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from flinknet.errors import ConfigError, RunFailedError, TraceError

from .job_run import check_without_job
from .options import collect, load_options, output_options
from .paths import existing_path
from .peer import is_peer, peer_options, run_peer
from .sections import SectionedCommand

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .sweep import Executor, Finished, Plan

_EPILOG = """\b
Examples:
  flinknet bench
      how fast one producer and one consumer go over one connection
  flinknet bench --rate 2k/s --buffer-timeout 0,5ms,100ms,-1
      what waiting for fuller buffers costs in latency
  flinknet bench --producers 2 --consumers 4 --slow-consumer 3:1ms --rate 4k/s --record-size 1kb
      how far one slow consumer holds back the others
  flinknet bench --flink-conf conf/config.yaml -D taskmanager.memory.segment-size=8kb,32kb
      the settings of a cluster, with two sizes of buffers
  flinknet bench --partition-type blocking -D taskmanager.network.compression.codec=NONE,LZ4,ZSTD
      an exchange that is written to files before it is read, and what compression does to it
  flinknet bench --checkpoint-interval 50ms -D execution.checkpointing.unaligned.enabled=false,true
      how checkpoint barriers travel, aligned and unaligned
  flinknet bench --demo head-of-line
      one paused consumer and its neighbour on the same connection, without credit and with it
  flinknet bench --from-trace runs/run-0001 --buffer-timeout 0,5ms,50ms
      the recorded arrivals under other timeouts: predicted against measured
  flinknet bench --as-consumer-of taskmanager-1:34567 --partition 5ca1…#0@9d2e…_bc76…_0_0
      read what a TaskManager of a real Flink produces, and see its credit and backlog
  flinknet bench --job bench/jobs/shuffle.py --task-managers 2 --slots 2
      a program of your own, on a JobManager and TaskManagers
  flinknet bench --flink-conf conf/config.yaml --print-config
      what holds for every key, and where it comes from
  flinknet bench --records 1000000 --no-trace --json - | jq .runs[0].measured

A comma list for any network key, by option or by -D, makes a sweep. Durations (5ms, 3s) and sizes
(100b, 32kb) are spelled as in Flink. With a rate, latency counts from the instant at which a record
was meant to leave; the uncorrected figure, which forgets the records that had to wait, stands
beside it.
"""


@click.command(cls=SectionedCommand, epilog=_EPILOG)
@load_options
@output_options
@click.option("--runs", type=click.IntRange(1), default=1, help="Runs of each setting, in turns.")
@click.option(
    "--trace/--no-trace", default=True, help="Record every message, for `trace`. [default: trace]"
)
@click.option(
    "--demo",
    type=click.Choice(["head-of-line"]),
    help="Show one thing: head-of-line, what a paused consumer does to its neighbour on the same"
    " connection, without credit and with it. Records no trace, unless --out is given.",
)
@click.option(
    "--from-trace",
    metavar="RUN",
    type=existing_path,
    help="Send the records of a recorded run once more, at the same instants, under the settings"
    " given beside it, and show what the model had predicted from the trace next to it. With"
    " --duration only the first of them; at the highest rate, new ones for so long.",
)
@peer_options
@click.option(
    "--job",
    metavar="FILE",
    help="Run the job of a program, a Python file with main(env), on a JobManager and TaskManagers"
    " of its own, which are processes; ARGUMENTS after -- are main's. See also `flinknet plan`.",
)
@click.option(
    "--slots",
    type=click.IntRange(1),
    metavar="N",
    help="Slots of each TaskManager. [default: taskmanager.numberOfTaskSlots]",
)
@click.option(
    "--detached",
    is_flag=True,
    help="Submit the job, tell how to look at it and how to end it, and do not wait for it.",
)
@click.argument("arguments", nargs=-1)
@click.option(
    "--print-config",
    is_flag=True,
    help="Tell the effective value of every key and where it comes from, and run nothing.",
)
@click.option(
    "--print-channels",
    is_flag=True,
    help="Tell which task runs where and which channels are local or share a connection, and run"
    " nothing.",
)
@click.pass_obj
def bench(executor: Executor | None, /, **values: Any) -> int | None:
    """Measure an exchange between tasks over real sockets.

    Producers and consumers run in TaskManager processes on this machine and speak Flink's own
    protocol: throughput, latency, backlog, credit, and what limited the run.
    """
    from flinknet.report.console import console_for, print_bench
    from flinknet.report.export import dump, write_json
    from flinknet.report.live import view

    from . import sweep

    apart = [each for each in ("demo", "print_config", "print_channels") if values[each]]
    if len(apart) > 1:
        first, second = (f"--{each.replace('_', '-')}" for each in apart[:2])
        raise ConfigError(f"{first} and {second} do not go together; give one of them")
    if values["job"] is not None:
        from .job_run import run_job

        if is_peer(values):
            raise ConfigError("--job does not go with a peer that is not flinknet's")
        return run_job(values)
    check_without_job(values)
    if is_peer(values):
        if apart or values["from_trace"] is not None:
            other = apart[0].replace("_", "-") if apart else "from-trace"
            raise ConfigError(f"--{other} does not go with a peer that is not flinknet's")
        run_peer(values)
        return None
    if values["demo"] is not None:
        from .demo import run_demo

        run_demo(values, executor)
        return None
    if values["from_trace"] is not None:
        from .from_trace import run_from_trace

        run_from_trace(values, executor)
        return None
    settings = collect(values)
    plans = sweep.plan_sweep(settings, values["seed"])
    if values["print_config"]:
        from .print_config import print_config

        print_config(settings, plans, values["json"])
        return None
    if values["print_channels"]:
        from .print_channels import print_channels

        print_channels(plans, values["json"])
        return None
    json_file = sweep.json_file(values["json"])
    out = sweep.out_directory(values["out"], trace=values["trace"])
    files = [path for path in (json_file, out / "bench.json" if out else None) if path]
    executor = executor or sweep.default_executor()
    environment = executor.environment()
    talk = console_for(sys.stderr)
    finished: list[sweep.Finished] = []
    document: dict[str, Any] = {}
    try:
        with view(talk) as watcher:
            for each in sweep.run_all(
                plans,
                executor,
                rounds=values["runs"],
                seed=values["seed"],
                trace=values["trace"],
                out=out,
                watcher=watcher,
            ):
                finished.append(each)
                document = _document(environment, plans, finished)
                for path in files:
                    write_json(path, document)
    finally:
        # What has been measured is told even if a later run failed.
        if finished:
            if values["json"] == "-":
                click.echo(dump(document), nl=False)
            else:
                print_bench(console_for(sys.stdout), sweep.by_plan(plans, finished))
            talk.print(f"seed {values['seed']}", style="dim")
            if out is not None:
                _tell_places(out, is_traced=values["trace"])
    _check_measured(finished)
    incomplete = [
        warning.text
        for each in finished
        for warning in each.result.warnings
        if warning.code == "trace-incomplete"
    ]
    if incomplete:
        raise TraceError(f"measured, but a trace is incomplete: {incomplete[0]}")
    return None


def _document(
    environment: dict[str, Any], plans: Sequence[Plan], finished: Sequence[Finished]
) -> dict[str, Any]:
    from flinknet.report.export import bench_document

    from .sweep import by_plan

    settings = by_plan(plans, finished)
    return bench_document(environment, [r for setting in settings for r in setting.results])


def _check_measured(finished: Sequence[Finished]) -> None:
    """Raises: RunFailedError if nothing was measured in some run."""
    empty = sum(not each.result.measured.records for each in finished)
    if empty:
        where = f" in {empty} of {len(finished)} runs" if len(finished) > 1 else ""
        raise RunFailedError(
            f"no record was measured{where}; run for longer (--duration), or give a --rate that the"
            " slowest consumer can take"
        )


def _tell_places(out: Path, *, is_traced: bool) -> None:
    click.echo(f"results: {out}/bench.json, and result.json in each run directory", err=True)
    if is_traced:
        click.echo(f"traces:  {out}/run-*; next: flinknet trace replay {out}/run-0001*", err=True)
