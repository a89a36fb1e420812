"""`flinknet bench run`: measures an exchange between tasks, once or as a sweep."""

from __future__ import annotations

import sys
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from flinknet.errors import RunFailedError, TraceError
from flinknet.units import which_runs

from .bench_find import find_rates, is_search
from .commands import SectionedCommand
from .files import Outputs
from .metrics_port import serve_metrics
from .option_tables import LOAD, WORKERS, options
from .options import collect

if TYPE_CHECKING:
    from .sweep import Executor


@click.command(cls=SectionedCommand)
@options(
    f"""
    {LOAD} {WORKERS}
    --runs --seed --out --trace --json --csv --report --plot --metrics-port
    --details
    --find --find-within
    """,
    is_sweep=True,
)
@click.pass_obj
def run(executor: Executor | None, /, **values: Any) -> int:
    """Measure an exchange; the same as plain `flinknet bench`.

    \b
    flinknet bench run
        how fast one producer and one consumer go over one connection
    flinknet bench run --rate 2k/s --buffer-timeout 0,5ms,100ms,-1
        what waiting for fuller buffers costs in latency
    flinknet bench run --consumers 4 --slow-consumer 3:1ms --rate 4k/s
        how far one slow consumer holds back the others
    flinknet bench run --link rtt=0,1ms,10ms,50ms --floating-buffers 8,64
        how much credit a round trip needs
    flinknet bench run --flink-conf conf/config.yaml \\
        -D taskmanager.memory.segment-size=8kb,32kb
        the settings of a cluster, with two sizes of buffers
    flinknet bench run --partition-type blocking \\
        -D taskmanager.network.compression.codec=NONE,LZ4,ZSTD
        an exchange through files, and what compression does to it
    flinknet bench run --checkpoint-interval 50ms \\
        -D execution.checkpointing.unaligned.enabled=false,true
        how checkpoint barriers travel, aligned and unaligned
    flinknet bench run --rate 2k/s --buffer-timeout 0,5ms --report sweep.html
        the same as a page, with plots
    flinknet bench run --records 100000 --no-trace --json - | jq .runs[0].measured
    flinknet bench run --find 'p99<=20ms' --buffer-timeout 5ms
        the highest rate at which p99 is at most 20 ms

    Producers and consumers run in TaskManager processes on this machine and speak Flink's own
    protocol. With a rate, latency counts from the instant at which a record was due. Uncorrected
    latency counts from the instant at which its producer wrote it.
    """
    from flinknet.report.bench import bench_page, bench_view
    from flinknet.report.console import console_for
    from flinknet.report.export import bench_document, runs_csv, write_json
    from flinknet.report.live import RunsView

    from . import sweep

    plans = sweep.plan_sweep(collect(values), values["seed"])
    if is_search(values):
        return find_rates(plans, executor, values)
    outputs = Outputs.of(values, "csv")
    executor, out, environment = sweep.begin(plans, executor, values, outputs)
    files = outputs.json_files(out and out / "bench.json")
    talk = console_for(sys.stderr)
    port = values["metrics_port"]
    publish = None if port is None else serve_metrics(port, talk)
    finished: list[sweep.Finished] = []
    document: dict[str, Any] = {}
    try:
        with RunsView(talk, publish) as watcher:
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
                settings = sweep.by_plan(plans, finished)
                results_now = [result for setting in settings for result in setting.results]
                document = bench_document(environment, results_now)
                for path in files:
                    write_json(path, document)
    finally:
        # Finished runs are printed even if a later run failed.
        if finished:
            settings = sweep.by_plan(plans, finished)
            is_traced = out is not None and values["trace"]
            replay = f"flinknet trace replay {quote(str(out))}/run-0001*" if is_traced else ""
            shown = bench_view(settings, environment, next_step=replay)
            outputs.write(
                shown,
                document,
                lambda: bench_page(settings, environment, shown),
                csv=lambda: runs_csv(settings),
            )
            where = f"; results: {out}/bench.json" if out else ""
            talk.print(f"seed {values['seed']}{where}", style="dim", soft_wrap=True)
            if replay:
                click.echo(f"next: {replay}", err=True)  # whole, to be pasted
    runs = [run for _, run in finished if not run.result.measured.records]
    empty = [each.number for each in runs if each.number is not None]
    if empty:
        where = f" in {which_runs(empty, len(finished))}" if len(finished) > 1 else ""
        raise RunFailedError(
            f"no record was measured{where}; run for longer (--duration), or give a --rate that the"
            " slowest consumer can take"
        )
    incomplete = [
        warning.text
        for _, run in finished
        for warning in run.result.warnings
        if warning.code == "trace-incomplete"
    ]
    if incomplete:
        raise TraceError(f"measured, but a trace is incomplete: {incomplete[0]}")
    return 0
