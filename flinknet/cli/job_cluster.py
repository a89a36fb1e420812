"""`flinknet job cluster`: starts and stops a JobManager with TaskManagers for several jobs."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

import click

from flinknet import options as flink
from flinknet.errors import ConfigError
from flinknet.units import counted

from .commands import CommandGroup, SectionedCommand, WholeNumber
from .option_tables import WORKLOAD_OPTIONS
from .options import collect, load_options, out_option

DEFAULT_TASK_MANAGERS = 2


@click.group("cluster", cls=CommandGroup)
def cluster() -> None:
    """Start and stop a cluster for several jobs (a session).

    \b
    flinknet job cluster start --task-managers 2 --slots 4 --out session
    flinknet job run bench/jobs/shuffle.py --cluster session
    flinknet job cluster stop session
    """


@cluster.command(cls=SectionedCommand)
@click.option(
    "--slots",
    type=WholeNumber(1),
    metavar="N",
    help="Slots of each TaskManager. [default: taskmanager.numberOfTaskSlots]",
)
@load_options(("task-managers",), defaults={"task-managers": str(DEFAULT_TASK_MANAGERS)})
@out_option
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
    if swept := flink.swept_keys(settings.network):
        raise ConfigError(f"{swept[0]} has several values; a cluster has one of each")
    given = settings.workload.get("task-managers")
    task_managers = DEFAULT_TASK_MANAGERS
    if given is not None:
        task_managers = WORKLOAD_OPTIONS["task-managers"].parse(given)
    config, warnings = job_config(settings.network)
    for warning in (*settings.warnings, *warnings):
        click.echo(f"flinknet: {warning.text}", err=True)
    slots = values["slots"] or config.task_slots
    out = sweep.out_directory(values["out"], trace=True)
    assert out is not None
    spec = JobManagerSpec(
        new_token(), str(out.absolute()), task_managers, slots, dict(settings.network), True
    )
    started, _ = start_session(spec)
    free = slots * len(started.task_managers)
    click.echo(
        f"a cluster is running: {counted(task_managers, 'TaskManager')}, {counted(free, 'slot')}"
    )
    click.echo(f"directory: {out}")
    click.echo(f"run a job on it: flinknet job run FILE --cluster {quote(str(out))}")
    click.echo(f"look at it:      flinknet job status {quote(str(out))}")
    click.echo(f"stop it:         flinknet job cluster stop {quote(str(out))}")


@cluster.command()
@click.argument("directory", type=click.Path(path_type=Path))
def stop(directory: Path) -> None:
    """Stop the cluster in DIRECTORY; jobs that run on it are cancelled.

    \b
    flinknet job cluster start --out session
    flinknet job cluster stop session
    """
    from flinknet.runtime.cluster.client import JobClient
    from flinknet.runtime.cluster.job_files import Contact

    contact = Contact.load(directory)
    if contact is None:
        raise ConfigError(
            f"{directory}: no cluster is running there; give the directory that `flinknet job"
            " cluster start` printed"
        )
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
