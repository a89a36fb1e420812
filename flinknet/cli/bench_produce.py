"""`flinknet bench produce`: serves partitions to TaskManagers of Flink."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from flinknet.config import Scenario

from .bench_peer import address_of, partitions_of, peer_scenario, run_directory, run_peer
from .commands import SectionedCommand
from .options import collect, load_options, output_options, trace_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flinknet.runtime.cluster.peer_ends import ProducerPeer


LISTEN_DEFAULT = "127.0.0.1:0"


@click.command(cls=SectionedCommand)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help=f"Address that TaskManagers connect to; port 0: any. [default: {LISTEN_DEFAULT}]",
)
@click.option(
    "--partition",
    metavar="ID",
    multiple=True,
    help="The ResultPartitionID to serve, as Flink's logs print it"
    " (DATASET#PARTITION@GRAPH_VERTEX_SUBTASK_ATTEMPT) or as the 120 hexadecimal digits of its"
    " bytes. May be repeated, with a producer for each. [default: one is made up]",
)
@load_options(
    (
        *("rate", "record-size", "arrivals", "duration", "records"),
        *("consumers", "partitioner", "keys", "key-skew", "partition-type"),
    ),
)
@output_options
@trace_option
def produce(**values: Any) -> None:
    """Serve partitions to TaskManagers of a real Flink.

    \b
    flinknet bench produce --listen 127.0.0.1:7001 --records 1000000

    Each partition has a subpartition for each of the --consumers.
    """
    run_peer(values, lambda interrupts: _producer(values, interrupts))


def _producer(values: Mapping[str, Any], interrupts: list[int]) -> ProducerPeer:
    from flinknet.job.load.plan import load_plan_of
    from flinknet.runtime.cluster.peer import producers_plan
    from flinknet.runtime.cluster.peer_ends import ProducerPeer

    settings = collect(values)
    workload = {**settings.workload, "producers": str(max(1, len(values["partition"])))}
    scenario = peer_scenario(replace(settings, workload=workload), values["seed"])
    partitions = partitions_of(values["partition"])
    if not partitions:
        partitions = [load_plan_of(Scenario(seed=values["seed"])).channels[0].partition_id]
    host, port = address_of(values["listen"] or LISTEN_DEFAULT, "--listen")
    network = replace(scenario.network, bind_host=host, data_port=str(port), bind_port=None)
    producers = producers_plan(replace(scenario, network=network), partitions)

    def show_address(address: str) -> None:
        click.echo(f"listening on {address}", err=True)
        for each in partitions:
            click.echo(f"partition {each} ({each.encode().hex()})", err=True)

    return ProducerPeer(
        producers,
        directory=run_directory(values),
        interrupts=interrupts,
        on_listening=show_address,
        on_writing=lambda: click.echo("writing", err=True),
        on_waiting=lambda what: click.echo(f"waiting for {what}; Ctrl-C ends it", err=True),
    )
