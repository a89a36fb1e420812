"""`flinknet job`: runs jobs, shows running ones, and cancels them; starts and stops clusters. A job
that `job run` recorded runs again, with other buffer timeouts, for `bench again`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from flinknet.errors import ConfigError, RunFailedError, TransportError
from flinknet.options.what_if import TIMEOUT
from flinknet.units import counted, format_duration_ns

from .commands import CommandGroup, SectionedCommand
from .files import STDOUT, put_json, say_warnings, show
from .job_run import attend, call_of, contact_in, run
from .option_tables import KEYS, NETWORK, options
from .options import check_single_values, collect, workload_values
from .replay_options import edge_timeouts_of
from .value_parsers import refuse
from .worker import workers_of

if TYPE_CHECKING:
    from flinknet.replay.read import RecordedRun
    from flinknet.replay.rerun import PredictedTimeouts

    from .job_run import JobCall

RUNS = Path("flinknet-runs")
DEFAULT_TASK_MANAGERS = 2


@click.group(cls=CommandGroup)
def job() -> None:
    """Run jobs, show those that are running, and cancel them.

    \b
    flinknet job run bench/jobs/shuffle.py --task-managers 2 --slots 2
    flinknet job list              which jobs are running, and their directories
    """


job.add_command(run)


@job.command("list")
@click.argument("directory", type=click.Path(path_type=Path), default=RUNS)
def list_jobs(directory: Path) -> None:
    """List the jobs and clusters that run in or below DIRECTORY (default: flinknet-runs).

    \b
    flinknet job list
    """
    from flinknet.runtime.cluster.client import JobClient
    from flinknet.runtime.cluster.job_files import CONTACT_NAME, Contact

    if directory != RUNS and not directory.is_dir():
        raise ConfigError(f"{directory}: there is no such directory")
    places = (directory, *sorted(directory.glob("*/")))
    is_any_running = False
    for run_dir in (each for each in places if (each / CONTACT_NAME).exists()):
        contact = Contact.load(run_dir)
        if contact is None:
            continue
        try:
            with JobClient(contact) as client:
                if contact.job_id:
                    state = client.status().state
                else:
                    state, count = "CLUSTER", len(client.cluster().jobs)
                    contact = replace(contact, name=f"({count} job{'s' * (count != 1)})")
        except TransportError:
            state = "LOST"
        is_any_running = True
        click.echo(f"{contact.job_id or '-' * 16}  {state:<10}  {contact.name}  {run_dir}")
    if not is_any_running:
        hint = "; for jobs with --out DIR: flinknet job list DIR" if directory == RUNS else ""
        click.echo(f"no job is running in {directory}{hint}", err=True)


@job.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--graph",
    type=click.Choice(("json",)),
    help="Print the running tasks instead, with their partitions, gates and channels.",
)
def status(directory: Path, graph: str | None) -> None:
    """Show the job in DIRECTORY: while it runs, its vertices, TaskManagers and TCP connections, and
    the jobs that share these; after its end, its result. For a cluster, show its jobs.

    \b
    flinknet job run FILE --detached
        prints the directory DIR
    flinknet job status DIR
    """
    from flinknet.report.job import cluster_view, job_view, status_view
    from flinknet.runtime.cluster.client import JobClient
    from flinknet.runtime.cluster.job_files import Contact
    from flinknet.trace.manifest import MANIFEST_NAME, RESULT_NAME, RunManifest
    from flinknet.trace.run import check_file

    contact = Contact.load(directory)
    if contact is not None:
        if graph is not None and not contact.job_id:
            raise ConfigError(f"{directory}: --graph: that is a cluster; give a job's directory")
        with JobClient(contact) as client:
            if not contact.job_id:
                show(cluster_view(client.cluster()))
            elif graph is None:
                show(status_view(client.status()))
            else:
                put_json(STDOUT, asdict(client.dump()))
        return
    if graph is not None:
        raise ConfigError(f"{directory}: --graph: no job is running there")
    if (directory / MANIFEST_NAME).is_file():
        check_file(directory, RunManifest.load(directory), RESULT_NAME)
    try:
        result = json.loads((directory / RESULT_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise ConfigError(
            f"{directory}: no job is running there, and there is no result of one; give the"
            " directory that `flinknet job run … --detached` printed"
        ) from None
    if result.get("kind") != "job":
        raise ConfigError(f"{directory}: it is not a run of a job")
    show(job_view(result), has_details=True)


@job.command()
@click.argument("directory", type=click.Path(path_type=Path))
def cancel(directory: Path) -> None:
    """End the job in DIRECTORY; what it has measured so far is kept.

    \b
    flinknet job run FILE --detached
        prints the directory DIR
    flinknet job cancel DIR
    """
    _end(directory, is_cancel=True)


@job.command()
@click.argument("directory", type=click.Path(path_type=Path))
def stop(directory: Path) -> None:
    """End the sources of the job in DIRECTORY, and wait until everything that they have emitted is
    processed. A job with a source that cannot be stopped (a socket) is refused.

    \b
    flinknet job run FILE --detached
        prints the directory DIR
    flinknet job stop DIR
    """
    _end(directory, is_cancel=False)


def _end(directory: Path, *, is_cancel: bool) -> None:
    from flinknet.runtime.cluster.client import JobClient

    contact = contact_in(directory, "job", "run … --detached")
    if not contact.job_id:
        raise ConfigError(
            f"{directory}: that is a cluster; give the directory of one of its jobs, or end all of"
            f" it with: flinknet job cluster stop {quote(str(directory))}"
        )
    with JobClient(contact) as client:
        end = client.cancel if is_cancel else client.stop
        ended = end(lambda text: click.echo(f"flinknet: the job {text}", err=True))
    click.echo(f"job {contact.job_id} ({contact.name}) ended: {ended.state.lower()}")
    click.echo(f"results: {directory / 'result.json'}", err=True)
    if not is_cancel and ended.exit_code:
        raise RunFailedError(ended.reason)


@job.group("cluster", cls=CommandGroup)
def cluster() -> None:
    """Start and stop a cluster for several jobs (a session).

    \b
    flinknet job cluster start --task-managers 2 --slots 4 --out session
    flinknet job run bench/jobs/shuffle.py --cluster session
    flinknet job cluster stop session
    """


@cluster.command(cls=SectionedCommand)
@options(
    f"""
    --task-managers [default: {DEFAULT_TASK_MANAGERS}]
    --slots --workers --secret-file {NETWORK} {KEYS} --out
    """
)
def start(**values: Any) -> None:
    """Start a cluster without a job, and leave it running.

    \b
    flinknet job cluster start --task-managers 2 --slots 4 --out session
    flinknet job run bench/jobs/shuffle.py --cluster session --detached
    flinknet job run bench/jobs/slow_last_stage.py --cluster session

    Jobs share the cluster's TaskManagers and their network memory. How they share TCP connections
    depends on taskmanager.network.tcp-connection.enable-reuse-across-jobs and
    taskmanager.network.max-num-tcp-connections. Each job has its own slots, result and traces.
    """
    from flinknet.graph.job_config import job_config
    from flinknet.runtime.cluster.client import new_token, start_session
    from flinknet.runtime.cluster.cluster_process import JobManagerSpec

    from . import sweep

    settings = collect(values)
    check_single_values(settings, "a cluster")
    workload = workload_values(settings.workload)
    task_managers = workload.get("task-managers", DEFAULT_TASK_MANAGERS)
    config, warnings = job_config(settings.of_job)
    say_warnings((*settings.warnings, *warnings))
    slots = values["slots"] or config.task_slots
    workers = workers_of(values, config.network)
    out = sweep.out_directory(values["out"], trace=True)
    assert out is not None
    directory, keys = str(out.absolute()), settings.of_job
    spec = JobManagerSpec(new_token(), directory, task_managers, slots, keys, True, workers)
    started, _ = start_session(spec)
    free = slots * len(started.task_managers)
    click.echo(
        f"a cluster is running: {counted(task_managers, 'TaskManager')}, {counted(free, 'slot')}"
    )
    click.echo(f"directory: {out}")
    click.echo(f"run a job on it: flinknet job run FILE --cluster {quote(str(out))}")
    click.echo(f"look at it:      flinknet job status {quote(str(out))}")
    click.echo(f"stop it:         flinknet job cluster stop {quote(str(out))}")


@cluster.command("stop")
@click.argument("directory", type=click.Path(path_type=Path))
def stop_cluster(directory: Path) -> None:
    """Stop the cluster in DIRECTORY; jobs that run on it are cancelled.

    \b
    flinknet job cluster start --out session
    flinknet job cluster stop session
    """
    from flinknet.runtime.cluster.client import JobClient

    contact = contact_in(directory, "cluster", "cluster start")
    if contact.job_id:
        raise ConfigError(
            f"{directory}: that is the directory of a job; `flinknet job cancel` ends it, and a"
            " cluster that was started for it ends with its last job"
        )
    with JobClient(contact) as client:
        stopped = client.stop_cluster()
    for name in stopped.canceled:
        click.echo(f"{name} was canceled")
    click.echo("the cluster has ended")


_UNUSED = (
    *("flow_control", "edge", "exclusive_buffers", "floating_buffers", "segment_size"),
    *("report", "plot"),
)
"""Options of a bench that have no effect on a job, by click's name."""


