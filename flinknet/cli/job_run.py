"""`flinknet job run`: run a program on a cluster of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flinknet import options as flink
from flinknet.errors import ConfigError, RunFailedError
from flinknet.starting import EXIT_INTERRUPTED

from .commands import SectionedCommand
from .option_tables import DEFAULT_DURATION_NS, WORKLOAD_OPTIONS
from .options import collect, load_options, output_options, trace_option
from .plan import warn_of_idle_parallelism

if TYPE_CHECKING:
    from flinknet.runtime.cluster.child import JobManagerSpec
    from flinknet.runtime.cluster.control_messages import SubmitJob

JOB_OPTIONS = ("duration", "warmup", "task-managers")
"""Options of a workload that mean something for a job."""

DEFAULT_WARMUP_NS = 500_000_000


@dataclass(frozen=True, slots=True)
class JobCall:
    """What the command line says of a job.

    `duration_ns` None: generated sources make records without end.
    """

    path: Path
    source: str
    arguments: tuple[str, ...]
    settings: Mapping[str, str]
    task_managers: int
    slots: int
    duration_ns: int | None
    warmup_ns: int
    seed: int
    records_trace: bool


@click.command(cls=SectionedCommand)
@click.argument("file", metavar="FILE")
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS...]")
@click.option(
    "--slots",
    type=click.IntRange(1),
    metavar="N",
    help="Slots of each TaskManager. [default: taskmanager.numberOfTaskSlots]",
)
@click.option(
    "--detached",
    is_flag=True,
    help="Submit the job, print how to look at it and how to end it, and do not wait for it.",
)
@click.option(
    "--start-condition",
    type=click.Choice(("all", "any")),
    help="Which of its blocking inputs a task waits for: all of them, or any one; what the program"
    " sets wins. [default: all]",
)
@load_options(JOB_OPTIONS, defaults={"task-managers": "as many as the job needs"})
@output_options
@trace_option
def run(**values: Any) -> int:
    """Run the job of a program on a JobManager and TaskManagers of its own.

    \b
    flinknet job run bench/jobs/shuffle.py --task-managers 2 --slots 2
    flinknet job run bench/jobs/slow_last_stage.py --duration 1s -- 500us
    flinknet job run bench/jobs/slow_last_stage.py -D metrics.latency.interval=50ms

    FILE is a Python file with main(env); ARGUMENTS are main's. Generated sources end after
    --duration. With metrics.latency.interval they emit latency markers, and what these tell is
    printed next to how old the records were. `flinknet plan FILE` shows what would run where.
    """
    from . import sweep

    if values["detached"] and values["json"] is not None:
        raise ConfigError("--json: a detached job has no result yet; leave it out")
    call = _call(values)
    json_file = sweep.json_file(values["json"])
    out = sweep.out_directory(values["out"], trace=True)
    assert out is not None
    if values["detached"]:
        _detach(call, out)
        return 0
    return _attend(call, out, json_file, is_json_on_stdout=values["json"] == "-")


def _call(values: Mapping[str, Any]) -> JobCall:
    from flinknet.graph import execution_graph_of, job_graph_of, load_program, physical_plan_of
    from flinknet.graph.job_config import START_CONDITION
    from flinknet.graph.program import read_source

    settings = collect(values)
    workload = {name: WORKLOAD_OPTIONS[name].parse(t) for name, t in settings.workload.items()}
    if swept := flink.swept_keys(settings.network):
        raise ConfigError(f"{swept[0]} has several values; a job has one of each")
    keys = dict(settings.network)
    if values["start_condition"] is not None:
        keys[START_CONDITION] = values["start_condition"]
    path = Path(values["file"])
    source = read_source(path)
    with redirect_stdout(sys.stderr):  # what the program prints is no result
        program = load_program(path, keys, values["arguments"], source=source)
    for warning in (*settings.warnings, *program.warnings):
        click.echo(f"flinknet: {warning.text}", err=True)
    warn_of_idle_parallelism(program.stream_graph, settings.network)
    graph = execution_graph_of(job_graph_of(program.stream_graph))
    slots = values["slots"] or graph.job.config.task_slots
    needed = physical_plan_of(graph, slots_per_task_manager=slots)
    task_managers = workload.get("task-managers") or needed.task_managers
    if task_managers >= needed.task_managers:
        plan = physical_plan_of(graph, task_managers=task_managers, slots_per_task_manager=slots)
        if shortage := plan.shortage():
            raise ConfigError(shortage)
    duration_ns = workload.get("duration")
    if duration_ns is None and not values["detached"]:
        duration_ns = DEFAULT_DURATION_NS
    return JobCall(
        path.absolute(),
        source,
        tuple(values["arguments"]),
        keys,
        task_managers,
        slots,
        duration_ns,
        workload.get("warmup", DEFAULT_WARMUP_NS),
        values["seed"],
        values["trace"],
    )


def _cluster(call: JobCall, out: Path, *, is_attached: bool) -> tuple[JobManagerSpec, SubmitJob]:
    from flinknet.runtime.cluster.child import JobManagerSpec
    from flinknet.runtime.cluster.client import new_token
    from flinknet.runtime.cluster.control_messages import SubmitJob

    settings = dict(call.settings)
    spec = JobManagerSpec(
        new_token(),
        str(out.absolute()),
        call.task_managers,
        call.slots,
        settings,
        call.records_trace,
    )
    submission = SubmitJob(
        str(call.path),
        call.source,
        call.arguments,
        settings,
        is_attached,
        call.duration_ns,
        call.warmup_ns,
        call.seed,
    )
    return spec, submission


def _attend(call: JobCall, out: Path, json_file: Path | None, *, is_json_on_stdout: bool) -> int:
    """Run a job and stay until it has ended."""
    from flinknet.report.console import console_for
    from flinknet.report.export import dump, write_json
    from flinknet.report.job_console import JobView, print_job
    from flinknet.runtime.cluster.client import run_attached
    from flinknet.runtime.cluster.printed_lines import PrintedLines

    spec, submission = _cluster(call, out, is_attached=True)
    printed = PrintedLines(out, call.task_managers)
    stream = sys.stderr if is_json_on_stdout else sys.stdout
    with JobView(console_for(sys.stderr)) as view:

        def watch(status: Any) -> None:
            for line in printed.new_lines():
                click.echo(line, file=stream)
            view.update(status)

        ended = run_attached(spec, submission, accepted=lambda _: None, watch=watch)
        for line in printed.new_lines():
            click.echo(line, file=stream)
    if ended.exit_code == ConfigError.exit_code:
        raise ConfigError(ended.reason)
    try:
        result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise RunFailedError(f"the job has no result: {ended.reason}") from None
    if json_file is not None:
        write_json(json_file, result)
    if is_json_on_stdout:
        click.echo(dump(result), nl=False)
    else:
        print_job(console_for(sys.stdout), result)
    click.echo(f"results: {out}/result.json", err=True)
    if call.records_trace and result["vertices"]:
        click.echo(f"trace:   {out}; next: flinknet trace info {out}", err=True)
    if ended.exit_code == EXIT_INTERRUPTED:
        return EXIT_INTERRUPTED
    if ended.exit_code:
        raise RunFailedError(ended.reason)
    return 0


def _detach(call: JobCall, out: Path) -> None:
    """Submit a job and leave it to itself."""
    from flinknet.runtime.cluster.client import submit_detached

    spec, submission = _cluster(call, out, is_attached=False)
    job = submit_detached(spec, submission)
    click.echo(f"job {job.job_id} ({job.name}) runs; JobManager pid {job.job_manager.pid}")
    click.echo(f"directory: {out}")
    click.echo(f"look at it: flinknet job status {out}")
    click.echo(f"end it:     flinknet job cancel {out}")
