"""Other modes of bench. `bench consume` and `bench produce`: flinknet is one end of an exchange, a
TaskManager of Flink the other. `bench config`: every key with its effective value, without a run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flinknet import options as flink
from flinknet.config import CREDIT, Scenario
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.errors import ConfigError, LocalProtocolError, RunFailedError
from flinknet.options.keys import COMPRESSION_CODEC
from flinknet.units import human_bytes

from .commands import SectionedCommand
from .files import STDOUT, put_json, show, target_of
from .option_tables import KEYS, LOAD, NETWORK, options
from .options import Settings, check_single_values, collect, scenario_of
from .value_parsers import address

if TYPE_CHECKING:
    from flinknet.runtime.cluster.peer import Peer
    from flinknet.runtime.cluster.peer_ends import ConsumerPeer, ProducerPeer


@click.command(cls=SectionedCommand)
@click.argument("address", metavar="HOST:PORT")
@options(
    f"""
    --duration TIME
        Stop after TIME. [default: to the end of the partition]
    --records N
        Stop after N records, those of all channels together.
    --slow-consumer --partition-type
    --partition ID ...
        The ResultPartitionID to read, as Flink's logs print it
        (DATASET#PARTITION@GRAPH_VERTEX_SUBTASK_ATTEMPT) or as the 120 hexadecimal digits of its
        bytes. May be repeated; all are read over one connection.
    --subpartition --stamped {NETWORK} {KEYS} --seed --out --trace --json
    """
)
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
    where = address(values["address"], "the TaskManager", lowest=1)
    consumer = consumer_plan(scenario, partitions, values["subpartition"] or (0,))
    return ConsumerPeer(
        consumer,
        where,
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


_MEMORY = (
    *("task_manager", "total_buffers", "exclusive_buffers", "required_buffers", "spare_buffers"),
)
"""Buffers of a TaskManager in the document of `bench config`."""


@click.command(cls=SectionedCommand)
@options(
    f"""
    --rate --record-size --arrivals --duration --records --consumers --partitioner --keys --key-skew
    --partition-type --listen --partition {NETWORK} {KEYS} --seed --out --trace --json
    """
)
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
    host, port = address(values["listen"] or "127.0.0.1:0", "--listen")
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


def run_peer(values: Mapping[str, Any], create: Callable[[list[int]], Peer]) -> None:
    """Run the peer that `create` makes of the list to which signals are added; print its result.

    Raises: ConfigError; the error that ended the exchange, after the result is printed;
        RunFailedError if records were lost, repeated or out of order.
    """
    from flinknet.report.bench_modes import peer_view
    from flinknet.runtime.signals import interrupts_noted
    from flinknet.starting import EXIT_INTERRUPTED

    json_target = target_of(values["json"])
    with interrupts_noted() as interrupts:
        peer = create(interrupts)
        try:
            try:
                peer.run()
            finally:
                result = peer.result()
                put_json(json_target, result.to_dict())
                is_empty = not any(each.buffers or each.events for each in result.channels)
                if json_target != STDOUT and not is_empty:
                    show(peer_view(result))
                if result.trace is not None:
                    click.echo(f"trace: {result.trace}", err=True)
        finally:
            peer.close()
    if interrupts:
        exit_code = 128 + interrupts[0]
        what = "interrupted" if exit_code == EXIT_INTERRUPTED else "terminated"
        click.echo(f"flinknet: {what} after {result.records} records", err=True)
        raise SystemExit(exit_code)
    wrong = [each for each in result.channels if each.lost or each.repeated or each.reordered]
    if wrong:
        raise RunFailedError(
            f"channel {wrong[0].index}: {wrong[0].lost} records were lost, {wrong[0].repeated}"
            f" repeated, {wrong[0].reordered} out of order"
        )


def peer_scenario(settings: Settings, seed: int) -> Scenario:
    """The scenario of an exchange with Flink; prints warnings about its settings.

    Raises: ConfigError for settings that Flink's TaskManagers lack, and for a sweep.
    """
    from .sweep import say_first

    check_single_values(settings)
    scenario, warnings = scenario_of(settings, seed)
    if scenario.flow_control != CREDIT:
        raise ConfigError("TaskManagers of Flink know credit-based flow control only")
    say_first([("", warnings)], is_stdout_taken=True)
    return replace(scenario, workload=replace(scenario.workload, warmup_ns=0))


def partitions_of(texts: Sequence[str]) -> list[ResultPartitionID]:
    """The partitions that --partition names. Raises: ConfigError."""
    try:
        return [ResultPartitionID.parse(text) for text in texts]
    except LocalProtocolError as error:
        raise ConfigError(f"--partition: {error}") from None


def run_directory(values: Mapping[str, Any]) -> Path | None:
    """The directory of the trace; None without a trace."""
    from . import sweep

    out = sweep.out_directory(values["out"], trace=values["trace"])
    return out / "run-0001" if out is not None and values["trace"] else None


@click.command(cls=SectionedCommand)
@options(f"{LOAD} --json", is_sweep=True)
def config(**values: Any) -> None:
    """Print the effective value of every key and where it comes from.

    \b
    flinknet bench config --flink-conf conf/config.yaml
    flinknet bench config -D taskmanager.memory.network.max=64mb --json -

    Nothing runs. The options are those of `bench run`.
    """
    from flinknet.job.load.plan import load_plan_of
    from flinknet.report.bench_modes import EffectiveConfig, config_document, print_configs
    from flinknet.report.console import console_for

    from . import sweep

    settings = collect(values)
    plans = sweep.plan_sweep(settings)
    json_target = target_of(values["json"])
    refused = [each.text for each in settings.warnings if each.code == "no-total-size"]
    named, origins = {}, dict(settings.origins)
    if "flow-control" in settings.workload:
        named[flink.CREDIT_MODEL] = str(settings.workload["flow-control"] == CREDIT).lower()
        origins[flink.CREDIT_MODEL] = "--flow-control"
    configs = [
        EffectiveConfig(
            plan.name,
            flink.effective_keys({**network, **named}, origins, settings.release),
            [
                {name: getattr(each, name) for name in _MEMORY}
                for each in load_plan_of(plan.scenario).buffers()
                if not refused
            ],
            plan.warnings,
        )
        for plan, network in zip(plans, flink.expand(settings.network), strict=True)
    ]
    put_json(json_target, config_document(configs))
    if json_target != STDOUT:
        print_configs(console_for(sys.stdout), configs)
    if refused:
        raise ConfigError(refused[0])
    if json_target == STDOUT:
        return
    for plan in plans:
        where = f"{plan.name}: " if plan.name else ""
        needs = load_plan_of(plan.scenario).buffers()
        least = max(each.needed_buffers for each in needs)
        most = max(each.most_buffers for each in needs)
        size = human_bytes(least * plan.scenario.network.segment_size_bytes)
        click.echo(
            f"{where}a TaskManager needs at least {least} buffers ({size}), {most} at most with"
            f" overdraft; {needs[0].total_buffers} are configured"
        )
