"""`flinknet bench --as-consumer-of` and `--as-producer`: one end of an exchange is flinknet, the
other a TaskManager of Flink.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flinknet import options as flink
from flinknet.config import CREDIT, Scenario
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.errors import ConfigError, LocalProtocolError, RunFailedError
from flinknet.options.keys import COMPRESSION_CODEC

from .options import Settings, collect, scenario_of

if TYPE_CHECKING:
    from flinknet.results import PeerResult
    from flinknet.runtime.consumer_peer import ConsumerPeer
    from flinknet.runtime.producer_peer import ProducerPeer

_Command = TypeVar("_Command", bound=Callable[..., Any])

CONSUMER_OPTIONS = frozenset({"records", "duration", "slow-consumer", "partition-type"})
PRODUCER_OPTIONS = frozenset(
    {"records", "duration", "rate", "record-size", "arrivals", "consumers", "partitioner"}
    | {"partition-type"}
)
"""Bench options that mean something when the other end is not ours."""

LISTEN_DEFAULT = "127.0.0.1:0"


def peer_options(command: _Command) -> _Command:
    """Add what makes flinknet the peer of a TaskManager to bench."""
    decorators = [
        click.option(
            "--as-consumer-of",
            metavar="HOST:PORT",
            help="Read --partition from the TaskManager whose data port this is, to its end, or for"
            " --records or --duration and cancel then. A pipelined partition has one reader: take"
            " one that nobody else reads.",
        ),
        click.option(
            "--as-producer",
            is_flag=True,
            help="Write --partition and serve it to the TaskManagers that request it.",
        ),
        click.option(
            "--listen",
            metavar="HOST:PORT",
            help=f"Where --as-producer is found; port 0 for any. [default: {LISTEN_DEFAULT}]",
        ),
        click.option(
            "--partition",
            "partition",
            metavar="ID",
            multiple=True,
            help="A ResultPartitionID: as Flink's logs print it, DATASET#PARTITION@GRAPH_VERTEX_"
            "SUBTASK_ATTEMPT, or the 120 hexadecimal digits of its bytes. May be repeated; all come"
            " over one connection. --as-producer makes one up if there is none.",
        ),
        click.option(
            "--subpartition",
            type=click.IntRange(0),
            metavar="N",
            multiple=True,
            help="Which subpartition of each partition to read. May be repeated. [default: 0]",
        ),
        click.option(
            "--stamped",
            is_flag=True,
            help="The records that are read have flinknet's form: check that each comes once and in"
            " order. Without it they are counted, whatever they are.",
        ),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


def is_peer(values: Mapping[str, Any]) -> bool:
    """Whether bench is asked to be a peer.

    Raises: ConfigError for options that need it and do not have it.
    """
    is_consumer, is_producer = values["as_consumer_of"] is not None, values["as_producer"]
    if is_consumer and is_producer:
        raise ConfigError("--as-consumer-of and --as-producer do not go together; give one of them")
    owners = {
        "listen": (is_producer, "--as-producer"),
        "subpartition": (is_consumer, "--as-consumer-of"),
        "stamped": (is_consumer, "--as-consumer-of"),
        "partition": (is_consumer or is_producer, "--as-consumer-of or --as-producer"),
    }
    for name, (is_owned, owner) in owners.items():
        if values[name] not in (None, (), False) and not is_owned:
            raise ConfigError(f"--{name} goes with {owner}")
    return is_consumer or is_producer


def run_peer(values: Mapping[str, Any]) -> None:
    """Be the peer; the arguments are those of bench.

    Raises: ConfigError; the error that ended the exchange, after what had passed was told;
        RunFailedError when records were lost, repeated or out of order.
    """
    from flinknet.runtime.signals import interrupts_noted
    from flinknet.starting import EXIT_INTERRUPTED

    from . import sweep

    json_file = sweep.json_file(values["json"])
    with interrupts_noted() as interrupts:
        peer = _create(values, interrupts)
        try:
            try:
                peer.run()
            finally:
                result = peer.result()
                _tell(result, values, json_file)
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


def _create(values: Mapping[str, Any], interrupts: list[int]) -> ConsumerPeer | ProducerPeer:
    from flinknet.runtime.consumer_peer import ConsumerPeer
    from flinknet.runtime.producer_peer import ProducerPeer
    from flinknet.tasks.peer import deploy_consumer, deploy_producers

    from . import sweep

    scenario, partitions = _scenario(values), _partitions(values)
    if values["as_consumer_of"] is not None:
        address = _address(values["as_consumer_of"], "--as-consumer-of")
        if not address[1]:
            raise ConfigError("--as-consumer-of: port 0 is no data port; see the TaskManager's log")
        consumer = deploy_consumer(scenario, partitions, values["subpartition"] or (0,))
        directory = sweep.out_directory(values["out"], trace=values["trace"])
        return ConsumerPeer(
            consumer,
            address,
            is_stamped=values["stamped"],
            directory=_run_directory(directory, values),
            interrupts=interrupts,
        )
    host, port = _address(values["listen"] or LISTEN_DEFAULT, "--listen")
    network = replace(scenario.network, bind_host=host, data_port=str(port), bind_port=None)
    producers = deploy_producers(replace(scenario, network=network), partitions)
    directory = sweep.out_directory(values["out"], trace=values["trace"])

    def tell_address(address: str) -> None:
        click.echo(f"listening on {address}", err=True)
        for each in partitions:
            click.echo(f"partition {each} ({each.encode().hex()})", err=True)

    return ProducerPeer(
        producers,
        directory=_run_directory(directory, values),
        interrupts=interrupts,
        on_listening=tell_address,
        on_writing=lambda: click.echo("writing", err=True),
        on_waiting=lambda what: click.echo(f"waiting for {what}; Ctrl-C ends it", err=True),
    )


def _run_directory(out: Path | None, values: Mapping[str, Any]) -> Path | None:
    return out / "run-0001" if out is not None and values["trace"] else None


def _scenario(values: Mapping[str, Any]) -> Scenario:
    """What to write or how much to read, and Flink's settings.

    Raises: ConfigError for what the other end decides, and for a sweep.
    """
    is_consumer = values["as_consumer_of"] is not None
    role = "--as-consumer-of" if is_consumer else "--as-producer"
    settings = collect(values)
    meant = CONSUMER_OPTIONS if is_consumer else PRODUCER_OPTIONS
    alien = [f"--{name}" for name in settings.workload if name not in meant]
    alien += ["--runs"] if values["runs"] != 1 else []
    if alien:
        raise ConfigError(f"{role}: {alien[0]} means nothing when the other end is not flinknet's")
    swept = flink.swept_keys(settings.network)
    if swept:
        raise ConfigError(f"{role}: {swept[0]} must be one value, not a list")
    workload, network = dict(settings.workload), dict(settings.network)
    codec = ""
    if is_consumer:  # who reads can read what flinknet does not write
        codec = flink.network_config(network)[0].compression_codec
        network.pop(COMPRESSION_CODEC, None)
    else:
        workload["producers"] = str(max(1, len(values["partition"])))
    scenario, _ = scenario_of(
        Settings(network, workload, settings.warnings, settings.origins), values["seed"]
    )
    if is_consumer:
        network_read = replace(scenario.network, compression_codec=codec)
        scenario = replace(scenario, network=network_read)
    if scenario.flow_control != CREDIT:
        raise ConfigError(f"{role}: TaskManagers of Flink know credit-based flow control only")
    if any(slow.slow_ns is not None for slow in scenario.workload.slow_consumers):
        raise ConfigError(f"{role}: --slow-consumer takes no time here; write 0:1ms or 0:pause")
    asked = replace(scenario.workload, warmup_ns=0)
    if is_consumer and not {"records", "duration"} & workload.keys():
        asked = replace(asked, records=None, duration_ns=None)
    return replace(scenario, workload=asked)


def _partitions(values: Mapping[str, Any]) -> list[ResultPartitionID]:
    texts = values["partition"]
    if not texts and values["as_consumer_of"] is not None:
        raise ConfigError(
            "--as-consumer-of needs --partition: the ResultPartitionID of what to read, as the"
            " TaskManager's log prints it at DEBUG"
        )
    if not texts:
        from flinknet.tasks.deployment import deploy

        return [deploy(Scenario(seed=values["seed"])).partition_id(0)]
    try:
        return [ResultPartitionID.parse(text) for text in texts]
    except LocalProtocolError as error:
        raise ConfigError(f"--partition: {error}") from None


def _address(text: str, option: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ConfigError(f"{option}: {text!r} is not HOST:PORT; write 127.0.0.1:6121")
    return host, int(port)


def _tell(result: PeerResult, values: Mapping[str, Any], json_file: Path | None) -> None:
    from flinknet.report.console import console_for
    from flinknet.report.export import dump, write_json
    from flinknet.report.peer_console import print_peer

    document = result.to_dict()
    if json_file is not None:
        write_json(json_file, document)
    if values["json"] == "-":
        click.echo(dump(document), nl=False)
    elif any(each.buffers or each.events for each in result.channels):
        print_peer(console_for(sys.stdout), result)
    if result.trace is not None:
        click.echo(f"trace: {result.trace}", err=True)
