"""`flinknet worker`: hosts TaskManagers for commands on other hosts; and the options by which those
commands find their workers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flinknet import options as flink
from flinknet.errors import ConfigError

if TYPE_CHECKING:
    from flinknet.runtime.cluster.cluster_process import WorkersSpec

SECRET_CHARACTERS_MIN = 16
PORT_MAX = 65_535
DEFAULT_PORT = 6130

_Command = TypeVar("_Command", bound=Callable[..., Any])

_secret_option = click.option(
    "--secret-file",
    metavar="FILE",
    help="Secret that workers and launchers share; readable by you alone.",
)


def worker_options(*, has_places: bool = True) -> Callable[[_Command], _Command]:
    """Add the options for the workers of a run to a command.

    Args:
        has_places: the user may choose where sources and sinks run.
    """

    def decorate(command: _Command) -> _Command:
        if has_places:
            for end, where in (("consumers", "the others"), ("producers", "the first")):
                command = click.option(
                    f"--{end}-on", metavar="WORKER", help=f"Where {end} run. [default: {where}]"
                )(command)
        return click.option(
            "--workers",
            metavar="LIST",
            help="HOST:PORT of each `flinknet worker` to run on. [default: this machine]",
        )(_secret_option(command))

    return decorate


def workers_of(values: Mapping[str, Any], *, is_tls: bool = False) -> WorkersSpec | None:
    """The workers that the options name; None without --workers.

    Args:
        is_tls: certificates authenticate both sides, so that no secret is needed.

    Raises: ConfigError for an option that is wrong or lacks another.
    """
    from flinknet.runtime.cluster.cluster_process import WorkersSpec

    ends = [values.get(name) for name in ("producers_on", "consumers_on")]
    if values["workers"] is None:
        for name in ("secret_file", "producers_on", "consumers_on"):
            if values.get(name) is not None:
                raise ConfigError(f"--{name.replace('_', '-')} goes with --workers")
        return None
    names = [each.strip() for each in values["workers"].split(",")]
    addresses = tuple(address_of(each, "--workers") for each in names)
    for name, end in zip(("--producers-on", "--consumers-on"), ends, strict=True):
        if end is not None and end not in names:
            raise ConfigError(f"{name}: {end} is not one of --workers ({', '.join(names)})")
    places = [None if end is None else names.index(end) for end in ends]
    return WorkersSpec(addresses, secret_of(values["secret_file"], is_tls=is_tls), *places)


def address_of(text: str, option: str, default_port: int | None = None) -> tuple[str, int]:
    """The host and the port of HOST:PORT or [HOST]:PORT. Raises: ConfigError."""
    found = re.fullmatch(r"(?:\[([^\]]+)\]|([^\[\]:]+))(?::([0-9]{1,5}))?", text)
    port = int(found[3]) if found and found[3] else default_port
    if found is None or port is None or port > PORT_MAX:
        raise ConfigError(f"{option}: {text!r} is no HOST:PORT; write 10.0.0.7:{DEFAULT_PORT}")
    return found[1] or found[2], port


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
    path = Path(file)
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigError(f"--secret-file: others can read {file}; chmod 600 {file}")
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--secret-file: {file} cannot be read ({error})") from None
    if len(secret) < SECRET_CHARACTERS_MIN:
        raise ConfigError(
            f"--secret-file: {file} has {len(secret)} characters; use {SECRET_CHARACTERS_MIN} or"
            " more, at random"
        )
    return secret


def settings_of_tls(values: Mapping[str, Any]) -> dict[str, str]:
    """The Flink keys of `--flink-conf` and `-D`, for TLS. Raises: ConfigError."""
    from .options import read_cluster_conf

    conf: dict[str, str] = {}
    if values["flink_conf"] is not None:
        conf, _ = read_cluster_conf(values["flink_conf"])
    return flink.merge(conf, dict(flink.parse_assignment(text) for text in values["define"]))


@click.command()
@click.option(
    "--bind",
    metavar="HOST:PORT",
    default=f"127.0.0.1:{DEFAULT_PORT}",
    show_default=True,
    help="Address to listen on, by which launchers and other workers reach this host.",
)
@_secret_option
@click.option(
    "--no-code", is_flag=True, help="Run no programs, only the loads of bench and compare-configs."
)
@click.option(
    "-D",
    "define",
    metavar="KEY=VALUE",
    multiple=True,
    help="Flink's keys for mutual TLS, such as security.ssl.internal.enabled. May be repeated.",
)
@click.option("--flink-conf", metavar="FILE", help="Take these keys from a config.yaml.")
def worker(**values: Any) -> None:
    """Host TaskManagers for `flinknet bench --workers` on another machine.

    \b
    flinknet worker --bind 10.0.0.7:6130 --secret-file secret
        on each host, with an address by which the others reach it
    flinknet bench --workers 10.0.0.7:6130,10.0.0.8:6130 --secret-file secret
        producers on the first, consumers on the second

    Whoever knows the secret, or has a certificate of the trust store, may run programs as this user
    (`job run`); with --no-code, only generated loads. All others are refused. The secret itself is
    never sent. TaskManagers listen on the host of --bind, on ports that the system chooses or
    taskmanager.data.port names, and connect to the launcher. Without TLS, nothing is encrypted.
    Ctrl-C ends the worker and its TaskManagers.
    """
    from flinknet.runtime.cluster.worker_process import WorkerProcess, greeting
    from flinknet.runtime.signals import interrupts_noted

    address = address_of(values["bind"], "--bind", DEFAULT_PORT)
    network, _ = flink.network_config(settings_of_tls(values))
    secret = secret_of(values["secret_file"], is_tls=network.ssl_internal_enabled)
    with interrupts_noted() as noted:
        process = WorkerProcess(address, secret, network, takes_code=not values["no_code"])
        click.echo(greeting(process, address[0]), err=True)
        process.run(noted)