def is_job(run: RecordedRun) -> bool:
    """Whether a run is of a program, by `job run`."""
    scenario = run.manifest.scenario
    return not run.manifest.is_from_between and bool(scenario.get("job"))


def predicted_again(run: RecordedRun, values: Mapping[str, Any]) -> list[PredictedTimeouts]:
    """The timeouts to run a job with, as predicted; the recorded ones first.

    Raises: ConfigError for other options.
    """
    from flinknet.replay.rerun import predict_timeouts

    refuse(values, _UNUSED, ": of a job, only timeouts can differ; leave it out")
    texts = [each.strip() for each in (values["buffer_timeout"] or "").split(",")]
    for_all = [TIMEOUT.kind.read(each, "--buffer-timeout") for each in texts if each]
    asked = [edge_timeouts_of(each) for each in values["edge_timeout"]]
    found = predict_timeouts(run, for_all, asked)
    return [each for each in found if values["control"] or not each.point.is_recorded]


def name_of(predicted: PredictedTimeouts) -> str:
    """ "buffer-timeout=5ms" where all tasks have the same one, else each task with its own."""
    from flinknet.report.advice import task_timeout

    timeouts_ns = predicted.timeouts_ns
    if len({*timeouts_ns.values()}) == 1:
        name = f"buffer-timeout={format_duration_ns(next(iter(timeouts_ns.values())))}"
    else:
        name = ", ".join(task_timeout(*each) for each in timeouts_ns.items())
    return f"{name} (as recorded)" if predicted.point.is_recorded else name


