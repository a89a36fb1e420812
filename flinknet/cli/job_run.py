"""`flinknet job run`: runs a program on a new cluster or on a running one."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TextIO

import click

from flinknet.config import WorkloadConfig
from flinknet.errors import ConfigError, RunFailedError
from flinknet.starting import EXIT_INTERRUPTED

from .commands import SectionedCommand
from .files import Outputs, say_warnings
from .option_tables import DEFAULT_DURATION_NS, KEYS, NETWORK, options
from .options import check_single_values, collect, workload_values
from .plan import warn_of_idle_parallelism
from .value_parsers import refuse
from .worker import workers_of

if TYPE_CHECKING:
    from flinknet.results import ClusterStatus
    from flinknet.runtime.cluster.cluster_process import JobManagerSpec
    from flinknet.runtime.cluster.control_messages import JobEnded, SubmitJob
    from flinknet.runtime.cluster.job_files import Contact


@dataclass(frozen=True, slots=True)
class JobCall:
    """A job, as the command line describes it.

    Attributes:
        submission: the job, still without a directory.
        spec: a new cluster, still without a directory.
        cluster: the cluster to join instead.
        vertices: names of its tasks, and how many subtasks each has.
    """

    submission: SubmitJob
    spec: JobManagerSpec
    cluster: Contact | None
    vertices: list[tuple[str, int]]

    def into(self, out: Path) -> tuple[Contact | JobManagerSpec, SubmitJob]:
        """The cluster and the submission of a job whose output goes to a directory."""
        run_dir = str(out.absolute())
        place = self.cluster or replace(self.spec, run_dir=run_dir)
        return place, replace(self.submission, run_dir=run_dir)


@click.command(cls=SectionedCommand)
@click.argument("file", metavar="FILE")
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS...]")
@options(
    f"""
    --duration --warmup
    --task-managers [default: as many as the job needs]
    --slots --cluster --workers --secret-file {NETWORK} {KEYS}
    --seed --out --trace --detached --json --report --details
    --start-condition
    """
)
def run(**values: Any) -> int:
    """Run the job of a program on a JobManager and TaskManagers of its own.

    \b
    flinknet job run bench/jobs/shuffle.py --task-managers 2 --slots 2
        four parallel tasks at each end of a shuffle, on two TaskManagers
    flinknet job run bench/jobs/slow_last_stage.py --duration 1s -- 500us
        what follows -- goes to the program: here, how long its last stage takes
    flinknet job run bench/jobs/shuffle.py --cluster flinknet-runs/session
        on a cluster that is already running

    FILE is a Python file that defines main(env), which gets ARGUMENTS after the environment.
    Generated sources end after --duration. `flinknet plan FILE` shows what would run where.

    With --cluster, the job gets free slots of a running cluster: one that `flinknet job
    cluster start` has started, or that of a --detached job. It waits for slots for at most
    slot.request.timeout. TaskManagers, slots and keys such as taskmanager.* are the cluster's.
    While FILE is imported and main(env) runs, the other jobs of the cluster pause. If FILE imports
    modules from its own directory, do so at the top of FILE: a function that imports one later may
    get a module of the same name from another job.
    """
    from . import sweep

    if values["detached"]:
        refuse(values, ("json", "report"), ": a detached job has no result yet; leave it out")
    outputs = Outputs.of(values)
    call = call_of(values)
    out = sweep.out_directory(values["out"], trace=True)
    assert out is not None
    if values["detached"]:
        _detach(call, out)
        return 0
    return _attend(call, out, outputs)


def call_of(values: Mapping[str, Any], recorded: Mapping[str, str] | None = None) -> JobCall:
    """The job of a command line.

    Args:
        recorded: Flink's keys, which those of the command line override.

    Raises: ConfigError if it cannot run.
    """
    from flinknet.graph import execution_graph_of, job_graph_of, load_program, physical_plan_of
    from flinknet.graph.job_config import START_CONDITION
    from flinknet.graph.program import read_source
    from flinknet.runtime.cluster.client import new_token
    from flinknet.runtime.cluster.cluster_process import JobManagerSpec
    from flinknet.runtime.cluster.control_messages import SubmitJob
    from flinknet.runtime.cluster.job_files import joined_settings

    settings = collect(values)
    network = {**(recorded or {}), **settings.of_job}
    contact = cluster = None
    if values["cluster"] is not None:
        contact, cluster = _cluster_in(values["cluster"])
        network = joined_settings(cluster.settings, network)
        own = ("task_managers", "slots", "workers")
        refuse(values, own, ": the cluster has its own; leave it out")
    workload = workload_values(settings.workload)
    check_single_values(settings, "a job")
    if values["start_condition"] is not None:
        network[START_CONDITION] = values["start_condition"]
    path = Path(values["file"])
    source = read_source(path)
    with redirect_stdout(sys.stderr):  # keep the program's output apart from the result
        program = load_program(path, network, values["arguments"], source=source)
    say_warnings((*settings.warnings, *program.warnings))
    warn_of_idle_parallelism(program.stream_graph, settings.network)
    graph = execution_graph_of(job_graph_of(program.stream_graph))
    slots = values["slots"] or graph.job.config.task_slots
    task_managers = workload.get("task-managers")
    if cluster is not None:
        slots, task_managers = cluster.slots_each, len(cluster.task_managers)
    needed = physical_plan_of(graph, slots_per_task_manager=slots)
    task_managers = task_managers or needed.task_managers
    if task_managers >= needed.task_managers:
        plan = physical_plan_of(graph, task_managers=task_managers, slots_per_task_manager=slots)
        if shortage := plan.shortage():
            raise ConfigError(shortage)
    workers = workers_of(values, graph.job.config.network)
    duration_ns = workload.get("duration")
    if duration_ns is None and not values["detached"]:
        duration_ns = DEFAULT_DURATION_NS
    submission = SubmitJob(
        str(path.absolute()),
        source,
        tuple(values["arguments"]),
        dict(network),
        not values["detached"],
        duration_ns,
        workload.get("warmup", WorkloadConfig().warmup_ns),
        values["seed"],
        records_trace=values["trace"],
    )
    spec = JobManagerSpec(new_token(), "", task_managers, slots, dict(network), workers=workers)
    vertices = [(each.name, each.parallelism) for each in graph.vertices.values()]
    return JobCall(submission, spec, contact, vertices)


def _cluster_in(directory: Path) -> tuple[Contact, ClusterStatus]:
    """Contact and status of the cluster that runs in a directory. Raises: ConfigError."""
    from flinknet.runtime.cluster.client import JobClient

    contact = contact_in(directory, "cluster", "cluster start")
    with JobClient(contact) as client:
        return contact, client.cluster()


def contact_in(directory: Path, what: str, command: str) -> Contact:
    """The contact of the job or cluster in a directory, which a command of `flinknet job` printed.
    Raises: ConfigError if none is running there.
    """
    from flinknet.runtime.cluster.job_files import Contact

    contact = Contact.load(directory)
    if contact is None:
        raise ConfigError(
            f"{directory}: no {what} is running there; give the directory that `flinknet job"
            f" {command}` printed"
        )
    return contact


def _attend(call: JobCall, out: Path, outputs: Outputs) -> int:
    """Run a job, print its result and wait for its end. Returns: the exit code."""
    from flinknet.report.job import job_view
    from flinknet.report.page_parts import Page

    ended, result = attend(call, out, sys.stderr if outputs.takes_stdout else sys.stdout)
    is_traced = call.submission.records_trace and result["vertices"]
    replay = f"flinknet trace replay {quote(str(out))}" if is_traced else ""
    view = job_view(result, replay)
    outputs.write(view, result, lambda: Page("job run", [view]))
    click.echo(f"results: {out}/result.json", err=True)
    if replay and outputs.takes_stdout:  # the view, which ends with it, was not printed
        click.echo(f"next: {replay}", err=True)
    if ended.exit_code == EXIT_INTERRUPTED:
        return EXIT_INTERRUPTED
    if ended.exit_code:
        raise RunFailedError(ended.reason)
    return 0


def attend(call: JobCall, out: Path, stream: TextIO) -> tuple[JobEnded, dict[str, Any]]:
    """Run a job, follow it, and wait for its end.

    Args:
        stream: receives what its tasks print.

    Returns: how it ended, and its result.
    Raises: ConfigError if the cluster refuses it, RunFailedError if it has no result.
    """
    from flinknet.report.console import console_for
    from flinknet.report.job import JobView
    from flinknet.runtime.cluster.client import run_job
    from flinknet.runtime.cluster.job_files import PrintedLines

    place, submission = call.into(out)
    again = "leaves it" if call.cluster is not None else "ends it now"

    def waits(text: str) -> None:
        click.echo(f"flinknet: the canceled job {text}; Ctrl-C again {again}", err=True)

    printed = PrintedLines(out, call.spec.task_managers)
    with JobView(console_for(sys.stderr)) as view:

        def watch(status: Any) -> None:
            for line in printed.new_lines():
                click.echo(line, file=stream)
            view.update(status)

        ended = run_job(place, submission, watch=watch, waits=waits)
        for line in printed.new_lines():
            click.echo(line, file=stream)
    if ended.exit_code == ConfigError.exit_code:
        raise ConfigError(ended.reason)
    try:
        return ended, json.loads((out / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise RunFailedError(f"the job has no result: {ended.reason}") from None


def _detach(call: JobCall, out: Path) -> None:
    from flinknet.runtime.cluster.client import submit_job

    job = submit_job(*call.into(out))
    if job.job_manager is not None:
        where = f"is running; JobManager pid {job.job_manager.pid}"
    elif call.cluster is not None:
        where = f"has joined the cluster of {call.cluster.cluster_dir}"
    click.echo(f"job {job.job_id} ({job.name}) {where}")
    click.echo(f"directory: {out}")
    click.echo(f"look at it: flinknet job status {quote(str(out))}")
    click.echo(f"end it:     flinknet job cancel {quote(str(out))}")
