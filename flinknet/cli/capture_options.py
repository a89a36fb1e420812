"""Options of a recording that `trace tap`, `trace sniff` and `trace import` share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flinknet.errors import ConfigError
from flinknet.units import parse_duration_ns, parse_size_bytes

from .replay_options import REST_FILES, RestFiles, rest_files_options
from .result_files import metrics_endpoint, metrics_port_option

if TYPE_CHECKING:
    from flinknet.capture.recording import Rotation
    from flinknet.capture.rest.http_client import RestPlace
    from flinknet.capture.rest.settings import Layer
    from flinknet.capture.session import SessionConfig
    from flinknet.report.tap_console import TapView

_ROTATE_BYTES_MIN = 64 << 10
"""Smallest size for --rotate, in bytes, as each trace file has a header and an index."""

CAPTURE_SECTIONS = {
    "How long": ("duration", "rotate", "ring", "trigger"),
    "Flink": ("flink-version", "flink-conf", "rest", *REST_FILES, "records", "record-times"),
}
"""Sections of help with these options; --metrics-port belongs to the output."""

_OPTIONS = (
    click.option(
        "--flink-version",
        metavar="VERSION",
        help="Release of Flink: 1.20, or 2.0 to 2.3. [default: detected on each connection]",
    ),
    click.option(
        "--records/--no-records",
        default=True,
        help="Read the lengths of records in payloads, to count them. [default: records]",
    ),
    click.option(
        "--record-times/--no-record-times",
        default=True,
        help="Read the timestamps of records, watermarks and latency markers. [default:"
        " record-times]",
    ),
    click.option("--duration", metavar="TIME", help="Stop after TIME. [default: at Ctrl-C]"),
    click.option(
        "--rotate",
        metavar="SIZE|TIME",
        help="Begin a new trace file at this size (256MiB) or age (10min).",
    ),
    click.option("--ring", metavar="TIME", help="Keep only the last TIME before the end, as 60s."),
    click.option(
        "--trigger",
        metavar="BOUND",
        help="With --ring TIME: when this becomes true, such as 'no_credit>50%', keep the TIME"
        " before and half of TIME after it. Everything else is dropped.",
    ),
    click.option(
        "--flink-conf",
        metavar="FILE",
        help="The cluster's config.yaml or FlinkDeployment: its settings go into the trace, because"
        " they are not on the wire. It overrides what --rest reports about the cluster; a job's own"
        " settings override both.",
    ),
    click.option(
        "--rest",
        metavar="URL",
        help="Flink's REST API, such as http://localhost:8081. From it, the names of vertices and"
        " tasks, the settings of the cluster and its jobs, and Flink's own metrics, once a second,"
        " go into the trace.",
    ),
    rest_files_options,
    metrics_port_option,
)


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """Values of the options, as given."""

    flink_version: str | None
    records: bool
    record_times: bool
    duration: str | None
    rotate: str | None
    ring: str | None
    trigger: str | None
    flink_conf: str | None
    rest: str | None
    rest_files: RestFiles
    metrics_port: str | None

    @property
    def only_live(self) -> list[str]:
        """Names of the given options that make no sense for a capture that has ended."""
        names = ("duration", "ring", "trigger", "rest", "metrics_port")
        return [f"--{each.replace('_', '-')}" for each in names if getattr(self, each) is not None]

    def values(self, directory: Path) -> dict[str, Any]:
        """The fields of a SessionConfig. Raises: ConfigError."""
        from flinknet.capture.meter import Trigger
        from flinknet.capture.observer import layout_of_release

        if self.trigger is not None and self.ring is None:
            raise ConfigError("--trigger: chooses what a ring keeps; give --ring, such as 60s, too")
        duration = self.duration
        return {
            "out": directory,
            "layout": layout_of_release(self.flink_version),
            "counts_records": self.records,
            "has_times": self.record_times,
            "rotation": _rotation(self.rotate, self.ring),
            "trigger": None if self.trigger is None else Trigger.parse(self.trigger),
            "duration_ns": None if duration is None else positive_duration(duration, "--duration"),
            "stated": _stated(self.flink_conf),
            "rest": _rest(self.rest, self.rest_files),
        }

    @staticmethod
    def begin(view: TapView, config: SessionConfig, earlier: str = "") -> None:
        """Print where a recording goes, after `earlier`."""
        from flinknet.report.tap_console import recording_line

        kept = config.rotation.ring_ns, "" if config.trigger is None else config.trigger.text
        line = recording_line(str(config.out), config.duration_ns, *kept)
        view.console.print(earlier + line, soft_wrap=True, highlight=False)

    def showing(self, view: TapView) -> tuple[Callable[[dict[str, Any]], None], Any]:
        """Functions that show figures in a view and to Prometheus, and that answer Prometheus."""
        from flinknet.report.live import tap_metrics

        if self.metrics_port is None:
            return view.update, lambda: None
        endpoint = metrics_endpoint(self.metrics_port, view.console)
        click.get_current_context().call_on_close(endpoint.close)

        def show(look: dict[str, Any]) -> None:
            if "channels" in look:
                endpoint.publish(tap_metrics(look))
            view.update(look)

        return show, endpoint.poll


def capture_options(command: Any) -> Any:
    """Add the options to a command, which gets their values as `options`."""

    @wraps(command)
    def called(*args: Any, **values: Any) -> Any:
        own = {name: values.pop(name) for name in CaptureOptions.__slots__}
        return command(*args, options=CaptureOptions(**own), **values)

    for option in reversed(_OPTIONS):
        called = option(called)
    return called


def positive_duration(text: str, option: str) -> int:
    """A duration above 0, in ns. Raises: ConfigError."""
    duration_ns = parse_duration_ns(text, option, bare_unit=None)
    if not duration_ns:
        raise ConfigError(f"{option}: 0 is too short; give some seconds, such as 60s")
    return duration_ns


def _rotation(rotate: str | None, ring: str | None) -> Rotation:
    from flinknet.capture.recording import Rotation

    if ring is not None:
        if rotate is not None:
            raise ConfigError("--rotate and --ring do not go together: a ring rotates by itself")
        return Rotation(ring_ns=positive_duration(ring, "--ring"))
    if rotate is None:
        return Rotation()
    try:
        return Rotation(rotate_ns=positive_duration(rotate, "--rotate"))
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


def _rest(rest: str | None, files: RestFiles) -> RestPlace | None:
    place = files.place(rest)
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
    for warning in warnings:
        click.echo(f"flinknet: {warning.text}", err=True)
    flink.network_config(settings)  # refuses what Flink would refuse
    return (Layer(Path(flink_conf).name, settings),)
