"""`flinknet trace tap`: records a real Flink's traffic, as a proxy between its TaskManagers.

The options of a recording are here, too; `trace sniff` and `trace import` have them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flinknet.errors import ConfigError, FlinknetError, TraceError
from flinknet.units import format_address

from .commands import SectionedCommand
from .files import Outputs, check_new_directory, first_line, say_warnings, usable
from .metrics_port import serve_metrics
from .option_tables import REST_FILES, options
from .replay_options import rest_place
from .value_parsers import address, some_time

if TYPE_CHECKING:
    from flinknet.capture.rest.settings import Layer
    from flinknet.capture.session import SessionConfig
    from flinknet.capture.tap import TlsContexts
    from flinknet.report.tap_console import TapView

CAPTURE = f"""
[How long]
--duration TIME
    Stop after TIME. [default: at Ctrl-C]
--ring TIME
    Keep only the last TIME before the end, as 60s.
--trigger BOUND
    With --ring TIME: when this becomes true, such as 'no_credit>50%', keep the TIME before and half
    of TIME after it. Everything else is dropped.
[Flink]
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

_EPILOG = """Two lines in a TaskManager's configuration make its consumers connect to the tap. The
job's code stays as it is. The job restarts twice: when the lines are added, and when they are
removed.

\b
  taskmanager.data.port: 7001        what consumers connect to: the tap's port
  taskmanager.data.bind-port: 7101   where the TaskManager listens

If the data port is 0 (Flink's default), a TaskManager takes another port at each start. In that
case, redirect the connections of Flink's user, and run the tap as another user (Linux, as root):

\b
  iptables -t nat -A OUTPUT -p tcp -m owner --uid-owner flink \\
      --dport 32768:60999 -j REDIRECT --to-ports 7000

Before that, set taskmanager.rpc.port, metrics.internal.query-service.port and blob.server.port to
ports outside this range: they are 0 by default, too, and RPC must not pass through the tap.

Start the tap before the job. End it with Ctrl-C or SIGTERM: it saves and prints its result,
and exits with 0. That closes the connections through it, and Flink restarts the jobs that use them.

--trigger takes these metrics; they are updated once a second. The first three are shares of that
second, on the worst channel:

\b
  no_credit        the channel had no credit: its consumer had stopped reading
  credit_starved   the same, while data was known to be waiting
  blocked          a checkpoint barrier blocked the channel
  backlog_buffers, throughput (bytes/s), records (per s), connections,
  added_delay (p99)
"""


NEW_OUT = """
--out DIR required
    New run directory for the trace. If it holds a trace already: DIR-2, DIR-3 and so on.
"""
_OPTIONS = f"""
[Where]
--listen HOST:PORT[-PORT] ... required
    Where consumers connect to: the TaskManager's taskmanager.data.port, or a range of ports for all
    TaskManagers of a host, HOST:7001-7008. May be repeated, with an --upstream for each.
--upstream HOST:PORT[-PORT]|redirected ... required
    Where the TaskManager listens: its taskmanager.data.bind-port, or a range of as many ports.
    redirected: wherever a connection was going when iptables redirected it to the tap.
{NEW_OUT}
{CAPTURE}
[TLS]
--tls-cert FILE
    PEM file: the tap's certificate, for both sides.
--tls-key FILE
    PEM file: the key of the certificate.
--tls-ca FILE
    PEM file: the authority whose certificates the tap accepts.
--tls-password-file FILE
    File whose first line is the password of the key.
[Output]
--metrics-port --json --details
"""


@click.command(cls=SectionedCommand, epilog=_EPILOG)
@options(_OPTIONS)
def tap(**values: Any) -> None:
    """Record every message between real TaskManagers, as a proxy between them.

    \b
    flinknet trace tap --listen 127.0.0.1:7001 --upstream 127.0.0.1:7101 \\
        --out tapped
        one TaskManager behind the tap, until Ctrl-C
    flinknet trace tap --listen 0.0.0.0:7001 --upstream 127.0.0.1:7101 \\
        --listen 0.0.0.0:7002 --upstream 127.0.0.1:7102 \\
        --out tapped --duration 1min
        two of them
    flinknet trace tap --listen 0.0.0.0:7001-7008 \\
        --upstream 127.0.0.1:7101-7108 --out tapped
        all that a host may have; some may be missing or restart
    flinknet trace tap … --ring 60s --trigger 'no_credit>50%'
        run for days, keep only the time around a trigger
    flinknet trace tap … --rest http://localhost:8081
        name channels after their tasks; record settings and metrics of Flink
    flinknet trace tap --listen 0.0.0.0:7000 --upstream redirected --out tapped
        all TaskManagers of a host whose data port is 0, with an iptables rule

    Bytes are forwarded as they arrive, before they are decoded; what cannot be decoded is forwarded
    all the same. No payload is stored. The trace is like those of `flinknet bench`.
    """
    from flinknet.capture.tap import Tap, TapConfig
    from flinknet.report.console import console_for
    from flinknet.report.export import write_json
    from flinknet.report.tap_console import TapView, setting_lines, tap_view
    from flinknet.trace.manifest import RESULT_NAME
    from flinknet.trace.run_directory import seal_result

    outputs = Outputs.of(values)
    out = Path(values["out"])
    directory = free_directory(out)
    config = TapConfig(
        pairs=pairs_of(values["listen"], values["upstream"]),
        tls=_tls(values),
        **session_settings(values, directory),
    )
    talk = console_for(sys.stderr)
    view = TapView(talk)
    session = Tap(config, showing(values, view))
    view.listening = [format_address(*each) for each in session.addresses]

    def show_settings() -> None:
        upstreams = [each for _, each in config.pairs]
        for line in setting_lines(list(zip(session.addresses, upstreams, strict=True))):
            talk.print(line, soft_wrap=True, highlight=False)
        earlier = "" if directory == out else f"{out} holds a trace already: "
        print_begin(view, config, earlier)

    with view:
        result = session.run(show_settings)
    try:
        write_json(directory / RESULT_NAME, result)
        seal_result(directory)
    except (OSError, FlinknetError) as error:  # the summary is still printed
        result["recording_error"] = result["recording_error"] or str(error)
    outputs.write(tap_view(result, str(directory)), result)
    if result["recording_error"] is not None:
        raise TraceError(f"all was forwarded, but {result['recording_error']}")


