"""`flinknet worker`: hosts TaskManagers for commands on other hosts; and the options by which those
commands find their workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import flinknet
from flinknet import options as flink
from flinknet.errors import ConfigError
from flinknet.units import format_address

from .files import secret_text
from .option_tables import options
from .options import collect
from .value_parsers import address, refuse

if TYPE_CHECKING:
    from flinknet.config import NetworkConfig
    from flinknet.runtime.cluster.cluster_process import WorkersSpec

SECRET_CHARACTERS_MIN = 16
DEFAULT_PORT = 6130


def workers_of(
    values: Mapping[str, Any], network: NetworkConfig, *, is_tried: bool = True
) -> WorkersSpec | None:
    """The workers that the options name; None without --workers.

    Args:
        network: TLS settings.
        is_tried: connect to each worker.

    Raises: ConfigError for an option that is wrong or lacks another; TransportError if a worker
        cannot be used.
    """
    from flinknet.runtime.cluster.cluster_process import WorkersSpec

    ends = [values.get(name) for name in ("producers_on", "consumers_on")]
    if values["workers"] is None:
        refuse(values, ("secret_file", "producers_on", "consumers_on"), " goes with --workers")
        return None
    names = [each.strip() for each in values["workers"].split(",")]
    addresses = tuple(address(each, "--workers", lowest=1) for each in names)
    for name, end in zip(("--producers-on", "--consumers-on"), ends, strict=True):
        if end is not None and end not in names:
            raise ConfigError(f"{name}: {end} is not one of --workers ({', '.join(names)})")
    places = [None if end is None else names.index(end) for end in ends]
    secret = secret_of(values["secret_file"], is_tls=network.ssl_internal_enabled)
    spec = WorkersSpec(addresses, secret, *places)
    if is_tried:
        from flinknet.runtime.cluster.workers import check_reachable

        check_reachable(spec, network)
    return spec


def secret_of(file: str | None, *, is_tls: bool) -> str:
    """The secret in a file; empty without one, where certificates take its place.

    Raises: ConfigError if it is missing, short, or can be read by others.
    """
    if file is None:
        if is_tls:
            return ""
        raise ConfigError(
            "--secret-file is missing: make one with `umask 077; head -c 32 /dev/urandom | base64 >"
            " secret` and copy it to every host; or use mutual TLS (security.ssl.internal.enabled)"
        )
    secret = secret_text(file, "--secret-file").strip()
    if Path(file).stat().st_mode & 0o077:
        raise ConfigError(f"--secret-file: others can read {file}; chmod 600 {file}")
    if len(secret) < SECRET_CHARACTERS_MIN:
        raise ConfigError(
            f"--secret-file: {file} has {len(secret)} characters; use {SECRET_CHARACTERS_MIN} or"
            " more, at random"
        )
    return secret


@click.command()
@options(
    f"""
    --bind HOST:PORT = 127.0.0.1:{DEFAULT_PORT}
        Address to listen on, by which launchers and other workers reach this host.
    --secret-file
    --no-code
        Run no programs, only the loads of bench and compare-configs.
    -D (define) KEY=VALUE ...
        Flink's keys for mutual TLS, such as security.ssl.internal.enabled. May be repeated.
    --flink-conf FILE
        Take these keys from a config.yaml.
    """
)
def worker(**values: Any) -> None:
    """Host TaskManagers for `flinknet bench --workers` on another machine.

    \b
    flinknet worker --bind 10.0.0.7:6130 --secret-file secret
        on each host, with an address by which the others reach it
    flinknet bench --workers 10.0.0.7:6130,10.0.0.8:6130 --secret-file secret
        producers on the first, consumers on the second

    Anyone with the secret, or with a certificate of the trust store, may run programs as this user
    (`job run`); with --no-code, only generated loads. All others are refused. The secret itself is
    never sent. TaskManagers listen on the host of --bind, on ports that the system chooses or
    taskmanager.data.port names, and connect to the launcher. Without TLS, nothing is encrypted.
    Ctrl-C ends the worker and its TaskManagers.
    """
    from flinknet.runtime.cluster.worker_process import WorkerProcess
    from flinknet.runtime.signals import interrupts_noted

    bound = address(values["bind"], "--bind", default_port=DEFAULT_PORT)
    network, _ = flink.network_config(collect(values).network)
    secret = secret_of(values["secret_file"], is_tls=network.ssl_internal_enabled)
    with interrupts_noted() as noted:
        process = WorkerProcess(bound, secret, network, takes_code=not values["no_code"])
        where = format_address(bound[0], process.port)
        click.echo(f"flinknet {flinknet.__version__} worker on {where}", err=True)
        process.run(noted)
