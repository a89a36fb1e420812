"""Options of a recording that `trace tap`, `trace sniff` and `trace import` share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flinknet.errors import ConfigError
from flinknet.units import parse_size_bytes

from .files import say_warnings
from .option_tables import REST_FILES
from .replay_options import rest_place
from .result_files import metrics_endpoint
from .value_parsers import some_time

if TYPE_CHECKING:
    from flinknet.capture.recording import Rotation
    from flinknet.capture.rest.http_client import RestPlace
    from flinknet.capture.rest.settings import Layer
    from flinknet.capture.session import SessionConfig
    from flinknet.report.tap_console import TapView

_ROTATE_BYTES_MIN = 64 << 10
"""Smallest size for --rotate, in bytes, as each trace file has a header and an index."""

CAPTURE = f"""
[How long]
--duration TIME
    Stop after TIME. [default: at Ctrl-C]
--rotate SIZE|TIME
    Begin a new trace file at this size (256MiB) or age (10min).
--ring TIME
    Keep only the last TIME before the end, as 60s.
--trigger BOUND
    With --ring TIME: when this becomes true, such as 'no_credit>50%', keep the TIME before and half
    of TIME after it. Everything else is dropped.
[Flink]
--flink-version VERSION
    Release of Flink: 1.20, or 2.0 to 2.3. [default: detected on each connection]
--flink-conf FILE
    The cluster's config.yaml or FlinkDeployment: its settings go into the trace, because they are
    not on the wire. It overrides what --rest reports about the cluster; a job's own settings
    override both.
--rest URL
    Flink's REST API, such as http://localhost:8081. From it, the names of vertices and tasks, the
    settings of the cluster and its jobs, and Flink's own metrics, once a second, go into the trace.
{REST_FILES}
--records/--no-records
    Read the lengths of records in payloads, to count them. [default: records]
--record-times/--no-record-times
    Read the timestamps of records, watermarks and latency markers. [default: record-times]
"""
"""Options of a recording."""


def only_live(values: Mapping[str, Any]) -> list[str]:
    """Names of the given options that make no sense for a capture that has ended."""
    names = ("duration", "ring", "trigger", "rest", "metrics_port")
    return [f"--{each.replace('_', '-')}" for each in names if values[each] is not None]


def session_settings(values: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """The fields of a SessionConfig. Raises: ConfigError."""
    from flinknet.capture.meter import Trigger
    from flinknet.capture.observer import layout_of_release

    trigger, duration = values["trigger"], values["duration"]
    if trigger is not None and values["ring"] is None:
        raise ConfigError("--trigger: chooses what a ring keeps; give --ring, such as 60s, too")
    return {
        "out": directory,
        "layout": layout_of_release(values["flink_version"]),
        "counts_records": values["records"],
        "has_times": values["record_times"],
        "rotation": _rotation(values["rotate"], values["ring"]),
        "trigger": None if trigger is None else Trigger.parse(trigger),
        "duration_ns": None if duration is None else some_time(duration, "--duration"),
        "stated": _stated(values["flink_conf"]),
        "rest": _rest(values),
    }


def print_begin(view: TapView, config: SessionConfig, earlier: str = "") -> None:
    """Print where a recording goes, after `earlier`."""
    from flinknet.report.tap_console import recording_line

    kept = config.rotation.ring_ns, "" if config.trigger is None else config.trigger.text
    line = recording_line(str(config.out), config.duration_ns, *kept)
    view.console.print(earlier + line, soft_wrap=True, highlight=False)


def showing(
    values: Mapping[str, Any], view: TapView
) -> tuple[Callable[[dict[str, Any]], None], Any]:
    """Functions that show figures in a view and to Prometheus, and that answer Prometheus."""
    from flinknet.report.live import tap_metrics

    if values["metrics_port"] is None:
        return view.update, lambda: None
    endpoint = metrics_endpoint(values["metrics_port"], view.console)
    click.get_current_context().call_on_close(endpoint.close)

    def show(look: dict[str, Any]) -> None:
        if "channels" in look:
            endpoint.publish(tap_metrics(look))
        view.update(look)

    return show, endpoint.poll


def _rotation(rotate: str | None, ring: str | None) -> Rotation:
    from flinknet.capture.recording import Rotation

    if ring is not None:
        if rotate is not None:
            raise ConfigError("--rotate and --ring do not go together: a ring rotates by itself")
        return Rotation(ring_ns=some_time(ring, "--ring"))
    if rotate is None:
        return Rotation()
    try:
        return Rotation(rotate_ns=some_time(rotate, "--rotate"))
    except ConfigError:
        try:
            size = parse_size_bytes(rotate, "--rotate")
        except ConfigError:
            size = 0
    if 0 < size < _ROTATE_BYTES_MIN:
        raise ConfigError(f"--rotate: {rotate!r} is too small; give 64kb or more, such as 256MiB")
    if not size:
        raise ConfigError(
            f"--rotate: {rotate!r} is neither a size nor a time; write 256MiB or 10min"
        )
    return Rotation(rotate_bytes=size)


def _rest(values: Mapping[str, Any]) -> RestPlace | None:
    place = rest_place(values)
    if place is None:
        return None
    from flinknet.capture.rest.http_client import RestClient

    return replace(place, place=RestClient(place).url)


def _stated(flink_conf: str | None) -> tuple[Layer, ...]:
    """The cluster's network settings from its configuration file."""
    if flink_conf is None:
        return ()
    from flinknet import options as flink
    from flinknet.capture.rest.settings import Layer

    settings, warnings = flink.read_flink_conf(Path(flink_conf))
    say_warnings(warnings)
    flink.network_config(settings)  # refuses what Flink would refuse
    return (Layer(Path(flink_conf).name, settings),)