def only_live(values: Mapping[str, Any]) -> list[str]:
    """Names of the given options that make no sense for a capture that has ended."""
    names = ("duration", "ring", "trigger", "rest", "metrics_port")
    return [f"--{each.replace('_', '-')}" for each in names if values[each] is not None]


def session_settings(values: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """The fields of a SessionConfig. Raises: ConfigError."""
    from flinknet.capture.meter import Trigger
    from flinknet.capture.rest.http_client import RestClient

    trigger, duration, rest = values["trigger"], values["duration"], rest_place(values)
    ring = values["ring"]
    if trigger is not None and ring is None:
        raise ConfigError("--trigger: chooses what a ring keeps; give --ring, such as 60s, too")
    return {
        "out": directory,
        "counts_records": values["records"],
        "has_times": values["record_times"],
        "ring_ns": None if ring is None else some_time(ring, "--ring"),
        "trigger": None if trigger is None else Trigger.parse(trigger),
        "duration_ns": None if duration is None else some_time(duration, "--duration"),
        "stated": _stated(values["flink_conf"]),
        "rest": None if rest is None else replace(rest, place=RestClient(rest).url),
    }


def print_begin(view: TapView, config: SessionConfig, earlier: str = "") -> None:
    """Print where a recording goes, after `earlier`."""
    from flinknet.report.tap_console import recording_line

    kept = config.ring_ns, "" if config.trigger is None else config.trigger.text
    line = recording_line(str(config.out), config.duration_ns, *kept)
    view.console.print(earlier + line, soft_wrap=True, highlight=False)


def showing(values: Mapping[str, Any], view: TapView) -> Callable[[dict[str, Any]], None]:
    """A function that shows figures in a view and to Prometheus."""
    from flinknet.report.live import tap_metrics

    if values["metrics_port"] is None:
        return view.update
    publish = serve_metrics(values["metrics_port"], view.console)

    def show(look: dict[str, Any]) -> None:
        if "channels" in look:
            publish(tap_metrics(look))
        view.update(look)

    return show


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


def free_directory(out: Path) -> Path:
    """The directory to record into: the given one or, if it has a trace already, the first free one
    of NAME-2, NAME-3 and so on; of NAME/2, NAME/3 at a mount point or below a read-only directory.
    """
    out = out.absolute() if not out.name else out
    is_inside = os.path.ismount(out) or not os.access(out.absolute().parent, os.W_OK)
    from flinknet.trace.run import TRACE_SUFFIX

    path, number = out, 1
    with usable(out):
        while any(path.glob(f"*{TRACE_SUFFIX}")):
            number += 1
            path = out / str(number) if is_inside else out.with_name(f"{out.name}-{number}")
    check_new_directory(path)
    return path


def pairs_of(
    listen: Sequence[str], upstream: Sequence[str]
) -> tuple[tuple[tuple[str, int], tuple[str, int] | None], ...]:
    from flinknet.capture.tap.ends import REDIRECTED

    if len(listen) != len(upstream):
        raise ConfigError(
            f"{len(listen)} times --listen and {len(upstream)} times --upstream: each address to"
            " listen on needs its upstream, in the same order"
        )
    pairs: list[tuple[tuple[str, int], tuple[str, int] | None]] = []
    for own_text, upstream_text in zip(listen, upstream, strict=True):
        own = _addresses(own_text, "--listen", lowest=0)
        if upstream_text.strip() == REDIRECTED:
            pairs += [(each, None) for each in own]
            continue
        targets = _addresses(upstream_text, "--upstream", lowest=1)
        if len(own) != len(targets):
            raise ConfigError(
                f"--listen {own_text} has {len(own)} ports and --upstream {upstream_text}"
                f" {len(targets)}: each port to listen on needs its upstream"
            )
        pairs += zip(own, targets, strict=True)
    return tuple(pairs)


def _addresses(text: str, option: str, *, lowest: int) -> list[tuple[str, int]]:
    """An address, or one for each port of a range HOST:FIRST-LAST."""
    range_text, dash, last_text = text.strip().rpartition("-")
    if not dash or not last_text.isdecimal() or ":" not in range_text:
        return [address(text, option, lowest=lowest)]
    host, first = address(range_text, option, lowest=1)
    _, last = address(f"[{host}]:{last_text}", option, lowest=1)
    if last < first:
        raise ConfigError(f"{option}: {text!r} runs backwards; write HOST:FIRST-LAST")
    return [(host, port) for port in range(first, last + 1)]


def _tls(values: Mapping[str, Any]) -> TlsContexts | None:
    files = [values[name] for name in ("tls_cert", "tls_key", "tls_ca")]
    password_file = values["tls_password_file"]
    if not any((*files, password_file)):
        return None
    if None in files:
        raise ConfigError("--tls-cert, --tls-key and --tls-ca go together; give all three")
    from flinknet.capture.tap import create_contexts

    password = "" if password_file is None else first_line(password_file, "--tls-password-file")
    certificate, key, authority = map(Path, files)
    return create_contexts(certificate, key, authority, password)