def call_again(run: RecordedRun, before: Mapping[str, Any], values: Mapping[str, Any]) -> JobCall:
    """The call of `job run` that recorded a run, as far as it was recorded.

    Raises: ConfigError if it cannot be repeated, or would be another job now.
    """
    from flinknet.graph.job_config import RELEASE

    job, release = run.manifest.scenario["job"], run.manifest.scenario.get("flink_release")
    if not before.get("task_managers"):
        raise ConfigError(f"{run.path}: it has no result, so how it ran is unknown")
    managers = before["task_managers"]
    call = call_of(
        {
            **values,
            **dict.fromkeys(("cluster", "start_condition", "buffer_timeout", "warmup")),
            "file": job["path"],
            "arguments": tuple(job["arguments"]),
            "detached": False,
            "slots": managers[0]["slots"],
            "task_managers": str(len(managers)),
            "duration": values["duration"] or format_duration_ns(run.duration_ns),
            "seed": run.manifest.seed,
        },
        {**run.manifest.flink_keys, **({RELEASE: release} if release else {})},
    )
    named = [(each["name"], each["parallelism"]) for each in job["vertices"]]
    if sorted(call.vertices) != sorted(named):
        now = ", ".join(f"{name} x {parallelism}" for name, parallelism in call.vertices)
        raise ConfigError(
            f"{job['path']} is not the recorded job any more; its tasks are {now}: give the same"
            " -D keys as then, such as parallelism.default"
        )
    return call


def run_again(call: JobCall, out: Path, timeouts_ns: Mapping[str, int]) -> dict[str, Any]:
    """Run a job. Returns: its result. Raises: RunFailedError if it did not finish."""
    from flinknet.graph.job_config import TASK_TIMEOUTS

    out.mkdir(parents=True)
    settings = {**call.submission.settings, TASK_TIMEOUTS: json.dumps(dict(timeouts_ns))}
    submission = replace(call.submission, settings=settings)
    ended, result = attend(replace(call, submission=submission), out, sys.stderr)
    if ended.exit_code:
        raise RunFailedError(ended.reason)
    return result


def measured_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Throughput of the tasks that measure latency, and their latency; None where unknown."""
    ends = [each for each in result["vertices"] if each["latency_ns"] is not None]
    names = {each["name"] for each in ends}
    into = [each for each in result["edges"] if each["target"] in names]
    rates = [each["throughput_records_per_s"] for each in into]
    latency_ns = result.get("latency_ns") or (ends[0]["latency_ns"] if len(ends) == 1 else {})
    buffers, measured_ns = sum(each["buffers"] for each in result["edges"]), result["measured_ns"]
    return {
        "throughput_records_per_s": None if None in rates else sum(rates),
        "buffers_per_s": buffers * 1e9 / measured_ns if measured_ns else None,
        "latency_ns": {"p50": None, "p99": None, **latency_ns},
    }
