"""`flinknet job`: runs jobs, shows running ones, and cancels them."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote

import click

from flinknet.errors import ConfigError, RunFailedError, TransportError

from .commands import CommandGroup
from .job_cluster import cluster
from .job_run import run

RUNS = Path("flinknet-runs")
NO_ID = "-" * 16
"""Stands for the id of a job in the list, for clusters."""


@click.group(cls=CommandGroup)
def job() -> None:
    """Run jobs, show those that are running, and cancel them.

    \b
    flinknet job run bench/jobs/shuffle.py --task-managers 2 --slots 2
    flinknet job list              which jobs are running, and their directories
    """


job.add_command(run)
job.add_command(cluster)


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
        click.echo(f"{contact.job_id or NO_ID}  {state:<10}  {contact.name}  {run_dir}")
    if not is_any_running:
        hint = "; for jobs with --out DIR: flinknet job list DIR" if directory == RUNS else ""
        click.echo(f"no job is running in {directory}{hint}", err=True)


@job.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--graph",
    type=click.Choice(("tree", "json")),
    help="Show the running tasks instead, with their partitions, gates and channels.",
)
def status(directory: Path, graph: str | None) -> None:
    """Show the job in DIRECTORY: while it runs, its vertices, TaskManagers and TCP connections, and
    the jobs that share these; after its end, its result. For a cluster, show its jobs.

    \b
    flinknet job run FILE --detached
        prints the directory DIR
    flinknet job status DIR
    """
    from flinknet.report.console import console_for, print_view
    from flinknet.report.export import dump
    from flinknet.report.job import cluster_view, dump_lines, job_view, status_view
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
                print_view(console_for(sys.stdout), cluster_view(client.cluster()))
            elif graph is None:
                print_view(console_for(sys.stdout), status_view(client.status()))
            elif graph == "json":
                click.echo(dump(asdict(client.dump())), nl=False)
            else:
                click.echo("\n".join(dump_lines(client.dump())))
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
    print_view(console_for(sys.stdout), job_view(result), has_details=True)


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
    from flinknet.runtime.cluster.job_files import Contact

    contact = Contact.load(directory)
    if contact is None:
        raise ConfigError(
            f"{directory}: no job is running there; give the directory that `flinknet job run …"
            " --detached` printed"
        )
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
