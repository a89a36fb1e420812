"""Common part of `flinknet bench consume` and `bench produce`: flinknet is one end of an exchange,
a TaskManager of Flink the other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flinknet.config import CREDIT, Scenario
from flinknet.core.wire.ids import ResultPartitionID
from flinknet.errors import ConfigError, LocalProtocolError, RunFailedError
from flinknet.storage import AnyPath

from .json_files import STDOUT, put_json, target_of
from .options import Settings, check_single_values, scenario_of

if TYPE_CHECKING:
    from flinknet.results import PeerResult
    from flinknet.runtime.cluster.peer import Peer


def run_peer(values: Mapping[str, Any], create: Callable[[list[int]], Peer]) -> None:
    """Run the peer that `create` makes of the list to which signals are added; print its result.

    Raises: ConfigError; the error that ended the exchange, after the result is printed;
        RunFailedError if records were lost, repeated or out of order.
    """
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
                _print_result(result, json_target)
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


def address_of(text: str, source: str) -> tuple[str, int]:
    """Host and port of HOST:PORT; `source` names the option in errors. Raises: ConfigError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise ConfigError(
            f"{source}: {text!r} is not HOST:PORT; write 127.0.0.1:6121 (ports end at 65535)"
        )
    return host, int(port)


def _print_result(result: PeerResult, json_target: AnyPath | str | None) -> None:
    from flinknet.report.bench_modes import peer_parts
    from flinknet.report.console import console_for, print_parts

    if json_target is not None:
        put_json(json_target, result.to_dict())
    if json_target != STDOUT and any(each.buffers or each.events for each in result.channels):
        print_parts(console_for(sys.stdout), peer_parts(result))
    if result.trace is not None:
        click.echo(f"trace: {result.trace}", err=True)
