"""`flinknet bench consume`: reads a partition from a TaskManager of Flink."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from flinknet import options as flink
from flinknet.config import Scenario
from flinknet.errors import ConfigError
from flinknet.options.keys import COMPRESSION_CODEC

from .bench_peer import address_of, partitions_of, peer_scenario, run_directory, run_peer
from .commands import SectionedCommand
from .options import check_single_values, collect, load_options, output_options, trace_option
from .wrong_calls import WholeNumber

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flinknet.runtime.cluster.peer_ends import ConsumerPeer


@click.command(cls=SectionedCommand)
@click.argument("address", metavar="HOST:PORT")
@click.option(
    "--partition",
    metavar="ID",
    multiple=True,
    help="The ResultPartitionID to read, as Flink's logs print it"
    " (DATASET#PARTITION@GRAPH_VERTEX_SUBTASK_ATTEMPT) or as the 120 hexadecimal digits of its"
    " bytes. May be repeated; all are read over one connection.",
)
@click.option(
    "--subpartition",
    type=WholeNumber(0),
    metavar="N",
    multiple=True,
    help="Which subpartition of each partition to read. May be repeated. [default: 0]",
)
@click.option(
    "--stamped",
    is_flag=True,
    help="The records have flinknet's form: check that each arrives once and in order. Without it,"
    " records of any form are counted.",
)
@load_options(
    ("records", "duration", "slow-consumer", "partition-type"),
    defaults={"duration": "to the end of the partition"},
    helps={
        "records": "Stop after N records, those of all channels together.",
        "duration": "Stop after TIME.",
    },
)
@output_options
@trace_option
def consume(**values: Any) -> None:
    """Read what a TaskManager of a real Flink produces.

    \b
    flinknet bench consume taskmanager-1:34567 --partition 5ca1…#0@9d2e…_bc76…_0_0

    HOST:PORT is the TaskManager's data port. The result shows credit and backlog. After --records
    or --duration, the rest of the partition is cancelled. A pipelined partition can be read only
    once: choose one that no task of Flink reads.
    """
    run_peer(values, lambda interrupts: _consumer(values, interrupts))


def _consumer(values: Mapping[str, Any], interrupts: list[int]) -> ConsumerPeer:
    from flinknet.runtime.cluster.peer import consumer_plan
    from flinknet.runtime.cluster.peer_ends import ConsumerPeer

    scenario = _scenario(values)
    if not values["partition"]:
        raise ConfigError(
            "a consumer needs --partition: the ResultPartitionID of what to read, as the"
            " TaskManager's log prints it at DEBUG"
        )
    partitions = partitions_of(values["partition"])
    address = address_of(values["address"], "the TaskManager")
    if not address[1]:
        raise ConfigError("the TaskManager: port 0 is not a data port; see the TaskManager's log")
    consumer = consumer_plan(scenario, partitions, values["subpartition"] or (0,))
    return ConsumerPeer(
        consumer,
        address,
        is_stamped=values["stamped"],
        directory=run_directory(values),
        interrupts=interrupts,
    )


def _scenario(values: Mapping[str, Any]) -> Scenario:
    settings = collect(values)
    check_single_values(settings)
    # A consumer also reads codecs that flinknet's producers do not write.
    codec = flink.network_config(settings.network)[0].compression_codec
    network = {key: text for key, text in settings.network.items() if key != COMPRESSION_CODEC}
    scenario = peer_scenario(replace(settings, network=network), values["seed"])
    scenario = replace(scenario, network=replace(scenario.network, compression_codec=codec))
    if any(slow.slow_ns is not None for slow in scenario.workload.slow_consumers):
        raise ConfigError("--slow-consumer takes no time here; write 0:1ms or 0:pause")
    if not {"records", "duration"} & settings.workload.keys():
        workload = replace(scenario.workload, records=None, duration_ns=None)
        scenario = replace(scenario, workload=workload)
    return scenario
